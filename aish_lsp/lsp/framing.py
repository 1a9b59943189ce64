"""Messages on a stream of bytes: header lines, an empty line, a body of Content-Length bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Bytes of the largest message that is read; what a longer one holds is skipped.
LARGEST_MESSAGE = 64 << 20
#: Content-Length beyond this (bytes) is taken for garbage: waiting for it would make us deaf.
LARGEST_SKIPPED = 1 << 30
#: Bytes of the longest header line.
LONGEST_LINE = 64 << 10

# Searched and not matched: after a bad header, the next good one may follow garbage in its line.
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(.*?)[ \t]*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BadFrame:
    """A message that could not be read; the stream goes on behind it."""

    message: str


def frame(body: bytes) -> bytes:
    """Return ``body`` with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Cuts a stream into the bodies of its messages, however the bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body_length: int | None = None
        self._to_skip = 0
        self._declared: bytes | None = None
        self._in_header = False

    def feed(self, data: bytes) -> list[bytes | BadFrame]:
        """Return what ``data`` completes, in order."""
        self._buffer += data
        return list(self._frames())

    def _frames(self) -> Iterator[bytes | BadFrame]:
        while not self._skipping():
            if self._body_length is not None:
                if len(self._buffer) < self._body_length:
                    return
                yield self._take(self._body_length)
                self._body_length = None
            line = self._line()
            if line is None:
                if len(self._buffer) > LONGEST_LINE:
                    self._buffer.clear()
                    yield BadFrame("a header line is too long")
                return
            if bad := self._read_header(line):
                yield bad

    def _skipping(self) -> bool:
        """Drop what is to be skipped; return whether there is more of it to come."""
        skipped = min(self._to_skip, len(self._buffer))
        del self._buffer[:skipped]
        self._to_skip -= skipped
        return self._to_skip > 0

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        return None if end < 0 else self._take(end + 1).rstrip(b"\r\n")

    def _read_header(self, line: bytes) -> BadFrame | None:
        if line:
            self._in_header = True
            if match := _LENGTH.search(line):
                self._declared = match.group(1)
            return None
        return self._end_header() if self._in_header else None

    def _end_header(self) -> BadFrame | None:
        """Decide from the header what follows it; return why nothing can."""
        declared, self._declared, self._in_header = self._declared, None, False
        if declared is None:
            return BadFrame("a message has no Content-Length")
        # Nineteen digits at most: int() of very many is slow, and refused by Python.
        if not re.fullmatch(rb"\d{1,19}", declared) or int(declared) > LARGEST_SKIPPED:
            return BadFrame("a message's Content-Length is not one")
        length = int(declared)
        if length > LARGEST_MESSAGE:
            self._to_skip = length
            return BadFrame(f"a message of {length} bytes is over the limit of {LARGEST_MESSAGE}")
        self._body_length = length
        return None
