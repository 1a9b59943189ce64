"""What a workspace keeps, tells and withholds, as the front ends see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from fault_server import FaultServer, Peer, Request
from typed_chat import typed

from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import ask as begin_turn
from aish_lsp.config.loading import Configuration
from aish_lsp.context.messages import ExecOutput
from aish_lsp.foundation.errors import BackendRejected, InvalidArgument
from aish_lsp.memory.store import MemoryStore
from aish_lsp.models import endpoint
from aish_lsp.models.keys import resolve_key
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, Text
from aish_lsp.operations import models
from aish_lsp.operations.models import at_address

KEY = "plain-looking value"


class Saying:
    """A model that says what it is given."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def stream(self, _: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield Text(self._text)
        yield Finish("stop")


@pytest.fixture
async def workspace(own_files: Path) -> AsyncIterator[Workspace]:
    (own_files / "config.toml").write_text(
        '[models.mine]\nprovider = "openai"\nendpoint = "http://127.0.0.1:9/v1"\n'
        'model = "m"\napi_key_env = "SECRETVAR"\n'
    )
    services = Services(environ={"AISH_DISCOVERY": "off", "SECRETVAR": KEY, "XAI_API_KEY": "b" * 9})
    root = own_files / "workspace"
    root.mkdir()
    (root / "Makefile").write_text("test:\n\ttrue\n")
    opened = Workspace(root, services, Configuration(root, services.trust, services.environ))
    yield opened
    await opened.aclose()
    await services.aclose()


async def test_a_key_that_a_command_has_printed_is_masked_like_any_other(
    workspace: Workspace, tmp_path: Path
) -> None:
    key = "printed-by-a-command"
    table = (
        f'[models.theirs]\nprovider = "openai"\nmodel = "m"\napi_key_command = ["echo", "{key}"]\n'
    )
    with (tmp_path / "config.toml").open("a") as file:
        file.write(table)
    workspace.configuration.reload()
    assert workspace.without_keys(key) == key
    assert await resolve_key(workspace.config.models["theirs"], {}) == key
    assert workspace.without_keys(f"it is {key}.") == "it is [secret]."


async def say(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, text: str, ask: Ask | None = None
) -> None:
    monkeypatch.setattr(workspace.shown, "open_model", lambda _: Saying(text))
    await begin_turn(workspace.shown, ask or Ask("Well?", model="offline")).result()


def written(tmp_path: Path) -> str:
    files = (tmp_path / "AISH_DATA_DIR").rglob("*.jsonl")
    return "".join(path.read_text() for path in files)


async def test_keys_are_not_written_down_whatever_they_look_like(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    workspace.shown.conversation.append_output(ExecOutput(f"echo {KEY}", 0, f"it is {'b' * 9}"))
    await say(workspace, monkeypatch, f"I saw {KEY}.", Ask(f"Is {KEY} one?", model="offline"))
    log = written(tmp_path)
    assert KEY not in log
    assert "b" * 9 not in log
    assert "I saw [" in log
    assert "Is [" in log


@pytest.mark.parametrize("force", [False, True])
async def test_keys_are_not_remembered(workspace: Workspace, *, force: bool) -> None:
    with pytest.raises(InvalidArgument, match="key of a model"):
        workspace.memory.add("fact", f"Use {KEY}.", force=force)
    with pytest.raises(InvalidArgument, match="key of a model"):
        workspace.memory.add("fact", "A tag", tags=["b" * 9], force=force)
    workspace.memory.add("fact", "plain-looking other value", force=force)
    assert [item.content for item in workspace.memory.items()] == ["plain-looking other value"]


async def test_a_turn_without_commands_ends_the_offer_of_earlier_ones(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(workspace, monkeypatch, "CMD: true\n")
    aside = Ask("By the way?", model="offline", ephemeral=True)
    await say(workspace, monkeypatch, "CMD: false\n", aside)
    assert [one.info.text for one in workspace.shown.last_turn_suggestions] == ["true"]
    await say(workspace, monkeypatch, "Nothing to run.")
    assert workspace.shown.last_turn_suggestions == []
    assert [command.text for command in workspace.shown.commands.all()] == ["true", "false"]


async def test_the_next_request_is_shown_whole_from_the_start(workspace: Workspace) -> None:
    empty = workspace.shown.next_request().context()
    workspace.shown.conversation.append_output(ExecOutput("ls", 0, "Makefile"))
    shown = await typed(workspace, ":prompt")
    assert "[project]" in shown
    assert "\n[exec output]\n$ ls (exit 0)\nMakefile\n``" in shown
    report = workspace.shown.next_request().context()
    assert (empty.basis, report.basis) == ("estimated", "estimated")
    assert report.breakdown.messages > empty.breakdown.messages


async def test_the_project_counts_in_the_context_from_the_start(workspace: Workspace) -> None:
    page = await typed(workspace, ":context")
    assert workspace.shown.next_request().context().breakdown.project > 0
    assert page


async def test_the_list_has_what_other_processes_remembered(
    workspace: Workspace, tmp_path: Path
) -> None:
    assert "Nothing is remembered" in await typed(workspace, ":memory list")
    MemoryStore(tmp_path / "AISH_DATA_DIR" / "memory.jsonl").add("fact", "from elsewhere")
    assert "from elsewhere" in await typed(workspace, ":memory list")


async def test_what_is_wrong_with_the_configuration_is_told(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text("nonsense = 1\n")
    assert "nonsense" in await typed(workspace, ":prompt")


async def test_another_memory_counts_from_the_next_refresh_on(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.memory.add("fact", "in the usual place")
    (tmp_path / "config.toml").write_text('[memory]\npath = "notes/memory.jsonl"\n')
    assert await workspace.refresh() == []
    assert workspace.memory.items() == ()
    workspace.memory.add("fact", "beside the configuration")
    assert "beside" in (tmp_path / "notes" / "memory.jsonl").read_text()
    (tmp_path / "config.toml").write_text("")
    await workspace.refresh()
    assert [item.content for item in workspace.memory.items()] == ["in the usual place"]


async def test_what_is_not_an_address_is_refused(workspace: Workspace) -> None:
    with pytest.raises(InvalidArgument, match="is not an address"):
        await typed(workspace, ":model add http://[::1")


async def test_a_server_at_an_ipv6_address_gets_a_name(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def describe(*_: object) -> endpoint.EndpointInfo:
        return endpoint.EndpointInfo(models=("m",))

    monkeypatch.setattr(models, "describe", describe)
    found = await at_address(workspace, "http://[::ffff:10.0.0.5]:8080")
    assert found.preset.name == "local"


async def test_a_server_that_refuses_the_key_is_not_said_to_be_down(workspace: Workspace) -> None:
    async def script(_: Request, peer: Peer) -> None:
        await peer.reply({"error": {"message": "Invalid API Key"}}, "401 Unauthorized")

    workspace.services.environ = {**workspace.services.environ, "MY_KEY": "not-that-one-1"}
    async with FaultServer(script) as server:
        with pytest.raises(BackendRejected, match="wants a key"):
            await at_address(workspace, server.url)
        with pytest.raises(BackendRejected, match="refuses the key in MY_KEY"):
            await at_address(workspace, server.url, "MY_KEY")
