"""``aish-lsp sessions``: read the sessions of a workspace without changing them."""

from __future__ import annotations

import argparse
import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import terminal
from aish_lsp.cli.command import add_command, workspace_folder, write_result
from aish_lsp.foundation.errors import NotFound, StoreUnavailable
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.files import workspace_dir
from aish_lsp.foundation.jsonl import json_line
from aish_lsp.foundation.text import escaped
from aish_lsp.operations.markdown import session_page
from aish_lsp.sessions.listing import SearchHit, SessionInfo, find_session, list_sessions, search
from aish_lsp.sessions.rebuild import history
from aish_lsp.sessions.recorder import read_costs
from aish_lsp.sessions.records import LoadedSession, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SHOW: Final = "Show a session as a page; with --json, its turns as in aish.session.history."
_EXPORT: Final = (
    "Write a session to stdout as Markdown; with --json, as the JSON lines of its log, except for"
    " damaged ones."
)

#: Digits of a number in the list; an id has more.
_DIGITS: Final = 6

#: The units for ages, with their seconds, largest first.
_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60))


def add_parser(commands: Any) -> None:
    """Add ``sessions list|show|export`` to the command line."""
    sessions = commands.add_parser("sessions", help="show earlier sessions")
    actions = sessions.add_subparsers(metavar="ACTION", required=True)

    help_ = "list the sessions of the workspace, the last one first"
    listed = add_command(actions, "list", _list, help_)
    listed.add_argument("text", metavar="TEXT", nargs="*", help="only sessions with these words")
    for name, run, text, description in (
        ("show", _show, "show a session as a page", _SHOW),
        ("export", _export, "write a session as Markdown or JSON lines", _EXPORT),
    ):
        about = add_command(actions, name, run, text, description)
        about.add_argument(
            "session",
            metavar="ID",
            nargs="?",
            help="its id, its name or its number in the list (default: the last one)",
        )


def _list(arguments: argparse.Namespace) -> int:
    folder = workspace_dir(workspace_folder(arguments))
    infos = list_sessions(folder / "sessions", _costs(folder))
    query = " ".join(arguments.text)
    hits = search(folder / "sessions", infos, query) if query.strip() else None
    if hits is None:
        empty = "nothing has been asked in this workspace yet"
        write_result(arguments, {"sessions": infos}, _table(infos))
    else:
        empty = f"no session of this workspace mentions {query!r}"
        listed = [to_wire(one.session) | {"snippet": one.snippet} for one in hits]
        write_result(arguments, {"sessions": listed}, "\n".join(map(_hit, hits)))
    if not (infos if hits is None else hits) and not arguments.json:
        terminal.tell(empty)
    return 0


def _table(infos: Sequence[SessionInfo]) -> str:
    """Return the sessions as a table; empty if there are none."""
    heading = ("N", "ID", "AGE", "QUESTIONS", "COST", "MODEL", "TITLE")
    rows = [heading, *((str(number), *_row(one)) for number, one in enumerate(infos, 1))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines) if infos else ""


def _hit(one: SearchHit) -> str:
    """Return a session that matches, with the place below it."""
    return f"{'  '.join(filter(None, _row(one.session)))}\n    {escaped(one.snippet)}"


def _costs(folder: Path) -> dict[str, float | None]:
    """Return the dollars by session; if they cannot be read, say so and return an empty dict."""
    try:
        return read_costs(folder / "usage.jsonl")
    except StoreUnavailable as error:
        terminal.tell(error.message)
        return {}


def _row(info: SessionInfo) -> tuple[str, ...]:
    title = escaped(info.title or "")
    return (
        info.id,
        _age(info.updated),
        str(info.questions),
        "" if info.cost is None else f"${info.cost:.4f}",
        escaped(info.model or ""),
        f"[{escaped(info.name)}] {title}".rstrip() if info.name else title,
    )


def _age(ts: str | None) -> str:
    """Return how long ago ``ts`` was, in the largest fitting unit; empty if it is not known."""
    try:
        then = dt.datetime.fromisoformat(ts or "")
        seconds = int((dt.datetime.now(dt.UTC) - then).total_seconds())
    except (ValueError, TypeError):
        return ""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return "now"


def _show(arguments: argparse.Namespace) -> int:
    loaded = _loaded(arguments)
    if not arguments.json:
        terminal.out.line(session_page(loaded))
        return 0
    shown = {"id": loaded.id, "name": loaded.meta.get("name"), "turns": history(loaded)}
    return write_result(arguments, shown, "")


def _export(arguments: argparse.Namespace) -> int:
    loaded = _loaded(arguments)
    if not arguments.json:
        terminal.out.line(session_page(loaded))
        return 0
    for line in ({"meta": dict(loaded.meta)}, *loaded.records):
        terminal.out.json_line(json_line(line))
    return 0


def _loaded(arguments: argparse.Namespace) -> LoadedSession:
    """Return the requested session; report what is wrong with its log on stderr.

    Raises:
        NotFound: there is no such session.
        StoreUnavailable: it cannot be read.
    """
    directory = workspace_dir(workspace_folder(arguments)) / "sessions"
    key = arguments.session
    if key is None or (key.isdecimal() and len(key) < _DIGITS):
        infos = list_sessions(directory)
        if not infos:
            raise NotFound("Nothing has been asked in this workspace yet.")
        number, names = int(key or 1), {info.name for info in infos}
        if key is None or (key not in names and 0 < number <= len(infos)):
            key = infos[number - 1].id
    loaded = load(find_session(directory, key), newer=True)
    for notice in loaded.notices:
        terminal.tell(notice)
    return loaded
