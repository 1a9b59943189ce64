"""The workspace folders of the client, each with its own context, as they come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lsprotocol import types

from aish_lsp.agent.workspace import Workspace
from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.text import escaped
from aish_lsp.lsp.shapes import path_of

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.lsp.client import Client
    from aish_lsp.operations.operation import SessionTarget, Target


class Workspaces:
    """Contexts by folder. One is opened when it is first used, and closed when its folder goes."""

    def __init__(
        self,
        folders: Callable[[], Iterable[str]],
        open_workspace: Callable[[Path | None], Workspace],
    ) -> None:
        self._uris = folders
        self._open_workspace = open_workspace
        self._open: dict[Path | None, Workspace] = {}
        self._last: Path | None = None
        self._openers: list[Callable[[Workspace], None]] = []
        self._closers: list[Callable[[Workspace], None]] = []
        self._closing: set[asyncio.Task[None]] = set()

    def on_open(self, callback: Callable[[Workspace], None]) -> None:
        """Have ``callback`` called with each workspace that is opened."""
        self._openers.append(callback)

    def on_close(self, callback: Callable[[Workspace], None]) -> None:
        """Have ``callback`` called with each workspace whose folder went, and which now closes."""
        self._closers.append(callback)

    @property
    def _folders(self) -> list[Path]:
        """The folders that are open now; those of another machine are passed over."""
        return [path for uri in self._uris() if (path := path_of(uri)) is not None]

    def removed(self, uri: str) -> None:
        """A folder went: what runs in it is stopped, what it holds is on disk."""
        path = path_of(uri)
        if self._last == path:
            self._last = None
        workspace = self._open.pop(path, None) if path is not None else None
        if workspace is not None:
            task = asyncio.create_task(workspace.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            for closer in self._closers:
                closer(workspace)

    def resolve(self, target: Target) -> Workspace:
        """Return the workspace that a command means; the last one used where it names none.

        Raises:
            NotFound: it names a folder that is not open.
        """
        folders = self._folders
        if target.workspace is not None:
            path = path_of(target.workspace)
            if path is None or path not in folders:
                known = ", ".join(folder.as_uri() for folder in folders) or "none"
                raise NotFound(f"The folder {target.workspace[:200]} is not open. Open: {known}.")
            return self._get(path)
        if target.uri is not None and (path := self.folder_of(target.uri)) is not None:
            return self._get(path)
        if len(folders) > 1:
            return self._get(self._last if self._last in folders else folders[0])
        return self._get(folders[0] if folders else None)

    async def session(self, target: SessionTarget) -> Session:
        """Return the open session that a command means; the one that is shown where it names none.

        Raises:
            NotFound: it names a folder or a session that is not open.
        """
        return await self.resolve(target).sessions.named(target.session)

    def guess(self, target: Target) -> str:
        """Return why ``resolve`` took what was not named, as a clause; empty where it was named.

        That is where it was the last one used, or where the document lies outside every folder.
        """
        folders = self._folders
        if target.workspace is not None:
            return ""
        if target.uri is not None and self.folder_of(target.uri) is not None:
            return ""
        if len(folders) > 1:
            return "the folder last used"
        if target.uri is None:
            return ""
        if not folders:
            return "since the editor has opened no folder"
        name = escaped(unquote(target.uri).rpartition("/")[2])
        return f"the folder that is open; {name} lies outside it"

    def of_document(self, uri: str) -> Workspace | None:
        """Return the workspace that a document lies in, if it is open already."""
        path = self.folder_of(uri)
        if path is None and self._folders:
            return None
        return self._open.get(path)

    def folder_of(self, uri: str) -> Path | None:
        """Return the innermost folder that a document lies in."""
        path = path_of(uri)
        if path is None:
            return None
        inside = [folder for folder in self._folders if path.is_relative_to(folder)]
        return max(inside, key=lambda folder: len(folder.parts), default=None)

    def all(self) -> list[Workspace]:
        """Return every context that is open."""
        return list(self._open.values())

    def _get(self, path: Path | None) -> Workspace:
        self._last = path
        workspace = self._open.get(path)
        if workspace is None:
            workspace = self._open[path] = self._open_workspace(path)
            for opener in self._openers:
                opener(workspace)
        return workspace

    async def aclose(self) -> None:
        """Close all; what runs is stopped and recorded."""
        closing = [workspace.aclose() for workspace in self._open.values()]
        self._open.clear()
        await asyncio.gather(*closing, *self._closing, return_exceptions=True)


def setup(client: Client, workspaces: Workspaces) -> None:
    """Follow the client's folders."""

    @client.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def _folders_changed(params: types.DidChangeWorkspaceFoldersParams) -> None:
        for folder in params.event.removed:
            workspaces.removed(folder.uri)

    client.on_shutdown(workspaces.aclose)
