from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.project.known import FOLDED, KnownFiles
from aish_lsp.project.tree import tree

PARTS = st.sampled_from(["a", "b", "c", "a.b", "a0", "ü"])
NAMES = st.sets(st.lists(PARTS, min_size=1, max_size=5).map("/".join), max_size=60).map(
    lambda names: sorted(
        name for name in names if not any(other.startswith(f"{name}/") for other in names)
    )
)


def known(names: list[str], limit: int | None = None, piece: int = 1000) -> KnownFiles:
    found = KnownFiles(limit)
    for at in range(0, len(names), piece):
        found.extend(names[at : at + piece])
    found.sort()
    return found


@given(names=NAMES, limit=st.integers(4, 30), piece=st.integers(1, 70))
def test_of_too_many_the_counts_are_right(names: list[str], limit: int, piece: int) -> None:
    found = known(names, limit, piece)
    assert found.total == len(names)
    assert len(found.names) <= limit
    assert {name for name in found.names if not name.endswith(FOLDED)} <= set(names)
    whole = known(names)
    for folder in {name.rpartition("/")[0] for name in found.names if "/" in name}:
        assert found.count(*found.inside(folder)) == whole.count(*whole.inside(folder))
    # What is folded is told by the names, not by the pieces that they came in.
    assert (found.names, found.folded) == (known(names, limit).names, known(names, limit).folded)


@given(names=NAMES, limit=st.integers(4, 30), gone=st.data())
def test_what_is_gone_is_not_counted(names: list[str], limit: int, gone: st.DataObject) -> None:
    found = KnownFiles(limit)
    found.extend(list(names))
    dropped = gone.draw(st.sets(st.sampled_from(names))) if names else set()
    found.drop(dropped)
    found.sort()
    assert found.total == len(names) - len(dropped)


@given(names=NAMES, limit=st.integers(4, 30), changed=st.data())
def test_a_folder_is_counted_anew(names: list[str], limit: int, changed: st.DataObject) -> None:
    found = known(names, limit)
    if not names or found.unnamed:
        return
    name = changed.draw(st.sampled_from(names))
    place = found.folder_of(name) if found.is_folded(name) else name
    inside = [other for other in names if other == place or other.startswith(f"{place}/")]
    found.remove(place)
    assert found.total == len(names) - len(inside)
    found.extend(inside)
    found.sort()
    assert found.total == len(names)


@given(names=NAMES)
def test_names_in_a_folder(names: list[str]) -> None:
    found = known(names)
    for prefix in {"", *(f"{name.rpartition('/')[0]}/" for name in names if "/" in name)}:
        below = [name[len(prefix) :] for name in names if name.startswith(prefix)]
        assert found.names_in(prefix) == {name.split("/")[0] for name in below}


def test_a_folder_that_is_folded_is_shown_with_its_count() -> None:
    names = [f"src/part{part}/deep/file{number}.py" for part in range(3) for number in range(40)]
    found = known([*names, "src/main.py", "README.md"], 60)
    text, whole, _ = tree(found, depth=9, max_chars=4000)
    assert text == (
        "./\n  README.md\n  src/\n    part0/\n      deep/ … 40 files\n"
        "    part1/\n      deep/ … 40 files\n    part2/\n      deep/ … 40 files\n    main.py"
    )
    assert not whole


def test_too_many_files_in_the_root_are_counted() -> None:
    found = known([f"file{number:03}" for number in range(500)], 100)
    lines = tree(found, depth=4, max_chars=4000).text.split("\n")
    assert lines[-1] == f"  … {500 - (len(lines) - 2)} more files"
    assert found.total == 500


@pytest.mark.slow
def test_what_is_gone_from_too_many_files_in_the_root_is_counted_once() -> None:
    found = KnownFiles(4)
    found.extend(["a", "b", "c", "d", "e"])
    found.drop({"a", "e"})
    found.sort()
    assert (found.names, found.total) == (["b"], 3)


def test_deep_folders_are_folded_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, fold = [], KnownFiles._fold

    def counted(self: KnownFiles, limit: int) -> None:
        steps.append(limit)
        fold(self, limit)

    monkeypatch.setattr(KnownFiles, "_fold", counted)
    names = ["a/" * (number % 100) + str(number) for number in range(3000)]
    assert known(names, 1000).total == 3000
    assert len(steps) < 10


@pytest.mark.slow
def test_many_times_more_names_than_the_limit_are_kept_within_it() -> None:
    found = KnownFiles(4_000)
    for part in range(1000):
        found.extend([f"p{part // 50}/q{part % 50}/r{n // 50}/f{n}" for n in range(200)])
    found.sort()
    assert found.total == 200_000
    assert len(found.names) <= 4_000
    counts = Counter(name.split("/")[0] for name in found.names)
    assert len(counts) == 20
    assert "p7/ … 10000 files" in tree(found, depth=1, max_chars=4000).text
