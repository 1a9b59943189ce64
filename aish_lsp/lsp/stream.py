"""Messages on a stream of bytes, and the answer to ``initialize`` before anything slow is imported.

A message consists of header lines, an empty line, and a body of Content-Length bytes.

An editor offers none of our features until it has that answer, and lsprotocol alone takes half a
second to import. Our capabilities are known before that: they are in capabilities.json, where
``./dev docs`` updates the commands, and a test checks that nothing is missing.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aish_lsp import __version__

#: Bytes of the largest message that is read; a larger one is skipped.
LARGEST_MESSAGE = 64 << 20
#: A larger Content-Length (bytes) counts as garbage: while waiting for it, nothing else is read.
LARGEST_SKIPPED = 1 << 30
#: Bytes of the longest header line.
LONGEST_LINE = 64 << 10

_LENGTH = re.compile(rb"content-length[ \t]*:(.*)", re.IGNORECASE)
#: Where the next header may begin in the line that ends an unread body.
_NEXT_HEADER = re.compile(rb"[}\]](?=content-(?:length|type)[ \t]*:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BadFrame:
    """A message that could not be read; the stream continues after it."""

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
        self._lost = False

    def feed(self, data: bytes) -> list[bytes | BadFrame]:
        """Return the messages that ``data`` completes, in order."""
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
            if line:
                self._read_header(line)
            elif self._in_header and (bad := self._end_header()):
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

    def _read_header(self, line: bytes) -> None:
        self._in_header = True
        if self._lost and (garbage := _NEXT_HEADER.search(line)):
            line = line[garbage.end() :]
        if match := _LENGTH.fullmatch(line):
            self._declared = match.group(1).strip(b" \t")

    def _end_header(self) -> BadFrame | None:
        """Determine from the header what follows; return the error if that is not possible."""
        declared, self._declared, self._in_header = self._declared, None, False
        # A body may follow unrecognized: then the next header is at the end of its last line.
        self._lost = True
        if declared is None:
            return BadFrame("a message has no Content-Length")
        # At most 19 digits: int() of very many is slow, and Python refuses it.
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

#: The units of positions that we support, and that of a client that names none.
_ENCODINGS = ("utf-8", "utf-16", "utf-32")
_DEFAULT_ENCODING = "utf-16"


@dataclass(frozen=True, slots=True)
class EarlyInitialize:
    """What has been read from the client so far.

    Attributes:
        frames: reads what comes next.
        received: the messages that have arrived already.
        answered: the id of the ``initialize`` that was answered, or None.
    """

    frames: FrameReader
    received: list[bytes | BadFrame]
    answered: int | str | None

    @classmethod
    def none(cls) -> EarlyInitialize:
        """Return the state in which nothing has been read from the client yet."""
        return cls(FrameReader(), [], None)


def take_stdio() -> tuple[int, int]:
    """Reserve stdin and stdout for the protocol: no print and no child process may touch them."""
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # no stderr
        os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stdout = sys.stderr
    # An editor may pass streams that do not block; our threads may wait.
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
    """Return the unit of positions for a client with these capabilities."""
    general = client.get("general")
    wanted = general.get("positionEncodings") if isinstance(general, dict) else None
    # cattrs takes the keys of an object for a list, so they count here too.
    names = wanted if isinstance(wanted, list | dict) else ()
    return next((name for name in names if name in _ENCODINGS), _DEFAULT_ENCODING)


def _initialize(body: bytes) -> dict[str, Any] | None:
    """Return the request if it is an ``initialize`` whose main fields have the right types."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("method") != "initialize":
        return None
    if message.get("jsonrpc") != "2.0" or type(message.get("id")) not in (int, str):
        return None
    params = message.get("params")
    is_valid = isinstance(params, dict) and all(
        isinstance(params.get(name), kinds) for name, kinds in _MAIN_FIELDS.items()
    )
    return message if is_valid else None


_MAIN_FIELDS: dict[str, Any] = {
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
    """Write all of ``data``; return False if the client is gone."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(sink, view) :]
    except OSError:
        return False
    return True


def ready_writer(sink: int) -> Callable[[bytes], bool]:
    """Return what writes a body with its header if that does not block, and returns whether."""
    ready = select.poll()
    ready.register(sink, select.POLLOUT)

    def write_if_ready(body: bytes) -> bool:
        data = frame(body)
        # A sink that is ready takes this much, even if it blocks.
        return len(data) <= select.PIPE_BUF and bool(ready.poll(0)) and write(sink, data)

    return write_if_ready
