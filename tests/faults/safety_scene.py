"""A workspace, a model that says what a test wants, and a user who is watched while asked."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from client import Client, RpcError
from conversing import SHOWS_NOTHING, Place, ask, chat_until
from fault_server import FaultServer, Peer, Request, chunk_of

#: What the user's own key is in every scene.
KEY: Final = "sk-test-0123456789abcdefghij"

#: A server as an editor starts it: its folder is the workspace, which may hold modules of its own.
SERVER: Final = (sys.executable, "-P", "-m", "aish_lsp")


@dataclass
class Scene:
    """A client of a server in a workspace of its own.

    Attributes:
        says: what the model answers next.
        asked: the questions that the user was asked so far.
        answer: what the user presses: a button's title, or None for none.
    """

    place: Place
    model: FaultServer
    client: Client
    says: str = "All is well."
    asked: list[str] = field(default_factory=list)
    answer: str | None = None

    @property
    def folder(self) -> Path:
        """The workspace."""
        return self.place.folder

    async def reply(self, text: str, prompt: str = "go on", **fields: Any) -> Any:
        """Ask, and have the model answer ``text``; return the result."""
        self.says = text
        return await ask(self.client, prompt, "reply", **fields)

    async def run(self, **argument: Any) -> Any:
        """Return the result of ``aish.run``."""
        return await self.client.command_result(
            "aish.run", {"partialResultToken": "run", **argument}
        )

    async def refuses(self, **argument: Any) -> bool:
        """Return whether ``aish.run`` refuses its arguments."""
        try:
            await self.run(**argument)
        except RpcError as error:
            return error.code == -32602
        return False

    async def run_suggested(self, command: str) -> Any:
        """Have the model suggest ``command``, and run it as a click on it does."""
        if "\n" in command:  # no line of a reply can hold it
            return await self.run(text=command)
        [suggested] = (await self.reply(f"CMD: {command}\n"))["commands"]
        assert suggested["text"] == command
        return await self.run(commandId=suggested["id"])

    async def say(self, line: str) -> str:
        """Send ``line`` in the chat; return what was written there until the next heading."""
        heading = "\n## You\n"
        before = self.place.chat.read_text() if self.place.chat.exists() else ""
        headings = max(before.count(heading), 1)
        await self.client.command_result("aish.chat.send", {"prompt": line})
        text = await chat_until(
            self.client, self.place, lambda text: text.count(heading) > headings, line
        )
        return text[len(before) :]

    async def open(self, path: Path) -> str:
        """Open a file in the editor; return its URI."""
        document = {
            "uri": path.as_uri(),
            "languageId": "markdown",
            "version": 1,
            "text": path.read_text(encoding="utf-8"),
        }
        await self.client.notify("textDocument/didOpen", {"textDocument": document})
        return path.as_uri()

    async def actions(self, uri: str, line: int) -> list[Any]:
        """Return the code actions of a line."""
        place = {"line": line, "character": 0}
        params = {
            "textDocument": {"uri": uri},
            "range": {"start": place, "end": place},
            "context": {"diagnostics": []},
        }
        found: list[Any] = await self.client.request("textDocument/codeAction", params)
        return found


def folder_of(root: Path) -> Place:
    """Return a place with what the commands of tests speak of: src, list, and a link out of it."""
    place = Place.make(root)
    (place.folder / "src").mkdir()
    (place.folder / "src" / "precious").write_text("work of a week\n")
    (place.folder / "list").write_text("src\n")
    (root / "outside").mkdir()
    (root / "outside" / "secret").write_text("outside it is secret\n")
    (place.folder / "link").symlink_to(root / "outside")
    return place


@contextlib.asynccontextmanager
async def acted(
    place: Place,
    *,
    asks: bool = True,
    command: Sequence[str] = SERVER,
    config: str = "",
    settings: Any = None,
    env: dict[str, str] | None = None,
) -> AsyncIterator[Scene]:
    """Open the workspace of ``place``; where ``asks`` is false, in an editor without questions."""

    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "tested"}]})
            return
        await peer.head()
        await peer.event(chunk_of(scene.says))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")
        await peer.chunk(b"")

    async with FaultServer(script) as model:
        place.configure(model.url, context_window=32768, api_key_env="TEST_API_KEY")
        with place.config.open("a") as file:
            file.write(config)
        client = place.client("stdio", TEST_API_KEY=KEY, **(env or {}))
        client.command = list(command)
        client.cwd = place.folder
        scene = Scene(place, model, client)

        def answer(params: Any) -> Any:
            if not asks:
                raise RpcError(-32601, "this editor has no questions")
            scene.asked.append(params["message"])
            return next((a for a in params["actions"] if a["title"] == scene.answer), None)

        client.answers["window/showMessageRequest"] = answer
        if settings is not None:
            client.answers["workspace/configuration"] = lambda params: [
                settings for _ in params["items"]
            ]
        async with client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            yield scene


class Watched:
    """What a server does that others could see: the programs it starts, the sockets it opens."""

    def __init__(self, log: Path) -> None:
        self.command = [
            *("strace", "-f", "-qq", "-s", "300", "-o", str(log)),
            *("-e", "trace=execve,connect,bind,listen", *SERVER),
        ]
        self._log = log
        self._seen = 0

    async def calls(self) -> list[str]:
        """Return the calls since the last time, without those that are known to have failed."""
        await asyncio.sleep(0.3)
        lines = self._log.read_text(errors="replace").splitlines()
        new, self._seen = lines[self._seen :], len(lines)
        calls = [line.split(" ", 1)[1].strip() for line in new if "= -1" not in line]
        # Of a call that was interrupted the first line tells what it was.
        return [call for call in calls if not call.startswith("<...")]
