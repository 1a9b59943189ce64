"""The items of a response: found again while it streams, and outlined for the next request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aish_lsp.models.adapters.loose import Json, as_dict, as_list, as_text


@dataclass(slots=True, eq=False)
class Item:
    """An item of the output.

    ``raw`` is what the server has said it is, ``length`` counts the characters told of it, and
    ``heard`` is the kind of event that they came in; ``arguments`` are a call's, in pieces.
    """

    raw: Json
    length: int = 0
    heard: str = ""
    arguments: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The item's type; empty where there is none."""
        return as_text(self.raw.get("type"))


class Items:
    """All items of a response, in the order in which they came."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._found_by: dict[int | str, Item] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def announce(self, event: Json, raw: Json) -> Item:
        """Return a new item, whatever stood in its place: some proxies give all of them one."""
        return self._add(_keys(event, raw), raw)

    def of(self, event: Json, raw: Json) -> Item:
        """Return the item that ``event`` belongs to; a new one where it was not announced."""
        keys = _keys(event, raw)
        sought = keys[:1] if isinstance(keys[0], int) else keys
        item = next((self._found_by[key] for key in sought if key in self._found_by), None)
        return item or self._add(keys, raw)

    def _add(self, keys: list[int | str], raw: Json) -> Item:
        item = Item(raw)
        self._items.append(item)
        self._found_by.update(dict.fromkeys(keys, item))
        return item


def _keys(event: Json, raw: Json) -> list[int | str]:
    """Return what an item is found by: its place, and where an event tells none, its ids.

    Some proxies change the ids from event to event; llama.cpp gives no places. What has neither is
    taken for the only one of its type.
    """
    place = event.get("output_index")
    places = [place] if isinstance(place, int) else []
    ids = [as_text(key) for key in (event.get("item_id"), raw.get("id"), raw.get("call_id"))]
    return [*places, *filter(None, ids)] or [as_text(raw.get("type"))]


# What a Responses server wants back of a reply, beside its text and its calls, and in which place.
#
# A conversation keeps a reply as one text and its calls. The outline, kept as the reasoning's
# metadata, tells how these were spread over the items of the response and what stood between them:
#
#     {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
#     {"type": "message", "length": 42, "phase": "commentary"}
#     {"type": "function_call", "call_id": "call_1"}

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
