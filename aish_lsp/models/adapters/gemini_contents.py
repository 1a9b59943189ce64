"""A conversation as the ``contents`` of Gemini's protocol.

What its servers refuse, and what is therefore done here: contents without parts and texts without
a character are left out; the first content is a user's, and so is the last; as many function
responses as calls follow a content with calls, all in one content that holds nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from aish_lsp.models.adapters.calls import arguments_of
from aish_lsp.models.adapters.loose import Json, as_dict, as_list

if TYPE_CHECKING:
    from aish_lsp.models.events import ToolCall
    from aish_lsp.models.request import Message

#: What Google says to send for a call that came without a signature, such as another model's:
#: https://ai.google.dev/gemini-api/docs/thought-signatures, "FAQs".
NO_SIGNATURE = "skip_thought_signature_validator"

# Where a conversation does not begin or end with the user, which it only does when it was cut.
_GO_ON = "Go on."


def contents_of(messages: Sequence[Message], *, must_sign: bool) -> list[Json]:
    """Return the conversation without its system prompt.

    ``must_sign`` is for models that refuse a call without a signature.
    """
    contents: list[Json] = []
    for position, message in enumerate(messages):
        if message.role == "user" and message.content:
            _add(contents, "user", [{"text": message.content}])
        elif message.role == "assistant":
            parts = model_parts(message)
            if must_sign:
                parts = _signed(parts)
            _add(contents, "model", parts)
            if message.tool_calls:
                following = messages[position + 1 :]
                results = list(takewhile(lambda other: other.role == "tool", following))
                _add(contents, "user", _responses(message.tool_calls, parts, results))
    if not contents or contents[0]["role"] != "user":
        contents.insert(0, _go_on())
    if contents[-1]["role"] != "user":
        contents.append(_go_on())
    return contents


def model_parts(message: Message) -> list[Json]:
    """Return the parts of an earlier reply.

    What the server sent is returned as it came, as long as the reply still says the same. Where its
    text was cut, the calls keep their signatures: without them they would be refused.
    """
    metadata = message.reasoning.metadata if message.reasoning else {}
    kept = [part for part in as_list(metadata.get("parts")) if isinstance(part, dict)]
    calls = [part for part in kept if "functionCall" in part]
    names = [as_dict(part["functionCall"]).get("name") for part in calls]
    if names != [call.name for call in message.tool_calls]:
        kept, calls = [], [_call(call) for call in message.tool_calls]
    if kept and _text(kept) == message.content:
        return kept
    return [*([{"text": message.content}] if message.content else []), *calls]


def _text(parts: list[Json]) -> str:
    return "".join(str(part.get("text", "")) for part in parts if not part.get("thought"))


def _call(call: ToolCall) -> Json:
    """Return a call that another model made, or one without anything to keep.

    Its id is ours or another provider's: none goes out. Where there is none, responses are matched
    by their order, and Google Cloud refuses a field that it does not know.
    """
    return {"functionCall": {"name": call.name or "unknown", "args": arguments_of(call.arguments)}}


def _signed(parts: list[Json]) -> list[Json]:
    """Return ``parts`` with a signature at the first call: the others of a reply need none."""
    for position, part in enumerate(parts):
        if "functionCall" in part:
            if part.get("thoughtSignature"):
                break
            signed = {**part, "thoughtSignature": NO_SIGNATURE}
            return [*parts[:position], signed, *parts[position + 1 :]]
    return parts


def _responses(
    calls: Sequence[ToolCall], parts: list[Json], results: Sequence[Message]
) -> list[Json]:
    """Return a response for each call, in their order."""
    outputs = {result.tool_call_id: result.content for result in results}
    return [
        {
            "functionResponse": {
                **_names(as_dict(sent)),
                "response": {"output": outputs[call.id]}
                if call.id in outputs
                else {"error": "There is no result."},
            }
        }
        for call, sent in zip(calls, _calls_in(parts), strict=True)
    ]


def _calls_in(parts: list[Json]) -> Iterator[Any]:
    return (part["functionCall"] for part in parts if "functionCall" in part)


def _names(call: Json) -> Json:
    """Return what ties a response to its call."""
    return {name: call[name] for name in ("id", "name") if name in call}


def _add(contents: list[Json], role: str, parts: list[Json]) -> None:
    """Add ``parts`` to the last content if it is of the same role, else as a new one."""
    if not parts:
        return
    last: Json = contents[-1] if contents else {}
    if last.get("role") != role or "functionResponse" in last["parts"][-1]:
        contents.append({"role": role, "parts": list(parts)})
    else:
        last["parts"].extend(parts)


def _go_on() -> Json:
    return {"role": "user", "parts": [{"text": _GO_ON}]}
