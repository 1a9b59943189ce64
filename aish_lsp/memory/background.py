"""The ``[background]`` block: which items are sent to the model, and how they stand there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aish_lsp.foundation.text import one_line, without_hidden
from aish_lsp.memory.items import MemoryItem

HEADING: Final = "[background] (memory; manage with :memory)"


@dataclass(frozen=True, slots=True)
class Selection:
    """The items that are injected, newest first.

    Attributes:
        items: those that fit.
        dropped: how many did not.
        characters: how many the items' lines take, each with its line end.
    """

    items: tuple[MemoryItem, ...]
    dropped: int
    characters: int


def select(items: Sequence[MemoryItem], max_chars: int) -> Selection:
    """Return as many items from the first on as ``max_chars`` characters hold.

    The first that does not fit ends it, so that no older item stands where a newer one is missing
    (aish-phase4-memory, section 5); one that could never fit is passed over. What counts is an
    item's line with its line end; the heading does not.
    """
    chosen = []
    characters = 0
    for item in items:
        needed = len(_line(item)) + 1
        if needed > max_chars:
            continue
        if characters + needed > max_chars:
            break
        characters += needed
        chosen.append(item)
    return Selection(tuple(chosen), len(items) - len(chosen), characters)


def background_text(items: Iterable[MemoryItem]) -> str:
    """Return the block, or an empty text where there are no items."""
    lines = [_line(item) for item in items]
    return "\n".join([HEADING, *lines]) if lines else ""


def _line(item: MemoryItem) -> str:
    """Return an item's line. One line, whatever is in it: it cannot pass for a block of ours."""
    return f"- ({item.kind}) {without_hidden(one_line(item.content))}"
