"""Messages on a stream of bytes, and the answer to ``initialize`` before anything slow is imported.

A message is header lines, an empty line, a body of Content-Length bytes.

An editor shows nothing of us until it has that answer, and lsprotocol alone takes half a second to
import. What we can do is known before that: it is in capabilities.json, where ``./dev docs`` renews
the commands, and a test sees that nothing is missing.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aish_lsp import __version__

#: Bytes of the largest message that is read; a larger one is skipped.
LARGEST_MESSAGE = 64 << 20
#: Content-Length beyond this (bytes) is taken for garbage: waiting for it would make us deaf.
LARGEST_SKIPPED = 1 << 30
#: Bytes of the longest header line.
LONGEST_LINE = 64 << 10

_LENGTH = re.compile(rb"content-length[ \t]*:(.*)", re.IGNORECASE)
_TYPE = re.compile(rb"content-type[ \t]*:", re.IGNORECASE)
#: Where the next header may begin in the line that ends an unread body.
_NEXT_HEADER = re.compile(rb"[}\]](?=content-(?:length|type)[ \t]*:)", re.IGNORECASE)
#: Bytes of a line that an error shows.
_SHOWN = 80


class ForeignHeaderError(Exception):
    """What arrives is not the language server protocol, but, say, HTTP."""


@dataclass(frozen=True, slots=True)
class BadFrame:
    """A message that could not be read; the stream goes on after it."""

    message: str


def frame(body: bytes) -> bytes:
    """Return ``body`` with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Cuts a stream into the bodies of its messages, however the bytes arrive.

    A ``strict`` one is for a stream that anybody may have opened. A web page may send a request
    whose body holds messages for us, so nothing is read after a line that is not a header of LSP.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._buffer = bytearray()
        self._body_length: int | None = None
        self._to_skip = 0
        self._declared: bytes | None = None
        self._in_header = False
        self._lost = False

    def feed(self, data: bytes) -> list[bytes | BadFrame]:
        """Return the messages that ``data`` completes, in order.

        Raises:
            ForeignHeaderError: the reader is strict, and a line is not a header of LSP. The stream
                must not be read on.
        """
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
                    self._refuse_if_strict(self._buffer)
                    self._buffer.clear()
                    yield BadFrame("a header line is too long")
                return
            if bad := self._read_header(line):
                yield bad

    def _skipping(self) -> bool:
        """Drop what is to be skipped; return whether more of it is still to come."""
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
        if not line:
            return self._end_header() if self._in_header else None
        self._in_header = True
        if self._lost and (garbage := _NEXT_HEADER.search(line)):
            line = line[garbage.end() :]
        if match := _LENGTH.fullmatch(line):
            self._declared = match.group(1).strip(b" \t")
        elif not _TYPE.match(line):
            self._refuse_if_strict(line)
        return None

    def _refuse_if_strict(self, line: bytes | bytearray) -> None:
        if self._strict:
            raise ForeignHeaderError(f"{bytes(line[:_SHOWN])!r} is not a message header")

    def _end_header(self) -> BadFrame | None:
        """Decide from the header what follows it; return the error if that cannot be known."""
        declared, self._declared, self._in_header = self._declared, None, False
        # A body may follow unrecognised: then the next header is at the end of its last line.
        self._lost = not self._strict
        if declared is None:
            return BadFrame("a message has no Content-Length")
        # Nineteen digits at most: int() of very many is slow, and refused by Python.
        if not re.fullmatch(rb"\d{1,19}", declared) or int(declared) > LARGEST_SKIPPED:
            return BadFrame("a message's Content-Length is not a valid length")
        length = int(declared)
        self._lost = False
        if length > LARGEST_MESSAGE:
            self._to_skip = length
            return BadFrame(f"a message of {length} bytes is over the limit of {LARGEST_MESSAGE}")
        self._body_length = length
        return None


#: Bytes read at once.
CHUNK = 64 << 10

CAPABILITIES = Path(__file__).with_name("capabilities.json")

#: The units of positions that we know, and that of a client which names none.
_ENCODINGS = ("utf-8", "utf-16", "utf-32")
_DEFAULT_ENCODING = "utf-16"


@dataclass(frozen=True, slots=True)
class EarlyInitialize:
    """What was read from the client so far.

    Attributes:
        frames: goes on with what comes next.
        received: the messages that are here already.
        answered: the id of the ``initialize`` that was answered, or None.
    """

    frames: FrameReader
    received: list[bytes | BadFrame]
    answered: int | str | None

    @classmethod
    def none(cls) -> EarlyInitialize:
        """Return the state in which nothing was read from the client yet."""
        return cls(FrameReader(), [], None)


def take_stdio() -> tuple[int, int]:
    """Keep stdin and stdout to ourselves: neither a print nor a child process may touch them."""
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # no stderr
        os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stdout = sys.stderr
    # An editor may hand over a stream that does not block; a thread of ours may wait.
    os.set_blocking(source, True)
    os.set_blocking(sink, True)
    return source, sink


def answer_initialize(source: int, sink: int) -> EarlyInitialize:
    """Wait for the client's first message; answer it if it is an ``initialize``.

    Anything else, malformed ones included, is left to the server.
    """
    frames = FrameReader()
    received: list[bytes | BadFrame] = []
    while not received and (data := read(source)):
        received = frames.feed(data)
    answered = None
    if received and isinstance(received[0], bytes):
        request = _initialize(received[0])
        if request is not None:
            answered = request["id"]
            result = initialize_result(request["params"]["capabilities"])
            response = {"jsonrpc": "2.0", "id": answered, "result": result}
            write(sink, frame(json.dumps(response).encode()))
    return EarlyInitialize(frames, received, answered)


def initialize_result(client: dict[str, Any]) -> dict[str, Any]:
    """Return the result of ``initialize`` for a client with these capabilities."""
    capabilities = json.loads(CAPABILITIES.read_text("utf-8"))
    capabilities["positionEncoding"] = position_encoding(client)
    return {
        "capabilities": capabilities,
        "serverInfo": {"name": "aish-lsp", "version": __version__},
    }


def position_encoding(client: dict[str, Any]) -> str:
    """Return the unit of positions that is agreed on with a client with these capabilities."""
    general = client.get("general")
    wanted = general.get("positionEncodings") if isinstance(general, dict) else None
    # cattrs takes the keys of an object for a list, so they count here, too.
    names = wanted if isinstance(wanted, list | dict) else ()
    return next((name for name in names if name in _ENCODINGS), _DEFAULT_ENCODING)


def _initialize(body: bytes) -> dict[str, Any] | None:
    """Return the request if it is an ``initialize`` whose outline is sound."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("method") != "initialize":
        return None
    if message.get("jsonrpc") != "2.0" or type(message.get("id")) not in (int, str):
        return None
    params = message.get("params")
    sound = isinstance(params, dict) and all(
        isinstance(params.get(name), kinds) for name, kinds in _OUTLINE.items()
    )
    return message if sound else None


_OUTLINE: dict[str, Any] = {
    "capabilities": dict,
    "processId": int | None,
    "rootUri": str | None,
    "rootPath": str | None,
    "workspaceFolders": list | None,
}


def read(source: int) -> bytes:
    """Return the next bytes; none at the end."""
    try:
        return os.read(source, CHUNK)
    except OSError:
        return b""


def write(sink: int, data: bytes) -> bool:
    """Write all of ``data``; return whether there was somebody to read it."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(sink, view) :]
    except OSError:
        return False
    return True
