"""Servers that refuse a conversation for one reason after the other, over every protocol.

The conversation begins with another model, which thinks and calls two tools at once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from client import RpcError
from context_parts import configure, notices, says, story
from conversing import ask, begin, yes
from fault_server import Peer, Request, Script, chunk_of
from short_answers import ANSWER, ANSWERS, send_events

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]

_numbers = itertools.count(1)


#: What is refused over every protocol, in the words of servers and templates; then what only some
#: protocols send.
COMMON = (
    "Unsupported parameter: 'temperature' is not supported with this model.",
    "top_p: Extra inputs are not permitted",
    "Jinja Exception: System role not supported",
    "This model only supports single tool-calls at once!",
    "Function call is missing a thought_signature in functionCall parts.",
    "prompt is too long: {tokens} tokens > {fewer} maximum",
    "Unexpected role 'tool' after role 'user'",
    "m does not support tools",
)
ONLY: dict[str, tuple[str, ...]] = {
    "openai": (
        "Unrecognized request argument supplied: seed",
        "Function tools with reasoning_effort are not supported. Set reasoning_effort to 'none'.",
        "Unknown parameter: 'stream_options'",
        "Tool call IDs should be alphanumeric strings with length 9!",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "Invalid `signature` in `thinking` block",
        "Invalid request: the message at position 2 with role 'assistant' must not be empty",
    ),
    "openai-responses": ("Unknown parameter: 'include'", "Unsupported parameter: 'reasoning'"),
    "anthropic": ("The `content[].thinking` in the thinking mode must be passed back to the API.",),
    "gemini": ("Invalid JSON payload received. Unknown name \"seed\" at 'generation_config'",),
    "ollama": ("invalid option provided: seed", '"m" does not support thinking'),
}


async def _calls_two_tools(request: Request, peer: Peer) -> None:
    """Think and call two tools, and answer as soon as there are results."""
    if any(message["role"] == "tool" for message in request.json["messages"]):
        await says("Read.")(request, peer)
        return
    calls = [
        {
            "index": index,
            "id": f"call_of_another_model_{index}",
            "function": {"name": "read_file", "arguments": json.dumps({"path": name})},
        }
        for index, name in enumerate(("a.txt", "b.txt"))
    ]
    deltas = ({"reasoning": "hm"}, {"tool_calls": calls})
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    await send_events(peer, *chunks, chunk_of("", finish_reason="tool_calls"), "[DONE]")


def refusing(
    provider: str, words: Sequence[str], sent: list[Json], then: Script | None = None
) -> Script:
    """Refuse a new request for each of ``words``; do what comes ``then``, or answer."""
    left = list(words)

    async def script(request: Request, peer: Peer) -> None:
        sent.append(request.json)
        if left and request.method == "POST":
            tokens = len(request.body) // 5
            message = left.pop(0).format(tokens=tokens, fewer=tokens * 3 // 4)
            # A template's own error has llama.cpp's status.
            status = "500 Internal Server Error" if "Jinja" in message else "400 Bad Request"
            await peer.reply({"error": {"message": message}}, status)
        elif then is not None:
            await then(request, peer)
        else:
            await ANSWERS[provider](peer)

    return script


async def begun(served: Any, provider: str) -> tuple[str, str]:
    """Have a conversation with another model.

    Return the name of the one that is to refuse, and the session's id.
    """
    settings: Json = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "reasoning_effort": "low"}
    model: Json = {"endpoint": served.model.url, "context_window": 32768, "timeout": 30.0}
    # What is known of a model outlives a test.
    name = f"strict{next(_numbers)}"
    configure(
        served.place,
        model,
        {"name": name, "provider": provider, **model, **settings},
        tools={"servers": {"aish": {"enabled": True}}},
    )
    for file in ("a.txt", "b.txt"):
        (served.place.folder / file).write_text("" if file == "a.txt" else "one\n")
    served.script = says()
    await ask(served.client, story(1, 20000), "long")
    served.script = _calls_two_tools
    result = await ask(served.client, "Read both.", "tools")
    assert (result["text"], result["error"]) == ("Read.", None)
    return name, result["sessionId"]


@pytest.mark.parametrize("provider", ANSWERS)
async def test_a_session_that_met_every_refusal_in_a_row_still_answers(
    served: Any, provider: str
) -> None:
    name, _ = await begun(served, provider)
    words = (*ONLY[provider], *COMMON)
    sent: list[Json] = []
    served.script = refusing(provider, words, sent)
    result = await ask(served.client, "Well?", "t", model=name)
    assert (result["text"], result["error"]) == (ANSWER, None)
    # Each try is another request, and none is made in vain.
    assert len(sent) == len(words) + 1
    assert len({json.dumps(body, sort_keys=True) for body in sent}) == len(sent)
    told = notices(served.client, "t")
    assert len(told) == len(set(told))
    # What was learned is remembered.
    result = await ask(served.client, "And now?", "next", model=name)
    assert (result["text"], notices(served.client, "next")) == (ANSWER, [])
    assert len(sent) == len(words) + 2


@pytest.mark.parametrize("provider", ANSWERS)
async def test_a_server_that_refuses_every_form_leaves_the_session_usable(
    served: Any, provider: str
) -> None:
    name, _ = await begun(served, provider)
    sent: list[Json] = []
    served.script = refusing(provider, [*ONLY[provider], *COMMON[:5], *["No."] * 3], sent)
    with pytest.raises(RpcError, match="What was tried: ") as caught:
        await ask(served.client, "Well?", "t", model=name)
    assert "No." in caught.value.message
    assert len(sent) == len(ONLY[provider]) + 6
    # What did not help is forgotten: the next question is sent as it was.
    served.script = refusing(provider, [], sent)
    result = await ask(served.client, "Well?", "next", model=name)
    assert (result["text"], notices(served.client, "next")) == (ANSWER, [])
    assert sent[-1] == sent[0]


async def test_a_cancel_between_two_refusals(served: Any) -> None:
    name, _ = await begun(served, "openai")
    sent: list[Json] = []

    async def wait(_: Request, peer: Peer) -> None:
        await peer.wait_closed()

    served.script = refusing("openai", COMMON[:2], sent, wait)
    asked = {"prompt": "Well?", "partialResultToken": "t", "model": name}
    _, answer = await begin(served.client, "aish.ask", asked)
    while len(sent) < 3:
        await asyncio.sleep(0.01)
    await served.client.command_result("aish.cancel", {})
    result = await served.client.within(answer, "the end of the question")
    assert result["finishReason"] == "cancelled"
    served.script = refusing("openai", COMMON[2:3], sent)
    result = await ask(served.client, "And now?", "next", model=name)
    assert (result["text"], result["error"]) == (ANSWER, None)
    # What was tried before the cancel is still tried.
    assert "temperature" not in sent[-1]


async def test_a_model_that_steps_in_is_refused_and_answers(served: Any) -> None:
    name, _ = await begun(served, "openai")
    text = served.place.config.read_text(encoding="utf-8")
    served.place.config.write_text(f'{text}\n[routing]\nfallback = ["{name}"]\n', encoding="utf-8")
    sent: list[Json] = []
    refuses = refusing("openai", COMMON[:5], sent)

    async def script(request: Request, peer: Peer) -> None:
        if request.json["model"] == name:
            await refuses(request, peer)
        else:
            await peer.reply({"error": {"message": "gone"}}, "501 Not Implemented")

    served.script = script
    result = await ask(served.client, "Well?", "t")
    assert (result["text"], result["error"]) == (ANSWER, None)
    assert len(sent) == 6


@pytest.mark.parametrize("provider", ANSWERS)
async def test_a_resumed_session_is_refused_and_answered(served: Any, provider: str) -> None:
    name, session = await begun(served, provider)
    await served.client.command_result("aish.session.new", {})
    await served.client.command_result("aish.session.resume", {"id": session})
    sent: list[Json] = []
    served.script = refusing(provider, COMMON[:5], sent)
    result = await ask(served.client, "Well?", "t", model=name)
    assert (result["text"], result["error"]) == (ANSWER, None)
    assert len(sent) == 6


async def test_a_goal_is_refused_and_reached(served: Any) -> None:
    served.client.answers["window/showMessageRequest"] = yes
    name, _ = await begun(served, "openai")
    sent: list[Json] = []
    served.script = refusing("openai", COMMON[:5], sent, says("GOAL: complete\nDone.\n"))
    text = served.place.config.read_text(encoding="utf-8")
    _, _, rest = text.partition("\n")
    served.place.config.write_text(f'default_model = "{name}"\n{rest}', encoding="utf-8")
    fields = {"goal": "Do nothing.", "partialResultToken": "t"}
    result = await served.client.command_result("aish.norris.start", fields, timeout=60)
    assert result["outcome"] == "complete", result
    assert len(sent) == 6


@pytest.mark.parametrize("echo", [False, True])
async def test_a_refusal_of_a_mebibyte_is_read(served: Any, echo: bool) -> None:
    name, _ = await begun(served, "openai")
    huge = "seed " * (1 << 18)

    async def script(request: Request, peer: Peer) -> None:
        if "temperature" not in request.json:
            await ANSWERS["openai"](peer)
        elif echo:
            item = {"loc": ["body", "temperature"], "msg": "Extra inputs are not permitted"}
            detail = [{"type": "extra_forbidden", "input": huge, **item}]
            await peer.reply({"detail": detail}, "422 Unprocessable Entity")
        else:
            words = f"temperature: Extra inputs are not permitted {huge}"
            await peer.reply({"error": {"message": words}}, "400 Bad Request")

    served.script = script
    result = await ask(served.client, "Well?", "t", model=name)
    assert (result["text"], result["error"]) == (ANSWER, None)
    [notice] = notices(served.client, "t")
    assert "`temperature`" in notice
    assert len(notice) < 300


async def test_a_million_signs_of_life_before_the_answer(served: Any) -> None:
    configure(served.place, {"endpoint": served.model.url, "timeout": 90.0})

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        for alive in (b"data: null\n\n", b": alive\n\n", b"data: []\n\n", b"data: 0\n\n"):
            for _ in range(10):
                await peer.chunk(alive * 25_000)
        await peer.event(chunk_of(ANSWER))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")
        await peer.chunk(b"")

    served.script = script
    question = {"prompt": "Well?", "partialResultToken": "t"}
    result = await served.client.command_result("aish.ask", question, timeout=100)
    assert (result["text"], notices(served.client, "t")) == (ANSWER, [])
