"""What all protocols share: assembling a streamed reply, and repairing what was in it.

Repaired are malformed tool calls, which servers would refuse, and texts split within a character.
"""

from __future__ import annotations

import json
import re
import uuid
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aish_lsp.foundation.errors import BackendUnavailable
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.address import origin
from aish_lsp.models.faults import error_in_stream, redactor
from aish_lsp.models.loose_json import Json, as_dict, as_text, decoded
from aish_lsp.models.request import Finish, Reasoning, ReasoningMetadata, Text, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aish_lsp.foundation.events import FinishReason, Usage
    from aish_lsp.models.request import ModelEvent


def meanings(**reasons: str) -> Mapping[str, tuple[str, ...]]:
    """Return what finish reasons mean: each meaning with the servers' words for it."""
    return MappingProxyType({meaning: tuple(words.split()) for meaning, words in reasons.items()})


#: What servers send so that a connection stays open, besides numbers and strings.
_SIGNS_OF_LIFE: Final = frozenset({"", "null", "[]"})


class ReplyReader(ABC):
    """Assembles one reply while it streams: call ``feed`` with each event, then ``end``.

    ``server`` is the name of the server, to which what is not understood of a call is returned.

    Attributes:
        error: the error that the server sent in the stream (a JSON value), or None.
        is_over: whether the protocol's end marker has arrived. Some protocols have none.
        is_calling: whether any part of a call has arrived.
    """

    #: What the servers' finish reasons mean: each meaning with those reasons. ``broken`` means
    #: that the server gave up: the reply is incomplete or damaged.
    endings: ClassVar[Mapping[str, tuple[str, ...]]]

    #: The meaning of a finish reason that is not listed there.
    otherwise: ClassVar[str] = "stop"

    def __init__(self, server: str) -> None:
        self.error: Any = None
        self.is_over = self.is_calling = False
        self._server = server
        # Whether OpenAI's end marker has arrived, which many protocols have adopted.
        self._is_done = False
        # The server's finish reason, once it has given one.
        self._finish: str | None = None
        # What the provider behind the server said, where that tells it too.
        self._native = ""
        # Whether any part of the reply has arrived.
        self._has_begun = False
        # Whether the text is the model's refusal to answer.
        self._refused = False
        self._events: list[ModelEvent] = []
        self._text = SurrogateJoiner()
        self._reasoning = SurrogateJoiner()
        self._ids: set[str] = set()

    @property
    def is_whole(self) -> bool:
        """Whether the content is complete, so that only the usage may follow.

        A finish reason before any content says nothing: some servers send one in each chunk.
        """
        return self.is_over or (self._finish is not None and self._has_begun)

    @property
    def gave_up(self) -> str | None:
        """The finish reason if it means that the server broke off the reply, else None."""
        return self._finish if self._meaning() == "broken" else None

    @property
    def has_ended(self) -> bool:
        """Whether nothing that follows matters: after the end marker, or an error."""
        return self.is_over or self._is_done or self.error is not None

    def read(self, data: str, url: str) -> Iterator[ModelEvent]:
        """Yield the text and reasoning in the data of an event from the server at ``url``.

        Raises:
            BackendUnavailable: it is not part of a reply.
        """
        # If the server omits the blank lines between events, they arrive as the lines of one.
        for line in data.split("\n") if "\n" in data and decoded(data) is None else [data]:
            part = line.strip()
            if part == "[DONE]":
                self._is_done = True
            if self.has_ended:
                return
            parsed = _parse(part)
            if parsed is None and (part in _SIGNS_OF_LIFE or _is_scalar(decoded(part))):
                continue
            if parsed is None and self.is_whole:
                self._is_done = True
                return
            if parsed is None:
                why = "it sent something that is not part of a reply, or is cut"
                raise _broken(url, f"{why} ({part[:60]!r})")
            for event in parsed:
                yield from self.feed(event)

    def check(self, url: str, headers: Mapping[str, str]) -> None:
        """Raise an error if the reply that has ended is not whole, or is an error.

        ``url`` and ``headers`` are those of the request: errors name its server and mask its
        secrets.
        """
        if self.error is not None:
            raise error_in_stream(url, self.error, redactor(headers))
        if not (self.is_over or self._is_done or self._finish is not None):
            raise _broken(url, "it ended before the reply did")
        if self.gave_up is not None:
            raise _broken(url, f"the server gave up ({self.gave_up})", reason="gave up")

    def feed(self, event: Json) -> list[ModelEvent]:
        """Return the text and reasoning in ``event``, and remember the rest of it."""
        self._read(event)
        events, self._events = self._events, []
        return events

    def end(self) -> list[ModelEvent]:
        """Return what is only known at the end: tool calls, metadata, usage and the finish."""
        calls = self._tool_calls()
        events: list[ModelEvent] = [*calls]
        if metadata := self._metadata(calls):
            events.append(ReasoningMetadata(sendable(metadata)))
        usage = self.usage()
        if usage is not None:
            events.append(usage)
        return [
            *events,
            Finish(self._reason(usage, called=bool(calls)), self._native or self._finish or ""),
        ]

    @abstractmethod
    def _read(self, event: Json) -> None:
        """Read ``event``; pass text to ``_add_text`` and reasoning to ``_add_reasoning``."""

    @abstractmethod
    def _tool_calls(self) -> list[ToolCall]:
        """Return the tool calls, each created by ``_call``."""

    @abstractmethod
    def _metadata(self, calls: list[ToolCall]) -> Json:
        """Return what must be returned with the reasoning; empty if there is nothing."""

    @abstractmethod
    def usage(self) -> Usage | None:
        """Return the usage that the server has reported, or None if it is not plausible.

        An input of no tokens is not. The usage is then estimated, so that a cost cap holds.
        """

    def _reason(self, _usage: Usage | None, *, called: bool) -> FinishReason:
        """Return why the reply ended."""
        reason = self._meaning()
        if reason == "stop" and called:
            return "tool"
        return "refusal" if reason == "stop" and self._refused else reason

    def _meaning(self) -> Any:
        """Return what the server's finish reason means: a FinishReason, or ``broken``."""
        for ours, theirs in self.endings.items():
            if self._finish in theirs or (self._finish or "").lower() in theirs:
                return ours
        return self.otherwise if self._finish else "stop"

    def _add_text(self, piece: str) -> str:
        """Add a piece of the text to the events; return the part that could be added now."""
        if text := self._text.feed(piece):
            self._has_begun = True
            self._events.append(Text(text))
        return text

    def _add_reasoning(self, piece: str) -> str:
        """Add a piece of the reasoning to the events; return the part that could be added now."""
        if text := self._reasoning.feed(piece):
            self._has_begun = True
            self._events.append(Reasoning(text))
        return text

    def _call(self, call_id: str, name: str, arguments: str, extra: Json | None = None) -> ToolCall:
        """Return a call with a unique id, which its result refers to.

        Some servers give no ids, or give one id twice. ``extra`` is what else was said of the call.
        An id that other servers refuse goes back to this one: LiteLLM's contain signatures.
        """
        call_id, extra = well_formed(call_id), dict(extra or {})
        if not call_id or call_id in self._ids:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        elif len(call_id) > LONGEST_ID or call_id != plain(call_id):
            extra["id"] = call_id
        self._ids.add(call_id)
        arguments = _unwrapped(well_formed(arguments))
        parts = {self._server: sendable(extra)} if extra else {}
        return ToolCall(call_id, well_formed(name), arguments, parts)


def written(arguments: Any) -> str:
    """Return a call's arguments as text: servers send the text of an object, or the object."""
    if isinstance(arguments, dict | list):
        return json.dumps(arguments, ensure_ascii=False)
    return as_text(arguments)


def object_of(value: Any) -> Json:
    """Return the object that ``value`` is, or is the text of; an empty one for anything else."""
    return as_dict(decoded(value, strict=True) if isinstance(value, str) else value)


def others(raw: Json, known: Iterable[str]) -> Json:
    """Return what a server said of a call or of reasoning in other fields than the ``known``."""
    return {name: value for name, value in raw.items() if name not in known and value is not None}


def kept_of(call: ToolCall, server: str) -> tuple[Json, str]:
    """Return what else ``server`` said of an earlier call, and its own id; empty if another did."""
    parts = dict(as_dict(call.extra.get(server)))
    return parts, as_text(parts.pop("id", ""))


def _unwrapped(arguments: str) -> str:
    """Return a call's arguments, decoded once more if they were encoded twice; ``{}`` for null."""
    value = decoded(arguments)
    if isinstance(value, str) and is_object(value):
        return value
    return "{}" if arguments.strip() == "null" else arguments


def _parse(data: str) -> list[Json] | None:
    """Return the JSON objects in an event, or None if it contains anything else.

    Google sends a list of them if it does not stream.
    """
    value = decoded(data)
    parts = value if isinstance(value, list) and value else [value]
    return parts if all(isinstance(part, dict) for part in parts) else None


def _is_scalar(value: Any) -> bool:
    """Return whether a JSON value is a number or a string."""
    return isinstance(value, int | float | str)


def _broken(url: str, why: str, **data: str) -> BackendUnavailable:
    return BackendUnavailable(f"The reply from {origin(url)} broke off: {why}. Ask again.", **data)


# Repairs of earlier tool calls: models write names and arguments that servers refuse.

# Characters that are not allowed in function names and call ids, and the longest name.
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64

#: The longest call id that all servers accept.
LONGEST_ID: Final = 40


def plain(name: str) -> str:
    """Return ``name`` with ``_`` in place of characters that servers refuse in names and ids."""
    return _INVALID.sub("_", name)


def function_name(name: str) -> str:
    """Return a called function's name in a form that servers accept, whatever the model wrote."""
    return plain(name)[:_LONGEST_NAME] or "unknown"


def arguments_of(text: str) -> Json:
    """Return a call's arguments as the object that servers and their templates need.

    Anything else is wrapped in an object and not dropped: the tool's result refers to it.
    """
    if not text.strip():
        return {}
    value = decoded(text, strict=True)
    return value if isinstance(value, dict) else {"arguments": text}


def arguments_text(text: str) -> str:
    """Return a call's arguments as the text of a JSON object; unchanged if they are one."""
    return text if is_object(text) else json.dumps(arguments_of(text))


def is_object(text: str) -> bool:
    """Return whether ``text`` is a whole JSON object."""
    return isinstance(decoded(text, strict=True), dict)


def sendable(value: Any) -> Any:
    """Return a JSON value without what requests cannot contain: lone surrogates, NaN, Infinity."""
    written = well_formed(json.dumps(value, ensure_ascii=False))
    return json.loads(written, parse_constant=lambda _: None)


class SurrogateJoiner:
    """Joins surrogate pairs that are split between two pieces of a text.

    Some servers send the two halves of an emoji in two chunks, escaped in each one's JSON. A text
    with a lone half cannot be written to a file or sent to an editor.
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return the text that ``piece`` completes; half a pair at its end is held for the next."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return well_formed(text)
