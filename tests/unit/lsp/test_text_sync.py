from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from aish_lsp.lsp.text_documents import Documents, open_workspace

URI = "file:///tmp/a%20b.md"

UNITS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
WIDTH = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
ODD = "a\u00e9\u2028\x0c\x85\x0b\U0001f600 b"
TEXT = st.text(alphabet=st.sampled_from(ODD + "\n\r"), max_size=30)


def workspace(encoding: str = "utf-16") -> Documents:
    return open_workspace(
        types.InitializeParams(capabilities=types.ClientCapabilities(), process_id=None), encoding
    )


def lsp_lines(text: str) -> list[str]:
    """Return the lines of a text as LSP ends them, written the long way."""
    lines, line, index = [], "", 0
    while index < len(text):
        end = "\r\n" if text.startswith("\r\n", index) else text[index]
        index += len(end)
        if end in {"\r\n", "\r", "\n"}:
            lines.append(line + end)
            line = ""
        else:
            line += end
    return [*lines, line] if line else lines


def place(text: str, offset: int, encoding: str) -> tuple[types.Position, int]:
    """Return a place as a client writes it; one inside a line's end is before it."""
    start, lines = 0, lsp_lines(text)
    for number, line in enumerate(lines):
        body = line.rstrip("\r\n")
        if offset < start + len(line):
            column = min(offset - start, len(body))
            units = len(body[:column].encode(UNITS[encoding])) // WIDTH[encoding]
            return types.Position(number, units), start + column
        start += len(line)
    return types.Position(len(lines), 0), len(text)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=5), st.sampled_from(sorted(UNITS)), st.data())
def test_edits_land_where_the_client_put_them(
    text: str, edits: list[str], encoding: str, data: st.DataObject
) -> None:
    documents = workspace(encoding)
    documents.put_text_document(types.TextDocumentItem(URI, "markdown", 1, text))
    for new in edits:
        offsets = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        (start, begin), (end, finish) = (place(text, offset, encoding) for offset in offsets)
        documents.update_text_document(
            types.VersionedTextDocumentIdentifier(2, URI),
            types.TextDocumentContentChangePartial(types.Range(start, end), new),
        )
        text = text[:begin] + new + text[finish:]
        if data.draw(st.booleans()):
            assert documents.get_text_document(URI).source == text
    document = documents.get_text_document(URI)
    assert (document.source, list(document.lines)) == (text, lsp_lines(text))


def test_a_line_of_which_an_edit_leaves_only_its_lf_joins_the_cr_before_it() -> None:
    documents = workspace()
    documents.put_text_document(types.TextDocumentItem(URI, "markdown", 1, "a\raa\n"))
    gone = types.Range(types.Position(1, 0), types.Position(1, 2))
    documents.update_text_document(
        types.VersionedTextDocumentIdentifier(2, URI),
        types.TextDocumentContentChangePartial(gone, ""),
    )
    assert list(documents.get_text_document(URI).lines) == ["a\r\n"]


def test_a_place_behind_the_end_of_a_line_is_its_end() -> None:
    documents = workspace()
    documents.put_text_document(types.TextDocumentItem(URI, "markdown", 1, "ab\n\U0001f600d"))
    for line in (0, 1):
        end = types.Position(line, 99)
        documents.update_text_document(
            types.VersionedTextDocumentIdentifier(2, URI),
            types.TextDocumentContentChangePartial(types.Range(end, end), "!"),
        )
    assert documents.get_text_document(URI).source == "ab!\n\U0001f600d!"


@pytest.mark.parametrize("root", [{"root_uri": "file://[bad"}, {"root_path": "/tmp/\ud800"}])
def test_a_malformed_root_counts_as_none(root: dict[str, Any]) -> None:
    params = types.InitializeParams(types.ClientCapabilities(), process_id=None, **root)
    assert open_workspace(params, "utf-16").root_uri is None


def test_the_root_may_come_as_a_path() -> None:
    params = types.InitializeParams(
        capabilities=types.ClientCapabilities(), process_id=None, root_path="/tmp/x y"
    )
    assert open_workspace(params, "utf-16").root_uri == "file:///tmp/x%20y"
