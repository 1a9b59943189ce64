"""The workspace of a client, and the methods of pygls that it overrides, each with its reason.

The tests have the source of each method of pygls that is overridden: when a release changes one,
check the reason again, and remove the override once pygls no longer needs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from lsprotocol import types
from pygls.uris import from_fs_path
from pygls.workspace import TextDocument, Workspace

#: Changes are sent as ranges.
TEXT_SYNC = types.TextDocumentSyncKind.Incremental

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Document(TextDocument):
    """A text document whose lines end where LSP says."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines with their ends.

        pygls ends a line where Python does (form feed, U+2028 and more); LSP has three line ends.
        Every position after any other would be off, and an edit would garble the text.
        """
        return tuple(_LINE.findall(self.source))


class Documents(Workspace):
    """The workspace folders and the open documents of a client."""

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> Document:
        # There is no other way to use our own class of documents.
        return Document(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )


def open_workspace(
    params: types.InitializeParams, encoding: types.PositionEncodingKind | str
) -> Documents:
    """Return the workspace that ``initialize`` names; a malformed root is ignored.

    If it names no folders, its root is the only one: older clients send nothing else.
    """
    root = params.root_uri
    folders = params.workspace_folders or []
    try:
        if root is None and params.root_path is not None:
            root = from_fs_path(params.root_path)
        if root and not folders:
            folders = [types.WorkspaceFolder(root, unquote(root.rstrip("/").rpartition("/")[2]))]
        return Documents(root, TEXT_SYNC, folders, encoding)
    except ValueError:
        return Documents(None, TEXT_SYNC, params.workspace_folders or [], encoding)
