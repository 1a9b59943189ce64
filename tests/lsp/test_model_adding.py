"""``:model add`` and ``aish.model.add`` through the real server."""

from __future__ import annotations

from typing import Any

import pytest
from client import CAPABILITIES, RpcError
from conversing import Place, chat_holds, no
from fault_server import FaultServer, two_models


async def test_an_address_is_added_tried_and_answers_from_now_on(place: Place) -> None:
    async with FaultServer(two_models()) as model, place.client() as client:
        place.config.write_text("# mine\n")
        await client.initialize(place.folder)
        with pytest.raises(RpcError) as refused:
            await client.command_result("aish.model.add", {"choice": "http://127.0.0.1:1"})
        assert refused.value.data["kind"] == "backendUnavailable"
        added = await client.command_result("aish.model.add", {"choice": f"{model.url} b"})
        assert (added["added"], added["active"]) == ("local", "local")
        assert added["models"][0]["model"] == "b"
        assert "Hello from b." in client.notified("window/showMessage")[-1]["message"]
        assert place.config.read_text() == (
            f'# mine\n\n[models.local]\nendpoint = "{model.url}"\nmodel = "b"\n'
        )
        again = await client.command_result("aish.model.add", {"choice": f"{model.url} b"})
        assert again["added"] == "local"
        other = await client.command_result("aish.model.add", {"choice": model.url})
        assert (other["added"], other["active"]) == ("local-2", "local-2")


async def test_a_model_that_the_server_does_not_list_is_added_only_if_the_user_agrees(
    place: Place,
) -> None:
    plain = CAPABILITIES | {"window": {"workDoneProgress": True}}
    async with FaultServer(two_models()) as model, place.client() as client:
        await client.initialize(place.folder, capabilities=plain)
        with pytest.raises(RpcError) as refused:
            await client.command_result("aish.model.add", {"choice": f"{model.url} bb"})
        assert refused.value.data["kind"] == "notFound"
    assert 'does not list "bb"; did you mean "b"?' in str(refused.value)
    assert not place.config.exists()
    async with FaultServer(two_models()) as model, place.client("stdio") as client:
        await client.initialize(place.folder)
        answers = iter(["Cancel", "Use it"])
        client.answers["window/showMessageRequest"] = lambda _: {"title": next(answers)}
        added = await client.command_result("aish.model.add", {"choice": f"{model.url} bb"})
        assert added["added"] is None
        assert not place.config.exists()
        added = await client.command_result("aish.model.add", {"choice": f"{model.url} bb"})
        assert added["models"][0]["model"] == "bb"


async def test_an_address_needs_no_scheme_and_an_unknown_window_is_told_once(place: Place) -> None:
    async with FaultServer(two_models()) as model, place.client() as client:
        await client.initialize(place.folder)
        address = model.url.removeprefix("http://")
        added = await client.command_result("aish.model.add", {"choice": f"{address} b"})
        assert added["models"][0]["endpoint"] == f"http://{address}"
        for times in (1, 2):
            await client.command_result("aish.chat.send", {"prompt": "why?"})
            chat = await chat_holds(client, place, "Hello from b.", times=times)
    guess = (
        "No more than 4,096 tokens are used, as the server does not say how many the model takes:"
        " set `context_window` in `[models.local]` of config.toml."
    )
    assert chat.count(guess) == 1


async def test_what_was_added_in_a_terminal_meanwhile_is_listed_at_once(place: Place) -> None:
    async with place.client() as client:
        place.config.write_text('[models.one]\nendpoint = "http://127.0.0.1:1"\n')
        await client.initialize(place.folder)
        listed = await client.command_result("aish.model.list", {})
        assert [row["name"] for row in listed["models"]] == ["one", "offline"]
        with place.config.open("a") as config:
            config.write('[models.two]\nendpoint = "http://127.0.0.1:2"\n')
        await client.command_result("aish.chat.send", {"prompt": ":model"})
        await chat_holds(client, place, "two (configured): its only model at http://127.0.0.1:2")
        with place.config.open("a") as config:
            config.write('[models.three]\nendpoint = "http://127.0.0.1:3"\n')
        used = await client.command_result("aish.model.use", {"name": "three"})
        assert used["active"] == "three"


def offered() -> dict[str, str]:
    """Return an environment with a key whose provider cannot be reached."""
    return {"AISH_DISCOVERY": "", "GROQ_API_KEY": "k" * 20, "HTTPS_PROXY": "http://127.0.0.1:1"}


async def test_a_client_that_can_ask_has_the_user_choose(place: Place) -> None:
    async with place.client("stdio", **offered()) as client:
        await client.initialize(place.folder)
        asked: list[Any] = []

        def cancel(params: Any) -> Any:
            asked.append(params)
            return no(params)

        client.answers["window/showMessageRequest"] = cancel
        result = await client.command_result("aish.model.add")
        assert result["added"] is None
        assert asked[0]["actions"][0]["title"] == "Cancel"
        assert "Your questions would be sent to api.groq.com" in asked[0]["message"]
        assert not place.config.exists()

        def choose(params: Any) -> Any:
            return next(one for one in params["actions"] if "gpt-oss" in one["title"])

        client.answers["window/showMessageRequest"] = choose
        result = await client.command_result("aish.model.add")
        assert (result["added"], result["active"]) == ("groq", "groq")
        told = client.notified("window/showMessage")[-1]["message"]
        assert "could not be tried" in told
        text = place.config.read_text()
        assert 'api_key_env = "GROQ_API_KEY"' in text
        assert 'default_model = "groq"' in text
        assert "k" * 20 not in text


async def test_a_client_that_cannot_ask_gets_a_list_in_the_chat(place: Place) -> None:
    plain = CAPABILITIES | {"window": {"workDoneProgress": True}}
    async with place.client("stdio", **offered()) as client:
        await client.initialize(place.folder, capabilities=plain)
        result = await client.command_result("aish.model.add")
        assert result["added"] is None
        chat = await chat_holds(client, place, "`:model add 1` adds the first of them")
        assert "openai/gpt-oss-120b: api.groq.com, with the key in GROQ_API_KEY" in chat
        assert not client.asked("window/showMessageRequest")
        await client.command_result("aish.chat.send", {"prompt": ":model add 99"})
        await chat_holds(client, place, "There is no number 99")
        assert not place.config.exists()
