"""``:memory``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typed_chat import typed

from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.chat.colon import memory_values as argument_values
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.ports import Question


@pytest.fixture
async def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workspace]:
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AISH_CONFIG", str(tmp_path / "config.toml"))
    services = Services(environ={"AISH_DISCOVERY": "off"})
    root = tmp_path / "workspace"
    root.mkdir()
    opened = Workspace(root, services, Configuration(root, services.trust, services.environ))
    yield opened
    await opened.aclose()
    await services.aclose()


async def memory_command(workspace: Workspace, argument: str) -> str:
    return await typed(workspace, f":memory {argument}")


def shown(workspace: Workspace) -> list[str]:
    return sorted(item.content for item in workspace.memory.items())


async def test_add_edit_forget(workspace: Workspace) -> None:
    assert "item 1. The model" in await memory_command(workspace, "add pref  terse")
    assert "as item 1." in await memory_command(workspace, "add fact Terse!")
    assert await memory_command(workspace, "edit 1  be terse") == (
        "It is now item 2, in place of 1."
    )
    assert "says that already" in await memory_command(workspace, "edit 2 be terse")
    assert "- 2 " in await memory_command(workspace, "list")
    assert "told 1 item," in await memory_command(workspace, "inject")
    assert await memory_command(workspace, "forget 2") == "Forgot 1 item."
    assert "There is no item 2" in await memory_command(workspace, "forget 2")
    with pytest.raises(NotFound, match="no item 2"):
        await memory_command(workspace, "edit 2 x")


async def test_a_scope_stands_before_an_id(workspace: Workspace) -> None:
    workspace.memory.add("fact", "w")
    workspace.memory.add("fact", "u", scope="user")
    values = argument_values(workspace.memory.items(), "")["memory forget"]
    assert sorted(values) == ["user:1", "workspace:1"]
    for line in ("forget 1", "edit 1 x"):
        with pytest.raises(InvalidArgument, match="`workspace:1` or `user:1`"):
            await memory_command(workspace, line)
    assert "now item 2" in await memory_command(workspace, "edit user:1 mine")
    assert await memory_command(workspace, "forget workspace:1") == "Forgot 1 item."
    assert shown(workspace) == ["mine"]
    assert [*argument_values(workspace.memory.items(), "")["memory edit"]] == ["2"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("learn", "`:memory edit ID TEXT`"),
        ("add", "fact|pref|context"),
        ("add rumor x", "fact|pref|context"),
        ("add fact", "what to remember"),
        ("forget", "forget ID"),
        ("forget x", "forget ID"),
        ("forget team:1", "forget ID"),
        ("forget " + "9" * 30, "forget ID"),
        ("edit 1", "edit ID TEXT"),
        ("edit x y", "edit ID TEXT"),
        ("clear team", "clear workspace|user"),
    ],
)
async def test_what_is_not_understood_is_told_how_it_is_written(
    workspace: Workspace, line: str, told: str
) -> None:
    with pytest.raises(InvalidArgument) as error:
        await memory_command(workspace, line)
    assert told in error.value.message


async def test_clear_wants_a_yes(workspace: Workspace) -> None:
    workspace.memory.add("fact", "w")
    workspace.memory.add("fact", "u", scope="user")
    assert "it was not confirmed" in await memory_command(workspace, "clear")
    assert shown(workspace) == ["u", "w"]

    async def yes(_: Question) -> bool | None:
        return True

    workspace.services.ask_user = yes
    assert await memory_command(workspace, "clear user") == "Forgot 1 item."
    assert shown(workspace) == ["w"]
    assert await memory_command(workspace, "clear") == "Forgot 1 item."
    assert await memory_command(workspace, "clear") == "Forgot 0 items."
