"""``aish.memory.*`` and ``:memory`` through the real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from client import Client, RpcError
from test_chat_sending import Editor


async def contents(client: Client) -> list[str]:
    listed = await client.command_result("aish.memory.list")
    return sorted(item["content"] for item in listed["items"])


async def test_items_are_edited_and_cleared_by_a_yes_alone(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        for content, scope in (("one", "workspace"), ("two", "workspace"), ("mine", "user")):
            item = {"kind": "fact", "content": content, "scope": scope}
            await client.command_result("aish.memory.add", item)

        with pytest.raises(RpcError, match="say which scope") as error:
            await client.command_result("aish.memory.edit", {"id": 1, "content": "uno"})
        assert (error.value.code, error.value.data["path"]) == (-32602, "scope")
        edit = {"id": 1, "content": "uno", "scope": "workspace"}
        assert await client.command_result("aish.memory.edit", edit) == {"id": 3}
        with pytest.raises(RpcError, match="no item 1") as error:
            await client.command_result("aish.memory.edit", edit)
        assert error.value.data["kind"] == "notFound"

        asked: list[str] = []

        def answer(button: int | None) -> Any:
            def press(params: Any) -> Any:
                asked.append(params["message"])
                return None if button is None else params["actions"][button]

            return press

        for button in (None, 0):
            client.answers["window/showMessageRequest"] = answer(button)
            assert await client.command_result("aish.memory.clear") == {"forgotten": 0}
        assert await contents(client) == ["mine", "two", "uno"]
        client.answers["window/showMessageRequest"] = answer(1)
        only = {"scope": "workspace"}
        assert await client.command_result("aish.memory.clear", only) == {"forgotten": 2}
        assert len(asked) == 3
        confirmed = {"confirmed": True}
        assert await client.command_result("aish.memory.clear", confirmed) == {"forgotten": 1}
        assert len(asked) == 3
        assert await contents(client) == []


async def test_the_chat_edits_and_completes(folder: Path) -> None:
    async with Client() as client:
        editor = Editor(client)
        await client.initialize(folder)
        await editor.open()

        async def typed(line: str) -> str:
            """Send a line; return what is answered."""
            headings = editor.text.count("\n## You\n")
            await client.command_result("aish.chat.send", {"prompt": line})
            await client.wait_for(lambda: editor.text.count("\n## You\n") > headings, line)
            return editor.text[editor.text.rindex(line) :]

        assert "item 1. The model" in await typed(":remember one")
        item = {"kind": "fact", "content": "mine", "scope": "user"}
        await client.command_result("aish.memory.add", item)
        assert "user:1" in await typed(":memory edit 1 uno")
        assert "now item 2" in await typed(":memory edit workspace:1 uno")

        await editor.type(":memory edit ")
        place = {"line": editor.text.count("\n"), "character": len(":memory edit ")}
        at = {"textDocument": {"uri": editor.path.as_uri()}, "position": place}
        found = await client.request("textDocument/completion", at)
        proposals = found["items"] if isinstance(found, dict) else found
        assert sorted(proposal["label"] for proposal in proposals) == ["1", "2"]
