"""The protocol against a real process: what the message tests cannot see from the inside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from client import Client, RpcError, Transport, execute, never


async def test_a_whole_session(
    transport: Transport, echo_client: Callable[..., Client], folder: Path
) -> None:
    async with echo_client(transport) as client:
        result = await client.initialize(folder)
        assert result["serverInfo"]["name"] == "aish-lsp"
        text = "é \u2028 \U0001f600 \x00"
        assert (await client.command_result("test.echo", {"value": text}))["value"] == text
        with pytest.raises(RpcError) as caught:
            await client.command_result("test.fail", {"value": "aish"})
        assert caught.value.data == {"kind": "backendRejected", "status": 401}
        request_id, answer = await client.begin(
            "workspace/executeCommand", execute("test.partial", workDoneToken="w")
        )
        await client.wait_for(lambda: len(client.progress["w"]) == 2, "progress")
        await client.notify("$/cancelRequest", {"id": request_id})
        assert await answer == {"cancelled": True}
        assert [value["kind"] for value in client.progress["w"]] == ["begin", "report", "end"]
        assert await client.shutdown() == 0


async def test_bad_messages_are_answered_and_the_session_goes_on(
    transport: Transport, echo_client: Callable[..., Client]
) -> None:
    async with echo_client(transport) as client:
        await client.initialize()
        for body in (b"{", b"[]", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "method": 5}'):
            await client.send_body(body)
        await client.wait_for(lambda: len(client.errors) == 4, "four errors")
        assert [error.code for error in client.errors] == [-32700, -32600, -32600, -32600]
        assert await client.command_result("test.echo", {"value": 1})


async def test_bad_framing_is_answered_and_the_session_goes_on(echo: Client) -> None:
    await echo.send_raw(b"Content-Length: -1\r\n\r\n")
    await echo.send_raw(b"no header at all\r\n\r\n{}")
    await echo.send_raw(b"content-type: x\r\ncontent-LENGTH:4\r\n\r\nnull")
    await echo.wait_for(lambda: len(echo.errors) == 3, "three errors")
    assert [error.code for error in echo.errors] == [-32700, -32700, -32600]
    assert await echo.command_result("test.echo")


async def test_a_large_message_both_ways(
    transport: Transport, echo_client: Callable[..., Client]
) -> None:
    async with echo_client(transport) as client:
        await client.initialize()
        text = "é" * 2_000_000
        assert (await client.command_result("test.echo", {"value": text}))["value"] == text


async def test_commands_that_keep_every_thread_do_not_make_the_server_deaf(echo: Client) -> None:
    for _ in range(60):
        await echo.begin("workspace/executeCommand", execute("test.block", {"seconds": 60}))
    assert await echo.command_result("test.echo", {"value": 1}, timeout=10)
    assert await echo.shutdown() == 0


async def test_a_flood_of_calls_leaves_nothing_behind(echo: Client) -> None:
    answers = []
    for number in range(2_000):
        params = execute("test.echo", {"value": number}, workDoneToken=f"w{number}")
        answers.append((await echo.begin("workspace/executeCommand", params))[1])
    results = await echo.within(asyncio.gather(*answers), "all answers")
    assert [result["value"] for result in results] == list(range(2_000))
    request_id, answer = await echo.begin("workspace/executeCommand", execute("test.slow"))
    await echo.notify("$/cancelRequest", {"id": request_id})
    with pytest.raises(RpcError, match="-32800"):
        await echo.within(answer, "the answer to a cancelled request")
    assert await echo.command_result("test.tables") == {
        "calls": 1,
        "futures": 1,
        "pending": 0,
        "tokens": 0,
    }


async def test_a_client_that_never_answers_holds_nobody_up(echo: Client) -> None:
    for method in ("window/showDocument", "window/showMessageRequest"):
        echo.answers[method] = never
        ask = {"method": method, "seconds": 0.1, "value": {"uri": "x", "type": 1, "message": "m"}}
        assert await echo.command_result("test.ask", ask) == {"timeout": True}
    assert (await echo.command_result("test.tables"))["pending"] == 0


async def test_the_clients_answers_come_back(echo: Client) -> None:
    ask = {"method": "workspace/configuration", "value": {"items": [{"section": "aish"}]}}
    echo.answers["workspace/configuration"] = lambda _: [{"a": 1}]
    assert "'a': 1" in (await echo.command_result("test.ask", ask))["answer"]
    ask = {"method": "client/unheardOf", "value": {}}
    assert (await echo.command_result("test.ask", ask))["code"] == -32601


async def test_progress_of_the_servers_own_can_be_cancelled(echo: Client) -> None:
    _, answer = await echo.begin(
        "workspace/executeCommand", execute("test.progress", {"value": "wait"})
    )
    (params,) = await echo.wait_for(lambda: echo.asked("window/workDoneProgress/create"), "a token")
    token = params["token"]
    await echo.wait_for(lambda: echo.progress[token], "the beginning")
    await echo.notify("window/workDoneProgress/cancel", {"token": token})
    assert await answer == {"cancelled": True}
    assert echo.progress[token] == [
        {"kind": "begin", "title": "Ours", "cancellable": True, "message": "on the way"},
        {"kind": "end", "message": "over"},
    ]


async def test_progress_is_not_forced_on_a_client_without_it(
    echo_client: Callable[..., Client],
) -> None:
    async with echo_client() as client:
        await client.initialize(capabilities={})
        assert await client.command_result("test.progress") == {"cancelled": False}
        assert client.requests == []
        assert not client.progress


async def test_the_log_holds_no_payload(echo_client: Callable[..., Client]) -> None:
    async with echo_client(arguments=["--log-level", "debug"]) as client:
        await client.initialize(options={"aish": {"key": "sk-secret"}})
        await client.command_result("test.echo", {"value": "sk-secret"})
        for argument in ({"value": "sk-secret"}, {"value": "unsendable"}, {"count": "sk-secret"}):
            with pytest.raises(RpcError):
                await client.command_result("test.fail", argument)
        await client.send_body(json.dumps({"jsonrpc": "2.0", "sk-secret": 1}).encode())
        await client.shutdown()
        assert "RuntimeError" in client.stderr
        assert "sk-" not in client.stderr


async def test_documents_are_followed(
    transport: Transport, echo_client: Callable[..., Client]
) -> None:
    async with echo_client(transport) as client:
        await client.initialize()
        item = {"uri": "file:///d", "languageId": "x", "version": 1, "text": "a\u2028é😀b\nc"}
        await client.notify("textDocument/didOpen", {"textDocument": item})
        place = {"line": 0, "character": len("a\u2028é😀".encode())}
        change = {"range": {"start": place, "end": place}, "text": "!"}
        identifier = {"uri": "file:///d", "version": 2}
        params = {"textDocument": identifier, "contentChanges": [change]}
        await client.notify("textDocument/didChange", params)
        found = await client.command_result("test.document", {"method": "file:///d"})
        assert found == {"source": "a\u2028é😀!b\nc", "version": 2}
