"""An operation: its name, what it takes, what comes of it, and how it is written in the chat.

It is added to the table by ``@operation(...)`` on the function that carries it out. Its docstring,
up to ``Raises:``, is what the reference says of it; what it raises is how it refuses. The command
``aish.X`` of the language server, ``:x`` of the chat and ``aish-lsp x`` are made from the table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    get_type_hints,
)

from aish_lsp.foundation.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.session import Session
    from aish_lsp.context.messages import Attached
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.foundation.ports import Face

R = TypeVar("R")
F = TypeVar("F", bound="Callable[..., Awaitable[Any]]")

Token: TypeAlias = str | int

#: What the events of a job are about.
Comes: TypeAlias = Literal["reply", "output", "candidates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which workspace is meant: its folder's URI, else the folder of ``uri``, else the last."""

    workspace: str | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTarget(Target):
    """``session`` is the id of an open one; by default the one that the chat shows is meant."""

    session: str | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """A result that says nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operation is asked for: in which session of a workspace, and through which face.

    ``is_typed``: the user was seen typing it; ``is_alone``: there is no conversation around it, as
    for a command of the shell. Of a question, ``attached`` is what it is about, ``at`` the file
    that it is asked in, and ``notice`` is told before its turn.
    """

    workspace: Workspace
    session: Session
    face: Face
    is_typed: bool = True
    is_alone: bool = False
    attached: tuple[Attached, ...] = ()
    at: Path | None = None
    notice: str = ""

    def tell(self, troubles: Iterable[str]) -> None:
        """Tell the user of each, beside the result."""
        for trouble in troubles:
            self.face.tell(trouble)


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """What comes of an operation: its result, and the same for a person, in Markdown.

    ``is_told``: the text says what the result does not, and an editor shows it beside that.
    ``failed``: nothing was done; what a command of the shell fails with. ``more``: what such a
    command says in JSON beside the result, whose form is that of the protocol.
    """

    result: R
    text: str = ""
    is_told: bool = False
    failed: type[AishError] | None = None
    more: Mapping[str, object] = field(default_factory=dict)


#: Turns what follows the words of a line into parameters.
Read: TypeAlias = Callable[[Place, str], Any]


def whole(params: type, name: str, missing: str = "") -> Read:
    """Return what takes all that follows for the parameter ``name``; ``missing`` refuses nothing.

    Without ``missing`` nothing leaves the parameter as it is by default.
    """

    def read(_place: Place, argument: str) -> Any:
        if missing and not argument:
            raise InvalidArgument(missing)
        return params(**{name: argument}) if argument else params()

    return read


@dataclass(frozen=True, slots=True)
class Line:
    """How an operation is written in the chat: ``memory add``, and what follows that.

    Attributes:
        words: the command, and its verb where it has several, without the colon.
        usage: the argument for people: ``KIND TEXT``; in brackets where it may be left out.
        help: one line on it; empty where the group's says enough.
        read: makes parameters of the argument; None where it takes none.
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
        params: the dataclass of what it takes; its fields are camelCase on the wire.
        run: carries it out; returns an ``Answer``, or a ``Job`` where it comes in pieces.
        lines: how it is written in the chat.
        shows: it changes nothing, so that anybody may have written it in the chat.
        asks: it asks the user itself, with all there is to know.
        at_once: it does not wait for a session that is about to take the place of the one shown.
        needs_settings: what the face says of its settings is awaited first: which model answers,
            what is asked about, which shell runs a command.
        comes: what a job of it yields: a reply, a command's output, or candidates for the memory.
        title: what a job of it does, for those who wait.
    """

    name: str
    params: type
    run: Callable[[Place, Any], Awaitable[Any]]
    lines: tuple[Line, ...] = ()
    shows: bool = False
    asks: bool = False
    at_once: bool = False
    needs_settings: bool = False
    comes: Comes = "reply"
    title: str = ""

    @property
    def doc(self) -> str:
        """What the reference says of it, in Markdown."""
        return (inspect.getdoc(self.run) or "").partition("\nRaises:")[0].strip()

    def hints(self) -> dict[str, Any]:
        """Return the types of the parameters, by name."""
        return get_type_hints(self.params)

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """How it refuses: the errors, as the code calls them, and when it raises them."""
        told = (inspect.getdoc(self.run) or "").partition("\nRaises:\n")[2]
        rows = re.split(r"\n(?=    \w)", told.rstrip())
        found = (row.split(": ", 1) for row in rows if ": " in row)
        return [(names.strip(), " ".join(when.split())) for names, when in found]

    @property
    def comes_in_pieces(self) -> bool:
        """Whether its events go to a token of the client's, or into the chat."""
        return "partial_result_token" in self.params.__dataclass_fields__  # type: ignore[attr-defined]


#: Those of the modules that were imported; the package has all.
OPERATIONS: Final[dict[str, Operation]] = {}


class Traits(TypedDict, total=False):
    """What else may be said of an operation: see the attributes of ``Operation``."""

    shows: bool
    asks: bool
    at_once: bool
    needs_settings: bool
    comes: Comes
    title: str


def operation(name: str, params: type, *lines: Line, **traits: Unpack[Traits]) -> Callable[[F], F]:
    """Return a decorator that adds its function to the table of operations."""

    def add(run: F) -> F:
        assert name not in OPERATIONS, f"{name} is there twice"
        OPERATIONS[name] = Operation(name, params, run, lines, **traits)
        return run

    return add
