"""A block of a reply in the place of a selection."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.context.selection import Point, difference, replacement

LINES = ["class A:", "    def f(self):", "        return 1", "", "\tx = 1", "end", ""]


@pytest.mark.parametrize(
    ("block", "start", "end", "new"),
    [
        # Whole lines, whatever the block's own indentation.
        ("def f(self):\n    return 2\n", (1, 0), (3, 0), "    def f(self):\n        return 2\n"),
        ("    def f(self):\n        return 2\n", (1, 0), (3, 0), None),
        ("  def f(self):\n      return 2\n", (1, 0), (3, 0), None),
        # From the first visible character on, as editors select.
        ("def f(self):\n    return 2\n", (1, 4), (2, 16), "def f(self):\n        return 2"),
        ("    def f(self):\n        return 2\n", (1, 4), (2, 16), None),
        ("def f(self):\n    return 2\n", (1, 2), (2, 16), "  def f(self):\n        return 2"),
        # A part of a line.
        ("2\n", (2, 15), (2, 16), "2"),
        ("  (1 +\n    2)\n", (2, 15), (2, 16), "(1 +\n          2)"),
        # Blank lines stay blank.
        ("a\n\nb\n", (2, 0), (3, 0), "        a\n\n        b\n"),
        # A tab is as good.
        ("y = 2\n", (4, 0), (5, 0), "\ty = 2\n"),
        # The selection's last line end is the block's.
        ("end\n", (5, 0), (5, 3), "end"),
        ("end\n", (5, 0), (6, 0), "end\n"),
        ("", (5, 0), (6, 0), "\n"),
    ],
)
def test_it_is_made_to_stand_there(
    block: str, start: tuple[int, int], end: tuple[int, int], new: str | None
) -> None:
    expected = new or ("    def f(self):\n        return 2" + ("\n" if end[1] == 0 else ""))
    if new is None and start[1]:
        expected = expected.lstrip()
    assert replacement(block, LINES, Point(*start), Point(*end)) == expected


@given(st.text(alphabet="a \t\n", max_size=40), st.integers(0, 6), st.integers(0, 6))
def test_nothing_that_is_seen_is_lost(block: str, one: int, other: int) -> None:
    first, last = sorted((one, other))
    new = replacement(block, LINES, Point(first, 0), Point(last, len(LINES[last])))
    assert new.split() == block.split()


@given(
    st.lists(st.sampled_from(["a", "b", "", "  c"]), min_size=1, max_size=8),
    st.lists(st.sampled_from(["a", "x", "", "  c"]), max_size=8),
    st.randoms(use_true_random=False),
)
def test_a_difference_is_what_is_replaced(
    lines: list[str], new: list[str], rng: random.Random
) -> None:
    first, last = sorted(rng.randrange(len(lines)) for _ in range(2))
    start, end = Point(first, 0), Point(last, len(lines[last]))
    shown = difference(lines, "\n".join(new), start, end)
    gone = [line[1:] for line in shown if line.startswith("-")]
    came = [line[1:] for line in shown if line.startswith("+")]
    after = [*lines[:first], *("\n".join(new).split("\n")), *lines[last + 1 :]]
    # What is neither gone nor come is the same in both.
    for line in gone:
        lines.remove(line)
    for line in came:
        after.remove(line)
    assert sorted(lines) == sorted(after)


def test_a_difference_of_much_is_told_at_once() -> None:
    lines = ["same"] * 30_000
    shown = difference(lines, "\n".join(["other"] * 30_000), Point(0, 0), Point(29_999, 4))
    assert (shown[0], shown[-1], len(shown)) == ("-same", "+other", 60_000)
