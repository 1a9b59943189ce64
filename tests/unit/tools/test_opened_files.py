"""What a tool names is checked on what was opened, and kept as it was but for what is changed.

The races are short; with ``AISH_FULL=1`` there are a thousand reads and a thousand writes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import string
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from swapping import swapped
from test_builtin_tools import Place, place

from aish_lsp.foundation.text import quoted_path, with_line_feeds
from aish_lsp.tools.writing import with_line_ends_of

__all__ = ["place"]

pytestmark = pytest.mark.slow

READS: Final = 1000 if "TESTS_FULL" in os.environ else 250
WRITES: Final = 1000 if "TESTS_FULL" in os.environ else 30

#: Calls that change a file ``a.txt`` which begins with "one".
CHANGES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("edit_file", {"path": "a.txt", "old": "one", "new": "two"}),
    ("write_file", {"path": "a.txt", "content": "two\n"}),
)

#: Names that would look like two entries, or like another one.
ODD_NAMES: Final = (
    *("a\nb.txt", "src\nmain/a.txt", "a\rb.txt", "tab\there", "a\u202eb.txt", "bell\x07"),
    *("ends in a blank ", " begins with one", '"quoted"', "a\\nb.txt", "\udcff.txt", "é\u200b.txt"),
)


@pytest.mark.timeout(7200 if "TESTS_FULL" in os.environ else 120)
async def test_no_read_is_led_out_of_the_workspace_by_a_swapped_folder(place: Place) -> None:
    outside = place.root / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("stolen needle\n")
    (outside / "b.txt").write_text("")
    place.put("src/a.txt", "own needle\n")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "src/a.txt"}),
        ("search", {"pattern": "needle"}),
        ("list_files", {"path": "src"}),
    ]
    results: list[str] = []
    with swapped(place.folder / "src", outside):
        while len(results) < READS or not any("own needle" in text for text in results):
            # The others start a process, and take longer.
            name, arguments = calls[len(results) % 3 if len(results) % 10 == 0 else 0]
            results.append((await place.call(name, **arguments)).text)
            await place.tools.begin()
    assert [text for text in results if "stolen" in text or "b.txt" in text] == []


@pytest.mark.timeout(7200 if "TESTS_FULL" in os.environ else 120)
async def test_no_write_is_led_out_of_the_workspace_by_a_swapped_folder(place: Place) -> None:
    outside = place.root / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("theirs 0\n")
    path = place.put("src/a.txt", "theirs 0\n")
    number = made = 0
    with swapped(path.parent, outside):
        while number < WRITES or not made:
            number += 1
            calls: tuple[tuple[str, dict[str, Any]], ...] = (
                (
                    "edit_file",
                    {"path": "src/a.txt", "old": "theirs", "new": f"ours {number} theirs"},
                ),
                ("write_file", {"path": f"src/new{number}.txt", "content": "made\n"}),
            )
            for name, arguments in calls:
                made += (await place.call(name, **arguments)).status == "done"
    assert [path.name for path in outside.iterdir()] == ["a.txt"]
    assert (outside / "a.txt").read_text() == "theirs 0\n"


@pytest.mark.parametrize("with_ripgrep", [True, False])
async def test_a_name_that_is_listed_or_found_is_one_entry_and_can_be_read(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, with_ripgrep: bool
) -> None:
    if with_ripgrep and shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    if not with_ripgrep:
        monkeypatch.setattr("aish_lsp.tools.reading._RIPGREP", "no-ripgrep-here")
    texts = {name: f"needle {number};\n" for number, name in enumerate(ODD_NAMES)}
    for name, text in texts.items():
        place.put(name, text)
    listed = (await place.call("list_files")).text.splitlines()
    assert len(listed) == len(ODD_NAMES) + 1
    found = (await place.call("search", pattern="needle")).text.splitlines()
    # What is not UTF-8 cannot be told apart in ripgrep's output.
    assert len(found) >= len(ODD_NAMES) - with_ripgrep
    seen = set()
    for row in [name for name in listed if name != ".gitignore"]:
        result = await place.call("read_file", path=row)
        seen.add(result.text.partition("\n")[2])
    assert seen == {text.removesuffix("\n") for text in texts.values()}
    for row in found:
        name, _, text = row.rpartition(":1: ")
        result = await place.call("read_file", path=name)
        assert result.text.partition("\n")[2] == text


@pytest.mark.parametrize("with_ripgrep", [True, False])
async def test_a_search_follows_no_link_and_counts_lines_as_a_read_does(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, with_ripgrep: bool
) -> None:
    if with_ripgrep and shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    if not with_ripgrep:
        monkeypatch.setattr("aish_lsp.tools.reading._RIPGREP", "no-ripgrep-here")
    place.put("ignored/a.txt", "hidden needle\n")
    (place.folder / "link.txt").symlink_to("ignored/a.txt")
    place.put("a.txt", b"one\rtwo\r\nthree\rfour\na needle\x0b\xe2\x80\xa8here\r\n")
    place.put("wide.txt", "needle\n".encode("utf-16"))
    found = await place.call("search", pattern="needle")
    assert found.text == "a.txt:5: a needle  here\n"
    part = await place.call("read_file", path="a.txt", start=5, end=5)
    assert "a needle" in part.text


@given(st.text(max_size=20))
@example("a\U000e0041b")
def test_a_quoted_path_is_on_one_line_and_says_which(name: str) -> None:
    shown = quoted_path(name)
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable()
    if shown != name:
        assert json.loads(shown) == name


async def test_a_home_is_outside_unless_it_holds_the_workspace(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("~/notes.txt", "~", "~root/notes.txt"):
        result = await place.call("write_file", path=name, content="x")
        assert (result.status, "outside of the workspace" in result.text) == ("failed", True), name
    assert place.asked == []
    assert not (place.folder / "~").exists()
    monkeypatch.setenv("HOME", str(place.root))
    place.put("a.txt", "one\n")
    assert (await place.call("read_file", path="~/workspace/a.txt")).text.endswith("one")
    place.put("~/b.txt", "two\n")
    assert (await place.call("read_file", path="~/b.txt")).text.endswith("two")
    assert (await place.call("write_file", path="~draft", content="x")).status == "done"


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o555])
async def test_a_file_that_is_read_only_is_not_replaced(place: Place, mode: int) -> None:
    path = place.put("a.txt", "one\n", mode)
    await place.call("read_file", path="a.txt")
    for name, arguments in CHANGES:
        result = await place.call(name, **arguments)
        assert f"is read-only (mode {mode:04o})" in result.text
    assert place.asked == []
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("one\n", mode)


async def test_a_file_is_no_folder(place: Place) -> None:
    place.put("a.txt", "one\n")
    for name, arguments in CHANGES:
        result = await place.call(name, **arguments | {"path": "a.txt/b.txt"})
        assert "A folder on the way to it is a symbolic link, or a file" in result.text
    assert place.asked == []


async def test_a_write_breaks_a_hard_link_and_says_so(place: Place) -> None:
    path = place.put("a.txt", "one\n", 0o640)
    outside = place.root / "cache.txt"
    outside.hardlink_to(path)
    result = await place.call("edit_file", path="a.txt", old="one", new="two")
    assert "1 other name (hard link), which still holds the old text" in result.text
    assert "it has other names (hard links), which keep the old text" in place.asked[0].message
    assert (path.read_text(), outside.read_text()) == ("two\n", "one\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    again = await place.call("edit_file", path="a.txt", old="two", new="three")
    assert "link" not in again.text


async def test_a_hard_link_to_a_secret_place_is_not_read(place: Place) -> None:
    key = Path(os.environ["HOME"]) / ".ssh" / "keys" / "id_work"
    key.parent.mkdir(parents=True)
    key.write_text("one needle of a key\n")
    (place.folder / "a.txt").hardlink_to(key)
    # A second name alone is no secret: package managers link everything.
    place.put("linked.txt", "needle\n")
    (place.root / "store.txt").hardlink_to(place.folder / "linked.txt")
    for name, arguments in (("read_file", {"path": "a.txt"}), *CHANGES):
        result = await place.call(name, **arguments)
        assert (result.status, "in a secret place" in result.text) == ("failed", True), result
    assert (await place.call("search", pattern="needle")).text == "linked.txt:1: needle\n"
    assert (await place.call("read_file", path="linked.txt")).text.endswith("needle")
    assert place.asked == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("caf\xe9\n".encode("latin-1"), "not UTF-8: \ufffd stands for"),
        ("café\n".encode("utf-16"), "is UTF-16, not UTF-8"),
        ("café\n".encode("utf-16-be"), "is binary"),
        (b"\xfe\xff" + "café\n".encode("utf-16-be"), "is UTF-16, not UTF-8"),
        (b"\xff\xfe\0\0" + "café\n".encode("utf-32-le"), "is UTF-32, not UTF-8"),
    ],
)
async def test_what_is_not_utf_8_is_named(place: Place, content: bytes, told: str) -> None:
    path = place.put("a.txt", content)
    assert told in (await place.call("read_file", path="a.txt")).text
    for tool, arguments in CHANGES:
        result = await place.call(tool, **arguments)
        assert result.status == "failed"
        assert re.search("not UTF-8|is binary|holds something else", result.text)
    assert path.read_bytes() == content


LINE = st.text(st.sampled_from("ab \t\ufeffé"), max_size=3)
PLACES = st.integers(0, 30)
RAW = st.lists(st.tuples(LINE, st.sampled_from(["\n", "\r\n", "\r"])), max_size=8)


@given(RAW, LINE)
@example([("a", "\r\n")], "b")
def test_a_text_that_did_not_change_has_its_line_ends(
    lines: list[tuple[str, str]], last: str
) -> None:
    raw = "".join(map("".join, lines)) + last
    assert with_line_ends_of(raw, with_line_feeds(raw)) == raw


@given(RAW, LINE, st.data())
@example([("a", "\r"), ("b", "\n")], "c", None)
def test_line_ends_of_a_text_that_changed_anywhere_never_become_one(
    lines: list[tuple[str, str]], last: str, data: st.DataObject | None
) -> None:
    raw = "".join(map("".join, lines)) + last
    old = with_line_feeds(raw)
    first, end = (2, 3) if data is None else sorted(data.draw(PLACES) for _ in range(2))
    text = old[:first] + old[end:]
    assert with_line_feeds(with_line_ends_of(raw, text)) == text


@given(RAW, st.data())
def test_only_the_lines_that_changed_have_other_line_ends(
    lines: list[tuple[str, str]], data: st.DataObject
) -> None:
    # Each line is another, so that it is certain which are still there.
    lines = [(string.digits[at] + line, end) for at, (line, end) in enumerate(lines)]
    first = data.draw(st.integers(0, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    new = data.draw(st.lists(LINE.map("new{}".format), max_size=3))
    before, after = ("".join(map("".join, part)) for part in (lines[:first], lines[last:]))
    raw = before + "".join(map("".join, lines[first:last])) + after
    text = with_line_feeds(before) + "".join(f"{line}\n" for line in new) + with_line_feeds(after)
    found = with_line_ends_of(raw, text)
    assert with_line_feeds(found) == text
    assert re.fullmatch(f"{re.escape(before)}.*{re.escape(after)}", found, re.DOTALL)
    # A line that takes the place of one takes its line end.
    kept = [end for _, end in lines[first:last]][: len(new)]
    assert re.findall("\r\n|\r|\n", found[len(before) :])[: len(kept)] == kept


@pytest.mark.parametrize(
    ("raw", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", b"x\r\ny\r\nc\r\n"),
        (b"a\rb\rc\r", "a\nb", "a\nx\ny", b"a\rx\ry\rc\r"),
        (b"a\rb\r\nc\nd", "b\nc", "B\nC", b"a\rB\r\nC\nd"),
        (b"one\rstays\nb\n", "b", "c", b"one\rstays\nc\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "a\nb\n", "", b"\xef\xbb\xbf"),
        (b"a\nb\r\nc\n", "a\nb\nc\n", "a\nc\n", b"a\nc\n"),
    ],
)
async def test_what_was_read_can_be_edited_whatever_its_line_ends(
    place: Place, raw: bytes, old: str, new: str, after: bytes
) -> None:
    path = place.put("a.txt", raw)
    shown = (await place.call("read_file", path="a.txt")).text.partition("\n")[2]
    assert old.removesuffix("\n") in shown
    assert (await place.call("edit_file", path="a.txt", old=old, new=new)).status == "done"
    assert path.read_bytes() == after


async def test_a_file_that_is_written_anew_keeps_the_line_ends_of_what_stays(place: Place) -> None:
    path = place.put("a.txt", b"one\rtwo\r\nthree\nfour\r\n")
    await place.call("read_file", path="a.txt")
    content = "one\ntwo\nnew\nthree\nFOUR\n"
    assert (await place.call("write_file", path="a.txt", content=content)).status == "done"
    assert path.read_bytes() == b"one\rtwo\r\nnew\r\nthree\nFOUR\r\n"
