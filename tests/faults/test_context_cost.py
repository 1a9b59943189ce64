"""Caps that hold, prices that are missing, thresholds, and what is written down of each call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from client import Client, RpcError
from context_parts import (
    Json,
    asked,
    chats,
    configure,
    counted,
    honest,
    notices,
    run,
    says,
    shown,
    story,
    tell,
    used,
)
from conversing import SHOWS_NOTHING, Place, ask, chat_holds
from fault_server import FaultServer, Request

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Ten dollars a million tokens: a hundred tokens are a tenth of a cent.
PRICE = {"input": 10.0, "output": 10.0}

LINE = r"\[estimated session ctx: (\d+) tokens; token_budget=(\d+) \((\d+)% used\)\]"

FIELDS = {"ts", "session", "model", "provider", "category", "input", "output", "reasoning",
          "cacheRead", "cacheWrite", "cost", "local", "estimated"}  # fmt: skip


async def begin(served: Any, *models: Json, cost: Json, **tables: Json) -> str:
    """Configure models at the server, and count from nothing."""
    at = [{"endpoint": served.model.url, **model} for model in models]
    name = configure(served.place, *at, cost=cost, **tables)
    await served.client.command_result("aish.cost.reset")
    return name


async def over_the_cap(client: Client, prompt: str, token: str, **fields: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await ask(client, prompt, token, **fields)
    assert (caught.value.code, caught.value.data["kind"]) == (1004, "costCap")
    return caught.value


async def test_what_could_cross_the_cap_is_not_sent(served: Any) -> None:
    client, place = served.client, served.place
    name = await begin(served, {"price": PRICE}, {"name": "free"}, cost={"cap_at_dollars": 0.01})
    first = await ask(client, story(1), "first")
    assert 0 < first["usage"]["cost"] < 0.01 - 256 * 10e-6
    await run(client)
    served.model.requests.clear()
    error = await over_the_cap(client, story(2), "t")
    assert served.model.requests == []
    assert error.data["capAtDollars"] == 0.01
    assert error.data["spent"] == pytest.approx(first["usage"]["cost"])
    assert error.data["spent"] + error.data["estimate"] > 0.01
    *_, question = (record for record in place.records() if record.get("role") == "user")
    assert (question["content"], question["meta"]) == (story(2), "unanswered")
    assert len(used(place, name)) == 1
    await shown(client)

    # One that costs nothing answers, and takes the output along.
    result = await ask(client, "And now?", "free", model="free")
    assert (result["text"], result["usage"]["cost"]) == ("All is well.", None)
    assert asked(served.model)[-1][-1]["content"].startswith("[exec output]\n$ echo pending")
    await over_the_cap(client, story(2), "again")
    cost = await client.command_result("aish.cost.show")
    assert (cost["capAtDollars"], cost["total"]["calls"]) == (0.01, 2)
    assert cost["total"]["cost"] == pytest.approx(first["usage"]["cost"])

    await client.command_result("aish.cost.reset")
    assert (await ask(client, "And now?", "anew"))["error"] is None


async def test_a_question_that_the_cap_refuses_evicts_nothing(served: Any) -> None:
    client = served.client
    context = {"summarize": False, "max_turns": 4}
    own = {"price": PRICE}
    await begin(served, own, {"name": "free"}, cost={"cap_at_dollars": 0.02}, context=context)
    await tell(client, 2, 600)
    context_before = await shown(client)
    configure(served.place, {"endpoint": served.model.url, **own},
              {"endpoint": served.model.url, "name": "free"},
              cost={"cap_at_dollars": 0.001}, context=context)  # fmt: skip
    records = len(served.place.records())
    await over_the_cap(client, "And what is open?", "t")
    new = served.place.records()[records:]
    assert [record.get("event", record.get("role")) for record in new] == ["user"]
    assert (await shown(client))["compactions"] == context_before["compactions"]
    result = await ask(client, "And now?", "next", model="free")
    assert result["evictedTurns"] == 2


async def test_a_cap_of_nothing_lets_what_is_free_through(served: Any) -> None:
    await begin(served, {"price": PRICE}, {"name": "free"}, cost={"cap_at_dollars": 0})
    await over_the_cap(served.client, "Well?", "t")
    result = await ask(served.client, "Well?", "free", model="free")
    assert result["error"] is None


async def test_a_cap_goes_by_the_estimate_where_a_server_reports_too_little(served: Any) -> None:
    client, place = served.client, served.place
    name = await begin(served, {"price": PRICE}, cost={"cap_at_dollars": 0.02})
    served.script = says("All is well.", told(prompt_tokens=5))
    result = await ask(client, story(1), "t")
    real = counted(served.model.requests[-1]) * 10e-6
    assert result["usage"]["cost"] == pytest.approx(real, rel=0.5)
    [line] = used(place, name)
    assert line["estimated"] is True
    assert (await ask(client, "And now?", "next"))["error"] is None


async def test_a_cap_goes_by_what_a_server_reports_however_much(served: Any) -> None:
    client, place = served.client, served.place
    name = await begin(served, {"price": PRICE}, cost={"cap_at_dollars": 0.02})
    served.script = says("All is well.", told(prompt_tokens=10**9))
    result = await ask(client, story(1), "t")
    assert result["usage"]["inputTokens"] == 10**9
    [line] = used(place, name)
    assert (line["estimated"], line["input"]) == (False, 10**9)
    await over_the_cap(client, "And now?", "next")


async def test_thresholds_warn_once_each_until_they_are_reset(served: Any) -> None:
    client = served.client
    await begin(served, {"price": PRICE}, cost={"warn_at_tokens": 600, "warn_at_dollars": 0.015})

    async def warned(number: int) -> list[str]:
        await ask(client, story(number, 600), f"t{number}")
        # "This session has used 1,234 tokens, more than 600."
        return [word for word in ("used", "cost") for told in notices(client, f"t{number}")
                if f"This session has {word} " in told]  # fmt: skip

    first = [await warned(number) for number in range(6)]
    assert first.count(["used"]) == first.count(["cost"]) == 1
    assert first.count([]) == 4
    assert first.index(["used"]) < first.index(["cost"])
    await client.command_result("aish.context.reset")
    again = [await warned(number) for number in range(6, 8)]
    assert again == [[], []]

    await client.command_result("aish.cost.reset")
    anew = [await warned(number) for number in range(8, 14)]
    assert anew.count(["used"]) == anew.count(["cost"]) == 1


def told(**fields: Any) -> Callable[[Request, str], Any]:
    return lambda request, text: honest(request, text) | fields


async def test_what_is_written_down_of_a_call(served: Any) -> None:
    client, place = served.client, served.place
    cached = {**PRICE, "cache_read": 1.0}
    name = await begin(served, {"price": cached}, {"name": "free"}, cost={})
    details = {"prompt_tokens_details": {"cached_tokens": 200},
               "completion_tokens_details": {"reasoning_tokens": 2}}  # fmt: skip
    served.script = says("All is well.", told(**details))
    await ask(client, story(1), "priced")
    served.script = says("All is well.", told(cost=0.125))
    await ask(client, "And now?", "told by the server")
    served.script = says("All is well.", lambda *_: None)
    await ask(client, "And now?", "estimated")
    served.script = says()
    free = await ask(client, "And now?", "free", model="free")
    priced, by_server, estimated = used(place, name)
    [local] = used(place, "free")[-1:]
    for line in (priced, by_server, estimated, local):
        assert set(line) == FIELDS
        assert (line["provider"], line["category"]) == ("openai", "main")
    sent = [counted(request) for request in chats(served.model)]
    assert (priced["input"], priced["output"], priced["cacheRead"]) == (sent[0], 5, 200)
    assert priced["reasoning"] == 2
    assert priced["cost"] == pytest.approx((10 * (sent[0] - 200 + 5) + 200) / 1e6)
    assert (priced["local"], priced["estimated"]) == (False, False)
    assert by_server["cost"] == 0.125
    assert (estimated["estimated"], estimated["local"]) == (True, False)
    assert estimated["cost"] == pytest.approx(10 * (estimated["input"] + estimated["output"]) / 1e6)
    assert (local["cost"], local["local"], local["estimated"]) == (None, True, False)
    assert free["usage"]["cost"] is None

    cost = await client.command_result("aish.cost.show", {"detail": True})
    slot = cost["models"][name]["main"]
    assert (slot["calls"], slot["local"], slot["unpriced"]) == (3, False, False)
    assert slot["cost"] == pytest.approx(sum(line["cost"] for line in used(place, name)))
    assert slot["input"] == sum(line["input"] for line in used(place, name))
    assert cost["models"]["free"]["main"]["local"] is True
    assert cost["models"]["free"]["main"]["cost"] is None
    assert cost["total"]["cost"] == pytest.approx(slot["cost"])


async def test_the_last_line_tells_how_full_the_context_is(served: Any) -> None:
    client, place = served.client, served.place
    await begin(served, {"token_budget": 1500}, cost={})
    await tell(client, 2)
    for _ in range(2):
        report = await shown(client)
        for fields in ({}, {"detail": True}, {"detail": True, "allSessions": True}):
            cost = await client.command_result("aish.cost.show", fields)
            found = re.fullmatch(LINE, cost["line"])
            assert found, cost["line"]
            total, budget, percent = map(int, found.groups())
            assert (total, budget) == (report["total"], 1500)
            assert percent == round(100 * total / 1500)

        before = place.chat.read_text().count("## You\n") if place.chat.exists() else 1
        await client.command_result("aish.chat.send", {"prompt": ":cost detail"})
        text = await chat_holds(client, place, "## You\n", times=before + 1)
        page = text.rpartition("```")[0].rpartition("```\n")[2].splitlines()
        first, *rows, last = page
        assert first.startswith("Session: 2 calls")
        assert len(rows) == 1
        assert last == cost["line"]
        await client.command_result("aish.context.reset")


@pytest.fixture
def elsewhere() -> Json:
    """A model at an address that is not this machine's."""
    return {"endpoint": "http://models.example/v1", "model": "house-blend"}


def behind(world: FaultServer, place: Place) -> Client:
    """Return a client of a server that takes ``world`` for its proxy: what gets there has left."""
    proxy = {"http_proxy": world.url, "HTTP_PROXY": world.url, "NO_PROXY": "", "no_proxy": ""}
    return place.client("stdio", **proxy)


async def test_a_model_that_the_cap_refuses_is_asked_nothing_at_all(
    place: Place, elsewhere: Json
) -> None:
    asks_for = [
        ({"context_window": None}, {}),
        ({}, {"tokenize": {"use_endpoint": True}}),
    ]
    async with FaultServer(says()) as world, behind(world, place) as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        for model, tables in asks_for:
            configure(place, elsewhere | model, cost={"cap_at_dollars": 1.0}, **tables)
            await over_the_cap(client, "Well?", "t")
        assert [request.path for request in world.requests] == []


async def test_a_remote_model_without_a_price(place: Place, elsewhere: Json) -> None:
    async with FaultServer(says()) as world:
        capped = {"cost": {"cap_at_dollars": 1.0}}
        async with behind(world, place) as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            name = configure(place, elsewhere, **capped)
            await run(client)
            error = await over_the_cap(client, "Well?", "t")
            assert f"models.{name}.price" in error.message
            assert world.requests == []

            configure(place, elsewhere | {"name": name})
            result = await ask(client, "And now?", "uncapped")
            [request] = world.requests
            assert request.path == "http://models.example/v1/chat/completions"
            assert request.json["messages"][-1]["content"].startswith("[exec output]")
            assert result["usage"]["cost"] is None
            [line] = used(place, name)
            assert (line["cost"], line["local"]) == (None, False)
            cost = await client.command_result("aish.cost.show")
            slot = cost["models"][name]["main"]
            assert (slot["unpriced"], slot["local"], slot["cost"]) == (True, False, None)

            # Once it has a price, the cap knows what to say to it.
            priced = elsewhere | {"name": name, "price": PRICE}
            configure(place, priced, **capped)
            result = await ask(client, "And now?", "priced")
            assert result["usage"]["cost"] > 0
            configure(place, elsewhere | {"name": name}, **capped)
            await over_the_cap(client, "And now?", "capped again")
            assert len(world.requests) == 2

        await remembers(place, name)


async def remembers(place: Place, name: str) -> None:
    """Another process, after a line that is damaged, knows of both calls."""
    [path] = place.data.glob("workspaces/*/usage.jsonl")
    wrong = '{"ts": "now", "session": "s", "model": "m", "provider": "p", "category": "main", '
    with path.open("a") as lines:
        lines.write("no JSON\n" + wrong + '"input": -4, "output": true}\n' + wrong + '"inp')
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        now = await client.command_result("aish.cost.show")
        assert (now["models"], now["total"]["calls"]) == ({}, 0)
        ever = await client.command_result("aish.cost.show", {"allSessions": True})
        assert set(ever["models"]) == {name}
        slot = ever["models"][name]["main"]
        assert (slot["calls"], slot["unpriced"]) == (2, True)
        assert slot["cost"] > 0
