"""Files that a question names: ``@src/app.py``, ``@src/app.py:10-20``, ``@"a name.txt"``.

Only the text is parsed here; whether such files exist is not checked. Any beginning of what follows
the ``@`` may be the name, and the longest one that is a file counts: in languages without spaces,
between quotation marks and in lists, nothing else tells where a name ends. Without quotes it has
blanks only if there is such a file: ``@my report.txt``.

``proposals`` completes a name that the user is typing after an ``@``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import nsmallest
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import is_seen

#: Not within an address (``me@host``), though emphasis may precede it (``_@a.py_``).
_AT: Final = r"(?<![A-Za-z0-9@\\])(?<![A-Za-z0-9]_)[@\uff20]"
#: Behind a word it may be the sign of a path, of which an address has none.
_IN_TEXT: Final = rf"(?:{_AT}|(?<=[A-Za-z0-9_])@(?=[^\s\"'`@/]+/))[\u200e\u200f\u2066-\u2069]*"
#: What may follow a name, or be part of it: lines, or a line and a column, or a range of these.
_LINES: Final = (
    r"(?::L?|\#L)(\d{1,9})"
    r"(?:[-\u2013]L?(\d{1,9})|[:C]\d{1,9}(?:[-\u2013]L?(\d{1,9})[:C]\d{1,9})?)?"
)
#: The quotes that may be around a name; editors and telephones make others of what is typed.
_QUOTES: Final = (
    *('""', "''", "\u201c\u201d", "\u201e\u201c", "\u201e\u201d", "\u00ab\u00bb"),
    *("\u2018\u2019", "\u201a\u2018", "\u2039\u203a"),
)
_QUOTED: Final = "|".join(
    rf"{pair[0]}(?P<quoted{number}>(?:[^{pair[1]}\\\n]|\\.){{1,1024}}){pair[1]}"
    for number, pair in enumerate(_QUOTES)
)
_MENTION: Final = re.compile(
    rf"""{_IN_TEXT}
    (?: (?:{_QUOTED})(?P<lines>{_LINES})?
      | (?P<bare>(?:\\[^\n]|[^\s\\"`]){{1,1024}}) )""",
    re.VERBOSE,
)
#: How far a name without quotes may go on behind a blank, on its line.
_BEYOND: Final = re.compile(r"(?:[^\S\r\n]+(?:\\[^\r\n]|[^\s\\\"`]){1,100}){1,8}")
_MOST_BEYOND: Final = 200
_LINES_AFTER: Final = re.compile(_LINES)
_ESCAPE: Final = re.compile(r"\\(.)")
_SPECIAL: Final = re.compile(r"[\\\"`]")

#: The most names that are examined; a text with more was pasted.
_MOST_READ: Final = 1000

#: What may follow a name in a sentence, or be part of it, depending on which file exists.
_PUNCTUATION: Final = ".,;:!?)]}>'\u2019\u201d\u00bb*_\u2026"

#: How many of these characters may be removed from the end of a name.
_MOST_STRIPPED: Final = 8

#: A name does not end within such a word: ``@dataclass`` is not the file ``data``.
_IN_WORD: Final = re.compile(r"(?<=[A-Za-z0-9_])_*[A-Za-z0-9]")

#: What looks like the name of a file, unlike that of a decorator or a person.
_PATH: Final = re.compile(r".*/.*|.*[^.]\.\w{1,8}", re.DOTALL)

#: A block of code, up to a fence that is at least as long as the one that opens it.
_FENCED: Final = re.compile(
    r"^ {0,3}(`{3,}+|~{3,}+).*?(?:^ {0,3}\1[ `~]*$|\Z)", re.DOTALL | re.MULTILINE
)
_CODE: Final = re.compile(r"(?<!\\)`[^`\n]{1,1000}`")

#: How a question names the terminal. A file of this name is ``@./terminal``.
_TERMINAL: Final = re.compile(r"terminal(?![\w/\\-]|\.\w)", re.ASCII)


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
        written: what follows the ``@`` and any quote, as it is written.
        lines: the lines behind a name in quotes; None if the name has no quotes.
        is_clear: whether it begins a word; if not, it is a name only if there is such a file.
        start, end: where ``written`` is in the question without its code.
        beyond: what is behind a name without quotes, from a blank on, as far as it may go on.
    """

    written: str
    lines: str | None
    is_clear: bool
    start: int
    end: int
    beyond: str = ""

    @property
    def spoken(self) -> tuple[str, ...]:
        """The name as it is written, and without the punctuation behind it that may not be its."""
        name = _ESCAPE.sub(r"\1", self.written)
        if self.lines is not None:
            return (name,)
        shorter = name[:-_MOST_STRIPPED] + name[-_MOST_STRIPPED:].rstrip(_PUNCTUATION)
        return tuple(dict.fromkeys((name, shorter or name[0])))

    @property
    def is_path(self) -> bool:
        """Whether it is certainly the name of a file."""
        return self.lines is not None or any(map(_PATH.fullmatch, self.spoken))

    @property
    def is_terminal(self) -> bool:
        """Whether it names the terminal, and no file."""
        return self.lines is None and _TERMINAL.match(self.written) is not None

    def readings(self) -> Iterator[tuple[int, Named]]:
        """Yield what may be meant, the longest first, each with its end in ``written``.

        A backslash quotes the character behind it, or else stands for a slash. A letter with an
        accent may be one character or two in a file's name.
        """
        if self.lines is not None:
            for name in _forms(self.written):
                yield len(self.written), _with_lines(name, self.lines)
            return
        yield from _beginnings(self.written, 0)

    def longer(self) -> Iterator[tuple[Mention, Named]]:
        """Yield what is meant if the name has blanks, the longest first.

        Each comes with the mention as it then is, which ends at a blank.
        """
        whole = self.written + self.beyond
        for end, named in _beginnings(whole, len(self.written)):
            if not named.name[-1].isspace():
                written = whole[:end] + re.split(r"\s", whole[end:], maxsplit=1)[0]
                end_at = self.start + len(written)
                yield replace(self, written=written, end=end_at, beyond=""), named


def mentions(question: str) -> list[Mention]:
    """Return what a question may name, in order; names in code do not count.

    One may begin within another: which is meant depends on the files that there are.
    """
    if "@" not in question and "\uff20" not in question:
        return []
    text = _CODE.sub(" ", _FENCED.sub("", question))
    result: list[Mention] = []
    at = 0
    while len(result) < _MOST_READ and (match := _MENTION.search(text, at)):
        kind = next(name for name in match.groupdict() if name != "lines" and match[name])
        is_clear = not match.start() or text[match.start() - 1] in " \t\r\n([{"
        lines = None if kind == "bare" else match["lines"] or ""
        if kind == "quoted1":
            is_clear = False  # It may be an apostrophe.
        start, end = match.span(kind)
        more = _BEYOND.match(text, end) if kind == "bare" else None
        beyond = more[0][:_MOST_BEYOND] if more else ""
        result.append(Mention(match[kind], lines, is_clear, start, end, beyond))
        at = match.start() + 1 if kind in ("bare", "quoted1") else match.end()
    return result


def mention_of(name: str, first: int = 0, last: int = 0) -> str:
    """Return how a question names a file, in quotes if need be."""
    match = _MENTION.match(f"@{name}")
    # A name that itself begins and ends with a quote would lose them.
    bare = match is not None and match["bare"] == name and "\\" not in name
    shown = (
        name
        if bare and name[-1] not in _PUNCTUATION
        else '"{}"'.format(_SPECIAL.sub(r"\\\g<0>", name))
    )
    lines = f":{first}" if first == last else f":{first}-{last}"
    return f"@{shown}{lines if first else ''}"


def _beginnings(written: str, after: int) -> Iterator[tuple[int, Named]]:
    """Yield what a text may begin with that ends behind ``after``, the longest first."""
    for end in range(len(written), after, -1):
        if not _IN_WORD.match(written, end):
            for name in _forms(written[:end]):
                yield end, _with_lines(name, written[end:])


def _forms(written: str) -> Iterator[str]:
    """Yield the names that may be written so, each once."""
    plain = [_ESCAPE.sub(r"\1", written)]
    if "\\" in written:
        plain.append(written.replace("\\", "/"))
    for name in plain:
        yield name
        if not name.isascii():
            yield from {unicodedata.normalize(form, name) for form in ("NFC", "NFD")} - {name}


def _with_lines(name: str, after: str) -> Named:
    """Return the file ``name``, with the lines that the text behind it names, if it does."""
    match = _LINES_AFTER.match(after)
    if match is None or not int(match[1]):
        return Named(name)
    first = int(match[1])
    last = int(match[2] or match[3] or first) or first
    return Named(name, min(first, last), max(first, last))


#: Names that are proposed at the same time.
MOST: Final = 100

_TYPED: Final = re.compile(
    rf"""{_IN_TEXT}(?:"(?P<quoted>(?:[^"\\]|\\.)*)|(?P<bare>(?:\\.|[^\s\\"`])*\\?))\Z"""
)
_TYPED_BEYOND: Final = re.compile(
    rf"""{_IN_TEXT}((?:\\.|[^\s\\"`])+(?:{_BEYOND.pattern})?[^\S\r\n]*)\Z"""
)


@dataclass(frozen=True, slots=True)
class Typed:
    """The beginning of a name, without escapes, and the position of its ``@`` in the line.

    If it has blanks without quotes, it is a name only if a file's name begins with it.
    """

    name: str
    start: int
    has_blanks: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A file, or a folder (its name ends in ``/``), and how a question names it."""

    name: str
    insert: str

    @property
    def is_folder(self) -> bool:
        """Whether the rest of a name has to follow."""
        return self.name.endswith("/")


def typed_names(line_prefix: str) -> Iterator[Typed]:
    """Yield what may be the part of a name before the cursor, the longest first, if any is typed.

    As in ``mentions``, one may begin within another, a backslash may stand for a slash, and a name
    may have blanks.
    """
    at = max(0, len(line_prefix) - _MOST_BEYOND)
    while match := _TYPED_BEYOND.search(line_prefix, at):
        if any(map(str.isspace, _ESCAPE.sub("", match[1]))):
            yield Typed(_ESCAPE.sub(r"\1", match[1]), match.start(), has_blanks=True)
        at = match.start() + 1
    at = 0
    while match := _TYPED.search(line_prefix, at):
        written = match["bare"] if match["quoted"] is None else match["quoted"]
        yield Typed(_ESCAPE.sub(r"\1", written), match.start())
        if "\\" in written:
            yield Typed(written.replace("\\", "/"), match.start())
        if match["quoted"] is not None:
            return
        at = match.start() + 1


def proposals(typed: str, names: Iterable[str]) -> list[Proposal]:
    """Return what may be meant, the likeliest first, at most MOST.

    Names in the same folder that continue it come first, then longer paths and those that begin
    with it in another case, then names that contain it in any case. Letters with accents are the
    same whether they are one character or two.
    """
    nearest = nsmallest(MOST, _ranked(_composed(typed), names))
    return [Proposal(name, _inserted(name)) for _, _, name in nearest]


def _composed(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _ranked(typed: str, names: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (rank, depth, name) of all that may be meant."""
    wanted = typed.casefold()
    folder = typed[: typed.rfind("/") + 1]
    folders: set[str] = set()
    for name in names:
        if name.endswith("/") or not is_seen(name):
            continue
        depth = name.count("/")
        composed = _composed(name)
        if composed.startswith(typed):
            slash = composed.find("/", len(folder)) >= 0
            inner = "".join(f"{part}/" for part in name.split("/")[: folder.count("/") + 1])
            if slash and inner not in folders:
                folders.add(inner)
                yield 0, inner.count("/") - 1, inner
            yield (2 if slash else 0), depth, name
            continue
        plain = composed.casefold()
        if wanted not in plain:
            continue
        own = plain.rpartition("/")[2]
        yield (1 if plain.startswith(wanted) else 3 if own.startswith(wanted) else 4), depth, name


def _inserted(name: str) -> str:
    """Return how to name a file; quotes around a folder stay open for what follows."""
    mention = mention_of(name)
    return mention.removesuffix('"') if name.endswith("/") else mention
