"""``sed``, ``awk``, ``jq``: small languages, some of which can write files and run commands."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from aish_lsp.shell.risk.findings import CAUTION, DESTRUCTIVE
from aish_lsp.shell.risk.programs import tells
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
_AWK_VALUES: Final = frozenset({"-F", "-v", "-i", "-l", "--field-separator", "--assign"})


def awk(review: Review, words: Sequence[str], depth: int, _given: Input) -> bool:
    """Take down what ``awk`` runs and writes; return False: the tables say the rest."""
    at = 1
    while at < len(words) and words[at][:1] == "-" and len(words[at]) > 1:
        at += 2 if words[at] in _AWK_VALUES else 1
    if at < len(words):
        tells(review, words[at])
        _awk_program(review, words[at], depth)
    return False


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


_SED_RUNS: Final = re.compile(r"(?:^|[;{\n/\d$!])\s*e\s+([^\n;}]+)")
_SED_WRITES: Final = re.compile(r"(?:^|[;{\n/\d$!gpiI])\s*[wW]\s+(\S+)")
#: A flag of ``s`` that runs what comes out of it.
_SED_FLAG: Final = re.compile(r"[/|,#@!:][gpiIM\d]*e[gpiIM\d]*\s*(?:[;}\n]|\Z)")


def sed(review: Review, words: Sequence[str], depth: int, _given: Input) -> bool:
    """Take down what ``sed`` runs, writes and edits; return False: the tables say the rest."""
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
    if not scripts and operands:
        # ``-i ''`` of macOS: an ending for the copy, of no length.
        scripts.append(operands.pop(0) or (operands.pop(0) if operands else ""))
    for script in scripts:
        _script(review, script, depth)
    if in_place:
        review.caution("edits files in place")
        for target in operands:
            review.writes(target, "adds")
    return False


def _script(review: Review, script: str, depth: int) -> None:
    tells(review, script)
    for match in _SED_RUNS.finditer(script):
        review.caution("sed runs a command")
        review.add_text(match[1], depth + 1)
    if _SED_FLAG.search(script):
        review.findings.add(DESTRUCTIVE if script.lstrip()[:1] == "s" else CAUTION, UNSEEN)
    for match in _SED_WRITES.finditer(script):
        review.writes(match[1])


def json_filter(review: Review, words: Sequence[str], _depth: int, _given: Input) -> bool:
    """``jq``, ``yq``: they can only read and print, but the environment too."""
    for word in words[1:]:
        if word[:1] != "-":
            tells(review, word)
    return False
