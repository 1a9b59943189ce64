"""A part of a document followed through edits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.chat.markdown import Change, ClientPosition
from aish_lsp.lsp.selections import Span


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def position(text: str, offset: int) -> ClientPosition:
    before = text[:offset].split("\n")
    return ClientPosition(len(before) - 1, utf16(before[-1]))


def offset(text: str, at: ClientPosition) -> int:
    lines = text.split("\n")
    line, units = lines[at.line], at.character
    inside = next(n for n in range(len(line) + 1) if utf16(line[:n]) == units)
    return sum(len(line) + 1 for line in lines[: at.line]) + inside


TEXT = st.text(alphabet="ab\n😀é", max_size=30)


@given(st.data())
def test_edits_beside_it_move_it_and_edits_within_it_are_its_own(data: st.DataObject) -> None:
    before, selected, after = data.draw(TEXT), data.draw(TEXT.filter(bool)), data.draw(TEXT)
    text = before + selected + after
    start, end = len(before), len(before) + len(selected)
    span = Span(position(text, start), position(text, end))
    for _ in range(data.draw(st.integers(0, 5))):
        low, high = data.draw(
            st.sampled_from([(0, start), (end, len(text)), (start, end)]), label="where"
        )
        first = data.draw(st.integers(low, high))
        last = data.draw(st.integers(first, high))
        new = data.draw(TEXT)
        if first in (start, end) or last in (start, end):
            continue  # see below
        span = span.after(Change(new, position(text, first), position(text, last)), utf16)
        text = text[:first] + new + text[last:]
        grown = len(new) - (last - first)
        if last <= start:
            start, end = start + grown, end + grown
        elif first < end:
            end += grown
        assert not span.lost
        assert (offset(text, span.start), offset(text, span.end)) == (start, end)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), TEXT), max_size=6))
def test_whatever_changes_it_stays_a_span(edits: list[tuple[int, int, str]]) -> None:
    text = "abc\ndef\n😀 ghi\n" * 2
    span = Span(position(text, 4), position(text, 12))
    for one, other, new in edits:
        first, last = sorted((min(one, len(text)), min(other, len(text))))
        span = span.after(Change(new, position(text, first), position(text, last)), utf16)
        text = text[:first] + new + text[last:]
        assert ClientPosition(0, 0) <= span.start <= span.end


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        # Typed on its own lines, right before it or right behind it: it is another text.
        (Change("x", ClientPosition(1, 2), ClientPosition(1, 2)), ((1, 2), (2, 3))),
        (Change("a\nx", ClientPosition(1, 2), ClientPosition(1, 2)), ((1, 2), (3, 3))),
        (Change("x", ClientPosition(2, 3), ClientPosition(2, 3)), ((1, 2), (2, 4))),
        (Change("x\n", ClientPosition(2, 3), ClientPosition(2, 3)), ((1, 2), (3, 0))),
        # On lines of their own, or taken away: it is the same.
        (Change("x\n", ClientPosition(1, 2), ClientPosition(1, 2)), ((2, 0), (3, 3))),
        (Change("\nx", ClientPosition(2, 3), ClientPosition(2, 3)), ((1, 2), (2, 3))),
        (Change("", ClientPosition(2, 3), ClientPosition(2, 9)), ((1, 2), (2, 3))),
        (Change("", ClientPosition(1, 0), ClientPosition(1, 2)), ((1, 0), (2, 3))),
        (Change("", ClientPosition(0, 0), ClientPosition(1, 2)), ((0, 0), (1, 3))),
    ],
)
def test_what_touches_it(change: Change, moved: tuple[tuple[int, int], ...]) -> None:
    span = Span(ClientPosition(1, 2), ClientPosition(2, 3)).after(change, utf16)
    assert (span.start, span.end) == moved


def test_what_is_typed_on_the_line_below_whole_lines_is_not_theirs() -> None:
    span = Span(ClientPosition(1, 0), ClientPosition(3, 0))
    assert span.after(Change("x", ClientPosition(3, 0), ClientPosition(3, 0)), utf16) == span


def test_of_a_text_that_is_replaced_nobody_knows_where_it_went() -> None:
    span = Span(ClientPosition(1, 0), ClientPosition(2, 0)).after(Change("all new"), utf16)
    assert span.lost
    assert span.after(Change("x", ClientPosition(0, 0), ClientPosition(0, 0)), utf16).lost
