"""Code lenses through the real server, what stands in for them, and when they are renewed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from client import Client
from fault_server import FaultServer, Peer, Request, chunk_of
from test_conversation import until

REFRESH = "workspace/codeLens/refresh"


class Document:
    """An open document of the client."""

    def __init__(self, client: Client, path: Path) -> None:
        self.client = client
        self.uri = path.as_uri()
        self.version = 1

    async def open(self, text: str) -> None:
        document = {"uri": self.uri, "languageId": "markdown", "version": 1, "text": text}
        await self.client.notify("textDocument/didOpen", {"textDocument": document})

    async def insert(self, line: int, text: str) -> None:
        self.version += 1
        place = {"line": line, "character": 0}
        await self.client.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": self.uri, "version": self.version},
                "contentChanges": [{"range": {"start": place, "end": place}, "text": text}],
            },
        )

    async def lenses(self) -> list[tuple[int, str]]:
        found = await self._lenses()
        return [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in found]

    async def press(self, line: int, title: str) -> None:
        """Execute the command of a lens."""
        found = [one for one in await self._lenses() if one["range"]["start"]["line"] == line]
        await self._execute([one for one in found if one["command"]["title"] == title])

    async def actions(self, line: int) -> list[str]:
        return [action["title"] for action in await self._actions(line)]

    async def take(self, line: int, title: str) -> None:
        """Execute the command of an action."""
        await self._execute([one for one in await self._actions(line) if one["title"] == title])

    async def _execute(self, found: list[Any]) -> None:
        [one] = found
        command = one["command"]
        await self.client.command_result(command["command"], command["arguments"][0])

    async def _lenses(self) -> list[Any]:
        found: list[Any] = await self.client.request(
            "textDocument/codeLens", {"textDocument": {"uri": self.uri}}
        )
        return found

    async def _actions(self, line: int) -> list[Any]:
        place = {"line": line, "character": 0}
        found: list[Any] = await self.client.request(
            "textDocument/codeAction",
            {
                "textDocument": {"uri": self.uri},
                "range": {"start": place, "end": place},
                "context": {"diagnostics": []},
            },
        )
        return found

    async def refreshed(self, times: int) -> None:
        await self.client.wait_for(
            lambda: len(self.client.asked(REFRESH)) == times, f"refresh number {times}"
        )


async def test_lenses_in_a_folder_whose_name_is_encoded(tmp_path: Path) -> None:
    folder = tmp_path / "wörk 1%20"
    folder.mkdir()
    async with Client() as client:
        await client.initialize(folder)
        document = Document(client, folder / "notes.md")
        await document.open("one\nCMD: ls\n")
        assert await document.lenses() == [(1, "Run"), (1, "Edit")]


async def test_the_client_is_told_only_when_the_lenses_that_it_has_are_no_longer_right(
    folder: Path,
) -> None:
    async with Client() as client:
        await client.initialize(folder)
        document = Document(client, folder / "notes.md")
        await document.open("one\nCMD: ls\n\n")
        await document.refreshed(1)
        await document.lenses()
        for _ in range(3):
            await document.insert(2, "typed below\n")
            await asyncio.sleep(0.3)  # longer than the server waits for more
        await document.insert(0, "typed above\n")
        await document.refreshed(2)
        assert await document.lenses() == [(2, "Run"), (2, "Edit")]
        await document.insert(2, "CMD: pwd\n")
        await document.refreshed(3)
        assert len(await document.lenses()) == 4


async def test_a_client_that_does_not_request_lenses_is_not_asked_to_again(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        hidden, other = (Document(client, folder / name) for name in ("a.md", "b.md"))
        await hidden.open("CMD: ls\n")
        await other.open("one\n")
        await hidden.refreshed(1)
        for _ in range(2):
            await other.insert(0, "typed\n")
            await asyncio.sleep(0.3)  # longer than the server waits for more
        await other.insert(0, "CMD: pwd\n")
        await hidden.refreshed(2)


async def test_a_line_of_the_chat_that_is_still_coming_is_not_offered(
    folder: Path, clean_home: Path
) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        await peer.head()
        await peer.event(chunk_of("CMD: ls\nCMD: make cl"))
        await asyncio.sleep(600)

    async with FaultServer(script) as server, Client() as client:
        (clean_home / "config.toml").write_text(
            f'default_model = "m"\n[models.m]\nmodel = "m"\nendpoint = "{server.url}"\n'
        )
        await client.initialize(folder)
        await client.command_result("aish.chat.send", {"prompt": "how?"})
        chat = folder / ".aish" / "chat.md"
        text = await until(client, chat, lambda text: "CMD: make cl" in text)
        document = Document(client, chat)
        await document.open(text)
        line = text.split("\n").index("CMD: ls")
        assert await document.lenses() == [(line, "Run"), (line, "Edit")]
        await client.command_result("aish.cancel", {})


async def test_a_command_of_several_lines_is_offered_whole_or_to_be_edited(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        document = Document(client, folder / "notes.md")
        await document.open(
            "CMD: cat >a <<E\nCMD: ls\nE\nCMD: echo it's\n\nCMD: cat >b <<E\nCMD: pwd\n"
        )
        assert await document.lenses() == [(0, "Run"), (0, "Edit"), (3, "Edit"), (5, "Edit")]
        # The place of a lens is its first line; the action is offered on each.
        for line in (0, 1, 2):
            [run, *_] = await document.actions(line)
            assert run == "Run: cat >a <<E\\nCMD: ls\\nE"


async def test_a_document_without_lenses_is_no_reason_to_ask(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        plain, runnable = (Document(client, folder / name) for name in ("a.md", "b.md"))
        await plain.open("nothing here\n")
        await asyncio.sleep(0.3)
        await runnable.open("CMD: ls\n")
        await runnable.refreshed(1)


async def test_a_chat_of_an_earlier_session_can_be_sent_once_it_is_open(folder: Path) -> None:
    (folder / ".aish").mkdir()
    chat = folder / ".aish" / "chat.md"
    chat.write_text("## You\n\nhello\n\n## aish\n\nHello.\n\n## You\n\n:re\n")
    async with Client() as client:
        await client.initialize(folder)
        document = Document(client, chat)
        await document.open(chat.read_text())
        await document.refreshed(1)
        assert await document.lenses() == [(8, "Send")]
        # For editors that show no lenses.
        assert await document.actions(7) == []
        assert await document.actions(8) == await document.actions(10) == ["Send"]
        place = {"line": 10, "character": 3}
        found = await client.request(
            "textDocument/completion", {"textDocument": {"uri": document.uri}, "position": place}
        )
        assert ":reset" in [item["label"] for item in found]
