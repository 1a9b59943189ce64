"""Half characters: what a server makes of an emoji that it cut in two.

Some send the two surrogates of a character in two chunks, each escaped in JSON of its own. A text
with such a half cannot be written to a file or sent to an editor.
"""

from __future__ import annotations

from aish_lsp.foundation.text import well_formed


class Mender:
    """Mends a text that comes in pieces."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what is complete with ``piece``; a half at its end waits for the next piece."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return well_formed(text)
