"""Messages that are none, and commands that do not exist, while a reply streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from client import RpcError
from conversing import ask, begin, events, streamed
from fault_server import Peer, Request, chunk_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Bodies that are no message, and the code that answers each.
BODIES = {
    b"{": -32700,
    b"\xff\xfe\0": -32700,
    b"[" * 100_000: -32700,
    b"[]": -32600,
    b"null": -32600,
    b'"aish.ask"': -32600,
    b'{"jsonrpc": "1.0", "id": 900, "method": "shutdown"}': -32600,
    b'{"jsonrpc": "2.0", "id": [1], "method": "shutdown"}': -32600,
    b'{"jsonrpc": "2.0", "id": 901, "method": 5}': -32600,
}

#: Params of workspace/executeCommand, the code, and the field that the error names.
COMMANDS: list[tuple[Any, int, str | None]] = [
    ({"command": "aish.aks"}, 1009, None),
    ({"command": ""}, 1009, None),
    ({"command": 5}, 1009, None),
    ({}, -32602, None),
    ([1, 2], -32602, None),
    ({"command": "aish.ask", "arguments": [{"prompt": "x", "token": 1}]}, -32602, "token"),
    ({"command": "aish.ask", "arguments": [{"prompt": ["x"]}]}, -32602, "prompt"),
    ({"command": "aish.ask", "arguments": ["x"]}, -32602, "arguments"),
    ({"command": "aish.ask", "arguments": [{"prompt": "x"}, 2]}, -32602, "arguments"),
    (
        {"command": "aish.ask", "arguments": [{"prompt": "x", "range": {"start": 1}}]},
        -32602,
        "range.start",
    ),
    ({"command": "aish.run", "arguments": [{"text": "a\0b"}]}, -32602, "text"),
    ({"command": "aish.run", "arguments": [{"commandId": "gone"}]}, 1009, None),
    ({"command": "aish.status", "arguments": [{"workspace": "file:///gone"}]}, 1009, None),
    ({"command": "aish.status", "arguments": [{"workspace": "no URI"}]}, 1009, None),
    ({"command": "aish.model.use", "arguments": [{"name": "gpt-99"}]}, 1009, None),
]


async def test_a_reply_streams_on_through_all_of_it(served: Any) -> None:
    client = served.client
    go_on = asyncio.Event()

    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of("Half "))
        await go_on.wait()
        await peer.event(chunk_of("and half.", finish_reason="stop"))
        await peer.chunk(b"")

    served.script = script
    # It is silent for as long as all of it takes.
    served.place.configure(served.model.url, context_window=8192, timeout=60.0)
    _, answer = await begin(client, "aish.ask", {"prompt": "Well?", "partialResultToken": "t"})
    await client.wait_for(lambda: events(client, "t", "text"), "some text")

    client.errors.clear()
    for body, code in BODIES.items():
        await client.send_body(body)
        await client.wait_for(lambda: client.errors, f"an answer to {body[:60]!r}")
        assert client.errors.pop().code == code, body[:60]
    for params, code, path in COMMANDS:
        with pytest.raises(RpcError) as caught:
            await client.request("workspace/executeCommand", params)
        assert caught.value.code == code, (params, caught.value)
        if path is not None:
            assert caught.value.data["path"] == path, (params, caught.value)
    for method in ("aish/nothing", "textDocument/hover", "window/workDoneProgress/cancel"):
        await client.notify(method, {"token": 5})
        await client.notify(method, ["what"])
    await client.notify("$/cancelRequest", {"id": "nothing"})
    await client.notify("$/cancelRequest", {"id": {}})

    go_on.set()
    result = await client.within(answer, "the answer")
    assert result["text"] == streamed(client, "t") == "Half and half."
    assert result["finishReason"] == "stop"
    served.script = type(served).script
    assert (await ask(client, "And now?", "u"))["text"] == "All is well."


async def test_two_questions_under_one_token(served: Any) -> None:
    """A client's mistake; each request still gets its own answer."""
    client = served.client
    asked = [
        await begin(
            client, "aish.ask", {"prompt": str(n), "partialResultToken": "t"}, workDoneToken="w"
        )
        for n in range(2)
    ]
    for _, answer in asked:
        result = await client.within(answer, "an answer")
        assert (result["text"], result["finishReason"]) == ("All is well.", "stop")
