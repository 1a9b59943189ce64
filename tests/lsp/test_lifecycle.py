"""How the process ends, whatever it is doing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from client import Client, RpcError, execute

from aish_lsp.lsp.lifecycle import PARENT_INTERVAL

pytestmark = pytest.mark.real_start

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
ECHO = str(Path(__file__).with_name("echo_server.py"))


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Return the file that the test server's shutdown hook writes."""
    return tmp_path / "record"


@pytest.fixture
async def server(echo_client: Callable[..., Client], record: Path) -> AsyncIterator[Client]:
    """Return a client of a server that runs a command which ends when it is cancelled."""
    arguments = ["--log-level", "info"]
    async with echo_client(env={"ECHO_RECORD": str(record)}, arguments=arguments) as client:
        await client.initialize()
        yield client


async def partial(client: Client) -> asyncio.Future[object]:
    """Start a command that ends by itself when it is cancelled."""
    _, answer = await client.begin(
        "workspace/executeCommand", execute("test.partial", workDoneToken="w")
    )
    await client.wait_for(lambda: client.progress["w"], "the command to begin")
    return answer


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_signal_ends_it_with_everything_recorded(
    server: Client, record: Path, number: signal.Signals
) -> None:
    if number == signal.SIGHUP and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup")
    answer = await partial(server)
    server.process.send_signal(number)
    assert await answer == {"cancelled": True}
    assert await server.ended() == 0
    assert record.read_text() == "recorded"
    assert number.name in server.stderr


async def test_the_end_of_stdin_ends_it(server: Client, record: Path) -> None:
    answer = await partial(server)
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert await answer == {"cancelled": True}
    assert await server.ended() == 1
    assert record.read_text() == "recorded"


async def test_shutdown_answers_when_everything_is_recorded(server: Client, record: Path) -> None:
    answer = await partial(server)
    assert await server.request("shutdown") is None
    assert record.read_text() == "recorded"
    assert answer.result() == {"cancelled": True}
    with pytest.raises(RpcError, match="-32600"):
        await server.command_result("test.echo")
    await server.notify("exit")
    assert await server.ended() == 0


async def test_exit_without_shutdown_still_records(server: Client, record: Path) -> None:
    await partial(server)
    await server.notify("exit")
    assert await server.ended() == 1
    assert record.read_text() == "recorded"


async def test_an_exit_that_does_not_wait_for_shutdown_still_records(
    server: Client, record: Path
) -> None:
    await partial(server)
    await server.begin("shutdown")
    await server.notify("exit")
    assert await server.ended() == 0
    assert record.read_text() == "recorded"


async def test_threads_that_hang_do_not_keep_it(server: Client, record: Path) -> None:
    for _ in range(40):
        await server.begin("workspace/executeCommand", execute("test.block", {"seconds": 120}))
    await server.command_result("test.echo")
    server.process.send_signal(signal.SIGTERM)
    assert await server.ended() == 0
    assert record.read_text() == "recorded"


async def test_an_event_loop_that_hangs_does_not_keep_it(server: Client) -> None:
    await server.begin("workspace/executeCommand", execute("test.hang", {"seconds": 120}))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    await server.ended()
    assert 2 < time.monotonic() - began < 15


async def test_a_second_signal_ends_it_at_once(server: Client) -> None:
    await server.begin("workspace/executeCommand", execute("test.hang", {"seconds": 120}))
    await asyncio.sleep(0.3)
    server.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.2)
    server.process.send_signal(signal.SIGINT)
    assert await server.ended(10) == 128 + signal.SIGINT


async def test_a_client_that_does_not_read_does_not_keep_it(server: Client) -> None:
    server.pause_reading()
    careless = {"token": "s", "count": 30, "size": 1_000_000, "value": "careless"}
    await server.begin("workspace/executeCommand", execute("test.stream", careless))
    await asyncio.sleep(0.5)
    server.process.send_signal(signal.SIGTERM)
    assert await server.ended() == 0


PARENT = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdin=0, stdout=1)
print(child.pid, file=sys.stderr, flush=True)
{wait}
"""


def body(text: str) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(text.encode()), text.encode())


@pytest.mark.parametrize("wrapped", [False, True])
def test_it_ends_when_the_editor_is_gone_though_stdin_stays_open(wrapped: bool) -> None:
    # The editor is the child here; its stdin, which the server inherits, is ours and stays open.
    command = [sys.executable, ECHO]
    if wrapped:  # as by a shell script or a tool that runs tools
        command = ["sh", "-c", '"$0" "$@"; true', *command]
    editor = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(wait="child.wait()"), "x", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with editor:
        assert editor.stdin
        assert editor.stdout
        assert editor.stderr
        initialize = (
            '{"jsonrpc":"2.0","id":1,"method":"initialize",'
            f'"params":{{"capabilities":{{}},"processId":{editor.pid}}}}}'
        )
        editor.stdin.write(body(initialize))
        editor.stdin.flush()
        assert editor.stdout.readline().startswith(b"Content-Length")
        editor.kill()
        # The streams end when the last process that holds them has ended.
        said = editor.stderr.read()
        assert b"the client's process is gone" in said


async def test_a_process_that_is_not_the_editor_may_end(
    echo_client: Callable[..., Client],
) -> None:
    with subprocess.Popen(["sleep", "0.5"]) as stranger:
        async with echo_client() as client:
            await client.initialize(processId=stranger.pid)
            await asyncio.to_thread(stranger.wait)
            await asyncio.sleep(PARENT_INTERVAL + 0.5)
            assert await client.command_result("test.echo")


def test_the_version_is_told_without_starting_anything() -> None:
    script = (
        "import sys; from aish_lsp.__main__ import main; main(['--version']);"
        "assert 'lsprotocol' not in sys.modules"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.startswith("aish-lsp ")
