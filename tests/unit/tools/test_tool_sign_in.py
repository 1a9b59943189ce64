"""Signing in with a tool server at an address, by OAuth, in a browser that a test plays."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from test_builtin_tools import Place, place

from aish_lsp.tools import connection

__all__ = ["place"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("mcp") is None, reason="the SDK of tool servers is not installed"
    ),
]

TOOL = {
    "name": "look",
    "description": "Look.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


class Handler(BaseHTTPRequestHandler):
    """A tool server and the provider that it trusts, at one address."""

    log: list[str]
    refuses: bool
    server: ThreadingHTTPServer

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def log_message(self, *_: Any) -> None:
        pass

    def give(self, value: Any, status: int = 200, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        self.log.append(f"GET {path}")
        if path.startswith("/.well-known/oauth-protected-resource"):
            self.give({"resource": f"{self.base}/mcp", "authorization_servers": [self.base]})
        elif path == "/.well-known/oauth-authorization-server":
            self.give(
                {
                    "issuer": self.base,
                    **{
                        f"{name}_endpoint": f"{self.base}/{path}"
                        for name, path in [
                            ("authorization", "authorize"),
                            ("token", "token"),
                            ("registration", "register"),
                        ]
                    },
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                }
            )
        elif path == "/authorize":
            came = {"error": "access_denied"} if self.refuses else {"code": "the code"}
            back = urlencode({**came, "state": query["state"][0]})
            self.send_response(302)
            self.send_header("Location", f"{query['redirect_uri'][0]}?{back}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.give({}, 404)

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        path = urlsplit(self.path).path
        self.log.append(f"POST {path}")
        if path == "/register":
            self.give({**json.loads(sent), "client_id": "known"}, 201)
        elif path == "/token":
            assert parse_qs(sent.decode())["code"] == ["the code"]
            self.give({"access_token": "the token", "token_type": "Bearer", "expires_in": 3600})
        elif self.headers.get("Authorization") != "Bearer the token":
            metadata = (
                f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource"'
            )
            self.give({}, 401, WWW_Authenticate=metadata)
        else:
            self.answer(json.loads(sent))

    def answer(self, message: Any) -> None:
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "remote", "version": "1"},
            },
            "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": "seen"}]},
        }
        if "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif message["method"] in results:
            found = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
            self.give(found)
        else:
            error = {"code": -32601, "message": "unknown"}
            self.give({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def do_DELETE(self) -> None:
        self.give({})


@pytest.fixture
def remote(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, list[str]]]:
    """An address that wants a sign-in, and what it was asked; a browser that signs in."""
    log: list[str] = []
    refuses = getattr(request, "param", None) == "refuses"
    handler = type("Logging", (Handler,), {"log": log, "refuses": refuses})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def browse(address: str) -> bool:
        with opener.open(address, timeout=20) as page:
            log.append(page.read().decode())
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    yield f"http://127.0.0.1:{server.server_address[1]}/mcp", log
    server.shutdown()
    thread.join()
    server.server_close()


async def configure(place: Place, url: str, more: str = "") -> None:
    place.config.write_text(f"[tools.servers.r]\nurl = {json.dumps(url)}\n{more}\n")
    await place.workspace.reload()


async def test_a_user_signs_in_once(place: Place, remote: tuple[str, list[str]]) -> None:
    url, log = remote
    await configure(place, url)
    assert await place.tools.begin() == []
    [question] = place.asked
    assert question.message.startswith("The tool server r wants you to sign in.")
    assert f"{url.removesuffix('/mcp')}/authorize?" in question.message
    assert "You are signed in. You can close this page." in log
    result = await place.call("r__look")
    assert (result.status, result.text.splitlines()[1]) == ("done", "seen")
    [kept] = (Path(os.environ["AISH_DATA_DIR"]) / "oauth").glob("*.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "the token" in kept.read_text()
    # Nobody is asked again.
    await place.tools.session_servers.disconnect("r")
    assert await place.tools.begin() == []
    assert len(place.asked) == 1
    assert log.count("POST /token") == 1


async def test_a_sign_in_may_take_longer_than_a_start(
    place: Place, remote: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 4.0)
    browse = webbrowser.open

    def slowly(address: str) -> bool:
        time.sleep(6)
        return browse(address)

    monkeypatch.setattr(webbrowser, "open", slowly)
    await configure(place, remote[0])
    assert await place.tools.begin() == []


async def test_who_does_not_want_to_is_not_led_there(
    place: Place, remote: tuple[str, list[str]]
) -> None:
    url, log = remote
    await configure(place, url)
    place.answer = False
    [trouble] = await place.tools.begin()
    assert trouble == "The tool server r failed: you did not sign in."
    assert "GET /authorize" not in log
    assert "POST /token" not in log


async def test_who_takes_too_long_is_told_so(
    place: Place, remote: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from aish_lsp.tools import sign_in

    monkeypatch.setattr(sign_in, "_SIGN_IN_SECONDS", 0.6)
    monkeypatch.setattr(webbrowser, "open", lambda _: True)
    await configure(place, remote[0])
    [trouble] = await place.tools.begin()
    assert trouble == "The tool server r failed: you did not sign in within 0.01 minutes."


async def test_nobody_there_is_told(place: Place) -> None:
    await configure(place, "http://127.0.0.1:9/mcp")
    [trouble] = await place.tools.begin()
    assert trouble.startswith("The tool server r failed: ")
    assert "Traceback" not in trouble


@pytest.mark.parametrize("remote", ["refuses"], indirect=True)
async def test_a_provider_that_refuses_is_told(place: Place, remote: tuple[str, list[str]]) -> None:
    await configure(place, remote[0])
    [trouble] = await place.tools.begin()
    assert "its provider did not sign you in: access_denied" in trouble
    assert "You are not signed in: access_denied." in remote[1]


async def test_a_header_brings_a_key_from_the_environment(
    place: Place, remote: tuple[str, list[str]]
) -> None:
    url, log = remote
    await configure(place, url, 'headers = {Authorization = "Bearer ${MY_TOKEN}"}')
    [trouble] = await place.tools.begin()
    assert "the variable MY_TOKEN of its `headers` is not set" in trouble
    environ: Any = place.workspace.services.environ
    environ["MY_TOKEN"] = "the token"
    assert await place.tools.begin() == []
    assert (await place.call("r__look")).status == "done"
    assert place.asked == []
    assert "POST /register" not in log


async def test_a_key_does_not_go_unencrypted_to_another_machine(place: Place) -> None:
    await configure(place, "http://tools.example/mcp", 'headers = {X-Key = "${MY_TOKEN}"}')
    environ: Any = place.workspace.services.environ
    environ["MY_TOKEN"] = "the token"
    [trouble] = await place.tools.begin()
    assert "its headers would go unencrypted to another machine: use https" in trouble
