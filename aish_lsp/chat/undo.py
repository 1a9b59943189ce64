"""``:undo`` and ``:redo`` in the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from aish_lsp.foundation.errors import InvalidArgument

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.undo.undo import Conflicts, Undone

WAYS: Final = ("keep", "overwrite", "earlier")
REDO_WAYS: Final = ("keep", "overwrite")
USAGE: Final = f"[{'|'.join(WAYS)}]"
REDO_USAGE: Final = f"[{'|'.join(REDO_WAYS)}]"


async def undo_command(session: Session, argument: str) -> str:
    """Carry ``:undo`` out; return the answer, Markdown.

    Raises:
        InvalidArgument: it is none of ``WAYS``.
        AishError: what ``Undo.undo`` refuses.
    """
    words = argument.split()
    if not set(words) <= set(WAYS) or {"keep", "overwrite"} <= set(words):
        raise InvalidArgument("Use `:undo`, `:undo keep`, `:undo overwrite` or `:undo earlier`.")
    way = cast("Conflicts", next((word for word in words if word != "earlier"), "ask"))
    earlier = "earlier" in words
    workspace = session.workspace
    asks = workspace.services.ask_user
    done = await workspace.undo.undo(session.id, asks, way, earlier=earlier)
    if done.earlier:
        return f"{done.told}\n\n`:undo earlier` undoes that."
    again = "`:undo` again undoes the one before it, `:redo` does this one again."
    return _answer(done, ":undo earlier" if earlier else ":undo", again)


async def redo_command(session: Session, argument: str) -> str:
    """Carry ``:redo`` out; return the answer, Markdown.

    Raises:
        InvalidArgument: it is none of ``REDO_WAYS``.
        AishError: what ``Undo.redo`` refuses.
    """
    if argument and argument not in REDO_WAYS:
        raise InvalidArgument("Use `:redo`, `:redo keep` or `:redo overwrite`.")
    way = cast("Conflicts", argument or "ask")
    workspace = session.workspace
    done = await workspace.undo.redo(session.id, workspace.services.ask_user, way)
    return _answer(done, ":redo", "`:undo` takes this back.")


def _answer(done: Undone, command: str, again: str) -> str:
    """Return what was done, and how to go on; ``again``: where something was."""
    rows = done.told.split("\n")
    if done.undecided:
        rows.append(
            f"`{command} keep` does the rest and leaves those as they are; `{command} overwrite`"
            " puts them back as well."
        )
    elif done.restored or done.removed:
        rows.append(again)
    return "\n\n".join(rows)
