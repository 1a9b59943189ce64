"""An operation: its name, its parameters, its result, and how it is written in the chat.

``@operation(...)`` adds the function that carries it out to the table. The docstring, up to
``Raises:``, is its text in the reference; what it raises is how it refuses. The language server's
command ``aish.X``, the chat's ``:x`` and the shell's ``aish-lsp x`` are made from the table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    get_type_hints,
)

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.planning import ApprovalState
    from aish_lsp.agent.session import Session
    from aish_lsp.context.messages import Attached
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.foundation.job import Job

R = TypeVar("R")
F = TypeVar("F", bound="Callable[..., Awaitable[Any]]")

Token: TypeAlias = str | int

#: What an operation's job yields.
Comes: TypeAlias = Literal["reply", "output", "candidates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A workspace: the one with this folder URI, or that ``uri`` is in, or the last one used."""

    workspace: str | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTarget(Target):
    """``session`` is the id of an open session, by default the one that the chat shows."""

    session: str | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """An empty result."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question is about, besides the files that it names, and the file it is asked in."""

    attached: tuple[Attached, ...] = ()
    file: Path | None = None


class Face(Protocol):
    """The front end that an operation is requested in: language server, chat or command line."""

    def tell(self, message: str) -> None:
        """Show the user a message in addition to the result."""

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for ``job``, which the user can stop, and show ``title`` meanwhile."""

    async def chat_text(self) -> str:
        """Return the text of the chat; empty if there is none."""

    async def subject(self, _params: Any) -> Subject:
        """Return what the parameters of an operation that ``selects`` point at.

        Raises:
            AishError: they point at nothing that can be read.
        """
        return Subject()

    async def make_room(self, _operation: Operation, _session: Session) -> None:
        """Prepare to show what the job of an operation yields, since no token was given for it.

        Raises:
            AishError: it cannot be shown.
        """
        return

    async def continue_in_chat(self, _line: str) -> bool:
        """Carry out a line of the chat there, because the user cannot be asked to choose here.

        By default they can be asked: nothing is done, and False is returned.
        """
        return False


@dataclass(frozen=True, slots=True)
class Caller:
    """Who requests an operation: the session of a workspace, and the front end (``face``).

    Attributes:
        workspace, session: what is meant; ``dispatch`` replaces the session by the one that the
            parameters name.
        face: the front end.
        is_typed: the user was seen typing it.
        is_alone: it is outside any conversation, such as a command of the shell, which shows all
            of a command's output.
        approval: ``given``: the user has just approved exactly the command that is to be run;
            ``unseen``: nobody has seen it; ``offered``: the user is asked whatever its risk.
        guess: why this workspace was chosen, as a clause; empty if it was named.
        subject: what a question is about.
    """

    workspace: Workspace
    session: Session
    face: Face
    is_typed: bool = True
    is_alone: bool = False
    approval: ApprovalState = ""
    guess: str = ""
    subject: Subject = Subject()

    def tell(self, troubles: Iterable[str]) -> None:
        """Show the user each of these messages in addition to the result."""
        for trouble in troubles:
            self.face.tell(trouble)


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """The answer of an operation: its result, and a text in Markdown for people.

    ``is_told``: the text says something that the result does not, so an editor shows it too.
    ``failed``: nothing was done, and a command of the shell fails with this error. ``more``: fields
    that a command of the shell adds to the result's JSON, which otherwise has the protocol's form.
    """

    result: R
    text: str = ""
    is_told: bool = False
    failed: type[AishError] | None = None
    more: Mapping[str, object] = field(default_factory=dict)


#: Turns what follows the words of a line into the operation's parameters.
Read: TypeAlias = Callable[[Caller, str], Any]


def whole(params: type, name: str, missing: str = "") -> Read:
    """Return a reader that takes the whole argument as the parameter ``name``.

    An empty argument is refused with the message ``missing`` if there is one; otherwise the
    parameter keeps its default.
    """

    def read(_place: Caller, argument: str) -> Any:
        if missing and not argument:
            raise InvalidArgument(missing)
        return params(**{name: argument}) if argument else params()

    return read


@dataclass(frozen=True, slots=True)
class Line:
    """How an operation is written in the chat: ``memory add``, and its argument.

    Attributes:
        words: the command without the colon, and its verb if it has several.
        usage: the argument, for people: ``KIND TEXT``; in brackets if it is optional.
        help: a line of help; empty if that of the whole command says enough.
        read: turns the argument into parameters; None if there is no argument.
        choices: words that the argument may begin with.
    """

    words: str
    usage: str = ""
    help: str = ""
    read: Read | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a user can ask for.

    Attributes:
        name: ``memory.add``.
        params: the dataclass of its parameters; their names are camelCase on the wire.
        run: carries it out; returns an ``Answer``, or a ``Job`` if the result comes in pieces.
        lines: how it is written in the chat.
        shows: it changes nothing, so it does not matter who wrote it into the chat.
        asks: it asks the user for consent itself, with everything they need to know.
        at_once: it does not wait while the shown session is being replaced.
        needs_settings: it waits for the face's settings: which model answers, what has to be asked
            about, which shell runs a command.
        selects: its parameters may point at a part of a document, which is read before anything
            else, since the editor's text may change at any time.
        quiet: a front end does not bring into view where it shows what the job yields.
        comes: what its job yields: a reply, a command's output, or candidates for the memory.
        title: what its job does, for a user who waits.
    """

    name: str
    params: type
    run: Callable[[Caller, Any], Awaitable[Any]]
    lines: tuple[Line, ...] = ()
    shows: bool = False
    asks: bool = False
    at_once: bool = False
    needs_settings: bool = False
    selects: bool = False
    quiet: bool = False
    comes: Comes = "reply"
    title: str = ""

    @property
    def doc(self) -> str:
        """Its text in the reference, in Markdown."""
        return (inspect.getdoc(self.run) or "").partition("\nRaises:")[0].strip()

    def hints(self) -> dict[str, Any]:
        """Return the types of the parameters, by name."""
        return get_type_hints(self.params)

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """How it refuses: the names of the errors, and when each is raised."""
        raises = (inspect.getdoc(self.run) or "").partition("\nRaises:\n")[2]
        rows = re.split(r"\n(?=    \w)", raises.rstrip())
        pairs = (row.split(": ", 1) for row in rows if ": " in row)
        return [(names.strip(), " ".join(when.split())) for names, when in pairs]

    @property
    def takes_session(self) -> bool:
        """Whether its parameters may name a session."""
        return issubclass(self.params, SessionTarget)

    @property
    def comes_in_pieces(self) -> bool:
        """Whether it is a job, whose events go to a token of the client's or into the chat."""
        return "partial_result_token" in self.params.__dataclass_fields__  # type: ignore[attr-defined]


#: The operations of the modules imported so far; the package has all of them.
OPERATIONS: Final[dict[str, Operation]] = {}


class Traits(TypedDict, total=False):
    """The optional attributes of an ``Operation``; see there."""

    shows: bool
    asks: bool
    at_once: bool
    needs_settings: bool
    selects: bool
    quiet: bool
    comes: Comes
    title: str


def operation(name: str, params: type, *lines: Line, **traits: Unpack[Traits]) -> Callable[[F], F]:
    """Return a decorator that adds its function to the table of operations."""

    def add(run: F) -> F:
        assert name not in OPERATIONS, f"{name} is there twice"
        OPERATIONS[name] = Operation(name, params, run, lines, **traits)
        return run

    return add
