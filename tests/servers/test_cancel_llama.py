"""Cancelling, in every form that the protocol has, on a real llama.cpp server in mid-stream."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from pathlib import Path

import pytest
from client import Client
from conversing import Place, ask, begin, chat_holds, chat_until, events, streamed
from llama_server import ENDLESS, LlamaServer, says

pytestmark = pytest.mark.llama

logger = logging.getLogger(__name__)

#: Seconds in which a cancelled request is answered and its slot is idle. The protocol says 0.1 for
#: the stream; a busy machine gets more.
SOON = 1.0


@pytest.fixture
def place(tmp_path: Path, llama: LlamaServer) -> Place:
    place = Place.make(tmp_path)
    place.configure(llama.url, grammar=ENDLESS, max_output_tokens=6000)
    with place.config.open("a") as config:  # What the model says at random may repeat itself.
        config.write('[suggestions]\nrepetition_guard = "off"\n')
    return place


async def cancel(client: Client, how: str, request_id: int, turn_id: str) -> None:
    match how:
        case "$/cancelRequest":
            await client.notify(how, {"id": request_id})
        case "window/workDoneProgress/cancel":
            await client.notify(how, {"token": "work"})
        case "aish.cancel":
            await begin(client, how, {"turnId": turn_id})
        case "aish.cancel of all":
            await begin(client, "aish.cancel", {})


@pytest.mark.parametrize(
    "how",
    ["$/cancelRequest", "window/workDoneProgress/cancel", "aish.cancel", "aish.cancel of all"],
)
async def test_cancel_in_mid_stream(place: Place, llama: LlamaServer, how: str) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        request_id, answer = await begin(
            client,
            "aish.ask",
            {"prompt": "Go on for ever.", "partialResultToken": "t"},
            workDoneToken="work",
        )
        await client.wait_for(lambda: len(events(client, "t", "text")) > 5, "some text")
        assert await asyncio.to_thread(llama.busy_slots) == 1
        [start] = events(client, "t", "start")

        sent = time.perf_counter()
        await cancel(client, how, request_id, start["turnId"])
        result = await client.within(answer, "the answer to a cancelled question")
        answered = time.perf_counter() - sent
        await asyncio.to_thread(llama.seconds_until_idle)
        idle = time.perf_counter() - sent
        logger.info("answered after %.0f ms, idle after %.0f ms", answered * 1000, idle * 1000)
        assert answered < SOON
        assert idle < SOON

        assert result["finishReason"] == "cancelled"
        assert result["text"] == streamed(client, "t") != ""
        assert client.progress["t"][-1] == {
            "kind": "end",
            "finishReason": "cancelled",
            "error": None,
        }
        assert [value["kind"] for value in client.progress["work"]] == ["begin", "end"]

        # The configuration is read anew for each turn, so the model now answers something else.
        place.configure(llama.url, grammar=says("Here I am."))
        assert (await ask(client, "Still there?", "u"))["text"] == "Here I am."
    _, cut_off, question, reply = place.records()
    assert (cut_off["role"], cut_off["finish"]) == ("assistant", "cancelled")
    assert cut_off["content"] == result["text"]
    assert (question["content"], reply["content"]) == ("Still there?", "Here I am.")


async def test_a_plain_client_cancels_the_progress_that_the_server_made(
    place: Place, llama: LlamaServer
) -> None:
    async with place.client() as client:
        await client.initialize(place.folder, capabilities={"window": {"workDoneProgress": True}})
        await client.command_result("aish.ask", {"prompt": "Go on for ever."})
        [created] = await client.wait_for(
            lambda: client.asked("window/workDoneProgress/create"), "a progress"
        )
        token = created["token"]
        await client.wait_for(lambda: client.progress[token], "its begin")
        assert client.progress[token][0]["cancellable"]
        await chat_until(client, place, re.compile(r"## aish\n\n[a-z]").search, "some text")

        sent = time.perf_counter()
        await client.notify("window/workDoneProgress/cancel", {"token": token})
        await client.wait_for(lambda: client.progress[token][-1]["kind"] == "end", "its end")
        assert await asyncio.to_thread(llama.busy_slots) == 0
        assert time.perf_counter() - sent < SOON
        text = await chat_holds(client, place, "\n\n> Stopped.\n\n## You\n")

        place.configure(llama.url, grammar=says("Here I am."))
        await client.command_result("aish.ask", {"prompt": "Still there?"})
        await chat_holds(client, place, "Here I am.\n\n## You\n")
    _, cut_off, *_ = place.records()
    assert cut_off["finish"] == "cancelled"
    assert f"## aish\n\n{cut_off['content']}\n\n> Stopped." in text


async def test_a_client_that_goes_away_frees_the_slot(place: Place, llama: LlamaServer) -> None:
    client = place.client()
    await client.start()
    try:
        await client.initialize(place.folder)
        await begin(client, "aish.ask", {"prompt": "Go on.", "partialResultToken": "t"})
        await client.wait_for(lambda: len(events(client, "t", "text")) > 5, "some text")
        assert await client.shutdown() == 0
    finally:
        await client.stop()
    assert await asyncio.to_thread(llama.seconds_until_idle) < SOON
    _, cut_off = place.records()
    assert cut_off["finish"] == "cancelled"
    assert cut_off["content"].startswith(streamed(client, "t"))
