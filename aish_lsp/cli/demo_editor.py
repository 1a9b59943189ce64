"""A small editor for the demo: it starts the real server as an editor would and talks LSP to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

Handler = Callable[[dict[str, Any]], Any]


class ServerError(Exception):
    """The server answered with an error."""


class DemoEditor:
    """One connection to a server process over its stdin and stdout."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._next_id = 1
        #: Called with the params of each ``$/progress``.
        self.on_progress: Callable[[dict[str, Any]], None] = _nothing
        #: Answers the server's requests by their method; a method that is missing gets null.
        self.answers: dict[str, Handler] = {}

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a request; return its result.

        Raises:
            ServerError: the server answered with an error.
        """
        number, self._next_id = self._next_id, self._next_id + 1
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._send({"id": number, "method": method, "params": params})
        return await answer

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self._send({"method": method, "params": params or {}})

    async def command(self, name: str, **argument: Any) -> Any:
        """Execute a command of the server's with one object as its argument."""
        params = {"command": name, "arguments": [argument]}
        return await self.request("workspace/executeCommand", params)

    async def read(self) -> None:
        """Take the server's messages until it goes."""
        assert self._process.stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                header = await self._process.stdout.readuntil(b"\r\n\r\n")
                lengths = (line.partition(b":") for line in header.split(b"\r\n"))
                length = next(int(value) for name, _, value in lengths if name == b"Content-Length")
                await self._take(json.loads(await self._process.stdout.readexactly(length)))

    async def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            answer = self._answers.pop(message["id"])
            if "error" in message:
                answer.set_exception(ServerError(message["error"]["message"]))
            else:
                answer.set_result(message.get("result"))
        elif "id" in message:
            handler = self.answers.get(message["method"])
            result = handler(message["params"]) if handler else None
            await self._send({"id": message["id"], "result": result})
        elif message["method"] == "$/progress":
            self.on_progress(message["params"])

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await self._process.stdin.drain()


def _nothing(_params: dict[str, Any]) -> None:
    """Take note of nothing."""


@contextlib.asynccontextmanager
async def connected(
    root: Path, environment: Mapping[str, str], options: Mapping[str, Any]
) -> AsyncIterator[DemoEditor]:
    """Start the server for the folder ``root``, and end it as an editor does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aish_lsp",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    editor = DemoEditor(process)
    reading = asyncio.create_task(editor.read())
    try:
        await editor.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": root.as_uri(),
                "capabilities": {"window": {"showMessage": {}}},
                "workspaceFolders": [{"uri": root.as_uri(), "name": root.name}],
                "initializationOptions": dict(options),
            },
        )
        await editor.notify("initialized")
        yield editor
        await editor.request("shutdown")
        await editor.notify("exit")
        await asyncio.wait_for(process.wait(), 10)
    finally:
        reading.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
