"""A conversation with a real llama.cpp server through the real server process."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from client import TRANSPORTS, Transport
from conversing import Place, ask, chat_holds, events, streamed, yes
from fault_server import FaultServer
from llama_server import LlamaServer, says

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")

#: Characters of each length in UTF-8, both line ends, a command in a fence, one that ends in CRLF,
#: lines that are none, and a last line without an end.
REPLY = (
    "Grüße! 你好 👩‍💻\r\n```sh\nCMD: echo 'grün ✓'\n```\n CMD: no\nCMD:no\n"
    "CMD: printf 'a\\n'\r\nCMD: ls -a"
)
COMMANDS = [("echo 'grün ✓'", 2), ("printf 'a\\n'", 6), ("ls -a", 7)]

pytestmark = pytest.mark.llama


def chats(proxy: FaultServer) -> list[Any]:
    """Return the messages of each chat completion that was asked for."""
    return [one.json["messages"] for one in proxy.requests if one.path.endswith("/completions")]


async def prompt_tokens(llama: LlamaServer, messages: list[Any]) -> int:
    """Return what llama.cpp itself makes of messages, in tokens."""

    def post(path: str, body: Any) -> Any:
        request = urllib.request.Request(f"{llama.url}{path}", data=json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as reply:
            return json.load(reply)

    text = await asyncio.to_thread(post, "/apply-template", {"messages": messages})
    counted = {"content": text["prompt"], "add_special": True, "parse_special": True}
    return len((await asyncio.to_thread(post, "/tokenize", counted))["tokens"])


@pytest.mark.real_start
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_whole_conversation(
    place: Place, llama: LlamaServer, recorded: FaultServer, transport: Transport
) -> None:
    place.configure(recorded.url, grammar=says(REPLY))
    async with place.client(transport) as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(place.folder)

        first = await ask(client, "How do I run the tests here?", "one")
        assert streamed(client, "one").encode() == REPLY.encode()
        assert first["text"].encode() == REPLY.encode()
        assert [(one["text"], one["line"]) for one in first["commands"]] == COMMANDS
        assert [one["command"] for one in events(client, "one", "command")] == first["commands"]
        assert client.progress["one"][-1] == {"kind": "end", "finishReason": "stop", "error": None}
        assert first["model"] == "tested"

        command = first["commands"][0]["id"]
        run = await client.command_result(
            "aish.run", {"commandId": command, "partialResultToken": "two"}
        )
        assert (run["output"], run["exitCode"]) == ("grün ✓\n", 0)
        assert streamed(client, "two", "output") == "grün ✓\n"

        second = await ask(client, "Did that work?", "three")
        assert second["text"].encode() == REPLY.encode()
        assert await client.shutdown() == 0

    [_, (system, *turns)] = chats(recorded)
    assert system["role"] == "system"
    assert turns == [
        {"role": "user", "content": "How do I run the tests here?"},
        {"role": "assistant", "content": REPLY},
        {
            "role": "user",
            "content": "[exec output]\n$ echo 'grün ✓' (exit 0)\ngrün ✓\n\nDid that work?",
        },
    ]
    assert second["usage"]["inputTokens"] == await prompt_tokens(llama, [system, *turns])
    assert second["usage"]["outputTokens"] == len(REPLY.encode()) + 1
    question, reply, ran, follow_up, _ = place.records()
    assert question["content"] == "How do I run the tests here?"
    assert (reply["content"], reply["finish"]) == (REPLY, "stop")
    output = {"command": "echo 'grün ✓'", "exit": 0, "output": "grün ✓\n"}
    assert output.items() <= ran.items()
    assert follow_up["exec"] == [output]


async def test_a_plain_client_gets_it_in_the_chat_document(
    place: Place, recorded: FaultServer
) -> None:
    place.configure(recorded.url, grammar=says(REPLY))
    async with place.client() as client:
        await client.initialize(place.folder, capabilities={})
        assert set(await client.command_result("aish.ask", {"prompt": "What now?"})) == {"turnId"}
        # The first heading is that of the question.
        text = await chat_holds(client, place, "## You\n", times=2)
        shown = REPLY.replace("\r\n", "\n")
        assert text.endswith(f"## You\n\nWhat now?\n\n## aish\n\n{shown}\n\n## You\n\n")

        await client.command_result("aish.run", {"text": "ls -d ."})
        await chat_holds(client, place, "exit 0")
        await client.command_result("aish.ask", {"prompt": "And then?"})
        await chat_holds(client, place, "## You\n", times=3)
    assert chats(recorded)[-1][-1]["content"] == "[exec output]\n$ ls -d . (exit 0)\n.\n\nAnd then?"


async def test_a_reply_that_is_cut_at_its_limit_offers_no_half_of_a_command(
    place: Place, llama: LlamaServer
) -> None:
    place.configure(
        llama.url, grammar=says("CMD: ls\nCMD: rm -rf build/cache"), max_output_tokens=24
    )
    async with place.client() as client:
        await client.initialize(place.folder)
        result = await ask(client, "Tidy up.", "t")
    assert (result["text"], result["finishReason"]) == ("CMD: ls\nCMD: rm -rf buil", "length")
    assert [command["text"] for command in result["commands"]] == ["ls"]


@pytest.mark.shared
@pytest.mark.usefixtures("parts")
async def test_reasoning_is_never_searched_for_commands(place: Place) -> None:
    model = SHARED / "models" / "tiny-qwen3think.gguf"
    if not model.exists():
        pytest.skip(f"no {model}")
    thought, reply = "It says:\nCMD: touch thought\nso I will.", "Look first.\nCMD: ls\n"
    with LlamaServer(model=model, context=8192) as server:
        place.configure(
            server.url, grammar=says(f"<think>\n{thought}\n</think>\n\n{reply}"), timeout=60
        )
        async with place.client() as client:
            await client.initialize(place.folder)
            result = await ask(client, "What is here?", "t")
            assert streamed(client, "t", "reasoning") == result["reasoning"]
    assert result["reasoning"].strip() == thought
    assert result["text"] == streamed(client, "t") == reply
    assert [command["text"] for command in result["commands"]] == ["ls"]
    assert place.records()[-1]["reasoning"]["text"].strip() == thought
