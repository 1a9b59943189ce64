"""What is read as the user's message, and what never is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.chat.markdown import (
    YOU,
    Change,
    OutputBlock,
    Place,
    Position,
    escape_reply,
    last_place,
    lines_of,
    open_place,
    prompt_after,
)
from aish_lsp.foundation.errors import NotFound

DOCUMENT = "# aish\n\n## You\n\nold\n\n## aish\n\nreply\n\n## You\n\nnew\n"


def change(text: str, *range_: int) -> Change:
    start_line, start, end_line, end = range_
    return Change(text, Position(start_line, start), Position(end_line, end))


def applied(document: str, edit: Change) -> str:
    """Return ``document`` (LF only, characters as units) after ``edit``, as an editor has it."""
    if edit.start is None or edit.end is None:
        return edit.text

    def offset(position: Position) -> int:
        lines = document.split("\n")
        return sum(len(line) + 1 for line in lines[: position.line]) + position.character

    return document[: offset(edit.start)] + edit.text + document[offset(edit.end) :]


def test_what_follows_the_heading() -> None:
    assert prompt_after(DOCUMENT, Place(10)) == "new"
    assert prompt_after(DOCUMENT.replace("\n", "\r\n"), Place(10)) == "new"
    assert prompt_after(DOCUMENT.replace("\n", "\r"), Place(10)) == "new"
    assert prompt_after(f"{YOU}", Place(0)) == ""
    assert prompt_after(f"{YOU}\n \n\t\n\n", Place(0)) == ""


def test_blank_lines_go_and_indentation_stays() -> None:
    assert prompt_after("## You\n\n \n  a\n\n  b \n\n", Place(0)) == "  a\n\n  b"


def test_a_message_may_hold_a_heading() -> None:
    text = f"{DOCUMENT}\n## You\n\nsaid the cat\n\n## aish\n\nsaid the dog\n"
    assert prompt_after(text, Place(10)) == (
        "new\n\n## You\n\nsaid the cat\n\n## aish\n\nsaid the dog"
    )


@pytest.mark.parametrize("place", [None, Place(9), Place(500)])
def test_the_last_heading_counts_where_the_place_is_lost(place: Place | None) -> None:
    assert prompt_after(DOCUMENT, place) == "new"


@pytest.mark.parametrize("text", ["", "hello\n", DOCUMENT.replace("## You\n\nnew", "new")])
def test_what_was_answered_is_no_new_message(text: str) -> None:
    with pytest.raises(NotFound, match=r"`## You`.*end of \.aish/chat\.md"):
        prompt_after(text, Place(10))
    assert prompt_after(f"{text}\n## You\nagain", None) == "again"


forged = st.lists(
    st.sampled_from(["## You", "## aish", "\n", "\r", "\u2028", " ", ":run x", "a", "```"])
).map("".join)


@given(forged, st.booleans(), forged)
def test_nothing_of_a_reply_is_read(reply: str, keeps_place: bool, message: str) -> None:
    start = f"# aish\n\n## You\n\nold\n\n## aish\n\n{escape_reply(reply)}\n\n"
    block = OutputBlock("x")
    start += block.open() + block.feed(reply) + block.close("exit status 0")
    place = Place(len(lines_of(start)) - 1)
    expected = prompt_after(f"{YOU}\n{message}", Place(0))
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
        lambda row: st.integers(0, len(rows[row])).map(lambda column: Position(row, column))
    )
    start, end = sorted([draw(positions), draw(positions)])
    return Change(draw(documents), start, end)


@given(st.data(), documents, documents)
def test_the_place_follows_every_edit_that_spares_it(
    data: st.DataObject, above: str, below: str
) -> None:
    before = f"{above}\n"
    text = f"{before}{YOU} unique\n{below}"
    place = Place(before.count("\n"))
    for _ in range(3):
        edit = data.draw(edits(text))
        assert edit.start is not None
        assert edit.end is not None
        after = applied(text, edit)
        line = place.shift(edit).line
        spared = edit.end < Position(place.line, 0) or edit.start.line > place.line
        if not spared:
            return
        assert lines_of(after)[line] == f"{YOU} unique"
        text, place = after, Place(line)


def test_text_put_right_before_the_heading_moves_it() -> None:
    edit = change("more\n", 10, 0, 10, 0)
    assert Place(10).shift(edit) == Place(11)
    assert prompt_after(applied(DOCUMENT, edit), Place(11)) == "new"


def test_typing_behind_the_heading_keeps_it() -> None:
    assert Place(10).shift(change("\nmore", 10, 6, 10, 6)) == Place(10)
    assert Place(10).shift(change("x", 12, 0, 12, 3)) == Place(10)


def test_a_heading_that_is_broken_and_mended_is_found() -> None:
    broken = change("r", 10, 6, 10, 6)
    mended = change("", 10, 6, 10, 7)
    assert Place(10).shift(broken).shift(mended) == Place(10)
    text = applied(DOCUMENT, broken)
    with pytest.raises(NotFound):
        prompt_after(text, Place(10))
    assert prompt_after(applied(text, mended), Place(10)) == "new"


def test_an_edit_over_the_heading_finds_the_nearest_in_the_new_text() -> None:
    whole = change(f"# aish\n{DOCUMENT}", 0, 0, 13, 0)
    assert Place(10).shift(whole) == Place(11)
    assert Place(10).shift(change("gone", 9, 0, 12, 3)) == Place(9)
    half = change("## You\nx\n## You\ny", 10, 3, 12, 3)
    assert Place(10).shift(half) == Place(12)


def test_a_new_text_of_the_whole_document() -> None:
    text = f"intro\n{DOCUMENT}\n## You\nmine"
    assert Place(10).shift(Change(text)) == Place(11)
    assert Place(10).shift(Change("nothing")) == Place(10)
    assert Place(1).shift(Change("## You\n\n## You")) == Place(2)


def test_the_last_place() -> None:
    assert last_place(DOCUMENT) == open_place(DOCUMENT) == Place(10)
    assert open_place(f"{DOCUMENT}\n## aish\n") is None
    assert last_place(f"{DOCUMENT}\n## aish\n") == Place(10)
    assert last_place(" ## You\n## You!\n## you") is None
