"""``aish.undo``: what the last command did to files, taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import Target
    from aish_lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the command."""

    async def undo(_call: Call, params: Target) -> object:
        workspace = server.workspaces.resolve(params)
        done = await workspace.undo.undo(server.services.ask_user)
        how = ":undo keep and :undo overwrite in the chat go on with it." if done.undecided else ""
        server.tell("\n".join(filter(None, (done.told, how))))
        return {
            "restored": done.restored,
            "removed": done.removed,
            "conflicts": done.conflicts,
        }

    server.bind("aish.undo", undo)
