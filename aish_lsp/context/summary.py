"""The rolling summary of what was evicted (seed: aish-context-lua, ``summarize_fn``; context.md).

There is no I/O here, only what a model is asked and what is made of its answer.

The model reads the conversation as one text, in which messages are cut so that all of them fit.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from aish_lsp.context.prompt import as_data, fenced, wording
from aish_lsp.foundation.text import one_line, well_formed, with_line_feeds, without_hidden
from aish_lsp.models.request import RequestMessage
from aish_lsp.shell.suggestions import without_reasoning

if TYPE_CHECKING:
    from aish_lsp.context.messages import Message

_COMMAND: Final = re.compile(r"^[ \t]*CMD:[ \t]*", re.MULTILINE)

#: Where a text can be split: before a line feed and after a sentence (Chinese and Japanese have no
#: blank there), but not after the number of an item.
_BREAK: Final = re.compile(r"(?=\n)|(?<=\D[.!?])(?=\s)|(?<=[\u3002\uff01\uff1f])")

#: A text that zlib compresses by more than this factor is a loop. Without repeated sentences,
#: summaries shrink to a half, long lists of files to an eighth.
_LOOPS: Final = 10


def cleaned(reply: str) -> str:
    """Return a model's reply as data, without its reasoning, its fence or its repetitions.

    A reply that runs in a loop becomes empty.
    """
    text = without_hidden(with_line_feeds(well_formed(reply)))
    text = _without_repeats(_unwrapped(without_reasoning(text)))
    data = text.encode()
    if len(data) > _LOOPS * len(zlib.compress(data)):
        return ""
    return as_data(_COMMAND.sub("$ ", text))


def _unwrapped(text: str) -> str:
    """Return ``text`` without a code fence around all of it."""
    lines = text.strip().split("\n")
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    if fences in ([0], [0, len(lines) - 1]):
        lines = [line for number, line in enumerate(lines) if number not in fences]
    return "\n".join(lines)


def _without_repeats(text: str) -> str:
    """Return ``text`` with each line and sentence once, and without blank lines.

    The last one is also left out if it is the beginning of an earlier one, and was cut off.
    """
    pieces = [piece.rstrip() for piece in _BREAK.split(text) if piece.strip()]
    seen: set[str] = set()
    unique: list[str] = []
    for number, piece in enumerate(pieces, 1):
        stripped = piece.strip()
        is_cut = number == len(pieces) and any(earlier.startswith(stripped) for earlier in seen)
        if stripped not in seen and not is_cut:
            unique.append(piece)
        seen.add(stripped)
    return "".join(unique).strip()


def cut_to(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of ``text``, up to the end of a line or a sentence.

    The cut is within a sentence if otherwise more than half would be lost.
    """
    if len(text) <= limit:
        return text
    # One more character, since the end of a sentence is recognised by what follows it.
    ends = [match.start() for match in _BREAK.finditer(text[: limit + 1])]
    end = ends[-1] if ends and ends[-1] > limit // 2 else limit
    return text[:end].rstrip()


def summary_request(
    prior: str | None,
    evicted: Sequence[Message] | None,
    *,
    max_chars: int,
    fits: Fits,
) -> tuple[RequestMessage, ...] | None:
    """Return the messages that ask for a summary, made to fit, or None if they cannot be.

    Args:
        prior: the summary so far.
        evicted: the messages to add to it; without them, it is to be compressed.
        max_chars: the characters that the answer may have.
        fits: whether messages are within the summarizer's budget.
    """
    if not evicted:
        request = _request(prior, (), max_chars) if prior else None
        return request if request and fits(request) else None
    fitting = fitted(evicted, lambda notes: _request(prior, notes, max_chars), fits)
    return fitting.messages if fitting else None


def _request(prior: str | None, notes: Sequence[str], max_chars: int) -> tuple[RequestMessage, ...]:
    """Return the messages that ask to extend ``prior`` by ``notes``, or else to compress it."""
    # Models count words better than characters.
    length = f"{max_chars} characters, some {max(1, max_chars // 7)} words"
    parts = []
    if prior:
        parts.append(f"Summary so far:\n{fenced(prior)}")
    if notes:
        heading = "Messages since then" if prior else "Messages"
        transcript = fenced("\n".join(notes))
        parts.append(f"{heading}:\n{transcript}")
    task = "Write the summary of all of this" if notes else "Write this summary anew, shorter"
    parts.append(f"{task}, in at most {length}.")
    return (
        RequestMessage("system", wording("summary").format(length=length)),
        RequestMessage("user", "\n\n".join(parts)),
    )


#: Characters of one message, doubled for as long as everything fits. A command's output, a tool's
#: result and a call's arguments get a quarter of that.
_LIMITS: Final = (250, 500, 1000, 2000, 4000)

_GAP: Final = "\n[...]\n"

#: Returns whether messages are within a budget.
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
    """Return the request for these messages, made to fit, or None if not even one message fits.

    Long messages keep as much of their heads and tails as there is room for; if they are too long
    even at their shortest, the oldest messages are left out. ``fits`` is called about five times,
    or about as often as the logarithm of the number of messages.

    Args:
        messages: the messages of the transcript.
        request: makes a request from the notes, of which there is one for each message.
        fits: whether messages are within the budget.
    """
    best = None
    # From the shortest on: measuring takes time, and in a long session nothing longer fits.
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
    """Return a message for the transcript: its role, then what it says, indented by one blank.

    The indentation keeps a line of text from passing for the beginning of another message.
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
    text = _shortened("\n".join(part for part in parts if part), 2 * limit)
    return "\n ".join((f"{message.role}:", *text.split("\n")))


def _shortened(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` characters, without its middle if it is longer."""
    if len(text) <= limit:
        return text
    half = (limit - len(_GAP)) // 2
    return f"{text[:half]}{_GAP}{text[-half:]}"
