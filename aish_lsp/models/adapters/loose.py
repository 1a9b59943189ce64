"""Reading JSON that may hold anything in any place: what is of another kind counts as absent.

And mending what goes wrong in it: calls that no server takes back, and texts cut in a character.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, TypeAlias

from aish_lsp.foundation.text import well_formed

Json: TypeAlias = dict[str, Any]

#: Tokens or dollars beyond which a server's count is taken for nonsense.
ABSURD = 10**9


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


# An earlier call as it goes back: models write names and arguments that no server takes.

# What functions' names and calls' ids may not hold, and how long the names may be.
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64


def plain(name: str) -> str:
    """Return ``name`` with ``_`` for what no name and no id may hold."""
    return _UNFIT.sub("_", name)


def function_name(name: str) -> str:
    """Return the name of a called function; a model may call what none can be named."""
    return plain(name)[:_LONGEST_NAME] or "unknown"


def arguments_of(text: str) -> Json:
    """Return a call's arguments as the object that servers and their templates want.

    What is none is wrapped: the tool's answer will speak of what the model wrote, so it stands
    there.
    """
    if not text.strip():
        return {}
    decoded = _decoded(text)
    return decoded if isinstance(decoded, dict) else {"arguments": text}


def arguments_text(text: str) -> str:
    """Return a call's arguments as the text of an object: as it came, if that is one."""
    return text if is_object(text) else json.dumps(arguments_of(text))


def is_object(text: str) -> bool:
    """Return whether ``text`` is a whole JSON object."""
    return isinstance(_decoded(text), dict)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(constant)


class SurrogateJoiner:
    """Joins a text that comes in pieces, which may part a surrogate pair.

    Some servers send the two halves of an emoji in two chunks, each escaped in JSON of its own. A
    text with such a half cannot be written to a file or sent to an editor.
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what is complete with ``piece``; a half at its end waits for the next piece."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return well_formed(text)
