"""``aish-lsp memory``: what is remembered across sessions, from the terminal."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aish_lsp.agent.events import to_wire
from aish_lsp.cli import output
from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.foundation.errors import Denied, NotFound
from aish_lsp.foundation.files import store_errors
from aish_lsp.foundation.text import escaped
from aish_lsp.memory.items import KINDS, SCOPES
from aish_lsp.memory.listing import listed
from aish_lsp.memory.scopes import clear_by_consent
from aish_lsp.memory.transfer import Imported, exported, import_items

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace

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

    def action(
        name: str, run: _Action, text: str, description: str = "", scope: str = "both"
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, parents=[common], help=text, description=description or f"{text.capitalize()}."
        )
        parser.add_argument("--scope", choices=SCOPES, help=f"default: {scope}")
        parser.set_defaults(run=lambda arguments: _opened(arguments, run))
        return parser

    found = action("list", _list, "show the items, the newest first")
    found.add_argument("--query", metavar="TEXT", help="those with TEXT in their content or tags")
    add = action("add", _add, "remember something", scope="workspace")
    add.add_argument("content", metavar="TEXT")
    add.add_argument("--kind", choices=KINDS, default="fact", help="default: fact")
    add.add_argument("--tag", action="append", default=[], help="to find it by; may be repeated")
    forget = action("forget", _forget, "forget an item", scope="where the id is")
    edit = action("edit", _edit, "replace what an item says", scope="where the id is")
    for parser in (forget, edit):
        parser.add_argument("id", metavar="ID", type=int)
    edit.add_argument("content", metavar="TEXT")
    clear = action("clear", _clear, "forget all items (it asks first)")
    clear.add_argument("--yes", action="store_true", help="without a question")
    action("compact", _compact, "rewrite the files without what was forgotten")
    action("export", _export, "write all items to stdout", _EXPORT)
    import_ = action("import", _import, "add the items of a file", _IMPORT, "as in the file")
    import_.add_argument("file", metavar="FILE", help="- reads stdin")
    for parser in (add, import_):
        parser.add_argument("--force", action="store_true", help="keep what looks like a secret")


async def _opened(arguments: argparse.Namespace, run: _Action) -> int:
    async with open_workspace(workspace_folder(arguments)) as workspace:
        for trouble in await workspace.refresh_memory():
            output.tell(trouble)
        return await run(arguments, workspace)


async def _list(arguments: argparse.Namespace, workspace: Workspace) -> int:
    limit = workspace.config.memory.inject_max_chars
    items = listed(workspace.memory, limit, arguments.scope, arguments.query)
    if arguments.json:
        _write_json({"items": items})
    for item in () if arguments.json else items:
        mark = "" if item.injected else "  [not told to the model: no room]"
        tags = "".join(f" #{escaped(tag)}" for tag in item.tags)
        where = f"{item.id:>4} {item.scope:<9} {item.ts[:10]} {item.kind:<7}"
        output.out.line(f"{where} {escaped(item.content)}{tags}{mark}")
    return 0


async def _add(arguments: argparse.Namespace, workspace: Workspace) -> int:
    added = workspace.memory.add(
        arguments.kind,
        arguments.content,
        tags=arguments.tag,
        scope=arguments.scope or "workspace",
        source={"how": "user"},
        force=arguments.force,
    )
    text = "That is known already, as" if added.duplicate else "Remembered as"
    return _tell(arguments, f"{text} item {added.id}.", id=added.id, duplicate=added.duplicate)


async def _forget(arguments: argparse.Namespace, workspace: Workspace) -> int:
    forgotten = workspace.memory.forget(arguments.id, arguments.scope)
    if not forgotten:
        raise NotFound(f"There is no item {arguments.id} to forget.")
    return _tell(arguments, f"Forgot item {arguments.id}.", forgotten=forgotten)


async def _edit(arguments: argparse.Namespace, workspace: Workspace) -> int:
    new_id = workspace.memory.edit(arguments.id, arguments.content, arguments.scope)
    return _tell(arguments, f"That is item {new_id} now.", id=new_id)


async def _clear(arguments: argparse.Namespace, workspace: Workspace) -> int:
    memory, scope = workspace.memory, arguments.scope
    forgotten = (
        memory.clear(scope)
        if arguments.yes
        else await clear_by_consent(memory, scope, workspace.services.ask_user)
    )
    if forgotten is None:
        raise Denied("Nothing was forgotten: it was not confirmed. With --yes nobody is asked.")
    return _tell(arguments, f"Forgot {forgotten} items.", forgotten=forgotten)


async def _compact(arguments: argparse.Namespace, workspace: Workspace) -> int:
    removed = workspace.memory.compact(arguments.scope)
    return _tell(arguments, f"Removed {removed} lines.", removed=removed)


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
