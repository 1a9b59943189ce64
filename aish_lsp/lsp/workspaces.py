"""The workspace folders of the client, each with its own context, as they come and go.

Changes in their projects are noticed here too. A client that can watch files is asked to. Any
other client still reports what is saved, and the project itself looks for changes at each turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lsprotocol import types

from aish_lsp.agent import Workspace
from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.opening import name_in
from aish_lsp.foundation.text import count_of, escaped, shown, shown_path
from aish_lsp.foundation.uris import path_of
from aish_lsp.lsp.base_server import can
from aish_lsp.project.current import PENDING_LIMIT

if TYPE_CHECKING:
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.buffers import EditorBuffers
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.operations.operation import Target
    from aish_lsp.project.current import CurrentFiles
    from aish_lsp.project.files import FileListing, FolderScan

logger = logging.getLogger(__name__)


class Workspaces:
    """The workspaces by folder, each opened on its first use and closed with its folder."""

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
        self._closers: list[Callable[[Workspace], object]] = []
        self._closing: set[asyncio.Task[None]] = set()

    def on_open(self, callback: Callable[[Workspace], None]) -> None:
        """Call ``callback`` with each workspace that is opened."""
        self._openers.append(callback)

    def on_close(self, callback: Callable[[Workspace], object]) -> None:
        """Call ``callback`` with each workspace that closes because its folder was removed."""
        self._closers.append(callback)

    @property
    def _folders(self) -> list[Path]:
        """The folders that are open now, except those on other machines."""
        return [path for uri in self._uris() if (path := path_of(uri)) is not None]

    def elsewhere(self) -> str:
        """Return the URI of a folder of another machine, if all open folders are; for a message."""
        return "" if self._folders else next((shown(uri) for uri in self._uris()), "")

    def removed(self, uri: str) -> None:
        """Close the workspace of a folder, unless the folder is still open.

        Running work there is stopped; everything else is on disk already.
        """
        path = path_of(uri)
        if path in self._folders:
            return
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
        """Return the workspace that a command means; if the command names none, the last one used.

        Raises:
            NotFound: the command names a folder that is not open.
        """
        return self.resolve_or_guess(target)[0]

    def resolve_or_guess(self, target: Target) -> tuple[Workspace, str]:
        """Return the workspace that ``resolve`` returns and, as a clause, why it is a guess.

        It is a guess if the command gets the folder that was used last, or if the document is
        outside every folder. Otherwise the clause is empty.

        Raises:
            NotFound: the command names a folder that is not open.
        """
        folders = self._folders
        if target.workspace is not None:
            path = path_of(target.workspace)
            if path is None or path not in folders:
                uris = ", ".join(folder.as_uri() for folder in folders) or "none"
                raise NotFound(f"The folder {target.workspace[:200]} is not open. Open: {uris}.")
            return self._get(path), ""
        if target.uri is not None and (path := self.folder_of(target.uri)) is not None:
            return self._get(path), ""
        if len(folders) > 1:
            last = self._last if self._last in folders else folders[0]
            return self._get(last), "the folder last used"
        workspace = self._get(folders[0] if folders else None)
        return workspace, "" if target.uri is None else self._why_outside(target.uri)

    def _why_outside(self, uri: str) -> str:
        """Return, as a clause, why a document that is in no folder gets the one that it gets."""
        if far := self.elsewhere():
            return f"since {far} is not on this machine"
        if not self._folders:
            return "since the editor has opened no folder"
        name = escaped(unquote(uri).rpartition("/")[2])
        return f"the folder that is open; {name} is outside it"

    def of_document(self, uri: str) -> Workspace | None:
        """Return the workspace that a document is in, if the workspace is open already."""
        path = self.folder_of(uri)
        if path is None and self._folders:
            return None
        return self._open.get(path)

    def folder_of(self, uri: str) -> Path | None:
        """Return the innermost folder that a document is in, under whatever name of the folder."""
        path = path_of(uri)
        if path is None:
            return None
        inside = [folder for folder in self._folders if path == folder or name_in(folder, path)]
        return max(inside, key=lambda folder: len(folder.parts), default=None)

    def all(self) -> list[Workspace]:
        """Return every workspace that is open."""
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
        """Close all workspaces; running work is stopped and saved."""
        closing = [workspace.aclose() for workspace in self._open.values()]
        self._open.clear()
        await asyncio.gather(*closing, *self._closing, return_exceptions=True)


def setup(server: BaseServer, workspaces: Workspaces) -> None:
    """Follow the client's folders."""

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def _folders_changed(params: types.DidChangeWorkspaceFoldersParams) -> None:
        # A folder that was renamed or reordered is in both lists: pygls has removed it.
        for folder in params.event.added:
            server.workspace.add_folder(folder)
        for folder in params.event.removed:
            workspaces.removed(folder.uri)

    @workspaces.on_open
    def _opened(workspace: Workspace) -> None:
        if workspace.root is None and (far := workspaces.elsewhere()):
            server.tell(
                f"{far} is not a folder of this machine, so aish-lsp works in"
                f" {shown_path(workspace.folder)} instead. Start it where the folder is."
            )

    server.on_shutdown(workspaces.aclose)


#: Seconds within which a client must answer that it will watch.
_ANSWER = 60.0

#: Seconds before the progress of a scan is shown, and between two reports of it.
_SHOWN_AFTER = 1.0
_REPORT_EVERY = 0.5

_CREATED_OR_DELETED = types.WatchKind.Create | types.WatchKind.Delete
_WATCHED = (
    types.FileSystemWatcher("**/*", _CREATED_OR_DELETED),
    types.FileSystemWatcher("**/.gitignore", types.WatchKind.Change),
)


class FileWatch:
    """Passes on to the workspaces what the client reports about their files."""

    def __init__(
        self,
        server: BaseServer,
        workspaces: Workspaces,
        documents: OpenDocuments,
        buffers: EditorBuffers,
    ) -> None:
        self._server = server
        self._workspaces = workspaces
        self._buffers = buffers
        self._asked = False
        self._watches = False
        self._workspaces.on_open(self._opened)
        documents.on_save.append(self._saved)

        @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
        def _changed(params: types.DidChangeWatchedFilesParams) -> None:
            self._tell([change.uri for change in params.changes])

    def _saved(self, uri: str) -> None:
        for files, name in self._places([uri]):
            files.edited(name)
        # A snapshot may cover files outside its workspace, and it knows which.
        if not self._buffers.took_saved(uri) and (path := path_of(uri)) is not None:
            for workspace in self._workspaces.all():
                workspace.undo.saved(path)

    def _tell(self, uris: Sequence[str]) -> None:
        if len(uris) > PENDING_LIMIT:
            for workspace in self._workspaces.all():
                if workspace.project.files is not None:
                    workspace.project.files.distrust()
            return
        for files, name in self._places(uris):
            files.changed([name])

    def _places(self, uris: Iterable[str]) -> Iterator[tuple[CurrentFiles, str]]:
        """Yield, for each workspace that a URI is in, its files and the URI's path in it.

        URIs elsewhere, or on other machines, are skipped.
        """
        open_now = [
            (workspace.project.files, str(workspace.root).rstrip(os.sep) + os.sep)
            for workspace in self._workspaces.all()
        ]
        for uri in uris:
            path = path_of(uri)
            if path is None:
                continue
            prefix = os.path.normpath(path) + os.sep
            for files, root in open_now:
                if files is not None and prefix.startswith(root):
                    yield files, prefix[len(root) : -1]

    # Watching, and the progress of scans

    def _opened(self, workspace: Workspace) -> None:
        files = workspace.project.files
        if files is None:
            return
        files.on_scan(self._show_scan)
        if self._watches:
            files.watch()
        if not self._asked:
            self._asked = True
            self._server.spawn(self._ask_to_watch(), "ask to watch files")

    async def _ask_to_watch(self) -> None:
        """Ask the client to report all files that are created and deleted, if it can be asked."""
        if not can(self._server, "workspace.did_change_watched_files.dynamic_registration"):
            return
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        options = types.DidChangeWatchedFilesRegistrationOptions(_WATCHED)
        params = types.RegistrationParams([types.Registration("aish-files", method, options)])
        try:
            async with asyncio.timeout(_ANSWER):
                await self._server.client_register_capability_async(params)
        except Exception as error:  # noqa: BLE001 - without it, the project looks itself
            logger.info("the client does not watch files: %s", type(error).__name__)
            return
        self._watches = True
        for workspace in self._workspaces.all():
            if workspace.project.files is not None:
                workspace.project.files.watch()

    def _show_scan(self, scan: FolderScan, work: asyncio.Task[FileListing]) -> None:
        self._server.spawn(self._follow_scan(scan, work), "show a scan")

    async def _follow_scan(self, scan: FolderScan, work: asyncio.Task[FileListing]) -> None:
        """Show the progress of a scan that takes a long time, and let the user stop it."""
        await asyncio.wait([work], timeout=_SHOWN_AFTER)
        if work.done():
            return
        progress = self._server.begin_progress("aish looks at the project", on_cancel=scan.stop)
        while not work.done():
            progress.report(count_of(scan.found, "file"))
            await asyncio.wait([work], timeout=_REPORT_EVERY)
        progress.end(count_of(scan.found, "file"))
