"""Server-sent events: from the bytes of a response to the data of each event.

Our own and not httpx-sse's, which decodes text: lines are cut here in bytes, so that neither a
character split over two packets nor U+2028 inside JSON can break one, and an event is handed on as
soon as its blank line is there.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"

#: Bytes of one line; a server that sends more without a line end is not speaking the protocol.
LINE_LIMIT = 64 << 20


class SseDecoder:
    """Decodes a stream that arrives in pieces cut anywhere.

    Only ``data`` is kept: every provider says in its JSON what an event is. Comments, ``event``,
    ``id`` and ``retry`` are dropped.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._after_cr = False
        self._at_start = True

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that ``piece`` completes.

        Raises:
            ValueError: a line is longer than LINE_LIMIT.
        """
        if self._after_cr and piece:
            # The other half of a CRLF whose CR ended the last piece.
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = piece.split(b"\n")
        events: list[str] = []
        for line in ended:
            if self._line:
                self._line.append(line)
                line = b"".join(self._line)  # noqa: PLW2901 - the line's earlier pieces belong to it
                self._line.clear()
                self._line_size = 0
            self._end_line(line, events)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            if self._line_size > LINE_LIMIT:
                raise ValueError("a line without end")
        return events

    def close(self) -> list[str]:
        """Return the data of a last event whose blank line never came."""
        events: list[str] = []
        if self._line:
            self._end_line(b"".join(self._line), events)
        self._end_line(b"", events)
        return events

    def _end_line(self, line: bytes, events: list[str]) -> None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            events.append(b"\n".join(self._data).decode("utf-8", "replace"))
            self._data.clear()
