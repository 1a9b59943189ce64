"""The open documents, as features see them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from lsprotocol import types

from aish_lsp.lsp.open_documents import OpenDocuments
from aish_lsp.lsp.overrides import Documents

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
