"""How the changes of a project come to be known.

A client that can be asked to watches the files; all others still tell of what is saved, created,
renamed and deleted in the editor, and the project looks itself at each turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from aish_lsp.foundation.wording import count_of
from aish_lsp.lsp.shapes import path_of
from aish_lsp.project.current import PENDING_LIMIT

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.lsp.client import Client
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.lsp.workspaces import Workspaces
    from aish_lsp.project.current import CurrentFiles
    from aish_lsp.project.files import Listing, Scan

logger = logging.getLogger(__name__)

#: Seconds in which a client answers that it will watch.
_ANSWER = 60.0

#: Seconds that a scan takes before it is shown, and between two reports of it.
_SHOWN_AFTER = 1.0
_REPORT_EVERY = 0.5

_COMES_OR_GOES = types.WatchKind.Create | types.WatchKind.Delete
_WATCHED = (
    types.FileSystemWatcher("**/*", _COMES_OR_GOES),
    types.FileSystemWatcher("**/.gitignore", types.WatchKind.Change),
)
_ALL_FILES = types.FileOperationRegistrationOptions(
    [types.FileOperationFilter(types.FileOperationPattern("**"), scheme="file")]
)


def setup(client: Client, workspaces: Workspaces, documents: OpenDocuments) -> None:
    """Follow the files."""
    FileWatch(client, workspaces).follow(documents)


class FileWatch:
    """Passes on to the workspaces what the client tells of their files."""

    def __init__(self, client: Client, workspaces: Workspaces) -> None:
        self._client = client
        self._workspaces = workspaces
        self._asked = False
        self._watches = False

    def follow(self, documents: OpenDocuments) -> None:
        """Register for all that a client may tell."""
        client = self._client
        self._workspaces.on_open(self._opened)
        documents.on_save(self._saved)

        @client.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
        def _changed(params: types.DidChangeWatchedFilesParams) -> None:
            self._tell([change.uri for change in params.changes])

        @client.feature(types.WORKSPACE_DID_CREATE_FILES, _ALL_FILES)
        def _created(params: types.CreateFilesParams) -> None:
            self._tell([file.uri for file in params.files])

        @client.feature(types.WORKSPACE_DID_RENAME_FILES, _ALL_FILES)
        def _renamed(params: types.RenameFilesParams) -> None:
            self._tell([uri for file in params.files for uri in (file.old_uri, file.new_uri)])

        @client.feature(types.WORKSPACE_DID_DELETE_FILES, _ALL_FILES)
        def _deleted(params: types.DeleteFilesParams) -> None:
            self._tell([file.uri for file in params.files])

    def _saved(self, uri: str) -> None:
        for files, name in self._places([uri]):
            files.edited(name)
        # A snapshot covers more than its workspace: what of it lies elsewhere is known there.
        if (path := path_of(uri)) is not None:
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
        """Yield the files of each workspace that a URI lies in, and its name there.

        What lies elsewhere, or on another machine, is passed over.
        """
        open_now = [
            (workspace.project.files, str(workspace.root).rstrip(os.sep) + os.sep)
            for workspace in self._workspaces.all()
        ]
        for uri in uris:
            path = path_of(uri)
            if path is None:
                continue
            place = os.path.normpath(path) + os.sep
            for files, root in open_now:
                if files is not None and place.startswith(root):
                    yield files, place[len(root) : -1]

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
            self._client.spawn(self._ask_to_watch(), "ask to watch files")

    async def _ask_to_watch(self) -> None:
        """Ask the client to tell of all files that come and go, where it can be asked."""
        client = self._client.client_capabilities.workspace
        watching = client.did_change_watched_files if client else None
        if watching is None or not watching.dynamic_registration:
            return
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        options = types.DidChangeWatchedFilesRegistrationOptions(_WATCHED)
        params = types.RegistrationParams([types.Registration("aish-files", method, options)])
        try:
            await self._client.request(types.CLIENT_REGISTER_CAPABILITY, params, _ANSWER)
        except Exception as error:  # noqa: BLE001 - without it we look ourselves
            logger.info("the client does not watch files: %s", type(error).__name__)
            return
        self._watches = True
        for workspace in self._workspaces.all():
            if workspace.project.files is not None:
                workspace.project.files.watch()

    def _show_scan(self, scan: Scan, work: asyncio.Task[Listing]) -> None:
        self._client.spawn(self._follow_scan(scan, work), "show a scan")

    async def _follow_scan(self, scan: Scan, work: asyncio.Task[Listing]) -> None:
        """Show how far a scan is that takes long, and let the user stop it."""
        await asyncio.wait([work], timeout=_SHOWN_AFTER)
        if work.done():
            return
        progress = self._client.begin_progress("aish looks at the project", on_cancel=scan.stop)
        while not work.done():
            progress.report(count_of(scan.found, "file"))
            await asyncio.wait([work], timeout=_REPORT_EVERY)
        progress.end(count_of(scan.found, "file"))
