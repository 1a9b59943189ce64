"""A tool server over HTTP for faults that no real one can be made to show: plain JSON, no SDK."""

from __future__ import annotations

import json
import queue
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOOL = {
    "name": "look",
    "description": "Look.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}

#: A status, the headers and the body of a response.
Response = tuple[int, dict[str, str], bytes]


class RemoteServer:
    """Answers as a server with sessions does.

    Attributes:
        url: its address.
        refuse: returns the response to a message in place of a reply, if any.
        reply: returns the result of a call.
        seen: the methods that it was sent, and those of requests that are no messages.
        headers: the headers of the last request.
        is_older: whether it sends its replies as events of one stream.
        moved: the path to which it redirects.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.refuse: Callable[[dict[str, Any], bool], Response | None] = lambda *_: None
        self.reply: Callable[[dict[str, Any]], Any] = lambda _: {
            "content": [{"type": "text", "text": "seen"}]
        }
        self.seen: list[str] = []
        self.headers: dict[str, str] = {}
        self.tool: dict[str, Any] = TOOL
        self.session = 0
        self.is_older = False
        self.moved = ""
        self.events: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def forget(self) -> None:
        """Forget the session, as a server does that was started again."""
        self.session += 1

    def lose(self, status: int, body: bytes = b"") -> None:
        """Forget the session, and say so with this status from now on."""
        self.forget()
        kind = "application/json" if body.startswith(b"{") else "text/plain"

        def refuse(message: dict[str, Any], knows: bool) -> Response | None:
            if knows or message.get("method") in ("initialize", "server/discover"):
                return None
            return status, {"Content-Type": kind}, body

        self.refuse = refuse

    def answer(self, message: dict[str, Any], session: str) -> Response:
        """Return the response to a message."""
        method = message.get("method", "")
        self.seen.append(method)
        refused = self.refuse(message, session == str(self.session))
        if refused is not None:
            return refused
        headers = {"Content-Type": "application/json"}
        if "id" not in message:
            return 202, {}, b""
        if method == "initialize":
            headers["Mcp-Session-Id"] = str(self.session)
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "remote", "version": "1"},
            },
            "tools/list": {"tools": [self.tool]},
        }
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "tools/call":
            reply["result"] = self.reply(message)
        elif method in results:
            reply["result"] = results[method]
        else:
            reply["error"] = {"code": -32601, "message": f"unknown: {method}"}
        return 200, headers, json.dumps(reply).encode()


class _Handler(BaseHTTPRequestHandler):
    remote: RemoteServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.remote.headers = {key.lower(): value for key, value in self.headers.items()}
        message = json.loads(sent)
        if self.remote.moved not in ("", self.path):
            self.give((307, {"Location": self.remote.moved}, b""))
        elif not self.remote.is_older:
            self.give(self.remote.answer(message, self.headers.get("Mcp-Session-Id", "")))
        elif not self.path.startswith("/messages"):
            self.give((405, {}, b"Method Not Allowed"))
        elif f"sessionId={self.remote.session}" not in self.path:
            self.give((404, {}, b"Session not found"))
        else:
            self.give((202, {}, b"Accepted"))
            _, _, body = self.remote.answer(message, str(self.remote.session))
            if body:
                self.remote.events.put(b"event: message\ndata: " + body + b"\n\n")

    def do_GET(self) -> None:
        self.remote.seen.append(f"GET {self.path}")
        if not self.remote.is_older:
            self.give((405, {}, b""))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        where = f"/messages?sessionId={self.remote.session}"
        self.wfile.write(f"event: endpoint\ndata: {where}\n\n".encode())
        with suppress(OSError):
            while event := self.remote.events.get():
                self.wfile.write(event)
        self.close_connection = True

    def do_DELETE(self) -> None:
        self.remote.seen.append("DELETE")
        self.give((200, {}, b""))

    def give(self, response: Response) -> None:
        status, headers, body = response
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def remote_server(certificate: Path | None = None) -> Iterator[RemoteServer]:
    """Serve at a port of this machine; with a certificate and its key, over TLS."""
    handler: Any = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    handler.remote = RemoteServer(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    made: RemoteServer = handler.remote
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        made.url = made.url.replace("http:", "https:")
    try:
        yield made
    finally:
        made.events.put(b"")
        server.shutdown()
        server.server_close()
        thread.join()
