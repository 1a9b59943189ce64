"""The commands of ``workspace/executeCommand``: the operations, and what only editors can do.

docs/protocol.md and the schema are generated from these tables. The kinds of our code actions are
here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal

from aish_lsp.chat.colon import ChatCompletions
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.events import FinishReason, Usage
from aish_lsp.foundation.ports import Remember
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.ask import Position
from aish_lsp.operations.operation import SessionTarget, Target, Token
from aish_lsp.operations.run import CommandParams

if TYPE_CHECKING:
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.extractor import Extracted
    from aish_lsp.agent.norris.run import NorrisResult
    from aish_lsp.agent.turn import AskResult
    from aish_lsp.operations.operation import Comes, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceParams(Target):
    """``block`` is the number, from 0, among a reply's blocks that can replace the selection."""

    turn_id: str
    block: int = field(default=0, metadata={"minimum": 0})


@dataclass(frozen=True, slots=True)
class Replaced:
    """Whether the editor made the edit."""

    applied: bool


@dataclass(frozen=True, slots=True)
class DiffShown:
    """The present text of a file and the proposed one; lines end with LF in both.

    ``lines`` are those that change, each after ``-`` or ``+``, with some around them, each after a
    space; ``...`` stands for lines that are left out.
    """

    uri: str
    before: str
    after: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The request ``aish/approve``: what needs the user's approval.

    ``text`` is the command (for the kind ``command``), the name of the file (for ``edit``, which
    has a ``diff``) or the call of a tool server's tool (for ``tool``); ``cwd`` is the folder in
    which it runs or is. ``undo`` says what an undo could do. ``remember`` is how long a yes may be
    remembered, and ``covers`` what it then covers; ``labels`` are those of the buttons: no, yes,
    and one for each of ``remember``. ``call_id`` is the id of the command or the tool call that
    waits for the answer, as in its events, and ``session`` that of its session; both are empty if
    none does.
    """

    id: str
    call_id: str
    session: str
    kind: Literal["command", "edit", "tool"]
    text: str
    cwd: str
    risk: str
    reasons: tuple[str, ...]
    diff: DiffShown | None
    undo: str
    covers: str
    remember: tuple[Remember, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Approved:
    """The answer to ``aish/approve``; anything but true is a no.

    ``remember``, one of those that the request offers, has a yes remembered.
    """

    approved: bool
    remember: Remember | None = None


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """The request ``aish/lookup``: what the editor's other language servers know of the code.

    ``uri`` is the file in question, null for the whole workspace; ``query`` is a text that the
    names of ``symbols`` must contain; ``position`` is the place of the name whose ``definition``
    is wanted, in the agreed units.
    """

    what: Literal["diagnostics", "symbols", "definition"]
    uri: str | None
    query: str
    position: Position | None


@dataclass(frozen=True, slots=True)
class FoundThere:
    """A place in the code, with its line counted from 0, and what it is in a few words."""

    uri: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The answer to ``aish/lookup``; null if the client does not know."""

    items: tuple[FoundThere, ...]


@dataclass(frozen=True, slots=True)
class TerminalRequest:
    """The request ``aish/terminal``: what the editor's terminal ran last."""


@dataclass(frozen=True, slots=True)
class LastInTerminal:
    """The answer to ``aish/terminal``; null if there is no terminal.

    If the client does not know where a command begins, ``command`` is empty, and ``output`` is what
    the terminal shows last.
    """

    command: str
    cwd: str | None
    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """The request ``aish/save``: save these documents, if they have changes."""

    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """The answer to ``aish/save``: the documents that are saved now."""

    saved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The notification ``aish/changed``: the files of these documents have changed on the disk."""

    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """The text, and whether it is now in the clipboard."""

    text: str
    copied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatParams(Target):
    """``prompt`` is put under the last heading by *open*, and sent by *send*.

    It replaces a prompt that *open* put there if that has not been changed. A draft of the user's
    is kept: *open* then puts nothing there and shows a message; *send* writes its prompt above the
    draft.
    """

    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class ChatPlace:
    """The chat document."""

    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLineParams(SessionTarget):
    """``line`` is what the user typed; a fenced block may follow ``:run``."""

    line: str
    partial_result_token: Token | None = None


@dataclass(frozen=True, slots=True)
class ChatLineDone:
    """The result of a line.

    ``session`` is the id of the session that the workspace shows now, and ``text`` is the answer,
    in Markdown. If events were sent to the token, ``comes`` says what they were about, and
    ``result`` is the result of the line's command; otherwise both are null.
    """

    session: str
    text: str
    comes: Comes | None
    result: AskResult | RunReport | NorrisResult | Extracted | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompleteParams(SessionTarget):
    """``prefix`` is the line up to the cursor."""

    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """A message of a conversation that another extension holds."""

    role: Literal["user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteParams(SessionTarget):
    """``model`` is a name from ``aish.model.list``; the reply is charged to the session."""

    model: str
    messages: list[PromptMessage]
    partial_result_token: Token | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The reply: its text, how it ended, and its usage, which is null if nothing was received."""

    text: str
    finish_reason: FinishReason
    usage: Usage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountParams(SessionTarget):
    """``model`` is a name from ``aish.model.list``."""

    model: str
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Counted:
    """The tokens of each text, and the most that a request and a reply may have.

    ``input`` and ``output`` are the limits that are known without asking the model's server.
    """

    tokens: list[int]
    input: int
    output: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn that continues in the chat; null if none was started."""

    turn_id: str | None


@dataclass(frozen=True, slots=True)
class BegunCommand:
    """A command whose output is written into the chat."""

    command_id: str


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command's contract.

    Attributes:
        name: its name as the client sends it: ``aish.ask``.
        params: the dataclass that its argument becomes; its fields are camelCase on the wire.
        result: the type of its result; an operation names its own.
        operation: the operation that it carries out; None for what only editors can do.
    """

    name: str
    params: type
    result: Any = None
    operation: Operation | None = None


#: What only editors can do; editor_commands.md has the description of each for the reference.
_EDITOR = (
    CommandSpec("aish.selection.replace", ReplaceParams, Replaced),
    CommandSpec("aish.commands.copy", CommandParams, Copied),
    CommandSpec("aish.chat.open", ChatParams, ChatPlace),
    CommandSpec("aish.chat.send", ChatParams, Begun),
    CommandSpec("aish.chat.line", ChatLineParams, ChatLineDone),
    CommandSpec("aish.chat.complete", ChatCompleteParams, ChatCompletions),
    CommandSpec("aish.model.complete", CompleteParams, Completion),
    CommandSpec("aish.model.count", CountParams, Counted),
)

_SPECS = (
    *(CommandSpec(f"aish.{one.name}", one.params, operation=one) for one in OPERATIONS.values()),
    *_EDITOR,
)

COMMANDS: dict[str, CommandSpec] = {spec.name: spec for spec in _SPECS}

#: The requests to a client that declares them: the types of the params and of its answer.
REQUESTS: Final[Mapping[str, tuple[Any, Any]]] = {
    "aish/approve": (ApprovalRequest, Approved),
    "aish/lookup": (LookupRequest, LookedUp | None),
    "aish/save": (SaveRequest, SavedFiles),
    "aish/terminal": (TerminalRequest, LastInTerminal | None),
}

RUN_KIND: Final = "quickfix.aish.run"
REFACTOR_KIND: Final = "refactor.aish"
