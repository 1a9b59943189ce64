"""What servers report of their use, and what is made of it where it cannot be true."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from context_parts import (
    asked,
    assert_alternating,
    chats,
    configure,
    counted,
    honest,
    learned,
    notices,
    run,
    says,
    shown,
    story,
    used,
)
from conversing import ask, begin, streamed
from fault_server import Peer, Request, Script, chunk_of
from short_answers import ANSWERS

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Long enough for its tokens to be missed where they are not counted.
REPLY = story(9, 2000)


def fields(**wrong: Any) -> Callable[[Request, str], Any]:
    """Report what is true but for some fields; None leaves a field out."""

    def usage(request: Request, text: str) -> Any:
        reported = honest(request, text) | wrong
        return {name: value for name, value in reported.items() if value is not None}

    return usage


def in_every_chunk(request: Request, text: str, pieces: int = 8) -> list[dict[str, Any]]:
    """Return the chunks of a server that repeats what it used so far."""
    size = len(text) // pieces + 1
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    sent = ["".join(parts[: end + 1]) for end in range(len(parts))]
    return [
        chunk_of(part) | {"usage": honest(request, so_far)}
        for part, so_far in zip(parts, sent, strict=True)
    ]


async def cumulative(request: Request, peer: Peer) -> None:
    await peer.head()
    for chunk in in_every_chunk(request, REPLY):
        await peer.event(chunk)
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")
    await peer.chunk(b"")


async def null_but_for_the_last(request: Request, peer: Peer) -> None:
    await peer.head()
    await peer.event(chunk_of(REPLY) | {"usage": None})
    await peer.event(chunk_of("", finish_reason="stop") | {"usage": honest(request, REPLY)})
    await peer.chunk(b"")


async def zero_but_for_the_last(request: Request, peer: Peer) -> None:
    nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    await peer.head()
    await peer.event(chunk_of(REPLY) | {"usage": nothing})
    await peer.event(chunk_of("", finish_reason="stop") | {"usage": honest(request, REPLY)})
    await peer.chunk(b"")


async def no_number(request: Request, peer: Peer) -> None:
    """JSON has no NaN, and some write it all the same."""
    usage = {"prompt_tokens": float("nan"), "completion_tokens": float("inf")}
    await peer.head()
    await peer.event(chunk_of(REPLY))
    await peer.event(json.dumps(chunk_of("", finish_reason="stop") | {"usage": usage}))
    await peer.chunk(b"")


#: Of these the input is believed.
BELIEVED: dict[str, Script] = {
    "only in the last chunk": says(REPLY),
    "null but for the last chunk": null_but_for_the_last,
    "zero but for the last chunk": zero_but_for_the_last,
    "cumulative in every chunk": cumulative,
    "no output, with text": says(REPLY, fields(completion_tokens=0)),
    "output missing": says(REPLY, fields(completion_tokens=None)),
    "output negative": says(REPLY, fields(completion_tokens=-50)),
    "output true": says(REPLY, fields(completion_tokens=True)),
    "output far too large": says(REPLY, fields(completion_tokens=900_000)),
    "a total far too large": says(REPLY, fields(total_tokens=10**9)),
    "a total far too small": says(REPLY, fields(total_tokens=1)),
    "more cached than sent": says(REPLY, fields(prompt_tokens_details={"cached_tokens": 10**6})),
    "cached negative": says(REPLY, fields(prompt_tokens_details={"cached_tokens": -3})),
    "details of another kind": says(
        REPLY, fields(prompt_tokens_details=[1], completion_tokens_details="none")
    ),
    "more reasoned than said": says(
        REPLY, fields(completion_tokens_details={"reasoning_tokens": 10**6})
    ),
}

#: Of these what is not reported of a call is estimated, and marked so.
NOT_BELIEVED: dict[str, Script] = {
    "missing": says(REPLY, lambda *_: None),
    "empty": says(REPLY, lambda *_: {}),
    "a list": says(REPLY, lambda *_: [100, 200]),
    "zero": says(REPLY, fields(prompt_tokens=0, completion_tokens=0)),
    "input zero": says(REPLY, fields(prompt_tokens=0)),
    "input missing": says(REPLY, fields(prompt_tokens=None)),
    "negative": says(REPLY, fields(prompt_tokens=-400, completion_tokens=-5)),
    "beyond all bounds": says(REPLY, fields(prompt_tokens=10**300)),
    "true": says(REPLY, fields(prompt_tokens=True)),
    "a text": says(REPLY, fields(prompt_tokens="lots")),
    "no number": no_number,
}

#: Of these the input counts for the costs, since that is the provider's to say, and not for more.
ODD: dict[str, Script] = {
    "far too small": says(REPLY, fields(prompt_tokens=5)),
    "larger than the window": says(REPLY, fields(prompt_tokens=10**9)),
}


@pytest.mark.parametrize("fault", [*BELIEVED, *ODD, *NOT_BELIEVED])
async def test_reported_use(served: Any, fault: str) -> None:
    """At the first question, and at one that follows a call which was believed."""
    client, place = served.client, served.place
    name = configure(place, {"endpoint": served.model.url})
    for asked_before in (0, 2):
        served.script = (BELIEVED | ODD | NOT_BELIEVED)[fault]
        result = await ask(client, story(asked_before), "t")
        assert (result["text"], result["error"], result["finishReason"]) == (REPLY, None, "stop")
        assert notices(client, "t") == []
        sent = counted(served.model.requests[-1])
        report = await shown(client)
        assert report["total"] == pytest.approx(sent + len(REPLY) // 4, rel=0.2)
        # The call before it is gone on with.
        believed = fault in BELIEVED or asked_before > 0
        assert report["basis"] == ("actual" if believed else "estimated")
        if fault in BELIEVED:
            last = report["lastCall"]
            assert last["input"] == sent
            assert last["cacheRead"] <= sent
            assert last["reasoning"] <= last["output"]

        served.script = says()
        result = await ask(client, "And now?", "next")
        assert (result["error"], result["evictedTurns"]) == (None, 0)
        messages = asked(served.model)[-1]
        assert_alternating(messages)
        assert len(messages) == 2 * asked_before + 4
        report = await shown(client)
        last = report["lastCall"]
        assert (report["basis"], report["newSince"]) == ("actual", 0)
        assert last["input"] == counted(served.model.requests[-1])
        assert abs(report["total"] - last["input"] - last["output"]) < 20
    assert await learned(place, name) == pytest.approx(1.0, abs=0.4)

    lines = used(place, name)
    assert len(lines) == 4
    for line in lines:
        counts = [line[key] for key in ("input", "output", "reasoning", "cacheRead", "cacheWrite")]
        assert all(type(count) is int and count >= 0 for count in counts)
    no_output = ("no output, with text", "output missing", "output negative", "output true")
    for line in lines[::2]:
        assert line["estimated"] is (fault in NOT_BELIEVED or fault in no_output)
    if fault in ODD:
        assert lines[2]["input"] == (5 if fault == "far too small" else 10**9)
    if fault == "output far too large":
        assert lines[2]["output"] == 900_000
    if fault in NOT_BELIEVED:
        assert lines[2]["input"] == pytest.approx(counted(chats(served.model)[2]), rel=0.3)
        assert lines[2]["output"] == pytest.approx(len(REPLY) // 4, rel=0.3)


async def test_what_is_not_believed_does_not_change_what_is_learned(served: Any) -> None:
    client, place = served.client, served.place
    name = configure(place, {"endpoint": served.model.url})
    served.script = says()
    await ask(client, story(1), "one")
    await client.command_result("aish.context.show")
    served.script = says("Fine.", fields(prompt_tokens=5))
    for number in range(2, 6):
        await ask(client, story(number), f"liar {number}")
    served.script = says()
    result = await ask(client, story(6), "after")
    last = (await shown(client))["accuracy"]
    assert last["actual"] == result["usage"]["inputTokens"]
    assert abs(last["errorPercent"]) < 15
    assert await learned(place, name) == pytest.approx(1.0, abs=0.4)


async def test_another_tokenizer_behind_the_same_name_is_learned_anew(served: Any) -> None:
    """Counts of thrice and of once the text are both such as a server may mean."""
    client, place = served.client, served.place
    name = configure(place, {"endpoint": served.model.url})

    def thrice(request: Request, text: str) -> Any:
        return {key: 3 * value for key, value in honest(request, text).items()}

    served.script = says("Fine.", thrice)
    for number in range(3):
        await ask(client, story(number, 600), f"told {number}")
    served.script = says()
    await client.command_result("aish.context.reset")
    for number in range(4):
        await ask(client, story(number, 600), f"anew {number}")
        await client.command_result("aish.context.reset")
    await ask(client, "And now?", "next")
    assert (await shown(client))["basis"] == "actual"
    assert await learned(place, name) == pytest.approx(1.0, abs=0.5)


def cuts_at(limit: int) -> Callable[[Request, str], Any]:
    """Report what a server does that leaves out what is beyond its limit: Ollama's ``num_ctx``."""
    return lambda request, text: (
        honest(request, text) | {"prompt_tokens": min(counted(request), limit)}
    )


async def test_a_server_that_cuts_without_a_word_is_told_once(served: Any) -> None:
    client, place = served.client, served.place
    name = configure(place, {"endpoint": served.model.url})
    served.script = says(usage=cuts_at(2048))
    told = []
    for number in range(7):
        await ask(client, story(number, 4000), f"cut {number}")
        told.append([said for said in notices(client, f"cut {number}") if "num_ctx" in said])
    # Two questions fit into that.
    first = next(number for number, said in enumerate(told) if said)
    assert counted(chats(served.model)[-7 + first]) > 2048
    assert first >= 2
    [said] = [said for some in told for said in some]
    assert "its server read only 2,048" in said
    assert f"`context_window = 2048` in `[models.{name}]`" in said
    assert "OLLAMA_CONTEXT_LENGTH" in said
    # What it says of a part is not learned from.
    assert (await shown(client))["total"] == pytest.approx(
        counted(chats(served.model)[-1]), rel=0.2
    )


@pytest.mark.parametrize("how", ["a cancel", "a break"])
async def test_the_usage_so_far_of_a_reply_that_was_cut_counts(served: Any, how: str) -> None:
    """Messages reports the input at the beginning, and the output at the end."""
    client, place = served.client, served.place
    price = {"input": 100.0, "output": 1000.0}
    model = {"endpoint": served.model.url, "provider": "anthropic", "timeout": 30.0}
    name = configure(place, {**model, "price": price})
    start = {"input_tokens": 300, "cache_read_input_tokens": 700, "output_tokens": 1}

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event({"type": "message_start", "message": {"usage": start}})
        block = {"type": "content_block_delta", "index": 0}
        await peer.event({**block, "delta": {"type": "text_delta", "text": REPLY}})
        if how == "a break":
            peer.reset()
        else:
            await peer.wait_closed()

    served.script = script
    asked_for = {"prompt": "Well?", "partialResultToken": "t"}
    _, answer = await begin(client, "aish.ask", asked_for)
    await client.wait_for(lambda: streamed(client, "t"), "the text")
    if how == "a cancel":
        await client.command_result("aish.cancel", {})
    await client.within(answer, "the end")
    [line] = used(place, name)
    assert (line["input"], line["cacheRead"], line["estimated"]) == (1000, 700, True)
    assert line["output"] == pytest.approx(len(REPLY) / 4, rel=0.5)
    assert line["cost"] == pytest.approx((1000 * 100 + line["output"] * 1000) / 1e6)


#: Where each protocol has what stays, and its messages.
PARTS: dict[str, tuple[tuple[str, ...], str]] = {
    "openai": (("tools",), "messages"),
    "openai-responses": (("tools", "instructions"), "input"),
    "anthropic": (("tools", "system"), "messages"),
    "gemini": (("tools", "systemInstruction"), "contents"),
    "ollama": (("tools",), "messages"),
}


def without_marks(value: Any) -> Any:
    """Return a part of a request without the marks for a cache, which move on."""
    if isinstance(value, dict):
        return {key: without_marks(one) for key, one in value.items() if key != "cache_control"}
    return [without_marks(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("provider", PARTS)
async def test_what_stays_is_in_front_byte_by_byte(served: Any, provider: str) -> None:
    """Nothing that changes from question to question stands before what does not."""
    client, place = served.client, served.place
    (place.folder / "main.py").write_text("x = 1\n")
    fact = {"kind": "fact", "content": "Tabs, not spaces.", "scope": "workspace"}
    item = await client.command_result("aish.memory.add", fact)
    configure(
        place,
        {"endpoint": served.model.url, "provider": provider, "context_window": 32768},
        project={"auto_tree": True},
        tools={"servers": {"aish": {"enabled": True}}},
    )
    sent: list[Any] = []

    async def script(request: Request, peer: Peer) -> None:
        sent.append(request.json)
        await ANSWERS[provider](peer)

    served.script = script
    for number in range(3):
        await run(client, f"echo {number}")
        await ask(client, f"Question {number}?", f"t{number}")
    await client.command_result("aish.memory.forget", {"id": item["id"], "scope": "workspace"})
    stay, messages = PARTS[provider]
    assert "Tabs, not spaces." in json.dumps(sent[0])
    assert "main.py" in json.dumps(sent[0])
    for before, after in itertools.pairwise(sent):
        for part in stay:
            assert json.dumps(after[part]) == json.dumps(before[part])
        front = without_marks(before[messages])
        assert without_marks(after[messages])[: len(front)] == front
