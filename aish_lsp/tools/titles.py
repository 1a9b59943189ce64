"""What a person is told about a tool's call: ``Edited cart.py``, ``Ran make: exit 2``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.foundation.text import clipped, count_of, escaped, one_line
from aish_lsp.tools import NOTHING_FOUND, own_tools

#: The most characters of what a call is about, and of one argument of a server's tool.
_SUBJECT: Final = 120
_VALUE: Final = 40

#: Returns what to add to the title of a call that was made, from its result.
_Outcome: TypeAlias = Callable[[str], str]

_PAGE: Final = re.compile(r"\[.*, (?:lines (\d+)-(\d+)|empty)")
_MATCH: Final = re.compile(r"(.+?):\d+: ")
_CHANGED: Final = re.compile(r"Changed .*: ([\d,]+) lines? added, ([\d,]+) removed\.")
_MADE: Final = re.compile(r"Made .* \(([\d,]+ lines?)\)\.")
_ENDED: Final = re.compile(r"\[((?:exit |timed out|its supervisor )[^]\n]*)\]")


def _lines_read(result: str) -> str:
    page = _PAGE.match(result)
    if page is None:
        return ""
    return f" ({page[1]}\N{EN DASH}{page[2]})" if page[1] else " (empty)"


def _files_found(result: str) -> str:
    names = {match[1] for match in map(_MATCH.match, result.split("\n")) if match}
    least = "at least " if "[aish: " in result else ""
    if names:
        return f": {least}{count_of(len(names), 'file')}"
    return ": nothing" if result == NOTHING_FOUND else ""


def _lines_changed(result: str) -> str:
    if changed := _CHANGED.match(result):
        return f", +{changed[1]} \N{MINUS SIGN}{changed[2]}"
    made = _MADE.match(result)
    return f", {made[1]}" if made else ""


def _how_it_ended(result: str) -> str:
    ended = _ENDED.match(result)
    return f": {ended[1]}" if ended else ""


_OUTCOMES: Final[Mapping[str, _Outcome]] = {
    "read_file": _lines_read,
    "search": _files_found,
    "edit_file": _lines_changed,
    "write_file": _lines_changed,
    "run_command": _how_it_ended,
}

#: Arguments that are words to look for, not names.
_SOUGHT: Final = ("pattern", "query")


def call_title(
    server: str, name: str, arguments: str, status: str, result: str = "", *, as_code: bool = False
) -> str:
    """Return what was done, or is being done, by a call of a tool, on one line.

    It does not say why a call failed: that is its result.

    Args:
        server: who has the tool; this and what follows are those of a ``tool`` event.
        name: the tool's.
        arguments: what it was given.
        status: how the call is going, or how it ended.
        result: its result, if it has ended.
        as_code: whether what comes from the model is to be Markdown's inline code.
    """
    values = _object(arguments)
    row = own_tools().get(name) if server == OWN_TOOLS else None
    outcome = ""
    if row is None or values is None:
        server_name = "" if server == OWN_TOOLS else f"{server} "
        raw = arguments if values is None else _values(values)
        base, present, past = "call", "Calling", "Called"
        subject = _shown(f"{server_name}{name} {raw}".strip(), as_code=as_code)
    else:
        base, present, past = row["words"]
        subject = _subject(row["about"], values, as_code=as_code)
        if name in _OUTCOMES:
            outcome = _OUTCOMES[name](result)
    if status == "done" or outcome:
        return f"{past} {subject}{outcome}"
    if status == "failed":
        return f"Could not {base} {subject}"
    if status == "denied":
        return f"Did not {base} {subject}"
    return f"{present} {subject}"


def _object(arguments: str) -> dict[str, Any] | None:
    """Return a call's arguments; None if they are not a JSON object."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _subject(about: Sequence[str], given: Mapping[str, Any], *, as_code: bool) -> str:
    """Return what the call of a built-in tool is about: the first argument of ``about``."""
    for key in about:
        value = given.get(key)
        if isinstance(value, str) and value not in ("", "."):
            shown = _shown(value, as_code=as_code)
            return f'"{shown}"' if key in _SOUGHT and not as_code else shown
    return "the project"


def _values(given: Mapping[str, Any]) -> str:
    """Return the arguments of a server's tool, each shortened."""
    values = ((key, one if isinstance(one, str) else json.dumps(one)) for key, one in given.items())
    return ", ".join(f"{key}={clipped(one_line(value), _VALUE)}" for key, value in values)


def _shown(text: str, *, as_code: bool) -> str:
    """Return a text of the model on one line, shortened and without invisible characters."""
    # Lines of a command are told apart, also where it is shown on one.
    shown = clipped(escaped(text.strip().replace("\n", " ⏎ ")), _SUBJECT)
    return f"`{shown.replace('`', chr(39))}`" if as_code else shown
