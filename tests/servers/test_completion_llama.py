"""``aish.model.complete`` and ``.count``: a real llama.cpp server for other extensions."""

from __future__ import annotations

from typing import Any

import pytest
from client import Client, RpcError
from conversing import Place, ask, begin, events, streamed
from fault_server import FaultServer
from llama_server import ENDLESS, says

pytestmark = pytest.mark.llama


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def model(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


async def complete(client: Client, *messages: dict[str, str], **fields: Any) -> Any:
    argument = {"model": "tested", "messages": messages, **fields}
    return await client.command_result("aish.model.complete", argument)


async def test_nothing_but_the_messages_is_sent_and_nothing_is_kept(
    place: Place, recorded: FaultServer
) -> None:
    place.configure(recorded.url, grammar=says("Yes."))
    (place.folder / "Makefile").write_text("test:\n")
    async with place.client() as client:
        await client.initialize(place.folder)
        await client.command_result("aish.memory.add", {"kind": "fact", "content": "It is so."})
        await ask(client, "Of the conversation?", "one")
        before = await client.command_result("aish.session.history")
        said = [user("First."), user("Well?"), model("Hm."), user("And?")]
        reply = await complete(client, *said, partialResultToken="two")
        assert (reply["text"], reply["finishReason"]) == ("Yes.", "stop")
        assert streamed(client, "two") == "Yes."
        assert [one["kind"] for one in client.progress["two"]][-2:] == ["usage", "end"]
        system, *others = recorded.requests[-1].json["messages"]
        assert others == [user("First.\n\nWell?"), model("Hm."), user("And?")]
        assert "It is so." not in system["content"]
        assert "make test" not in system["content"]
        # What it counted is what llama.cpp did, and it is paid for.
        assert events(client, "two", "usage")[0]["inputTokens"] == reply["usage"]["inputTokens"]
        costs = await client.command_result("aish.cost.show")
        assert costs["models"]["tested"]["main"]["calls"] == 2
        assert await client.command_result("aish.session.history") == before
        # Without a token it comes whole.
        assert (await complete(client, user("Well?")))["text"] == "Yes."
        await client.shutdown()


async def test_it_is_stopped(place: Place, recorded: FaultServer) -> None:
    place.configure(recorded.url, grammar=ENDLESS, max_output_tokens=6000)
    async with place.client() as client:
        await client.initialize(place.folder)
        argument = {"model": "tested", "messages": [user("Well?")], "partialResultToken": "one"}
        number, answer = await begin(client, "aish.model.complete", argument)
        await client.wait_for(lambda: len(events(client, "one", "text")) > 5, "some text")
        await client.notify("$/cancelRequest", {"id": number})
        reply = await client.within(answer, "the answer to a cancelled request")
        assert reply["finishReason"] == "cancelled"
        assert reply["text"] == streamed(client, "one") != ""
        # It begins no session.
        assert (await client.command_result("aish.session.list"))["sessions"] == []
        await client.shutdown()


async def test_what_it_refuses(place: Place, recorded: FaultServer) -> None:
    place.configure(recorded.url, grammar=says("Yes."))
    async with place.client() as client:
        await client.initialize(place.folder)
        for messages in ([], [model("Hm.")], [user("A."), model("B.")]):
            with pytest.raises(RpcError) as refused:
                await complete(client, *messages)
            assert refused.value.data == {"kind": "invalidArgument", "path": "messages"}
        with pytest.raises(RpcError, match="Did you mean tested") as refused:
            await complete(client, user("A."), model="tessted")
        assert refused.value.data["kind"] == "notFound"
        # None of it is left out to make it fit, and it is not sent.
        sent = len(recorded.requests)
        with pytest.raises(RpcError, match="do not fit into tested's window") as refused:
            await complete(client, user("a long text " * 2000), user("Well?"))
        assert refused.value.data["kind"] == "overBudget"
        assert not [one for one in recorded.requests[sent:] if "completions" in one.path]
        await client.shutdown()


async def test_texts_are_counted(place: Place, recorded: FaultServer) -> None:
    place.configure(recorded.url, context_window=8192)
    async with place.client() as client:
        await client.initialize(place.folder)
        argument = {"model": "tested", "texts": ["", "one", "one and two and three"]}
        counted = await client.command_result("aish.model.count", argument)
        none, some, more = counted["tokens"]
        assert none == 0 < some < more
        assert counted["input"] + counted["output"] == 8192
        assert not recorded.requests
        await client.shutdown()
