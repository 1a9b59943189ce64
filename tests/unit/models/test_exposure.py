"""Whose keys would go out unencrypted, and that they do not without the user's word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request

from aish_lsp.config.schema import Config, Preset
from aish_lsp.config.trust import TrustStore
from aish_lsp.foundation.errors import BackendRejected, Denied
from aish_lsp.foundation.ports import Question
from aish_lsp.models.address import exposes, shows_key
from aish_lsp.models.catalog import Catalog
from aish_lsp.models.http import HttpClient

KEY = {"Authorization": "Bearer k"}
PLACE = "http://models.example:8080"


@pytest.mark.parametrize(
    ("url", "headers", "exposed"),
    [
        (f"{PLACE}/v1", KEY, True),
        (f"{PLACE}/v1", {"x-api-key": "k"}, True),
        (f"{PLACE}/v1", {"api-key": "k"}, True),
        (f"{PLACE}/v1", {"X-Custom-Token": "k"}, True),
        ("http://192.168.1.2/v1", KEY, True),
        ("HTTP://models.example/v1", KEY, True),
        ("http://user:word@models.example/v1", {}, True),
        ("http://models.example/v1?api_key=k", {}, True),
        ("http://127.0.0.1.models.example/v1", KEY, True),
        (f"{PLACE}/v1", {"anthropic-version": "1", "User-Agent": "x"}, False),
        ("https://models.example/v1", KEY, False),
        ("http://127.0.0.1:8080/v1", KEY, False),
        ("http://localhost:8080/v1", KEY, False),
        ("http://[::1]:8080/v1", KEY, False),
    ],
)
def test_a_key_is_exposed_by_http_to_another_machine(
    url: str, headers: dict[str, str], exposed: bool
) -> None:
    assert exposes(url, headers) is exposed


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"api_key_env": "K"}, True),
        ({"api_key_command": ["pass", "key"]}, True),
        ({"extra_headers": {"X-Api-Key": "k"}}, True),
        ({"extra_headers": {"X-Title": "aish"}}, False),
        ({"api_key_env": "K", "endpoint": "https://models.example"}, False),
        ({"api_key_env": "K", "endpoint": "http://["}, False),
        ({"api_key_env": "K", "endpoint": ""}, False),
        ({}, False),
    ],
)
def test_a_preset_shows_the_key_that_it_has(settings: dict[str, Any], shown: bool) -> None:
    preset = Preset(**{"name": "far", "endpoint": PLACE, **settings})
    assert shows_key(preset) is shown


async def test_without_a_word_nothing_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.reply({"ok": True})

    agreed: list[str] = []
    async with FaultServer(script) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        http = HttpClient(lambda place: place in agreed)
        for fetch in (
            http.fetch_json(f"{PLACE}/v1/models", headers=KEY, timeout_s=5),
            http.fetch_json(f"{PLACE}/v1/x", {}, headers=KEY, timeout_s=5),
            anext(http.stream(f"{PLACE}/v1/x", {}, headers=KEY, timeout_s=5)),
        ):
            with pytest.raises(BackendRejected, match=PLACE):
                await fetch
        assert proxy.connections == 0
        assert await http.fetch_json(f"{PLACE}/x", timeout_s=5) == {"ok": True}
        agreed.append(PLACE)
        assert await http.fetch_json(f"{PLACE}/x", headers=KEY, timeout_s=5) == {"ok": True}
        await http.aclose()


class User:
    """A user with answers ready."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, question: Question) -> bool | None:
        self.asked.append(question.message)
        return self.answers.pop(0)


FAR = Preset(name="far", endpoint=f"{PLACE}/v1", model="m", api_key_env="K")
CONFIG = Config(models={"far": FAR})


def catalog(http: HttpClient, folder: Path) -> Catalog:
    return Catalog(http, TrustStore(folder / "trust.json"), {"K": "k-secret"})


async def test_a_yes_is_kept(http: HttpClient, tmp_path: Path) -> None:
    user = User(True)
    for _ in range(2):
        found = catalog(http, tmp_path)
        assert (await found.choose(CONFIG, None, user)).preset == FAR
        assert found.may_show_key(PLACE)
        assert not found.may_show_key("http://models.example:8081")
    [question] = user.asked
    assert PLACE in question
    assert "models.far.endpoint" in question
    assert "K would go" in question
    assert "k-secret" not in question
    [grant] = json.loads((tmp_path / "trust.json").read_text())["grants"]
    assert (grant["what"], grant["name"], grant["answer"]) == ("key", PLACE, "granted")


async def test_a_no_is_kept_until_the_model_is_named(http: HttpClient, tmp_path: Path) -> None:
    user = User(False, True)
    for _ in range(2):
        with pytest.raises(Denied, match=r"models\.far\.endpoint"):
            await catalog(http, tmp_path).choose(CONFIG, None, user)
    assert len(user.asked) == 1
    found = catalog(http, tmp_path)
    assert not found.may_show_key(PLACE)
    assert (await found.choose(CONFIG, "far", user)).preset == FAR
    assert found.may_show_key(PLACE)


async def test_nobody_is_a_no_that_is_not_kept(http: HttpClient, tmp_path: Path) -> None:
    user = User(None, True)
    found = catalog(http, tmp_path)
    with pytest.raises(Denied, match="ask --model far"):
        await found.choose(CONFIG, None, user)
    assert not (tmp_path / "trust.json").exists()
    assert (await found.choose(CONFIG, None, user)).preset == FAR


async def test_a_yes_that_cannot_be_kept_holds_for_now(http: HttpClient, tmp_path: Path) -> None:
    (tmp_path / "trust.json").mkdir()
    found = catalog(http, tmp_path)
    await found.choose(CONFIG, None, User(True))
    assert found.may_show_key(PLACE)
    assert any(PLACE in trouble for trouble in found.drain_warnings())
