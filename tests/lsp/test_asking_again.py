"""``aish.retry`` and ``aish.context.compact`` through the real server, and after a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from client import RpcError
from conversing import SHOWS_NOTHING, Place, ask, chat_holds, yes
from fault_server import FaultServer, Peer, Request, chunk_of


class Model:
    """Numbers its replies; ``down`` makes it refuse, and ``summary`` is what it summarizes to."""

    def __init__(self) -> None:
        self.replies = 0
        self.down = False
        self.summary = "They spoke of the tests."
        self.may_summarize: asyncio.Event | None = None
        self.sent: list[Any] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        self.sent = request.json["messages"]
        if self.down:
            await peer.reply({"error": {"message": "out of memory"}}, "400 Bad Request")
            return
        if self.sent[0]["content"].startswith("You summarize"):
            text = self.summary
            if self.may_summarize is not None:
                await self.may_summarize.wait()
        else:
            self.replies += 1
            text = f"Reply {self.replies}.\nCMD: echo {self.replies}\n"
        await peer.head()
        await peer.event(chunk_of(text))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")

    @property
    def turns(self) -> list[str]:
        """What was sent last, without the system's message."""
        return [message["content"] for message in self.sent[1:]]


async def retried(client: Any, token: str, **argument: Any) -> Any:
    return await client.command_result("aish.retry", {"partialResultToken": token, **argument})


async def refused(client: Any, **argument: Any) -> str:
    with pytest.raises(RpcError) as error:
        await retried(client, "refused", **argument)
    return str(error.value.data["kind"])


async def test_the_old_answer_is_no_longer_sent_here_or_after_a_restart(place: Place) -> None:
    model = Model()
    async with FaultServer(model) as served:
        place.configure(served.url, context_window=8192)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            assert await refused(client) == "notFound"
            first = await ask(client, "First?", "a")
            run = {"commandId": first["commands"][0]["id"], "partialResultToken": "r"}
            await client.command_result("aish.run", run)
            second = await ask(client, "Second?", "b")
            again = await retried(client, "c")
            carried = "[exec output]\n$ echo 1 (exit 0)\n1\n"
            assert model.turns[:2] == ["First?", first["text"]]
            assert len(model.turns) == 3
            assert model.turns[2].startswith(carried)
            assert model.turns[2].endswith("Second?")
            assert again.keys() == second.keys()
            assert (again["text"], again["finishReason"]) == (
                "Reply 3.\nCMD: echo 3\n",
                "stop",
            )
            assert again["turnId"] != second["turnId"]
            # What the old answer suggested is gone with it.
            waiting = (await client.command_result("aish.commands.list"))["commands"]
            assert waiting == again["commands"]
            assert client.progress["c"][0]["kind"] == "start"
            # An earlier exchange goes to the end; what was said since stays.
            await retried(client, "d", turnId=first["turnId"])
            assert model.turns[1:] == [again["text"], "First?"]
            assert model.turns[0].endswith("Second?")
            assert await refused(client, turnId=first["turnId"]) == "notFound"
        async with place.client() as client:
            await client.initialize(place.folder)
            [session] = (await client.command_result("aish.session.list"))["sessions"]
            assert (session["questions"], session["turns"]) == (2, 8)
            resumed = await client.command_result("aish.session.resume", {"id": session["id"]})
            assert resumed["turns"] == 4
            shown = (await client.command_result("aish.session.history"))["turns"]
            assert [turn["inForce"] for turn in shown] == [False] * 4 + [True] * 4
            # What can be asked again has an id, after a restart, too.
            asked = [turn["turnId"] for turn in shown if turn["role"] == "user"]
            assert [bool(turn) for turn in asked] == [False, False, True, True]
            fork = {"turnId": asked[3], "show": False}
            assert (await client.command_result("aish.session.fork", fork))["id"] != session["id"]
            waiting = (await client.command_result("aish.commands.list"))["commands"]
            assert [command["text"] for command in waiting] == ["echo 4"]
            fifth = await retried(client, "e")
            assert model.turns[1:] == [again["text"], "First?"]
            waiting = (await client.command_result("aish.commands.list"))["commands"]
            assert waiting == fifth["commands"]


async def test_a_retry_that_fails_leaves_all_as_it_was(place: Place) -> None:
    model = Model()
    async with FaultServer(model) as served:
        place.configure(served.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder)
            first = await ask(client, "First?", "a")
            second = await ask(client, "Second?", "b")
            model.down = True
            assert await refused(client, turnId=first["turnId"]) == "backendRejected"
            model.down = False
            await ask(client, "Third?", "c")
            assert model.turns == [
                *("First?", first["text"], "Second?", second["text"], "Third?"),
            ]
            # A question that got no answer is the last one.
            model.down = True
            with pytest.raises(RpcError):
                await ask(client, "Fourth?", "d")
            model.down = False
            await retried(client, "e")
            assert model.turns[-1] == "Fourth?"
            assert len(model.turns) == 7
        async with place.client() as client:
            await client.initialize(place.folder)
            [session] = (await client.command_result("aish.session.list"))["sessions"]
            assert session["questions"] == 4
            resumed = await client.command_result("aish.session.resume", {"id": session["id"]})
            assert resumed["turns"] == 8
            await ask(client, "Fifth?", "f")
            assert model.turns[0::2] == ["First?", "Second?", "Third?", "Fourth?", "Fifth?"]


async def test_the_chat_asks_again_and_summarizes(place: Place) -> None:
    model = Model()
    async with FaultServer(model) as served:
        place.configure(served.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)

            async def send(prompt: str, until: str) -> None:
                await client.command_result("aish.chat.send", {"prompt": prompt})
                await chat_holds(client, place, until)

            await send(":compact", "There is nothing to summarize yet")
            await send("First?", "Reply 1.")
            await send(":retry", "Reply 2.")
            assert model.turns == ["First?"]
            await send(":retry nobody", "There is no model 'nobody'.")
            assert (await client.command_result("aish.retry")).keys() == {"turnId"}
            await chat_holds(client, place, "Reply 3.")
            await send("Second?", "Reply 4.")
            await send(":compact", "2 messages went into the summary.")
            await send("Third?", "Reply 5.")
            assert "They spoke of the tests." in model.sent[0]["content"]
            assert model.turns[0::2] == ["Second?", "Third?"]
            assert place.chat.read_text().count("First?") == 2


async def test_a_summary_that_takes_long_shows_that_it_goes_on(place: Place) -> None:
    model = Model()

    def has_ticked() -> bool:
        return any(
            value.get("message", "").endswith("1 s")
            for values in client.progress.values()
            for value in values
            if value["kind"] == "report"
        )

    async with FaultServer(model) as served:
        place.configure(served.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder)
            for number in range(2):
                await ask(client, f"Question {number}?", f"t{number}")
            model.may_summarize = asyncio.Event()
            await client.command_result("aish.chat.send", {"prompt": ":compact"})
            await client.wait_for(has_ticked, "the seconds")
            model.may_summarize.set()
            await chat_holds(client, place, "2 messages went into the summary.")


async def test_compact_summarizes_all_but_the_last_exchange_or_nothing(place: Place) -> None:
    model = Model()
    async with FaultServer(model) as served:
        place.configure(served.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder)
            for number in range(3):
                await ask(client, f"Question {number}?", f"t{number}")
            model.down = True
            failed = await client.command_result("aish.context.compact")
            assert (failed["evictedTurns"], failed["context"]["compactions"]) == (0, 0)
            told = client.notified("window/showMessage")[-1]["message"]
            assert "nothing is lost" in told
            assert "out of memory" in told
            model.down = False
            before = (await client.command_result("aish.context.show"))["breakdown"]
            assert before["summary"] == 0
            done = await client.command_result("aish.context.compact")
            assert done.keys() == {"evictedTurns", "context"}
            assert (done["evictedTurns"], done["context"]["compactions"]) == (4, 1)
            assert done["context"]["breakdown"]["summary"] > 0
            shown = await client.command_result("aish.context.show")
            assert shown == done["context"]
            again = await client.command_result("aish.context.compact")
            assert again["evictedTurns"] == 0
        async with place.client() as client:
            await client.initialize(place.folder)
            [session] = (await client.command_result("aish.session.list"))["sessions"]
            resumed = await client.command_result("aish.session.resume", {"id": session["id"]})
            assert resumed["turns"] == 2
            await ask(client, "After?", "f")
            assert "They spoke of the tests." in model.sent[0]["content"]
            assert model.turns[0::2] == ["Question 2?", "After?"]
