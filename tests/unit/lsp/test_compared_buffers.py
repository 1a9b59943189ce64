"""When the editor's texts are compared with their files."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types

from aish_lsp.lsp.buffers import EditorBuffers
from aish_lsp.lsp.open_documents import OpenDocuments
from aish_lsp.lsp.text_documents import Documents

if TYPE_CHECKING:
    from aish_lsp.lsp.base_server import BaseServer


class Editor:
    """An editor in which one file is open, whose text is not what the file holds."""

    def __init__(self, path: Path, text: str) -> None:
        self.workspace = Documents(None)
        self.tasks: list[asyncio.Task[Any]] = []
        self.documents = OpenDocuments(cast("BaseServer", self))
        self.buffers = EditorBuffers(cast("BaseServer", self), self.documents)
        self.path = path
        item = types.TextDocumentItem(path.as_uri(), "", 1, text)
        self.workspace.put_text_document(item)
        self.documents.changed(path.as_uri())

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> object:
        self.tasks.append(asyncio.create_task(work, name=name))
        return self.tasks[-1]

    async def type(self, text: str) -> None:
        change = types.TextDocumentContentChangeWholeDocument(text)
        identifier = types.VersionedTextDocumentIdentifier(2, self.path.as_uri())
        self.workspace.update_text_document(identifier, change)
        self.documents.changed(self.path.as_uri(), [change])
        await asyncio.gather(*self.tasks)


async def test_a_text_that_became_its_file_by_typing_is_behind_once_the_file_changes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("on the disk\n")
    editor = Editor(path, "unsaved\n")
    await editor.type("unsaved, too\n")
    await editor.type("on the disk\n")
    assert editor.buffers.text(path) == "on the disk\n"
    path.write_text("on the disk, and changed\n")
    assert editor.buffers.text(path) is None


async def test_a_file_that_changed_is_read_again_at_the_next_change_of_the_text(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("on the disk\n")
    editor = Editor(path, "unsaved\n")
    await editor.type("unsaved, too\n")
    path.write_text("newer on the disk\n")
    await editor.type("newer on the disk\n")
    path.write_text("newest\n")
    assert editor.buffers.text(path) is None
