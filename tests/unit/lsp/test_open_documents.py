"""The open documents, as features see them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from lsprotocol import types

from aish_lsp.lsp.open_documents import OpenDocuments
from aish_lsp.lsp.text_documents import Documents

if TYPE_CHECKING:
    from aish_lsp.lsp.base_server import BaseServer


def opened(uri: str, text: str) -> OpenDocuments:
    workspace = Documents(None, position_encoding=types.PositionEncodingKind.Utf8)
    workspace.put_text_document(
        types.TextDocumentItem(uri, types.LanguageKind.Markdown, version=1, text=text)
    )
    return OpenDocuments(cast("BaseServer", SimpleNamespace(workspace=workspace)))


@pytest.mark.parametrize(
    "uri",
    [
        "file:///plain/chat.md",
        "file:///a%20b/chat.md",
        "file:///w%C3%B6rk/chat.md",
        "file:///w%c3%b6rk/chat.md",
        "file:///wörk/chat.md",
        "file:///c%3A/chat.md",
    ],
)
def test_a_document_is_known_by_the_clients_own_spelling(uri: str) -> None:
    documents = opened(uri, "one\r\ntwö :re")
    assert documents.uris() == [uri]
    assert documents.text(uri) == "one\ntwö :re"
    assert documents.prefix(uri, types.Position(1, 8)) == "twö :re"


def test_a_document_that_is_not_open_has_no_text() -> None:
    documents = opened("file:///one.md", "one")
    assert documents.text("file:///two.md") is None
    assert documents.prefix("file:///two.md", types.Position(0, 1)) == ""


def test_a_document_is_known_by_every_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "real" / "AGENTS.md"
    path.parent.mkdir()
    path.write_text("saved")
    (tmp_path / "root").symlink_to("real")
    (path.parent / "CLAUDE.md").symlink_to("AGENTS.md")
    (path.parent / "second.md").hardlink_to(path)
    names = [folder / name for folder in (path.parent, tmp_path / "root") for name in NAMES]
    for name in names:
        documents = opened(name.as_uri(), "unsaved")
        found = [documents.document(other) for other in names]
        assert {document and document.uri for document in found} == {name.as_uri()}
        assert documents.document(path.parent / "other.md") is None
    # One that was never saved has a real path, too.
    documents = opened((tmp_path / "root" / "new.md").as_uri(), "unsaved")
    assert documents.document(path.parent / "new.md") is not None


NAMES = ("AGENTS.md", "CLAUDE.md", "second.md")
