"""``aish-lsp memory``: manage what is remembered across sessions.

Most of its commands are operations. The others work on the files: they compact them, and export
and import items as JSON lines. Another ``memory.jsonl`` can be imported too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from aish_lsp.cli import terminal
from aish_lsp.cli.command import (
    add_command,
    add_operation,
    open_workspace,
    read_input,
    write_result,
)
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.jsonl import TIMESTAMP, BadLine, TornLine, iter_jsonl, json_line, now
from aish_lsp.foundation.text import count_of, escaped
from aish_lsp.memory.items import (
    SCOPES,
    VERSION,
    Scope,
    check_content,
    check_labels,
    is_header,
    item_fields,
)
from aish_lsp.operations import OPERATIONS

if TYPE_CHECKING:
    import argparse

    from aish_lsp.agent import Workspace
    from aish_lsp.memory.scopes import MemoryScopes
    from aish_lsp.operations.memory import Items

#: Carries out an action; returns the exit code.
_Action: TypeAlias = "Callable[[argparse.Namespace, Workspace], int]"

_DESCRIPTION: Final = (
    "Manage what is remembered across sessions, in two scopes: for a workspace, and for the user"
    " in all workspaces. Open editors see a change at their next question."
)
_EXPORT: Final = (
    "Write all items to stdout as JSON lines for `aish-lsp memory import`, including those hidden"
    " because of their age. --json makes no difference."
)
_IMPORT: Final = (
    "Add the items of an export or a memory.jsonl, or JSON lines with a kind and a content. Items"
    " get new ids; known ones are not added again. The output says what happened to each line; the"
    " exit status is 1 if one was refused."
)


def add_parser(commands: Any) -> None:
    """Add ``memory list|add|forget|edit|clear|compact|export|import`` to the command line."""
    help_ = "manage what is remembered across sessions"
    memory = commands.add_parser("memory", help=help_, description=_DESCRIPTION)
    actions = memory.add_subparsers(metavar="ACTION", required=True)

    for name, text, show in (
        ("list", "show the items, the newest first", _show_items),
        ("add", "remember something", None),
        ("forget", "forget an item", None),
        ("edit", "replace the text of an item", None),
        ("clear", "forget all items (asks first)", None),
    ):
        add_operation(actions, OPERATIONS[f"memory.{name}"], text, show)

    def action(
        name: str, run: _Action, text: str, description: str = "", scope: str = "both"
    ) -> argparse.ArgumentParser:
        parser = add_command(actions, name, partial(_opened, run), text, description)
        parser.add_argument("--scope", choices=SCOPES, help=f"default: {scope}")
        return parser

    action("compact", _compact, "rewrite the files without forgotten items")
    action("export", _export, "write all items to stdout", _EXPORT)
    import_ = action("import", _import, "add the items of a file", _IMPORT, "as in the file")
    import_.add_argument("file", metavar="FILE", help="- reads stdin")
    import_.add_argument(
        "--force", action="store_true", help="also import what looks like a secret"
    )


async def _opened(run: _Action, arguments: argparse.Namespace) -> int:
    async with open_workspace(arguments) as workspace:
        for problem in await workspace.refresh_memory():
            terminal.tell(problem)
        return run(arguments, workspace)


def _show_items(listed: Items) -> None:
    if not listed.items:
        terminal.tell("nothing is remembered here")
    for item in listed.items:
        mark = "" if item.injected else "  [not sent to the model: no room]"
        tags = "".join(f" #{escaped(tag)}" for tag in item.tags)
        where = f"{item.id:>4} {item.scope:<9} {item.ts[:10]} {item.kind:<7}"
        terminal.out.line(f"{where} {escaped(item.content)}{tags}{mark}")


def _compact(arguments: argparse.Namespace, workspace: Workspace) -> int:
    removed = workspace.memory.compact(arguments.scope)
    return write_result(arguments, {"removed": removed}, f"Removed {count_of(removed, 'line')}.")


def _export(arguments: argparse.Namespace, workspace: Workspace) -> int:
    for line in exported(workspace.memory, arguments.scope):
        terminal.out.json_line(line)
    return 0


def _import(arguments: argparse.Namespace, workspace: Workspace) -> int:
    file: str = arguments.file
    data = read_input(file)
    results = import_items(workspace.memory, data, scope=arguments.scope, force=arguments.force)
    counts = Counter(result.outcome for result in results)
    lines = (f"{file}:{result.line}: {result}" for result in results)
    write_result(arguments, {"added": counts["added"], "lines": results}, "\n".join(lines))
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    terminal.tell(summary or "there is nothing to import")
    return 1 if counts["refused"] else 0


#: The possible results for a line of an import.
Outcome: TypeAlias = Literal["added", "duplicate", "forgotten", "refused"]

#: The keys of a line that are checked or set; all others are kept unchanged.
_CHECKED: Final = frozenset({"id", "ts", "kind", "content", "tags", "source", "scope"})


@dataclass(frozen=True, slots=True)
class Imported:
    """The result for a line of an import.

    Attributes:
        line: its number, from 1.
        outcome: ``duplicate``: it is already known as ``id``; ``forgotten``: a tombstone in the
            same file hides it; ``refused``: see ``reason``.
        id: the id of the item in its scope.
        scope: the scope of the item.
        reason: why it was refused, as a sentence.
    """

    line: int
    outcome: Outcome
    id: int | None = None
    scope: Scope | None = None
    reason: str = ""

    def __str__(self) -> str:
        match self.outcome:
            case "added":
                return f"added as item {self.id} ({self.scope})"
            case "duplicate":
                return f"already known as item {self.id} ({self.scope})"
            case "forgotten":
                return "forgotten in that file"
            case "refused":
                return f"refused: {self.reason}"


@dataclass(frozen=True, slots=True)
class _Draft:
    """A line that can be imported: its scope, and its fields except for the id."""

    line: int
    scope: Scope
    fields: Mapping[str, Any]


def exported(memory: MemoryScopes, scope: Scope | None = None) -> Iterator[str]:
    """Yield the lines of an export: a header, then the items with their scopes, in file order.

    Raises:
        StoreUnavailable: a file cannot be read.
    """
    chosen = SCOPES if scope is None else (scope,)
    records = [
        {**record, "scope": name} for name in chosen for record in memory.store(name).records()
    ]
    yield json_line({"meta": {"version": VERSION, "exported": now()}})
    yield from map(json_line, records)


def import_items(
    memory: MemoryScopes, data: bytes, *, scope: Scope | None = None, force: bool = False
) -> list[Imported]:
    """Add the items of ``data``, JSON lines; return what happened to each, in their order.

    An item gets a new id and keeps its time. Its source records the import and the previous
    source.

    Args:
        memory: where the items are added.
        data: an export, a memory.jsonl, or lines with a ``kind`` and a ``content``.
        scope: the scope of all items; by default, each item's own, or else the workspace.
        force: also import what looks like a secret; a model's key is still refused.

    Raises:
        InvalidArgument: ``data`` is from a newer version.
        Busy, StoreUnavailable: the memory could not be written. Items that were added before are
            duplicates if the import is repeated.
    """
    results: list[Imported] = []
    drafts: list[_Draft] = []
    lines = list(iter_jsonl(data))
    forgotten = set(_forgotten(lines))
    for number, line in lines:
        if isinstance(line, BadLine | TornLine):
            reason = line.reason if isinstance(line, BadLine) else "it is not JSON"
            results.append(
                Imported(number, "refused", reason=f"The line cannot be read: {reason}.")
            )
        elif is_header(line):
            _check_version(line["meta"])
        elif line.get("kind") == "forget":
            continue
        elif "id" in line and _key(line, line["id"]) in forgotten:
            results.append(Imported(number, "forgotten"))
        else:
            try:
                drafts.append(_draft(memory, number, line, scope, force=force))
            except InvalidArgument as error:
                results.append(Imported(number, "refused", reason=error.message))
    for name in SCOPES:
        results += _added(memory, name, [draft for draft in drafts if draft.scope == name])
    return sorted(results, key=lambda result: result.line)


def _check_version(meta: object) -> None:
    version = meta.get("version") if isinstance(meta, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise InvalidArgument(
            f"This was exported by a newer version of aish (format {version}; this one reads"
            f" {VERSION}). Update aish-lsp to import it."
        )


def _forgotten(
    lines: list[tuple[int, dict[str, Any] | BadLine | TornLine]],
) -> Iterator[tuple[str, str]]:
    """Yield the keys of the items that tombstones in a memory.jsonl hide; an export has none."""
    for _, line in lines:
        if isinstance(line, dict) and line.get("kind") == "forget":
            yield _key(line, line.get("target"))


def _key(line: Mapping[str, Any], item_id: object) -> tuple[str, str]:
    """Return a hashable key for an id in a line's scope, whatever the line contains."""
    return repr(line.get("scope")), repr(item_id)


def _draft(
    memory: MemoryScopes, number: int, line: dict[str, Any], scope: Scope | None, *, force: bool
) -> _Draft:
    """Return what to add for a line. Raises InvalidArgument if it cannot be added."""
    kind, content = line.get("kind", ""), line.get("content", "")
    tags, source = line.get("tags") or [], line.get("source")
    if not isinstance(tags, list):
        raise InvalidArgument("Its tags are not a list.", path="tags")
    check_labels(kind, tags)
    check_content(content, force=force)
    memory.check_keys(content, *tags)
    target = memory.store(scope or line.get("scope") or "workspace")
    imported = {"how": "import"} if source is None else {"how": "import", "from": source}
    if isinstance(source, dict) and source.get("how") == "import":
        imported = source
    fields = {
        "ts": _time(line.get("ts")),
        **item_fields(kind, content, tags, imported),
        **{name: value for name, value in line.items() if name not in _CHECKED},
    }
    try:
        json_line(fields)
    except ValueError as error:
        # The previous source is now nested one level deeper, perhaps too deep.
        msg = f"The line cannot be kept: {error}."
        raise InvalidArgument(msg) from None
    return _Draft(number, target.scope, fields)


def _time(value: object) -> str:
    """Return the time of an item, or the current time if it has none in our format."""
    try:
        # Not strftime, which does not pad the year with zeros.
        return f"{datetime.strptime(str(value), TIMESTAMP).isoformat()}Z"  # noqa: DTZ007 - UTC
    except ValueError:
        return now()


def _added(memory: MemoryScopes, scope: Scope, drafts: list[_Draft]) -> Iterator[Imported]:
    if not drafts:
        return
    added = memory.store(scope).add_all([draft.fields for draft in drafts])
    for draft, item in zip(drafts, added, strict=True):
        yield Imported(draft.line, "duplicate" if item.duplicate else "added", item.id, scope)
