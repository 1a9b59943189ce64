"""JSON as servers send it: anything in any place; what is of another kind counts as absent."""

from __future__ import annotations

import json
import math
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

#: Tokens or dollars beyond which a server's count is taken for nonsense.
ABSURD = 10**9


def decoded(text: str | bytes, *, strict: bool = False) -> Any:
    """Return the value that ``text`` is, None where it is no JSON.

    NaN and Infinity, which JSON does not have and Python reads, are none where it is ``strict``.
    """
    try:
        return json.loads(text, parse_constant=_refuse if strict else None)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def as_dict(value: Any) -> Json:
    """Return an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return an array, or an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a text, or an empty one."""
    return value if isinstance(value, str) else ""


def as_number(value: Any) -> float | None:
    """Return a number that makes sense as an amount, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= ABSURD else None


def as_count(value: Any) -> int:
    """Return a count of tokens; 0 for what is none."""
    return int(as_number(value) or 0)
