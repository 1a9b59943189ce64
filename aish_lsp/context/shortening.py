"""Long parts of a turn cut to their heads and tails, so that a request can be made to fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.context.counter import NOTHING, Counter
from aish_lsp.context.prompt import attached_block

if TYPE_CHECKING:
    from aish_lsp.context.turns import Attached, Turn

#: Characters that are kept at each end when nothing else is left to give.
_LEAST: Final = 400

#: Characters by which a cut must make a text shorter.
_WORTH: Final = 40


def with_cut_output(turn: Turn) -> Turn:
    """Return ``turn`` with a tool's result and commands' output cut as short as they may be."""
    return replace(
        turn,
        content=head_and_tail(turn.content, _LEAST) if turn.role == "tool" else turn.content,
        exec=tuple(replace(out, output=head_and_tail(out.output, _LEAST)) for out in turn.exec),
    )


def with_cut_attached(turn: Turn, each: int = _LEAST) -> Turn:
    """Return ``turn`` with ``each`` characters of both ends of what is attached, at most."""
    return replace(turn, attached=tuple(shortened(part, each) for part in turn.attached))


async def bounded(turn: Turn, tokens: int, counter: Counter) -> Turn:
    """Return ``turn`` with what is attached cut until it is about ``tokens``, if it can be.

    The longest texts are cut first: each keeps as much as the next longer one. The model's own
    tokenizer, where it is asked, counts the whole; what a cut leaves is estimated by that.
    """
    if not turn.attached:
        return turn
    await counter.fetch(map(attached_block, turn.attached), (), ())
    estimating = Counter(counter.preset, ratio=counter.ratio)
    factor = _size(turn, counter) / max(1, _size(turn, estimating))
    each = max(len(part.text) for part in turn.attached) // 2
    bound = turn
    while _size(bound, estimating) * factor > tokens and each > _LEAST:
        each = max(_LEAST, each * 3 // 4)
        bound = with_cut_attached(turn, each)
    return bound


def shortened(part: Attached, each: int) -> Attached:
    """Return ``part`` with ``each`` characters of both ends of its text, at most."""
    text = head_and_tail(part.text, each)
    return part if text == part.text else replace(part, text=text, cut=True)


def head_and_tail(text: str, each: int) -> str:
    """Return ``text`` without its middle where that makes it shorter."""
    left_out = len(text) - 2 * each
    if left_out <= _WORTH:
        return text
    return f"{text[:each]}\n[... {left_out} characters left out ...]\n{text[-each:]}"


def _size(turn: Turn, counter: Counter) -> int:
    tokens = NOTHING
    for part in turn.attached:
        tokens = tokens.plus(counter.text(attached_block(part)))
    return counter.settled(tokens)
