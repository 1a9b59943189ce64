"""A question cut into words, each with the kinds of value that it may be.

A kind is the name of a slot in the table: ``file``, ``port``, ``span``. A free kind (a branch, a
package, a pattern) has no shape of its own: matching.py recognizes it by the words around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cache
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.deeds import PLAIN_WORD, QUOTED, asides
from aish_lsp.offline.words import group, is_like, pattern, words
from aish_lsp.offline.workspace import WorkspaceFacts

#: How many words of a question are looked at.
_MOST: Final = 120

_TOKEN: Final = re.compile(
    r"""
      `(?P<code>[^`]+)`
    | (?<!\w)"(?P<double>[^"]+)"
    | (?<!\w)'(?P<single>[^']+)'(?!\w)
    | [\u201c\u201e](?P<curly>[^\u201c\u201d]+)[\u201c\u201d]
    | (?<!\S)@"(?P<mentioned>[^"]+)"
    | (?<!\S)(?P<json>\{\s*"[^{}]*\}|\[\s*[\d"][^\[\]]*\])(?!\S)
    | (?P<url>(?:https?|ftp|ssh|git|file)://[^\s"'<>]+|git@[\w.-]+:[^\s"'<>]+
        |(?:localhost|127\.0\.0\.1)(?::\d+)?/[^\s"'<>]*)
    | (?P<size>(?<![\w./-])(?<!every\s)(?<!each\s)(?<!\d)\d{1,9}(?:\.\d{1,9})?\s?
        (?a:[kmgt]i?b?|bytes?|(?:kilo|mega|giga|tera)bytes?|[kmg]egs?|gigs?)(?:/s(?:ec)?)?(?![\w/]))
    | (?P<span>(?<![\w./-])(?:(?:last|past|previous)\s+)?
        (?:(?<!\d)\d{1,9}\s?|(?:NUMBER|an?|couple\sof)\s)
        (?a:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|(?<=\d)[shd])(?!\w)
      |(?:(?<=every\s)|(?<=each\s))\d+m(?!\w)|(?<!\w)(?:last|past|this)\s+(?:minute|hour|day|week|month|year)(?!\w)|(?<!\w)(?:today|yesterday|tonight)(?:['\u2019]s)?(?!\w))
    | (?P<range>(?:(?<=lines\s)|(?<=line\s)|(?<=rows\s)|(?<=from\s)|(?<=between\s)|(?<=numbers\s)
          |(?<=print\s)|(?<=count\s))
        \d{1,7}\s+(?:to|through|thru|until|till|up\sto|and|-)\s+(?:line\s+)?\d{1,7}(?![\w.]))
    | (?P<sum>(?<![\w./-])\(*\d+(?:\.\d+)?\)*
        (?:\s*(?:\*\*?|[+%^/]|\s-\s)\s*\(*\d+(?:\.\d+)?\)*)+(?![\w./-]))
    | (?P<word>\S+)
    """,
    re.VERBOSE | re.IGNORECASE,
)


@cache
def _token_pattern() -> re.Pattern[str]:
    numbers = "|".join(words().numbers)
    return re.compile(_TOKEN.pattern.replace("NUMBER", numbers), _TOKEN.flags)


#: An unquoted message at the end of a question: "commit with message fix typo".
_MESSAGE: Final = re.compile(
    r"(\b(?:with|and)\s+(?:the\s+|a\s+)?(?:commit\s+)?message:?\s+)([^\"'`{}\u201c]+?)\s*$",
    re.IGNORECASE,
)
_PUNCTUATION: Final = ".,;:!?)\u2026\u201d"


@dataclass(slots=True)
class Token:
    """A word, or several that are one value.

    Attributes:
        text: the word as written, without its quotes.
        term: what it is compared by; empty for a stop word or a value.
        before, after: the words on both sides, in lower case; fillers before it are skipped.
        behind: the word immediately before it.
        quoted: whether it was in quotes.
        kinds: the kinds that it may be, each with the value in that case.
        branch: whether the repository has a branch of that name.
        aside: whether it is in a clause that only describes the situation: "my disk is full, ...".
        limits: whether it says what is not to be done, or has to be so: "without the tests".
        start, end: its position in the question.
    """

    text: str
    term: str
    start: int
    end: int
    quoted: bool = False
    before: str = ""
    after: str = ""
    behind: str = ""
    kinds: dict[str, str] = field(default_factory=dict)
    branch: bool = False
    aside: bool = False
    limits: bool = False

    @property
    def lower(self) -> str:
        """The word in lower case; empty if it is quoted."""
        return "" if self.quoted else self.text.lower()

    @property
    def is_telling(self) -> bool:
        """Whether it says something about what is wanted."""
        return bool(self.term or self.kinds or self.quoted)


def cut(text: str, workspace: WorkspaceFacts) -> list[Token]:
    """Return the words of ``text``; ``workspace`` has the names that they may mean."""
    found: list[Token] = []
    text = _MESSAGE.sub(r'\1"\2"', plain(text))
    for match in _token_pattern().finditer(text):
        found.extend(_tokens(match, workspace))
        if len(found) >= _MOST:
            break
    _look_around(found, workspace)
    _mark_limits(text, found)
    for start, end, tells in asides(text):
        for token in found:
            if start <= token.start < end and (tells or not token.kinds):
                token.aside = True
    return found


def _mark_limits(text: str, tokens: Sequence[Token]) -> None:
    """Note which words are in a clause that limits the others, from its first word to its end."""
    for limit in pattern("limits").finditer(QUOTED.sub(lambda one: "x" * len(one[0]), text)):
        for token in tokens:
            token.limits |= limit.start() <= token.start < limit.end()


def plain(text: str) -> str:
    """Return ``text`` with each known phrase outside quotes replaced by one word."""
    parts: list[str] = []
    end = 0
    for quoted in QUOTED.finditer(text):
        parts += [words().plain(text[end : quoted.start()]), quoted[0]]
        end = quoted.end()
    return "".join([*parts, words().plain(text[end:])])


def _tokens(match: re.Match[str], workspace: WorkspaceFacts) -> Iterator[Token]:
    kind = match.lastgroup
    assert kind is not None
    value = match[kind]
    start, end = match.span()
    if kind in ("code", "double", "single", "curly", "mentioned", "json"):
        yield Token(
            value, "", start, end, quoted=True, kinds=dict(_kinds(value, workspace, quoted=True))
        )
    elif kind == "url":
        value = value.rstrip(_PUNCTUATION)
        kinds = {"url": value}
        if value.endswith(".git") or value.startswith(("git@", "ssh://")):
            kinds["repository"] = value
        yield Token(value, "", start, end, kinds=kinds)
    elif kind == "size":
        yield Token(value, "", start, end, kinds={"size": _size(value)})
    elif kind == "range":
        first, *_, last = re.findall(r"\d+", value)
        yield Token(value, "", start, end, kinds={"first": first, "last": last})
    elif kind == "sum":
        yield Token(value, "", start, end, kinds={"sum": value.replace("**", "^")})
    elif kind == "span":
        yield Token(value, "", start, end, kinds={"span": str(_seconds(value))})
    elif (
        value in group("signs") and not match.string[max(0, start - 1) : start].isspace() and start
    ):
        return  # The comma behind "4 GB,"
    else:
        yield from _word(value, start, workspace)


def _word(raw: str, start: int, workspace: WorkspaceFacts) -> Iterator[Token]:
    """Yield a bare word, without the punctuation around it unless there is a file of that name."""
    lead = len(raw) - len(raw.lstrip("([{\"'"))
    bare = raw[lead:]
    if not workspace.exists(bare):
        bare = bare.rstrip(_PUNCTUATION + "]}\"'") or bare
    if raw in group("signs"):
        yield Token(raw, raw, start, start + len(raw))
        return
    if not bare or not any(character.isalnum() or character in "._~*/-" for character in bare):
        return
    owned = re.fullmatch(r"([*.]{0,2}[^\W_]{2,})['\u2019]s", bare)
    if owned and bare.lower().replace("\u2019", "'") not in group("stop"):
        bare = owned[1]
    mentioned = bare.startswith("@") and len(bare) > 1 and workspace.exists(bare[1:])
    value = bare[1:] if mentioned else bare
    kinds = dict(_kinds(value, workspace, quoted=mentioned))
    lower = value.lower()
    ordinal = words().shapes["ordinal"].fullmatch(lower)
    number = int(ordinal[1]) if ordinal else words().numbers.get(lower)
    if hour := words().shapes["hour"].fullmatch(lower):
        number = int(hour[1]) % 12 + 12 * (hour[2] == "p")
    if number is not None:
        kinds["number"] = str(number)
    plain = PLAIN_WORD.fullmatch(value) is not None
    term = words().term(lower.replace("\u2019", "'")) if plain else ""
    if not plain and not kinds:
        term = words().term(lower)
    yield Token(value, term, start + lead, start + lead + len(bare), mentioned, kinds=kinds)


def _kinds(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one check for each kind
    value: str, workspace: WorkspaceFacts, *, quoted: bool
) -> Iterator[tuple[str, str]]:
    """Yield the kinds that ``value`` may be, by its shape and by what exists under that name."""
    if is_like("url", value):
        yield "url", value
        return
    if is_like("variable", value):
        yield "variable", value[1:]
        return
    if re.fullmatch(r"%\d{1,3}", value):
        yield "number", value[1:]
        return
    if re.fullmatch(r":?\d{1,10}", value):
        digits = value.lstrip(":")
        yield "number", digits
        if 0 < int(digits) < 65536:
            yield "port", digits
        if is_like("mode", digits):
            yield "mode", digits
        return
    if match := words().shapes["range"].fullmatch(value):
        yield from match.groupdict().items()
    for kind in ("mode", "date", "revision", "version", "login"):
        if is_like(kind, value):
            yield kind, value
    if is_like("address", value):
        yield "host", value
    if value.endswith(".git") and "/" in value:
        yield "repository", value
    if quoted and is_like("sum", value):
        yield "sum", value.replace("**", "^")
    if is_like("assignment", value):
        yield "assignment", value
        return
    there = workspace.find(value)
    if there is not None:
        if workspace.is_folder(there):
            yield "folder", there
        else:
            yield "file", there
            if is_like("archive", there):
                yield "archive", there
        return
    if value in group("usual_folders"):
        yield "folder", value
        return
    if value in group("usual_files"):
        yield "file", value
        return
    # "postgres:16" is an image.
    match = words().shapes["host_and_port"].fullmatch(value)
    if match and match["host"].lower() not in group("names"):
        if match["login"]:
            yield "login", match["login"] + match["host"]
        yield "host", match["host"]
        yield "port", match["port"]
        return
    if is_like("remotepath", value) and not value.startswith("git@"):
        yield "remotepath", value
        return
    if is_like("host", value):
        yield "host", value
    elif (site := value.partition("/")[0]) != value and is_like("host", site):
        if site not in group("code_hosts"):  # There it is a package, or a repository.
            yield "url", value
        return
    if match := words().shapes["extension"].fullmatch(value):
        yield "extension", match[1]
        if value.startswith(".") and match[1].lower() not in words().extensions:
            yield "file", value
            yield "folder", value
    elif any(mark in value for mark in "*?") and "/" not in value and " " not in value:
        yield "glob", value
    if value.endswith("/") or value in (".", "..", "~") or value.startswith("~/"):
        yield "folder", value
    elif re.fullmatch(r"/\w[\w.-]*", value):
        yield "folder", value
        yield "file", value
    if is_like("machine", value):
        yield "host", value
    if not quoted and any(mark in value for mark in "{*?"):
        return  # What a shell would expand to several words is not a name.
    if is_like("format", value.removeprefix(".")) or is_like("unit", value):
        return
    other = value.startswith("@") or any(
        is_like(shape, value) for shape in ("no_file", "version", "address")
    )
    looks = is_like("quoted_file" if quoted else "file", value)
    if looks and not other and "\n" not in value and len(value) < 1024:
        yield "file", value
        if not re.search(r"\.\w+$", value):
            yield "folder", value
        if is_like("archive", value):
            yield "archive", value


def _look_around(tokens: list[Token], workspace: WorkspaceFacts) -> None:
    """Note each word's neighbors, and what they say about it: "the tests folder", "md files"."""
    _note_neighbors(tokens)
    for at, token in enumerate(tokens):
        token.branch = workspace.has_branch(token.text)
        if token.behind == "commit" and not token.quoted and is_like("commit", token.text):
            token.kinds["revision"] = token.text
        _note_meaning(at, tokens)
        if "file" in token.kinds and _is_new(token, tokens):
            # What is renamed to "app.py" is not to become the "src/app.py" that there is.
            token.kinds = dict.fromkeys(token.kinds, token.text)
        if token.quoted or token.kinds:
            continue
        if token.after in group("folders") and (there := workspace.find(token.text, folders=True)):
            token.kinds["folder"] = there
        elif extension := _extension(at, tokens):
            token.kinds["extension"] = extension
        elif _may_be_of_a_file(at, tokens) and (there := workspace.alike(token.text)):
            token.kinds["folder" if workspace.is_folder(there) else "file"] = there
            if is_like("archive", there):
                token.kinds["archive"] = there
    _take_the_verb(tokens)


def _take_the_verb(tokens: Sequence[Token]) -> None:
    """Take a verb at the beginning for a verb even if a file has that name: "build the docs"."""
    if len(tokens) < 2 or tokens[0].quoted or tokens[0].after in group("folders"):
        return
    term = words().term(tokens[0].lower)
    if term in words().deeds and tokens[0].text.isalpha():
        tokens[0].kinds = {}
        tokens[0].term = term


def _note_meaning(at: int, tokens: Sequence[Token]) -> None:
    """Note what a word means because of those around it: "the first column", "every hour"."""
    token = tokens[at]
    is_one = token is tokens[-1] and words().term(token.behind) == "delete"
    if "folder" in token.kinds and (is_one or token.behind in ("in", "inside", "under", "from")):
        token.term = ""  # "in tmp" is not "temporary"
    if token.lower == "first" and any(
        one.lower in group("counted") for one in tokens[at + 1 : at + 4]
    ):
        token.kinds["number"] = "1"
    elif token.lower in group("stop") and _stands_out(token, tokens):
        token.term = token.lower
    elif token.lower in words().seconds and token.behind in ("each", "every", "per"):
        token.kinds = {"span": str(words().seconds[token.lower])}


def _stands_out(token: Token, tokens: Sequence[Token]) -> bool:
    """Return whether ``token`` is in capitals where others are not: the GET of a log."""
    loud = len(token.text) > 1 and token.text.isupper()
    return loud and any(one.text.islower() for one in tokens)


def _note_neighbors(tokens: list[Token]) -> None:
    """Note the words before and after each word, with and without fillers."""
    fillers = group("fillers")
    for at, token in enumerate(tokens):
        before = at - 1
        while before >= 0 and tokens[before].lower in fillers:
            before -= 1
        token.before = tokens[before].lower if before >= 0 else ""
        token.behind = tokens[at - 1].lower if at else ""
        token.after = tokens[at + 1].lower if at + 1 < len(tokens) else ""


def _is_new(token: Token, tokens: Sequence[Token]) -> bool:
    """Return whether ``token`` is a name that something gets: "copy a.txt to b.txt"."""
    names = any(
        one.lower in group("names_a_copy") or one.term in group("names_a_copy")
        for one in tokens[:2]
    )
    return names and token.behind in group("destinations")


def _may_be_of_a_file(at: int, tokens: Sequence[Token]) -> bool:
    """Return whether a word may mean a file in another spelling: "readme".

    Not if it is the new name of a copy, even if "backup.tar.gz" exists; nor if it is a mark in a
    text, TODO; nor after an article, "a remote server"; nor if the file is already named, "sort
    users by a column of data.csv".
    """
    token = tokens[at]
    named = any("." in one.kinds.get("file", "") for one in tokens)
    return not (
        token.lower in group("names")
        or token.lower in group("machines")
        or token.lower in ("not", "no")
        or _is_new(token, tokens)
        or token.text in group("marks")
        or (named and not {token.behind, token.after} & group("between_files"))
        or {"a", "an", "another"} & {one.lower for one in tokens[max(0, at - 2) : at]}
    )


def _extension(at: int, tokens: Sequence[Token]) -> str | None:
    """Return the extension that a word refers to: "md files", "pdfs", "txt to md"."""
    token, known = tokens[at], words().extensions
    if token.after.startswith(("file", "script", "module", "source", "code", "image", "photo")):
        return known.get(token.lower)
    if token.behind in ("extension", "suffix") and is_like("ending", token.text):
        return known.get(token.lower, token.text)
    if token.lower in group("formats") and (
        token.behind in group("conversions")
        or sum(one.lower in group("formats") for one in tokens) > 1
    ):
        return token.lower
    if token.behind in ("to", "into") and any("extension" in one.kinds for one in tokens[:at]):
        return known.get(token.lower)
    if token.behind in group("all_of") and token.lower in group("many_of") | group("of_all"):
        return token.lower
    one = token.lower.removesuffix("s")
    return one if one != token.lower and one in group("many_of") else None


def _size(value: str) -> str:
    """Return a size as ``find`` and ``truncate`` take it: 10M."""
    match = re.match(r"(\d+(?:\.\d+)?)\s?([a-z])", value, re.IGNORECASE)
    assert match is not None
    number, unit = float(match[1]), match[2].upper()
    if unit == "B":
        return f"{int(number)}c"
    if not number.is_integer():
        number, unit = number * 1024, {"K": "c", "M": "K", "G": "M", "T": "G"}[unit]
        return f"{int(number)}{unit}"
    if unit == "T":
        number, unit = number * 1024, "G"
    return f"{int(number)}{'k' if unit == 'K' else unit}"


def _seconds(value: str) -> int:
    """Return a span of time in seconds."""
    # A case-insensitive pattern takes U+017F for "s", and so does casefold.
    *count, unit = re.sub(r"(\d)([a-z])|['\u2019]s$", r"\1 \2", value.casefold()).split()
    number = 1
    for word in count:
        number = int(word) if word.isdigit() else words().numbers.get(word, number)
    name = unit if unit in words().seconds else unit.removesuffix("s")
    return number * words().seconds[name]


def is_name(value: str) -> bool:
    """Return whether ``value`` may be a branch, package or user: not an option or a sentence."""
    return is_like("name", value) and len(value) < 200
