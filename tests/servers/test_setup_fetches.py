"""``aish-lsp setup`` on a machine without a model: it fetches one, and talks with it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tiny_model
from client import execute
from command_line import at_terminal
from conversing import Place, no, yes
from fault_server import FaultServer, Peer, Request, Script, unused_port
from machine import needs
from trained_model import fetched

from aish_lsp.foundation.errors import BackendUnavailable
from aish_lsp.models import fetching
from aish_lsp.models.fetching import Fetcher, small_models
from aish_lsp.models.http import HttpClient

pytestmark = pytest.mark.slow

HUB = "" if find_spec("huggingface_hub") else "needs the package huggingface_hub"
LLAMA = "" if find_spec("xllamacpp") and find_spec("gguf") else "needs xllamacpp and gguf"

#: What is typed to get the first of the small models.
GET_ONE = {
    "should answer? [2]": "\n",
    "Which model? [1]": "1\n",
    "Fetch 1.1 GB from 127.0.0.1": "y\n",
}


@pytest.fixture
def model() -> bytes:
    """A model's file, large enough to arrive in several pieces."""
    return tiny_model.model_path().read_bytes() + bytes(24_000_000)


def hub(content: bytes, cut_at: int | None = None, digest: str = "") -> Script:
    """Return a hub that has one file, whatever it is called.

    The first request for it is cut after ``cut_at`` bytes.
    """
    etag = digest or hashlib.sha256(content).hexdigest()
    cuts = [] if cut_at is None else [cut_at]

    async def answer(request: Request, peer: Peer) -> None:
        begin = int(request.headers.get("range", "bytes=0-")[6:].partition("-")[0])
        status = (
            f"206 Partial Content\r\nContent-Range: bytes {begin}-{len(content) - 1}/{len(content)}"
        )
        head = [
            f"HTTP/1.1 {status if begin else '200 OK'}",
            f"Content-Length: {len(content) - begin}",
            f'ETag: "{etag}"',
            f"X-Repo-Commit: {'a' * 40}",
            "Accept-Ranges: bytes",
        ]
        await peer.send("\r\n".join([*head, "", ""]).encode())
        if request.method == "GET":
            await peer.send(content[begin : cuts[0] if cuts else len(content)])
            if cuts:
                cuts.clear()
                peer.half_close()

    return answer


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "work").mkdir()
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "AISH_DATA_DIR": str(tmp_path / "data"),
        "AISH_CONFIG": str(tmp_path / "config.toml"),
        "AISH_DISCOVERY": "off",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "OLLAMA_HOST": f"127.0.0.1:{unused_port()}",
        "HF_HOME": str(tmp_path / "hub"),
    }


async def unheard(_progress: str) -> None:
    """Let nobody hear of the progress."""


async def set_up(
    environment: dict[str, str], answers: dict[str, str], code: int = 0, command: str = "setup"
) -> str:
    work = f"{environment['HOME']}/work"
    arguments = [*command.split("|"), "--workspace", work]
    said = await asyncio.to_thread(at_terminal, environment, arguments, answers, code=code)
    return " ".join(said.split())


@needs(HUB or LLAMA)
async def test_from_nothing_to_a_conversation_with_a_fetched_model_in_one_run(
    environment: dict[str, str], tmp_path: Path
) -> None:
    content = tiny_model.model_path().read_bytes()
    written = {"A name for it": "\n", "Write it?": "y\n"}
    async with FaultServer(hub(content)) as server:
        environment["HF_ENDPOINT"] = server.url
        said = await set_up(environment, GET_ONE | written)
    assert "Qwen2.5-Coder 1.5B: 1.1 GB, Apache 2.0;" in said
    assert "It works." in said
    config = (tmp_path / "config.toml").read_text()
    assert "[models.local]\n" in config
    assert f'file = "{tmp_path}/hub/hub/models--Qwen' in config
    assert "context_window = 8192" in config
    async with asyncio.timeout(60):
        while list((tmp_path / "data" / "servers").glob("*.json")):
            await asyncio.sleep(0.05)


@needs(HUB or LLAMA)
async def test_behind_a_proxy_the_hub_is_asked_through_it(environment: dict[str, str]) -> None:
    content = tiny_model.model_path().read_bytes()
    answers = GET_ONE | {"A name for it": "\n", "Write it?": "y\n"}
    answers["Fetch 1.1 GB from hub.example"] = answers.pop("Fetch 1.1 GB from 127.0.0.1")
    async with FaultServer(hub(content)) as proxy:
        environment |= {"HF_ENDPOINT": "http://hub.example", "HTTP_PROXY": proxy.url}
        environment |= {"http_proxy": proxy.url, "NO_PROXY": "", "no_proxy": ""}
        said = await set_up(environment, answers)
        assert proxy.requests[0].path.startswith("http://hub.example/Qwen/")
    assert "It works." in said


@needs(HUB or LLAMA)
async def test_a_trained_model_from_the_hub_answers(
    environment: dict[str, str], tmp_path: Path
) -> None:
    content = fetched(tmp_path).read_bytes()
    written = {"A name for it": "\n", "Write it?": "y\n"}
    async with FaultServer(hub(content)) as server:
        environment["HF_ENDPOINT"] = server.url
        said = await set_up(environment, GET_ONE | written)
    assert "hello" in said.partition("Asking local")[2].partition("short sentence.")[2].lower()


@needs(HUB or LLAMA)
async def test_without_a_yes_nothing_is_fetched(environment: dict[str, str]) -> None:
    async with FaultServer(hub(b"")) as server:
        environment["HF_ENDPOINT"] = server.url
        answers = GET_ONE | {"Fetch 1.1 GB from 127.0.0.1": "\n", "one, then?": "3\n"}
        await set_up(environment, answers)
        assert server.requests == []


@needs(HUB or LLAMA)
async def test_a_download_that_is_cut_goes_on_where_it_was(
    environment: dict[str, str], model: bytes
) -> None:
    written = {"A name for it": "\n", "Write it?": "y\n"}
    async with FaultServer(hub(model, cut_at=len(model) // 2)) as server:
        environment["HF_ENDPOINT"] = server.url
        said = await set_up(environment, GET_ONE | written)
        ranges = [one.headers.get("range") for one in server.requests if one.method == "GET"]
    assert "It works." in said
    assert any(begin and begin > "bytes=0" for begin in ranges[1:])


@needs(HUB or LLAMA)
@pytest.mark.parametrize(
    "content", [b"<html>Sign in to the network</html>", b"GGUF not what was named"]
)
async def test_a_file_that_is_not_what_was_named_is_removed(
    content: bytes, environment: dict[str, str], tmp_path: Path
) -> None:
    async with FaultServer(hub(content, digest="b" * 64)) as server:
        environment["HF_ENDPOINT"] = server.url
        said = await set_up(environment, GET_ONE | {"one, then?": "3\n"})
    assert "was damaged on its way, and was removed" in said
    assert not (tmp_path / "config.toml").exists()
    assert not list(tmp_path.glob("hub/hub/*/blobs/*"))


@needs(HUB or LLAMA)
async def test_a_hub_that_refuses_is_quoted(environment: dict[str, str], tmp_path: Path) -> None:
    async def gone(_request: Request, peer: Peer) -> None:
        await peer.reply({"error": "Repository not found"}, "404 Not Found")

    async with FaultServer(gone) as server:
        environment["HF_ENDPOINT"] = server.url
        said = await set_up(environment, GET_ONE | {"one, then?": "3\n"})
    assert "404" in said
    assert "was not fetched" in said
    assert not (tmp_path / "config.toml").exists()


@needs(HUB or LLAMA)
async def test_a_fetch_that_is_stopped_twice_ends_the_program_and_writes_nothing(
    environment: dict[str, str], tmp_path: Path, model: bytes
) -> None:
    async def slow(request: Request, peer: Peer) -> None:
        if request.method == "HEAD":
            await hub(model)(request, peer)
            return
        await peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(model)}\r\n\r\n".encode())
        await peer.send(model[: len(model) // 2])
        await peer.wait_closed()

    async with FaultServer(slow) as server:
        environment["HF_ENDPOINT"] = server.url
        answers = GET_ONE | {" 0%|": "\x03", "one, then?": "\x03"}
        said = await set_up(environment, answers, code=130)
    assert "Stopped. What has arrived is kept" in said
    assert not (tmp_path / "config.toml").exists()


def ollama(*steps: dict[str, Any]) -> Script:
    """Return an Ollama that pulls in these steps, and says hello."""

    async def answer(request: Request, peer: Peer) -> None:
        if request.path == "/api/version":
            await peer.reply({"version": "0.30.0"})
            return
        await peer.head(kind="application/x-ndjson")
        if request.path == "/api/pull":
            for step in steps:
                await peer.chunk(json.dumps(step).encode() + b"\n")
        else:
            said = {"message": {"role": "assistant", "content": "Hello."}, "done": True}
            await peer.chunk(json.dumps(said | {"done_reason": "stop"}).encode() + b"\n")
        await peer.chunk(b"")

    return answer


PULLED: tuple[dict[str, Any], ...] = (
    {"status": "pulling manifest"},
    *(
        {"status": "pulling 60e05f210007", "total": 1_000_000_000, "completed": done}
        for done in (0, 40_000_000, 410_000_000, 1_000_000_000)
    ),
    {"status": "verifying sha256 digest"},
)


async def test_ollama_pulls_the_model_and_answers_with_its_window_set(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async with FaultServer(ollama(*PULLED, {"status": "success"})) as server:
        environment["OLLAMA_HOST"] = server.url.removeprefix("http://")
        answers = {"should answer? [2]": "\n", "Which model? [1]": "1\n"}
        answers |= {"from registry.ollama.ai": "y\n", "A name for it": "\n", "Write it?": "y\n"}
        said = await set_up(environment, answers)
        [asked] = [one.json for one in server.requests if one.path == "/api/chat"]
        [pulled] = [one.json for one in server.requests if one.path == "/api/pull"]
    assert pulled["model"] == asked["model"] == "qwen2.5-coder:1.5b"
    assert asked["options"]["num_ctx"] == 8192
    assert "pulling 60e05f210007: 40 % of 1,000 MB" in said
    assert "It works." in said
    assert 'provider = "ollama"' in (tmp_path / "config.toml").read_text()


async def test_in_the_chat_a_small_model_is_fetched_after_a_yes_and_answers_from_then_on(
    tmp_path: Path,
) -> None:
    place = Place.make(tmp_path)
    pulled = ollama(*PULLED, {"status": "success"})
    async with FaultServer(pulled) as server, place.client(OLLAMA_HOST=server.url) as client:
        client.answers["window/showMessageRequest"] = no
        await client.initialize(place.folder)
        added = await client.command_result("aish.model.add", {"choice": "small 1"})
        assert added["added"] is None
        assert "/api/pull" not in [one.path for one in server.requests]
        client.answers["window/showMessageRequest"] = yes
        added = await client.command_result("aish.model.add", {"choice": "small 1"})
        asked = [params for method, params in client.requests if method.endswith("MessageRequest")]
    assert "Fetch 1.1 GB from registry.ollama.ai?" in asked[0]["message"]
    assert (added["added"], added["active"]) == ("local", "local")


async def test_a_fetch_ends_when_the_request_that_waits_for_it_is_cancelled(
    tmp_path: Path,
) -> None:
    place = Place.make(tmp_path)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def pull(request: Request, peer: Peer) -> None:
        if request.path != "/api/pull":
            await peer.reply({"version": "0.30.0"})
            return
        await peer.head(kind="application/x-ndjson")
        begun.set()
        await peer.wait_closed()
        ended.set()

    async with FaultServer(pull) as server, place.client(OLLAMA_HOST=server.url) as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(place.folder)
        argument = execute("aish.model.connect", {"choice": "small 1"})
        number, answer = await client.begin("workspace/executeCommand", argument)
        await client.within(begun.wait(), "the fetch")
        await client.notify("$/cancelRequest", {"id": number})
        await client.within(ended.wait(), "the end of the fetch")
        connected = await client.within(answer, "the answer")
    assert connected["problem"].startswith("Stopped. What has arrived is kept")


HF = """#!{python}
import http.server, json, os, sys
option = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert option["-hf"] == "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q4_K_M"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({{"model_path": {path!r}}}).encode())
{trouble}
http.server.HTTPServer((option["--host"], int(option["--port"])), Handler).serve_forever()
"""


@pytest.mark.parametrize("trouble", ["", "sys.exit('error: no CUDA')"])
async def test_llama_server_fetches_by_itself_and_an_exit_is_told(
    trouble: str, tmp_path: Path, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fetched.gguf"
    path.write_bytes(b"GGUF")
    program = tmp_path / "llama-server"
    program.write_text(HF.format(python=sys.executable, path=str(path), trouble=trouble))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    fetcher = await Fetcher.find(http, {"OLLAMA_HOST": f"127.0.0.1:{unused_port()}"})
    assert fetcher is not None
    assert fetcher.engine == "llama-server"
    if trouble:
        with pytest.raises(BackendUnavailable, match="ended with exit code 1"):
            await fetcher.fetch(small_models()[0], unheard)
    else:
        preset = await fetcher.fetch(small_models()[0], unheard)
        assert preset.path == path


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"error": "write /blobs/sha256: no space left on device"}], "no space left on device"),
        ([{"error": "max retries exceeded: EOF"}], "max retries exceeded"),
        (PULLED, "Ollama broke off"),
    ],
)
async def test_a_pull_that_fails_is_told_in_ollamas_words(
    steps: Sequence[dict[str, Any]], message: str, http: HttpClient
) -> None:
    async with FaultServer(ollama(*steps)) as server:
        fetcher = await Fetcher.find(http, {"OLLAMA_HOST": server.url})
        assert fetcher is not None
        with pytest.raises(BackendUnavailable, match=message):
            await fetcher.fetch(small_models()[0], unheard)


def test_a_disk_without_room_is_told_before_anything_is_asked(
    http: HttpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetcher = Fetcher("hub", "hub.example", str(tmp_path / "not" / "there"), http)
    model = small_models()[0]
    assert fetcher.lacking_space(model) == ""
    usage = shutil.disk_usage(tmp_path)._replace(free=300_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert "needs 1.1 GB, and 0.3 GB are free" in fetcher.lacking_space(model)


async def test_without_an_engine_it_says_how_to_get_one(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(fetching, "find_spec", lambda _: None)
    environ = {"OLLAMA_HOST": f"127.0.0.1:{unused_port()}"}
    assert await Fetcher.find(http, environ) is None


@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("pipx_metadata.json", "pipx install --force 'aish-lsp[local]'"),
        ("uv-receipt.toml", "uv tool install 'aish-lsp[local]'"),
        ("", "{python} -m pip install 'aish-lsp[local]'"),
    ],
)
def test_the_command_that_adds_the_engine_is_that_of_what_has_installed_the_server(
    mark: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    if mark:
        (tmp_path / mark).touch()
    assert fetching.install_command() == command.format(python=sys.executable)
    assert fetching.install_command() in fetching.no_engine()


@needs(HUB)
async def test_a_fetch_tells_how_far_it_is_and_why_it_failed_where_there_is_no_terminal(
    http: HttpClient, tmp_path: Path, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def tell(progress: str) -> None:
        told.append(progress)

    async def gone(_request: Request, peer: Peer) -> None:
        await peer.reply({"error": "Repository not found"}, "404 Not Found")

    monkeypatch.setenv("HF_HOME", str(tmp_path))
    fetcher = Fetcher("hub", "hub.example", str(tmp_path), http)
    async with FaultServer(hub(model)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        preset = await fetcher.fetch(small_models()[0], tell)
    assert preset.path.read_bytes() == model
    assert len(told) > 1
    assert told[-1] == f"100 % of {len(model) / 1e6:.0f} MB"
    async with FaultServer(gone) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(BackendUnavailable, match=r"was not fetched\. .*404 "):
            await fetcher.fetch(small_models()[1], tell)


@needs(HUB)
async def test_a_fetch_that_was_stopped_goes_on_where_it_was_and_leaves_nothing_else(
    http: HttpClient, tmp_path: Path, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, told = len(model) - 1_000_000, []

    async def stalls(request: Request, peer: Peer) -> None:
        if request.method == "HEAD":
            await hub(model)(request, peer)
            return
        await peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(model)}\r\n\r\n".encode())
        await peer.send(model[:most])
        await peer.wait_closed()

    async def stop(progress: str) -> None:
        # The client tells of a piece before it writes it.
        told.append(progress)
        if len(told) == 2:
            raise asyncio.CancelledError

    monkeypatch.setenv("HF_HOME", str(tmp_path))
    fetcher = Fetcher("hub", "hub.example", str(tmp_path), http)
    async with FaultServer(stalls) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(asyncio.CancelledError):
            await fetcher.fetch(small_models()[0], stop)
    async with FaultServer(hub(model)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        preset = await fetcher.fetch(small_models()[0], unheard)
        [got] = [one for one in server.requests if one.method == "GET"]
    assert got.headers["range"] > "bytes=1"
    assert preset.path.read_bytes() == model
    assert [one.name for one in tmp_path.glob("hub/*/blobs/*")] == [preset.path.resolve().name]
