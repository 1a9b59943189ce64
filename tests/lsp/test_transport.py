"""Streams, slow clients, and who may connect."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fork_server
import pytest
from client import Client, RpcError, Transport, connect, execute

ECHO = str(Path(__file__).with_name("echo_server.py"))


async def test_nothing_else_reaches_the_clients_stream(echo: Client) -> None:
    # A child finds an empty stdin and not the client's messages.
    assert await echo.command_result("test.noise") == {"read": ""}
    assert (await echo.command_result("test.echo", {"value": 1}))["value"] == 1
    assert echo.errors == []
    noises = ("printed", "written", "echoed")
    await echo.wait_for(lambda: all(one in echo.stderr for one in noises), "the noise on stderr")


async def test_a_client_that_stops_reading_does_not_stall_the_server(
    transport: Transport, echo_client: Callable[..., Client], tmp_path: Path
) -> None:
    ticks = tmp_path / "ticks"
    async with echo_client(transport) as client:
        await client.initialize()
        client.pause_reading()
        _, streamed = await client.begin(
            "workspace/executeCommand",
            execute("test.stream", {"token": "s", "count": 400, "size": 100_000}),
        )
        await asyncio.sleep(0.5)
        _, ticked = await client.begin(
            "workspace/executeCommand", execute("test.tick", {"method": str(ticks), "count": 20})
        )
        for _ in range(1_000):
            if ticks.exists() and ticks.read_text() == "19":
                break
            await asyncio.sleep(0.01)
        assert ticks.read_text() == "19"
        assert not streamed.done()
        assert not ticked.done()
        client.resume_reading()
        # Back-pressure kept what waited to about a megabyte.
        assert (await client.within(streamed, "the stream's end"))["queued"] < 2 << 20
        assert [value["number"] for value in client.progress["s"]] == list(range(400))


async def test_a_client_that_never_reads_again_counts_as_gone(
    echo_client: Callable[..., Client],
) -> None:
    async with echo_client() as client:
        await client.initialize()
        client.pause_reading()
        careless = {"token": "s", "count": 80, "size": 1_000_000, "value": "careless"}
        await client.begin("workspace/executeCommand", execute("test.stream", careless))
        assert await client.ended() == 1
        assert "stopped reading" in client.stderr


async def test_a_message_split_into_single_bytes_is_read(echo: Client) -> None:
    body = '{"jsonrpc": "2.0", "id": 77, "method": "$/é"}'.encode()
    for byte in b"Content-Length: %d\r\n\r\n" % len(body) + body:
        await echo.send_raw(bytes([byte]))
    await echo.wait_for(lambda: echo.errors, "the answer")
    assert echo.errors[0].code == -32601


def pipe(script: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run the server with a whole conversation as its stdin."""
    command = fork_server.command_for([sys.executable, ECHO])
    return subprocess.run(command, input=script, capture_output=True, timeout=60, check=False)


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the server until it ends by itself."""
    command = fork_server.command_for([sys.executable, ECHO, *arguments])
    return subprocess.run(command, capture_output=True, timeout=60, check=False)


def frames(*bodies: str) -> bytes:
    return b"".join(
        b"Content-Length: %d\r\n\r\n%b" % (len(body.encode()), body.encode()) for body in bodies
    )


INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
SHUTDOWN = '{"jsonrpc":"2.0","id":2,"method":"shutdown"}'
EXIT = '{"jsonrpc":"2.0","method":"exit"}'


@pytest.mark.parametrize(
    ("script", "answers", "code"),
    [
        (frames(INITIALIZE, SHUTDOWN, EXIT), 2, 0),
        (frames(INITIALIZE, EXIT), 1, 1),
        (frames(INITIALIZE, SHUTDOWN), 2, 0),
        (frames(INITIALIZE), 1, 1),
        (frames(INITIALIZE) + b"Content-Length: 100\r\n\r\n{", 1, 1),
        (b"\x00\xff" * 1_000, 0, 1),
    ],
)
def test_a_whole_conversation_through_a_pipe(script: bytes, answers: int, code: int) -> None:
    done = pipe(script)
    assert done.stdout.count(b'"id":') == answers
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


# Sockets


async def test_a_second_client_is_refused_clearly(echo_client: Callable[..., Client]) -> None:
    async with echo_client("ws") as client:
        await client.initialize()
        assert await refused(client.address) == 503
        assert await client.command_result("test.echo")


async def refused(address: str, **options: Any) -> int:
    """Return the HTTP status with which a connection is refused."""
    from websockets.asyncio.client import connect as open_websocket
    from websockets.exceptions import InvalidStatus

    with pytest.raises(InvalidStatus) as caught:
        async with open_websocket(address, **options):
            pass
    return caught.value.response.status_code


async def test_only_who_knows_the_token_gets_in_and_no_browser(
    echo_client: Callable[..., Client],
) -> None:
    listening = await listen("--ws", "127.0.0.1:0")
    process, address = listening
    try:
        bare, _, token = address.partition("/?token=")
        assert len(token) >= 24
        assert await refused(bare) == 401
        assert await refused(f"{bare}/?token={token[:-1]}") == 401
        assert await refused(f"{bare}/?token={token}x") == 401
        assert await refused(f"{bare}/?token=%C3%A9") == 401
        assert await refused(f"{bare}//[") == 401
        assert await refused(bare, additional_headers={"Authorization": "Bearer x"}) == 401
        assert await refused(bare, additional_headers={"Authorization": f"Basic {token}"}) == 401
        for origin in ("https://evil.example", "null", "http://127.0.0.1"):
            assert await refused(address, additional_headers={"Origin": origin}) == 403
        # None of them took the client's place.
        from websockets.asyncio.client import connect as open_websocket

        header = {"Authorization": f"Bearer {token}"}
        async with open_websocket(bare, additional_headers=header) as connection:
            await connection.send(INITIALIZE)
            assert '"aish-lsp"' in await connection.recv()
        assert await asyncio.wait_for(process.wait(), 10) == 1
    finally:
        await end(process)


def port_of(address: str) -> int:
    return int(address.partition("/?")[0].rpartition(":")[2])


#: What a client may say without having begun a session.
STRANGERS = {
    "nothing": None,
    "no JSON": "{",
    "a notification": '{"jsonrpc":"2.0","method":"initialized"}',
    "another request": SHUTDOWN,
    "an initialize that cannot be read": INITIALIZE.replace('{"capabilities":{}}', "5"),
}


@pytest.mark.parametrize("said", STRANGERS)
async def test_a_client_that_leaves_without_a_session_lets_another_begin_one(said: str) -> None:
    process, address = await listen("--ws", "127.0.0.1:0")
    try:
        stranger = await connect(address)
        if (body := STRANGERS[said]) is not None:
            await stranger.send(body.encode())
        if said in ("another request", "no JSON"):
            assert b'"error"' in (await asyncio.wait_for(stranger.receive(), 30) or b"")
        assert await refused(address) == 503
        await stranger.close()
        editor = await begun(address)
        await editor.send(SHUTDOWN.encode())
        assert (
            await asyncio.wait_for(editor.receive(), 30)
            == b'{"jsonrpc":"2.0","id":2,"result":null}'
        )
        await editor.send(EXIT.encode())
        assert await asyncio.wait_for(process.wait(), 30) == 0
        await editor.close()
    finally:
        await end(process)


async def test_half_a_handshake_does_not_hold_the_place() -> None:
    process, address = await listen("--ws", "127.0.0.1:0")
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(address))
        writer.write(b"GET / HTTP/1.1\r\nHo")
        await (await begun(address)).close()
        assert await asyncio.wait_for(process.wait(), 30) == 1
        writer.close()
    finally:
        await end(process)


async def begun(address: str) -> Any:
    """Return a connection with a session, once the server accepts it."""
    from websockets.exceptions import InvalidStatus

    while True:
        try:
            editor = await connect(address)
            break
        except InvalidStatus:
            # The server has yet to notice that the client before is gone.
            await asyncio.sleep(0.05)
    await editor.send(INITIALIZE.encode())
    assert b'"aish-lsp"' in (await asyncio.wait_for(editor.receive(), 30) or b"")
    return editor


async def listen(
    *arguments: str, program: Sequence[str] = (ECHO,)
) -> tuple[asyncio.subprocess.Process, str]:
    """Start a server; return it and the address that it prints."""
    process = await asyncio.create_subprocess_exec(
        *fork_server.command_for([sys.executable, *program, *arguments]),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    line = (await asyncio.wait_for(process.stderr.readline(), 90)).decode()
    found = re.fullmatch(r"aish-lsp: listening on (\S+)\n", line)
    assert found, line
    return process, found[1]


async def end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.communicate()


async def test_the_ids_of_the_servers_requests_cannot_be_guessed(
    echo_client: Callable[..., Client],
) -> None:
    prefixes = set()
    for _ in range(2):
        async with echo_client("ws") as client:
            await client.initialize()
            seen = record_ids(client)
            for _ in range(2):
                await client.command_result("test.ask", {"method": "client/x", "value": {}})
        assert len(set(seen)) == 2
        found = {re.fullmatch(r"aish-([0-9a-f]{32})-\d+", one) for one in seen}
        assert None not in found
        prefixes |= {one[1] for one in found if one}
    assert len(prefixes) == 2


def record_ids(client: Client) -> list[str]:
    """Return a list to which the id of each request of the server is added."""
    seen: list[str] = []
    dispatch = client._dispatch

    def noted(message: Any) -> None:
        if "method" in message and "id" in message:
            seen.append(message["id"])
        dispatch(message)

    client._dispatch = noted  # type: ignore[method-assign]
    return seen


async def test_another_interface_is_bound_when_named_and_with_a_warning() -> None:
    process, address = await listen("--ws", "0.0.0.0:0")
    try:
        assert address.startswith("ws://0.0.0.0:")
        assert process.stderr is not None
        assert b"warning" in await asyncio.wait_for(process.stderr.readline(), 30)
    finally:
        await end(process)


async def test_a_port_that_is_taken_is_told() -> None:
    process, address = await listen("--ws", "127.0.0.1:0")
    try:
        done = await asyncio.to_thread(run, "--ws", f"127.0.0.1:{port_of(address)}")
        assert done.returncode == 1
        assert done.stderr.startswith(b"aish-lsp: ")
        assert b"Traceback" not in done.stderr
    finally:
        await end(process)


def test_wrong_use_exits_with_2() -> None:
    done = run("--ws", "nonsense")
    assert done.returncode == 2
    assert b"usage: aish-lsp serve" in done.stderr
    assert done.stdout == b""


def test_a_log_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    done = run("--log-file", str(tmp_path / "missing" / "log"))
    assert done.returncode == 1
    assert b"missing" in done.stderr
    assert b"Traceback" not in done.stderr


async def test_the_connection_of_a_client_that_is_gone_ends_the_server(
    echo_client: Callable[..., Client],
) -> None:
    async with echo_client("ws") as client:
        await client.initialize()
        await client.begin("workspace/executeCommand", execute("test.slow"))
        await client._stream.close()
        assert await client.ended() == 1
        with pytest.raises((RpcError, ConnectionError)):
            await client.request("shutdown")
