"""Parting sessions, showing a request, approving late: through the real server, by commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from client import Client, RpcError


async def ask(client: Client, prompt: str, **fields: Any) -> Any:
    argument = {"prompt": prompt, "partialResultToken": prompt, **fields}
    return await client.command_result("aish.ask", argument)


async def test_a_session_parts_before_a_question(clean_home: Path, folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        first = await ask(client, "how do I list the files here?")
        second = await ask(client, "how do I see the free disk space?")
        beside = await client.command_result(
            "aish.session.fork", {"turnId": second["turnId"], "show": False}
        )
        assert beside["turns"] == 2
        assert beside["id"] != first["sessionId"]
        there = {"session": beside["id"]}
        other = await ask(client, "how do I see the free memory?", **there)
        said = await client.command_result("aish.session.history", there)
        assert [turn["content"] for turn in said["turns"] if turn["role"] == "user"] == [
            "how do I list the files here?",
            "how do I see the free memory?",
        ]
        assert other["sessionId"] == beside["id"]
        # The first stays as it is.
        said = await client.command_result("aish.session.history", {})
        assert [turn["inForce"] for turn in said["turns"]] == [True] * 4

        before_all = await client.command_result("aish.session.fork", {"turnId": first["turnId"]})
        assert before_all["turns"] == 0
        with pytest.raises(RpcError, match="no longer sent") as error:
            await client.command_result("aish.session.fork", {"turnId": "nosuch"})
        assert error.value.data["kind"] == "notFound"
        # It lies on the disk as any other.
        resumed = await client.command_result("aish.session.resume", {"id": beside["id"]})
        assert resumed == {"id": beside["id"], "turns": 4}


async def test_what_was_asked_again_parts_before_its_first_question(
    clean_home: Path, folder: Path
) -> None:
    async with Client() as client:
        await client.initialize(folder)
        await ask(client, "how do I list the files here?")
        await ask(client, "how do I see the free disk space?")
        again = await client.command_result("aish.retry", {"partialResultToken": "again"})
        parted = await client.command_result("aish.session.fork", {"turnId": again["turnId"]})
        assert parted["turns"] == 2


async def test_the_request_is_shown_and_not_sent(clean_home: Path, folder: Path) -> None:
    (folder / "notes.txt").write_text("the answer is 42\n")
    (folder / ".env").write_text("TOKEN=value-of-the-token\n")
    async with Client() as client:
        await client.initialize(folder)
        await ask(client, "how do I list the files here?")
        bare = await client.command_result("aish.prompt.show")
        assert [message["role"] for message in bare["messages"]] == ["system", "user", "assistant"]
        shown = await client.command_result(
            "aish.prompt.show", {"prompt": "what do @notes.txt and @.env say?"}
        )
        last = shown["messages"][-1]
        assert last["role"] == "user"
        assert "the answer is 42" in last["content"]
        assert "value-of-the-token" not in last["content"]
        assert shown["tokens"] > bare["tokens"]
        said = await client.command_result("aish.session.history")
        assert len(said["turns"]) == 2


async def test_what_nobody_was_asked_about_is_approved_later(
    clean_home: Path, folder: Path
) -> None:
    (folder / "old.txt").touch()
    async with Client() as client:
        await client.initialize(folder)
        run = {"text": "rm old.txt", "partialResultToken": "run"}
        denied = await client.command_result("aish.run", run)
        assert denied["finishReason"] == "denied"
        assert (folder / "old.txt").exists()
        approve = {"commandId": denied["commandId"], "partialResultToken": "approve"}
        done = await client.command_result("aish.approve", approve)
        assert (done["finishReason"], done["exitCode"]) == ("stop", 0)
        assert not (folder / "old.txt").exists()
        with pytest.raises(RpcError, match="waits for approval"):
            await client.command_result("aish.approve", approve)
