"""``aish-lsp memory``: what is remembered across sessions, from the terminal.

``add_operation`` makes an operation a command of the shell: its arguments, and what comes of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin

from aish_lsp.cli import output
from aish_lsp.cli.terminal import open_workspace, workspace_folder
from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.files import store_errors
from aish_lsp.foundation.text import count_of, escaped
from aish_lsp.memory.items import SCOPES
from aish_lsp.memory.transfer import Imported, exported, import_items
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.operation import Operation, Place, SessionTarget

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.foundation.job import Job
    from aish_lsp.operations.memory import Items

#: Carries an action out; returns the exit code.
_Action: TypeAlias = Callable[[argparse.Namespace, "Workspace"], Awaitable[int]]

_DESCRIPTION: Final = (
    "What is remembered across sessions, in two scopes: of a workspace, and of the user in all"
    " workspaces. Editors that are open see a change at their next question."
)
_EXPORT: Final = (
    "Write all items to stdout, as JSON lines that `aish-lsp memory import` takes: with or without"
    " --json, those hidden for their age included."
)
_IMPORT: Final = (
    "Add the items of an export or of a memory.jsonl, or JSON lines with a kind and a content."
    " Items get new ids; what is known already is not added again. Says what became of each line,"
    " and exits with 1 where one was refused."
)


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``memory list|add|forget|edit|clear|compact|export|import`` to the command line."""
    help_ = "what is remembered across sessions"
    memory = commands.add_parser("memory", help=help_, description=_DESCRIPTION)
    actions = memory.add_subparsers(metavar="ACTION", required=True)

    for name, text, show in (
        ("list", "show the items, the newest first", _show_items),
        ("add", "remember something", None),
        ("forget", "forget an item", None),
        ("edit", "replace what an item says", None),
        ("clear", "forget all items (it asks first)", None),
    ):
        add_operation(actions, common, OPERATIONS[f"memory.{name}"], text, show)

    def action(
        name: str, run: _Action, text: str, description: str = "", scope: str = "both"
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, parents=[common], help=text, description=description or f"{text.capitalize()}."
        )
        parser.add_argument("--scope", choices=SCOPES, help=f"default: {scope}")
        parser.set_defaults(run=lambda arguments: _opened(arguments, run))
        return parser

    action("compact", _compact, "rewrite the files without what was forgotten")
    action("export", _export, "write all items to stdout", _EXPORT)
    import_ = action("import", _import, "add the items of a file", _IMPORT, "as in the file")
    import_.add_argument("file", metavar="FILE", help="- reads stdin")
    import_.add_argument("--force", action="store_true", help="keep what looks like a secret")


async def _opened(arguments: argparse.Namespace, run: _Action) -> int:
    async with open_workspace(workspace_folder(arguments)) as workspace:
        for trouble in await workspace.refresh_memory():
            output.tell(trouble)
        return await run(arguments, workspace)


def _show_items(found: Items) -> None:
    for item in found.items:
        mark = "" if item.injected else "  [not told to the model: no room]"
        tags = "".join(f" #{escaped(tag)}" for tag in item.tags)
        where = f"{item.id:>4} {item.scope:<9} {item.ts[:10]} {item.kind:<7}"
        output.out.line(f"{where} {escaped(item.content)}{tags}{mark}")


async def _compact(arguments: argparse.Namespace, workspace: Workspace) -> int:
    removed = workspace.memory.compact(arguments.scope)
    return _tell(arguments, f"Removed {count_of(removed, 'line')}.", removed=removed)


async def _export(arguments: argparse.Namespace, workspace: Workspace) -> int:
    for line in exported(workspace.memory, arguments.scope):
        output.out.json_line(line)
    return 0


async def _import(arguments: argparse.Namespace, workspace: Workspace) -> int:
    file: str = arguments.file
    results = import_items(
        workspace.memory, _read(file), scope=arguments.scope, force=arguments.force
    )
    counts = Counter(result.outcome for result in results)
    if arguments.json:
        _write_json({"added": counts["added"], "lines": results})
    for result in () if arguments.json else results:
        output.out.line(f"{file}:{result.line}: {_outcome(result)}")
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    output.tell(told or "there is nothing to import")
    return 1 if counts["refused"] else 0


def _read(file: str) -> bytes:
    with store_errors(Path(file), "read"):
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _outcome(result: Imported) -> str:
    match result.outcome:
        case "added":
            return f"added as item {result.id} ({result.scope})"
        case "duplicate":
            return f"known already, as item {result.id} ({result.scope})"
        case "forgotten":
            return "forgotten in that file"
        case "refused":
            return f"refused: {result.reason}"


def _tell(arguments: argparse.Namespace, text: str, **fields: object) -> int:
    """Write a result for whoever asked; return the exit code."""
    if arguments.json:
        _write_json(fields)
    else:
        output.out.line(text)
    return 0


def _write_json(value: object) -> None:
    output.out.as_json(to_wire(value), indent=2)


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
    parser.set_defaults(run=lambda arguments: _run_operation(operation, arguments, show))


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
