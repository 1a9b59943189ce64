"""``aish-lsp memory``: what is remembered across sessions, from the terminal."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aish_lsp.cli import output
from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.operations import add_operation
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.foundation.files import store_errors
from aish_lsp.foundation.text import escaped
from aish_lsp.foundation.wire import to_wire
from aish_lsp.foundation.wording import count_of
from aish_lsp.memory.items import SCOPES
from aish_lsp.memory.transfer import Imported, exported, import_items
from aish_lsp.operations.table import OPERATIONS

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace
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
