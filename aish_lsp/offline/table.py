"""The table of intents: what the model knows, read from intents/*.toml for the first question.

intents/README.md says how an intent is written.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.words import group, words

FOLDER: Final = Path(__file__).with_name("intents")

#: The kinds without a shape of their own.
FREE: Final = frozenset(
    [
        *("text", "pattern", "name", "branch", "package", "process", "user", "group"),
        *("service", "container", "image", "tag", "remote", "variable", "command"),
        *("volume", "pod", "deployment", "namespace", "context", "script", "test"),
    ]
)
#: What a slot may be called; a digit tells two of a kind apart.
KINDS: Final = FREE | frozenset(
    [
        "remotepath",
        *("file", "folder", "path", "archive", "glob", "extension", "number", "size"),
        *("span", "port", "first", "last", "date", "mode", "host", "login", "url"),
        *("repository", "revision", "version", "sum", "assignment"),
    ]
)

SLOT: Final = re.compile(r"\{([a-z]+\d?)(?:\|([a-z]+))?\}")
_PART: Final = re.compile(r"\{([a-z]+\d?)\}|[^\s{}?!,;]+")


def said(word: str) -> str:
    """Return a word as it is compared in wordings; options keep their case."""
    return word if word.startswith("-") else word.lower()


def kind_of(slot: str) -> str:
    """Return the kind of a slot: ``file`` of ``file2``."""
    return slot.rstrip("0123456789")


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot for a value in a phrasing, and the words on both sides of it."""

    name: str
    kind: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Phrasing:
    """One way in which an intent is asked for: its terms, its slots, and how it is worded."""

    intent: int
    terms: tuple[str, ...]
    slots: tuple[Slot, ...]
    wording: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """Commands, and the conditions for them: all of ``when`` must hold (choosing.py)."""

    run: tuple[str, ...]
    when: tuple[str, ...] = ()
    note: str = ""


#: How many intents are kept once they are made.
_MADE: Final = 256

#: Shared by all the intents that have none, since there are thousands.
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that people ask for.

    Attributes:
        name: what it is called in the table, once in all of it.
        does: what its commands do, in a sentence.
        ways: the commands; the first way whose conditions hold is suggested.
        defaults: values of slots that a question may leave out.
        note: what can go wrong.
        topic: which answer of model.py is given instead; ``task:test`` is the project's task.
        after: what may be asked for next of what it lists: ``delete``, ``count``, and its ways.
        number: which one of the table it is.
    """

    family: str
    name: str
    does: str
    ways: tuple[Way, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=lambda: _NONE)
    note: str = ""
    topic: str = ""
    after: Mapping[str, tuple[Way, ...]] = field(default_factory=lambda: _NONE)
    number: int = -1


class Phrasings(Sequence[Phrasing]):
    """The phrasings of the table, stored as the numbers of their words and made on demand.

    There are twenty thousand, of some three thousand different words.
    """

    def __init__(self) -> None:
        self.spellings: Counter[str] = Counter()
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._terms: list[str] = []
        self._wordings = array("H")
        self._starts = array("I", [0])
        self._intents = array("H")

    def add(self, intent: int, text: str) -> None:
        """Add a phrasing of ``intent``, as written in the table."""
        self.spellings.update(word for word in text.split() if word.isalpha())
        for part in _PART.finditer(words().plain(text)):
            if part[1] and kind_of(part[1]) not in KINDS:
                raise ValueError(f"no such kind of slot: {part[1]}")
            self._wordings.append(self._number(part[0] if part[1] else said(part[0])))
        self._starts.append(len(self._wordings))
        self._intents.append(intent)

    def _number(self, word: str) -> int:
        if word not in self._numbers:
            self._numbers[word] = len(self._words)
            self._words.append(word)
            self._terms.append("" if word[0] == "{" else sys.intern(words().term(word.lower())))
        return self._numbers[word]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._intents)

    def __getitem__(self, index: int) -> Phrasing:  # type: ignore[override]  # none takes a slice
        """Return the phrasing with a number, made from what is stored."""
        if index >= len(self):
            raise IndexError(index)
        wording = tuple([self._words[number] for number in self._numbers_of(index)])
        slots = tuple(
            [
                Slot(
                    word[1:-1],
                    kind_of(word[1:-1]),
                    _beside(reversed(wording[:at])),
                    _beside(wording[at + 1 : at + 2]),
                )
                for at, word in enumerate(wording)
                if word[0] == "{"
            ]
        )
        return Phrasing(self._intents[index], self.terms(index), slots, wording)

    def terms(self, index: int) -> tuple[str, ...]:
        """Return the terms of the phrasing with a number."""
        return tuple([term for at in self._numbers_of(index) if (term := self._terms[at])])

    def _numbers_of(self, index: int) -> array[int]:
        return self._wordings[self._starts[index] : self._starts[index + 1]]


class Intents(Sequence[Intent]):
    """The intents of the table, stored as the text of their blocks and made on demand.

    There are some two thousand, and a question looks at a hundred.
    """

    def __init__(self) -> None:
        self._blocks: list[bytes] = []

    def add(self, family: str, block: Mapping[str, Any]) -> None:
        """Add a block of a table's file; its intent is made once to check that it is valid."""
        _intent(family, block, len(self))
        kept = {key: value for key, value in block.items() if key != "ask"}
        self._blocks.append(json.dumps([family, kept], separators=(",", ":")).encode())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._blocks)

    def __getitem__(self, index: int) -> Intent:  # type: ignore[override]  # none takes a slice
        """Return the intent with a number."""
        return _made(self._blocks[index], index)


@lru_cache(_MADE)
def _made(block: bytes, number: int) -> Intent:
    family, given = json.loads(block)
    return _intent(family, given, number)


def _beside(wording: Iterable[str]) -> str:
    """Return the first of ``wording`` that is not a filler: the word beside a slot."""
    fillers = group("fillers")
    return next((word for word in wording if word not in fillers), "")


@dataclass(frozen=True, slots=True)
class Table:
    """All intents and all their phrasings."""

    intents: Sequence[Intent]
    phrasings: Phrasings
    titles: dict[str, str]


@cache
def table() -> Table:
    """Return the table, read from its files; answers use the one in ``ranking()``.

    Raises:
        ValueError: a file is not as intents/README.md says.
    """
    intents = Intents()
    phrasings = Phrasings()
    titles: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        text = path.read_text("utf-8")
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:  # It names the line.
            raise ValueError(f"{path.name}: {error}") from error
        titles[path.stem] = data["title"]
        for given in data["intent"]:
            asked = ""
            try:
                for asked in _asked(given):
                    phrasings.add(len(intents), asked)
                asked = ""
                intents.add(path.stem, given)
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
                line = _line(text, asked or f"name = {given.get('name', '')}")
                raise ValueError(f"{path.name}, line {line}: {error}") from error
    return Table(intents, phrasings, titles)


def _asked(given: Mapping[str, Any]) -> Iterable[str]:
    """Return the phrasings of a block, one of each line."""
    return filter(None, map(str.strip, given["ask"].split("\n")))


def _line(text: str, begins: str) -> int:
    """Return the number of the line of a file that begins like that, whatever its quotes are."""
    lines = (line.strip().replace('"', "").replace("'", "") for line in text.split("\n"))
    wanted = begins.replace('"', "").replace("'", "")
    return next((at for at, line in enumerate(lines, 1) if line.startswith(wanted)), 1)


def _intent(family: str, given: Mapping[str, Any], number: int) -> Intent:
    keys = {"name", "does", "ask", "run", "default", "note", "topic", "after"}
    if unknown := given.keys() - keys:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
    return Intent(
        family=sys.intern(family),
        name=given["name"],
        does=given["does"],
        ways=ways_of(given.get("run", ())),
        defaults=given.get("default", _NONE),
        note=given.get("note", ""),
        topic=given.get("topic", ""),
        after={name: ways_of(ways) for name, ways in given["after"].items()}
        if "after" in given
        else _NONE,
        number=number,
    )


def ways_of(given: Any) -> tuple[Way, ...]:
    """Return ways: a command, several in order, or tables with ``when`` and ``run``."""
    if isinstance(given, str):
        return (Way((given,)),)
    if given and isinstance(given[0], dict):
        return tuple(_way(**way) for way in given)
    return (Way(tuple(given)),) if given else ()


def _way(run: str | list[str], when: str = "", note: str = "") -> Way:
    return Way((run,) if isinstance(run, str) else tuple(run), tuple(when.split()), note)
