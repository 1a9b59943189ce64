"""``git``: its own options can set anything, and its aliases can run anything."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from aish_lsp.shell.risk.review import Input, Review, texts

_HARMLESS: Final = re.compile(
    r"color\..*|core\.(?:quotepath|pager=(?:cat|less|)|autocrlf|filemode|abbrev|longpaths)"
    r"|log\.(?!showsignature|diffmerges).*|advice\..*|column\..*|diff\.(?:renames|context|algorithm|noprefix|mnemonicprefix)"
    r"|user\.(?:name|email)|init\.defaultbranch|safe\.directory|status\..*|i18n\..*|grep\..*",
    re.IGNORECASE,
)
#: Settings whose value is a command.
_COMMANDS: Final = re.compile(
    r"alias\..*|core\.(?:pager|editor|sshcommand|askpass|fsmonitor|gitproxy|hookspath)"
    r"|sequence\.editor|diff\.(?:external|.*\.(?:command|textconv))|pager\..*|credential\..*"
    r"|(?:merge|diff)tool\..*\.cmd|filter\..*|gpg\..*program|protocol\.ext\.allow|uploadpack\..*"
    r"|remote\..*\.(?:uploadpack|receivepack|vcs)|ssh\.variant|interactive\.difffilter|man\..*",
    re.IGNORECASE,
)
_SWITCHES: Final = frozenset(
    [
        "--no-pager",
        "--no-optional-locks",
        "--bare",
        "--no-replace-objects",
        "--literal-pathspecs",
        "--paginate",
        "-p",
        "-P",
        "--version",
        "--help",
        "--html-path",
        "--man-path",
        "--exec-path",
        "--no-lazy-fetch",
    ]
)
_FOLDERS: Final = frozenset({"-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix"})


def git(review: Review, words: Sequence[str], depth: int, _given: Input) -> bool:
    """Judge git's own options; return False, for the tables say the rest."""
    at = 1
    place = ""
    while at < len(words) and words[at][:1] == "-":
        word = words[at]
        if word == "-C":
            place = os.path.join(place, *words[at + 1 : at + 2])  # noqa: PTH118 - or absolute
        if word in {"-c", "--config-env"}:
            at += 1
            _set(review, words[at] if at < len(words) else "", depth)
        elif word[:2] == "-c" or word.startswith("--config-env="):
            _set(review, word.removeprefix("--config-env=").removeprefix("-c"), depth)
        elif _own_option(review, word):
            at += 1
        at += 1
    review.git_runs_in(place)
    command = words[at] if at < len(words) else ""
    rest = words[at + 1 :]
    _runs(review, command, rest, depth)
    if command == "config":
        _configure(review, rest, depth)
    if any(word.startswith("ext::") for word in rest):
        review.destructive("runs a command as if it were a repository")
    return False


def _own_option(review: Review, word: str) -> bool:
    """Judge one of git's own options; return whether it takes the next word."""
    name, equals, _ = word.partition("=")
    if name in _FOLDERS:
        if name != "-C":
            review.caution("git with another repository's settings")
        return not equals
    if name not in _SWITCHES:
        review.caution(f"git with an option not known to only read: {word[:40]}")
    elif equals:
        review.caution("git with programs from another folder")
    return False


def _set(review: Review, setting: str, depth: int) -> None:
    """Judge ``-c name=value``."""
    name, _, value = setting.partition("=")
    if _HARMLESS.fullmatch(setting) or (
        _HARMLESS.fullmatch(name) and not _COMMANDS.fullmatch(name)
    ):
        return
    if _COMMANDS.fullmatch(name):
        review.caution(f"sets {name[:40]}, which git runs")
        if value not in {"", "true", "false"}:
            shell = name.casefold().startswith("alias.") and not value.startswith("!")
            review.add_text(f"git {value}" if shell else value.lstrip("!"), depth + 1)
    else:
        review.caution(f"sets {name[:40]} for git")


def _runs(review: Review, command: str, rest: Sequence[str], depth: int) -> None:
    """Have a look at the commands that git's own commands run."""
    if command == "submodule" and "foreach" in rest:
        words = [w for w in rest[list(rest).index("foreach") + 1 :] if w != "--recursive"]
        review.add_text(texts(words), depth + 1)
    elif command == "bisect" and rest[:1] == ("run",):
        review.add_text(texts(rest[1:]), depth + 1)
    elif command in {"rebase", "difftool"}:
        options = {"-x", "--exec", "--extcmd"}
        for at, word in enumerate(rest):
            name, equals, value = word.partition("=")
            if name in options:
                text = value if equals else texts(rest[at + 1 : at + 2])
                review.add_text(text, depth + 1)
    elif command == "filter-branch":
        review.destructive("rewrites or loses commits")


def _configure(review: Review, rest: Sequence[str], depth: int) -> None:
    """Judge what ``git config`` sets, where git would run it."""
    operands = [word for word in rest if word[:1] != "-"]
    if operands[:1] == ["set"]:
        del operands[0]
    if len(operands) < 2 or not _COMMANDS.fullmatch(operands[0]):
        return
    name = operands[0].casefold()
    if name.startswith("alias."):
        value = operands[1]
        review.add_text(value[1:] if value.startswith("!") else f"git {value}", depth + 1)
    elif not re.match(
        r"core\.(?:pager|editor)|sequence\.editor|credential\.|pager\.|.*tool\.", name
    ):
        review.destructive(f"sets {operands[0][:40]}, which git runs")
