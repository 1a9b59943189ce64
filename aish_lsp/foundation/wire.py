"""How our data looks on the wire: plain JSON data with camelCase keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any


def camel_case(name: str) -> str:
    """Return ``some_name`` as ``someName``; a trailing underscore is dropped."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in rest)


@cache
def _fields(cls: type) -> tuple[tuple[str, str], ...]:
    """Return (attribute, wire name) of each field of a dataclass."""
    return tuple((field.name, camel_case(field.name)) for field in dataclasses.fields(cls))


def to_wire(value: Any) -> Any:
    """Return ``value`` as plain JSON data: dataclasses become objects with camelCase keys.

    An event gets its ``kind`` as the first key; what is inside of something has none. Keys of
    mappings stay as they are.

    Raises:
        TypeError: it has no form in JSON.
    """
    wire = _plain(value)
    kind = getattr(value, "kind", None)
    if isinstance(kind, str) and isinstance(wire, dict) and "kind" not in wire:
        return {"kind": kind, **wire}
    return wire


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, field)) for field, name in _fields(type(value))}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    msg = f"{type(value).__name__} has no form on the wire"
    raise TypeError(msg)
