"""Interfaces to the user and the editor for the lower packages; front ends implement them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from aish_lsp.foundation.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Diff:
    """The contents of a file before and after a change; ``before`` is empty for a new file."""

    path: Path
    before: str
    after: str


#: How long an approval may be remembered.
Remember: TypeAlias = Literal["session", "folder"]


@dataclass(frozen=True, slots=True)
class Approval:
    """What a question is about, for a client that displays it itself (``aish/approve``).

    ``undo`` says what an undo could do; ``covers`` says what an approval that is remembered covers.
    """

    kind: Literal["command", "edit", "tool"]
    text: str
    cwd: Path
    risk: str
    reasons: tuple[str, ...] = ()
    diff: Diff | None = None
    undo: str = ""
    covers: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Something only the user can decide.

    Attributes:
        message: the question.
        yes, no: the labels of the buttons.
        whole: the full text to show along with ``message`` if that shows only part of it.
        approval: the same in parts, if a command or an edit is to be approved.
        remember: how long a yes may be remembered, each with the label of its button.
    """

    message: str
    yes: str
    no: str = "Cancel"
    whole: str = ""
    approval: Approval | None = None
    remember: Mapping[Remember, str] = field(default_factory=dict)

    @property
    def answers(self) -> dict[str, UserAnswer]:
        """The labels of all buttons, each with the answer that it gives."""
        remembered = {label: scope for scope, label in self.remember.items()}
        return {self.yes: True, **remembered, self.no: False}


#: The id of the tool call or the command that is carried out in this context; a front end may show
#: a question with it.
CALL: ContextVar[str] = ContextVar("call", default="")

#: The id of the session that it belongs to: some model servers give calls of two replies one id.
CALLING_SESSION: ContextVar[str] = ContextVar("calling session", default="")

#: True only for a plain yes, or how long to remember it; False for a no, None if it is not clear.
UserAnswer: TypeAlias = bool | Remember | None

#: Asks a question. Only one that offers to remember a yes gets how long.
AskUser: TypeAlias = Callable[[Question], Awaitable[UserAnswer]]


def plain(answer: UserAnswer) -> bool | None:
    """Return an answer without how long it is to be remembered."""
    return None if answer is None else bool(answer)


@dataclass(frozen=True, slots=True)
class Choice:
    """Several options of which the user chooses one.

    Attributes:
        message: the question.
        options: the labels of the buttons.
        whole: as in ``Question``.
    """

    message: str
    options: tuple[str, ...]
    whole: str = ""


#: Asks for a choice; returns the index of the option, or None without an answer.
Choose: TypeAlias = Callable[[Choice], Awaitable[int | None]]

#: Returns the text of a file that the editor has open, with LF line ends; None if it is not open.
OpenText: TypeAlias = Callable[[Path], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """How an edit of a file that the editor may have open ended.

    Attributes:
        state: ``saved`` or ``unsaved`` in the editor; ``refused``, since the editor did not make it
            or its text has changed; ``on disk``: it is to be made there, since the editor does not
            have the file open, or reloads it.
        reason: why it was refused, as a clause.
    """

    state: Literal["saved", "unsaved", "refused", "on disk"]
    reason: str = ""


#: Replaces the text of a file that the editor has open: path, old text, new text, both with LF
#: line ends.
EditOpen: TypeAlias = Callable[[Path, str, str], Awaitable[EditOutcome]]


class Buffers:
    """The editor's texts, compared with the files on the disk; this one has none of its own."""

    async def unsaved(self) -> list[Path]:
        """Return the open files that an edit of ours changed, and that are not saved."""
        return []

    async def save(self, _paths: Sequence[Path]) -> list[Path]:
        """Have the editor save files; return those that it did save."""
        return []

    def can_save(self) -> bool:
        """Return whether the editor saves a file when it is asked to."""
        return False

    def files_changed(self) -> None:
        """Tell the editor which of its open files have changed on the disk."""


async def not_open(*_edit: object) -> EditOutcome:
    """Return that an edit is to be made on the disk, as for an editor without open files."""
    return EditOutcome("on disk")


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question to the editor about the code, which it answers with its other language servers.

    Attributes:
        what: problems, defined symbols, or the definition of a name.
        path: the file; None for the whole workspace.
        query: text that the names of the symbols must contain.
        line, character: the position of the name to look up, both from 0.
    """

    what: Literal["diagnostics", "symbols", "definition"]
    path: Path | None = None
    query: str = ""
    line: int = 0
    character: int = 0


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A place in the code, its line counted from 0, with a short text from the editor."""

    path: Path
    line: int
    text: str


class LookUp:
    """Asks the editor about the code; this one answers nothing."""

    def is_offered(self) -> bool:
        """Return whether the editor supports such questions."""
        return False

    async def __call__(self, _lookup: Lookup, /) -> list[CodeLocation] | None:
        """Return what it found; None if it cannot answer."""
        return None


@dataclass(frozen=True, slots=True)
class TerminalShown:
    """What the editor's terminal ran last; fields other than ``output`` may be unknown."""

    output: str
    command: str = ""
    cwd: str = ""
    exit_code: int | None = None


#: Returns what the editor's terminal ran last; None if it ran nothing or cannot say.
ReadTerminal: TypeAlias = Callable[[], Awaitable[TerminalShown | None]]


#: Waits until the settings of a front end for a folder, if it has any, are known.
Settled: TypeAlias = Callable[[Path | None], Awaitable[object]]


async def nobody(*_asked: object) -> None:
    """Return None, as for a user or an editor that cannot be asked."""
    return
