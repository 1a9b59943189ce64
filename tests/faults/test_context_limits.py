"""Windows, budgets and questions that do not go together: it is said, and nothing is lost."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from client import RpcError
from context_parts import (
    Json,
    asked,
    assert_alternating,
    configure,
    counted,
    notices,
    run,
    says,
    shown,
    story,
    tell,
)
from conversing import ask

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Settings of the context and of the model with which no question fits.
HOPELESS: dict[str, tuple[Json, Json]] = {
    "a window smaller than the system prompt": ({}, {"context_window": 120}),
    "a reply as large as the window": ({}, {"max_output_tokens": 8192}),
    "a reply larger than the window": ({}, {"max_output_tokens": 100_000}),
    "a budget of one token": ({"token_budget": 1}, {}),
    "a budget of one token for this model": ({}, {"token_budget": 1}),
}


async def refused(served: Any, prompt: str, token: str) -> Json:
    """Ask what cannot be sent; return the error's data."""
    before = len(served.model.requests)
    with pytest.raises(RpcError) as caught:
        await ask(served.client, prompt, token)
    error = caught.value
    assert (error.code, error.data["kind"]) == (1003, "overBudget")
    assert len(served.model.requests) == before
    data: Json = error.data
    assert data["total"] == sum(data["breakdown"].values())
    for name, tokens in data["breakdown"].items():
        assert f"{name} {tokens}" in error.message
    assert f"the budget is {data['tokenBudget']}" in error.message
    *_, question = (record for record in served.place.records() if record.get("role") == "user")
    assert (question["content"], question["meta"]) == (prompt, "unanswered")
    await shown(served.client)
    return data


@pytest.mark.parametrize("settings", HOPELESS)
async def test_no_question_fits_and_another_model_answers(served: Any, settings: str) -> None:
    client, place = served.client, served.place
    context, model = HOPELESS[settings]
    context = {"summarize": False} | context
    endpoint = {"endpoint": served.model.url}
    token_budget = 8000 if "token_budget" in context else None
    other = endpoint | {"name": "roomy", "token_budget": token_budget}
    configure(place, endpoint | model, other, context=context)
    await run(client)
    data = await refused(served, "Well?", "t")
    assert data["breakdown"]["system"] > 100
    report = await shown(client)
    assert (report["tokenBudget"], report["free"]) == (data["tokenBudget"], 0)

    served.script = says()
    result = await ask(client, "And now?", "next", model="roomy")
    assert (result["text"], result["error"]) == ("All is well.", None)
    assert asked(served.model)[-1][-1]["content"].startswith("[exec output]\n$ echo pending")


async def test_a_question_larger_than_the_window(served: Any) -> None:
    client = served.client
    configure(served.place, {"endpoint": served.model.url, "context_window": 2048})
    served.script = says()
    await tell(client, 3)
    await run(client)
    data = await refused(served, story(9, 12_000), "t")
    assert data["breakdown"]["messages"] > 2000

    # The turns before it, too, are where they were.
    result = await ask(client, "And now?", "next")
    assert (result["text"], result["error"], result["evictedTurns"]) == ("All is well.", None, 0)
    messages = asked(served.model)[-1]
    assert_alternating(messages)
    assert [message["content"] for message in messages[1::2]] == [
        *(story(number) for number in range(3)),
        "[exec output]\n$ echo pending (exit 0)\npending\n\nAnd now?",
    ]


async def test_so_is_one_after_the_server_has_counted(served: Any) -> None:
    """The estimate that refuses it must not be that of the question before."""
    client = served.client
    configure(served.place, {"endpoint": served.model.url, "context_window": 2048})
    served.script = says()
    for number in range(3):
        await refused(served, story(number, 12_000), f"t{number}")
        result = await ask(client, story(number, 400), f"short {number}")
        assert (result["error"], result["evictedTurns"]) == (None, 0)
    assert len(asked(served.model)[-1]) == 6


async def test_a_reply_larger_than_the_window_leaves_with_its_question(served: Any) -> None:
    client = served.client
    configure(served.place, {"endpoint": served.model.url, "context_window": 2048})
    served.script = says(story(1, 12_000))
    result = await ask(client, "Go on and on.", "t")
    assert len(result["text"]) == 12_000
    report = await shown(client)
    assert report["total"] > report["tokenBudget"]
    assert report["free"] == 0

    served.script = says()
    result = await ask(client, "And now?", "next")
    assert (result["text"], result["error"], result["evictedTurns"]) == ("All is well.", None, 2)
    assert notices(client, "next") == ["2 old messages were left out."]
    [_, second] = asked(served.model)
    assert [message["content"] for message in second[1:]] == ["And now?"]
    assert counted(served.model.requests[-1]) <= 2048 - 256


async def test_output_larger_than_the_window_is_cut(served: Any) -> None:
    client = served.client
    configure(served.place, {"endpoint": served.model.url, "context_window": 2048})
    (served.place.folder / "long.txt").write_text(story(1, 20_000))
    await run(client, "cat long.txt")
    result = await ask(client, "What does it say?", "t")
    assert (result["text"], result["error"]) == ("All is well.", None)
    assert any("cut or left out: command output" in told for told in notices(client, "t"))
    [[_, question]] = asked(served.model)
    assert "characters left out" in question["content"]
    assert question["content"].endswith("What does it say?")
    assert counted(served.model.requests[-1]) <= 2048 - 256


async def test_the_project_and_the_memory_go_where_nothing_else_is_left(served: Any) -> None:
    client, place = served.client, served.place
    instructions = place.folder / "AGENTS.md"
    instructions.write_text(story(3, 3000))
    added = {"kind": "fact", "content": story(2, 1500)}
    item = await client.command_result("aish.memory.add", added)
    try:
        # Neither of the two blocks, but the question.
        model = {"endpoint": served.model.url, "context_window": 800}
        configure(place, model, project={"auto_tree": True})
        result = await ask(client, story(1, 600), "t")
        assert (result["text"], result["error"]) == ("All is well.", None)
        assert any("[project], [background]" in told for told in notices(client, "t"))
        [[system, question]] = asked(served.model)
        assert not re.search(r"^\[(project|background)\]", system["content"], re.MULTILINE)
        assert question["content"] == story(1, 600)
        # Left out for once, not for good: they are shown, and they are sent where there is room.
        configure(place, {"endpoint": served.model.url}, project={"auto_tree": True})
        result = await ask(client, "And now?", "next")
        assert re.search(r"^\[background\]", asked(served.model)[-1][0]["content"], re.MULTILINE)
        breakdown = (await shown(client))["breakdown"]
        assert breakdown["memory"] > 100
        assert breakdown["instructions"] > 100
    finally:
        await client.command_result("aish.memory.forget", item)
        instructions.unlink()


@pytest.mark.parametrize(("low_water", "evicted"), [(0.0, 6), (0.75, 4), (1.0, 2)])
async def test_the_low_water_mark_may_be_anywhere(
    served: Any, low_water: float, evicted: int
) -> None:
    client = served.client
    context = {"summarize": False, "max_turns": 6, "low_water": low_water}
    configure(served.place, {"endpoint": served.model.url}, context=context)
    await tell(client, 3, 100)
    result = await ask(client, "And now?", "t")
    assert (result["error"], result["evictedTurns"]) == (None, evicted)
    assert_alternating(asked(served.model)[-1])


async def test_one_turn_is_kept(served: Any) -> None:
    client = served.client
    context = {"summarize": False, "max_turns": 1}
    configure(served.place, {"endpoint": served.model.url}, context=context)
    for number in range(3):
        result = await ask(client, story(number, 100), f"t{number}")
        assert result["error"] is None
    assert [len(messages) for messages in asked(served.model)] == [2, 2, 2]


async def test_a_long_session_evicts_seldom_and_alternates_always(served: Any) -> None:
    client, place = served.client, served.place
    context = {"summarize": False, "max_turns": 6}
    configure(place, {"endpoint": served.model.url}, context=context)
    before, evicted = len(place.records()), []
    for number in range(24):
        if number % 3 == 0:
            await run(client, f"echo {number}")
        if number % 5 == 4:
            # Neither what has no answer nor what leaves no trace changes the turns.
            served.script = says("")
            await ask(client, "Unanswered.", f"none {number}")
            served.script = says()
            await ask(client, "Between us.", f"ephemeral {number}", ephemeral=True)
        result = await ask(client, story(number, 300), f"t{number}")
        assert result["error"] is None
        evicted.append(result["evictedTurns"])
        await shown(client)
    for messages in asked(served.model):
        assert_alternating(messages)
        assert len(messages) <= 7
    assert sum(map(bool, evicted)) <= len(evicted) // 2
    assert not any(one and other for one, other in pairwise(evicted))
    assert (await shown(client))["compactions"] >= 8
    gone = [one for one in place.records()[before:] if one.get("event") == "evicted"]
    assert all(one["to"] < other["from"] for one, other in pairwise(gone))
    prompts = [messages[-1]["content"] for messages in asked(served.model)]
    told = [prompt for prompt in prompts if prompt.startswith("[exec output]")]
    # Said once, and again where nothing answered.
    assert [f"$ echo {number} " in "".join(told) for number in range(0, 24, 3)] == [True] * 8
