"""The answer to ``initialize``, given before anything slow is imported.

An editor shows nothing of us until it has this answer, and lsprotocol alone takes half a second to
import. What we can do is known before that: capabilities.json is made from the code by
``./dev docs``, and a test holds it to what the server itself would answer.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aish_lsp import __version__
from aish_lsp.lsp.framing import BadFrame, FrameReader, frame

#: Bytes read at once.
CHUNK = 64 << 10

CAPABILITIES = Path(__file__).with_name("capabilities.json")

#: The units of positions that we know, and that of a client which names none.
_ENCODINGS = ("utf-8", "utf-16", "utf-32")
_DEFAULT_ENCODING = "utf-16"


@dataclass(frozen=True, slots=True)
class EarlyInitialize:
    """What was read of the client so far.

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
        """Return that of a client of whom nothing was read yet."""
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
    """Wait for the client's first message; answer it where it is an ``initialize``.

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
    capabilities = json.loads(CAPABILITIES.read_text())
    general = client.get("general")
    wanted = general.get("positionEncodings") if isinstance(general, dict) else None
    known = [name for name in wanted if name in _ENCODINGS] if isinstance(wanted, list) else []
    capabilities["positionEncoding"] = known[0] if known else _DEFAULT_ENCODING
    return {
        "capabilities": capabilities,
        "serverInfo": {"name": "aish-lsp", "version": __version__},
    }


def _initialize(body: bytes) -> dict[str, Any] | None:
    """Return the request where it is an ``initialize`` whose outline is sound."""
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
