"""Connecting a model in VS Code: what there is, its key, a test question, and what goes wrong."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from editor_parts import Place
from vscode_parts import Workbench, missing, opened, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

KEY = "sk-the-right-key"


class Model(BaseHTTPRequestHandler):
    """A server of two models, for whoever has the key; or for nobody, while it ``refuses``."""

    refuses = False

    def do_GET(self) -> None:
        self._answer({"data": [{"id": name} for name in ("small-one", "large-one")]})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        asked = json.loads(self.rfile.read(length) or b"{}")
        content = f"Hello from {asked.get('model')}. [Press](command:workbench.action.quit)"
        choice = {"delta": {"content": content}}
        self._answer({"choices": [choice]}, stream=bool(asked.get("stream")))

    def _answer(self, value: object, *, stream: bool = False) -> None:
        is_allowed = not self.refuses and self.headers.get("authorization") == f"Bearer {KEY}"
        body = json.dumps(value if is_allowed else {"error": {"message": "no such key"}})
        if stream and is_allowed:
            body = f"data: {body}\n\ndata: [DONE]\n\n"
        self.send_response(200 if is_allowed else 401)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_arguments: object) -> None:
        """Say nothing on stderr."""


@contextmanager
def served() -> Iterator[str]:
    """Serve the models; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def title(bench: Workbench, text: str) -> None:
    """Wait until the box at the top says this."""
    bench.page.locator(".quick-input-widget", has_text=text).wait_for()


def test_a_model_is_connected_from_the_empty_chat_with_a_key_that_stays_secret(
    tmp_path: Path,
) -> None:
    place = Place.make(tmp_path, "work 1")
    with served() as address, opened(place, tmp_path / "profile", package(tmp_path)) as bench:
        chat = bench.chat()
        chat.ask("which folder am i in")
        assert "offline" in chat.last
        assert chat.last.lower().count("connect") == 1
        chat = bench.new_chat()
        chat.box.fill("why?")
        chat.frame.get_by_role("button", name="Connect a model").first.click()
        bench.choose("A server at an address")
        title(bench, "The address of a server")
        bench.answer(address)
        # A wrong key is asked for again, one with the newline of the clipboard is taken.
        title(bench, "wants a key")
        bench.answer("two words")
        title(bench, "This is not a key")
        bench.answer("sk-wrong")
        title(bench, "refuses the key")
        bench.answer(f" {KEY}\n")
        bench.choose("large-one")
        toast = bench.page.locator(".notification-toast", has_text="Hello from large-one.")
        toast.wait_for()
        # What a model says is no link to a command of VS Code's.
        assert toast.locator(".notification-list-item-message a").count() == 0
        # The chat is as it was, and the model answers now.
        chat = bench.chat()
        assert chat.box.input_value() == "why?"
        assert chat.exchanges.count() == 0
        chat.ask("why?")
        assert "Hello from large-one." in chat.last
        # The key outlasts the window, and is in no file of ours.
        bench.load()
        chat = bench.chat()
        chat.ask("and now?")
        assert "Hello from large-one." in chat.last
    assert 'api_key_env = "KEY_OF_127_0_0_1' in place.config.read_text()
    # The log of the window is not written: the module for it is not built where scripts do not run.
    ours = [path for path in tmp_path.glob("[dh]*/**/*") if path.is_file()]
    assert place.config in ours
    for path in (place.sent, *ours):
        assert KEY.encode() not in path.read_bytes(), path


def test_a_key_that_is_refused_leaves_the_one_that_was_there_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.make(tmp_path, "work 1")
    with served() as address, opened(place, tmp_path / "profile", package(tmp_path)) as bench:

        def connect(key: str) -> None:
            bench.command("aish: Connect a Model")
            bench.choose("A server at an address")
            title(bench, "The address of a server")
            bench.answer(address)
            bench.page.locator(".quick-input-widget", has_text=re.compile("key")).wait_for()
            bench.answer(key)

        chat = bench.chat()
        connect(KEY)
        bench.choose("large-one")
        toast = bench.page.locator(".notification-toast", has_text="Hello from large-one.")
        toast.wait_for()
        # The provider is out of order, and the user gives up.
        monkeypatch.setattr(Model, "refuses", True)
        connect("sk-wrong")
        title(bench, "refuses the key")
        bench.page.keyboard.press("Escape")
        monkeypatch.setattr(Model, "refuses", False)
        bench.page.locator(".quick-input-widget").wait_for(state="hidden")
        chat = bench.chat()
        bench.until("the model", lambda: "offline" not in chat.frame.locator(".model").inner_text())
        chat.ask("why?")
        assert "Hello from large-one." in chat.last


def test_an_address_where_nothing_answers_is_told_and_another_can_be_given(tmp_path: Path) -> None:
    place = Place.make(tmp_path, "work 1")
    with opened(place, tmp_path / "profile", package(tmp_path)) as bench:
        bench.chat()
        bench.command("aish: Connect a Model")
        bench.choose("A server at an address")
        title(bench, "The address of a server")
        bench.answer("127.0.0.1:1")
        bench.page.locator(".notification-toast", has_text="Is the server running?").wait_for()
        bench.press("Connect Another")
        bench.choose("Edit config.toml")
        bench.page.locator(".tab", has_text="config.toml").wait_for()
        assert place.config.read_text().startswith("# aish: the models")


def test_an_error_of_a_model_that_is_away_leads_to_another_one_and_to_the_models(
    tmp_path: Path,
) -> None:
    place = Place.make(tmp_path, "work 1")
    place.config.write_text('[models.local]\nendpoint = "http://127.0.0.1:1"\nmodel = "m"\n')
    with opened(place, tmp_path / "profile", package(tmp_path)) as bench:
        chat = bench.chat()
        chat.ask("why?")
        callout = chat.frame.locator(".callout")
        assert callout.count() == 1
        callout.get_by_role("button", name="Connect a model…").click()
        title(bench, "Connect a Model")
        bench.page.keyboard.press("Escape")
        callout.get_by_role("button", name="Settings").click()
        bench.page.locator(".tab", has_text="config.toml").wait_for()
