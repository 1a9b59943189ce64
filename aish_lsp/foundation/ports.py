"""Asking the user, and the editor, from below: a front end hands down how, nobody knows where."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from aish_lsp.foundation.job import Job

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Diff:
    """What a file holds, and what it would hold; ``before`` is empty for a new file."""

    path: Path
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Approval:
    """What a question is about, for a client that shows it in its own way (``aish/approve``)."""

    kind: Literal["command", "edit"]
    text: str
    cwd: Path
    risk: str
    reasons: tuple[str, ...] = ()
    diff: Diff | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Something only the user can decide. ``yes`` and ``no`` are the words on the buttons.

    ``whole`` is all of what ``message`` shows cut, to be shown beside it; empty where it shows all.
    ``approval`` says the same in parts, where it is a command or a change that waits for a yes.
    """

    message: str
    yes: str
    no: str = "Cancel"
    whole: str = ""
    approval: Approval | None = None


#: Ask; True only for a plain yes. No answer, an unknown one, or nobody to ask is None.
AskUser: TypeAlias = Callable[[Question], Awaitable[bool | None]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Several things of which the user chooses one; ``options`` are the words on the buttons.

    ``whole`` is as a ``Question`` has it.
    """

    message: str
    options: tuple[str, ...]
    whole: str = ""


#: Ask; the number of the option, from 0. No answer, or nobody to ask, is None.
Choose: TypeAlias = Callable[[Choice], Awaitable[int | None]]


#: Return the text of a file as an editor has it, LF at its line ends; None where it is not open.
OpenText: TypeAlias = Callable[[Path], str | None]


#: Put a text in the place of another in a file that an editor has open, LF at the line ends of
#: both. False where the editor did not do it, or holds something else by now; None where the file
#: is not open.
EditOpen: TypeAlias = Callable[[Path, str, str], Awaitable[bool | None]]


@dataclass(frozen=True, slots=True)
class Lookup:
    """What an editor is asked about the code: it knows it from the language servers beside us.

    Attributes:
        what: problems that were found, names that are defined, or where a name is defined.
        path: the file that is meant; None for all of the workspace.
        query: what the names of symbols are to hold.
        line, character: where the name stands whose definition is asked for, both from 0.
    """

    what: Literal["diagnostics", "symbols", "definition"]
    path: Path | None = None
    query: str = ""
    line: int = 0
    character: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A place in the code, its line from 0, and what the editor says of it in a few words."""

    path: Path
    line: int
    text: str


class LookUp(Protocol):
    """Asks the editor about the code."""

    def is_offered(self) -> bool:
        """Return whether the editor takes such questions."""
        ...

    async def __call__(self, lookup: Lookup, /) -> list[Found] | None:
        """Return what it found; None where it cannot tell."""
        ...


class NoLookUp:
    """The editor that is asked nothing about the code."""

    def is_offered(self) -> bool:
        """Return that it takes no questions."""
        return False

    async def __call__(self, _lookup: Lookup, /) -> list[Found] | None:
        """Return that it cannot tell."""
        return None


@dataclass(frozen=True, slots=True)
class TerminalShown:
    """What the editor's terminal ran last; but for the output, as far as the editor knows it."""

    output: str
    command: str = ""
    cwd: str = ""
    exit_code: int | None = None


#: Return what the editor's terminal ran last. None where it ran nothing, or cannot tell.
ReadTerminal: TypeAlias = Callable[[], Awaitable[TerminalShown | None]]


def nothing_open(_path: Path) -> str | None:
    """Return None, as for an editor that has nothing open."""
    return None


async def nobody(*_asked: object) -> None:
    """Return None, as for a user, or an editor, that cannot be asked."""
    return


class Face(Protocol):
    """Who asks for an operation: the language server, the chat, the command line."""

    def tell(self, message: str) -> None:
        """Tell the user something beside the result."""

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for ``job``, which the user can stop, showing ``title`` meanwhile."""

    async def chat_text(self) -> str:
        """Return what stands in the chat; empty where there is none."""
