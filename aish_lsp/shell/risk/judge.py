"""One simple command: which program it is, what it wraps, and what the tables say about it."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from aish_lsp.shell.risk.data import CAUTION, DESTRUCTIVE, SAFE, UNKNOWN, table
from aish_lsp.shell.risk.matching import Arguments, Rule, Values
from aish_lsp.shell.risk.paths import is_unknown, names_keys, names_secret
from aish_lsp.shell.risk.review import COMPUTED, Findings, Review
from aish_lsp.shell.risk.rules import CommandRules, tables, verdict
from aish_lsp.shell.risk.special import (
    HANDLERS,
    SENDERS,
    look_into,
    note_sending,
    run_written_file,
)
from aish_lsp.shell.risk.targets import note_targets
from aish_lsp.shell.risk.values import Input
from aish_lsp.shell.risk.wrappers import find, unwrap

#: What leaves a name unknown until it runs: unknown text, patterns, braces, variables.
_COMPUTED: Final = re.compile(r"[\0*?{}$`]|\[.|~.*[^\w./~-]")
_VERSIONED: Final = re.compile(r"(python|pip|perl|ruby|php|lua|node|pypy|gcc|clang)[0-9.]+")
_NAMES: Final = table("names")

#: Subcommands that mean the same in every tool that has them.
_DELETES: Final = re.compile(
    r"(?:[\w-]+[:_-])?(?:delete|destroy|purge|terminate|undeploy|drop|wipe|nuke|decommission|revoke"
    r"|truncate|unpublish|flushall|teardown|factory-reset)(?:[-_:]\w[\w-]*)?"
)
#: They delete after another subcommand; alone they are often as harmless as ``npm remove``.
_REMOVES: Final = frozenset({"rm", "del", "remove", "uninstall", "rollback", "kill", "reset"})
_DELETING_OPTIONS: Final = frozenset(_NAMES["deleting_options"])
#: Where the system keeps its programs; elsewhere a name may stand for anything.
_FOLDERS: Final = frozenset(
    {"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin", ""}
)
#: They report on files, but not on their contents.
_LISTS: Final = frozenset(_NAMES["lists"])
#: They do not open the files that they are given, or do not show what is in them.
_OPENS_NONE: Final = _LISTS | frozenset(_NAMES["opens_none"])
#: They print the environment if they are given nothing else to do.
_PRINTS_ALL: Final = frozenset({"env", "printenv", "set", "export"})
_SUBCOMMANDS: Final = frozenset(_NAMES["subcommands"])
_NO_ENTRY: Final = CommandRules()


def judge(review: Review, words: Sequence[str], stdin: Input) -> None:
    """Record in ``review`` what running ``words`` with the input ``stdin`` can do."""
    # A loop over the commands wrapped in each other, one per round.
    waiting = [tuple(words)]
    while waiting:
        words = waiting.pop()
        if not words:
            continue
        first = words[0]
        base = first.rpartition("/")[2]
        if not base or (_COMPUTED.search(base) and base != "[["):
            review.destructive(COMPUTED)
            continue
        if not review.goes_on(words):
            return
        review.findings.commands += 1
        name = _plain_name(base)
        entry = tables().entry(name) or _NO_ENTRY
        if (
            first in review.functions
            or (review.written and "/" in first and run_written_file(review, first, None))
            or (review.own is not None and _by_own_rules(review, words, name, entry.values))
        ):
            continue
        arguments = Arguments(words[1:], entry.values)
        if entry.writer is not None:
            note_targets(review, entry.writer, name, arguments, stdin)
        inner = _commands_within(review, words, name, entry, stdin)
        while review.doubtful:
            judge_in_doubt(review, [review.doubtful.pop()], stdin)
        if inner is not None:
            # What is wrapped counts in place of its wrapper.
            review.findings.commands -= bool(inner and entry.wrappers)
            review.caution_if(_not_meant(review, first))
            waiting += inner
            continue
        _by_rows(review, name, words, entry, arguments)
        if name in SENDERS:
            note_sending(review, name, arguments, stdin)


def judge_in_doubt(review: Review, commands: Iterable[Sequence[str]], stdin: Input) -> None:
    """Record only what is destructive about ``commands``, which may not be what is run."""
    real, review.findings = review.findings, Findings()
    for words in commands:
        judge(review, words, stdin)
    seen, review.findings = review.findings, real
    if seen.level == DESTRUCTIVE:
        for reason in seen.reasons:
            review.destructive(reason)


def _commands_within(
    review: Review,
    words: Sequence[str],
    name: str,
    entry: CommandRules,
    stdin: Input,
) -> list[tuple[str, ...]] | None:
    """Return the commands that a command runs; None if the rows of the tables are to judge it.

    Wrappers, ``find`` and commands that no row can describe are judged here.
    """
    if name == "find":
        return find(review, words)[::-1]
    handler = HANDLERS.get(name)
    if handler is not None and handler(review, words, stdin):
        return []
    inner = unwrap(review, words[1:], entry, stdin) if entry.wrappers else None
    if inner is not None:
        own = len(words) - max(map(len, inner), default=0)
        _judge_wrapping(review, words[:own], entry)
        return inner
    if entry.program is not None and look_into(review, words, entry.program, stdin):
        return []
    if entry is _NO_ENTRY:
        # It may run another command, of which something is known.
        known = (at for at, word in enumerate(words[1:6], 1) if _is_command(word))
        review.doubtful += [words[at:] for at in islice(known, 1)]
    return None


def _is_command(word: str) -> bool:
    """Return whether something is known of a program, and its name is hardly a subcommand."""
    return word not in _SUBCOMMANDS and tables().entry(word) is not None


def _plain_name(base: str) -> str:
    """Return a command's name as the tables spell it: ``python`` for ``Python3.12.exe``."""
    name = base.casefold().removesuffix(".exe")
    versioned = _VERSIONED.fullmatch(name) if name[-1:].isdigit() else None
    return versioned[1] if versioned else name


def _by_rows(
    review: Review, name: str, words: Sequence[str], entry: CommandRules, arguments: Arguments
) -> None:
    """Record what the tables say of a command."""
    if name not in _LISTS:
        review.reads.append(words)
        review.read_secrets = review.read_secrets or (len(words) == 1 and name in _PRINTS_ALL)
    rule = verdict(entry, arguments)
    if rule is None:
        level, reason = _by_its_words(arguments) or (
            CAUTION,
            f"may change files: {_shown_name(words, entry, arguments)}",
        )
    elif rule.level == SAFE:
        level, reason = _reading(review, rule, name, words)
    else:
        level, reason = rule.level, rule.reason
    review.findings.add(level, reason)


def _by_its_words(arguments: Arguments) -> tuple[int, str] | None:
    """Return what a subcommand itself says if no table has a row for the command."""
    if any(name in _DELETING_OPTIONS for name, _ in arguments.options):
        return DESTRUCTIVE, "has an option that deletes something"
    for index, word in enumerate(arguments.operands[:4]):
        removes = index in {1, 2} and word in _REMOVES and not arguments.options
        if removes or _DELETES.fullmatch(word):
            return DESTRUCTIVE, f"says that it deletes or ends something: {word[:40]}"
    return None


def _judge_wrapping(review: Review, words: Sequence[str], entry: CommandRules) -> None:
    """Record what is destructive about how a command is run, such as with the whole disk."""
    rule = verdict(entry, Arguments(words[1:], entry.values))
    if rule is not None and rule.level == DESTRUCTIVE:
        review.destructive(rule.reason)


def _shown_name(words: Sequence[str], entry: CommandRules, arguments: Arguments) -> str:
    """Return how a command is named to the user: ``git pull``, not all of its words."""
    last = words.index(arguments.operands[0]) if entry.by_word and arguments.operands else 0
    return " ".join(word[:60] for word in words[: last + 1])[:90].replace(UNKNOWN, "…")


def _reading(review: Review, rule: Rule, name: str, words: Sequence[str]) -> tuple[int, str]:
    """Return the level of a command that only reads: what it reads may be secret."""
    reason = _not_meant(review, words[0], rights=rule.rights)
    opens = name not in _OPENS_NONE or "--no-index" in words
    if reason is None and opens and any(map(is_unknown, words[1:])):
        reason = "reads something that is only known when it runs"
    if reason is not None:
        return CAUTION, reason
    places = [f"{folder}/{word}" for folder in review.folders for word in words[1:]]
    if name in _LISTS or not names_secret([*words[1:], *review.folders, *places]):
        return SAFE, ""
    if names_keys(words[1:]):
        return DESTRUCTIVE, "prints keys or passwords"
    return CAUTION, "may print secrets, or never stop reading"


def _not_meant(review: Review, first: str, *, rights: bool = False) -> str | None:
    """Return why a command's first word is not the program that the tables mean; None if it is.

    ``rights`` says that it needs none of the rights that its file is given.
    """
    folder, _, base = first.rpartition("/")
    if folder not in _FOLDERS or base != base.casefold():
        return f"not the system's own command: {first[:60]}"
    distrusted = distrust(first, review.path, review.folder)
    return None if distrusted is None or (rights and distrusted[1]) else distrusted[0]


def _by_own_rules(review: Review, words: Sequence[str], name: str, values: Values) -> bool:
    """Record what rows of the configuration say; return whether that settles it."""
    for tables_ in filter(None, (review.stricter, review.own)):
        arguments = Arguments(words[1:], values)
        entries = filter(None, map(tables_.entry, (words[0].casefold(), name)))
        rules = filter(None, (verdict(entry, arguments) for entry in entries))
        worst = max(rules, key=lambda rule: rule.level, default=None)
        if worst is not None:
            reason = worst.reason or f"a rule of your own: {words[0][:60]}"
            review.findings.add(worst.level, reason)
            if tables_ is review.own:
                review.findings.free += not worst.confine
                return True
    return False


# The program that a command's first word stands for, on the PATH that it will run with.

#: Seconds for which a program or work tree that was found is assumed to stay there.
_FRESH: Final = 5.0

#: Words that the shell itself understands.
_BUILTINS: Final = frozenset(_NAMES["builtins"])


def distrust(name: str, path: str | None, folder: Path | None) -> tuple[str, bool] | None:
    """Return why a program is not what the tables mean, and whether that is for its rights only.

    ``name`` is a command's first word; None means that nothing speaks against it, or that there is
    no such program.
    """
    if name in _BUILTINS:
        return None
    path = os.environ.get("PATH", os.defpath) if path is None else path
    now = int(time.monotonic() / _FRESH)
    top = None if folder is None else _top(str(folder), now)
    return _distrust(name, path, top, now)


@lru_cache(maxsize=4096)
def _distrust(name: str, path: str, top: str | None, _now: int) -> tuple[str, bool] | None:
    program = name if "/" in name else _find(name, path)
    if program is None:
        return None
    real = os.path.realpath(program)
    places = (Path(os.path.normpath(program)), Path(real))
    if not program.startswith("/") or (
        top and any(target.is_relative_to(top) for target in places)
    ):
        return f"a program in the workspace: {name[:60]}", False
    if real == "/usr/bin/snap" or real.startswith(("/snap/", "/mnt/")) or real.endswith(".exe"):
        return f"cannot run confined: {name[:60]}", False
    try:
        gains = bool(Path(real).stat().st_mode & (stat.S_ISUID | stat.S_ISGID)) or (
            hasattr(os, "getxattr") and "security.capability" in os.listxattr(real)
        )
    except OSError:
        return None
    return (f"runs with different rights: {name[:60]}", True) if gains else None


def _find(name: str, path: str) -> str | None:
    """Return where a program is found; a relative folder in PATH is one in the workspace."""
    for entry in path.split(os.pathsep):
        candidate = f"{entry or '.'}/{name}"
        if not entry.startswith("/"):
            return candidate
        if os.access(candidate, os.X_OK) and not Path(candidate).is_dir():
            return candidate
    return None


@lru_cache(maxsize=64)
def _top(folder: str, _now: int) -> str:
    """Return the top of the work tree that ``folder`` is in, or ``folder`` itself."""
    from aish_lsp.foundation.git import top_above  # noqa: PLC0415 - it imports subprocess

    real = Path(os.path.realpath(folder))
    return str(top_above(real) or real)
