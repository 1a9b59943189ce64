"""``aish.undo`` and ``aish.redo``: what commands did to files, taken back and done again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.lsp.uris import path_of

if TYPE_CHECKING:
    from aish_lsp.lsp.call import Call
    from aish_lsp.lsp.protocol import SessionTarget
    from aish_lsp.lsp.server import AishServer
    from aish_lsp.undo.undo import Undone


def setup(server: AishServer) -> None:
    """Bind the commands."""

    def answer(done: Undone, ways: str) -> object:
        how = f"Write {ways} in the chat to go ahead." if done.undecided else ""
        if done.earlier:
            how = "Write :undo earlier in the chat to undo that."
        server.tell("\n".join(filter(None, (done.told, how))))
        return {
            "restored": done.restored,
            "removed": done.removed,
            "conflicts": done.conflicts,
        }

    async def undo(_call: Call, params: SessionTarget) -> object:
        session = await server.workspaces.session(params)
        done = await session.workspace.undo.undo(session.id, server.services.ask_user)
        return answer(done, ":undo keep and :undo overwrite")

    async def redo(_call: Call, params: SessionTarget) -> object:
        session = await server.workspaces.session(params)
        done = await session.workspace.undo.redo(session.id, server.services.ask_user)
        return answer(done, ":redo keep and :redo overwrite")

    def saved(uri: str) -> None:
        path = path_of(uri)
        if path is not None:
            for workspace in server.workspaces.all():
                workspace.undo.saved(path)

    server.bind("aish.undo", undo)
    server.bind("aish.redo", redo)
    # A snapshot covers more than its workspace: what of it lies elsewhere is known there.
    server.documents.on_save(saved)
