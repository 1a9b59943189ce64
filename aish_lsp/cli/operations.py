"""Operations as commands of the shell: their arguments, and what comes of them."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from aish_lsp.cli import output
from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.wire import to_wire
from aish_lsp.operations.operation import Operation, Place, SessionTarget

if TYPE_CHECKING:
    from aish_lsp.foundation.job import Job

R = TypeVar("R")

#: Writes a result for a person.
Show: TypeAlias = Callable[[Any], None]

#: What the command line says in its own way, or has no use for.
_OURS = {field.name for field in dataclasses.fields(SessionTarget)} | {"partial_result_token"}


class Shell:
    """The shell, to an operation that is a command of its own."""

    def tell(self, message: str) -> None:
        """Write ``message`` to stderr."""
        output.tell(message)

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for a job; Ctrl-C ends the program."""
        return await job.result()

    async def chat_text(self) -> str:
        """Return nothing: there is no chat."""
        return ""


def add_operation(
    actions: Any,
    common: argparse.ArgumentParser,
    operation: Operation,
    help: str,  # noqa: A002 - as argparse calls it
    show: Show | None = None,
) -> None:
    """Add an operation to the command line, by the last part of its name.

    Its parameters that have no default are arguments, in their order; the others are options.
    ``show`` writes its result for a person; by default that is the text of its answer.
    """
    parser = actions.add_parser(
        operation.name.rpartition(".")[2],
        parents=[common],
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
    )
    hints = operation.hints()
    for field in dataclasses.fields(operation.params):
        if field.name not in _OURS:
            _add_argument(parser, field, hints[field.name])
    parser.set_defaults(run=lambda arguments: _run(operation, arguments, show))


def _add_argument(
    parser: argparse.ArgumentParser, field: dataclasses.Field[Any], hint: Any
) -> None:
    told = field.metadata
    options: dict[str, Any] = {"help": told.get("help")}
    if "word" in told:
        kind = int if hint is int else str
        parser.add_argument(field.name, metavar=told["word"], type=kind, **options)
        return
    arms = [arm for arm in get_args(hint) if arm is not type(None)] or [hint]
    named = told.get("option", field.name)
    default = told.get("usual", field.default)
    if hint is bool:
        options["action"] = "store_true"
    elif get_origin(hint) is list:
        named, default = named.removesuffix("s"), []
        options |= {"action": "append", "help": f"{told['help']}; may be repeated"}
    elif (literal := hint if get_origin(hint) is Literal else arms[0]) and get_args(literal):
        options |= {"choices": get_args(literal), "help": f"default: {default or 'both'}"}
    else:
        options["metavar"] = "TEXT"
    parser.add_argument(f"--{named}", dest=field.name, default=default, **options)


async def _run(operation: Operation, arguments: argparse.Namespace, show: Show | None) -> int:
    """Carry an operation out and write what came of it; return the exit code.

    Raises:
        AishError: what it refuses, also where an editor would only be told.
    """
    given = vars(arguments)
    fields = dataclasses.fields(operation.params)
    params = operation.params(
        **{field.name: given[field.name] for field in fields if field.name not in _OURS}
    )
    async with open_workspace(workspace_folder(arguments)) as workspace:
        for trouble in await workspace.refresh_memory():
            output.tell(trouble)
        answer = await operation.run(
            Place(workspace, workspace.shown, Shell(), is_alone=True), params
        )
    if answer.failed is not None:
        unasked = any(field.metadata.get("option") == "yes" for field in fields)
        hint = " With --yes nobody is asked." if answer.failed is Denied and unasked else ""
        raise answer.failed(f"{answer.text}{hint}")
    if arguments.json:
        output.out.as_json(to_wire(answer.result) | answer.more, indent=2)
    elif show is not None:
        show(answer.result)
    else:
        output.out.line(answer.text)
    return 0
