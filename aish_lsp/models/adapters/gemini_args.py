"""A call's arguments that come in pieces, each with the place that it belongs to.

Google Cloud sends them so where ``streamFunctionCallArguments`` is asked for.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aish_lsp.models.adapters.loose import Json

# A step of a path such as $.files[0].name or $['a key'].
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,4})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_PATH = re.compile(rf"\$(?:{_STEP.pattern})+")

_VALUES = ("stringValue", "numberValue", "boolValue")

# No schema of a tool is nested deeper; a reply that is can be written to no file.
_DEEPEST = 32


def add_partial(arguments: Json, piece: Json) -> None:
    """Put the value of ``piece`` into ``arguments``; a text goes on where one is there already.

    What has no place, or one that does not fit what came before, is dropped.
    """
    path = piece.get("jsonPath")
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        return
    steps = [
        int(step[2]) if step[2] is not None else step[1] or step[3] or step[4] or ""
        for step in _STEP.finditer(path)
    ]
    if len(steps) > _DEEPEST:
        return
    place: Any = arguments
    for step, following in pairwise(steps):
        within = _at(place, step)
        if not isinstance(within, dict | list):
            within = [] if isinstance(following, int) else {}
            _put(place, step, within)
        place = within
    value = next((piece[name] for name in _VALUES if name in piece), None)
    before = _at(place, steps[-1])
    if isinstance(before, str) and isinstance(value, str):
        value = before + value
    _put(place, steps[-1], value)


def _at(place: Any, step: int | str) -> Any:
    """Return what stands at ``step`` of an object or a list, or None."""
    if isinstance(place, dict):
        return place.get(step)
    is_there = isinstance(step, int) and step < len(place)
    return place[step] if is_there else None


def _put(place: Any, step: int | str, value: Any) -> None:
    """Put ``value`` at ``step``; in a list that is at most behind its end."""
    if isinstance(place, dict) and isinstance(step, str):
        place[step] = value
    elif isinstance(place, list) and isinstance(step, int) and step <= len(place):
        place[step : step + 1] = [value]
