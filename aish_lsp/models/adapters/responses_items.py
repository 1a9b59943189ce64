"""The items of a response while it streams, each found again by what its events tell of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aish_lsp.models.adapters.loose import Json, as_text


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
