"""Lenient access to servers' JSON: a value of the wrong type counts as absent."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

#: A number of tokens or dollars above this is treated as nonsense.
ABSURD = 10**9


def decoded(text: str | bytes, *, strict: bool = False) -> Any:
    """Return the value that ``text`` encodes, or None if it is not JSON.

    With ``strict``, NaN and Infinity are not JSON either, although Python accepts them.
    """
    try:
        return json.loads(text, parse_constant=_refuse if strict else None)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def as_dict(value: Any) -> Json:
    """Return ``value`` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return ``value`` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return ``value`` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_number(value: Any) -> float | None:
    """Return ``value`` if it is a plausible amount of tokens or dollars, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= ABSURD else None  # NaN is never within the range


def as_count(value: Any) -> int:
    """Return ``value`` if it is a plausible count of tokens, else 0."""
    return int(as_number(value) or 0)


def as_tokens(value: Any) -> int | None:
    """Return ``value`` if it is a plausible positive number of tokens, else None."""
    return value if type(value) is int and 0 < value <= ABSURD else None
