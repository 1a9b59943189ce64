"""A server finds the question too long: it is asked once more with less, or nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from client import RpcError
from context_parts import (
    asked,
    assert_alternating,
    configure,
    counted,
    learned,
    notices,
    run,
    says,
    shown,
    story,
    tell,
)
from conversing import ask
from fault_server import Peer, Request, Script, chunk_of

from aish_lsp.agent.remedies import RETRIES

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: How servers refuse a prompt of <P> tokens, <T> with the 256 of the reply, in a window of <W>.
REFUSALS: dict[str, tuple[str, Any]] = {
    "llama.cpp": ("400 Bad Request", {"error": {
        "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": "<P>", "n_ctx": "<W>",
        "message": "request (<P> tokens) exceeds the available context size (<W> tokens), try "
                   "increasing it"}}),
    "OpenAI": ("400 Bad Request", {"error": {
        "message": "This model's maximum context length is <W> tokens. However, your messages "
                   "resulted in <P> tokens. Please reduce the length of the messages.",
        "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}),
    "OpenAI without numbers": ("400 Bad Request", {"error": {
        "message": "Your input exceeds the context window of this model. Please adjust your input "
                   "and try again.",
        "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}}),
    "vLLM": ("400 Bad Request", {
        "object": "error", "type": "BadRequestError", "param": None, "code": 400,
        "message": "This model's maximum context length is <W> tokens. However, you requested <T> "
                   "tokens (<P> in the messages, 256 in the completion). Please reduce the length "
                   "of the messages or completion."}),
    "vLLM without a count": ("400 Bad Request", {"error": {
        "type": "BadRequestError", "param": "input_tokens", "code": 400,
        "message": "This model's maximum context length is <W> tokens. However, you requested 256 "
                   "output tokens and your prompt contains at least 1 input tokens, for a total of "
                   "at least <W> tokens."}}),
    "Anthropic": ("400 Bad Request", {"error": {
        "type": "invalid_request_error", "code": "invalid_request_error", "param": None,
        "message": "prompt is too long: <P> tokens > <W> maximum"}}),
    "Anthropic without numbers": ("413 Request Entity Too Large", {"type": "error", "error": {
        "type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    "Gemini": ("400 Bad Request", [{"error": {
        "code": 400, "status": "INVALID_ARGUMENT",
        "message": "The input token count (<P>) exceeds the maximum number of tokens allowed "
                   "(<W>)."}}]),
    "Gemini without a count": ("400 Bad Request", [{"error": {
        "code": 400, "status": "INVALID_ARGUMENT",
        "message": "The input token count exceeds the maximum number of tokens allowed <W>."}}]),
    "a proxy's 500": ("500 Internal Server Error", {"error": {
        "message": "litellm.ContextWindowExceededError: ContextWindowExceededError: "
                   "OpenAIException - This model's maximum context length is <W> tokens. However, "
                   "your messages resulted in <P> tokens.", "code": "500"}}),
}  # fmt: skip


def filled(shape: Any, prompt: int, window: int) -> Any:
    """Return a refusal with its numbers."""
    match shape:
        case "<P>":
            return prompt
        case "<W>":
            return window
        case str():
            numbers = {"<P>": prompt, "<W>": window, "<T>": prompt + 256}
            for mark, number in numbers.items():
                shape = shape.replace(mark, str(number))
            return shape
        case dict():
            return {key: filled(value, prompt, window) for key, value in shape.items()}
        case list():
            return [filled(value, prompt, window) for value in shape]
    return shape


def narrow(window: int, refusal: tuple[str, Any], *, streamed: bool = False) -> Script:
    """Answer what fits into ``window`` tokens; refuse the rest, in a stream with 200 if wanted."""
    status, shape = refusal

    async def script(request: Request, peer: Peer) -> None:
        tokens = counted(request)
        if tokens <= window:
            await says()(request, peer)
        elif streamed:
            await peer.head()
            await peer.event(filled(shape, tokens, window))
            await peer.chunk(b"")
        else:
            await peer.reply(filled(shape, tokens, window), status)

    return script


async def recovers(served: Any, script: Script) -> None:
    """Talk until a question is refused once, and see that all of it went as it should."""
    client, place = served.client, served.place
    name = configure(place, {"endpoint": served.model.url})
    served.script = says()
    await tell(client, 4, 1800)
    await run(client)
    served.model.requests.clear()
    before = len(place.records())

    served.script = script
    result = await ask(client, "And what is open?", "t")
    assert (result["text"], result["error"]) == ("All is well.", None)
    refused, second = asked(served.model)
    assert_alternating(refused)
    assert_alternating(second)
    assert len(second) < len(refused) == 10
    # The oldest went; what was said last is there, with the command's output.
    kept = len(second) - 1
    assert second[1:] == refused[-kept:]
    assert second[-1]["content"].startswith("[exec output]\n$ echo pending")
    assert result["evictedTurns"] == len(refused) - len(second)
    assert any("It is sent again with less" in told for told in notices(client, "t"))
    new = place.records()[before:]
    assert [record.get("event", record.get("role")) for record in new] == [
        "user",
        "evicted",
        "assistant",
    ]
    assert new[1]["to"] - new[1]["from"] + 1 == result["evictedTurns"]

    report = await shown(client)
    assert report["basis"] == "actual"
    assert report["lastCall"]["input"] == result["usage"]["inputTokens"]
    assert 0.5 <= await learned(place, name) <= 3

    result = await ask(client, "And now?", "next")
    assert (result["text"], result["error"], result["evictedTurns"]) == ("All is well.", None, 0)
    assert notices(client, "next") == []
    [_, _, third] = asked(served.model)
    assert_alternating(third)
    assert third[: len(second)] == second


@pytest.mark.parametrize("server", REFUSALS)
async def test_a_question_that_is_refused_is_asked_again_with_less(
    served: Any, server: str
) -> None:
    # Where the server names no window, a little less has to do.
    window = 1900 if "without numbers" in server else 1500
    await recovers(served, narrow(window, REFUSALS[server]))


@pytest.mark.parametrize("server", ["llama.cpp", "OpenAI", "LM Studio"])
async def test_so_is_one_that_is_refused_within_a_stream(served: Any, server: str) -> None:
    lm_studio = {"error": {"message": "Trying to keep the first <P> tokens when context the "
                           "overflows. However, the model is loaded with context length of only "
                           "<W> tokens, which is not enough."}}  # fmt: skip
    refusal = REFUSALS.get(server, ("", lm_studio))
    await recovers(served, narrow(1500, refusal, streamed=True))


@pytest.mark.parametrize(
    "server", ["llama.cpp", "OpenAI without numbers", "vLLM without a count", "a proxy's 500"]
)
async def test_a_server_that_always_refuses_is_asked_twice(served: Any, server: str) -> None:
    client, place = served.client, served.place
    configure(place, {"endpoint": served.model.url})
    served.script = says()
    await tell(client, 4)
    await run(client)
    served.model.requests.clear()

    async def script(request: Request, peer: Peer) -> None:
        status, shape = REFUSALS[server]
        await peer.reply(filled(shape, counted(request), counted(request) - 1), status)

    served.script = script
    with pytest.raises(RpcError) as caught:
        await ask(client, "And what is open?", "t")
    said = {"llama.cpp": "exceeds the available context", "Anthropic": "prompt is too long"}
    assert said.get(server, "") in caught.value.message
    assert caught.value.data["kind"] in {"backendRejected", "backendUnavailable"}
    assert len(asked(served.model)) == 2
    *_, question = (record for record in place.records() if record.get("role") == "user")
    assert (question["content"], question["meta"]) == ("And what is open?", "unanswered")
    await shown(client)

    served.script = says()
    result = await ask(client, "And now?", "next")
    assert (result["text"], result["error"], result["evictedTurns"]) == ("All is well.", None, 0)
    *_, last = asked(served.model)
    assert_alternating(last)
    assert last[-1]["content"] == "[exec output]\n$ echo pending (exit 0)\npending\n\nAnd now?"
    await shows_what_the_server_counts(served)


async def shows_what_the_server_counts(served: Any) -> None:
    """Nothing is left of what was believed of the refused question."""
    report = await shown(served.client)
    last = report["lastCall"]
    assert (report["basis"], report["newSince"]) == ("actual", 0)
    assert abs(report["total"] - last["input"] - last["output"]) < 20


@pytest.mark.parametrize("server", ["OpenAI", "OpenAI without numbers", "Gemini without a count"])
async def test_a_refusal_teaches_only_what_the_server_counted(served: Any, server: str) -> None:
    client, place = served.client, served.place
    name = configure(place, {"endpoint": served.model.url})
    served.script = says()
    await tell(client, 4, 1800)
    served.script = narrow(1900, REFUSALS[server])
    result = await ask(client, "And what is open?", "t")
    assert (result["error"], result["evictedTurns"] > 0) == (None, True)
    # In a new conversation nothing but the ratio is left of it.
    await client.command_result("aish.context.reset")
    served.script = says()
    await ask(client, "And now?", "next")
    assert abs((await shown(client))["accuracy"]["errorPercent"]) < 25
    assert await learned(place, name) == pytest.approx(1.0, abs=0.4)


@pytest.mark.parametrize("server", ["llama.cpp", "OpenAI without numbers"])
async def test_too_long_with_nothing_to_evict(served: Any, server: str) -> None:
    client = served.client
    configure(served.place, {"endpoint": served.model.url})
    await run(client)
    served.script = narrow(1000, REFUSALS[server])
    with pytest.raises(RpcError) as caught:
        await ask(client, story(1, 6000), "t")
    assert caught.value.data["kind"] in {"backendRejected", "overBudget"}
    assert len(asked(served.model)) == 1
    # Whatever was believed of that question is of no account for a shorter one.
    result = await ask(client, "And now?", "next")
    assert (result["text"], result["error"]) == ("All is well.", None)
    assert asked(served.model)[-1][1]["content"].startswith("[exec output]")
    await shows_what_the_server_counts(served)


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_a_refusal_after_the_first_token_is_no_reason_to_ask_again(
    served: Any, kind: str
) -> None:
    client = served.client
    configure(served.place, {"endpoint": served.model.url})
    served.script = says()
    await tell(client, 3)
    served.model.requests.clear()

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        delta = {"content": "So far."} if kind == "text" else {"reasoning_content": "Hm."}
        await peer.event({"choices": [{"index": 0, "delta": delta}]})
        await peer.event(filled(REFUSALS["llama.cpp"][1], 9000, 8192))
        await peer.chunk(b"")

    served.script = script
    if kind == "text":
        result = await ask(client, "And what is open?", "t")
        assert (result["text"], result["finishReason"]) == ("So far.", "error")
        assert "exceeds the available context" in result["error"]["message"]
        assert result["evictedTurns"] == 0
    else:
        with pytest.raises(RpcError, match="exceeds the available context"):
            await ask(client, "And what is open?", "t")
    assert len(asked(served.model)) == 1
    served.script = says()
    assert (await ask(client, "And now?", "next"))["error"] is None
    await shown(client)


async def test_another_refusal_is_not_taken_for_it(served: Any) -> None:
    client = served.client
    configure(served.place, {"endpoint": served.model.url})
    served.script = says()
    await tell(client, 2)
    served.model.requests.clear()

    async def script(_: Request, peer: Peer) -> None:
        message = "Rate limit reached: 40000 tokens per minute, maximum context length 8192"
        await peer.reply({"error": {"message": message}}, "400 Bad Request")

    served.script = script
    with pytest.raises(RpcError, match="Rate limit"):
        await ask(client, "And what is open?", "t")
    assert len(asked(served.model)) == 1


async def test_the_server_that_says_its_window_is_believed_before_the_next_question(
    served: Any,
) -> None:
    client = served.client
    configure(served.place, {"endpoint": served.model.url})
    served.script = says()
    await tell(client, 4, 1800)
    served.script = narrow(1500, REFUSALS["llama.cpp"])
    await ask(client, "And what is open?", "t")
    assert (await shown(client))["contextWindow"] == 1500
    served.model.requests.clear()
    for number in range(6):
        result = await ask(client, story(number), f"more {number}")
        assert result["error"] is None
    # Evicted beforehand each time, never refused again.
    assert len(asked(served.model)) == 6
    for messages in asked(served.model):
        assert_alternating(messages)


async def test_cancelled_between_the_two_requests(served: Any) -> None:
    client = served.client
    configure(served.place, {"endpoint": served.model.url})
    served.script = says()
    await tell(client, 4, 1800)
    await run(client)
    served.model.requests.clear()

    async def script(request: Request, peer: Peer) -> None:
        if len(asked(served.model)) == 1:
            await narrow(1500, REFUSALS["llama.cpp"])(request, peer)
            return
        await peer.head()
        cancelled = await client.command_result("aish.cancel")
        assert cancelled == {"cancelled": 1}
        await peer.wait_closed()

    served.script = script
    result = await ask(client, "And what is open?", "t")
    assert (result["finishReason"], result["text"]) == ("cancelled", "")
    served.script = says()
    result = await ask(client, "And now?", "next")
    assert asked(served.model)[-1][-1]["content"].startswith("[exec output]")
    await shows_what_the_server_counts(served)


async def test_an_error_within_a_stream_that_is_none_of_it(served: Any) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event({"error": {"message": "out of memory", "code": 500}})
        await peer.chunk(b"")

    configure(served.place, {"endpoint": served.model.url})
    served.script = script
    with pytest.raises(RpcError, match="out of memory"):
        await ask(served.client, "And what is open?", "t")
    first, *tries = asked(served.model)
    assert tries == [first] * RETRIES  # Tried again as it was: there was nothing to make room for.
    served.script = chunked
    assert (await ask(served.client, "And now?", "next"))["text"] == "Fine."


async def chunked(_: Request, peer: Peer) -> None:
    """Answer without usage."""
    await peer.head()
    await peer.event(chunk_of("Fine.", finish_reason="stop"))
    await peer.chunk(b"")
