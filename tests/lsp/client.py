"""A small LSP client for tests, against a real server process over stdio or WebSocket."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

import fork_server
import protocol_check

Transport: TypeAlias = Literal["stdio", "ws"]
#: What answers a request of the server: its params in, the result out, or an RpcError raised.
Answer: TypeAlias = Callable[[Any], Any]

TRANSPORTS: tuple[Transport, ...] = ("stdio", "ws")
TIMEOUT = 30.0

#: A client that can do all that the server asks for; merge your own over it, or replace it.
CAPABILITIES: dict[str, Any] = {
    "window": {
        "workDoneProgress": True,
        "showDocument": {"support": True},
        "showMessage": {"messageActionItem": {"additionalPropertiesSupport": False}},
    },
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceFolders": True,
        "workspaceEdit": {"documentChanges": True},
        "codeLens": {"refreshSupport": True},
        "didChangeConfiguration": {"dynamicRegistration": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
    },
    "general": {"positionEncodings": ["utf-8", "utf-16", "utf-32"]},
    "textDocument": {
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["", "quickfix"]}}
        },
    },
}


class RpcError(Exception):
    """An error response."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


async def never(_: Any) -> Any:
    """Answer a request of the server never."""
    await asyncio.Event().wait()


class Client:
    """Drives one server process. Use it as ``async with``, or ``start`` and ``stop`` it.

    Attributes:
        notifications: (method, params) of each notification but progress, in order.
        progress: the values of ``$/progress`` by token, in order.
        requests: (method, params) of each request that the server made, in order.
        errors: error responses without an id.
        answers: how requests of the server are answered, by method; override at will.
        stderr: all that the server wrote there so far.
        command, env, cwd: how the process is started; to be changed before it is.
    """

    def __init__(
        self,
        transport: Transport = "stdio",
        *,
        command: Sequence[str] = (sys.executable, "-m", "aish_lsp"),
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> None:
        self.transport = transport
        listen = {"stdio": [], "ws": ["--ws", "127.0.0.1:0"]}
        options = [*listen[transport], *arguments]
        serve = ["serve"] if options and "-m" in command else []
        self.command = [*command, *serve, *options]
        self.env = {**os.environ, **(env or {})}
        self.cwd = cwd
        self.process: asyncio.subprocess.Process = None  # type: ignore[assignment]  # until start
        self.address = ""
        self.stderr = ""
        self.capabilities: dict[str, Any] = {}
        self.notifications: list[tuple[str, Any]] = []
        self.progress: defaultdict[str | int, list[Any]] = defaultdict(list)
        self.requests: list[tuple[str, Any]] = []
        self.errors: list[RpcError] = []
        self.answers: dict[str, Answer] = {
            "window/workDoneProgress/create": lambda _: None,
            "window/showDocument": lambda _: {"success": True},
            "window/showMessageRequest": lambda _: None,
            "workspace/applyEdit": lambda _: {"applied": True},
            "workspace/configuration": lambda params: [None] * len(params["items"]),
            "workspace/codeLens/refresh": lambda _: None,
            "client/registerCapability": lambda _: None,
            "client/unregisterCapability": lambda _: None,
        }
        # What of ours did not fit the schema; ``stop`` fails with it.
        self.flaws: list[str] = []
        self._commands: dict[int, str] = {}
        self._tokens: set[str | int] = set()
        self._next_id = 0
        self._pending: dict[int | str, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._readers: list[asyncio.Task[Any]] = []
        self._changed = asyncio.Event()
        self._stream: _Stream | _WebSocket
        self._announced: asyncio.Future[str]
        self._reading = asyncio.Event()

    async def start(self) -> Self:
        """Start the process and connect."""
        forked = await fork_server.spawn(self.command, self.env, self.cwd)
        # It has what is used of the other.
        self.process = cast("asyncio.subprocess.Process", forked)
        if forked is None:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self.env,
                cwd=self.cwd,
            )
        self._announced = asyncio.get_running_loop().create_future()
        self._readers = [self._spawn(self._read_stderr())]
        self._reading.set()
        if self.transport == "stdio":
            assert self.process.stdout is not None
            assert self.process.stdin is not None
            self._stream = _Stream(self.process.stdout, self.process.stdin)
        else:
            self.address = await self.within(self._announced, "the server to listen")
            self._stream = await connect(self.address)
        self._readers.append(self._spawn(self._read()))
        return self

    async def stop(self) -> int:
        """End the process, kindly if it lives; return its exit code."""
        if self.process.returncode is None:
            with suppress(OSError, asyncio.CancelledError, TimeoutError):
                # It is refused before ``initialize``; ``exit`` is not.
                with suppress(RpcError):
                    await asyncio.wait_for(self.request("shutdown"), 10)
                await self.notify("exit")
        self.resume_reading()
        try:
            code = await asyncio.wait_for(self.process.wait(), 10)
        except TimeoutError:
            self.process.kill()
            code = await self.process.wait()
        # To the end of what it sent: a pipe that is not read stays open.
        if self._readers:
            await asyncio.wait(self._readers, timeout=10)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.process.stdin is not None:
            self.process.stdin.close()
            with suppress(OSError):
                await self.process.stdin.wait_closed()
        if hasattr(self, "_stream"):
            await self._stream.close()
        if isinstance(self.process, fork_server.Forked):
            self.process.close()
        assert self.flaws == [], "\n".join(self.flaws)
        return code

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # Talking

    async def initialize(
        self,
        *folders: str | Path,
        capabilities: Mapping[str, Any] | None = None,
        options: Any = None,
        initialized: bool = True,
        **params: Any,
    ) -> Any:
        """Open a session with workspace ``folders``; return the server's capabilities."""
        message = {
            "processId": os.getpid(),
            "rootUri": Path(folders[0]).as_uri() if folders else None,
            "capabilities": CAPABILITIES if capabilities is None else capabilities,
            "workspaceFolders": [
                {"uri": Path(folder).as_uri(), "name": Path(folder).name} for folder in folders
            ],
        }
        if options is not None:
            message["initializationOptions"] = options
        result = await self.request("initialize", message | params)
        self.capabilities = result["capabilities"]
        if initialized:
            await self.notify("initialized", {})
        return result

    async def shutdown(self) -> int:
        """End the session as the protocol says; return the exit code."""
        await self.request("shutdown")
        await self.notify("exit")
        return await self.ended()

    async def ended(self, timeout: float = TIMEOUT) -> int:
        """Wait for the process; return its exit code."""

        async def wait() -> int:
            # Process.wait() also waits for pipes that nobody reads.
            while (code := self.process.returncode) is None:
                await asyncio.sleep(0.02)
            return code

        code: int = await self.within(wait(), "the process to end", timeout)
        return code

    async def request(self, method: str, params: Any = None, *, timeout: float = TIMEOUT) -> Any:
        """Return the result of a request.

        Raises:
            RpcError: the server answered with an error.
            TimeoutError: it did not answer; the message holds its stderr.
        """
        _, answer = await self.begin(method, params)
        return await self.within(answer, f"the answer to {method}", timeout)

    async def begin(self, method: str, params: Any = None) -> tuple[int, asyncio.Future[Any]]:
        """Send a request; return its id and the future of its result."""
        self._next_id += 1
        request_id = self._next_id
        future = asyncio.get_running_loop().create_future()
        # A test may drop it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending[request_id] = future
        if method == "workspace/executeCommand" and isinstance(params, dict):
            self._asked(request_id, params)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        await self._send(message if params is None else message | {"params": params})
        return request_id, future

    async def command_result(
        self, command: str, argument: Any = None, *, timeout: float = TIMEOUT
    ) -> Any:
        """Return the result of ``workspace/executeCommand``."""
        params = execute(command, argument)
        return await self.request("workspace/executeCommand", params, timeout=timeout)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        await self._send(message if params is None else message | {"params": params})

    async def send_body(self, body: bytes) -> None:
        """Send a message's body as it is, with a right header where there is one."""
        await self._stream.send(body)

    async def send_raw(self, data: bytes) -> None:
        """Send bytes as they are (not over WebSocket)."""
        assert isinstance(self._stream, _Stream)
        await self._stream.write(data)

    # Waiting

    async def wait_for(
        self, condition: Callable[[], Any], what: str, timeout: float = TIMEOUT
    ) -> Any:
        """Return the first true value of ``condition``, looked at after each message."""

        async def wait() -> Any:
            while not (found := condition()):
                self._changed.clear()
                await self._changed.wait()
            return found

        return await self.within(wait(), what, timeout)

    async def within(self, awaitable: Awaitable[Any], what: str, timeout: float = TIMEOUT) -> Any:
        """Await with a limit in seconds; the error tells what the server said."""
        try:
            return await asyncio.wait_for(awaitable, timeout)
        except TimeoutError as error:
            state = (
                "runs" if self.process.returncode is None else f"ended {self.process.returncode}"
            )
            message = (
                f"waited {timeout} s for {what}; the server {state}; its stderr:\n{self.stderr}"
            )
            raise TimeoutError(message) from error

    def notified(self, method: str) -> list[Any]:
        """Return the params of each notification ``method`` so far."""
        return [params for name, params in self.notifications if name == method]

    def asked(self, method: str) -> list[Any]:
        """Return the params of each request ``method`` that the server made so far."""
        return [params for name, params in self.requests if name == method]

    def pause_reading(self) -> None:
        """Read nothing more from the server, as a client does that hangs."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """Undo ``pause_reading``."""
        self._reading.set()

    # Inside

    async def _send(self, message: Any) -> None:
        await self._stream.send(json.dumps(message).encode())

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.stderr += line.decode(errors="replace")
            found = re.search(r"aish-lsp: listening on (\S+)", self.stderr)
            if found and not self._announced.done():
                self._announced.set_result(found[1])
            self._changed.set()

    async def _read(self) -> None:
        try:
            while True:
                await self._reading.wait()
                body = await self._stream.receive()
                if body is None:
                    break
                self._dispatch(json.loads(body))
                self._changed.set()
        finally:
            for future in self._pending.values():
                if not future.done():
                    message = f"the server closed the connection; its stderr:\n{self.stderr}"
                    future.set_exception(ConnectionError(message))
            self._changed.set()

    def _dispatch(self, message: Any) -> None:
        self._check(message)
        if "method" in message and "id" in message:
            self.requests.append((message["method"], message.get("params")))
            self._spawn(self._answer(message))
        elif message.get("method") == "$/progress":
            params = message["params"]
            self.progress[params["token"]].append(params["value"])
        elif "method" in message:
            self.notifications.append((message["method"], message.get("params")))
        else:
            self._resolve(message)

    def _asked(self, request_id: int, params: dict[str, Any]) -> None:
        """Keep which command a request is, and the token that its events come to."""
        command = params.get("command")
        if isinstance(command, str) and command.startswith("aish."):
            self._commands[request_id] = command
            arguments = params.get("arguments")
            for argument in arguments if isinstance(arguments, list) else ():
                token = argument.get("partialResultToken") if isinstance(argument, dict) else None
                if isinstance(token, str | int):
                    self._tokens.add(token)

    def _check(self, message: Any) -> None:
        """Hold what is ours of a message against the schema."""
        params, method = message.get("params"), message.get("method")
        if method == "$/progress" and params["token"] in self._tokens:
            self.flaws += protocol_check.event_flaws(params["value"])
        elif method is not None and method.startswith("aish/") and "id" in message:
            self.flaws += protocol_check.request_flaws(method, params)
        elif method is not None and method.startswith("aish/"):
            self.flaws += protocol_check.notification_flaws(method, params)
        elif method is None and (command := self._commands.pop(message["id"], None)):
            if "error" in message:
                self.flaws += protocol_check.error_flaws(command, message["error"])
            else:
                self.flaws += protocol_check.result_flaws(command, message["result"])

    def _resolve(self, message: Any) -> None:
        error = message.get("error")
        failure = error and RpcError(error["code"], error["message"], error.get("data"))
        future = self._pending.pop(message["id"], None) if message["id"] is not None else None
        if future is None:
            self.errors.append(failure)
        elif future.done():
            return
        elif failure:
            future.set_exception(failure)
        else:
            future.set_result(message["result"])

    async def _answer(self, message: Any) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer = self.answers.get(message["method"], _unknown)
            result = answer(message.get("params"))
            if asyncio.iscoroutine(result):
                result = await result
            reply["result"] = result
        except RpcError as error:
            reply["error"] = {"code": error.code, "message": error.message}
        with suppress(OSError):
            await self._send(reply)


def execute(command: str, argument: Any = None, **params: Any) -> dict[str, Any]:
    """Return the params of ``workspace/executeCommand``."""
    arguments = [] if argument is None else [argument]
    return {"command": command, "arguments": arguments, **params}


def _unknown(_: Any) -> Any:
    raise RpcError(-32601, "this client does not know the method")


async def connect(address: str) -> _WebSocket:
    """Connect to a server that listens."""
    from websockets.asyncio.client import connect as connect_websocket

    return _WebSocket(await connect_websocket(address, max_size=None, ping_interval=None))


class _Stream:
    """Messages with headers over a pair of byte streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, body: bytes) -> None:
        await self.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes | None:
        """Return the next body; None at the end. The headers must be as LSP has them."""
        try:
            header = await self._reader.readuntil(b"\r\n\r\n")
            length = re.fullmatch(rb"Content-Length: (\d+)\r\n\r\n", header)
            assert length, f"no message but {header!r}"
            return await self._reader.readexactly(int(length[1]))
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


class _WebSocket:
    """One message a frame."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def send(self, body: bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(body.decode(errors="surrogateescape"))
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from error

    async def receive(self) -> bytes | None:
        from websockets.exceptions import ConnectionClosed

        try:
            return (await self._connection.recv(decode=False)) or b""
        except ConnectionClosed:
            return None

    async def close(self) -> None:
        await self._connection.close()
