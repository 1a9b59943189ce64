"""A ``:`` command is carried out: the operation that it means, its answer as Markdown.

The editor's chat document and the terminal share it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.chat.colon import ColonCommand, Rows, help_text
from aish_lsp.foundation.errors import Denied, InvalidArgument
from aish_lsp.foundation.job import Job
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.operations.operation import Answer, Line, Nothing, Operation
from aish_lsp.operations.table import OPERATIONS

if TYPE_CHECKING:
    from aish_lsp.operations.operation import Place

_UNSEEN: Final = "was not seen being typed in this editor, and may have come with the folder"
#: Characters of a message that a question shows.
_SHOWN: Final = 2_000


@dataclass(frozen=True, slots=True)
class Carried:
    """What came of a command: a text, Markdown that is not escaped yet, or a job of it."""

    operation: Operation
    text: str = ""
    job: Job[Any] | None = None


@dataclass(frozen=True, slots=True)
class _Help:
    topic: str = ""


async def _help(_place: Place, params: _Help) -> Answer[Nothing]:
    if params.topic not in ("", "offline"):
        raise InvalidArgument("Use `:help` or `:help offline`.")
    if params.topic:
        from aish_lsp.offline.known import known  # noqa: PLC0415 - its table, for this alone

        return Answer(Nothing(), known())
    return Answer(Nothing(), help_text(COLON_COMMANDS))


#: Of the chat alone: it tells what can be typed there.
_HELP: Final = Operation(
    "help",
    _Help,
    _help,
    (
        Line(
            "help",
            "[offline]",
            "what can be typed here, or what the offline model knows",
            lambda _place, argument: _Help(argument),
            choices=("offline",),
        ),
    ),
    shows=True,
)

#: All that can be typed.
COLON_COMMANDS: Final = Rows([_HELP, *OPERATIONS.values()])


async def carry_out(place: Place, command: ColonCommand) -> Carried:
    """Carry out what was sent, after a question where nobody was seen typing it.

    Raises:
        Denied: the user said no, or could not be asked.
        NotFound: there is no such command.
        InvalidArgument: it does not take such an argument.
        AishError: whatever the operation refuses.
    """
    operation, line, argument = COLON_COMMANDS.find(command)
    if not (place.is_typed or operation.shows or operation.asks):
        await _consent(place, f":{command.name} {command.argument}".rstrip())
    params = line.read(place, argument) if line.read else operation.params()
    if inspect.isawaitable(params):
        params = await params
    done = await operation.run(place, params)
    if isinstance(done, Job):
        return Carried(operation, job=done)
    return Carried(operation, done.text)


async def _consent(place: Place, message: str) -> None:
    """Ask the user whether a message is theirs. Raises Denied where it is not, or nobody says."""
    asked = f"This message of the chat {_UNSEEN}. Carry it out?"
    text = escaped(message)
    whole = text if len(text) > _SHOWN else ""
    question = Question(f"{asked}\n\n    {cut(text, _SHOWN)}", "Carry out", whole=whole)
    answer = await place.workspace.services.ask_user(question)
    if answer is None:
        again = "Type it again under the next heading"
        raise Denied(f"Not carried out: nobody could be asked. It {_UNSEEN}. {again}.")
    if not answer:
        raise Denied("Not carried out.")
