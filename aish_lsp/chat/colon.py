"""The ``:`` commands of the chat: parsed, looked up, completed and carried out.

They are made from the operations, and shared by the editor's chat document and the terminal.
Carrying out a command runs its operation, whose answer is Markdown. Completion in a chat offers
commands, their arguments and names of files.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from aish_lsp.context.mentions import proposals, typed_names
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, Denied, InvalidArgument, NotFound
from aish_lsp.foundation.job import Job
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.memory.items import KINDS, SCOPES
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.dispatch import dispatch_line
from aish_lsp.operations.markdown import last_entries
from aish_lsp.operations.operation import Answer, Line, Nothing, Operation
from aish_lsp.operations.run import block_of

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.memory.items import MemoryItem
    from aish_lsp.operations.operation import Caller
    from aish_lsp.sessions.listing import SessionInfo

_COMMAND: Final = re.compile(r":(?P<name>\S*)[^\S\r\n]*(?P<argument>[^\r\n]*)")


@dataclass(frozen=True, slots=True)
class ColonCommand:
    """A ``:`` command as the user typed it."""

    name: str
    argument: str


class Meaning(NamedTuple):
    """What a command means: an operation, the line that it is written as, and its argument."""

    operation: Operation
    line: Line
    argument: str


@dataclass(frozen=True, slots=True)
class CommandRow:
    """All commands that begin with the same word.

    Attributes:
        name: that word, without its colon.
        lines: the operations, each with the line that it is written as.
    """

    name: str
    lines: tuple[tuple[Operation, Line], ...]

    @property
    def help(self) -> str:
        """What it does, in one line."""
        return next((line.help for _, line in self.lines if line.help), "")

    @property
    def verbs(self) -> tuple[str, ...]:
        """The words that its argument may begin with."""
        choices = (choice for _, line in self.lines for choice in line.choices)
        return tuple(filter(None, (*(_verb(line) for _, line in self.lines), *choices)))

    @property
    def usage(self) -> str:
        """Its argument as people read it: ``[NAME]``, ``list|add``; empty if it takes none."""
        rows = [f"{_verb(line)} {line.usage}".strip() for _, line in self.lines]
        usage = "|".join(filter(None, rows))
        may_be_bare = "" in rows and usage
        return f"[{usage}]" if may_be_bare else usage

    def find(self, argument: str) -> Meaning:
        """Return what the command means with ``argument``.

        Raises:
            InvalidArgument: it does not accept that; the message says what it accepts.
        """
        verb, _, rest = argument.partition(" ")
        for operation, line in self.lines:
            if verb and _verb(line) == verb:
                if rest.strip() and not line.usage:
                    raise InvalidArgument(f"`:{line.words}` takes no argument.")
                return Meaning(operation, line, rest.strip())
        bare = [(operation, line) for operation, line in self.lines if not _verb(line)]
        bare.sort(key=lambda found: bool(found[1].usage), reverse=bool(argument))
        if bare and (bare[0][1].usage or not argument):
            return Meaning(*bare[0], argument)
        if len(self.lines) == 1:
            raise InvalidArgument(f"`:{self.name}` takes no argument. Type it alone on its line.")
        rows = (f"`:{line.words} {line.usage}".rstrip() + "`" for _, line in self.lines)
        raise InvalidArgument(f"Use one of {', '.join(rows)}.")


def _verb(line: Line) -> str:
    return line.words.partition(" ")[2]


class CommandTable:
    """The table of commands: a row for each first word."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        lines: dict[str, list[tuple[Operation, Line]]] = {}
        for operation in operations:
            for line in operation.lines:
                lines.setdefault(line.words.partition(" ")[0], []).append((operation, line))
        self.rows = {name: CommandRow(name, tuple(rows)) for name, rows in lines.items()}

    def find(self, command: ColonCommand) -> Meaning:
        """Return what a command means.

        Raises:
            NotFound: there is no such command; the message names the nearest ones.
            InvalidArgument: it does not take such an argument.
        """
        row = self.rows.get(command.name)
        if row is not None:
            return row.find(command.argument)
        near = difflib.get_close_matches(command.name.casefold(), self.rows)
        meant = f" Did you mean {' or '.join(f'`:{other}`' for other in near)}?" if near else ""
        shown = command.name[:40].replace("`", "'")
        raise NotFound(f"There is no command `:{shown}`.{meant} `:help all` lists all.")


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """A proposal: ``insert`` replaces the text from ``start`` to the cursor.

    ``start`` counts characters of the line; on the wire it counts UTF-16 code units, whatever unit
    documents use. ``detail`` is one line of help. A command's argument counts as a command.
    """

    label: str
    insert: str
    detail: str
    start: int
    kind: Literal["command", "file", "folder"] = "command"


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """The proposals, most likely first; if ``is_incomplete``, typing more may bring others."""

    items: list[ChatCompletion]
    is_incomplete: bool


def parse(message: str) -> ColonCommand | None:
    """Return the command that ``message`` is; None if it is a question.

    A command is a single line that begins with ``:`` in its first column; blank lines around it do
    not count. ``:run`` may have its argument below it, as a fenced block and nothing else.
    """
    message = message.strip("\r\n").rstrip()
    match = _COMMAND.fullmatch(message)
    if match:
        return ColonCommand(match["name"], match["argument"])
    first, _, rest = message.partition("\n")
    if first.rstrip() == ":run" and block_of(rest):
        return ColonCommand("run", rest)
    return None


def run_block(text: str, shell: str) -> str:
    """Return the command that runs ``text``, which may have several lines, in ``shell`` if set."""
    fence = max([*re.findall("`{3,}", text), "``"], key=len) + "`"
    return f":run\n{fence}{shell or 'shell'}\n{text}\n{fence}"


#: What `:help all` shows together.
_GROUPS: Final = {
    "Commands and goals": ("run", "approve", "approvals", "norris", "undo", "redo"),
    "Questions and models": ("retry", "model", "cost"),
    "What the model is told": (
        *("context", "prompt", "remember", "memory", "tree", "compact", "reset"),
    ),
    "Sessions": ("sessions", "resume", "save", "history", "session"),
    "Tools and trust": ("tools", "trust"),
}


def help_text(table: CommandTable, names: Sequence[str] = ()) -> str:
    """Return the commands ``names``, or the whole table in groups, as Markdown.

    It also says what distinguishes a command from a question.
    """
    grouped = {name for group in _GROUPS.values() for name in group}
    others = tuple(name for name in table.rows if name not in grouped)
    groups = {"": names} if names else {**_GROUPS, "": others}
    rows = "\n".join(
        (f"**{title}**\n\n" if title else "")
        + "".join(f"- `{heading(row)}`: {row.help}\n" for row in shown)
        for title, group in groups.items()
        if (shown := [table.rows[name] for name in group if name in table.rows])
    )
    more = " `:help all` lists all commands." if names else ""
    return f"""{rows}
A command is a message of one line.{more}
"""


def complete(
    table: CommandTable, line_prefix: str, argument_values: Mapping[str, Mapping[str, str]]
) -> list[ChatCompletion]:
    """Return the completions at the cursor: a command's name, or the next word of its argument.

    Args:
        table: the commands.
        line_prefix: the line up to the cursor.
        argument_values: the words that may follow each command, by the command as it is typed,
            without its colon, each with its help, which may be empty: ``{"resume": {id: title}}``.
    """
    if not line_prefix.startswith(":"):
        return []
    *typed, word = line_prefix[1:].split(" ")
    if not typed:
        return [
            ChatCompletion(heading(row), f":{row.name}{' ' if row.usage else ''}", row.help, 0)
            for row in table.rows.values()
            if row.name.startswith(word)
        ]
    typed = [part for part in typed if part]
    row = table.rows.get(typed[0]) if typed else None
    if row is None:
        return []
    verbs = row.verbs if len(typed) == 1 else ()
    words = dict.fromkeys(verbs, "") | dict(argument_values.get(" ".join(typed), {}))
    start = len(line_prefix) - len(word)
    return [
        ChatCompletion(value, value, help_ or row.help, start)
        for value, help_ in words.items()
        if value.startswith(word)
    ]


def heading(row: CommandRow) -> str:
    """Return a command with its usage."""
    return f":{row.name} {row.usage}".rstrip()


_UNSEEN: Final = (
    "was not typed in this editor, as far as aish can tell: it may have come with the folder"
)
#: Characters of a message that a question shows.
_SHOWN: Final = 2_000


@dataclass(frozen=True, slots=True)
class Carried:
    """The result of a command: an answer in Markdown, not escaped yet, or a job that it began."""

    operation: Operation
    text: str = ""
    job: Job[Any] | None = None


#: The commands that are needed first.
_FIRST: Final = ("run", "undo", "retry", "model", "remember", "sessions", "context", "norris")
_TOPICS: Final = ("all", "offline")


@dataclass(frozen=True, slots=True)
class _Help:
    topic: str = ""
    text: str = ""


async def _help(_caller: Caller, params: _Help) -> Answer[Nothing]:
    if params.topic not in ("", *_TOPICS):
        raise InvalidArgument("Use `:help`, `:help all` or `:help offline TEXT`.")
    if params.topic == "offline":
        from aish_lsp.offline.catalogue import catalogue  # noqa: PLC0415 - for this alone

        return Answer(Nothing(), catalogue(params.text))
    names = () if params.topic == "all" else _FIRST
    return Answer(Nothing(), help_text(COLON_COMMANDS, names))


#: Only the chat has this operation: it says what can be typed there.
_HELP: Final = Operation(
    "help",
    _Help,
    _help,
    (
        Line(
            "help",
            "[all|offline [TEXT]]",
            "what can be typed here, or what the offline model knows about something",
            lambda _caller, argument: _Help(*argument.split(maxsplit=1)),
            choices=_TOPICS,
        ),
    ),
    shows=True,
)

#: All that can be typed.
COLON_COMMANDS: Final = CommandTable([_HELP, *OPERATIONS.values()])


async def carry_out(caller: Caller, command: ColonCommand, session: str | None = None) -> Carried:
    """Carry out a command in an open session; if it was not seen being typed, ask the user first.

    Raises:
        Denied: the user said no, or could not be asked.
        NotFound: there is no such command or session.
        InvalidArgument: it does not take such an argument.
        AishError: the operation refused or failed.
    """
    operation, line, argument = COLON_COMMANDS.find(command)
    if not (caller.is_typed or operation.shows or operation.asks):
        await _consent(caller, f":{command.name} {command.argument}".rstrip())
    reply = await dispatch_line(operation, line, argument, caller, session)
    if isinstance(reply, Job):
        return Carried(operation, job=reply)
    return Carried(operation, reply.text)


async def _consent(caller: Caller, message: str) -> None:
    """Ask the user whether a message is theirs; raise Denied if it is not, or nobody answers."""
    asked = f"This message {_UNSEEN}. Carry it out?"
    text = escaped(message)
    whole = text if len(text) > _SHOWN else ""
    question = Question(f"{asked}\n\n    {cut(text, _SHOWN)}", "Carry out", whole=whole)
    answer = await caller.workspace.services.ask_user(question)
    if answer is None:
        again = "Type it again under the next heading"
        raise Denied(f"Not carried out: nobody could be asked. It {_UNSEEN}. {again}.")
    if not answer:
        raise Denied("Not carried out.")


#: The commands, without the colon, that a session's id or name may follow.
_TAKE_A_SESSION: Final = (
    *(f"session {verb}" for verb in ("resume", "delete", "history")),
    *("resume", "history"),
)


async def completions_at(
    workspace: Workspace | None, line_prefix: str, chat: str
) -> ChatCompletions:
    """Return the completions at the cursor of a ``chat``: a command, its argument, or a file.

    Only some of many files are proposed.
    """
    names_typed = [] if line_prefix.startswith(":") else [*typed_names(line_prefix)]
    if workspace is None or not names_typed:
        return ChatCompletions(await _commands(workspace, line_prefix, chat), is_incomplete=False)
    names = [*await workspace.files.lately()]
    for typed in names_typed:
        proposed = await asyncio.to_thread(proposals, typed.name, names)
        if typed.has_blanks:
            # Otherwise it is most likely the sentence that goes on.
            begun = typed.name.casefold()
            proposed = [one for one in proposed if one.name.casefold().startswith(begun)]
        if proposed:
            files = [
                ChatCompletion(
                    one.name, one.insert, "", typed.start, "folder" if one.is_folder else "file"
                )
                for one in proposed
            ]
            return ChatCompletions(files, is_incomplete=True)
    # What no name begins with as it is, blanks and all, does not become one by going on.
    return ChatCompletions([], is_incomplete=not all(typed.has_blanks for typed in names_typed))


async def _commands(
    workspace: Workspace | None, line_prefix: str, chat: str
) -> list[ChatCompletion]:
    values: dict[str, dict[str, str]] = {}
    if workspace is not None:
        values["model"] = dict.fromkeys([*workspace.config.models, "offline"], "")
        typed = " ".join(line_prefix.removeprefix(":").rpartition(" ")[0].split())
        if typed in _TAKE_A_SESSION:
            with contextlib.suppress(AishError):
                values[typed] = _session_values(await workspace.sessions.all())
        if line_prefix.startswith(":memory "):
            values |= memory_values(workspace.memory.items(), chat)
    return complete(COLON_COMMANDS, line_prefix, values)


def memory_values(items: Sequence[MemoryItem], chat: str) -> dict[str, dict[str, str]]:
    """Return the words that may follow ``:memory VERB`` in a chat."""
    count = Counter(item.id for item in items)
    ids = [str(item.id) if count[item.id] == 1 else f"{item.scope}:{item.id}" for item in items]
    words: dict[str, Sequence[str]] = {
        "memory add": KINDS,
        "memory forget": ids,
        "memory edit": ids,
        "memory clear": SCOPES,
        "memory accept": [str(one.number) for one in last_entries(chat) if one.number],
    }
    return {command: dict.fromkeys(values, "") for command, values in words.items()}


def _session_values(infos: Sequence[SessionInfo]) -> dict[str, str]:
    """Return what may follow a command that takes a session, with titles: names, then ids."""
    # Only single words are completed.
    names = {info.name: info for info in infos if info.name and " " not in info.name}
    by_name = {**names, **{info.id: info for info in infos}}
    return {word: escaped(info.title or "") for word, info in by_name.items()}
