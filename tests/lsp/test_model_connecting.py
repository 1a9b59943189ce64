"""``aish.model.find`` and ``aish.model.connect``, by which an editor's form connects a model."""

from __future__ import annotations

from typing import Any

import pytest
from conversing import Place
from fault_server import FaultServer, two_models

KEY = "sk-the-right-key"


async def connected(place: Place, arguments: dict[str, Any], **environment: str) -> dict[str, Any]:
    """Return what comes of connecting with a server that is started with this environment."""
    async with place.client("stdio", **environment) as client:
        await client.initialize(place.folder)
        result: dict[str, Any] = await client.command_result("aish.model.connect", arguments)
        assert client.notified("window/showMessage") == []
        return result


async def test_a_server_that_wants_a_key_is_connected_once_it_is_started_with_one(
    place: Place,
) -> None:
    async with FaultServer(two_models(KEY)) as model:
        address = model.url.removeprefix("http://")
        wanted = await connected(place, {"choice": address})
        variable = wanted["keyVariable"]
        assert variable.startswith("KEY_OF_127_0_0_1")
        assert not place.config.exists()

        # A key with the newline that came along when it was copied is the key.
        arguments = {"choice": address, "apiKeyEnv": variable}
        refused = await connected(place, arguments, **{variable: "sk-wrong"})
        assert refused["keyVariable"] == variable
        assert "sk-wrong" not in str(refused)
        listed = await connected(place, arguments, **{variable: f"{KEY}\n"})
        assert listed["models"] == ["a", "b"]
        assert not place.config.exists()
        done = await connected(place, {**arguments, "model": "b"}, **{variable: KEY})
    assert done == {
        "name": "local",
        "reply": "Hello from b.",
        "problem": "",
        "keyVariable": "",
        "models": [],
    }
    assert f'api_key_env = "{variable}"' in place.config.read_text()
    assert KEY not in place.config.read_text()


async def test_a_model_whose_key_is_refused_later_is_not_added_twice(place: Place) -> None:
    async with FaultServer(two_models(KEY)) as model:
        arguments = {"choice": model.url, "apiKeyEnv": "MODEL_KEY", "model": "a"}
        await connected(place, arguments, MODEL_KEY=KEY)
        before = place.config.read_text()
        again = await connected(place, arguments, MODEL_KEY=KEY)
    assert again["name"] == "local"
    assert place.config.read_text() == before


async def test_a_second_model_answers_by_default_only_if_that_is_wanted(place: Place) -> None:
    async with FaultServer(two_models(KEY)) as model:
        arguments = {"choice": model.url, "apiKeyEnv": "MODEL_KEY", "model": "a"}
        await connected(place, arguments, MODEL_KEY=KEY)
        await connected(place, {**arguments, "model": "b"}, MODEL_KEY=KEY)
        assert "default_model" not in place.config.read_text()
        await connected(place, {**arguments, "model": "c", "default": True}, MODEL_KEY=KEY)
    assert place.config.read_text().startswith('default_model = "local-3"')


async def test_what_can_be_connected_is_found_without_sending_anything(place: Place) -> None:
    environment = {"AISH_DISCOVERY": "", "GROQ_API_KEY": "k" * 20, "PATH": "/usr/bin:/bin"}
    async with place.client("stdio", **environment) as client:
        await client.initialize(place.folder)
        found = await client.command_result("aish.model.find", {})
    [groq] = [one for one in found["found"] if one["keyVariable"] == "GROQ_API_KEY"]
    assert groq["sendsTo"] == "api.groq.com"
    labels = {one["label"]: one for one in found["providers"]}
    assert "Groq" not in labels
    assert labels["Anthropic"]["keys"].startswith("https://")
    assert labels["Anthropic"]["keyVariable"] == "ANTHROPIC_API_KEY"
    assert bool(found["small"]) != bool(found["smallProblem"])


async def test_an_address_where_nothing_answers_is_refused_and_nothing_is_written(
    place: Place,
) -> None:
    async with place.client() as client:
        await client.initialize(place.folder)
        for choice, kind in (
            ("http://127.0.0.1:1", "backendUnavailable"),
            ("http://[", "invalidArgument"),
            ("/nowhere/model.gguf", "backendUnavailable"),
        ):
            with pytest.raises(Exception, match=r".") as refused:
                await client.command_result("aish.model.connect", {"choice": choice})
            assert refused.value.data["kind"] == kind  # type: ignore[attr-defined]
    assert not place.config.exists()
