"""The keys of the schema as a list and as JSON Schema, data by key, and which keys need a grant."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from aish_lsp.config.schema import Config
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import arms, dotted
from aish_lsp.foundation.validate import without

#: Placeholder in a key's path for a name that the user chooses: ``models.NAME.endpoint``.
NAME: Final = "NAME"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the configuration, with its type, default, documentation and bounds."""

    path: tuple[str, ...]
    kind: Any
    default: Any
    doc: str
    minimum: float | None
    maximum: float | None


@cache
def all_keys() -> tuple[Key, ...]:
    """Return all keys of the configuration in the order of the schema."""
    return tuple(_keys(Config, ()))


def key_at(path: tuple[str, ...]) -> Key | None:
    """Return the key at ``path``, with any name in place of NAME; None if there is none."""
    for key in all_keys():
        if len(key.path) == len(path) and all(
            wanted in (NAME, part) for wanted, part in zip(key.path, path, strict=True)
        ):
            return key
    return None


def leaves(
    data: Mapping[str, Any], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value in nested tables with its path; an empty table counts as a value."""
    for name, value in data.items():
        path = (*prefix, name)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def nested(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return nested tables for values by path: the inverse of ``leaves``."""
    data: dict[str, Any] = {}
    for path, value in values.items():
        table = data
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value
    return data


def lookup(data: Mapping[str, Any], path: tuple[str, ...]) -> tuple[bool, Any]:
    """Return whether ``data`` has a value at ``path``, and the value."""
    value: Any = data
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return False, None
        value = value[name]
    return True, value


def _keys(cls: type, prefix: tuple[str, ...]) -> Iterator[Key]:
    kinds = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        kind, path = kinds[field.name], (*prefix, field.name)
        table = arms(kind)[0] if len(arms(kind)) == 1 else kind
        entry = get_args(kind)[1] if get_origin(kind) is dict else None
        if dataclasses.is_dataclass(table):
            assert isinstance(table, type)
            yield from _keys(table, path)
        elif isinstance(entry, type) and dataclasses.is_dataclass(entry):
            yield from _keys(entry, (*path, NAME))
        elif "doc" in field.metadata:
            default = field.default
            if field.default_factory is not MISSING:
                default = field.default_factory()
            yield Key(
                path,
                kind,
                default,
                field.metadata["doc"],
                field.metadata["minimum"],
                field.metadata["maximum"],
            )


# JSON Schema.

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


def json_schema() -> dict[str, Any]:
    """Return the configuration's JSON schema (draft 2020-12)."""
    return {"$schema": _DIALECT, "title": "aish-lsp", **_table_schema(Config)}


def _table_schema(cls: type) -> dict[str, Any]:
    kinds = get_type_hints(cls)
    return {
        "type": "object",
        "description": first_line(cls),
        "properties": {
            field.name: _field_schema(field, kinds[field.name])
            for field in dataclasses.fields(cls)
            if _is_key(field, kinds[field.name])
        },
        "additionalProperties": False,
    }


def _is_key(field: dataclasses.Field[Any], kind: Any) -> bool:
    """Return whether the user can set a field; a preset's ``name`` is not a key."""
    return "doc" in field.metadata or dataclasses.is_dataclass(kind)


def _field_schema(field: dataclasses.Field[Any], kind: Any) -> dict[str, Any]:
    schema = _kind_schema(kind)
    if "doc" not in field.metadata:
        return schema
    schema["description"] = field.metadata["doc"]
    if field.default is not dataclasses.MISSING:
        schema["default"] = field.default
    for bound in ("minimum", "maximum"):
        if field.metadata[bound] is not None:
            schema[bound] = field.metadata[bound]
    return schema


def _kind_schema(kind: Any) -> dict[str, Any]:
    if alternatives := arms(kind):
        schema = _kind_schema(alternatives[0])
        return {**schema, "type": [schema["type"], "null"]}
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        return _table_schema(kind)
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": list(arguments)}
    if get_origin(kind) is list:
        return {"type": "array", "items": _kind_schema(arguments[0])}
    if get_origin(kind) is dict:
        entry = arguments[1]
        values = True if entry is Any else _kind_schema(entry)
        return {"type": "object", "additionalProperties": values}
    return {"type": _SIMPLE[kind]}


def first_line(cls: type) -> str:
    """Return the first line of a class's docstring, in Markdown."""
    return (cls.__doc__ or "").partition("\n")[0].replace("``", "`")


# What a workspace's own configuration may set without a grant.
#
# This applies to ``.aish.toml`` and to settings that an editor may have read from the workspace.

#: Tables whose entries are granted and replaced as a whole. Mixing a stranger's preset with one of
#: the user's could send the user's key to the stranger's address.
WHOLE: Final = (("models",), ("tools", "servers"))

#: Keys that a workspace cannot set even with a grant.
USERS_ALONE: Final = (("safety", "confine"),)


@dataclass(frozen=True, slots=True)
class Asked:
    """A key that the workspace sets, and its value."""

    key: str
    value: Any


def part(
    data: Mapping[str, Any], base: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Asked, ...], str]:
    """Split a workspace's valid ``data`` by trust.

    Returns the tables that apply without a grant; all other keys, as dotted paths with their
    values; and a hash of these.

    A value equal to the one in ``base``, the data in force without the workspace's, needs no
    grant, since editors also send the defaults of their settings.
    """
    harmless: dict[tuple[str, ...], Any] = {}
    asked: dict[tuple[str, ...], Any] = {}
    for path, value in _units(data):
        present, current = lookup(base, path)
        if _harmless(path, value, current):
            harmless[path] = value
        elif not present or current != value:
            within = isinstance(value, Mapping) and value
            asked.update(leaves(value, path) if within else [(path, value)])
    # Never shortened: the user grants exactly what was shown.
    shown = tuple(Asked(dotted(path, limit=sys.maxsize), one) for path, one in asked.items())
    text = json.dumps(sorted(asked.items()), sort_keys=True, allow_nan=False)
    return nested(harmless), shown, hashlib.sha256(text.encode()).hexdigest()


def _harmless(path: tuple[str, ...], value: Any, current: Any) -> bool:
    if path == ("context", "max_turns"):
        return bool(value <= current)
    return path[0] == "project" or path == ("memory", "inject_max_chars")


def _units(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value by path, and each entry of the WHOLE tables as one value."""
    for table in WHOLE:
        _, entries = lookup(data, table)
        for name, entry in (entries or {}).items():
            yield (*table, name), entry
    rest = without(data, WHOLE)
    assert isinstance(rest, Mapping)
    for path, value in leaves(rest):
        # An empty table adds nothing.
        if value != {}:
            yield path, value
