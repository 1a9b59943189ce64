"""The state of one review of a command: what was found, what is known, and what is still queued."""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aish_lsp.foundation.events import Risk
from aish_lsp.shell.risk.data import CAUTION, DESTRUCTIVE, LEVELS, LONGEST, SAFE, UNKNOWN
from aish_lsp.shell.risk.paths import (
    How,
    names_secret,
    normal,
    real_places,
    why_not_kept,
    write_risk,
)
from aish_lsp.shell.risk.rules import Tables
from aish_lsp.shell.risk.values import PATTERN, Input, Variables, text_of

#: How often a command may run another that runs another.
_DEEPEST: Final = 12
#: Simple commands and texts that are looked at, and the characters in the commands' words: each
#: command counts once for each combination of its variables' values.
_MOST: Final = 3000
_MOST_CHARACTERS: Final = 1_000_000
#: Folders that a command may be in; each is looked at.
_FOLDERS: Final = 30
#: What makes a folder's name unknown until the command runs.
_UNKNOWN_FOLDER: Final = re.compile(rf"[{UNKNOWN}*?\[$]|^-|^~[^/]")

#: What changes to another folder, or may do so because it runs a text.
_MOVES: Final = re.compile(r"\b(?:cd|pushd|popd|eval|source)\b|(?:^|[;&|\s])\.\s")


COMPUTED: Final = "runs a command whose name is computed"
UNSEEN: Final = "runs code that is not shown"
SENDS: Final = "may send secrets to another machine"
TOO_MUCH: Final = "too long, or nested too deep, to be checked"

#: How many reasons the user is shown.
_MOST_REASONS: Final = 6


class Findings:
    """The worst level so far, and why; the worst part of a command decides.

    Attributes:
        level: the worst level.
        commands: how many simple commands were judged.
        free: how many of them one of the user's rules lets run unconfined.
    """

    def __init__(self) -> None:
        self.level = SAFE
        self.commands = 0
        self.free = 0
        self._reasons: dict[str, int] = {}

    def add(self, level: int, reason: str) -> None:
        """Record a finding; a safe one needs no reason and leaves no trace."""
        if level:
            self.level = max(self.level, level)
            self._reasons[reason] = max(level, self._reasons.get(reason, SAFE))

    @property
    def is_free(self) -> bool:
        """Whether the user's rules let all of it run unconfined."""
        return 0 < self.free == self.commands

    @property
    def risk(self) -> Risk:
        """The level in the words of the protocol."""
        return LEVELS[self.level]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of the worst level, in the order in which they were found."""
        if self.level == SAFE:
            return ()
        worst = [reason for reason, level in self._reasons.items() if level == self.level]
        return tuple(worst[:_MOST_REASONS])


class Review:
    """The state that all parts of a command share.

    Attributes:
        own, stricter: the rows of the configuration, if it has any: the user's, and those that
            may only make a verdict stricter.
        folder: where it will run, if known.
        path: the PATH that it will run with; None is our own.
        kept: the folder whose files can be restored; None if there is none.
        findings: what was found.
        variables: what the text sets.
        functions: names of the functions that it defines; a body is judged at its definition.
        written: the text of each file that it writes, by normal path.
        folders: the folders that it may change to, as far as they are known.
        lost: whether it may change to an unknown folder.
        depth: how many commands, each run by the last, lead to the text that is being looked at.
        read_secrets: whether something in it reads what may be secret, judging by its name.
        reads: what its commands are told to read, which may also be secret.
        sends: whether it sends what it has read to another machine.
        doubtful: commands that the last one runs if an option that is not known takes a value.
    """

    def __init__(self, folder: Path | None, path: str | None, kept: Path | None = None) -> None:
        self.folder = folder
        self.path = path
        self.kept = kept
        self.own: Tables | None = None
        self.stricter: Tables | None = None
        self.findings = Findings()
        self.variables = Variables()
        self.functions: set[str] = set()
        self.written: dict[str, str] = {}
        self.folders: list[str] = []
        self.lost = False
        self.read_secrets = False
        self.reads: list[Sequence[str]] = []
        self.sends = False
        self.doubtful: list[Sequence[str]] = []
        self.depth = 0
        self._waiting: deque[tuple[str, int]] = deque()
        self._count = 0
        self._characters = 0

    def caution(self, reason: str) -> None:
        """Record that something is changed, or is not known."""
        self.findings.add(CAUTION, reason)

    def caution_if(self, reason: str | None) -> None:
        """Record a reason, if there is one."""
        if reason is not None:
            self.caution(reason)

    def destructive(self, reason: str) -> None:
        """Record that something can be lost."""
        self.findings.add(DESTRUCTIVE, reason)

    def goes_on(self, words: Sequence[str] = ()) -> bool:
        """Count one more thing to look at; return whether the limit is not exceeded yet."""
        self._count += 1
        self._characters += sum(map(len, words))
        if self._count <= _MOST and self._characters <= _MOST_CHARACTERS:
            return True
        self.destructive(TOO_MUCH)
        return False

    def add_text(self, text: str) -> None:
        """Queue a text that a shell will run; its unknown parts become variables."""
        if not text.strip():
            return
        if text.strip("\0 \t\n") == "":
            self.destructive(UNSEEN)
        elif len(text) > LONGEST or self.depth >= _DEEPEST:
            self.destructive(TOO_MUCH)
        elif self.goes_on():
            if UNKNOWN in text or self.variables.may_name_files(text):
                # The unknown part is inserted before the text is parsed, and may be any command.
                self.caution("runs a text that is only partly known")
            self._waiting.append((text.replace(UNKNOWN, "$_"), self.depth + 1))

    def add_joined(self, words: Sequence[str]) -> None:
        """Queue the text that words make together, which a shell will run."""
        if len(words) > 1 and any(map(PATTERN.search, words)):
            self.caution("runs a text with names of files, which may be anything")
        self.add_text(texts(words))

    def add_input(self, stdin: Input, *, or_else: str) -> None:
        """Queue the input of a shell; without any, record the reason ``or_else``."""
        if stdin is None:
            self.caution(or_else)
        else:
            self.add_text(text_of(stdin))

    def next_text(self) -> str | None:
        """Return the next text in the queue, and go to its ``depth``; None at the end."""
        if not self._waiting:
            if self.sends and (
                self.read_secrets or any(names_secret(words[1:]) for words in self.reads)
            ):
                self.destructive(SENDS)
            return None
        text, self.depth = self._waiting.popleft()
        return text

    def writes(self, target: str, how: How = "overwrites", text: str = UNKNOWN) -> None:
        """Record that ``text`` is written to ``target``."""
        level, reason = write_risk(
            target, how, folders=self.folders, folder=self.folder, kept=self.kept, lost=self.lost
        )
        self.findings.add(level, reason)
        if level:
            path = normal(target)
            before = self.written.get(path, UNKNOWN) if how == "adds" else ""
            self.written[path] = before + text

    def may_run(self, text: str) -> None:
        """Record that a text runs in this shell, and so may change to another folder."""
        if UNKNOWN in text or _MOVES.search(text):
            self.lost = True

    def enters(self, place: str) -> None:
        """Record that a command changes to a folder, from any that it may be in."""
        is_moved_home = place[:1] == "~" and "HOME" in self.variables.names
        if len(self.folders) > _FOLDERS or is_moved_home or _UNKNOWN_FOLDER.search(place):
            self.lost = True
            if names_secret([place]):
                self.folders.append(place)
        else:
            entered = [posixpath.join(start, place) for start in ("", *self.folders)]
            self.folders += [folder for folder in entered if folder not in self.folders]

    def loses(self, source: str) -> None:
        """Record that ``source`` is gone, if it decides what runs or cannot be restored."""
        if write_risk(source, "adds", folders=self.folders, folder=None)[0] == DESTRUCTIVE:
            self.destructive("moves away a file that decides what runs, or who may log in")
        elif self.kept is not None and self.folder is not None and UNKNOWN not in source:
            for real in real_places(source, self.folder, self.folders):
                if reason := why_not_kept(real, self.kept):
                    self.destructive(reason)

    def runs_file(self, path: str) -> str | None:
        """Return the text of a file to be run if the same command writes it; else None."""
        return self.written.get(normal(path)) if self.written else None


def texts(words: Sequence[str]) -> str:
    """Return words as the text that ``eval`` or ``ssh`` would make of them."""
    return " ".join(words)
