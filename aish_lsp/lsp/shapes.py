"""What LSP's own types let through: values that are not what their fields say.

cattrs refuses what cannot become the type of a field; but lsprotocol hands on whatever stands where
one of several plain types may, such as a progress token, and it takes any text for a URI. What is
refused here reaches no handler.

URIs, as clients send them: any text may come, so none is trusted to be one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin
from urllib.parse import unquote, urlsplit

import attrs
from pygls.uris import to_fs_path

from aish_lsp.foundation.events import camel_case
from aish_lsp.foundation.text import accepted, shown

_PLAIN: Final = frozenset({int, str, float, bool, NoneType})


class Flaw(NamedTuple):
    """A value of the wrong kind: where it is, as the wire names it, and what is wrong with it."""

    path: str
    what: str


class _Field(NamedTuple):
    name: str
    #: The plain types that it may have, or None where the converter has seen to that.
    kinds: tuple[type, ...] | None
    type: Any
    is_uri: bool


def first_flaw(params: object) -> Flaw | None:
    """Return the first value in ``params``, one of lsprotocol's objects, that is none of its kind.

    What LSP leaves open (settings, a diagnostic's data) may be anything.
    """
    return next(_flaws(params, ""), None)


def _flaws(value: object, path: str) -> Iterator[Flaw]:
    kind: Any = type(value)
    if attrs.has(kind):
        for field in _fields(kind):
            inner = getattr(value, field.name)
            place = f"{path}.{camel_case(field.name)}".lstrip(".")
            if field.kinds is not None and type(inner) not in field.kinds:
                yield Flaw(place, f"expected {accepted(field.type)}, found {shown(inner)}")
            elif field.is_uri and isinstance(inner, str) and not is_uri(inner):
                yield Flaw(place, f"expected a URI, found {shown(inner)}")
            else:
                yield from _flaws(inner, place)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, item in enumerate(value):
            # Not lists in lists: LSP has none but where anything may stand, to any depth.
            if attrs.has(type(item)):
                yield from _flaws(item, f"{path}[{number}]")


@cache
def _fields(kind: type) -> tuple[_Field, ...]:
    return tuple(
        _Field(field.name, _plain_kinds(field.type), field.type, _names_uri(field.name))
        for field in attrs.fields(kind)
    )


def _plain_kinds(annotation: Any) -> tuple[type, ...] | None:
    """Return the types of a union that has plain ones only."""
    kinds = get_args(annotation) if get_origin(annotation) is Union else ()
    return kinds if len(kinds) > 1 and _PLAIN.issuperset(kinds) else None


def _names_uri(name: str) -> bool:
    return name == "uri" or name.endswith("_uri")


def is_uri(text: str) -> bool:
    """Return whether ``text`` can be taken apart as a URI, and its path can be one of a file."""
    try:
        return "\0" not in unquote(urlsplit(text).path)
    except ValueError:
        return False


def path_of(uri: str) -> Path | None:
    """Return the path of a ``file:`` URI; None for any other, and for one that is malformed."""
    path = to_fs_path(uri) if uri.startswith("file:") and is_uri(uri) else None
    return Path(path) if path else None
