"""What the commands of the shell share: their parsers, the workspace, and how results are written.

``add_operation`` makes an operation a command of the shell, with its arguments and its output. The
workspace's folder is the one that ``--workspace`` names, else the current one.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.cli import terminal
from aish_lsp.foundation.errors import Denied, NotFound
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.files import store_errors
from aish_lsp.foundation.ports import nobody
from aish_lsp.operations.operation import Operation, Place, SessionTarget

if TYPE_CHECKING:
    from aish_lsp.foundation.job import Job
    from aish_lsp.foundation.ports import AskUser

R = TypeVar("R")

#: Writes a result for a person.
Show: TypeAlias = Callable[[Any], None]

#: Parameters that the command line gives in its own way, or has no use for.
_OURS = {field.name for field in dataclasses.fields(SessionTarget)} | {"partial_result_token"}


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], Any],
    help: str,  # noqa: A002 - as argparse calls it
    description: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command, which ``run`` carries out; return its parser, to add its own arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help, description=description)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--workspace", metavar="DIR", type=_folder, help="the workspace (default: here)"
    )
    parser.set_defaults(run=run)
    return parser


def _folder(text: str) -> Path:
    """Return the folder ``text`` names, absolute, for argparse."""
    path = Path(text)
    try:
        if path.is_dir():
            return path.resolve()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be used: {error.strerror}") from error
    raise argparse.ArgumentTypeError(f"{text} is not a folder")


def workspace_folder(arguments: argparse.Namespace) -> Path:
    """Return the folder of the workspace that the command is about.

    Raises:
        NotFound: no folder is named, and the current one was deleted.
    """
    named: Path | None = arguments.workspace
    try:
        return named or Path.cwd()
    except OSError as error:
        msg = "The current folder is gone. Go to another, or name the workspace by --workspace."
        raise NotFound(msg) from error


@contextlib.asynccontextmanager
async def open_workspace(
    arguments: argparse.Namespace, ask: AskUser | None = None
) -> AsyncIterator[Workspace]:
    """Open the workspace of a command, with the user's configuration; close it at the end.

    ``ask`` asks the user; by default this is done at the terminal.
    """
    from aish_lsp.config.loading import Configuration  # noqa: PLC0415 - brings the validator

    root = workspace_folder(arguments)
    ask = ask or (terminal.ask_user if terminal.can_ask() else nobody)
    services = Services(ask, tools_of=tools_of)
    workspace = Workspace(root, services, Configuration(root, services.trust))
    try:
        yield workspace
    finally:
        await workspace.aclose()
        await services.aclose()


def write_result(
    arguments: argparse.Namespace, value: Any, text: str, *, indent: int | None = 2
) -> int:
    """Write ``value`` as JSON with ``--json``, else ``text`` unless empty; return exit code 0."""
    if arguments.json:
        terminal.out.as_json(to_wire(value), indent=indent)
    elif text:
        terminal.out.line(text)
    return 0


def read_input(file: str) -> bytes:
    """Return the contents of a file, or of stdin for ``-``.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    path = Path(file)
    with store_errors(path, "read"):
        return sys.stdin.buffer.read() if file == "-" else path.read_bytes()


class Shell:
    """The face of an operation that is run as a command of the shell."""

    def tell(self, message: str) -> None:
        """Write ``message`` to stderr."""
        terminal.tell(message)

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for a job; Ctrl-C ends the program."""
        return await job.result()

    async def chat_text(self) -> str:
        """Return an empty text: there is no chat."""
        return ""


def add_operation(
    actions: Any,
    operation: Operation,
    help: str,  # noqa: A002 - as argparse calls it
    show: Show | None = None,
) -> None:
    """Add an operation to the command line, under the last part of its name.

    Parameters that have a ``word`` become arguments, in their order; the others become options.
    ``show`` writes the result for a person; by default the text of the answer is written.
    """
    parser = add_command(
        actions,
        operation.name.rpartition(".")[2],
        lambda arguments: _run_operation(operation, arguments, show),
        help,
        f"{help[0].upper()}{help[1:]}.",
    )
    hints = operation.hints()
    for field in dataclasses.fields(operation.params):
        if field.name not in _OURS:
            _add_argument(parser, field, hints[field.name])


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


async def _run_operation(
    operation: Operation, arguments: argparse.Namespace, show: Show | None
) -> int:
    """Carry an operation out and write its answer; return the exit code.

    Raises:
        AishError: it refuses, or did nothing where an editor would only be told so.
    """
    given = vars(arguments)
    fields = dataclasses.fields(operation.params)
    params = operation.params(
        **{field.name: given[field.name] for field in fields if field.name not in _OURS}
    )
    async with open_workspace(arguments) as workspace:
        for trouble in await workspace.refresh_memory():
            terminal.tell(trouble)
        answer = await operation.run(
            Place(workspace, workspace.shown, Shell(), is_alone=True), params
        )
    if answer.failed is not None:
        unasked = any(field.metadata.get("option") == "yes" for field in fields)
        hint = " With --yes nobody is asked." if answer.failed is Denied and unasked else ""
        raise answer.failed(f"{answer.text}{hint}")
    if show is not None and not arguments.json:
        show(answer.result)
        return 0
    return write_result(arguments, to_wire(answer.result) | answer.more, answer.text)
