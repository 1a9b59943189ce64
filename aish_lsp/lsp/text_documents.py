"""What pygls' documents are made to do differently, with each reason.

The tests have the source of each method of pygls that is overridden, as for ``overrides``.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from lsprotocol import types
from pygls.uris import from_fs_path
from pygls.workspace import TextDocument, Workspace

from aish_lsp.foundation.text import well_formed, with_line_feeds

#: Changes are sent as ranges.
TEXT_SYNC: Final = types.TextDocumentSyncKind.Incremental

_LINE: Final = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")

#: Of each unit in which positions are counted: Python's codec and its bytes.
_CODECS: Final = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


class Document(TextDocument):
    """A text document whose lines end where LSP says, and whose changes cost what they touch.

    An editor may send half of a surrogate pair, which no file can hold. It is replaced by U+FFFD,
    which has the same width in UTF-16.
    """

    #: The lines, and the text with LF for each line end, once they were needed.
    _lines: list[str] | None = None
    _text: str | None = None

    @property
    def lines(self) -> list[str]:
        """The lines with their ends.

        pygls ends a line where Python does (form feed, U+2028 and more); LSP has three line ends.
        Every position after any other would be off, and an edit would garble the text.
        """
        if self._lines is None:
            self._lines = _split(self.source)
        return self._lines

    @property
    def source(self) -> str:
        """The text, which is put together again when it is needed."""
        if self._source is None and self._lines is not None:
            self._source = "".join(self._lines)
        text: str = super().source
        return text

    @property
    def text(self) -> str:
        """The text with LF for each line end: the same object until it changes."""
        if self._text is None:
            self._text = with_line_feeds(self.source)
        return self._text

    def apply_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        """Apply a change.

        pygls splits and joins the whole document for each one, takes halves of surrogate pairs, and
        puts what is beyond the end of the last line before its last character.
        """
        text, self._text = well_formed(change.text), None
        if not isinstance(change, types.TextDocumentContentChangePartial):
            self._source, self._lines = text, None
            return
        lines = self.lines
        first, begin = self._place(change.range.start)
        last, end = max((first, begin), self._place(change.range.end))
        stop = last + 1
        before, after = "".join(lines[first : first + 1]), "".join(lines[last:stop])
        text = before[:begin] + text + after[end:]
        # The line before may lack its end, and CR and LF may come together.
        if first and not lines[first - 1].endswith("\n"):
            first -= 1
            text = lines[first] + text
        if lines[stop : stop + 1] == ["\n"]:
            text += "\n"
            stop += 1
        lines[first:stop] = _split(text)
        self._source = None

    def _place(self, at: types.Position) -> tuple[int, int]:
        """Return a position as a line and a character of it; one beyond an end is that end."""
        if at.line >= len(self.lines):
            return len(self.lines), 0
        line = self.lines[at.line].rstrip("\r\n")
        if line.isascii():
            return at.line, min(at.character, len(line))
        codec, width = _CODECS[self.position_codec.encoding or "utf-16"]
        before = line.encode(codec)[: at.character * width]
        return at.line, len(before.decode(codec, "ignore"))


def _split(text: str) -> list[str]:
    """Return the lines of a text with their ends."""
    if "\r" in text:
        return _LINE.findall(text)
    # Much faster, which matters for a file that is one line.
    *lines, rest = text.split("\n")
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


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
            source=None if source is None else well_formed(source),
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
            # A relative path is named as it is; pygls would make one of the root folder of it.
            path = params.root_path
            root = from_fs_path(path) if path.startswith("/") else path
        if root and not folders:
            folders = [types.WorkspaceFolder(root, unquote(root.rstrip("/").rpartition("/")[2]))]
        return Documents(root, TEXT_SYNC, folders, encoding)
    except ValueError:
        return Documents(None, TEXT_SYNC, params.workspace_folders or [], encoding)
