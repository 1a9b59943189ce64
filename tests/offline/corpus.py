"""The corpus: what is asked of the offline model, in which world, and what must come of it.

README.md in this folder says how an entry is written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "corpus"

#: How often each thing is asked.
PHRASINGS = 3


@dataclass(frozen=True, slots=True)
class Earlier:
    """A command run before the question: for real in the world, unless ``output`` is set."""

    command: str
    exit: int = 0
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One question in three phrasings. README.md tells what each field is for."""

    family: str
    name: str
    ask: tuple[str, ...]
    world: str = ""
    check: str = ""
    unknown: bool = False
    run: int | str = 1
    fill: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    ran: Earlier | None = None
    says: tuple[str, ...] = ()
    system: str = "linux"
    seconds: float = 20
    blind: bool = False

    @property
    def id(self) -> str:
        """What names it in a test's name and in the figures."""
        return f"{self.family}: {self.name}"


@cache
def entries() -> tuple[Entry, ...]:
    """Return the whole corpus.

    Raises:
        ValueError: an entry is not as README.md says; the message names the file and the entry.
    """
    found = [entry for path in sorted(FOLDER.glob("*.toml")) for entry in _read(path)]
    names = [entry.id for entry in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"in the corpus twice: {', '.join(twice)}")
    return tuple(found)


def _read(path: Path) -> Iterator[Entry]:
    data = tomllib.loads(path.read_text())
    blind = bool(data.pop("blind", False))
    for given in data.pop("question"):
        try:
            yield _entry(path.stem, given, blind=blind)
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(f"{path.name}: {given.get('name', given)}: {error}") from error
    if data:
        raise ValueError(f"{path.name}: unknown: {', '.join(data)}")


def _entry(family: str, given: dict[str, Any], *, blind: bool) -> Entry:
    fields = dict(given)
    ran = fields.pop("ran", None)
    if isinstance(ran, str):
        ran = {"command": ran}
    for name in ("ask", "fill", "earlier", "says"):
        value = fields.get(name, [])
        fields[name] = (value,) if isinstance(value, str) else tuple(value)
    fields["ran"] = Earlier(**ran) if ran is not None else None
    entry = Entry(family, blind=blind, **fields)
    if len(set(entry.ask)) != PHRASINGS:
        raise ValueError(f"it has {len(set(entry.ask))} phrasings, not {PHRASINGS}")
    if not (entry.unknown or entry.check or entry.says):
        raise ValueError("nothing is checked: it needs `check`, `says` or `unknown = true`")
    if entry.unknown and (entry.check or entry.says):
        raise ValueError("what is beyond the model has no `check` and no `says`")
    return entry
