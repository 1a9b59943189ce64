"""What is sent from the chat document, and what a prompt that is put there does to a draft."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from client import Client, RpcError
from test_conversation import open_document


class Editor:
    """Plays an editor that shows the chat document, and makes every edit of its version."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.path = Path()
        self.text = ""
        self.version = 1
        client.answers["workspace/applyEdit"] = self._apply

    async def open(self) -> None:
        uri = (await self._client.command_result("aish.chat.open"))["uri"]
        self.path = Path(uri.removeprefix("file://"))
        self.text = self.path.read_text()
        await open_document(self._client, self.path)

    async def type(self, text: str) -> None:
        """Type at the end of the document."""
        end = self._place(len(self.text))
        await self._change({"start": end, "end": end}, text)

    def under_last_heading(self) -> str:
        return self.text[self.text.rindex("\n## You\n") :].removeprefix("\n## You\n").strip()

    async def _apply(self, params: Any) -> Any:
        [change] = params["edit"]["documentChanges"]
        if change["textDocument"]["version"] != self.version:
            return {"applied": False}
        [edit] = change["edits"]
        await self._change(edit["range"], edit["newText"])
        return {"applied": True}

    def _place(self, offset: int) -> dict[str, int]:
        before = self.text[:offset]
        return {"line": before.count("\n"), "character": len(before.split("\n")[-1])}

    def _offset(self, place: dict[str, int]) -> int:
        lines = self.text.split("\n")[: place["line"]]
        return sum(len(line) + 1 for line in lines) + place["character"]

    async def _change(self, span: Any, text: str) -> None:
        start, end = self._offset(span["start"]), self._offset(span["end"])
        self.text = self.text[:start] + text + self.text[end:]
        self.version += 1
        await self._client.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": self.path.as_uri(), "version": self.version},
                "contentChanges": [{"range": span, "text": text}],
            },
        )


async def test_two_requests_in_a_row_send_a_message_once(folder: Path) -> None:
    async with Client() as client:
        editor = Editor(client)
        await client.initialize(folder)
        await editor.open()
        await editor.type("hello there\n")
        sent = await asyncio.gather(
            *(client.command_result("aish.chat.send") for _ in range(2)), return_exceptions=True
        )
        [refused] = [answer for answer in sent if isinstance(answer, RpcError)]
        assert refused.data["kind"] == "busy"
        await client.wait_for(lambda: editor.text.endswith("## You\n\n"), "a new heading")
        assert editor.text.count("## aish\n") == 1


@pytest.mark.parametrize("applies", [True, False])
async def test_half_an_emoji_in_a_message_costs_neither_the_message_nor_its_reply(
    folder: Path, *, applies: bool
) -> None:
    async with Client() as client:
        editor = Editor(client)
        await client.initialize(folder)
        await editor.open()
        if not applies:
            client.answers["workspace/applyEdit"] = lambda _: {"applied": False}
        await editor.type("hello there \ud83d, what is @\ud83d:1-2?\n")
        assert (await client.command_result("aish.chat.send"))["turnId"]

        def written() -> str:
            return editor.text if applies else editor.path.read_text()

        await client.wait_for(lambda: "\n## aish\n" in written(), "the reply")
        await client.wait_for(lambda: written().endswith("\n## You\n\n"), "a new heading")


async def test_a_prompt_takes_the_place_of_one_that_was_put_there_before(folder: Path) -> None:
    async with Client() as client:
        editor = Editor(client)
        await client.initialize(folder)
        await editor.open()
        for prompt in (":run echo one", ":run echo two", ":run echo"):
            await client.command_result("aish.chat.open", {"prompt": prompt})
            while editor.under_last_heading() != prompt:
                await asyncio.sleep(0.02)
        await editor.type("changed\n")
        await client.command_result("aish.chat.open", {"prompt": ":run echo three"})

        def told() -> bool:
            # On a slow machine, after that the last prompt is still being written.
            messages = [one["message"] for one in client.notified("window/showMessage")]
            return any("have an unsent message" in message for message in messages)

        await client.wait_for(told, "the message that there is a draft")
        assert "three" not in editor.text


async def test_a_prompt_that_comes_while_a_reply_is_written_waits_for_its_end(folder: Path) -> None:
    async with Client() as client:
        editor = Editor(client)
        await client.initialize(folder)
        await editor.open()
        await editor.type(":run sleep 1; echo done\n")
        await client.command_result("aish.chat.send")
        await client.command_result("aish.chat.open", {"prompt": ":run echo two"})
        with pytest.raises(RpcError) as refused:
            await client.command_result("aish.chat.send")
        assert refused.value.data["kind"] == "busy"
        await client.wait_for(lambda: editor.text.endswith(":run echo two\n"), "the prompt")
        assert editor.under_last_heading() == ":run echo two"
        assert editor.text.index("exit 0") < editor.text.index(":run echo two")


async def test_a_question_from_elsewhere_leaves_the_draft_to_be_sent_next(folder: Path) -> None:
    async with Client() as client:
        editor = Editor(client)
        await client.initialize(folder)
        await editor.open()
        await editor.type("my draft\n")
        await client.command_result("aish.ask", {"prompt": "hello there"})
        await client.wait_for(lambda: "offline model" in editor.text, "the reply")
        assert editor.under_last_heading() == "my draft"
        [question, reply, draft] = [
            editor.text.index(part)
            for part in ("\nhello there\n\n## aish\n\n", "offline", "my draft")
        ]
        assert question < reply < draft
