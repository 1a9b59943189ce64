"""Files that a question names: ``@src/app.py``, ``@src/app.py:10-20``, ``@"a name.txt"``.

Only the text is parsed here; whether such files exist is not checked.

``proposals`` completes a name that the user is typing after an ``@``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import Final

from aish_lsp.foundation.text import is_seen
from aish_lsp.project.known import FOLDED

#: ``@`` begins a name only at the beginning of a word: ``me@host`` is an address.
_MENTION: Final = re.compile(
    r"""(?:^|(?<=[\s(\[{]))@
    (?: "(?P<quoted>(?:[^"\\\n]|\\.){1,1024})"(?P<lines>:\d{1,9}(?:-\d{1,9})?)?
      | (?P<bare>(?:\\[^\n]|[^\s\\"`]){1,1024}) )""",
    re.VERBOSE | re.MULTILINE,
)
_ESCAPE: Final = re.compile(r"\\(.)")
_SPECIAL: Final = re.compile(r"[\\\"`]")
_LINES: Final = re.compile(r"(.+?)(?::|\#L)(\d{1,9})(?:-L?(\d{1,9}))?", re.DOTALL)

#: The most names that are examined; a text with more was pasted.
_MOST_READ: Final = 1000

#: What may follow a name in a sentence, or be part of it, depending on which file exists.
_PUNCTUATION: Final = ".,;:!?)]}>'\u2019\u201d\u00bb*_\u2026"

#: How many of these characters may be removed from the end of a name.
_MOST_STRIPPED: Final = 8

#: What looks like the name of a file, unlike that of a decorator or a person.
_PATH: Final = re.compile(r".*/.*|.*[^.]\.\w{1,8}", re.DOTALL)

#: A block of code, up to a fence that is at least as long as the one that opens it.
_FENCED: Final = re.compile(
    r"^ {0,3}(`{3,}+|~{3,}+).*?(?:^ {0,3}\1[ `~]*$|\Z)", re.DOTALL | re.MULTILINE
)
_CODE: Final = re.compile(r"(?<!\\)`[^`\n]{1,1000}`")


@dataclass(frozen=True, slots=True)
class Named:
    """A file, and perhaps lines of it, from 1; both are 0 for the whole file."""

    name: str
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Mention:
    """What may be the name of a file.

    Attributes:
        readings: what may be meant; the first that exists counts.
        is_path: whether it is certainly the name of a file.
    """

    readings: tuple[Named, ...]
    is_path: bool


def mentions(question: str) -> list[Mention]:
    """Return what a question names, in order and each once; names in code do not count."""
    if "@" not in question:
        return []
    found = islice(_MENTION.finditer(_without_code(question)), _MOST_READ)
    return list(dict.fromkeys(map(_read, found)))


def mention_of(name: str, first: int = 0, last: int = 0) -> str:
    """Return how a question names a file, in quotes if need be."""
    match = _MENTION.fullmatch(f"@{name}")
    # A name that itself begins and ends with a quote would lose them.
    bare = match is not None and match["bare"] is not None and "\\" not in name
    shown = (
        name
        if bare and name[-1] not in _PUNCTUATION
        else '"{}"'.format(_SPECIAL.sub(r"\\\g<0>", name))
    )
    lines = f":{first}" if first == last else f":{first}-{last}"
    return f"@{shown}{lines if first else ''}"


def _read(match: re.Match[str]) -> Mention:
    if match["quoted"] is not None:
        name = _ESCAPE.sub(r"\1", match["quoted"])
        lines = _lines(f"{name}{match['lines']}") if match["lines"] else None
        return Mention((lines or Named(name),), is_path=True)
    readings = tuple(dict.fromkeys(_readings(match["bare"])))
    return Mention(readings, any(_PATH.fullmatch(reading.name) for reading in readings))


def _readings(bare: str) -> Iterator[Named]:
    """Yield what may be meant: exactly that name, then the name without punctuation at its end."""
    text = bare
    for _ in range(_MOST_STRIPPED):
        name = _ESCAPE.sub(r"\1", text)
        yield Named(name)
        if lines := _lines(name):
            yield lines
        if text[-1] not in _PUNCTUATION or len(text) == 1:
            return
        text = text[:-1]


def _lines(text: str) -> Named | None:
    match = _LINES.fullmatch(text)
    if match is None:
        return None
    first = int(match[2])
    last = int(match[3] or first)
    return Named(match[1], min(first, last), max(first, last)) if first and last else None


def _without_code(text: str) -> str:
    """Return ``text`` without its code: fenced blocks, and what backticks enclose."""
    return _CODE.sub(" ", _FENCED.sub("", text))


#: Names that are proposed at the same time.
MOST: Final = 100

_TYPED: Final = re.compile(
    r"""(?:^|(?<=[\s(\[{]))@(?:"(?P<quoted>(?:[^"\\]|\\.)*)|(?P<bare>(?:\\.|[^\s\\"`])*))\Z"""
)


@dataclass(frozen=True, slots=True)
class Typed:
    """The beginning of a name, without escapes, and the position of its ``@`` in the line."""

    name: str
    start: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A file, or a folder (its name ends in ``/``), and how a question names it."""

    name: str
    insert: str

    @property
    def is_folder(self) -> bool:
        """Whether the rest of a name has to follow."""
        return self.name.endswith("/")


def typed_name(line_prefix: str) -> Typed | None:
    """Return the part of a name before the cursor; None if no name is being typed."""
    match = _TYPED.search(line_prefix)
    if match is None:
        return None
    written = match["bare"] if match["quoted"] is None else match["quoted"]
    return Typed(_ESCAPE.sub(r"\1", written), match.start())


def proposals(typed: str, names: Iterable[str]) -> list[Proposal]:
    """Return what may be meant, the likeliest first, at most MOST.

    Names in the same folder that continue it come first, then longer paths and those that begin
    with it in another case, then names that contain it in any case.
    """
    found = nsmallest(MOST, _ranked(typed, names))
    return [Proposal(name, _inserted(name)) for _, _, name in found]


def _ranked(typed: str, names: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (rank, depth, name) of all that may be meant."""
    wanted = typed.casefold()
    folder = typed[: typed.rfind("/") + 1]
    folders: set[str] = set()
    for name in names:
        if name.endswith((FOLDED, "/")) or not is_seen(name):
            continue
        depth = name.count("/")
        if name.startswith(typed):
            below, slash, _ = name[len(folder) :].partition("/")
            if slash and (inner := f"{folder}{below}/") not in folders:
                folders.add(inner)
                yield 0, inner.count("/") - 1, inner
            yield (2 if slash else 0), depth, name
            continue
        plain = name.casefold()
        if wanted not in plain:
            continue
        own = plain.rpartition("/")[2]
        yield (1 if plain.startswith(wanted) else 3 if own.startswith(wanted) else 4), depth, name


def _inserted(name: str) -> str:
    """Return how to name a file; quotes around a folder stay open for what follows."""
    mention = mention_of(name)
    return mention.removesuffix('"') if name.endswith("/") else mention
