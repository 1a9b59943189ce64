"""The early answer to ``initialize`` is the one that the server itself would give."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from lsprotocol import types

from aish_lsp.lsp.reference import without_noes
from aish_lsp.lsp.server import create_server
from aish_lsp.lsp.stream import CAPABILITIES, answer_initialize, frame, initialize_result

CLIENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "utf-8 first": {"general": {"positionEncodings": ["utf-8", "utf-16"]}},
    "utf-32 first": {"general": {"positionEncodings": ["utf-32", "utf-8", "utf-16"]}},
    "none that we know": {"general": {"positionEncodings": ["ebcdic"]}},
    "everything": {
        "general": {"positionEncodings": ["utf-16"]},
        "workspace": {"applyEdit": True, "fileOperations": {"willCreate": True}},
        "textDocument": {
            "synchronization": {"willSave": True, "willSaveWaitUntil": True, "didSave": True},
            "rename": {"prepareSupport": True},
        },
        "notebookDocument": {"synchronization": {"dynamicRegistration": True}},
    },
}


def served(client: dict[str, Any]) -> dict[str, Any]:
    """Return what the server itself answers."""
    server = create_server()
    sent: list[Any] = []
    server.send_body = lambda body: sent.append(json.loads(body))
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"processId": None, "rootUri": None, "capabilities": client},
    }
    server.receive(json.dumps(message).encode())
    result: dict[str, Any] = sent[0]["result"]
    return result


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_the_early_answer_is_the_servers(client: dict[str, Any]) -> None:
    assert initialize_result(client) == without_noes(served(client)), "run ./dev docs"


def test_the_file_holds_lsps_names() -> None:
    assert set(json.loads(CAPABILITIES.read_text())) <= {
        "positionEncoding",
        *(_camel(field) for field in types.ServerCapabilities.__annotations__),
    }


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@pytest.fixture
def pipes() -> Iterator[tuple[int, int, int, int]]:
    there, here = os.pipe(), os.pipe()
    yield (*there, *here)
    for fd in (*there, *here):
        with suppress(OSError):
            os.close(fd)


def sent_first(message: Any) -> bytes:
    return frame(message if isinstance(message, bytes) else json.dumps(message).encode())


GOOD = {
    "jsonrpc": "2.0",
    "id": "x",
    "method": "initialize",
    "params": {"processId": 1, "rootUri": None, "capabilities": {}},
}


def test_a_sound_initialize_is_answered_and_handed_on(pipes: tuple[int, int, int, int]) -> None:
    read_there, write_there, read_here, write_here = pipes
    more = frame(b'{"jsonrpc": "2.0", "method": "initialized"}')
    os.write(write_there, sent_first(GOOD) + more + b"Content-")
    early = answer_initialize(read_there, write_here)
    assert early.answered == "x"
    assert len(early.received) == 2
    assert early.frames.feed(b"Length: 2\r\n\r\n{}") == [b"{}"]
    answer = os.read(read_here, 1 << 16).partition(b"\r\n\r\n")[2]
    assert json.loads(answer)["id"] == "x"


@pytest.mark.parametrize(
    "message",
    [
        b"garbage",
        b"[" * 100_000,
        [GOOD],
        GOOD | {"jsonrpc": "1.0"},
        GOOD | {"id": None},
        GOOD | {"id": True},
        GOOD | {"method": "shutdown"},
        GOOD | {"params": None},
        GOOD | {"params": {"processId": "1", "capabilities": {}}},
        GOOD | {"params": {"processId": 1, "capabilities": []}},
    ],
)
def test_anything_else_is_left_to_the_server(
    pipes: tuple[int, int, int, int], message: Any
) -> None:
    read_there, write_there, read_here, write_here = pipes
    os.set_blocking(read_here, False)
    os.write(write_there, sent_first(message)[:60_000])
    os.close(write_there)
    assert answer_initialize(read_there, write_here).answered is None
    with pytest.raises(BlockingIOError):
        os.read(read_here, 1)


def test_a_client_that_says_nothing_is_not_answered(pipes: tuple[int, int, int, int]) -> None:
    read_there, write_there, _, write_here = pipes
    os.close(write_there)
    early = answer_initialize(read_there, write_here)
    assert (early.received, early.answered) == ([], None)
