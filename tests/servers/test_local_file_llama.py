"""The server of a model's ``file``: started, shared, and gone with the last that uses it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_model
from fault_server import FaultServer, Peer, Request

from aish_lsp.config.schema import LOCAL_WINDOW, Preset
from aish_lsp.config.sources import checked
from aish_lsp.foundation.errors import AishError, BackendUnavailable
from aish_lsp.foundation.files import data_dir
from aish_lsp.models import local_server
from aish_lsp.models.http import HttpClient
from aish_lsp.models.local_server import served
from aish_lsp.models.providers import describe

pytestmark = [pytest.mark.llama, pytest.mark.slow, pytest.mark.usefixtures("parts", "own_files")]

#: A process that uses the server of a file, says where it is, and waits.
USER = """
import asyncio, json, sys
from aish_lsp.config.schema import Preset
from aish_lsp.models.http import HttpClient
from aish_lsp.models.local_server import served

async def main():
    preset = Preset(name="own", file=sys.argv[1], context_window=512)
    at = await served(preset, HttpClient())
    print(json.dumps([at.endpoint, at.extra_headers]), flush=True)
    sys.stdin.read()

asyncio.run(main())
"""

#: Stands for ``llama-server``: the same server, from its wheel.
PROGRAM = """#!{python}
import os, sys, threading, xllamacpp
open({seen!r}, "w").write("\\n".join(sys.argv[1:]))
option = dict(zip(sys.argv[1::2], sys.argv[2::2]))
p = xllamacpp.CommonParams()
p.model.path, p.hostnames, p.port = option["-m"], [option["--host"]], int(option["--port"])
p.n_ctx, p.n_parallel, p.api_keys = int(option["-c"]), 1, [os.environ["LLAMA_API_KEY"]]
p.endpoint_props = True
server = xllamacpp.Server(p)
threading.Event().wait()
"""


class User:
    """A process that uses the server; ``end`` kills it."""

    def __init__(self, file: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def where(self) -> tuple[str, dict[str, str]]:
        assert self.process.stdout is not None
        endpoint, headers = json.loads(await asyncio.to_thread(self.process.stdout.readline))
        return endpoint, headers

    def end(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def is_open(endpoint: str) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", int(endpoint.rpartition(":")[2]))) == 0


async def until_closed(endpoint: str) -> None:
    async with asyncio.timeout(60):
        while is_open(endpoint):
            await asyncio.sleep(0.05)


@pytest.fixture
def llama_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name on PATH; the file in which it writes its arguments."""
    program, seen = tmp_path / "bin" / "llama-server", tmp_path / "seen"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable, seen=str(seen)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return seen


async def test_two_users_share_a_server_that_ends_when_the_last_of_them_is_killed(
    http: HttpClient,
) -> None:
    first, second = User(tiny_model.model_path()), User(tiny_model.model_path())
    try:
        at, headers = await first.where()
        assert (at, headers) == await second.where()
        props: Any = await http.fetch_json(f"{at}/props", headers=headers, timeout_s=30)
        assert props["default_generation_settings"]["n_ctx"] == 512
        with pytest.raises(AishError, match="401"):
            await http.fetch_json(f"{at}/v1/models", timeout_s=30)
        first.end()
        await http.fetch_json(f"{at}/v1/models", headers=headers, timeout_s=30)
    finally:
        first.end()
        second.end()
    await until_closed(at)
    third = User(tiny_model.model_path())
    try:
        again, _ = await third.where()
        assert is_open(again)
    finally:
        third.end()
    await until_closed(again)
    assert not list((data_dir() / "servers").glob("*.json"))


async def test_the_program_llama_server_is_used_where_there_is_one(
    llama_server: Path, http: HttpClient
) -> None:
    user = User(tiny_model.model_path())
    try:
        at, headers = await user.where()
        await http.fetch_json(f"{at}/v1/models", headers=headers, timeout_s=30)
    finally:
        user.end()
    await until_closed(at)
    arguments = llama_server.read_text().splitlines()
    assert arguments[:6] == ["-m", str(tiny_model.model_path()), "-c", "512", "-np", "1"]
    assert not [key for key in headers.values() if key.removeprefix("Bearer ") in arguments]


async def test_a_server_that_was_killed_is_started_again(
    llama_server: Path, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in ("_used", "_keepers", "_answering"):
        monkeypatch.setattr(local_server, known, {})
    preset = Preset(name="own", file=str(tiny_model.model_path()), context_window=768)
    at = await served(preset, http)
    assert (await served(preset, http)).endpoint == at.endpoint
    [keeper] = local_server._keepers.values()
    os.killpg(keeper.pid, signal.SIGKILL)
    await until_closed(at.endpoint)
    again = await served(preset, http)
    assert is_open(again.endpoint)
    [keeper] = local_server._keepers.values()
    [fd] = local_server._used.values()
    os.close(fd)
    assert await asyncio.to_thread(keeper.wait) == 0
    await until_closed(again.endpoint)


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "No such file"), ("<html>", "not a model in GGUF form"), ("GGUFnonsense", "not start")],
)
async def test_a_file_that_is_not_a_model_is_told(
    text: str | None, message: str, tmp_path: Path, http: HttpClient
) -> None:
    file = tmp_path / "bad.gguf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BackendUnavailable, match=message):
        await served(Preset(name="own", file=str(file)), http)


async def test_an_engine_that_does_not_start_is_told_in_its_own_words(
    llama_server: Path, http: HttpClient, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "llama-server"
    program.write_text(
        "#!/bin/sh\necho 'error while loading shared libraries: libcuda'\nexit 127\n"
    )
    preset = Preset(name="own", file=str(tiny_model.model_path()), context_window=1024)
    with pytest.raises(BackendUnavailable, match=r"does not start.*libcuda"):
        await served(preset, http)


async def test_another_port_is_tried_where_a_program_was_faster_at_the_first(
    llama_server: Path, http: HttpClient, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "llama-server"
    works, tried = program.rename(program.with_name("works")), tmp_path / "tried"
    program.write_text(
        f"#!/bin/sh\n[ -e '{tried}' ] && exec '{works}' \"$@\"\ntouch '{tried}'\n"
        'echo "couldn\'t bind HTTP server socket, hostname: 127.0.0.1"\nexit 1\n'
    )
    program.chmod(0o755)
    user = User(tiny_model.model_path())
    try:
        at, _ = await user.where()
        assert is_open(at)
    finally:
        user.end()
    await until_closed(at)


async def test_what_a_killed_keeper_left_is_not_believed(http: HttpClient) -> None:
    server = local_server._Server(tiny_model.model_path(), 640)
    server.file("json").parent.mkdir(parents=True, exist_ok=True)
    server.file("json").write_text('{"port": 1, "key": "k"}')
    assert local_server._running(server) is None
    assert not server.file("json").exists()


async def test_a_server_that_takes_any_key_is_not_ours_and_gets_none(http: HttpClient) -> None:
    async def stranger(_request: Request, peer: Peer) -> None:
        await peer.reply({"status": "ok"})

    server = local_server._Server(tiny_model.model_path(), 641)
    async with FaultServer(stranger) as there:
        state = {"port": int(there.url.rpartition(":")[2]), "key": "k"}
        assert not await local_server._answers(server, state, http)
        assert not [one for one in there.requests if "authorization" in one.headers]


async def test_without_llama_cpp_it_says_how_to_get_it(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_server, "has_engine", lambda: False)
    with pytest.raises(BackendUnavailable, match=r"aish-lsp\[local\]"):
        await served(Preset(name="own", file=str(tiny_model.model_path())), http)


async def test_what_a_file_says_of_itself_is_known_without_its_server(http: HttpClient) -> None:
    file = tiny_model.model_path()
    info = await describe(http, Preset(name="own", file=str(file)))
    assert (info.models, info.context_window) == ((file.stem,), LOCAL_WINDOW)
    assert not (data_dir() / "servers").exists()
    assert (await describe(http, Preset(name="own", file="/none.gguf"))).models == ()


def test_a_file_and_an_endpoint_are_refused_together() -> None:
    both = {"models": {"own": {"file": "a.gguf", "endpoint": "http://127.0.0.1:1"}}}
    [problem] = checked(both, str).problems
    assert "found `file` and `endpoint`" in str(problem)
