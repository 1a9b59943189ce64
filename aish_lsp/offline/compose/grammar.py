"""What clauses share: the values of a sentence, the rules that read it, and how it is shown.

A sentence is read from left to right. At each place the longest rule that fits takes its words; a
few words may be passed over, and any other word means that the sentence is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property
from math import prod
from typing import Any, Final, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.choosing import quoted, quoted_path
from aish_lsp.offline.deeds import QUOTED
from aish_lsp.offline.words import data, group, spelled_out, words
from aish_lsp.offline.workspace import WorkspaceFacts

_MOST: Final = 600


class Misfit(Exception):
    """The sentence says something that cannot be composed."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A command, and what it does in a sentence; whether it goes on from an earlier one."""

    command: str
    says: str
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Toolset:
    """Where the command will run: which find, sed and stat there are."""

    world: WorkspaceFacts

    @property
    def gnu(self) -> bool:
        """Whether the tools are GNU's and not BSD's."""
        return self.world.machine.system != "darwin"


_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class Value:
    """A name, number, size or span in the sentence, as it is written."""

    text: str
    kind: str = "word"

    @property
    def number(self) -> int:
        """The number that is meant."""
        digits = re.match(r"\d+", self.text)
        return int(digits[0]) if digits else {"first": 1, **words().numbers}[self.text.lower()]

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        match = re.match(r"([\d.]+)\s?(.?)", self.text)
        assert match is not None
        return int(float(match[1]) * _UNITS[match[2].lower()])

    @property
    def seconds(self) -> int:
        """The span of time in seconds: of ``3 days``, ``a week``, ``30*24 hours``."""
        count, _, unit = self.text.lower().rpartition(" ")
        seconds = words().seconds
        every = seconds.get(unit) or seconds[unit.removesuffix("s")]
        if "*" in count:
            return prod(map(int, count.split("*"))) * every
        number = int(count) if count.isdigit() else words().numbers.get(count, 1)
        return number * every

    @property
    def unit(self) -> str:
        """The unit of a size or a span: ``days``, ``MB``."""
        found = re.search(r"[a-z]+$", self.text, re.IGNORECASE)
        return found[0] if found else ""

    @property
    def quoted(self) -> str:
        """The text as one word of the shell."""
        return quoted(self.text)

    @property
    def path(self) -> str:
        """The text as a path of the shell, which is no option."""
        return quoted_path(self.text)

    @property
    def glob(self) -> str:
        """The text for a pattern of names, with its wildcards taken literally."""
        return re.sub(r"([][*?\\])", r"\\\1", self.text)

    @property
    def extension(self) -> str:
        """The extension that is meant: of ``.txt``, ``*.txt``, ``txt`` or ``text``."""
        bare = self.text.removeprefix("*").removeprefix(".")
        if not re.fullmatch(r"[\w.+~-]+", bare):
            raise Misfit(self.text)
        return _formats().get(bare.lower(), bare) if self.kind == "format" else bare


def _formats() -> dict[str, str]:
    return {**words().extensions, **data("clauses")["formats"]}


_TOKEN: Final = re.compile(
    r"""
      (?<!\w)(?P<quote>["'`])(?P<quoted>.+?)(?:(?P=quote)|(?<=.)')(?!\w)
    | [\u201c\u201e](?P<curly>[^\u201c\u201d]+)[\u201c\u201d]
    | (?P<size>(?<![\d.])\d{1,9}(?:\.\d{1,9})?\s?
        (?:[kmgt]i?b?|bytes?|(?:kilo|mega|giga|tera)bytes?|[kmg]egs?|gigs?))(?![\w/.]\w|\w)
    | (?P<span>(?:(?:(?<![\d*])\d{1,9}(?:\*\d{1,4})?|NUMBER|an?|one)[\s-]|(?<=last\s)|(?<=past\s))
        (?:seconds?|minutes?|mins?|hours?|days?|weeks?|fortnights?|months?|years?))(?!\w)
    | (?P<date>(?<![\w/.-])\d{4}-\d\d-\d\d)(?![\w/.-])
    | (?P<number>(?<!\d)\d{1,18}(?:st|nd|rd|th)?(?![\w.])|(?:NUMBER)(?!\w))
    | (?P<mark>[,;:()?!]|\.(?=\s|$)(?<!\s\.)) | (?P<word>[^\s,;()?!]+)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PLAIN: Final = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_SUMS: Final = re.compile(r"(?:md5|sha1|sha256|sha512)(?:sums?)?", re.IGNORECASE)
_KINDS: Final = ("quoted", "curly", "size", "span", "date", "number")
#: A word with a file's noun behind it may be a format: "php files".
_NOUN: Final = re.compile(
    r"\s*(?:(?:,|and\b|or\b|,\s*and\b)\s*[\w.*]+\s*)*"
    r"(?:files?|scripts?|documents?|images?|pictures?|photos?|videos?|ones)\b"
)
_BEFORE_NAMES: Final = ("in", "under", "below", "inside", "within", "from", "to", "into", "of")
#: The same for what is left out.
_BEFORE_SPARED: Final = ("except", "excluding", "ignoring", "skipping", "counting")


@cache
def _token() -> re.Pattern[str]:
    numbers = "|".join(word for word in words().numbers if word not in ("second", "couple"))
    return re.compile(_TOKEN.pattern.replace("NUMBER", numbers), _TOKEN.flags)


def values_of(sentence: str, world: WorkspaceFacts) -> tuple[str, list[Value]]:
    """Return the sentence with a mark like ``<name:0>`` for each value, and the values.

    A plain word is a value where it names what ``world`` has: "in src".
    """
    if len(sentence) > _MOST:
        raise Misfit(sentence)
    sentence = resaid(sentence, "same")
    said: list[str] = []
    values: list[Value] = []
    for match in _token().finditer(sentence.strip()):
        if match["mark"]:
            said += [","] if match["mark"] in ",;:" else []
            continue
        kind = next((one for one in _KINDS if match[one]), "word")
        word = match[kind]
        if kind == "word" and word.strip("./") and not world.exists(word):
            word = word.rstrip(".:")  # the end of a clause
        if word[0] == "@" and world.exists(word[1:]):
            word = word[1:]  # a file that is mentioned
        before = said[-1] if said else ""
        if before in ("or", "and") and len(said) > 1 and said[-2].startswith("<format:"):
            before = "are"  # "are png or jpg"
        value = _value(word, kind, sentence.strip()[match.end() :], before)
        if before == "the" and len(said) > 1 and said[-2] in _BEFORE_SPARED:
            before = said[-2]  # "not counting the tests"
        known = before in (*_BEFORE_NAMES, *_BEFORE_SPARED) and world.exists(word)
        if (value is None and known) or (
            word[0] == "." and (world.exists(word) or word in group("usual_folders"))
        ):
            value = Value(word, "path")
        if value is None:
            said.append(word)
            continue
        said.append(f"<{value.kind}:{len(values)}>")
        values.append(value)
    return "".join(f"{word} " for word in said), values


#: A user or group, and a mode, as the shell has them; neither can be an option.
ANYBODY: Final = re.compile(r"\w[\w.-]*(?::\w[\w.-]*)?")
MODE: Final = re.compile(r"0?[0-7]{3,4}|[ugoa]*[-+=][rwxXst]+")

#: The kinds of a word by its shape; the first that fits.
_SHAPES: Final = tuple(
    (kind, re.compile(shape))
    for kind, shape in (
        ("extension", r"\*?\.[\w+-]+~?"),
        ("mode", MODE.pattern),
        ("glob", r".*[][*?].*"),
        ("path", r".*/.*|\.|\.\.|~"),
    )
)


def _value(text: str, kind: str, rest: str, before: str) -> Value | None:
    """Return the value that a token is between two others, or None if it is a plain word."""
    if kind == "date":
        return Value(text, "name")
    if kind in ("size", "span", "number"):
        return Value(text.replace("-", " ") if kind == "span" else text, kind)
    if kind == "word":
        if text.lower() in _formats() and (_NOUN.match(rest) or before in ("not", "are")):
            return Value(text, "format")
        english = _PLAIN.fullmatch(text) and (text.islower() or text.istitle())
        if _SUMS.fullmatch(text) or (english and (len(text) > 1 or text in "aAI")):
            return None
        if re.search(r"[$\\<>]", text):
            raise Misfit(text)
    shape = next((kind for kind, shape in _SHAPES if shape.fullmatch(text)), "name")
    return Value(text, "name" if shape == "mode" and kind != "word" else shape)


class Phrase:
    """A way to say a clause: a phrase of clauses.toml, which a regular expression may precede.

    The tables have hundreds of them, and a sentence has the words of a few: only those are
    compiled.
    """

    def __init__(self, text: str, before: str = "") -> None:
        self.text = text
        self._before = before
        self._needed = _needed_by_all(_needed(iter(_PART.findall(text))))

    def is_possible(self, text: str) -> bool:
        """Return whether ``text``, in lower case, has the words that the phrase must have."""
        return all(any(word in text for word in words) for words in self._needed)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The expression for the phrase."""
        return re.compile(self._before + _expression(self.text), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Clause:
    """A kind of clause: the ways to say it, and what its values add to a request.

    ``tells`` is how the explanation repeats the clause, with ``{}`` for its words; it may not.
    """

    ways: Sequence[Phrase]
    add: Callable[..., Any]
    tells: str = ""


@cache
def clauses(section: str, before: str = "") -> dict[str, list[Phrase]]:
    """Return the clauses of a section of clauses.toml or named.toml, by what they mean."""
    return {
        name: [Phrase(text, before) for text in said]
        for name, said in data("named" if section == "named" else "clauses")[section].items()
    }


_PART: Final = re.compile(r"[\[\]()|]|[^\s\[\]()|]+")
_BRACKETS: Final = {"[": "(?:", "]": ")?", "(": "(?:", ")": ")", "|": "|"}
#: What a text has where a value of a clause is.
_MARKS: Final = {"SIZE": "<size:", "SPAN": "<span:", "NUMBER": "<number:"} | dict.fromkeys(
    ("VALUES", "VALUE", "FORMATS"), "<"
)
#: The words of which a text must have one.
_OneOf: TypeAlias = frozenset[str]


def _needed(parts: Iterator[str]) -> list[list[_OneOf]]:
    """Return what each alternative needs, up to the bracket that ends them."""
    alternatives: list[list[_OneOf]] = [[]]
    for part in parts:
        if part in ("]", ")"):
            break
        if part == "|":
            alternatives.append([])
        elif part == "[":
            _needed(parts)  # may be left out
        elif part == "(":
            alternatives[-1] += _needed_by_all(_needed(parts))
        elif part in (short := data("clauses")["short"]):
            alternatives[-1] += _needed_by_all(_needed(iter(_PART.findall(short[part]))))
        elif part in _MARKS:
            alternatives[-1].append(frozenset({_MARKS[part]}))
        elif re.fullmatch(r"[a-z-]+~?", part):
            alternatives[-1].append(frozenset({part.removesuffix("~")}))
    return alternatives


def _needed_by_all(alternatives: list[list[_OneOf]]) -> list[_OneOf]:
    if len(alternatives) == 1:
        return alternatives[0]
    return [frozenset().union(*(one[0] for one in alternatives))] if all(alternatives) else []


def _expression(phrase: str) -> str:
    """Return what a clause of clauses.toml says, as an expression; each word ends with a blank."""
    parts = [_BRACKETS.get(part) or _word(part) for part in _PART.findall(phrase)]
    return f"(?:{''.join(parts)})"


def _word(word: str) -> str:
    short = data("clauses")["short"]
    if word in short:
        return _expression(short[word])
    if word in (values := data("effects")["values"]):
        return spelled_out(values[word], data("effects")["parts"])
    return word.replace("~", "(?:n?ing|e?s|e?d|e)?") + " "


#: The first of the characters, of private use, that stand for what is quoted.
_ASIDE: Final = 0xE000


def resaid(sentence: str, ways: str) -> str:
    """Return a sentence in the words of the clauses, by one of the lists of effects.toml."""
    quoted_parts: list[str] = []

    def set_aside(part: re.Match[str]) -> str:
        quoted_parts.append(part[0])
        return chr(_ASIDE + len(quoted_parts) - 1)

    sentence = QUOTED.sub(set_aside, sentence)
    for pattern, said in data("effects")[ways]:
        sentence = re.sub(pattern, said, sentence, flags=re.IGNORECASE)
    for at, part in enumerate(quoted_parts):
        sentence = sentence.replace(chr(_ASIDE + at), part)
    return sentence


def fillers_of(section: str) -> list[str]:
    """Return the words of a section that may be passed over."""
    said = data("clauses")["fillers"]
    common: str = said["common"] if section in ("files", "lines") else ""
    return [*common.split(), *said[section].split()]


def understand(
    sentence: str,
    section: str,
    rules: Iterable[Clause],
    request: Any,
    also: Collection[str] = (),
) -> str:
    """Let the rules add to ``request`` what each clause says; return the text that was read.

    ``section`` is that of clauses.toml which has the rules' phrases, and the words that say
    nothing, besides those of ``also``.

    Raises:
        Misfit: a word is not accounted for, or two clauses contradict one another.
    """
    text, values = values_of(sentence, request.target.world)
    fillers = frozenset(fillers_of(section)).union(also)
    lowered = text.lower()
    possible = [(way, one) for one in rules for way in one.ways if way.is_possible(lowered)]
    at = 0
    while at < len(text):
        found = [(match, one) for way, one in possible if (match := way.pattern.match(text, at))]
        if found:
            match, one = max(found, key=lambda pair: pair[0].end())
            one.add(request, *(_values(group, values) for group in match.groups()))
            if one.tells:
                request.said.append(one.tells.format(spoken(match[0], values)))
            at = match.end()
            continue
        word = text[at : text.index(" ", at)]
        if word.lower() not in fillers:
            raise Misfit(word)
        at += len(word) + 1
    return text


def spoken(clause: str, values: Sequence[Value]) -> str:
    """Return what was said, with the values in place of their marks."""
    said = re.sub(r"<\w+:(\d+)>", lambda mark: _told(values[int(mark[1])]), clause)
    said = re.sub(r"^(?:(?:that|which|who|and|then) )+|(?: (?:in|of|for|on))+ ?$", "", said)
    return said.replace(" ,", ",").strip(", ")


def _told(value: Value) -> str:
    return value.text if value.kind in ("number", "size", "span") else f"`{value.text}`"


def _values(group: str | None, values: Sequence[Value]) -> list[Value]:
    if group is None:
        return []
    marks = re.findall(r":(\d+)>", group)
    if marks:
        return [values[int(mark)] for mark in marks]
    return [Value(one) for one in _LISTED.split(group.strip())]


#: What stands between the plain words of a list: "docs , src and tests".
_LISTED: Final = re.compile(r" , (?:and |or )?| (?:and|or) ")


def put(request: Any, name: str, value: Any) -> None:
    """Set an attribute of a request once.

    Raises:
        Misfit: it already has another value.
    """
    known = getattr(request, name)
    if known and (known != value or name == "want"):
        raise Misfit(name)
    setattr(request, name, value)
