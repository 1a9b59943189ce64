"""Where a reply goes on in a document that others change meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.chat.insertion import LOST, Edit, relocated, shifted, whole_section
from aish_lsp.chat.markdown import AISH, YOU

ABOVE = f"{YOU}\n\nhow?\n\n{AISH}\n\nYes, run it.\n\n"
OWN = f"{YOU}\n\nhow?\n\n{AISH}\n\nYes"
TEXT = ABOVE + OWN

#: Texts in which much repeats.
repeating = st.text(st.sampled_from("ab\n"), max_size=12)


@given(text=repeating, new=repeating, data=st.data())
def test_a_change_moves_the_place_with_the_text_before_it(
    text: str, new: str, data: st.DataObject
) -> None:
    places = st.integers(0, len(text))
    start, end = sorted((data.draw(places), data.draw(places)))
    place = data.draw(places)
    size = data.draw(st.integers(0, place))
    edit = Edit(start, end, new)
    now = shifted(place, size, text, edit)
    after = edit.made_in(text)
    if start >= place:
        assert now == place
    if now is not None:
        # All that is ours still stands before it.
        assert after[max(0, now - size) : now] == text[place - size : place]
        assert after.startswith(text[:place]) or after[now:] == text[place:]


@given(text=repeating, new=repeating, data=st.data())
def test_the_least_of_a_change_is_the_same_change(text: str, new: str, data: st.DataObject) -> None:
    places = st.integers(0, len(text))
    start, end = sorted((data.draw(places), data.draw(places)))
    edit = Edit(start, end, new)
    least = edit.least(text)
    assert least.made_in(text) == edit.made_in(text)
    assert start <= least.start <= least.end <= end


@pytest.mark.parametrize(
    ("gone", "kept"),
    [
        (Edit(len(TEXT) - 1, len(TEXT), ""), False),
        (Edit(0, 3, ""), True),
        (Edit(len(TEXT) - 3, len(TEXT) - 2, "y"), False),
        # What is left is the same text, whichever exchange it is.
        (Edit(0, len(ABOVE), ""), True),
    ],
)
def test_a_place_whose_end_was_undone_is_lost(gone: Edit, kept: bool) -> None:
    now = shifted(len(TEXT), len(f"{AISH}\n\nYes"), TEXT, gone)
    assert now == (len(gone.made_in(TEXT)) if kept else None)


@pytest.mark.parametrize("behind", ["", "\n", "\n\nmy draft"])
@pytest.mark.parametrize("above", ["", "typed\n", ABOVE])
def test_an_exchange_that_comes_again_once_is_known_again(above: str, behind: str) -> None:
    text = f"{above}{OWN}{behind}"
    place = len(above + OWN)
    assert relocated(text, place, text) == place
    if not above.startswith(YOU):
        now = f"notes\n\n{OWN}{behind}"
        assert relocated(text, place, now) == len(now) - len(behind)


@pytest.mark.parametrize(
    "now",
    [
        ABOVE,  # the older one begins as ours does
        ABOVE + ABOVE,
        OWN.replace("how?", "what?"),
        f"{OWN}, run it.\n",
        f"{OWN}\n\n{YOU}\n\nnext",
        "",
    ],
)
def test_what_looks_alike_is_not_taken_for_it(now: str) -> None:
    assert relocated(TEXT, len(TEXT), now) is None
    assert relocated(OWN, len(OWN), now) is None


def test_blank_lines_of_another_are_not_taken_for_those_that_end_the_reply() -> None:
    text = f"{OWN}\n\n"
    assert relocated(text, len(text), f"{OWN}\n\n\nnotes") is None
    assert relocated(text, len(text), f"notes\n\n{text}") == len(f"notes\n\n{text}")
    assert relocated(f"{text}\nnotes", len(text), f"# a\n{text}\nnotes") == len(f"# a\n{text}")


def test_a_section_is_written_again_with_the_reason_told_once() -> None:
    once = whole_section(f"{YOU}\n\nhow?\n\n{AISH}\n\nYes")
    assert (once.text, once.goes) == (f"{AISH}\n\n{LOST}Yes", "to the end")
    assert whole_section(f"{once.text}, run").text == f"{AISH}\n\n{LOST}Yes, run"


def test_an_output_is_written_again_above_what_the_user_writes() -> None:
    output = whole_section("````console\n$ ls\n")
    assert (output.text, output.goes) == (f"{LOST}````console\n$ ls\n", "above")
