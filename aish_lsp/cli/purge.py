"""``aish-lsp purge``: list what aish-lsp has on the disk and, after asking, remove it."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import terminal
from aish_lsp.cli.command import add_command, write_result
from aish_lsp.cli.inventory import Inventory, inventory
from aish_lsp.foundation.errors import AishError, Busy
from aish_lsp.foundation.files import open_to_read
from aish_lsp.foundation.locks import holder_of, lock_now, unlock
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import shown_path
from aish_lsp.undo.git import NoUndo

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

_DESCRIPTION: Final = (
    "List what aish-lsp has on the disk and, after asking, remove it: the configuration, all data"
    " (memory, sessions, grants, undo), the .aish folder of each workspace, and the offline model's"
    " index. With --workspace, only what belongs to one folder. What is not recognised as its own"
    " is left."
)


def add_parser(commands: Any) -> None:
    """Add ``purge`` to the command line."""
    help_ = "list what aish-lsp has on the disk and, after asking, remove it"
    workspace = {
        "nargs": "?",
        "const": ".",
        "help": "only what belongs to this workspace (default: here); without it, everything",
    }
    purge = add_command(commands, "purge", run, help_, _DESCRIPTION, workspace=workspace)
    purge.add_argument("--yes", action="store_true", help="remove it without asking")


async def run(arguments: argparse.Namespace) -> int:
    """List what there is, ask, and remove it; return 1 if anything is left."""
    one: Path | None = arguments.workspace
    listing = inventory(one)
    listed = {
        "found": [
            {"path": str(i.paths[0]), "what": i.what, "bytes": i.bytes} for i in listing.items
        ]
    }
    if not listing.items:
        where = f" of {shown_path(one)}" if one else ""
        nothing = "\n".join((*listing.kept, f"There is nothing{where} to remove."))
        result = {**listed, "kept": listing.kept, "removed": False}
        return write_result(arguments, result, nothing, listed=True)
    if not arguments.json:
        terminal.out.rows("\n".join(map(str, (*listing.items, *listing.kept))))
    _refuse_if_in_use(listing)
    is_agreed = arguments.yes or await _ask(listing)
    left = [] if not is_agreed else _remove_all(listing, inventory(one))
    result = {**listed, "kept": listing.kept, "removed": is_agreed and not left}
    done = f"{listing.size} removed." if is_agreed and not left else ""
    write_result(arguments, result, done)
    for message in left:
        terminal.tell(message)
    return int(not is_agreed or bool(left))


async def _ask(found: Inventory) -> bool:
    """Return whether the user agrees; say what to do if nobody can be asked."""
    if not terminal.can_ask():
        terminal.tell("Nothing was removed. Use --yes to remove all of this.")
        return False
    question = Question("This cannot be undone.", f"Remove all of this ({found.size})")
    if await terminal.ask_user(question):
        return True
    terminal.tell("Nothing was removed.")
    return False


def _remove_all(found: Inventory, now: Inventory) -> list[str]:
    """Remove everything that was found; return what could not be removed.

    Raises:
        Busy: while the question was open, another program began to use it, or something took its
            place: a folder that has become a link would lead elsewhere.
    """
    _refuse_if_in_use(found)
    if [item.paths for item in now.items] != [item.paths for item in found.items]:
        raise Busy("It has changed meanwhile. Nothing was removed: try again.")
    left = []
    for item in found.items:
        try:
            item.remove()
        except (AishError, NoUndo) as error:
            left.append(str(error))
    for folder in sorted(found.folders, reverse=True):
        with suppress(OSError):
            folder.rmdir()
    return left


def _refuse_if_in_use(found: Inventory) -> None:
    """Refuse while another process has any of it open.

    Raises:
        Busy: it has.
    """
    for path in chain.from_iterable(item.locks() for item in found.items):
        with suppress(OSError):
            fd = open_to_read(path)
            try:
                is_free = lock_now(fd)
            finally:
                unlock(fd)
            if not is_free:
                msg = (
                    f"{shown_path(path)} is in use by {holder_of(path)}. Close aish-lsp there (the"
                    " editor, or the chat in a terminal) and try again. Nothing was removed."
                )
                raise Busy(msg, path=str(path))
