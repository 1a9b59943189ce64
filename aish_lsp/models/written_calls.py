"""Calls that a model wrote into its text, since its server has no parser for them.

Only what stands at the beginning of a line or of the reply counts, and only the call of a tool that
was offered: all other text is the answer. What a block of code in the answer holds may be quoted
from a file, and is no call.
"""

from __future__ import annotations

import copy
import json
import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.models.loose_json import as_dict, as_text, decoded
from aish_lsp.models.request import Finish, Text, ToolCall, tool_named
from aish_lsp.shell.blocks import FenceScanner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from aish_lsp.models.request import ModelEvent, ToolSchema

#: What models write before a call: Qwen and Hermes, Mistral, Llama 3 and 4, Granite.
_MARKS: Final = (
    "<tool_call>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|python_start|>",
    "<|tool_call|>",
)

#: How a reply begins that is only a call, with or without a code block around it.
_BARE: Final = ("```json\n{", "```\n{", "```json\n[", "```\n[", "{", "[")

#: What stands around calls, and says nothing.
_AROUND: Final = re.compile(
    "|".join(map(re.escape, _MARKS)) + r"|</tool_call>|<\|python_end\|>|<\|eo[mt]_id\|>"
)

#: The block of code that such a reply is, or begins with.
_BLOCK: Final = re.compile(r"\s*```(?:json)?\n(.*?)(?:\n[ \t]*```[ \t]*(?=\n|\Z)|\Z)", re.DOTALL)

_MARK: Final = re.compile(rf"^[ \t]*(?:{'|'.join(map(re.escape, _MARKS))})", re.MULTILINE)

#: The name of a called function: in an object, and in the markup of Qwen's coders.
_NAMED: Final = re.compile(r'"name"\s*:\s*"([^"\n]{0,80})"|<function=([^>\s]{0,80})>')

_BEGIN: Final = re.compile(r"\{|<function=")
_MARKUP: Final = re.compile(r"<function=([^>\s]{1,200})>")
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]{1,200})>\n?")

#: Characters within which a call names its function, and the most that a call may have.
_NAMED_WITHIN: Final = 300
_LONGEST: Final = 1 << 20

#: Places that look like a call, and are none, after which no more are looked at.
_MOST_MISSES: Final = 20


class WrittenCalls:
    """Takes the calls of ``tools`` out of a reply while it streams.

    Text passes at once unless it may begin a call; from there on it waits for the end of the reply.
    """

    def __init__(self, tools: Sequence[ToolSchema]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        # The beginning of a line that may become a mark.
        self._line = ""
        # What begins with a mark, its length, and whether it names one of the tools.
        self._held: list[str] = []
        self._length = 0
        self._is_named = False
        # Whether no text has passed but blanks, and whether what has passed ends with a line.
        self._at_start = self._at_line_start = True
        # Whether what has passed ends in a block of code.
        self._fences = FenceScanner(lambda _: False)

    @property
    def is_calling(self) -> bool:
        """Whether a call of one of the tools is arriving, as far as its beginning shows."""
        return self._is_named

    def read(self, events: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
        """Yield ``events`` without the text that may be a call."""
        for event in events:
            if not (self._tools and isinstance(event, Text)):
                yield event
            elif text := self._feed(event.delta):
                yield replace(event, delta=text)

    def end(self, events: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
        """Yield the text that waits, the calls in it, and the last ``events`` of the reply."""
        events = list(events)
        calls, text = list[ToolCall](), "".join([*self._held, self._line])
        if self._held and not any(isinstance(event, ToolCall) for event in events):
            calls, text = self._calls_in(text)
        if text:
            yield Text(text)
        yield from calls
        for event in events:
            if calls and isinstance(event, Finish) and event.reason == "stop":
                yield replace(event, reason="tool")
            else:
                yield event

    def _feed(self, delta: str) -> str:
        """Return the text that is certainly no call."""
        if self._held:
            return self._hold(delta)
        text, self._line = self._line + delta, ""
        first = 0 if self._at_line_start else text.find("\n") + 1 or len(text)
        last = max(first, text.rfind("\n") + 1)
        if self._at_start and text.lstrip().startswith(_BARE):
            begin, may_begin = 0, False
        elif (mark := self._mark_in(text, first)) is not None:
            begin, may_begin = mark, False
        elif (
            self._at_start
            and len(text) <= _NAMED_WITHIN
            and any(one.startswith(text.lstrip()) for one in (*_MARKS, *_BARE))
        ):
            begin, may_begin = 0, True
        else:
            begun = text[last:].lstrip(" \t")
            is_short = last < len(text) <= last + _NAMED_WITHIN
            may_begin = is_short and any(one.startswith(begun) for one in _MARKS)
            begin = last if may_begin else len(text)
        passed, rest = text[:begin], text[begin:]
        if passed:
            self._pass(passed)
        if may_begin:
            self._line = rest
            return passed
        return passed + self._hold(rest) if rest else passed

    def _hold(self, text: str) -> str:
        """Hold a piece back; return all that is held once it cannot be a call."""
        self._held.append(text)
        self._length += len(text)
        limit = _LONGEST
        if not self._is_named:
            self._held = ["".join(self._held)]
            match = _NAMED.search(self._held[0])
            self._is_named = match is not None and self._named(match[1] or match[2]) is not None
            limit = _LONGEST if self._is_named else 0 if match else _NAMED_WITHIN
        if self._length <= limit:
            return ""
        text, self._held = "".join(self._held), []
        self._length, self._is_named = 0, False
        self._pass(text)
        return text

    def _pass(self, text: str) -> None:
        """Note what has passed."""
        self._at_start = self._at_start and text.isspace()
        self._at_line_start = text.endswith("\n")
        self._fences.feed(text)

    def _mark_in(self, text: str, first: int) -> int | None:
        """Return where the first mark outside of a block of code begins, if there is one."""
        fences, at = None, 0
        for mark in _MARK.finditer(text, first):
            fences = fences or copy.deepcopy(self._fences)
            fences.feed(text[at : mark.start()])
            at = mark.start()
            if not fences.is_open:
                return at
        return None

    def _named(self, name: str) -> str | None:
        meant = tool_named(name, self._tools)
        return meant if meant in self._tools else None

    def _calls_in(self, text: str) -> tuple[list[ToolCall], str]:
        """Return the calls in ``text``, and what else it says."""
        calls, gaps = list[ToolCall](), []
        whole = text
        if block := _BLOCK.match(text):
            text = block[1] + text[block.end() :]
        begin = position = misses = 0
        while misses < _MOST_MISSES and (match := _BEGIN.search(text, position)):
            at = match.start()
            call, position = (
                self._markup_at(text, at) if text[at] == "<" else self._object_at(text, at)
            )
            if call is None:
                misses += 1
                continue
            calls.append(call)
            gaps.append(text[begin:at])
            begin = position
        if not calls:
            return [], whole
        prose = (_AROUND.sub("", gap).strip() for gap in [*gaps, text[begin:]])
        return calls, "\n".join(gap for gap in prose if gap.strip(" \t\r\n[],;"))

    def _object_at(self, text: str, at: int) -> tuple[ToolCall | None, int]:
        """Return the call in the JSON object that begins at ``at``, if it is one, and its end."""
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text, at)
        except (ValueError, RecursionError):
            return None, at + 1
        called = as_dict(value.get("function")) or value
        name = self._named(as_text(called.get("name")))
        arguments = next(
            (called[key] for key in ("arguments", "parameters", "args") if key in called), None
        )
        if isinstance(arguments, str):
            arguments = decoded(arguments)
        if name is None or not isinstance(arguments, dict):
            return None, end
        return _call(name, arguments), end

    def _markup_at(self, text: str, at: int) -> tuple[ToolCall | None, int]:
        """Return the call in the markup that begins at ``at``, if it is one, and its end."""
        match, end = _MARKUP.match(text, at), text.find("</function>", at)
        name = self._named(match[1]) if match and end >= 0 else None
        if match is None or name is None:
            return None, at + 1
        types = as_dict(self._tools[name].parameters.get("properties"))
        arguments: dict[str, Any] = {}
        position = match.end()
        while begun := _PARAMETER.search(text, position, end):
            position = text.find("</parameter>", begun.end(), end)
            if position < 0:
                return None, at + 1
            key, value = begun[1], text[begun.end() : position].removesuffix("\n")
            is_text = as_dict(types.get(key)).get("type") == "string"
            arguments[key] = value if is_text else _value(value)
        return _call(name, arguments), end + len("</function>")


def _value(text: str) -> Any:
    """Return the JSON value that a parameter is the text of, or the text."""
    value = decoded(text)
    return text if value is None else value


def _call(name: str, arguments: dict[str, Any]) -> ToolCall:
    written = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(f"call_{uuid.uuid4().hex[:24]}", name, written)
