"""Commands that run another, and variables that change what other commands do."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from typing import Final

from aish_lsp.shell.risk.data import CAUTION, LEVELS, MANY, SAFE, UNKNOWN, table
from aish_lsp.shell.risk.matching import Values, may_abbreviate, takes_next
from aish_lsp.shell.risk.paths import names_secret
from aish_lsp.shell.risk.review import Review
from aish_lsp.shell.risk.rules import CommandRules, Wrapper
from aish_lsp.shell.risk.values import Input, text_of

#: Lines of what ``xargs`` reads that are looked at.
_LOOKED_AT: Final = 20
_QUOTES: Final = re.compile(r"[\\'\"]")
#: A word of which a part is not known, so that it may be ``-delete``; a path with a folder is not.
_MAY_ACT: Final = re.compile(rf"{UNKNOWN}[\w{UNKNOWN}-]*|-[\w-]*{UNKNOWN}[\w{UNKNOWN}-]*")
#: Short options of ``xargs``, the last of which says what is replaced, and what follows it.
_REPLACES: Final = re.compile(r"-[0oprtx]*[IiJ](.*)", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"(\w+)=(.*)", re.DOTALL)


def unwrap(
    review: Review, words: Sequence[str], entry: CommandRules, stdin: Input
) -> list[tuple[str, ...]] | None:
    """Return the commands that a command with ``words`` runs; None if it wraps none this time.

    A text for a shell is queued in ``review`` instead.
    """
    for wrapper in entry.wrappers:
        rest = _after_words(wrapper, words, entry)
        if rest is None or _is_stopped(wrapper, rest):
            continue
        opened = _open(review, wrapper, rest, stdin)
        if opened is not None:
            if wrapper.reason:
                review.caution(wrapper.reason)
            return opened
    return None


def _is_stopped(wrapper: Wrapper, words: Sequence[str]) -> bool:
    """Return whether a leading option says that nothing is run."""
    in_front = takewhile(lambda word: word[:1] == "-", words)
    return any(word in wrapper.stop for word in in_front)


def _after_words(
    wrapper: Wrapper, words: Sequence[str], entry: CommandRules
) -> Sequence[str] | None:
    """Return what follows the wrapper's own subcommands; None if they are missing."""
    at = 0
    if wrapper.words and wrapper.words[0] not in words:
        return None
    for wanted in wrapper.words:
        while at < len(words) and words[at][:1] == "-":
            at += 2 if takes_next(words[at], entry.values) else 1
        if at >= len(words) or words[at] != wanted:
            return None
        at += 1
    return words[at:]


def _open(
    review: Review, wrapper: Wrapper, words: Sequence[str], stdin: Input
) -> list[tuple[str, ...]] | None:
    if wrapper.after:
        at = next((at for at, word in enumerate(words) if word in wrapper.after), None)
        if at is None:
            return None
        words = words[at + 1 :]
    at, doubtful, opened = _skip(review, wrapper, words)
    inner = tuple(words[at:])
    if doubtful and len(inner) > 1:
        # An unknown option may have taken the first word as its value.
        review.doubtful.append(inner[1:])
    if not inner and wrapper.shell and stdin is not None:
        review.add_input(stdin, or_else="")
        return []
    runs = opened or (bool(inner) and not wrapper.only_text)
    if runs and not wrapper.safe:
        review.caution(wrapper.reason or "runs another command, in a way not known to be harmless")
    if not inner or wrapper.only_text:
        return [] if opened else None
    # A terminal has a shell read a single word: ``xterm -e 'rm -rf src'``.
    if wrapper.shell or (wrapper.after and len(inner) == 1):
        _for_shell(review, wrapper, inner)
        if stdin is not None:
            # It may be a shell, which then runs its input.
            review.doubtful.append(" ".join(inner).split())
        return []
    if wrapper.appends:
        places = _placeholders(words[:at], wrapper.values)
        return _appended(review, inner, places, stdin)
    return [inner]


def _for_shell(review: Review, wrapper: Wrapper, words: Sequence[str]) -> None:
    """Queue what a shell makes of ``words``: a text, or several for ``parallel ::: TEXT ...``."""
    if wrapper.here:
        review.may_run(" ".join(words))
    end = next((at for at, word in enumerate(words) if word[:3] == ":::"), len(words))
    # ``{}`` is where ``parallel`` and similar tools insert what they read.
    filled = [word.replace("{}", UNKNOWN) for word in words if word[:3] != ":::"]
    for text in [filled[:end]] if end else [[word] for word in filled]:
        review.add_joined(text)


def _appended(
    review: Review, inner: tuple[str, ...], places: Sequence[str], stdin: Input
) -> list[tuple[str, ...]]:
    """Return the commands that ``xargs`` makes from one command and what it reads."""
    text = text_of(stdin, UNKNOWN)
    # It removes quotes, but not as a shell does: which words they join is not known.
    plain = _QUOTES.sub("", text)
    commands: list[tuple[str, ...]] = []
    if UNKNOWN not in text:
        texts = plain.split()
        for target in places:
            commands += [
                tuple(word.replace(target, t) for word in inner) for t in texts[:_LOOKED_AT]
            ]
        commands.append((*inner, *texts))
        # An option may say that a word is a line, or all of the input.
        lines = [plain.strip(), *plain.split("\n")[:_LOOKED_AT]]
        review.doubtful += [(*inner, lines[0])]
        review.doubtful += [tuple(word.replace(places[-1], t) for word in inner) for t in lines]
    if UNKNOWN in text or plain != text:
        for target in places:
            commands.append((*(word.replace(target, UNKNOWN) for word in inner), f"{MANY}*"))
    return commands


def _skip(review: Review, wrapper: Wrapper, words: Sequence[str]) -> tuple[int, bool, bool]:
    """Return where the command begins, whether that is uncertain, and whether a text was found."""
    at, operands = 0, wrapper.operands
    doubtful = opened = False
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            if not operands:
                break
            continue
        text = text_option(wrapper.text, word)
        if text is not None:
            value = text or (words[at + 1] if at + 1 < len(words) else "")
            # ``:!cmd`` is how vim runs one.
            review.add_text(value.lstrip(":!"))
            opened = True
            # An abbreviation may be another option after all, which takes no value.
            is_named = word[:2] != "--" or word in wrapper.text
            at += 2 if is_named and not text else 1
            if not wrapper.only_text:
                # ``env -S`` takes what follows for more words of its command.
                review.doubtful.append([*value.split(), *words[at:]])
        elif word[:1] == "-" and word.strip(UNKNOWN) != "-":
            takes = takes_next(word, wrapper.values)
            doubtful = doubtful or not (takes or word[:2] != "--" or "=" in word)
            _note_option(review, wrapper, word, "".join(words[at + 1 : at + 2]))
            at += 2 if takes else 1
        elif wrapper.assignments and (match := _ASSIGNMENT.fullmatch(word)):
            level, reason, is_command = assignment_risk(match[1], before_command=True)
            review.findings.add(level, reason)
            if is_command:
                review.add_text(match[2])
            at += 1
        elif operands:
            operands -= 1
            at += 1
        else:
            break
    return at, doubtful, opened


def _note_option(review: Review, wrapper: Wrapper, word: str, following: str) -> None:
    """Record the file that an option writes, or the folder that it changes to."""
    name, equals, value = word.partition("=")
    if not equals and name[:2] != "--" and len(name) > 2:
        name, value = name[:2], name[2:]
    if name in wrapper.writes:
        review.writes(value or following)
    elif name in wrapper.enters:
        review.enters(value or following)


def text_option(options: Sequence[str], word: str) -> str | None:
    """Return the command line in ``word`` if it is one of ``options``; "" if that is the next word.

    A word that is none of them yields None.
    """
    name, _, value = word.partition("=")
    for option in options:
        if word == option:
            return ""
        if may_abbreviate(name, option):
            return value
        if option[:2] != "--" and word[:2] != "--" and word[:1] == "-" and option[1] in word[1:]:
            return word.partition(option[1])[2].lstrip("=")
    return None


def _placeholders(options: Sequence[str], values: Values) -> Sequence[str]:
    """Return the first and the last placeholder: one is replaced with what ``xargs`` reads."""
    places: list[str] = []
    rest = iter(options)
    for word in rest:
        following = next(rest, "") if takes_next(word, values) else ""
        name, _, value = word.partition("=")
        replaces = _REPLACES.match(word)
        if replaces is not None or may_abbreviate(name, "--replace"):
            places.append((replaces[1] if replaces else value) or following or "{}")
    return [*places[:1], *places[1:][-1:]] or ["{}"]


# Variables that change what other commands do.

_VARIABLES: Final = table("variables")
#: The shell's own variables with lower-case names; others of that kind matter to no program.
_LOWER_CASE: Final = frozenset(_VARIABLES["small"])
_MAY_CHANGE: Final = ", which may change what other programs do"


@cache
def _kinds() -> list[tuple[re.Pattern[str], int, str, bool]]:
    """Return the kinds of variables: which names, how risky they are, why, and if they run."""
    return [
        (re.compile("|".join(row["names"])), LEVELS.index(row["risk"]), row["why"], row["runs"])
        for row in _VARIABLES["kinds"]
    ]


@cache
def _named(key: str) -> re.Pattern[str]:
    return re.compile("|".join(_VARIABLES[key]))


def assignment_risk(name: str, *, before_command: bool) -> tuple[int, str, bool]:
    """Return the level and reason of setting ``name``, and whether its value is a command."""
    if _named("looks").fullmatch(name) or (name.islower() and name not in _LOWER_CASE):
        return (CAUTION if _named("leads_too").search(name) else SAFE), f"sets {name}", False
    for pattern, level, why, is_command in _kinds():
        if pattern.fullmatch(name):
            return level, f"sets {name}{why}", is_command
    passed_on = before_command or name in os.environ
    return (CAUTION if passed_on else SAFE), f"sets {name}{_MAY_CHANGE}", False


# ``find``: what it looks for, and what it does with what it found.

_NAMES: Final = table("names")
#: Tests that take the next word, whatever it is.
_FIND_TAKES: Final = frozenset(_NAMES["find_takes"])
_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})


def find(review: Review, words: Sequence[str]) -> list[tuple[str, ...]]:
    """Judge ``find``; return the commands that it runs, which are to be judged as well."""
    runs: list[tuple[str, ...]] = []
    at, takes = 1, False
    while at < len(words):
        word = words[at]
        at += 1
        if takes:
            takes = False
        elif word in _FIND_RUNS:
            review.lost = review.lost or "dir" in word
            end = at
            while end < len(words) and words[end] not in {";", "+"}:
                end += 1
            # ``+`` only ends it after ``{}``; elsewhere it is an ordinary word.
            # A path that it finds begins with the place where it looks, so it is not an option.
            runs.append(tuple(word.replace("{}", f"./{UNKNOWN}") for word in words[at:end]))
            at = end + 1
        elif word in _FIND_WRITES:
            review.writes(words[at] if at < len(words) else UNKNOWN)
            at += 1
        else:
            takes = word in _FIND_TAKES
            if word == "-delete":
                review.destructive("deletes files")
            elif _MAY_ACT.fullmatch(word):
                review.caution("may delete or run something: a word is only known when it runs")
    if names_secret(words[1:]):
        review.caution("looks for what may be secret, or may never stop reading")
    return runs
