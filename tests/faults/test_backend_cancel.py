"""Cancelling at every moment: before the first token, in mid-stream, while something else runs."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from client import never
from conversing import ask, begin, events, streamed, yes
from fault_server import Peer, Request, chunk_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

logger = logging.getLogger(__name__)

#: Seconds: ten times what the protocol promises, for a busy machine.
SOON = 1.0

FORMS = ["$/cancelRequest", "window/workDoneProgress/cancel", "aish.cancel"]


class Endless:
    """A model server that sends words until the client goes, or none at all."""

    def __init__(self, *, words: bool) -> None:
        self.words = words
        self.asked = asyncio.Event()
        self.closed_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def __call__(self, _: Request, peer: Peer) -> None:
        self.asked.set()
        sending = asyncio.create_task(self._send(peer))
        with suppress(OSError):  # a reset, where words were still on their way
            await peer.wait_closed()
        self.closed_at.set_result(time.perf_counter())
        sending.cancel()

    async def _send(self, peer: Peer) -> None:
        if self.words:
            with suppress(OSError):
                await peer.head()
                while True:
                    await peer.event(chunk_of("word "))
                    await asyncio.sleep(0.005)


async def cancel(client: Any, how: str, request_id: int, job_id: str) -> None:
    match how:
        case "$/cancelRequest":
            await client.notify(how, {"id": request_id})
        case "window/workDoneProgress/cancel":
            await client.notify(how, {"token": "work"})
        case _:
            await begin(client, how, {"turnId": job_id})


async def ended(pid: int) -> None:
    """Wait until a process is gone."""
    while True:
        try:
            os.kill(pid, 0)
            # A zombie is gone, too: who started it has not looked yet.
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return
        except OSError:
            return
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", FORMS)
async def test_in_mid_stream_the_connection_is_closed_at_once(served: Any, how: str) -> None:
    client = served.client
    served.script = endless = Endless(words=True)
    request_id, answer = await begin(
        client, "aish.ask", {"prompt": "Go on.", "partialResultToken": "t"}, workDoneToken="work"
    )
    await client.wait_for(lambda: len(events(client, "t", "text")) > 3, "some text")
    sent = time.perf_counter()
    await cancel(client, how, request_id, events(client, "t", "start")[0]["turnId"])
    result = await client.within(answer, "the answer")
    answered = time.perf_counter() - sent
    closed = await client.within(endless.closed_at, "the end of the connection") - sent
    logger.info("answered after %.0f ms, closed after %.0f ms", answered * 1000, closed * 1000)
    assert answered < SOON
    assert closed < SOON
    assert result["finishReason"] == "cancelled"
    assert result["text"] == streamed(client, "t")
    assert result["usage"]["inputTokens"] > 0
    reply = served.place.records()[-1]
    assert (reply["content"], reply["finish"]) == (result["text"], "cancelled")

    served.script = type(served).script
    assert (await ask(client, "And now?", "u"))["text"] == "All is well."
    _, _, kept, _ = served.model.requests[-1].json["messages"]
    assert kept == {"role": "assistant", "content": result["text"]}


@pytest.mark.parametrize("how", FORMS)
async def test_before_the_first_token_the_question_is_not_sent_again(served: Any, how: str) -> None:
    client = served.client
    await client.command_result("aish.run", {"text": "ls -d .", "partialResultToken": "r"})
    served.script = endless = Endless(words=False)
    request_id, answer = await begin(
        client, "aish.ask", {"prompt": "Hello?", "partialResultToken": "t"}, workDoneToken="work"
    )
    await client.within(endless.asked.wait(), "the request")
    [start] = await client.wait_for(lambda: events(client, "t", "start"), "the start")
    await cancel(client, how, request_id, start["turnId"])
    result = await client.within(answer, "the answer")
    await client.within(endless.closed_at, "the end of the connection")
    assert (result["finishReason"], result["text"], result["usage"]) == ("cancelled", "", None)
    assert [event["kind"] for event in client.progress["t"]] == ["start", "end"]
    *_, question = served.place.records()
    output = {"command": "ls -d .", "exit": 0, "output": ".\n"}
    assert (question["content"], question["exec"]) == ("Hello?", [output])
    assert question["meta"] == "unanswered"

    served.script = type(served).script
    await ask(client, "And now?", "u")
    _, *turns = served.model.requests[-1].json["messages"]
    content = "[exec output]\n$ ls -d . (exit 0)\n.\n\nAnd now?"
    assert turns == [{"role": "user", "content": content}]
    assert served.place.records()[-2]["exec"] == [output]


async def test_while_the_model_is_being_looked_up(served: Any) -> None:
    """Where the window is not configured the server is asked for it, which may take long."""
    client, place = served.client, served.place
    served.script = endless = Endless(words=False)
    place.configure(served.model.url, timeout=30)
    try:
        request_id, answer = await begin(
            client, "aish.ask", {"prompt": "Hello?", "partialResultToken": "t"}
        )
        await client.within(endless.asked.wait(), "the request")
        await cancel(client, "$/cancelRequest", request_id, "")
        assert (await client.within(answer, "the answer"))["finishReason"] == "cancelled"
    finally:
        place.configure(served.model.url, context_window=8192, timeout=5.0)
    assert served.model.requests[-1].path == "/v1/models"
    *_, question = place.records()
    assert question["content"] == "Hello?"
    assert question["meta"] == "unanswered"


async def test_while_it_waits_behind_another_question(served: Any) -> None:
    client = served.client
    served.script = endless = Endless(words=True)
    _, first = await begin(client, "aish.ask", {"prompt": "First.", "partialResultToken": "t"})
    await client.wait_for(lambda: events(client, "t", "text"), "some text")
    second_id, second = await begin(
        client, "aish.ask", {"prompt": "Second.", "partialResultToken": "u"}
    )
    await client.wait_for(lambda: events(client, "u", "notice"), "a notice that it waits")
    await cancel(client, "$/cancelRequest", second_id, "")
    result = await client.within(second, "the answer to the second")
    assert (result["finishReason"], result["text"]) == ("cancelled", "")
    assert client.progress["u"][-1]["kind"] == "end"

    # The first one goes on, until everything is stopped.
    before = len(streamed(client, "t"))
    await client.wait_for(lambda: len(streamed(client, "t")) > before, "more text")
    assert not first.done()
    assert await client.command_result("aish.cancel") == {"cancelled": 1}
    assert (await client.within(first, "the answer to the first"))["finishReason"] == "cancelled"
    await client.within(endless.closed_at, "the end of the connection")
    assert await client.command_result("aish.cancel") == {"cancelled": 0}
    assert await client.command_result("aish.cancel", {"turnId": "gone"}) == {"cancelled": 0}
    assert served.place.records()[-2]["content"] == "First."


@pytest.mark.parametrize("how", FORMS)
async def test_a_command_ends_with_all_that_it_started(served: Any, how: str) -> None:
    client = served.client
    client.answers["window/showMessageRequest"] = yes
    text = "echo $$; sleep 60 & echo $!; (sleep 60 & echo $!); wait"
    request_id, answer = await begin(
        client, "aish.run", {"text": text, "partialResultToken": "t"}, workDoneToken="work"
    )
    await client.wait_for(lambda: streamed(client, "t", "output").count("\n") == 3, "three pids")
    await cancel(client, how, request_id, events(client, "t", "output")[0]["commandId"])
    result = await client.within(answer, "the answer")
    assert result["finishReason"] == "cancelled"
    assert result["exitCode"] is None
    assert result["output"] == streamed(client, "t", "output")
    for pid in result["output"].split():
        await client.within(ended(int(pid)), f"the end of process {pid}")

    await ask(client, "What happened?", "u")
    *_, last = served.model.requests[-1].json["messages"]
    assert last["content"].startswith(f"[exec output]\n$ {text} (exit 143)\n{result['output']}")


@pytest.mark.parametrize("how", FORMS)
async def test_a_command_that_waits_for_approval_is_not_run(served: Any, how: str) -> None:
    client = served.client
    client.answers["window/showMessageRequest"] = never
    asked = len(client.asked("window/showMessageRequest"))
    request_id, answer = await begin(
        client,
        "aish.run",
        {"text": "rm -rf x; touch no", "partialResultToken": "t"},
        workDoneToken="work",
    )
    await client.wait_for(
        lambda: len(client.asked("window/showMessageRequest")) > asked, "the question"
    )
    if how == "aish.cancel":
        assert await client.command_result("aish.cancel") == {"cancelled": 1}
    else:
        await cancel(client, how, request_id, "")
    result = await client.within(answer, "the answer")
    assert (result["finishReason"], result["exitCode"]) == ("cancelled", None)
    assert not (served.place.folder / "no").exists()
    await ask(client, "And now?", "u")
    assert served.model.requests[-1].json["messages"][-1]["content"] == "And now?"


async def test_a_reset_stops_everything_and_leaves_no_output_behind(served: Any) -> None:
    client = served.client
    client.answers["window/showMessageRequest"] = yes
    served.script = Endless(words=True)
    _, question = await begin(client, "aish.ask", {"prompt": "Go on.", "partialResultToken": "t"})
    # It does not end at TERM, so that it outlives the reset's beginning.
    text = "trap 'echo late; sleep 0.3' TERM; echo begun; sleep 60 & wait; wait"
    _, command = await begin(client, "aish.run", {"text": text, "partialResultToken": "r"})
    await client.wait_for(lambda: events(client, "t", "text"), "some text")
    await client.wait_for(lambda: events(client, "r", "output"), "some output")
    assert await client.command_result("aish.context.reset") == {}
    assert (await client.within(question, "the answer"))["finishReason"] == "cancelled"
    assert (await client.within(command, "the answer"))["finishReason"] == "cancelled"

    served.script = type(served).script
    await ask(client, "And now?", "u")
    _, *turns = served.model.requests[-1].json["messages"]
    assert turns == [{"role": "user", "content": "And now?"}]
