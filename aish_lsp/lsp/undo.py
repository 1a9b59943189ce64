"""``aish.undo``: what the last command did to files, taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.lsp.uris import path_of

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import Target
    from aish_lsp.server import AishServer


def setup(server: AishServer) -> None:
    """Bind the command."""

    async def undo(_call: Call, params: Target) -> object:
        workspace = server.workspaces.resolve(params)
        done = await workspace.undo.undo(server.services.ask_user)
        how = (
            "Write :undo keep or :undo overwrite in the chat to go ahead." if done.undecided else ""
        )
        server.tell("\n".join(filter(None, (done.told, how))))
        return {
            "restored": done.restored,
            "removed": done.removed,
            "conflicts": done.conflicts,
        }

    def saved(uri: str) -> None:
        path = path_of(uri)
        if path is not None:
            for workspace in server.workspaces.all():
                workspace.undo.saved(path)

    server.bind("aish.undo", undo)
    # A snapshot covers more than its workspace: what of it lies elsewhere is known there.
    server.documents.on_save(saved)
