"""The language server: how its parts are put together, and how it serves on stdin and stdout."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.lsp import (
    chats,
    configuration,
    logs,
    open_documents,
    suggestions,
    workspaces,
)
from aish_lsp.lsp.base_server import BaseServer
from aish_lsp.lsp.buffers import EditorBuffers
from aish_lsp.lsp.chats import ChatDocuments, checklist_actions
from aish_lsp.lsp.commands import CommandHandlers
from aish_lsp.lsp.configuration import Configurations
from aish_lsp.lsp.messages import Outbox
from aish_lsp.lsp.open_documents import OpenDocuments
from aish_lsp.lsp.protocol import COMMANDS, CommandSpec
from aish_lsp.lsp.questions import ClientLookUp, Questions, terminal_reader
from aish_lsp.lsp.selection_actions import Replacing, selection_actions
from aish_lsp.lsp.selections import Selections
from aish_lsp.lsp.stream import BadFrame, EarlyInitialize, frame, read, ready_writer, write
from aish_lsp.lsp.workspaces import Workspaces


class AishServer(BaseServer):
    """Serves one client.

    Attributes:
        documents: the open documents.
        buffers: their texts, compared with the files.
        services: what all workspaces share.
        workspaces: the folders' workspaces.
        chats: the folders' chat documents.
        selections: the parts of documents that the client has asked about recently.
    """

    def __init__(self, commands: Mapping[str, CommandSpec]) -> None:
        super().__init__(commands)
        self.documents = OpenDocuments(self)
        questions = Questions(self, self.documents)
        self.buffers = EditorBuffers(self, self.documents)
        self.services = Services(
            questions.ask_user,
            open_text=self.buffers.open_text,
            choose=questions.choose,
            edit_open=self.buffers.edit,
            buffers=self.buffers,
            look_up=ClientLookUp(self, self.documents),
            read_terminal=terminal_reader(self),
            tools_of=tools_of,
        )
        self.configurations = Configurations(self, self.services)
        self.services.settled = self.configurations.settled
        # Not the keys: pygls decodes them, and "a%23b" would become the folder "a".
        self.workspaces = Workspaces(
            lambda: [folder.uri for folder in self.workspace.folders.values()], self._open_workspace
        )
        self.selections = Selections(self, self.documents)
        self.chats = ChatDocuments(self, self.documents, self.workspaces, self.selections)
        open_documents.setup(self, self.documents)

    def _open_workspace(self, root: Path | None) -> Workspace:
        return Workspace(root, self.services, self.configurations.of(root))


def create_server() -> AishServer:
    """Return a server with all its features."""
    server = AishServer(COMMANDS)
    documents, folders, conversations = server.documents, server.workspaces, server.chats
    configuration.setup(server, server.configurations, folders)
    workspaces.setup(server, folders)
    configuration.note_client(server, folders)
    commands = CommandHandlers(
        server,
        server.services,
        documents,
        folders,
        conversations,
        server.selections,
    )
    commands.bind()
    chats.setup(server, documents, folders, conversations)
    _offer_actions(server)
    workspaces.FileWatch(server, folders, documents, server.buffers)
    folders.on_open(partial(configuration.send_status, server))
    return server


def _offer_actions(server: AishServer) -> None:
    documents, folders, conversations = server.documents, server.workspaces, server.chats
    replacing = Replacing(
        server,
        documents,
        server.buffers,
        server.selections,
        conversations,
        server.services.ask_user,
    )
    server.bind("aish.selection.replace", replacing.replace)
    documents.on_change.append(server.selections.changed)
    others = (
        partial(checklist_actions, documents, conversations),
        replacing.actions,
        partial(selection_actions, documents, folders, conversations),
    )
    suggestions.setup(server, documents, folders, conversations, others)


# What all transports share

#: Starts to listen or to read for a server, and returns.
Open: TypeAlias = Callable[[AishServer], Awaitable[None]]

#: Seconds for sending the last messages.
FLUSH = 1.0

#: Seconds after which a thread that computes (a scan, a parse) yields to the loop. Python's default
#: is five times as long: a reply that streams would wait that long for each piece.
SWITCH_INTERVAL = 0.001


def run(server: AishServer, connect: Open) -> int:
    """Serve to the end; return the exit code. Threads may still hang: use ``os._exit``.

    Raises:
        OSError: ``connect`` could not listen.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    # Not asyncio.run: it waits for threads that may never end.
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(logs.log_loop_error)
    return loop.run_until_complete(_serve(server, connect))


async def _serve(server: AishServer, connect: Open) -> int:
    server.lifecycle.start(asyncio.get_running_loop())
    await connect(server)
    code = await server.lifecycle.ended()
    await server.stop_work()
    await server.protocol.answer_shutdown()
    if server.outbox is not None:
        await flush(server.outbox)
    return code


async def flush(outbox: Outbox) -> None:
    """Wait at most FLUSH seconds until the last messages are sent."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FLUSH):
            await outbox.drained(0)


def attach(
    server: AishServer,
    send: Callable[[list[bytes]], Awaitable[bool]],
    at_once: Callable[[bytes], bool] = lambda _: False,
) -> Outbox:
    """Let ``server`` send to the client that has connected; return the outbox to send from."""
    outbox = Outbox(
        send,
        overflow=lambda: server.lifecycle.end("the client stopped reading", 1),
        at_once=at_once,
    )
    server.protocol.set_writer(outbox, include_headers=False)
    return outbox


def client_gone(server: AishServer) -> None:
    """End the server; a client that closed only one direction still gets what is queued."""
    server.lifecycle.end("the client closed the connection", server.exit_code)


async def connect_stdio(source: int, sink: int, early: EarlyInitialize, server: AishServer) -> None:
    """Let ``server`` read ``source`` and write ``sink``, each in its own thread."""
    loop = asyncio.get_running_loop()
    writer = ThreadPoolExecutor(1, "aish writer")

    async def send(bodies: list[bytes]) -> bool:
        data = b"".join(map(frame, bodies))
        is_there = await loop.run_in_executor(writer, write, sink, data)
        if not is_there:
            client_gone(server)
        return is_there

    attach(server, send, ready_writer(sink))
    server.lifecycle.watches_parent = True
    server.protocol.answered = early.answered
    gone = partial(loop.call_soon_threadsafe, client_gone, server)
    reading = partial(_read_all, server, loop, source, early, gone)
    threading.Thread(target=reading, name="aish reader", daemon=True).start()


def _read_all(
    server: AishServer,
    loop: asyncio.AbstractEventLoop,
    source: int,
    early: EarlyInitialize,
    gone: Callable[[], object],
) -> None:
    """Read to the end, handing messages to the loop, which then calls ``gone``."""
    # Two batches may be in flight; the next waits here until the loop has handled one.
    slots = threading.Semaphore(2)

    def deliver(bodies: list[bytes | BadFrame]) -> None:
        for body in bodies:
            server.protocol.receive(body)
        slots.release()

    received = early.received
    while True:
        if received:
            slots.acquire()
            loop.call_soon_threadsafe(deliver, received)
        if not (data := read(source)):
            break
        received = early.frames.feed(data)
    gone()
