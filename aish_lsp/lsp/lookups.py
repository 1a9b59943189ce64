"""Asking the client about the code: ``aish/lookup``, which its other language servers answer."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.ports import Found, Lookup
from aish_lsp.foundation.text import with_line_feeds
from aish_lsp.lsp.editor import LspEditor
from aish_lsp.lsp.protocol import LookupRequest
from aish_lsp.lsp.questions import declares
from aish_lsp.lsp.uris import path_of
from aish_lsp.operations.ask import Position

if TYPE_CHECKING:
    from aish_lsp.lsp.client import Client

logger = logging.getLogger(__name__)

#: Seconds in which it is answered: a language server may have to start for it.
_PATIENCE: Final = 20.0


class ClientLookUp:
    """Implements ``ports.LookUp`` over the client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def is_offered(self) -> bool:
        """Return whether the client declared ``initializationOptions.aish.lookup``."""
        return declares(self._client, "lookup")

    async def __call__(self, lookup: Lookup, /) -> list[Found] | None:
        """Return what the client found; None where it cannot tell, or its answer is not one."""
        uri = lookup.path.as_uri() if lookup.path else None
        position = None
        if lookup.what == "definition" and lookup.path is not None:
            position = self._position(lookup.path, lookup.line, lookup.character)
        params = LookupRequest(lookup.what, uri, lookup.query, position)
        try:
            answer = await self._client.request("aish/lookup", params, _PATIENCE)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, it is not told
            logger.info("the client did not look it up: %s", type(error).__name__)
            return None
        return _found(answer)

    def _position(self, path: Path, line: int, character: int) -> Position:
        """Return a place in the client's units, as it or the disk has the file."""
        document = LspEditor(self._client).document(path)
        try:
            text = document.text if document else path.read_text("utf-8", errors="replace")
        except OSError:
            text = ""
        lines = with_line_feeds(text).split("\n")
        before = lines[line][:character] if line < len(lines) else ""
        return Position(line=line, character=LspEditor(self._client).width(before))


def _found(answer: object) -> list[Found] | None:
    """Return what a client answered; None where it is not an answer.

    An item that is not one is left out: the rest is still of use.
    """
    items = _field(answer, "items")
    if not isinstance(items, list):
        return None
    found = []
    for item in items:
        uri, line, text = (_field(item, name) for name in ("uri", "line", "text"))
        path = path_of(uri) if isinstance(uri, str) else None
        if path is not None and isinstance(line, int) and line >= 0 and isinstance(text, str):
            # By its real path, which says whether it lies in the workspace.
            found.append(Found(Path(os.path.realpath(path)), line, text))
    return found


def _field(value: object, name: str) -> Any:
    """Return a field of an object of JSON, however pygls has made it; None where it is missing."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
