"""What the chat shows of a question that waits, and of a command that prints nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from client import CAPABILITIES, Client
from conversing import yes
from test_chat_sending import Editor
from test_code_lenses import Document

RUNS = "sleep 60; echo done"


@pytest.fixture(params=[True, False], ids=["shown", "file"])
def is_shown(request: pytest.FixtureRequest) -> bool:
    """Return whether the editor shows the chat; else it is only a file."""
    return bool(request.param)


class Chat:
    """The chat as its user sees it."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._path = folder / ".aish" / "chat.md"
        self.editor: Editor | None = None

    async def show(self) -> None:
        self.editor = Editor(self._client)
        await self.editor.open()

    @property
    def text(self) -> str:
        if self.editor is not None:
            return self.editor.text
        return self._path.read_text() if self._path.exists() else ""

    async def until(self, *parts: str, without: str = "\0") -> str:
        """Wait until the chat holds each of ``parts``, and not ``without``; return it."""

        async def holds() -> str:
            while not all(part in self.text for part in parts) or without in self.text:
                await asyncio.sleep(0.02)
            return self.text

        return str(await self._client.within(holds(), f"{parts} in {self.text[-300:]}"))


async def test_a_silent_command_is_seen_while_it_runs(folder: Path, *, is_shown: bool) -> None:
    async with Client() as client:
        chat = Chat(client, folder)
        await client.initialize(folder)
        if is_shown:
            await chat.show()
        await client.command_result("aish.run", {"text": RUNS})
        text = await chat.until("> Running (")
        _, _, below = text.partition(f"````console\n$ {RUNS}\n")
        assert below.lstrip("\n").startswith("> Running (")
        # What is asked meanwhile is seen at once, and that it waits.
        await client.command_result("aish.ask", {"prompt": "how do I list files?"})
        text = await chat.until("> Waiting for its turn (", "how do I list files?")
        assert "## aish" not in text
        await client.command_result("aish.cancel", {})
        text = await chat.until("> stopped after", "## aish", without="> Waiting for")
        assert "> Running (" not in text
        assert f"````console\n$ {RUNS}\n" in text


async def test_a_question_that_waits_for_a_reply_is_seen_at_once(
    folder: Path, *, is_shown: bool
) -> None:
    async with Client() as client:
        chat = Chat(client, folder)
        await client.initialize(folder)
        if is_shown:
            await chat.show()
        client.answers["window/showMessageRequest"] = yes
        await client.command_result("aish.chat.send", {"prompt": f":run {RUNS}"})
        await chat.until("> Running (")
        for question in ("how do I list files?", "how do I see the time?"):
            await client.command_result("aish.ask", {"prompt": question})
            await chat.until(f"): {question}\n")
        await client.command_result("aish.cancel", {})
        text = await chat.until("## You\n\nhow do I list", "## You\n\nhow do I see")
        text = await chat.until("> stopped after", without="> Waiting for")
        assert text.index("## You\n\nhow do I list") < text.index("## You\n\nhow do I see")
        assert "> Running (" not in text
        assert "Another question is being answered" not in text


async def test_what_runs_is_stopped_by_an_action_and_by_a_lens(folder: Path) -> None:
    async with Client() as client:
        chat = Chat(client, folder)
        await client.initialize(folder)
        await chat.show()
        document = Document(client, folder / ".aish" / "chat.md")
        assert "Stop" not in await document.actions(0)
        await client.command_result("aish.run", {"text": RUNS})
        await client.command_result("aish.ask", {"prompt": "how do I list files?"})
        text = await chat.until("> Running (", "): how do I list files?")
        lines = text.split("\n")
        [running] = [number for number, line in enumerate(lines) if line.startswith("> Running")]
        assert lines[running].endswith("The code action *Stop* ends it.")
        # The lens ends the command of its line, and the question that waits gets its turn.
        await document.press(running, "Stop")
        await chat.until("> stopped after", "## aish", "ls", without="> Running (")
        await client.command_result("aish.run", {"text": RUNS})
        await chat.until("> Running (")
        # The action ends all that runs here, wherever in the chat it is asked for.
        await document.take(0, "Stop")
        await chat.until("> stopped after", without="> Running (")
        assert "Stop" not in await document.actions(0)
        assert "Stop" not in [title for _, title in await document.lenses()]


async def test_its_time_is_told_where_progress_is_shown(folder: Path) -> None:
    capabilities: Any = CAPABILITIES | {"window": {"workDoneProgress": True}}
    async with Client() as client:
        client.answers["window/workDoneProgress/create"] = lambda _: None
        await client.initialize(folder, capabilities=capabilities)
        await client.command_result("aish.run", {"text": RUNS})

        def told() -> list[str]:
            return [
                event["message"]
                for events in client.progress.values()
                for event in events
                if event.get("kind") == "report"
            ]

        await client.wait_for(lambda: {"1 s", "2 s"} <= set(told()), "the time")
        await client.command_result("aish.cancel", {})
