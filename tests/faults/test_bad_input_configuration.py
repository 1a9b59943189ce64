"""Configurations that are wrong, and clients that say wrong things about them, or nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from client import CAPABILITIES, RpcError, never
from conversing import Place, ask, events, fine
from fault_server import FaultServer

NO_TREE = {"project": {"auto_tree": False}}

#: A client that sends its settings, and cannot be asked for them.
PUSHING = CAPABILITIES | {"workspace": CAPABILITIES["workspace"] | {"configuration": False}}


def notices(client: Any, token: str) -> list[str]:
    return [event["message"] for event in events(client, token, "notice")]


async def shows_tree(client: Any) -> bool:
    return bool((await client.command_result("aish.project.show"))["block"])


async def test_a_broken_file_is_told_and_a_mended_one_counts_at_once(place: Place) -> None:
    async with FaultServer(fine) as model, place.client() as client:
        place.config.write_text("[context]\nmax_turns = 5\n\n[cost\n")
        await client.initialize(place.folder)
        assert (await ask(client, "hello", "one"))["model"] == "offline"
        assert any(f"{place.config}:4" in notice for notice in notices(client, "one"))

        place.configure(model.url, context_window=8192)
        assert (await ask(client, "hello", "two"))["text"] == "All is well."
        assert notices(client, "two") == []

        good = place.config.read_text()
        place.config.write_text(f'{good}temprature = 1\ntimeout = "long"\n')
        assert (await ask(client, "hello", "three"))["text"] == "All is well."
        told = "\n".join(notices(client, "three"))
        assert f"{place.config}:8" in told
        assert 'did you mean "temperature"' in told
        assert "models.tested.timeout" in told
        assert "a number" in told
        assert "the previous settings stay in force" in told
        await ask(client, "hello", "four")
        assert notices(client, "four") == []

        place.config.write_bytes(b"\xff\xfe\0")
        # Whoever looks first is told.
        await client.command_result("aish.context.show")
        [message, *_] = client.notified("window/showMessage")
        assert str(place.config) in message["message"]
        assert (await ask(client, "hello", "five"))["text"] == "All is well."
        assert notices(client, "five") == []
        place.config.unlink()
        assert (await ask(client, "hello", "six"))["model"] == "offline"


async def test_a_client_that_never_says_its_settings_holds_up_one_question_shortly(
    place: Place,
) -> None:
    said = asyncio.Event()

    async def late(_: Any) -> Any:
        await said.wait()
        return [NO_TREE]

    async with place.client() as client:
        client.answers["workspace/configuration"] = late
        await client.initialize(place.folder)
        begin = time.monotonic()
        assert (await ask(client, "hello", "one"))["finishReason"] == "stop"
        first = time.monotonic() - begin
        assert (await ask(client, "hello", "two"))["finishReason"] == "stop"
        second = time.monotonic() - begin - first
        assert first < 10
        assert second < first / 2
        (place.folder / "file").touch()
        assert await shows_tree(client)
        # What it says in the end counts all the same.
        said.set()
        while await shows_tree(client):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("wrong", [["aish"], {"aish": [NO_TREE]}])
async def test_options_that_are_no_object_do_nothing(place: Place, wrong: Any) -> None:
    async with place.client() as client:
        await client.initialize(place.folder, options=wrong)
        assert (await ask(client, "hello", "one"))["finishReason"] == "stop"
        if isinstance(wrong, dict):
            assert any("initializationOptions" in notice for notice in notices(client, "one"))


async def test_bad_settings_are_told_and_the_last_good_ones_stay(place: Place) -> None:
    (place.folder / "file").touch()
    async with place.client() as client:
        answers: list[Any] = [[NO_TREE]]

        def answer(_: Any) -> Any:
            if isinstance(answers[-1], RpcError):
                raise answers[-1]
            return answers[-1]

        client.answers["workspace/configuration"] = answer
        options = {"aish": {"context": {"max_turns": "many", "max_turn": 3}}}
        await client.initialize(place.folder, options=options)
        await ask(client, "hello", "first")
        told = "\n".join(notices(client, "first"))
        assert "context.max_turns" in told
        assert 'did you mean "max_turns"' in told
        assert "initializationOptions" in told
        assert not await shows_tree(client)

        wrong: list[Any] = [
            [5],
            [{"project": {"depth": -1, "auto_tree": True}}],
            [{"project": ["auto_tree"]}],
            [[NO_TREE]],
            [],
            [None, None],
            {},
            "yes",
            None,
            RpcError(-32601, "what?"),
        ]
        for number, one in enumerate(wrong):
            answers.append(one)
            await client.notify("workspace/didChangeConfiguration", {"settings": None})
            result = await ask(client, "hello", f"t{number}")
            assert result["finishReason"] == "stop", one
            assert not await shows_tree(client), one
        assert "workspace/configuration" in "\n".join(notices(client, "t0"))
        assert "project.depth" in "\n".join(notices(client, "t1"))

        # A question right behind the change is asked with what the client says then.
        answers.append([{"project": {"auto_tree": True}}])
        await client.notify("workspace/didChangeConfiguration", {"settings": None})
        await ask(client, "hello", "last")
        assert await shows_tree(client)


async def test_settings_that_were_sent_before_the_first_question_count(place: Place) -> None:
    (place.folder / "file").touch()
    async with place.client() as client:
        client.answers["workspace/configuration"] = never
        await client.initialize(place.folder, capabilities=PUSHING)
        settings = {"aish": NO_TREE}
        await client.notify("workspace/didChangeConfiguration", {"settings": settings})
        await ask(client, "hello", "one")
        assert not await shows_tree(client)
        for wrong in (5, {"aish": "no"}):
            await client.notify("workspace/didChangeConfiguration", {"settings": wrong})
            assert (await ask(client, "hello", "two"))["finishReason"] == "stop"
        assert client.asked("workspace/configuration") == []
