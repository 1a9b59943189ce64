"""A conversation as a text for a model that reads it: each turn cut so that all of it fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from aish_lsp.foundation.text import one_line

if TYPE_CHECKING:
    from aish_lsp.context.turns import Turn
    from aish_lsp.models.request import RequestMessage

#: Characters of one message, doubled as long as it all fits. A command's output, a tool's result
#: and a call's arguments get a quarter of it.
_LIMITS: Final = (250, 500, 1000, 2000, 4000)

_GAP: Final = "\n[...]\n"

#: Tells whether messages are within a budget.
Fits: TypeAlias = "Callable[[Sequence[RequestMessage]], bool]"


class Fitted(NamedTuple):
    """Messages within a budget; ``left_out`` is how many of the oldest turns are not in them."""

    messages: tuple[RequestMessage, ...]
    left_out: int = 0


def fitted(
    turns: Sequence[Turn],
    request: Callable[[Sequence[str]], tuple[RequestMessage, ...]],
    fits: Fits,
) -> Fitted | None:
    """Return the request for these turns, made to fit; None where not one turn does.

    Of long turns the heads and tails stay, as much of them as there is room for; where the shortest
    are still too much, the oldest turns go. ``fits`` is called some five times, or once and the
    logarithm of the turns.

    Args:
        turns: what the transcript is of.
        request: makes the messages out of the notes, one a turn.
        fits: whether messages are within the budget.
    """
    best = None
    # From the shortest on: to measure is what takes time, and of a long session nothing else fits.
    for limit in _LIMITS:
        composed = request([note(turn, limit) for turn in turns])
        if (best and composed == best.messages) or not fits(composed):
            break
        best = Fitted(composed)
    if best is not None:
        return best
    notes = [note(turn, _LIMITS[0]) for turn in turns]
    fitting, too_many = 0, len(notes)
    while too_many - fitting > 1:
        count = (fitting + too_many) // 2
        composed = request(notes[-count:])
        if fits(composed):
            fitting, best = count, Fitted(composed, len(notes) - count)
        else:
            too_many = count
    return best


def note(turn: Turn, limit: int) -> str:
    """Return a turn for the transcript: its role, then, one blank deeper, what it says.

    So no line of a text can pass for the beginning of another turn.
    """
    quarter = limit // 4
    parts: list[str] = []
    for run in turn.exec:
        parts.append(f"$ {one_line(_shortened(run.command, quarter))} (exit {run.exit})")
        parts.append(_shortened(run.output.strip(), quarter))
    for attached in turn.attached:
        parts.append(f"{attached.kind}: {one_line(attached.place)}")
        parts.append(_shortened(attached.text.strip(), quarter))
    parts.append(_shortened(turn.content.strip(), quarter if turn.role == "tool" else limit))
    parts += (
        f"calls {one_line(call.name)} {_shortened(call.arguments, quarter)}"
        for call in turn.tool_calls
    )
    said = _shortened("\n".join(part for part in parts if part), 2 * limit)
    return "\n ".join((f"{turn.role}:", *said.split("\n")))


def _shortened(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` characters, without its middle where it is longer."""
    if len(text) <= limit:
        return text
    half = (limit - len(_GAP)) // 2
    return f"{text[:half]}{_GAP}{text[-half:]}"
