"""``sed`` and ``awk``: small languages that can write files and run commands."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from aish_lsp.shell.risk.paths import names_secret
from aish_lsp.shell.risk.review import UNSEEN, Input, Review
from aish_lsp.shell.risk.words import HOLE

_STRING: Final = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"')
_RUNS: Final = re.compile(
    r'system\s*\(\s*"([^"\\]*+(?:\\.[^"\\]*+)*)"\s*(\))?|\|&?\s*"([^"\\]*+(?:\\.[^"\\]*+)*)"'
    r'|"([^"\\]*+(?:\\.[^"\\]*+)*)"\s*\|&?\s*getline'
)
_RUNS_ANY: Final = re.compile(r"\bsystem\b|(?<!\|)\|(?!\|)|@")
_SHELL: Final = re.compile(r"\s*(?:\S*/)?(?:ba|da|z|k)?sh\b")
#: A pattern between slashes where no division can be.
_PATTERN: Final = re.compile(r"(?:\A|[(,~!&|{};\n])\s*/[^/\\\n;{}]*+(?:\\.[^/\\\n;{}]*+)*/")
_WRITES: Final = re.compile(r"\bprintf?\b[^;}]*>")
_AWK_VALUES: Final = frozenset({"-F", "-v", "--field-separator", "--assign"})


def awk(review: Review, words: Sequence[str], depth: int, _given: Input) -> bool:
    """Judge ``awk``: its program, and what it reads."""
    at = 1
    while at < len(words) and words[at][:1] == "-" and len(words[at]) > 1:
        word = words[at]
        if word == "--":
            at += 1
            break
        if word[:2] not in {"-F", "-v"} and word not in _AWK_VALUES and word != "--csv":
            review.caution(
                "awk with a program in a file, or options that are not known to only read"
            )
            if word[:2] in {"-f", "-i", "-e"} or word[:6] in {"--file", "--incl", "--sour"}:
                at += 1
        at += 2 if word in _AWK_VALUES else 1
    if at >= len(words):
        return False
    program = words[at]
    if HOLE in program:
        review.caution("runs an awk program that is not wholly known")
    _awk_program(review, program, depth)
    if names_secret(words[at + 1 :]):
        review.read_secrets = True
        review.caution("may print secrets, or read without an end")
    return True


def _awk_program(review: Review, program: str, depth: int) -> None:
    for match in _RUNS.finditer(program):
        text, closed, into, out_of = match.groups()
        if text is not None:
            review.add_text(text if closed else text + HOLE, depth + 1)
        if into is not None and _SHELL.match(into):
            review.destructive(UNSEEN)
        for other in (into, out_of):
            review.add_text(other or "", depth + 1)
    bare = _STRING.sub(" ", _RUNS.sub(" ", program))
    if _RUNS_ANY.search(_PATTERN.sub(" ", bare)):
        review.destructive(UNSEEN)
    if _WRITES.search(bare):
        for target in re.findall(r'>\s*"([^"\n]*)"', program) or [HOLE]:
            review.writes(target, "adds" if ">>" in program else "overwrites")


_ADDRESS: Final = r"(?:\d+(?:~\d+)?|\$|/[^/\\\n]*+(?:\\.[^/\\\n]*+)*/[IM]*)"
#: Given back to nobody, or a script of nothing else would be tried in each way to part it.
_BLANKS: Final = r"[^\S\n]*+"
#: Scripts that only print: addresses with the commands that change nothing but what is printed.
_PRINTS: Final = re.compile(
    rf"""(?: \s*+ (?: {_ADDRESS} (?: {_BLANKS},{_BLANKS} (?:{_ADDRESS}|[+~]\d+) )? )?
        {_BLANKS} !? {_BLANKS}
        (?: [pPdDqQ=nNlhHgGxz{{}}] \d*
          | s(?P<a>[^\w\s\\])(?:(?!(?P=a))[^\\]|\\.)*(?P=a)(?:(?!(?P=a))[^\\]|\\.)*(?P=a)
            [gpiIM\d]*
          | y(?P<b>[^\w\s\\])(?:(?!(?P=b))[^\\]|\\.)*(?P=b)(?:(?!(?P=b))[^\\]|\\.)*(?P=b)
          | [aic]\\?[^\n]*+
          | \#[^\n]*+
        )? {_BLANKS} (?:;|\n|(?=\}})|(?<=\{{)|\Z) )*""",
    re.VERBOSE | re.DOTALL,
)
_SED_RUNS: Final = re.compile(r"(?:^|[;{\n/\d$!])\s*e\s+([^\n;}]+)")
_SED_WRITES: Final = re.compile(r"(?:^|[;{\n/\d$!gpiI])\s*[wW]\s+(\S+)")
_SED_PLAIN: Final = re.compile(
    r"-[nErszu]+|--(?:quiet|silent|regexp-extended|separate|posix|debug|null-data|unbuffered)"
    r"|-l\d+|--version|--help"
)


def sed(review: Review, words: Sequence[str], depth: int, _given: Input) -> bool:
    """Judge ``sed``: its scripts, what it reads, and what it edits."""
    scripts: list[str] = []
    operands: list[str] = []
    in_place = False
    rest = deque(words[1:])
    while rest:
        word = rest.popleft()
        if word[:1] != "-" or word == "-":
            operands.append(word)
        elif re.fullmatch(r"-[nErsz]*e|--expression", word):
            scripts.append(rest.popleft() if rest else "")
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif re.match(r"-[nErsz]*i|--in-place", word):
            in_place = True
        elif _SED_PLAIN.fullmatch(word) is None and word != "--":
            review.caution("sed with options that are not known to only read")
            if word in {"-f", "--file"}:
                scripts.append("")
                operands += [rest.popleft()] if rest else []
    if not scripts and operands:
        # ``-i ''`` of macOS: an ending for the copy, of no length.
        scripts.append(operands.pop(0) or (operands.pop(0) if operands else ""))
    for script in scripts:
        _script(review, script, depth)
    _sed_files(review, operands, in_place=in_place)
    return True


def _sed_files(review: Review, files: Sequence[str], *, in_place: bool) -> None:
    if in_place:
        review.caution("edits files in place")
        for target in files:
            review.writes(target, "adds")
    elif names_secret(files):
        review.read_secrets = True
        review.caution("may print secrets, or read without an end")


def _script(review: Review, script: str, depth: int) -> None:
    if HOLE not in script and _PRINTS.fullmatch(script):
        return
    review.caution("sed with a script that is not known to only print")
    for match in _SED_RUNS.finditer(script):
        review.add_text(match[1], depth + 1)
    if re.search(r"/[gpiIM\d]*e[gpiIM\d]*\s*(?:[;}\n]|\Z)", script) and script.lstrip()[:1] == "s":
        review.destructive(UNSEEN)
    for match in _SED_WRITES.finditer(script):
        review.writes(match[1])
