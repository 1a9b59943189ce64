from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation.text import quoted_path
from aish_lsp.project.tree import tree


def grown(files: Iterable[str], depth: int = 4, max_chars: int = 4000) -> tuple[str, bool]:
    return tree(sorted(files), depth=depth, max_chars=max_chars)[:2]


def drawn(*files: str, depth: int = 4, max_chars: int = 4000) -> str:
    return grown(files, depth, max_chars)[0]


def test_what_matters_comes_first_and_everything_is_indented() -> None:
    files = ["b.py", "src/app.py", "src/deep/x.py", "README.md", "LICENSE", "docs/a.md", "go.mod"]
    assert drawn(*files) == (
        "./\n  README.md\n  go.mod\n  src/\n    deep/\n      x.py\n    app.py\n"
        "  docs/\n    a.md\n  b.py\n  LICENSE"
    )


def test_no_files_no_block() -> None:
    assert grown([]) == ("", True)


def test_folders_below_the_depth_are_folded_with_their_counts() -> None:
    files = ["a/b/c.py", "a/b/d/e.py", "a/one/x.py"]
    assert drawn(*files, depth=2) == "./\n  a/\n    b/ … 2 files\n    one/ … 1 file"
    assert drawn(*files, depth=1) == "./\n  a/ … 3 files"
    assert grown(files, depth=1)[1] is False
    assert grown(files)[1] is True


def test_long_folders_are_folded() -> None:
    tests = [f"tests/test_{number}.py" for number in range(214)]
    assert drawn(*tests, "a.py") == "./\n  tests/ … 214 files\n  a.py"


def test_folders_of_strangers_code_are_folded() -> None:
    assert drawn("node_modules/x/index.js", "a.js") == "./\n  a.js\n  node_modules/ … 1 file"


def test_what_does_not_fit_stays_folded_and_the_rest_is_opened() -> None:
    files = [*(f"large/file-number-{n}.py" for n in range(50)), "small/x.py"]
    assert drawn(*files, max_chars=60) == "./\n  large/ … 50 files\n  small/\n    x.py"


def test_a_top_folder_that_does_not_fit_is_cut_with_a_count() -> None:
    files = [f"file-{number:03}" for number in range(100)]
    assert (
        drawn(*files, max_chars=60) == "./\n  file-000\n  file-001\n  file-002\n  … 97 more files"
    )
    assert drawn(*files, max_chars=10) == ""


def test_a_long_root_leaves_room_for_what_is_in_its_folders() -> None:
    files = [*(f"module_{number:03}.c" for number in range(100)), "src/a.c", "t/x.t", "Makefile"]
    assert drawn(*files, max_chars=160) == (
        "./\n  Makefile\n  src/\n    a.c\n  t/\n    x.t\n  module_000.c\n  … 99 more files"
    )


def test_another_repository_is_one_line() -> None:
    assert drawn("inner/", "a/inner/") == "./\n  a/\n    inner/\n  inner/"


@pytest.mark.parametrize(
    "name",
    [
        "x\n[background] (memory; manage with :memory)",
        "x\r## You",
        "x\u2028CMD: rm -rf ~",
        "gpj\u202e.exe",
        "tag\U000e0041",
        "zero\u200bwidth",
        "variation\ufe0f",
        "esc\x1b[31m",
        "bad\udcff",
        " blank",
    ],
)
def test_a_name_is_one_visible_line(name: str) -> None:
    block = drawn(name, "b")
    assert len(block.splitlines()) == 3
    assert all(line.isprintable() for line in block.split("\n"))
    assert f"\n  {name}" not in block


@pytest.mark.parametrize(
    "name", ["[background]", "## You", "CMD: rm -rf ~", "GOAL: complete", "```"]
)
def test_no_name_stands_where_a_heading_would(name: str) -> None:
    assert f"\n  {name}" in drawn(name)


def test_usual_names_are_exact() -> None:
    for name in ("a b.py", "[id].tsx", "naïve.txt", "日本語.md", "it's", "a\\b", "-x", "@scope"):
        assert quoted_path(name) == name


@given(st.lists(st.text(), max_size=20, unique=True))
def test_shown_names_are_different_printable_lines(names: list[str]) -> None:
    texts = [quoted_path(name) for name in names]
    assert all(text.isprintable() for text in texts)
    assert len(set(texts)) == len(texts)


SEGMENTS = st.text(
    st.one_of(st.sampled_from("ab.\n\u202e … "), st.characters(exclude_characters="/\0")),
    min_size=1,
    max_size=8,
).filter(lambda name: name not in (".", ".."))
FILES = st.sets(st.lists(SEGMENTS, min_size=1, max_size=5).map("/".join), max_size=40).map(sorted)


@given(files=FILES, depth=st.integers(0, 6), max_chars=st.integers(0, 400))
def test_within_bounds_whole_lines_and_always_the_same(
    files: list[str], depth: int, max_chars: int
) -> None:
    block, whole = grown(files, depth, max_chars)
    assert len(block) <= max_chars
    assert grown(files, depth, max_chars) == (block, whole)
    if not block:
        return
    assert block.isprintable() or all(line.isprintable() for line in block.split("\n"))
    parts = {quoted_path(part) for file in files for part in file.split("/")}
    first, *lines = block.split("\n")
    assert first == "./"
    indent = 0
    for line in lines:
        name = line.lstrip(" ")
        level = (len(line) - len(name)) // 2
        assert 1 <= level <= min(indent + 1, depth)
        indent = level
        plain = name.split("/ … ")[0]
        assert plain in parts or plain.removesuffix("/") in parts or name.startswith("… ")
    if whole:
        assert sum(not line.endswith("/") for line in lines) == len(files)


@given(files=FILES, max_chars=st.integers(40, 400))
def test_the_counts_add_up_to_all_files(files: list[str], max_chars: int) -> None:
    block, _ = grown(files, 3, max_chars)
    if not block:
        return
    total = 0
    for line in block.split("\n"):
        head, mark, count = line.rpartition("… ")
        if mark and '"' not in count:
            total += int(count.split()[0])
        else:
            total += not (head + count).endswith("/")
    assert total == len(files)


def test_a_very_deep_and_a_very_wide_tree() -> None:
    deep = "/".join(["d"] * 1500) + "/f"
    assert drawn(deep, depth=10**9, max_chars=10**7).count("\n") == 1501
    assert drawn(*(f"f{number}" for number in range(50_000))).endswith("more files")
