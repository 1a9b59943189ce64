"""The commonest errors of shells and tools: how each is known, what it means, and what mends it.

errors.toml has them; what an expression captures is a value for the commands, and quoted as such.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from aish_lsp.offline.question import Ran
from aish_lsp.offline.table import FREE, Way, kind_of, ways_of
from aish_lsp.offline.tokens import is_name

_FILE: Final = Path(__file__).with_name("errors.toml")

#: Characters of an output that are looked through, from its end.
_MOST: Final = 20_000

#: What a value may hold that came from an output, where it has to be a name.
_SENTENCES: Final = frozenset(("text", "pattern", "name"))


@dataclass(frozen=True, slots=True)
class KnownError:
    """An error: the expression that knows it, what is said, and the ways to mend it.

    ``task`` is what the project itself may have for it; that goes before the ways. ``command`` is
    an expression that the command must fit, where the output alone tells too little.
    """

    name: str
    pattern: re.Pattern[str]
    says: str
    ways: tuple[Way, ...]
    task: str = ""
    command: re.Pattern[str] | None = None


@cache
def known_errors() -> tuple[KnownError, ...]:
    """Return the table of errors; it is read when it is first needed."""
    data = tomllib.loads(_FILE.read_text("utf-8"))
    return tuple(_error(**given) for given in data["error"])


def _error(  # noqa: PLR0917 - the keys of a row
    name: str,
    match: str,
    says: str,
    run: list[Any] | str = "",
    task: str = "",
    command: str = "",
) -> KnownError:
    ways = ways_of(run) if run else ()
    fits = re.compile(command) if command else None
    return KnownError(name, re.compile(match, re.IGNORECASE | re.MULTILINE), says, ways, task, fits)


def known_error(ran: Ran) -> tuple[KnownError, dict[str, str]] | None:
    """Return the first error of the table that the output of ``ran`` tells of, and its values."""
    output = ran.output[-_MOST:]
    for error in known_errors():
        if error.command is not None and not error.command.search(ran.command):
            continue
        match = error.pattern.search(f"{output}\n(exit {ran.exit})")
        if match is not None:
            given = {name: value for name, value in match.groupdict().items() if value}
            return error, {name: value for name, value in given.items() if _is_sound(name, value)}
    return None


def _is_sound(name: str, value: str) -> bool:
    """Return whether a value from an output may stand in a command: as a name, not as an option."""
    kind = kind_of(name)
    if len(value) > 300:
        return False
    return kind not in FREE or kind in _SENTENCES or is_name(value)
