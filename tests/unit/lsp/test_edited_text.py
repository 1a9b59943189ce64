from __future__ import annotations

import pytest

from aish_lsp.lsp.edited_text import EditedText

CHANGES = 1_000


class Counted(EditedText):
    """Counts the characters of all blocks that are made."""

    made = 0

    def _put(self, blocks: slice, text: str) -> None:
        self.made += len(text)
        super()._put(blocks, text)


@pytest.mark.parametrize("new", ["y", "y\nz", "\U0001f600"])
@pytest.mark.parametrize(
    "text", ["\u6f22" * 500_000, f"{'x' * 49}\n" * 10_000, "\r" * 500_000], ids=["line", "lf", "cr"]
)
def test_an_insertion_into_a_large_text_makes_only_a_few_blocks_anew(text: str, new: str) -> None:
    edited = Counted(text, "utf-16")
    size, longest = len(text) // CHANGES, max(map(len, text.splitlines()))
    for number in reversed(range(CHANGES)):
        line = (number * size) // (longest + 1)
        at = (line, number * size - line * (longest + 1))
        edited.replace(at, at, new)
    parts = [text[size * number : size * (number + 1)] for number in range(CHANGES)]
    assert str(edited) == "".join(f"{new}{part}" for part in parts)
    assert edited.made <= len(text) + CHANGES * 10_000


def test_many_insertions_at_one_place_leave_no_small_blocks() -> None:
    edited = EditedText("x" * 4_096, "utf-16")
    for _ in range(20_000):
        edited.replace((0, 2_000), (0, 2_000), "y")
    assert len(edited._blocks) < 50


def test_blocks_of_which_an_edit_leaves_little_are_joined() -> None:
    edited = EditedText("ab\n" * 10_000, "utf-16")
    for line in reversed(range(10_000)):
        edited.replace((line, 0), (line, 2), "")
    assert str(edited) == "\n" * 10_000
    assert len(edited._blocks) < 15


def test_an_empty_text_takes_an_edit() -> None:
    edited = EditedText("a\n", "utf-8")
    edited.replace((0, 0), (7, 7), "")
    edited.replace((3, 1), (3, 1), "b")
    assert str(edited) == "b"
