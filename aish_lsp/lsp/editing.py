"""A file that the client has open, changed there: by ``workspace/applyEdit``, unsaved."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from aish_lsp.chat.insertion import line_end_of
from aish_lsp.foundation.text import with_line_feeds

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import EditOpen
    from aish_lsp.lsp.editor import LspEditor
    from aish_lsp.lsp.open_documents import OpenDocuments

logger = logging.getLogger(__name__)


def edit_open(editor: LspEditor, documents: OpenDocuments) -> EditOpen:
    """Return how to change one of ``documents``, which ``editor`` has open."""

    async def edit(path: Path, before: str, after: str) -> bool | None:
        document = editor.document(path)
        if document is None:
            return None
        if with_line_feeds(document.text) != before or not editor.capabilities.apply_edit:
            return False
        change = _change(editor, before, after, line_end_of(document.text))
        whole = documents.edit(document.uri, [change])
        try:
            return await editor.apply_edit(whole)
        except Exception as error:  # noqa: BLE001 - whatever went wrong there, it is not made
            logger.info("the client did not make an edit: %s", type(error).__name__)
            return False

    return edit


def _change(editor: LspEditor, before: str, after: str, line_end: str) -> types.TextEdit:
    """Return the edit of those lines alone that differ, so that cursors and marks stay."""
    old, new = before.split("\n"), after.split("\n")
    # The last line has no end: it is always among what is replaced.
    first = 0
    while first < min(len(old), len(new)) - 1 and old[first] == new[first]:
        first += 1
    same = 0
    while same < min(len(old), len(new)) - first - 1 and old[-1 - same] == new[-1 - same]:
        same += 1
    last = len(old) - 1 - same
    text = line_end.join(new[first : len(new) - same])
    place = types.Range(types.Position(first, 0), types.Position(last, editor.width(old[last])))
    return types.TextEdit(place, text)
