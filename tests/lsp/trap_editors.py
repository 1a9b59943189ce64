"""What tests of editors' traps share: what each editor says that it can do, an editor with habits
of its own, and a model that replies when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from client import TIMEOUT, Answer, Client
from fault_server import FaultServer, Peer, Request, chunk_of
from test_chat_sending import Editor
from test_conversation import open_document

#: Helix 25: documents are shown by later versions; questions have no buttons.
HELIX: Final[dict[str, Any]] = {
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": {"dynamicRegistration": False},
        "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": False},
        "workspaceEdit": {"documentChanges": True, "failureHandling": "abort"},
        "executeCommand": {"dynamicRegistration": False},
    },
    "window": {"workDoneProgress": True},
    "general": {"positionEncodings": ["utf-8", "utf-32", "utf-16"]},
    "textDocument": {
        "codeAction": {
            "isPreferredSupport": True,
            "disabledSupport": True,
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit", "command"]},
        }
    },
}

#: Kate: it may make edits and never says so, it shows nothing and never answers that.
KATE: Final[dict[str, Any]] = {
    "workspace": {"workspaceFolders": True},
    "window": {
        "workDoneProgress": True,
        "showMessage": {"messageActionItem": {"additionalPropertiesSupport": True}},
    },
    "textDocument": {"publishDiagnostics": {"relatedInformation": True}},
}

#: eglot: it answers questions, and does not say so.
EGLOT: Final[dict[str, Any]] = {
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceFolders": True,
        "workspaceEdit": {"documentChanges": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "executeCommand": {"dynamicRegistration": False},
    },
    "window": {"showDocument": {"support": True}, "workDoneProgress": True},
    "general": {"positionEncodings": ["utf-32", "utf-8", "utf-16"]},
}


#: Seconds that eglot waits for an answer are ten.
BLOCKED: Final = 9.0


class TrapEditor(Editor):
    """An editor that shows the chat, and whose habits a test decides.

    Attributes:
        before_edit: called when an edit has come, before its version is looked at.
        takes_edits: whether it makes edits now; else it answers that it did not.
        holds: while it is not set, edits wait for it.
        undo: what can be undone, an entry for each edit of the server.
        refused: edits that it did not make.
        is_held: whether an edit waits.
        opened: what it has opened.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.client = client
        self.before_edit: Callable[[], Any] | None = None
        self.takes_edits = True
        self.holds = asyncio.Event()
        self.holds.set()
        self.undo: list[str] = []
        self.refused = 0
        self.is_held = False
        self.opened = ""

    @property
    def file(self) -> str:
        """What the file of the chat holds."""
        return self.path.read_text()

    async def show(self, params: Any) -> Any:
        """Open the document that the server asks to be shown."""
        self.path = Path(params["uri"].removeprefix("file://"))
        self.text = self.opened = self.file
        await open_document(self._client, self.path)
        return {"success": True}

    async def type_at_start(self, text: str) -> None:
        """Type in the first line."""
        start = self._place(0)
        await self._change({"start": start, "end": start}, text)

    async def replace_all(self, text: str) -> None:
        """Put another text in the place of all of it."""
        span = {"start": self._place(0), "end": self._place(len(self.text))}
        await self._change(span, text)

    async def save(self) -> None:
        """Write the buffer over the file, as its user has it."""
        self.path.write_text(self.text)
        await self._client.notify(
            "textDocument/didSave", {"textDocument": {"uri": self.path.as_uri()}}
        )

    async def reload(self, read: str | None = None, *, as_range: bool = False) -> None:
        """Load the file in place of the buffer; tell it ``as_range``, as Kate, or whole, as ALE.

        ``read`` is what the file held when it was read, if not what it holds.
        """
        if as_range:
            await self.replace_all(self.file)
            return
        self.text = self.file if read is None else read
        self.version += 1
        at = {"uri": self.path.as_uri(), "version": self.version}
        change = {"textDocument": at, "contentChanges": [{"text": self.text}]}
        await self._client.notify("textDocument/didChange", change)

    async def shows(self, what: Callable[[str], object], named: str) -> str:
        """Wait until the buffer is as it should be; return it."""
        await self._client.wait_for(lambda: what(self.text), f"{named} in\n{self.text}")
        return self.text

    async def ends(self, ending: str) -> str:
        """Wait until the buffer ends so; return it."""
        return await self.shows(lambda text: text.endswith(ending), f"the end {ending!r}")

    async def holds_text(self, part: str) -> str:
        """Wait until the buffer holds ``part``; return it."""
        return await self.shows(lambda text: part in text, repr(part))

    async def writes(self, what: Callable[[str], object], named: str) -> str:
        """Wait until the file is as it should be; return it."""
        return await file_holds(self._client, self.path, what, named)

    async def _apply(self, params: Any) -> Any:
        self.is_held = not self.holds.is_set()
        await self.holds.wait()
        self.is_held = False
        if self.before_edit is not None:
            await self.before_edit()
        if not self.takes_edits:
            self.refused += 1
            return {"applied": False, "failureReason": "not now"}
        answer = await super()._apply(params)
        if answer["applied"]:
            [change] = params["edit"]["documentChanges"]
            self.undo.append(change["edits"][0]["newText"])
        else:
            self.refused += 1
        return answer


class StrictClient:
    """Does nothing else while it waits for the answer to a command, as an editor that blocks.

    What the server asks meanwhile is answered behind that.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_free = asyncio.Event()
        self._is_free.set()
        for method, answer in list(client.answers.items()):
            client.answers[method] = self._held(answer)

    async def command(self, name: str, argument: Any = None) -> Any:
        """Return the result of a command, which must come within BLOCKED seconds."""
        self._is_free.clear()
        try:
            return await self._client.command_result(name, argument, timeout=BLOCKED)
        finally:
            self._is_free.set()

    def _held(self, answer: Answer) -> Answer:
        async def held(params: Any) -> Any:
            await self._is_free.wait()
            result = answer(params)
            return await result if asyncio.iscoroutine(result) else result

        return held


async def progress_is_over(client: Client) -> None:
    """Wait until each progress that the client shows has ended."""

    def over() -> bool:
        shown = [events for events in client.progress.values() if events[0]["kind"] == "begin"]
        return bool(shown) and all(events[-1]["kind"] == "end" for events in shown)

    await client.wait_for(over, "the end of each progress")


async def file_holds(client: Client, path: Path, what: Callable[[str], object], named: str) -> str:
    """Wait until a file is as it should be; return its text."""
    text = ""

    async def look() -> None:
        nonlocal text
        while not what(text := path.read_text() if path.exists() else ""):
            await asyncio.sleep(0.02)

    try:
        await client.within(look(), named)
    except TimeoutError as error:
        raise AssertionError(f"no {named} in\n{text}") from error
    return text


class PacedModel:
    """A model server that sends what a test puts, and no more.

    Attributes:
        asked: the questions, in order.
        gone: set when the server has closed a connection before the reply's end.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gone = asyncio.Event()
        self._deltas: asyncio.Queue[str | None] = asyncio.Queue()
        self._came = asyncio.Event()

    def say(self, *deltas: str) -> None:
        """Send pieces of a reply."""
        for delta in deltas:
            self._deltas.put_nowait(delta)

    def end(self) -> None:
        """End the reply."""
        self._deltas.put_nowait(None)

    async def until_asked(self, times: int = 1) -> None:
        """Wait until it was asked so often."""
        async with asyncio.timeout(TIMEOUT):
            while len(self.asked) < times:
                self._came.clear()
                await self._came.wait()

    async def until_sent(self) -> None:
        """Wait until all that was put is on its way."""
        async with asyncio.timeout(TIMEOUT):
            await self._deltas.join()

    @asynccontextmanager
    async def serve(self, home: Path) -> AsyncIterator[PacedModel]:
        """Run it, as the model of the user whose home this is."""
        async with FaultServer(self._answer) as server:
            (home / "config.toml").write_text(
                'default_model = "m"\n[models.m]\nmodel = "m"\ncontext_window = 8192\n'
                f'endpoint = "{server.url}"\n'
            )
            yield self

    async def _answer(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        self.asked.append(request.json["messages"][-1]["content"])
        self._came.set()
        await peer.head()
        closed = asyncio.create_task(peer.wait_closed())
        try:
            while await self._send_next(peer, closed):
                pass
        finally:
            closed.cancel()
            await asyncio.wait([closed])

    async def _send_next(self, peer: Peer, closed: asyncio.Task[None]) -> bool:
        """Send the next piece; return whether another is to come."""
        following = asyncio.create_task(self._deltas.get())
        await asyncio.wait([following, closed], return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            following.cancel()
            self.gone.set()
            return False
        delta = following.result()
        try:
            if delta is not None:
                await peer.event(chunk_of(delta))
                return True
            await peer.event(chunk_of("", finish_reason="stop"))
            await peer.event("[DONE]")
            await peer.chunk(b"")
            return False
        finally:
            self._deltas.task_done()
