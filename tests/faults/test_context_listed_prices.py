"""A model that only OpenRouter's list has a price of: under a cap, and in the session's costs."""

from __future__ import annotations

from typing import Any

import pytest
from client import RpcError
from context_parts import Json, configure, counted, says, story
from conversing import SHOWS_NOTHING, Place, ask
from fault_server import FaultServer, Peer, Request

#: Dollars a token, as the list has them: ten and twenty a million.
LISTED = {"prompt": "0.00001", "completion": "0.00002", "input_cache_read": "0.000001"}


class OpenRouter:
    """Answers in the place of OpenRouter, to which a proxy leads."""

    def __init__(self) -> None:
        self.pricing: Json = LISTED
        self.lists = 0
        self.questions: list[Request] = []
        self.has_list = True

    async def __call__(self, request: Request, peer: Peer) -> None:
        if request.path == "http://openrouter.ai/api/v1/chat/completions":
            self.questions.append(request)
            await says()(request, peer)
        elif self.has_list:
            assert request.path == "http://openrouter.ai/api/v1/models"
            self.lists += 1
            entry = {"id": "maker/one", "context_length": 8192, "pricing": self.pricing}
            await peer.reply({"data": [entry, {**entry, "id": "maker/two", "pricing": {}}]})
        else:
            await peer.reply({"error": {"message": "down"}}, "503 Service Unavailable")


async def asked(place: Place, router: OpenRouter, cap: float | None, **model: Any) -> Any:
    """Return the result of a question to a model behind a proxy, or the error."""
    preset = {"endpoint": "http://openrouter.ai/api/v1", "model": "maker/one", **model}
    configure(place, preset, cost={"cap_at_dollars": cap})
    async with FaultServer(router) as proxy, place.client(HTTP_PROXY=proxy.url) as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        try:
            return await ask(client, story(1), "t")
        except RpcError as error:
            return error


@pytest.mark.parametrize("window", [None, 8192])
async def test_a_listed_model_may_be_asked_under_a_cap(place: Place, window: int | None) -> None:
    router = OpenRouter()
    result = await asked(place, router, 0.10, context_window=window)
    assert result["error"] is None
    # The reply told no dollars; the list's price stands in.
    dollars = counted(router.questions[0]) * 10e-6 + result["usage"]["outputTokens"] * 20e-6
    assert result["usage"]["cost"] == pytest.approx(dollars)
    assert router.lists == 1


async def test_the_cap_holds_by_the_listed_price(place: Place) -> None:
    router = OpenRouter()
    # A reply of 256 tokens alone may cost more than half a cent.
    error = await asked(place, router, 0.005)
    assert error.data["kind"] == "costCap"
    assert error.data["estimate"] == pytest.approx(256 * 20e-6)
    assert router.questions == []


@pytest.mark.parametrize("pricing", [{}, {"prompt": "-1", "completion": "-1"}])
async def test_without_a_price_the_cap_refuses(place: Place, pricing: Json) -> None:
    router = OpenRouter()
    router.pricing = pricing
    error = await asked(place, router, 10.0)
    assert error.data["kind"] == "costCap"
    assert "price" in str(error)
    assert router.questions == []


async def test_without_a_list_the_cap_refuses_and_without_a_cap_it_answers(place: Place) -> None:
    router = OpenRouter()
    router.has_list = False
    assert (await asked(place, router, 10.0)).data["kind"] == "costCap"
    result = await asked(place, router, None)
    assert (result["error"], result["usage"]["cost"]) == (None, None)
