"""``:undo`` in the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from aish_lsp.errors import InvalidArgument

if TYPE_CHECKING:
    from aish_lsp.undo.undo import Conflicts
    from aish_lsp.workspace import Workspace

USAGE: Final = "[keep|overwrite]"
WAYS: Final = ("keep", "overwrite")


async def undo_command(workspace: Workspace, argument: str) -> str:
    """Carry ``:undo`` out; return the answer, Markdown.

    Raises:
        InvalidArgument: it is none of ``WAYS``.
        AishError: what ``Undo.undo`` refuses.
    """
    if argument and argument not in WAYS:
        raise InvalidArgument("Known are `:undo`, `:undo keep` and `:undo overwrite`.")
    way = cast("Conflicts", argument or "ask")
    done = await workspace.undo.undo(workspace.services.ask_user, way)
    rows = done.told.split("\n")
    if done.undecided:
        rows.append(
            "`:undo keep` undoes the rest and leaves those as they are; `:undo overwrite` puts "
            "them back as well."
        )
    elif done.restored or done.removed:
        rows.append("`:undo` again takes this back.")
    return "\n\n".join(rows)
