"""An earlier call as it goes back: models write names and arguments that no server takes."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from aish_lsp.models.adapters.loose import Json

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
    """Tell whether ``text`` is a whole JSON object."""
    return isinstance(_decoded(text), dict)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(constant)
