"""What is read as the user's message, and what never is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.chat.markdown import (
    YOU,
    Change,
    ClientPosition,
    OutputBlock,
    escape_reply,
    heading_after,
    last_heading,
    lines_of,
    open_heading,
    prompt_after,
)
from aish_lsp.foundation.errors import NotFound

DOCUMENT = "# aish\n\n## You\n\nold\n\n## aish\n\nreply\n\n## You\n\nnew\n"


def change(text: str, *range_: int) -> Change:
    start_line, start, end_line, end = range_
    return Change(text, ClientPosition(start_line, start), ClientPosition(end_line, end))


def applied(document: str, edit: Change) -> str:
    """Return ``document`` (LF only, characters as units) after ``edit``, as an editor has it."""
    if edit.start is None or edit.end is None:
        return edit.text

    def offset(position: ClientPosition) -> int:
        lines = document.split("\n")
        return sum(len(line) + 1 for line in lines[: position.line]) + position.character

    return document[: offset(edit.start)] + edit.text + document[offset(edit.end) :]


def test_what_follows_the_heading() -> None:
    assert prompt_after(DOCUMENT, 10) == "new"
    assert prompt_after(DOCUMENT.replace("\n", "\r\n"), 10) == "new"
    assert prompt_after(DOCUMENT.replace("\n", "\r"), 10) == "new"
    assert prompt_after(f"{YOU}", 0) == ""
    assert prompt_after(f"{YOU}\n \n\t\n\n", 0) == ""


def test_blank_lines_go_and_indentation_stays() -> None:
    assert prompt_after("## You\n\n \n  a\n\n  b \n\n", 0) == "  a\n\n  b"


def test_a_message_may_hold_a_heading() -> None:
    text = f"{DOCUMENT}\n## You\n\nsaid the cat\n\n## aish\n\nsaid the dog\n"
    assert prompt_after(text, 10) == ("new\n\n## You\n\nsaid the cat\n\n## aish\n\nsaid the dog")


@pytest.mark.parametrize("place", [None, 9, 500])
def test_the_last_heading_counts_where_the_place_is_lost(place: int | None) -> None:
    assert prompt_after(DOCUMENT, place) == "new"


@pytest.mark.parametrize("text", ["", "hello\n", DOCUMENT.replace("## You\n\nnew", "new")])
def test_what_was_answered_is_no_new_message(text: str) -> None:
    with pytest.raises(NotFound, match=r"`## You`.* at its end"):
        prompt_after(text, 10)
    assert prompt_after(f"{text}\n## You\nagain", None) == "again"


forged = st.lists(
    st.sampled_from(["## You", "## aish", "\n", "\r", "\u2028", " ", ":run x", "a", "```"])
).map("".join)


@given(forged, st.booleans(), forged)
def test_nothing_of_a_reply_is_read(reply: str, keeps_place: bool, message: str) -> None:
    start = f"# aish\n\n## You\n\nold\n\n## aish\n\n{escape_reply(reply)}\n\n"
    block = OutputBlock("x")
    start += block.open() + block.feed(reply) + block.close("exit status 0")
    place = len(lines_of(start)) - 1
    expected = prompt_after(f"{YOU}\n{message}", 0)
    if keeps_place:
        assert prompt_after(f"{start}{YOU}\n{message}", place) == expected
    else:
        with pytest.raises(NotFound):
            prompt_after(start, None)


lines = st.sampled_from(["", "a", "## You", "longer line", "## aish"])
documents = st.lists(lines, min_size=1, max_size=8).map("\n".join)


@st.composite
def edits(draw: st.DrawFn, document: str) -> Change:
    rows = document.split("\n")
    positions = st.integers(0, len(rows) - 1).flatmap(
        lambda row: st.integers(0, len(rows[row])).map(lambda column: ClientPosition(row, column))
    )
    start, end = sorted([draw(positions), draw(positions)])
    return Change(draw(documents), start, end)


@given(st.data(), documents, documents)
def test_the_heading_follows_every_edit_that_spares_it(
    data: st.DataObject, above: str, below: str
) -> None:
    before = f"{above}\n"
    text = f"{before}{YOU} unique\n{below}"
    place = before.count("\n")
    for _ in range(3):
        edit = data.draw(edits(text))
        assert edit.start is not None
        assert edit.end is not None
        after = applied(text, edit)
        line = heading_after(place, edit)
        spared = edit.end < ClientPosition(place, 0) or edit.start.line > place
        if not spared:
            return
        assert lines_of(after)[line] == f"{YOU} unique"
        text, place = after, line


def test_text_put_right_before_the_heading_moves_it() -> None:
    edit = change("more\n", 10, 0, 10, 0)
    assert heading_after(10, edit) == 11
    assert prompt_after(applied(DOCUMENT, edit), 11) == "new"


def test_typing_behind_the_heading_keeps_it() -> None:
    assert heading_after(10, change("\nmore", 10, 6, 10, 6)) == 10
    assert heading_after(10, change("x", 12, 0, 12, 3)) == 10


def test_a_heading_that_is_broken_and_mended_is_found() -> None:
    broken = change("r", 10, 6, 10, 6)
    mended = change("", 10, 6, 10, 7)
    assert heading_after(heading_after(10, broken), mended) == 10
    text = applied(DOCUMENT, broken)
    with pytest.raises(NotFound):
        prompt_after(text, 10)
    assert prompt_after(applied(text, mended), 10) == "new"


def test_an_edit_over_the_heading_finds_the_nearest_in_the_new_text() -> None:
    whole = change(f"# aish\n{DOCUMENT}", 0, 0, 13, 0)
    assert heading_after(10, whole) == 11
    assert heading_after(10, change("gone", 9, 0, 12, 3)) == 9
    half = change("## You\nx\n## You\ny", 10, 3, 12, 3)
    assert heading_after(10, half) == 12


def test_a_new_text_of_the_whole_document() -> None:
    text = f"intro\n{DOCUMENT}\n## You\nmine"
    assert heading_after(10, Change(text)) == 11
    assert heading_after(10, Change("nothing")) == 10
    assert heading_after(1, Change("## You\n\n## You")) == 2


def test_the_last_heading() -> None:
    assert last_heading(DOCUMENT) == open_heading(DOCUMENT) == 10
    assert open_heading(f"{DOCUMENT}\n## aish\n") is None
    assert last_heading(f"{DOCUMENT}\n## aish\n") == 10
    assert last_heading(" ## You\n## You!\n## you") is None
