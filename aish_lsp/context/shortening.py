"""Long parts of a message cut to their heads and tails, so that a request can be made to fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.context.counter import NOTHING, Counter
from aish_lsp.context.prompt import attached_block
from aish_lsp.foundation.wording import count_of

if TYPE_CHECKING:
    from aish_lsp.context.messages import Attached, Message

#: Characters that are kept at each end when nothing else is left to give.
_LEAST: Final = 400

#: Characters by which a cut must make a text shorter.
_WORTH: Final = 40


def with_cut_output(message: Message) -> Message:
    """Return ``message`` with a tool's result and commands' output cut as short as they may be."""
    return replace(
        message,
        content=head_and_tail(message.content, _LEAST)
        if message.role == "tool"
        else message.content,
        exec=tuple(replace(out, output=head_and_tail(out.output, _LEAST)) for out in message.exec),
    )


def with_cut_attached(message: Message, each: int = _LEAST) -> Message:
    """Return ``message`` with ``each`` characters of both ends of what is attached, at most."""
    return replace(message, attached=tuple(shortened(part, each) for part in message.attached))


async def bounded(message: Message, tokens: int, counter: Counter) -> Message:
    """Return ``message`` with what is attached cut until it is about ``tokens``, if it can be.

    The longest texts are cut first: each keeps as much as the next longer one. The model's own
    tokenizer, where it is asked, counts the whole; what a cut leaves is estimated by that.
    """
    if not message.attached:
        return message
    await counter.fetch(map(attached_block, message.attached), (), ())
    estimating = Counter(counter.preset, ratio=counter.ratio)
    factor = _size(message, counter) / max(1, _size(message, estimating))
    each = max(len(part.text) for part in message.attached) // 2
    bound = message
    while _size(bound, estimating) * factor > tokens and each > _LEAST:
        each = max(_LEAST, each * 3 // 4)
        bound = with_cut_attached(message, each)
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
    return f"{text[:each]}\n[... {count_of(left_out, 'character')} left out ...]\n{text[-each:]}"


def _size(message: Message, counter: Counter) -> int:
    tokens = NOTHING
    for part in message.attached:
        tokens = tokens.plus(counter.text(attached_block(part)))
    return counter.settled(tokens)
