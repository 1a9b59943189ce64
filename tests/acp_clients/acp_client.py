"""The SDK's own client, connected to our agent in this process, and a model to answer it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import acp
from acp import schema
from conversing import Place
from fault_server import FaultServer, Peer, Request, Script, chunk_of

from aish_lsp.acp.agent import serve


class Recorder:
    """A client that keeps what it is sent, and answers permission requests.

    Attributes:
        updates: the updates, as they were on the wire.
        asked: the permission requests, as they were on the wire.
        answer: the name of the option to choose, empty to cancel, or what returns one.
        texts: the texts of the files that are open, by their paths.
        terminals: the programs that were started in terminals, by the number of the terminal.
        released: the terminals that were released.
        asking: set once a permission was requested.
    """

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.answer: str | Callable[[], Any] = ""
        self.asking = asyncio.Event()
        self.changed = asyncio.Event()
        self.texts: dict[str, str] = {}
        self.terminals: list[asyncio.subprocess.Process] = []
        self.released: list[str] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Keep an update."""
        found = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append({"sessionId": session_id, **found})
        self.changed.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        """Answer with the option of that name."""
        call = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.asked.append({"call": call, "options": [(one.name, one.kind) for one in options]})
        self.asking.set()
        answer = self.answer if isinstance(self.answer, str) else await self.answer()
        chosen = next((one.option_id for one in options if one.name == answer), None)
        if chosen is None:
            return schema.RequestPermissionResponse(
                outcome=schema.DeniedOutcome(outcome="cancelled")
            )
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, path: str, **_: Any) -> Any:
        """Return the text of a file that is open."""
        if path not in self.texts:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.texts[path])

    async def write_text_file(self, path: str, content: str, **_: Any) -> Any:
        """Change the text of a file, and do not save it."""
        self.texts[path] = content
        return schema.WriteTextFileResponse()

    # A terminal whose command is run here, as a client would.

    async def create_terminal(
        self, command: str, args: list[str] | None = None, cwd: str | None = None, **_: Any
    ) -> Any:
        """Start a program."""
        process = await asyncio.create_subprocess_exec(
            command, *args or (), cwd=cwd, stdout=asyncio.subprocess.PIPE
        )
        self.terminals.append(process)
        return schema.CreateTerminalResponse(terminal_id=str(len(self.terminals) - 1))

    async def wait_for_terminal_exit(self, terminal_id: str, **_: Any) -> Any:
        """Wait until the program has ended."""
        code = await self.terminals[int(terminal_id)].wait()
        return schema.WaitForTerminalExitResponse(exit_code=max(code, 0))

    async def terminal_output(self, terminal_id: str, **_: Any) -> Any:
        """Return what the program printed, once it has ended."""
        process = self.terminals[int(terminal_id)]
        printed = await process.stdout.read() if process.stdout else b""
        return schema.TerminalOutputResponse(output=printed.decode(), truncated=False)

    async def kill_terminal(self, terminal_id: str, **_: Any) -> Any:
        """Kill the program."""
        self.terminals[int(terminal_id)].kill()
        return schema.KillTerminalResponse()

    async def release_terminal(self, terminal_id: str, **_: Any) -> Any:
        """Note that the terminal is not needed any more."""
        self.released.append(terminal_id)
        return schema.ReleaseTerminalResponse()

    def on_connect(self, connection: Any) -> None:
        """Do nothing."""

    async def first(self) -> str:
        """Return the name of the first option, which agrees; to be the ``answer``."""
        return str(self.asked[-1]["options"][0][0])

    # What was sent

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the updates of a kind."""
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """Return the pieces of the agent's messages, joined."""
        return "".join(one["content"]["text"] for one in self.of_kind(kind))

    def calls(self) -> dict[str, dict[str, Any]]:
        """Return the tool calls as they are after all updates, by their ids."""
        found: dict[str, dict[str, Any]] = {}
        for one in self.updates:
            if one["sessionUpdate"] in ("tool_call", "tool_call_update"):
                found.setdefault(one["toolCallId"], {}).update(one)
        return found

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition on what was sent holds."""
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class Connected:
    """A client whose agent has answered ``initialize``, in a folder.

    Attributes:
        acp: the SDK's connection, to send requests.
        seen: what the agent sent.
        folder: the folder of new sessions.
        session: the id of the session that was opened last.
    """

    def __init__(self, connection: Any, seen: Recorder, folder: str) -> None:
        self.acp = connection
        self.seen = seen
        self.folder = folder
        self.session = ""

    async def open(self, mode: str = "ask") -> Any:
        """Begin a session; return the answer."""
        opened = await self.acp.new_session(cwd=self.folder)
        self.session = opened.session_id
        if mode != "ask":
            await self.acp.set_session_mode(session_id=self.session, mode_id=mode)
        return opened

    async def prompt(self, *content: Any) -> str:
        """Send texts or content blocks to the session; return why the prompt ended."""
        blocks = [acp.text_block(one) if isinstance(one, str) else one for one in content]
        answer = await self.acp.prompt(session_id=self.session, prompt=blocks)
        return str(answer.stop_reason)


@asynccontextmanager
async def streams() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Serve one client; yield the client's ends of the streams."""
    ours, theirs = socket.socketpair()
    source = ours.detach()
    sink = os.dup(source)
    serving = asyncio.create_task(serve(source, sink))
    reader, writer = await asyncio.open_connection(sock=theirs, limit=1 << 26)
    try:
        yield reader, writer
    finally:
        writer.close()
        async with asyncio.timeout(60):
            await serving


@asynccontextmanager
async def connected(folder: object, **initialize: Any) -> AsyncIterator[Connected]:
    """Connect the SDK's client to an agent of ours, and initialize it."""
    seen: Any = Recorder()  # with what the agent uses of a client
    async with streams() as (reader, writer):
        connection: Any = acp.connect_to_agent(seen, writer, reader, use_unstable_protocol=True)
        await connection.initialize(protocol_version=1, **initialize)
        yield Connected(connection, seen, str(folder))
        await connection.close()


class Model:
    """Answers each question with the next reply, the last one again and again.

    Attributes:
        replies: pieces of text, each a reply.
        sent: the messages of each request.
        hold: if set, a reply waits for it after its first piece.
    """

    def __init__(self, *replies: str, finish: str = "stop") -> None:
        self.replies = list(replies)
        self.sent: list[Any] = []
        self.hold: asyncio.Event | None = None
        self._finish = finish

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        self.sent.append(request.json["messages"])
        text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        await peer.head()
        for word in text.split(" "):
            await peer.event(chunk_of(f"{word} "))
            if self.hold is not None:
                await self.hold.wait()
        await peer.event(chunk_of("", finish_reason=self._finish))
        await peer.event("[DONE]")

    @property
    def last(self) -> str:
        """The last question, with all that came with it."""
        return str(self.sent[-1][-1]["content"])


class Caller(Model):
    """Calls a tool once, or again and again if it is ``is_endless``, and then answers."""

    def __init__(self, name: str, **arguments: str) -> None:
        super().__init__("Done.")
        self._call = {"name": name, "arguments": json.dumps(arguments)}
        self.offered: list[str] = []
        self.is_endless = False

    async def __call__(self, request: Request, peer: Peer) -> None:
        is_chat = request.path.endswith("/chat/completions")
        if is_chat:
            self.offered = [one["function"]["name"] for one in request.json.get("tools") or ()]
        is_answered = is_chat and request.json["messages"][-1]["role"] == "tool"
        if not is_chat or (is_answered and not self.is_endless):
            await super().__call__(request, peer)
            return
        call = {"index": 0, "id": "c1", "type": "function", "function": self._call}
        await peer.head()
        await peer.event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        await peer.event(chunk_of("", finish_reason="tool_calls"))
        await peer.event("[DONE]")


@asynccontextmanager
async def in_session(
    place: Place, script: Script, mode: str = "ask", able: Any = None, **model: Any
) -> AsyncIterator[Connected]:
    """Begin a session whose model server follows ``script``, in a client that is ``able``.

    ``model`` is what the configuration says of the model besides.
    """
    async with (
        FaultServer(script) as server,
        connected(place.folder, client_capabilities=able) as client,
    ):
        place.configure(server.url, **model)
        await client.open(mode)
        yield client


class Wire:
    """The bare lines of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._last = 0

    async def send(self, line: bytes | dict[str, Any]) -> None:
        """Send a line."""
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self._writer.write(data + b"\n")
        await self._writer.drain()

    async def receive(self) -> Any:
        """Return the next message."""
        return json.loads(await self.line())

    async def line(self) -> str:
        """Return the next line."""
        async with asyncio.timeout(60):
            return (await self._reader.readuntil(b"\n")).decode()

    async def begin(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        self._last += 1
        await self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._last

    async def answer_to(self, number: int) -> Any:
        """Return the answer to a request; what comes before it is dropped."""
        while (message := await self.receive()).get("id") != number or "method" in message:
            pass
        return message

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request; return the answer."""
        return await self.answer_to(await self.begin(method, **params))

    async def open(self, folder: object) -> str:
        """Begin a session in a folder; return its id."""
        opened = await self.ask("session/new", cwd=str(folder), mcpServers=[])
        return str(opened["result"]["sessionId"])

    async def prompt(self, session: str, text: str) -> int:
        """Send a text to a session; return the id of the request."""
        content = [{"type": "text", "text": text}]
        return await self.begin("session/prompt", sessionId=session, prompt=content)
