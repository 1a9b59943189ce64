"""The early answer to ``initialize`` is the one that the server itself would give."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from lsprotocol import types

from aish_lsp.lsp.protocol import REFACTOR_KIND, RUN_KIND
from aish_lsp.lsp.reference import capabilities
from aish_lsp.lsp.server import create_server
from aish_lsp.lsp.stream import CAPABILITIES, answer_initialize, frame, initialize_result

if TYPE_CHECKING:
    from aish_lsp.lsp.server import AishServer

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


def initialized(server: AishServer, params: dict[str, Any]) -> list[Any]:
    """Return what a server sends when it gets an ``initialize`` with these params."""
    sent: list[Any] = []
    writer = SimpleNamespace(write=lambda body: sent.append(json.loads(body)))
    server.protocol.set_writer(writer, include_headers=False)
    params = {"processId": None, "rootUri": None} | params
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    server.protocol.receive(json.dumps(message).encode())
    return sent


def served(client: dict[str, Any]) -> dict[str, Any]:
    """Return what the server itself answers."""
    result: dict[str, Any] = initialized(create_server(), {"capabilities": client})[0]["result"]
    return result


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_the_early_answer_is_the_servers(client: dict[str, Any]) -> None:
    assert initialize_result(client) == served(client), "run ./dev docs"


UTF_8 = {"general": {"positionEncodings": ["utf-8"]}}


@pytest.mark.parametrize(
    "params",
    [
        {"capabilities": UTF_8 | {"window": 5}},
        {"capabilities": {"general": {"positionEncodings": ["utf-8"], "markdown": 5}}},
        {"capabilities": {"general": {"positionEncodings": {"utf-8": 1}}}},
        {"capabilities": UTF_8, "workspaceFolders": [5]},
        {"capabilities": UTF_8 | {"window": 5}, "clientInfo": {}, "trace": "loud"},
        {"capabilities": {"general": {"positionEncodings": 5}}},
    ],
    ids=str,
)
def test_what_is_malformed_in_an_initialize_takes_nothing_back(params: dict[str, Any]) -> None:
    server = create_server()
    server.protocol.answered = 1
    assert initialized(server, params | {"rootUri": "file:///here"}) == []
    assert server.protocol.initialized
    told = initialize_result(params["capabilities"])["capabilities"]["positionEncoding"]
    assert server.workspace.position_encoding == told
    assert list(server.workspace.folders) == ["file:///here"]


def test_the_file_is_what_pygls_builds_of_the_features() -> None:
    assert CAPABILITIES.read_text() == capabilities(), "run ./dev docs"


def test_our_kinds_of_actions_are_named() -> None:
    kinds = json.loads(CAPABILITIES.read_text())["codeActionProvider"]["codeActionKinds"]
    assert {RUN_KIND, REFACTOR_KIND} <= set(kinds)


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
