"""The words in which a message tells a path, a value, a type, and what must not be told at all."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import types
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from aish_lsp.foundation.redaction import is_secret, is_secret_name
from aish_lsp.foundation.text import is_seen

#: Keys and, in lists, places.
KeyPath: TypeAlias = tuple[str | int, ...]

#: Characters of a value or of a name that a message shows.
SHOWN: Final = 40
#: Whole numbers are those of TOML and of most JSON readers: 64 bits.
LARGEST: Final = 2**63 - 1


def count_of(number: int, thing: str) -> str:
    """Return a number of things, as a person says it: ``1 line``, ``1,200 lines``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def nearest(name: str, known: list[str]) -> str:
    """Return the words that help somebody who wrote ``name`` where one of ``known`` was meant."""
    near = difflib.get_close_matches(name[:SHOWN], known, n=3)
    if near:
        return "did you mean " + " or ".join(f'"{other}"' for other in near) + "?"
    if not known:
        return "there are none"
    return "known: " + ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")


def accepted(kind: Any, minimum: float | None = None, maximum: float | None = None) -> str:
    """Return in words what a field of type ``kind`` accepts: ``a whole number of at least 1``."""
    words = _accepted_kind(kind)
    if minimum is not None and maximum is not None:
        return f"{words} from {minimum:g} to {maximum:g}"
    if minimum is not None:
        return f"{words} of at least {minimum:g}"
    return words if maximum is None else f"{words} of at most {maximum:g}"


def shown(value: object, limit: int = SHOWN) -> str:
    """Return ``value`` for a message: in one line, with nothing invisible in it.

    Of a string, ``limit`` characters are shown; a list or an object is only named as one.
    """
    if isinstance(value, str):
        text = json.dumps(value[:limit], ensure_ascii=False)
        text = "".join(c if is_seen(c) else json.dumps(c)[1:-1] for c in text)
        return text if len(value) <= limit else f"{text}... ({len(value)} characters)"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def dotted(path: KeyPath, limit: int = SHOWN) -> str:
    """Return a path as it is written in TOML, list places in brackets: ``models."a b".stop[0]``.

    Of a name that is not a plain word, ``limit`` characters are shown.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        bare = re.fullmatch(r"[A-Za-z0-9_-]{1,64}", part)
        text += ("." if text else "") + (part if bare else shown(part, limit))
    return text


def hidden(path: KeyPath, value: object) -> bool:
    """Return whether ``value`` may be a secret, by where it stands or by its look."""
    if not isinstance(value, str):
        return False
    return is_secret(value) or any(isinstance(part, str) and is_secret_name(part) for part in path)


def arms(kind: Any) -> list[Any]:
    """Return the alternatives of a union, None apart; nothing for what is not a union."""
    if get_origin(kind) not in {Union, types.UnionType}:
        return []
    return [arm for arm in get_args(kind) if arm is not types.NoneType]


def _accepted_kind(kind: Any) -> str:
    if alternatives := arms(kind):
        return " or ".join(_accepted_kind(arm) for arm in alternatives)
    if get_origin(kind) is Literal:
        return " or ".join(shown(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple and get_args(kind)[-1] is not Ellipsis:
        return f"a list of {len(get_args(kind))}"
    simple = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}
    return simple.get(kind) or {
        list: f"a list of {_plural(kind)}",
        tuple: f"a list of {_plural(kind)}",
    }.get(get_origin(kind), "an object" if kind is not Any else "any value")


def _plural(kind: Any) -> str:
    """Return what the elements of a list are."""
    element = get_args(kind)[0] if get_args(kind) else Any
    plurals = {str: "strings", int: "whole numbers", float: "numbers", bool: "true or false"}
    return plurals.get(element, "objects" if dataclasses.is_dataclass(element) else "values")
