"""The client as the chat document sees it, over the server's own documents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from lsprotocol import types

from aish_lsp.lsp.chat_writer import ChatWriter
from aish_lsp.lsp.open_documents import EditorCapabilities, OpenDocument, OpenDocuments
from aish_lsp.lsp.text_documents import Documents

if TYPE_CHECKING:
    from aish_lsp.lsp.base_server import BaseServer


class FakeServer:
    """A server whose client answers ``answer``, or fails with it."""

    def __init__(self, encoding: types.PositionEncodingKind, answer: object = None) -> None:
        self.client_capabilities = types.ClientCapabilities(
            workspace=types.WorkspaceClientCapabilities(
                apply_edit=True,
                workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
            ),
            window=types.WindowClientCapabilities(
                show_document=types.ShowDocumentClientCapabilities(support=True)
            ),
        )
        self.initialize_params: types.InitializeParams | None = None
        self.workspace = Documents(None, position_encoding=encoding)
        self.answer = answer
        self.requests: list[tuple[str, Any]] = []
        self.tasks: list[asyncio.Task[Any]] = []

    async def answer_of(self, asking: Awaitable[Any], timeout: float) -> Any:
        assert timeout > 0
        try:
            return await asking
        except Exception:  # noqa: BLE001
            return None

    async def workspace_apply_edit_async(self, params: Any) -> Any:
        return self.request("workspace/applyEdit", params)

    async def window_show_document_async(self, params: Any) -> Any:
        return self.request("window/showDocument", params)

    def request(self, method: str, params: Any) -> Any:
        self.requests.append((method, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> object:
        self.tasks.append(asyncio.create_task(work, name=name))
        return self.tasks[-1]

    def open(self, uri: str, text: str, version: int = 1) -> None:
        self.workspace.put_text_document(
            types.TextDocumentItem(uri, types.LanguageKind.Markdown, version, text)
        )


def editor_of(server: FakeServer) -> OpenDocuments:
    """Return the editor over the few of a client's methods that it uses."""
    return OpenDocuments(cast("BaseServer", server))


def test_capabilities() -> None:
    server = FakeServer(types.PositionEncodingKind.Utf16)
    assert editor_of(server).capabilities == EditorCapabilities(True, True, True)
    server.client_capabilities = types.ClientCapabilities()
    assert editor_of(server).capabilities == EditorCapabilities()
    server.client_capabilities = types.ClientCapabilities(
        workspace=types.WorkspaceClientCapabilities(apply_edit=True),
        window=types.WindowClientCapabilities(),
    )
    assert editor_of(server).capabilities == EditorCapabilities(apply_edit=True)


@pytest.mark.parametrize(("name", "heeds"), [("Neovim", True), ("another", False)])
def test_neovim_heeds_versions_and_does_not_say_so(name: str, heeds: bool) -> None:
    server = FakeServer(types.PositionEncodingKind.Utf16)
    server.client_capabilities = types.ClientCapabilities()
    server.initialize_params = types.InitializeParams(
        server.client_capabilities, client_info=types.ClientInfo(name)
    )
    assert editor_of(server).capabilities.document_changes is heeds


def test_the_document_under_every_spelling(tmp_path: Path) -> None:
    real, link = tmp_path / "a b", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    path = real / "chat.md"
    path.write_text("on disk")
    for uri in (
        path.as_uri(),
        path.as_uri().replace("%20", " "),
        (link / "chat.md").as_uri(),
    ):
        server = FakeServer(types.PositionEncodingKind.Utf16)
        editor = editor_of(server)
        assert editor.document(path) is None
        server.open((tmp_path / "chat.md").as_uri(), "another")
        server.open("untitled:chat.md", "unsaved")
        assert editor.document(path) is None
        server.open(uri, "in the editor", 7)
        assert editor.document(path) == OpenDocument(uri, "in the editor", 7, "markdown")


@pytest.mark.parametrize(
    ("answer", "applied"),
    [
        (types.ApplyWorkspaceEditResult(applied=True), True),
        (types.ApplyWorkspaceEditResult(applied=False), False),
        (None, False),
    ],
)
async def test_the_answer_to_an_edit(answer: object, applied: bool) -> None:
    server = FakeServer(types.PositionEncodingKind.Utf16, answer)
    edit = types.WorkspaceEdit()
    assert await editor_of(server).apply_edit(edit) is applied
    ((method, params),) = server.requests
    assert method == "workspace/applyEdit"
    assert params.edit is edit
    assert params.label is None


@pytest.mark.parametrize("answer", [None, TimeoutError(), RuntimeError("no")])
async def test_showing_fails_in_silence(tmp_path: Path, answer: object) -> None:
    server = FakeServer(types.PositionEncodingKind.Utf16, answer)
    path = tmp_path / "chat.md"
    editor_of(server).show(path, 3)
    assert server.requests == []
    await asyncio.gather(*server.tasks)
    ((method, params),) = server.requests
    assert method == "window/showDocument"
    assert params.uri == path.as_uri()
    assert params.selection == types.Range(types.Position(3, 0), types.Position(3, 0))


@pytest.mark.parametrize(
    ("encoding", "width"),
    [
        (types.PositionEncodingKind.Utf8, 6),
        (types.PositionEncodingKind.Utf16, 3),
        (types.PositionEncodingKind.Utf32, 2),
    ],
)
@pytest.mark.slow
async def test_edits_are_in_the_client_s_units(
    tmp_path: Path, encoding: types.PositionEncodingKind, width: int
) -> None:
    server = FakeServer(encoding, types.ApplyWorkspaceEditResult(applied=False))
    writer = ChatWriter(tmp_path, editor_of(server))
    server.open(writer.path.as_uri(), "a\u2028b\fc\r\né😀", 3)
    writer.append("x")
    await writer.flush()
    (change,) = server.requests[0][1].edit.document_changes
    assert change.text_document.version == 3
    assert change.edits[0].range.start == types.Position(1, width)
    assert writer.path.read_bytes().decode() == "a\u2028b\fc\r\né😀x"
