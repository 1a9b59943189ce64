"""Which model answers, what is asked before it does, and what its window is taken for."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request

from aish_lsp.config.schema import Config, Preset
from aish_lsp.config.trust import TrustStore
from aish_lsp.foundation.errors import Denied, NotFound
from aish_lsp.foundation.ports import Question
from aish_lsp.models import catalog as catalog_module
from aish_lsp.models import endpoint
from aish_lsp.models.catalog import OFFLINE, Catalog
from aish_lsp.models.http import HttpClient

TWO_KEYS = {"OPENAI_API_KEY": "sk-test", "MISTRAL_API_KEY": "test"}


class User:
    """Answers questions, and keeps them."""

    def __init__(self, *answers: bool | None) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, question: Question) -> bool | None:
        self.asked.append(question.message)
        return self._answers.pop(0)


@pytest.fixture(autouse=True)
def no_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find nothing on the ports of this machine, whatever listens there."""

    async def nothing(*_: Any, **__: Any) -> tuple[()]:
        return ()

    monkeypatch.setattr(endpoint, "find_local", nothing)


def make(http: HttpClient, folder: Path, environ: dict[str, str] | None = None) -> Catalog:
    return Catalog(http, TrustStore(folder / "trust.json"), environ or {})


async def test_an_answer_is_kept_for_all_that_follow(http: HttpClient, tmp_path: Path) -> None:
    user = User(False, True)
    catalog = make(http, tmp_path, TWO_KEYS)
    assert (await catalog.choose(Config(), None, user)).preset.name == "mistral"
    assert (await catalog.choose(Config(), None, user)).preset.name == "mistral"
    again = make(http, tmp_path, TWO_KEYS)
    assert (await again.choose(Config(), None, user)).preset.name == "mistral"
    assert ["api.openai.com" in asked for asked in user.asked] == [True, False]
    assert "OPENAI_API_KEY" in user.asked[0]
    assert "sk-test" not in user.asked[0]


async def test_no_answer_is_a_no_until_the_model_is_named(http: HttpClient, tmp_path: Path) -> None:
    user = User(None, None, True)
    catalog = make(http, tmp_path, {"OPENAI_API_KEY": "sk-test"})
    for _ in range(3):
        assert (await catalog.choose(Config(), None, user)).preset == OFFLINE
    assert len(user.asked) == 1
    with pytest.raises(Denied, match="nothing was sent"):
        await catalog.choose(Config(), "openai", user)
    assert (await catalog.choose(Config(), "openai", user)).preset.name == "openai"
    assert (await catalog.choose(Config(), None, user)).preset.name == "openai"
    assert len(user.asked) == 3


async def test_no_answer_is_not_kept_for_another_day(http: HttpClient, tmp_path: Path) -> None:
    user = User(None, True)
    environ = {"OPENAI_API_KEY": "sk-test"}
    assert (await make(http, tmp_path, environ).choose(Config(), None, user)).preset == OFFLINE
    chosen = await make(http, tmp_path, environ).choose(Config(), None, user)
    assert chosen.preset.name == "openai"


@pytest.mark.parametrize(("answer", "name"), [(True, "openai"), (False, "offline")])
async def test_an_answer_that_cannot_be_kept_holds_and_is_told(
    http: HttpClient, tmp_path: Path, answer: bool, name: str
) -> None:
    blocked = tmp_path / "data"
    blocked.write_text("a file where the folder should be")
    user = User(answer)
    catalog = make(http, blocked, {"OPENAI_API_KEY": "sk-test"})
    for _ in range(2):
        assert (await catalog.choose(Config(), None, user)).preset.name == name
    [trouble] = catalog.drain_warnings()
    assert "until the editor is closed" in trouble
    assert str(blocked) in trouble
    assert catalog.drain_warnings() == ()


async def test_an_unknown_name_is_told_with_the_nearest(http: HttpClient, tmp_path: Path) -> None:
    config = Config(models={"quick": Preset(name="quick")})
    with pytest.raises(NotFound, match=r"'quik'\. Did you mean quick\?"):
        await make(http, tmp_path).choose(config, "quik", User())


async def test_a_window_is_asked_once_and_outlives_a_server_that_is_down(
    http: HttpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[tuple[Any, str]] = [
        ({"data": [{"id": "m", "max_model_len": 16384}]}, "200 OK"),
        ({"error": "starting"}, "503 Service Unavailable"),
    ]

    async def script(_: Request, peer: Peer) -> None:
        body, status = replies.pop(0)
        await peer.reply(body, status)

    async with FaultServer(script) as server:
        catalog = make(http, tmp_path)
        preset = Preset(name="p", endpoint=server.url, model="m")
        assert catalog.known_window(preset) is None
        assert [await catalog.window(preset) for _ in range(3)] == [16384] * 3
        assert len(server.requests) == 1
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + 1000)
        monkeypatch.setattr(catalog_module, "time", later)
        assert [await catalog.window(preset) for _ in range(3)] == [16384] * 3
        assert len(server.requests) == 2


async def test_a_server_that_does_not_tell_is_not_asked_with_each_question(
    http: HttpClient, tmp_path: Path
) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.reply({"data": [{"id": "m"}]})

    async with FaultServer(script) as server:
        catalog = make(http, tmp_path)
        preset = Preset(name="p", endpoint=server.url, model="m")
        assert [await catalog.window(preset) for _ in range(3)] == [None] * 3
        assert len(server.requests) == 1
