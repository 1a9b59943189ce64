"""``aish-lsp sessions``: the sessions of a workspace, from the terminal. They are only read."""

from __future__ import annotations

import argparse
import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import output
from aish_lsp.cli.terminal import workspace_folder
from aish_lsp.foundation.errors import NotFound, StoreUnavailable
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.jsonl import json_line
from aish_lsp.foundation.paths import workspace_dir
from aish_lsp.foundation.text import escaped
from aish_lsp.operations.markdown import session_page
from aish_lsp.sessions.listing import Found, SessionInfo, find_session, list_sessions, search
from aish_lsp.sessions.rebuild import history
from aish_lsp.sessions.recorder import read_costs
from aish_lsp.sessions.records import LoadedSession, load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_SHOW: Final = "Show a session as a page. With --json, its turns as aish.session.history has them."
_EXPORT: Final = (
    "Write a session to stdout as Markdown; with --json as JSON lines, which are those of its log"
    " as far as it is sound."
)

#: Seconds of the units in which an age is told, the largest first.
_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60))


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``sessions list|show|export`` to the command line."""
    sessions = commands.add_parser("sessions", help="what was said in earlier sessions")
    actions = sessions.add_subparsers(metavar="ACTION", required=True)

    def action(
        name: str, run: Callable[[argparse.Namespace], int], text: str, description: str
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, parents=[common], help=text, description=description
        )
        parser.set_defaults(run=run)
        return parser

    listed = "the sessions of the workspace, the last one first"
    shown = action("list", _list, listed, f"List {listed}.")
    shown.add_argument(
        "text", metavar="TEXT", nargs="*", help="only those that contain these words"
    )
    for name, run, text, description in (
        ("show", _show, "show a session as a page", _SHOW),
        ("export", _export, "write a session as Markdown or JSON lines", _EXPORT),
    ):
        about = action(name, run, text, description)
        about.add_argument(
            "session", metavar="ID", nargs="?", help="its id or its name (default: the last one)"
        )


def _list(arguments: argparse.Namespace) -> int:
    folder = workspace_dir(workspace_folder(arguments))
    infos = list_sessions(folder / "sessions", _costs(folder))
    query = " ".join(arguments.text)
    found = search(folder / "sessions", infos, query) if query.strip() else None
    if arguments.json:
        listed = to_wire(infos)
        if found is not None:
            listed = [to_wire(one.session) | {"snippet": one.snippet} for one in found]
        output.out.as_json({"sessions": listed}, indent=2)
        return 0
    if found is not None:
        return _list_found(found, query)
    now = dt.datetime.now(dt.UTC)
    rows: list[tuple[str, ...]] = (
        [("ID", "AGE", "QUESTIONS", "COST", "MODEL", "TITLE")] if infos else []
    )
    rows += [_row(info, now) for info in infos]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        output.out.line("  ".join(cells).rstrip())
    if not infos:
        output.tell("nothing has been asked in this workspace yet")
    return 0


def _list_found(found: Sequence[Found], query: str) -> int:
    """Write the sessions in which ``query`` was found, each with where it stands."""
    now = dt.datetime.now(dt.UTC)
    for one in found:
        cells = (cell for cell in _row(one.session, now) if cell)
        output.out.line(f"{'  '.join(cells)}\n    {escaped(one.snippet)}")
    if not found:
        output.tell(f"no session of this workspace mentions {query!r}")
    return 0


def _costs(folder: Path) -> dict[str, float | None]:
    """Return the dollars by session; none, with a word, where they cannot be read."""
    try:
        return read_costs(folder / "usage.jsonl")
    except StoreUnavailable as error:
        output.tell(error.message)
        return {}


def _row(info: SessionInfo, now: dt.datetime) -> tuple[str, ...]:
    title = escaped(info.title or "")
    return (
        info.id,
        _age(info.updated, now),
        str(info.questions),
        "" if info.cost is None else f"${info.cost:.4f}",
        escaped(info.model or ""),
        f"[{escaped(info.name)}] {title}".rstrip() if info.name else title,
    )


def _age(ts: str | None, now: dt.datetime) -> str:
    """Return how long ago something was, in its largest unit; empty where nobody knows."""
    try:
        then = dt.datetime.fromisoformat(ts or "")
        seconds = int((now - then).total_seconds())
    except (ValueError, TypeError):
        return ""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return "now"


def _show(arguments: argparse.Namespace) -> int:
    loaded = _loaded(arguments)
    if arguments.json:
        shown = {"id": loaded.id, "name": loaded.meta.get("name"), "turns": history(loaded)}
        output.out.as_json(to_wire(shown), indent=2)
        return 0
    output.out.line(session_page(loaded))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    loaded = _loaded(arguments)
    if not arguments.json:
        output.out.line(session_page(loaded))
        return 0
    for line in ({"meta": dict(loaded.meta)}, *loaded.records):
        output.out.json_line(json_line(line))
    return 0


def _loaded(arguments: argparse.Namespace) -> LoadedSession:
    """Return the session that is meant; what is wrong with its log goes to stderr.

    Raises:
        NotFound: there is none.
        StoreUnavailable: it cannot be read.
    """
    directory = workspace_dir(workspace_folder(arguments)) / "sessions"
    key = arguments.session
    if key is None:
        infos = list_sessions(directory)
        if not infos:
            raise NotFound("Nothing has been asked in this workspace yet.")
        key = infos[0].id
    loaded = load(find_session(directory, key), newer=True)
    for notice in loaded.notices:
        output.tell(notice)
    return loaded
