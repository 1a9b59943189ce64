"""The first start of the extension, where nothing is installed: it makes a server of its own."""

from __future__ import annotations

import hashlib
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiny_model
from editor_parts import Place
from vscode_parts import missing, opened, package, servers

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]


@pytest.fixture(scope="module", name="vsix")
def fixture_vsix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(tmp_path_factory.mktemp("vsix"), wheel=True)


def test_a_server_is_installed_and_answers_and_is_there_the_next_time(
    tmp_path: Path, vsix: Path
) -> None:
    place = Place.make(tmp_path, "work 1")
    (place.programs / "aish-lsp").unlink()
    storage = tmp_path / "profile/data/User/globalStorage/aish-lsp.aish"
    with opened(place, tmp_path / "profile", vsix, installs=True) as bench:
        chat = bench.chat()
        bench.until("a server", (storage / "server.json").exists)
        chat.ask("how do I list files?")
        assert "ls" in chat.last
        # So do the terminals, without the Python of its environment.
        bench.command("Terminal: Create New Terminal")
        told = place.folder / "told"

        def is_told() -> bool:
            bench.command("Terminal: Focus Terminal")
            bench.page.keyboard.type("(aish-lsp --version; which python3) > told")
            bench.page.keyboard.press("Enter")
            bench.page.wait_for_timeout(3000)
            return told.exists() and len(told.read_text().splitlines()) == 2

        bench.until("the terminal", is_told)
        version, python = told.read_text().splitlines()
        assert version.startswith("aish-lsp ")
        assert str(storage) not in python
        made = (storage / "server.json").read_text()
        bench.load()
        chat = bench.chat()
        chat.frame.locator(".exchange", has_text="how do I list files?").wait_for()
        assert (storage / "server.json").read_text() == made
        assert len(list(storage.glob("server-*"))) == 1
        # It is gone, by whatever: another one is made.
        shutil.rmtree(next(storage.glob("server-*")))
        bench.load()
        chat = bench.chat()
        bench.until("another one", lambda: (storage / "server.json").read_text() != made)
        chat.ask(":help")
        assert ":undo" in chat.last


def test_a_restart_while_a_server_is_installed_leaves_one_server(
    tmp_path: Path, vsix: Path
) -> None:
    place = Place.make(tmp_path, "work 1")
    (place.programs / "aish-lsp").unlink()
    begun, go, python = tmp_path / "begun", tmp_path / "go", tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho begun >>"{begun}"\n'
        f'while [ ! -e "{go}" ]; do sleep 0.1; done\nexec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    set_here = {"aish.server.python": str(python)}
    with opened(place, tmp_path / "profile", vsix, set_here, installs=True) as bench:
        chat = bench.chat()
        bench.until("the installation", begun.exists)
        bench.command("aish: Restart the Server")
        bench.until("another one", lambda: len(begun.read_text().split()) > 1)
        go.touch()
        storage = tmp_path / "profile/data/User/globalStorage/aish-lsp.aish"
        bench.until("a server", (storage / "server.json").exists)
        chat.ask("how do I list files?")
        assert "ls" in chat.last
        # A second one would have begun by now.
        bench.page.wait_for_timeout(5000)
        assert len(servers(place)) == 1
        assert bench.page.locator(".notification-toast").count() == 0


def test_without_a_network_that_is_said_and_can_be_tried_again(tmp_path: Path, vsix: Path) -> None:
    place = Place.make(tmp_path, "work 1")
    (place.programs / "aish-lsp").unlink()
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
    }
    with opened(place, tmp_path / "profile", vsix, installs=True, variables=nowhere) as bench:
        chat = bench.chat()
        problem = chat.frame.locator(".problem")
        problem.wait_for()
        assert "there is no network" in problem.inner_text()
        storage = tmp_path / "profile/data/User/globalStorage/aish-lsp.aish"
        assert not list(storage.glob("server*"))
        # One that the user installs meanwhile is found.
        made = Place.make(tmp_path, "work 1")
        bench.set({"aish.server.command": [str(made.programs / "aish-lsp")]})
        bench.page.wait_for_timeout(1500)
        problem.get_by_role("button", name="Try again").click()
        problem.wait_for(state="hidden")
        chat.ask(":help")
        assert ":undo" in chat.last


class Hub(BaseHTTPRequestHandler):
    """A hub with one model, whatever it is called; a fetch of it waits half way to go on."""

    content = b""
    goes_on: threading.Event
    ranges: list[str]

    def do_HEAD(self) -> None:
        self._head(0)

    def do_GET(self) -> None:
        asked = self.headers.get("range", "bytes=0-")
        self.ranges.append(asked)
        begin = int(asked[6:].partition("-")[0])
        self._head(begin)
        half = max(begin, len(self.content) // 2)
        with suppress(OSError):
            self.wfile.write(self.content[begin:half])
            self.wfile.flush()
            self.goes_on.wait()
            self.wfile.write(self.content[half:])

    def _head(self, begin: int) -> None:
        size = len(self.content)
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("content-range", f"bytes {begin}-{size - 1}/{size}")
        self.send_header("content-length", str(size - begin))
        self.send_header("etag", f'"{hashlib.sha256(self.content).hexdigest()}"')
        self.send_header("x-repo-commit", "a" * 40)
        self.send_header("accept-ranges", "bytes")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing on stderr."""


@contextmanager
def hub(content: bytes, cache: Path) -> Iterator[dict[str, str]]:
    """Serve a model; yield the environment of who is to fetch it, and from nowhere else."""
    Hub.content, Hub.ranges, Hub.goes_on = content, [], threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "HF_HOME": str(cache / "hub"),
            "OLLAMA_HOST": "127.0.0.1:9",
        }
    finally:
        Hub.goes_on.set()
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(find_spec("gguf") is None, reason="needs gguf")
def test_a_small_model_is_got_from_nothing(tmp_path: Path, vsix: Path) -> None:
    place = Place.make(tmp_path, "work 1")
    (place.programs / "aish-lsp").unlink()
    content = tiny_model.model_path().read_bytes()
    storage = tmp_path / "profile/data/User/globalStorage/aish-lsp.aish"
    with hub(content, tmp_path) as variables:
        Hub.goes_on.set()
        with opened(place, tmp_path / "profile", vsix, installs=True, variables=variables) as bench:
            chat = bench.chat()
            bench.until("a server", (storage / "server.json").exists)
            bench.command("aish: Connect a Model")
            bench.choose("A small model…")
            dialog = bench.dialog()
            assert "about 40 MB are fetched from " in dialog.inner_text()
            dialog.get_by_role("button", name="Get llama.cpp").click()
            bench.choose("Qwen2.5-Coder 1.5B")
            chat.frame.get_by_role("button", name="Fetch it").click()
            bench.page.locator(".notification-toast", has_text="local answers: ").wait_for()
    assert "[models.local]" in place.config.read_text()


@pytest.mark.skipif(
    None in (find_spec("gguf"), find_spec("xllamacpp")), reason="needs gguf and xllamacpp"
)
def test_a_fetch_shows_how_far_it_is_and_goes_on_after_it_was_stopped(
    tmp_path: Path, vsix: Path
) -> None:
    place = Place.make(tmp_path, "work 1")
    content = tiny_model.model_path().read_bytes() + bytes(24_000_000)
    toasts = ".notification-toast"
    with (
        hub(content, tmp_path) as variables,
        opened(place, tmp_path / "profile", vsix, variables=variables) as bench,
    ):
        chat = bench.chat()
        bench.command("aish: Connect a Model")
        bench.choose("Qwen2.5-Coder 1.5B")
        chat.frame.get_by_role("button", name="Fetch it").click()
        bench.page.locator(toasts, has_text="43 % of 24 MB").wait_for()
        bench.press("Cancel")
        bench.page.locator(toasts, has_text="What has arrived is kept").wait_for()
        assert not place.config.exists()
        Hub.goes_on.set()
        bench.press("Connect Another")
        bench.choose("Qwen2.5-Coder 1.5B")
        chat.frame.get_by_role("button", name="Fetch it").click()
        bench.page.locator(toasts, has_text="local answers: ").wait_for()
    assert Hub.ranges[-1] > "bytes=1"
    assert "[models.local]" in place.config.read_text()
