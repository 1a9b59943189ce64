"""A conversation as Anthropic's Messages want it.

User and assistant alternate and the user is first; what answers a tool's call stands at the
beginning of the very next message; no text is blank. What breaks these rules is refused as a whole.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.models.adapters.stream import (
    Json,
    arguments_of,
    as_count,
    as_dict,
    as_list,
    function_name,
    plain,
)
from aish_lsp.models.address import host
from aish_lsp.models.request import goes_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aish_lsp.config.schema import Preset
    from aish_lsp.models.request import RequestMessage, ToolCall

#: Behind it everything up to here is kept for the next request.
CACHE_MARK: Final[Json] = {"type": "ephemeral"}

_LEFT_OUT: Final = {"type": "text", "text": "[The beginning was left out.]"}
_GO_ON: Final = {"type": "text", "text": "Go on."}


def system_text(messages: Iterable[RequestMessage]) -> str:
    """Return the system prompt, which stands beside the messages."""
    return "\n\n".join(m.content for m in messages if m.role == "system" and m.content.strip())


def wire_messages(messages: Iterable[RequestMessage], preset: Preset) -> list[Json]:
    """Return the messages of a request, in an order that is accepted whatever came before."""
    writer = _Writer(preset)
    for message in messages:
        if message.role == "assistant":
            writer.assistant(message)
        elif message.role == "tool":
            writer.result(message)
        elif message.role == "user":
            writer.user_text(message.content)
    return writer.finish()


def with_cache_marks(messages: list[Json]) -> list[Json]:
    """Return ``messages`` with marks on the last two of the user's.

    The last mark keeps what is sent now for the next request. The one before it finds what the last
    request kept, also where so many calls lie in between that it would not be looked for.
    """
    marked = [at for at, message in enumerate(messages) if message["role"] == "user"][-2:]
    return [
        {**message, "content": _marked(message["content"])} if at in marked else message
        for at, message in enumerate(messages)
    ]


def _marked(content: list[Json]) -> list[Json]:
    return [*content[:-1], {**content[-1], "cache_control": CACHE_MARK}]


class _Writer:
    """Writes messages one after the other; neighbors of one role become one message."""

    def __init__(self, preset: Preset) -> None:
        self._preset = preset
        self._messages: list[Json] = []
        # Of the user's message that is being written: tools' results stand before all text.
        self._results: list[Json] = []
        self._texts: list[Json] = []
        # The calls without a result yet, by their own ids, and the ids that they are sent with.
        self._open: defaultdict[str, list[str]] = defaultdict(list)
        self._ids: set[str] = set()

    def user_text(self, text: str) -> None:
        """Write what the user said; nothing where that is blank."""
        self._texts += _text(text)

    def result(self, message: RequestMessage) -> None:
        """Write a tool's result; one whose call was evicted is a text."""
        waiting = self._open.get(message.tool_call_id or "")
        if not waiting:
            self.user_text(message.content)
            return
        block: Json = {"type": "tool_result", "tool_use_id": waiting.pop(0)}
        if message.content.strip():
            block["content"] = message.content
        self._results.append(block)

    def assistant(self, message: RequestMessage) -> None:
        """Write a reply: as it came where that is known, else thinking, text and calls."""
        self._finish_user()
        blocks = self._in_order(message, [self._call(call) for call in message.tool_calls])
        while blocks and "thinking" in blocks[-1]["type"]:
            # Of a reply that was cut off: thinking must not be the last there is of one.
            blocks.pop()
        self._append("assistant", blocks)

    def finish(self) -> list[Json]:
        """Return the messages, the user's first and last."""
        self._finish_user()
        if not self._messages or self._messages[0]["role"] != "user":
            self._messages.insert(0, {"role": "user", "content": [_LEFT_OUT]})
        if self._messages[-1]["role"] != "user":
            # Newer models do not go on with a reply that was begun for them.
            self._append("user", [_GO_ON])
        return self._messages

    def _finish_user(self) -> None:
        unanswered = [call_id for waiting in self._open.values() for call_id in waiting]
        self._results += [
            {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": "There is no result.",
                "is_error": True,
            }
            for call_id in unanswered
        ]
        self._append("user", [*self._results, *self._texts])
        self._results, self._texts = [], []
        self._open.clear()

    def _append(self, role: str, blocks: list[Json]) -> None:
        if not blocks:
            return
        if self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"] += blocks
        else:
            self._messages.append({"role": role, "content": blocks})

    def _call(self, call: ToolCall) -> Json:
        """Return a call, with an id that no other call of the request has."""
        given = wanted = plain(call.id) or "call"
        number = 1
        while wanted in self._ids:
            number += 1
            wanted = f"{given}_{number}"
        self._ids.add(wanted)
        self._open[call.id].append(wanted)
        return {
            "type": "tool_use",
            "id": wanted,
            "name": function_name(call.name),
            "input": arguments_of(call.arguments),
        }

    def _in_order(self, message: RequestMessage, calls: list[Json]) -> list[Json]:
        """Return a reply's blocks in the order they came in.

        Where the text is not what it was (cut short, or edited in the log), thinking comes first.
        """
        blocks: list[Json] = []
        thoughts: list[Json] = []
        begin = 0
        left = iter(calls)
        for part in self._parts(message):
            match part.get("type"):
                case "text":
                    end = begin + as_count(part.get("length"))
                    blocks += _text(message.content[begin:end])
                    begin = end
                case "tool_use":
                    blocks += islice(left, 1)
                case _:
                    thoughts += self._thought(part)
                    blocks += self._thought(part)
        if begin == len(message.content) and next(left, None) is None:
            return blocks
        return [*thoughts, *_text(message.content), *calls]

    def _parts(self, message: RequestMessage) -> list[Json]:
        """Return the reply's parts as its reader kept them, where its thinking goes back."""
        reasoning = message.reasoning
        if reasoning is None or not goes_back(reasoning, self._preset):
            return []
        return [as_dict(part) for part in as_list(reasoning.metadata.get("content"))]

    def _thought(self, part: Json) -> list[Json]:
        """Return a block of thinking as it was kept; none where it would be refused."""
        match part:
            case {"type": "thinking", "thinking": str(), "signature": str(signature)}:
                # Of thinking that was cut off Anthropic sends no signature; others never sign.
                return [part] if signature or not is_own(self._preset) else []
            case {"type": "redacted_thinking", "data": str(data)} if data:
                return [part]
        return []


def _text(text: str) -> list[Json]:
    """Return a block of text; none for a blank one, which is refused."""
    return [{"type": "text", "text": text}] if text.strip() else []


# How a model thinks over Anthropic's Messages, and what it then refuses, by the model's name.
#
# Up to Claude 4.5 thinking has a budget of tokens; from 4.6 on the model itself decides how much
# it thinks ("adaptive"), and ``effort`` guides it. Claude 5 and later think without being asked,
# and show nothing of it unless a summary is asked for.

_Version: TypeAlias = tuple[int, int]

#: Allows ``block_binding`` in a request.
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"

_OWN_HOST: Final = "api.anthropic.com"

_ADAPTIVE: Final[_Version] = (4, 6)
_REFUSES_SAMPLING: Final[_Version] = (4, 7)
_THINKS_UNASKED: Final[_Version] = (5, 0)
_BINDS_THINKING: Final[_Version] = (5, 1)

# claude-opus-4-5-20251101, claude-3-7-sonnet-latest, anthropic/claude-opus-4.6, claude-sonnet-5@...
_NAME: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")

#: Tokens of thinking where it has a budget; the protocol takes no smaller one than the first.
_LEAST_BUDGET: Final = 1024
_BUDGETS: Final = {
    "minimal": _LEAST_BUDGET,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 32768,
}


def is_own(preset: Preset) -> bool:
    """Return whether Anthropic itself serves ``preset``."""
    return host(preset.endpoint) == _OWN_HOST


def thinking_fields(
    preset: Preset, model: str, limit: int, messages: Sequence[Json]
) -> dict[str, Json]:
    """Return the fields of a request that say whether and how the model is to think.

    ``limit`` is the request's ``max_tokens``, of which thinking takes its part; ``messages`` are
    the request's. What is not a Claude gets a budget: that is what others have copied.
    """
    version = _version(model)
    if version is None or version < _ADAPTIVE:
        budget = min(_BUDGETS.get(preset.reasoning_effort or "", 0), limit // 2)
        if budget < _LEAST_BUDGET or not _may_have_budget(messages):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    unasked = is_own(preset) and version >= _THINKS_UNASKED
    if preset.reasoning_effort is None and not unasked:
        return {}
    thinking: Json = {"type": "adaptive", "display": "summarized"}
    if is_own(preset) and version >= _BINDS_THINKING:
        # These refuse a request whose thinking followed other words than stand before it now, and
        # ours do change: the file tree, the summary of what was evicted. Then it is left out.
        thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    fields = {"thinking": thinking}
    if preset.reasoning_effort is not None:
        fields["output_config"] = {"effort": preset.reasoning_effort}
    return fields


def sampling_fields(preset: Preset, model: str, thinking: object) -> Json:
    """Return how tokens are sampled, without what the model would refuse the request for.

    That is all of it with ``thinking`` (the request's field) and from Claude 4.7 on; of the others
    most take only one of the two.
    """
    version = _version(model)
    thinks = as_dict(thinking).get("type") in {"enabled", "adaptive"}
    if version is not None and (thinks or version >= _REFUSES_SAMPLING):
        return {}
    fields = {"temperature": preset.temperature, "top_p": preset.top_p}
    if version is not None and preset.temperature is not None:
        fields["top_p"] = None
    return {name: value for name, value in fields.items() if value is not None}


def _version(model: str) -> _Version | None:
    """Return a Claude model's version by its name, None where that does not say it."""
    found = _NAME.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else None


def _may_have_budget(messages: Sequence[Json]) -> bool:
    """Return whether thinking with a budget may be on.

    Not in mid-turn, where tools have answered a turn that was begun without (by another model).
    """
    first: Json = {}
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"][0]
        elif message["content"][0]["type"] != "tool_result":
            break
    return not first or "thinking" in first["type"]
