"""What a Responses server wants back of a reply, beside its text and its calls, and in which place.

A conversation keeps a reply as one text and its calls. The outline, kept as the reasoning's
metadata, tells how these were spread over the items of the response and what stood between them:

    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    {"type": "message", "length": 42, "phase": "commentary"}
    {"type": "function_call", "call_id": "call_1"}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aish_lsp.models.adapters.loose import Json, as_dict, as_list, as_text

#: Between two messages of one reply.
SEPARATOR: Final = "\n\n"

# What must go back of a reasoning item; the last two are OpenRouter's.
_REASONING_FIELDS: Final = ("id", "encrypted_content", "content", "format", "signature")

_PLAIN: Final[Json] = {"type": "message"}


def outline_of(parts: Iterable[Json]) -> list[Json]:
    """Return the outline of a response's items, or nothing where text and calls alone say it all.

    Reasoning goes with the item that it led to: what led to something that the server ran itself
    stays behind with that. Without its encrypted content reasoning stays behind too: the server
    would look for it by its id where it stored nothing.
    """
    outline: list[Json] = []
    for part in parts:
        match part.get("type"):
            case "reasoning":
                if as_text(part.get("encrypted_content")):
                    outline.append(_reasoning(part))
            case "message" | "function_call":
                outline.append(part)
            case _:
                _drop_last_reasoning(outline)
    _drop_last_reasoning(outline)
    needed = any(part["type"] == "reasoning" or "phase" in part for part in outline)
    return outline if needed else []


def items_of(text: str, calls: Mapping[str, Json], outline: Sequence[Any]) -> list[Json]:
    """Return a reply as items of a request's input, in the order of its outline.

    ``calls`` are the items of its calls by the calls' own ids. Where the outline does not fit the
    text, which may have been cut since, the reasoning comes first, then the text, then the calls.
    """
    parts = [as_dict(part) for part in outline]
    texts = _spread(text, parts)
    if texts is None:
        parts = [part for part in parts if part.get("type") == "reasoning"] + [_PLAIN]
        texts = [text]
    left = dict(calls)
    items: list[Json] = []
    for part in parts:
        match part.get("type"):
            case "reasoning" if as_text(part.get("encrypted_content")):
                items.append(_reasoning(part))
            case "message" if said := texts.pop(0):
                items.append(_message(said, as_text(part.get("phase"))))
            case "function_call" if call := left.pop(as_text(part.get("call_id")), None):
                items.append(call)
    items += left.values()
    _drop_last_reasoning(items)
    return items


def _spread(text: str, parts: list[Json]) -> list[str] | None:
    """Return the texts of the outline's messages, or None where they are not those of ``text``."""
    texts: list[str] = []
    start = 0
    for part in parts:
        if part.get("type") == "message":
            length = part.get("length")
            if not isinstance(length, int) or length < 0:
                return None
            start += len(SEPARATOR) if texts else 0
            texts.append(text[start : start + length])
            start += length
    return texts if SEPARATOR.join(texts) == text else None


def _message(text: str, phase: str) -> Json:
    """Return a message in the one form that all servers take: llama.cpp no shorter one."""
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    return {**item, "phase": phase} if phase else item


def _reasoning(raw: Json) -> Json:
    """Return a reasoning item as it goes back: exactly, without what is only said of it."""
    kept = {name: raw[name] for name in _REASONING_FIELDS if raw.get(name)}
    return {"type": "reasoning", "summary": as_list(raw.get("summary")), **kept}


def _drop_last_reasoning(items: list[Json]) -> None:
    """Drop the reasoning at the end: a server refuses it without the item that it led to."""
    while items and items[-1]["type"] == "reasoning":
        items.pop()
