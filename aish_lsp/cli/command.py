"""Shared by the shell commands: their parsers, the workspace, and how results are written.

``add_operation`` turns an operation into a shell command with its arguments and output. The
workspace is the folder given by ``--workspace``, or the current one.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.cli import terminal
from aish_lsp.cli.spelling import for_shell
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.errors import Denied, NotFound, StoreUnavailable
from aish_lsp.foundation.events import camel_case, to_wire
from aish_lsp.foundation.ports import nobody
from aish_lsp.foundation.text import arms, shown_path
from aish_lsp.operations.dispatch import dispatch
from aish_lsp.operations.operation import Answer, Caller, Face, Operation, SessionTarget

if TYPE_CHECKING:
    from aish_lsp.agent.planning import ApprovalState
    from aish_lsp.foundation.job import Job
    from aish_lsp.foundation.ports import AskUser

R = TypeVar("R")

#: Writes a result for a person.
Show: TypeAlias = Callable[[Any], None]

#: Parameters that do not become arguments: the command line sets them itself or ignores them.
_NOT_ARGUMENTS = {field.name for field in dataclasses.fields(SessionTarget)} | {
    "partial_result_token"
}


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], Any],
    help: str,  # noqa: A002 - as argparse calls it
    description: str = "",
    *,
    workspace: Mapping[str, Any] | None = None,
) -> argparse.ArgumentParser:
    """Add a command that ``run`` carries out; return its parser, to add more arguments.

    By default, the description is ``help`` as a sentence. ``workspace`` says what is different
    about --workspace.
    """
    description = description or f"{help[0].upper()}{help[1:]}."
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help, description=description)
    parser.add_argument("--json", action="store_true", help="print JSON")
    about = {"help": "the workspace (default: here)", **(workspace or {})}
    parser.add_argument("--workspace", metavar="DIR", type=_folder, **about)
    parser.set_defaults(run=run)
    return parser


def add_session_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that name an earlier session to go on with."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="resume this session, by id or name")
    which.add_argument(
        "--continue", dest="last", action="store_true", help="resume the last session"
    )


class Joined(argparse.Action):
    """Keeps several words as the one text that they are."""

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: Any = None) -> None:
        """Keep what was typed for the argument."""
        setattr(namespace, self.dest, " ".join(values))


def _folder(text: str) -> Path:
    """Return the folder at ``text`` as an absolute path, for argparse."""
    path = Path(text)
    try:
        if path.is_dir():
            return path.resolve()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be used: {error.strerror}") from error
    raise argparse.ArgumentTypeError(f"{text} is not a folder")


def workspace_folder(arguments: argparse.Namespace) -> Path:
    """Return the folder of the workspace.

    Raises:
        NotFound: no folder is given, and the current one was deleted.
    """
    named: Path | None = arguments.workspace
    try:
        return named or Path.cwd()
    except OSError as error:
        msg = "The current folder was deleted. Change to another, or use --workspace."
        raise NotFound(msg) from error


@contextlib.asynccontextmanager
async def open_workspace(
    arguments: argparse.Namespace, ask: AskUser | None = None
) -> AsyncIterator[Workspace]:
    """Open the workspace of a command, with the user's configuration; close it at the end.

    ``ask`` asks the user; by default, it asks at the terminal.
    """
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
    arguments: argparse.Namespace,
    value: Any,
    text: str,
    *,
    indent: int | None = 2,
    listed: bool = False,
) -> int:
    """Write ``value`` with ``--json``, otherwise ``text`` unless it is empty; return 0.

    ``listed``: the text is a list for people, whose words are wrapped.
    """
    if arguments.json:
        terminal.out.as_json(to_wire(value), indent=indent)
    elif text:
        (terminal.out.rows if listed else terminal.out.line)(text)
    return 0


def read_input(file: str) -> bytes:
    """Return the contents of a file, or of stdin for ``-``.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    # Not store_errors, whose advice is for our own files.
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        msg = f"cannot read {shown_path(file)}: {error.strerror}"
        raise StoreUnavailable(msg, path=file) from error


class Shell(Face):
    """The front end of operations that are shell commands."""

    def tell(self, message: str) -> None:
        """Write ``message`` to stderr."""
        terminal.tell(message)

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for a job; Ctrl-C ends the program."""
        return await job.result()

    async def chat_text(self) -> str:
        """Return an empty text: there is no chat."""
        return ""


def caller_of(workspace: Workspace, approval: ApprovalState = "") -> Caller:
    """Return who asks for what a shell command does; see ``Caller``."""
    return Caller(workspace, workspace.shown, Shell(), is_alone=True, approval=approval)


def add_operation(
    actions: Any,
    operation: Operation,
    help: str,  # noqa: A002 - as argparse calls it
    show: Show | None = None,
) -> None:
    """Add an operation to the command line under the last part of its name.

    Parameters with a ``word`` become positional arguments, in order; the others become options.
    ``show`` writes the result for a person; by default, the text of the answer is written.
    """
    parser = add_command(
        actions,
        operation.name.rpartition(".")[2],
        lambda arguments: _run_operation(operation, arguments, show),
        help,
    )
    hints = operation.hints()
    for field in dataclasses.fields(operation.params):
        if field.name not in _NOT_ARGUMENTS:
            _add_argument(parser, field, hints[field.name])


def _add_argument(
    parser: argparse.ArgumentParser, field: dataclasses.Field[Any], hint: Any
) -> None:
    metadata = field.metadata
    options: dict[str, Any] = {"help": metadata.get("help")}
    if "word" in metadata:
        if metadata["word"] == "TEXT":  # Quoted or not, as a question is.
            options |= {"nargs": "+", "action": Joined}
        kind = int if hint is int else str
        parser.add_argument(field.name, metavar=metadata["word"], type=kind, **options)
        return
    option = metadata.get("option", field.name)
    default = metadata.get("usual", field.default)
    kind = (arms(hint) or [hint])[0]
    if kind is bool:
        options["action"] = "store_true"
    elif get_origin(kind) is list:
        option, default = option.removesuffix("s"), []
        options |= {"action": "append", "help": f"{metadata['help']}; may be repeated"}
    elif get_origin(kind) is Literal:
        options |= {"choices": get_args(kind), "help": f"default: {default or 'both'}"}
    else:
        options["metavar"] = "TEXT"
    parser.add_argument(f"--{option}", dest=field.name, default=default, **options)


async def _run_operation(
    operation: Operation, arguments: argparse.Namespace, show: Show | None
) -> int:
    """Carry out an operation and write its answer; return the exit code.

    Raises:
        AishError: it failed, or did nothing, which an editor would only show as a message.
    """
    values = vars(arguments)
    fields = dataclasses.fields(operation.params)
    names = [field.name for field in fields if field.name not in _NOT_ARGUMENTS]
    params = {camel_case(name): values[name] for name in names}
    async with open_workspace(arguments) as workspace:
        for problem in await workspace.refresh_memory():
            terminal.tell(problem)
        answer = await dispatch(operation, params, caller_of(workspace))
    assert isinstance(answer, Answer)
    if answer.failed is not None:
        has_yes = any(field.metadata.get("option") == "yes" for field in fields)
        hint = " Use --yes to skip the question." if answer.failed is Denied and has_yes else ""
        raise answer.failed(f"{answer.text}{hint}")
    if show is not None and not arguments.json:
        show(answer.result)
        return 0
    value = to_wire(answer.result) | answer.more
    return write_result(arguments, value, for_shell(answer.text), listed=True)
