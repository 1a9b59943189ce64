"""The chunks of a streamed ``generateContent``, put together into events."""

from __future__ import annotations

import json
import re
import uuid
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.events import FinishReason, Usage
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.adapters.stream import (
    Json,
    SurrogateJoiner,
    as_count,
    as_dict,
    as_list,
    as_text,
)
from aish_lsp.models.faults import BLOCKED
from aish_lsp.models.request import Finish, ModelEvent, Reasoning, ReasoningMetadata, Text, ToolCall

if TYPE_CHECKING:
    from aish_lsp.models.adapters.stream import Json

# Finish reasons that say that what came is not, or not all of, what the model meant.
_BROKEN_FINISH = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "OTHER",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)

_REFUSED_FINISH = frozenset(
    {
        "BLOCKLIST",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_SAFETY",
        "LANGUAGE",
        "MODEL_ARMOR",
        "PROHIBITED_CONTENT",
        "RECITATION",
        "SAFETY",
        "SPII",
    }
)

#: Characters of the server's explanation of a finish reason that are quoted.
_EXPLANATION_LIMIT = 300


class ReplyReader:
    """One reply while it streams: ``feed`` it each chunk, then ``end`` it.

    ``provider`` and ``server`` (host and port) name who must get the reasoning's metadata back.
    That is ``{"server": ..., "parts": [...]}``: the parts of the reply as the server sent them,
    neighboring texts joined, so that each signature stays with the part that it came with.
    """

    def __init__(self, provider: str, server: str) -> None:
        self._provider = provider
        self._server = server
        self._parts: list[Json] = []
        self._open_call: Json = {}
        self._answered = False
        self._usage: Json = {}
        self._finish: str | None = None
        self._explanation = ""
        #: An error in place of a chunk, or that nothing is said because it was blocked.
        #:
        #: A question that is blocked is an error, not a reply without a word: it is taken back, and
        #: does not block those that follow it.
        self.error: Any = None
        self._text = SurrogateJoiner()
        self._thoughts = SurrogateJoiner()

    #: The end comes with the response.
    is_over: Final = False

    @property
    def is_whole(self) -> bool:
        """Whether the server has given its finish reason: the content is then complete."""
        return self._finish is not None

    @property
    def gave_up(self) -> str | None:
        """A finish reason that is none: the server broke the reply off."""
        return f"{self._finish}{self._explanation}" if self._finish in _BROKEN_FINISH else None

    def feed(self, chunk: Json) -> list[ModelEvent]:
        """Return the text and reasoning of ``chunk`` and keep the rest of it."""
        self.error = chunk.get("error") or self.error
        usage = as_dict(chunk.get("usageMetadata"))
        # Each repeats all that was counted so far; some have other things in it.
        if "promptTokenCount" in usage:
            self._usage = usage
        blocked = as_text(as_dict(chunk.get("promptFeedback")).get("blockReason"))
        if blocked and not self._answered:
            self.error = self.error or _blocked("the question", blocked)
        events: list[ModelEvent] = []
        for candidate in as_list(chunk.get("candidates")):
            if not isinstance(candidate, dict) or candidate.get("index"):
                continue
            for part in as_list(as_dict(candidate.get("content")).get("parts")):
                self._read_part(as_dict(part), events)
            self._read_finish(candidate)
        return events

    def end(self) -> list[ModelEvent]:
        """Return what stands only at the end: tool calls, metadata, usage and the finish."""
        # Half a character, and a number beyond all numbers, fit into no file and no request.
        written = well_formed(json.dumps(self._parts, ensure_ascii=False))
        parts: list[Json] = json.loads(written, parse_constant=lambda _: None)
        calls = _tool_calls(parts)
        events: list[ModelEvent] = [*calls]
        if any(map(_must_go_back, parts)):
            events.append(
                ReasoningMetadata(self._provider, {"server": self._server, "parts": parts})
            )
        usage = read_usage(self._usage)
        if usage is not None:
            events.append(usage)
        events.append(Finish(self._reason(called=bool(calls))))
        return events

    def _reason(self, *, called: bool) -> FinishReason:
        if self._finish == "MAX_TOKENS":
            return "length"
        if self._finish in _REFUSED_FINISH:
            return "refusal"
        return "tool" if called else "stop"

    def _read_finish(self, candidate: Json) -> None:
        if self._finish is not None or not as_text(candidate.get("finishReason")):
            return
        self._finish = as_text(candidate["finishReason"])
        message = as_text(candidate.get("finishMessage"))[:_EXPLANATION_LIMIT].strip()
        self._explanation = f": {message}" if message else ""
        if self._finish in _REFUSED_FINISH and not self._answered:
            self.error = self.error or _blocked("the reply", self._finish + self._explanation)

    def _read_part(self, part: Json, events: list[ModelEvent]) -> None:
        part = {name: value for name, value in part.items() if value is not None}
        if "functionCall" in part:
            self._read_call(part, as_dict(part["functionCall"]))
        elif "text" in part:
            self._read_text(part, events)
        elif part and "inlineData" not in part:
            # What the server ran itself; a signature alone needs some part to stand in.
            self._parts.append(part if part.keys() - {"thoughtSignature"} else {"text": "", **part})

    def _read_text(self, part: Json, events: list[ModelEvent]) -> None:
        is_thought = part.get("thought") is True
        text = (self._thoughts if is_thought else self._text).feed(as_text(part["text"]))
        if text:
            events.append(Reasoning(text) if is_thought else Text(text))
            self._answered = self._answered or not is_thought
        others = {name: value for name, value in part.items() if name not in {"text", "thought"}}
        part = {"text": text, **({"thought": True} if is_thought else {}), **others}
        last = self._parts[-1] if self._parts else {}
        # A part with a signature stays alone: it must not be joined with another.
        if last.keys() == part.keys() <= {"text", "thought"}:
            last["text"] += text
        elif text or "thoughtSignature" in part:
            self._parts.append(part)

    def _read_call(self, part: Json, call: Json) -> None:
        """Read a call, whole or the next piece of one; of its pieces only the first has a name."""
        name = as_text(call.get("name"))
        if name:
            kept = {"name": name, "args": dict(as_dict(call.get("args")))}
            if call.get("id") and isinstance(call["id"], str):
                kept["id"] = call["id"]
            self._open_call = {"functionCall": kept}
            self._parts.append(self._open_call)
            self._answered = True
        if not self._open_call:
            return
        for piece in as_list(call.get("partialArgs")):
            add_partial(self._open_call["functionCall"]["args"], as_dict(piece))
        self._open_call |= {key: item for key, item in part.items() if key != "functionCall"}
        if call.get("willContinue") is not True:
            self._open_call = {}


def read_usage(raw: Json) -> Usage | None:
    """Return the usage that a server reported, or None where it makes no sense.

    A request without a token does not: what it took is then estimated, so that a cap holds. What
    the server's own tools read is input, and thoughts are output, in numbers of their own.
    """
    prompt = as_count(raw.get("promptTokenCount")) + as_count(raw.get("toolUsePromptTokenCount"))
    if prompt == 0:
        return None
    thoughts = as_count(raw.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=prompt,
        output_tokens=as_count(raw.get("candidatesTokenCount")) + thoughts,
        reasoning_tokens=thoughts,
        cache_read_tokens=min(as_count(raw.get("cachedContentTokenCount")), prompt),
    )


def _tool_calls(parts: list[Json]) -> list[ToolCall]:
    """Return the calls, each with an id of its own: older models give none."""
    ids: set[str] = set()
    calls: list[ToolCall] = []
    for part in parts:
        if "functionCall" not in part:
            continue
        call = part["functionCall"]
        call_id = call.get("id")
        if not call_id or call_id in ids:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        ids.add(call_id)
        arguments = json.dumps(call["args"], ensure_ascii=False)
        calls.append(ToolCall(call_id, call["name"], arguments))
    return calls


def _must_go_back(part: Json) -> bool:
    """Return whether a part says more than its text or its call do."""
    return bool(part.keys() - {"text", "functionCall"}) or "id" in as_dict(part.get("functionCall"))


def _blocked(what: str, reason: str) -> Json:
    return {"type": BLOCKED, "message": f"{what} was blocked ({reason})"}


# A call's arguments that come in pieces, each with the place that it belongs to.
#
# Google Cloud sends them so where ``streamFunctionCallArguments`` is asked for.

# A step of a path such as $.files[0].name or $['a key'].
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,4})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_PATH = re.compile(rf"\$(?:{_STEP.pattern})+")

_VALUES = ("stringValue", "numberValue", "boolValue")

# No schema of a tool is nested deeper; a reply that is can be written to no file.
_DEEPEST = 32


def add_partial(arguments: Json, piece: Json) -> None:
    """Put the value of ``piece`` into ``arguments``; a text goes on where one is there already.

    What has no place, or one that does not fit what came before, is dropped.
    """
    path = piece.get("jsonPath")
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        return
    steps = [
        int(step[2]) if step[2] is not None else step[1] or step[3] or step[4] or ""
        for step in _STEP.finditer(path)
    ]
    if len(steps) > _DEEPEST:
        return
    place: Any = arguments
    for step, following in pairwise(steps):
        within = _at(place, step)
        if not isinstance(within, dict | list):
            within = [] if isinstance(following, int) else {}
            _put(place, step, within)
        place = within
    value = next((piece[name] for name in _VALUES if name in piece), None)
    before = _at(place, steps[-1])
    if isinstance(before, str) and isinstance(value, str):
        value = before + value
    _put(place, steps[-1], value)


def _at(place: Any, step: int | str) -> Any:
    """Return what stands at ``step`` of an object or a list, or None."""
    if isinstance(place, dict):
        return place.get(step)
    is_there = isinstance(step, int) and step < len(place)
    return place[step] if is_there else None


def _put(place: Any, step: int | str, value: Any) -> None:
    """Put ``value`` at ``step``; in a list that is at most behind its end."""
    if isinstance(place, dict) and isinstance(step, str):
        place[step] = value
    elif isinstance(place, list) and isinstance(step, int) and step <= len(place):
        place[step : step + 1] = [value]
