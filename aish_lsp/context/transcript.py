"""A conversation as a text for a model that reads it: each message cut so that all of it fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from aish_lsp.foundation.text import one_line

if TYPE_CHECKING:
    from aish_lsp.context.messages import Message
    from aish_lsp.models.request import RequestMessage

#: Characters of one message, doubled as long as it all fits. A command's output, a tool's result
#: and a call's arguments get a quarter of it.
_LIMITS: Final = (250, 500, 1000, 2000, 4000)

_GAP: Final = "\n[...]\n"

#: Tells whether messages are within a budget.
Fits: TypeAlias = "Callable[[Sequence[RequestMessage]], bool]"


class Fitted(NamedTuple):
    """Messages within a budget; ``left_out`` is how many of the oldest messages are not in them."""

    messages: tuple[RequestMessage, ...]
    left_out: int = 0


def fitted(
    messages: Sequence[Message],
    request: Callable[[Sequence[str]], tuple[RequestMessage, ...]],
    fits: Fits,
) -> Fitted | None:
    """Return the request for these messages, made to fit; None where not one message does.

    Of long messages the heads and tails stay, as much of them as there is room for; where the
    shortest are still too much, the oldest messages go. ``fits`` is called some five times, or once
    and the logarithm of the messages.

    Args:
        messages: what the transcript is of.
        request: makes the messages out of the notes, one for each.
        fits: whether messages are within the budget.
    """
    best = None
    # From the shortest on: to measure is what takes time, and of a long session nothing else fits.
    for limit in _LIMITS:
        composed = request([note(message, limit) for message in messages])
        if (best and composed == best.messages) or not fits(composed):
            break
        best = Fitted(composed)
    if best is not None:
        return best
    notes = [note(message, _LIMITS[0]) for message in messages]
    fitting, too_many = 0, len(notes)
    while too_many - fitting > 1:
        count = (fitting + too_many) // 2
        composed = request(notes[-count:])
        if fits(composed):
            fitting, best = count, Fitted(composed, len(notes) - count)
        else:
            too_many = count
    return best


def note(message: Message, limit: int) -> str:
    """Return a message for the transcript: its role, then, one blank deeper, what it says.

    So no line of a text can pass for the beginning of another message.
    """
    quarter = limit // 4
    parts: list[str] = []
    for run in message.exec:
        parts.append(f"$ {one_line(_shortened(run.command, quarter))} (exit {run.exit})")
        parts.append(_shortened(run.output.strip(), quarter))
    for attached in message.attached:
        parts.append(f"{attached.kind}: {one_line(attached.place)}")
        parts.append(_shortened(attached.text.strip(), quarter))
    parts.append(_shortened(message.content.strip(), quarter if message.role == "tool" else limit))
    parts += (
        f"calls {one_line(call.name)} {_shortened(call.arguments, quarter)}"
        for call in message.tool_calls
    )
    said = _shortened("\n".join(part for part in parts if part), 2 * limit)
    return "\n ".join((f"{message.role}:", *said.split("\n")))


def _shortened(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` characters, without its middle where it is longer."""
    if len(text) <= limit:
        return text
    half = (limit - len(_GAP)) // 2
    return f"{text[:half]}{_GAP}{text[-half:]}"
