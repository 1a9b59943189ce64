"""The outline of a reply: what a Responses server needs in later requests besides text and calls.

A conversation stores a reply as one text and its calls. The outline, stored as the reasoning's
metadata, says how these were split into the response's items, and what was between them::

    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    {"type": "message", "length": 42, "phase": "commentary"}
    {"type": "function_call", "call_id": "call_1"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aish_lsp.models.loose_json import Json, as_dict, as_list, as_text

#: The text between two messages of one reply.
SEPARATOR: Final = "\n\n"

# The fields of a reasoning item without which it is plain text.
_PLAIN_FIELDS: Final = frozenset({"type", "id", "status", "summary", "content", "format"})

_PLAIN: Final[Json] = {"type": "message"}


def items_of(text: str, calls: Mapping[str, Json], outline: Sequence[Any]) -> list[Json]:
    """Return a reply as items of a request's input, in the order of its outline.

    ``calls`` are the items of its calls, by the calls' original ids. If the outline does not match
    the text, which may have been shortened, the reasoning comes first, then the text, then the
    calls.
    """
    parts = [as_dict(part) for part in outline]
    texts = _split(text, parts)
    if texts is None:
        parts = [part for part in parts if part.get("type") == "reasoning"] + [_PLAIN]
        texts = [text]
    left = dict(calls)
    items: list[Json] = []
    for part in parts:
        match part.get("type"):
            case "reasoning" if has_content(part):
                items.append(reasoning_of(part))
            case "message" if message := texts.pop(0):
                items.append(_message(message, as_text(part.get("phase"))))
            case "function_call" if call := left.pop(as_text(part.get("call_id")), None):
                items.append(call)
    items += left.values()
    drop_last_reasoning(items)
    return items


def _split(text: str, parts: list[Json]) -> list[str] | None:
    """Return the texts of the outline's messages, or None if they do not make up ``text``."""
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
    """Return a message in the form that all servers accept; llama.cpp refuses shorter forms."""
    content = [{"type": "output_text", "text": text}]
    item: Json = {"type": "message", "role": "assistant", "content": content}
    return {**item, "phase": phase} if phase else item


def reasoning_of(raw: Json) -> Json:
    """Return a reasoning item as it is returned: all that it contains, without its status."""
    kept = {name: value for name, value in raw.items() if value and name != "status"}
    return {**kept, "type": "reasoning", "summary": as_list(raw.get("summary"))}


def is_opaque(raw: Json) -> bool:
    """Return whether a reasoning item contains more than text: something encrypted, a signature."""
    opaque = (value for name, value in raw.items() if name not in _PLAIN_FIELDS)
    return any(value and isinstance(value, str | dict | list) for value in opaque)


def has_content(raw: Json) -> bool:
    """Return whether a reasoning item says anything by itself, without being looked up by its id.

    Servers store nothing here.
    """
    return is_opaque(raw) or bool(as_list(raw.get("content")))


def drop_last_reasoning(items: list[Json]) -> None:
    """Remove reasoning at the end: servers refuse it without the item that it led to."""
    while items and items[-1]["type"] == "reasoning":
        items.pop()
