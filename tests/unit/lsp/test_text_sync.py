from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from aish_lsp.lsp.overrides import Documents, open_workspace

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


@given(TEXT, TEXT, st.sampled_from(sorted(UNITS)), st.data())
def test_an_edit_lands_where_the_client_put_it(
    text: str, new: str, encoding: str, data: st.DataObject
) -> None:
    documents = workspace(encoding)
    documents.put_text_document(types.TextDocumentItem(URI, "markdown", 1, text))
    lines = lsp_lines(text)
    offsets = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))

    def position(offset: int) -> tuple[types.Position, int]:
        """Return a place as a client writes it; one inside a line's end is before it."""
        start = 0
        for number, line in enumerate(lines):
            body = line.rstrip("\r\n")
            if offset < start + len(line):
                column = min(offset - start, len(body))
                units = len(body[:column].encode(UNITS[encoding])) // WIDTH[encoding]
                return types.Position(number, units), start + column
            start += len(line)
        return types.Position(len(lines), 0), len(text)

    (start, begin), (end, finish) = map(position, offsets)
    documents.update_text_document(
        types.VersionedTextDocumentIdentifier(2, URI),
        types.TextDocumentContentChangePartial(types.Range(start, end), new),
    )
    assert documents.get_text_document(URI).source == text[:begin] + new + text[finish:]


@pytest.mark.parametrize("root", [{"root_uri": "file://[bad"}, {"root_path": "/tmp/\ud800"}])
def test_a_malformed_root_counts_as_none(root: dict[str, Any]) -> None:
    params = types.InitializeParams(types.ClientCapabilities(), process_id=None, **root)
    assert open_workspace(params, "utf-16").root_uri is None


def test_the_root_may_come_as_a_path() -> None:
    params = types.InitializeParams(
        capabilities=types.ClientCapabilities(), process_id=None, root_path="/tmp/x y"
    )
    assert open_workspace(params, "utf-16").root_uri == "file:///tmp/x%20y"
