"""A conversation as Anthropic's Messages want it.

User and assistant alternate and the user is first; what answers a tool's call stands at the
beginning of the very next message; no text is blank. What breaks these rules is refused as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final

from aish_lsp.models.adapters.anthropic_thinking import is_own
from aish_lsp.models.adapters.calls import arguments_of, function_name, plain
from aish_lsp.models.adapters.loose import Json, as_count, as_dict, as_list
from aish_lsp.models.reasoning import goes_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aish_lsp.config.schema import Preset
    from aish_lsp.models.events import ToolCall
    from aish_lsp.models.request import Message

#: Behind it everything up to here is kept for the next request.
CACHE_MARK: Final[Json] = {"type": "ephemeral"}

_LEFT_OUT: Final = {"type": "text", "text": "[The beginning was left out.]"}
_GO_ON: Final = {"type": "text", "text": "Go on."}


def system_text(messages: Iterable[Message]) -> str:
    """Return the system prompt, which stands beside the messages."""
    return "\n\n".join(m.content for m in messages if m.role == "system" and m.content.strip())


def wire_messages(messages: Iterable[Message], preset: Preset) -> list[Json]:
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

    def result(self, message: Message) -> None:
        """Write a tool's result; one whose call was evicted is a text."""
        waiting = self._open.get(message.tool_call_id or "")
        if not waiting:
            self.user_text(message.content)
            return
        block: Json = {"type": "tool_result", "tool_use_id": waiting.pop(0)}
        if message.content.strip():
            block["content"] = message.content
        self._results.append(block)

    def assistant(self, message: Message) -> None:
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

    def _in_order(self, message: Message, calls: list[Json]) -> list[Json]:
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

    def _parts(self, message: Message) -> list[Json]:
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
