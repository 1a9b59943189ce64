"""Faults of our own, which no model server can be made to show: what arrived is kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.agent import Workspace
from aish_lsp.agent.events import End
from aish_lsp.agent.services import Services
from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import ask as begin_turn
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.events import Event
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, Text


class Faulty:
    """Yields what it is given; an exception is raised."""

    def __init__(self, *steps: ModelEvent | Exception) -> None:
        self._steps = steps

    async def stream(self, _: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for step in self._steps:
            if isinstance(step, Exception):
                raise step
            yield step


@pytest.fixture
async def workspace(own_files: Path) -> AsyncIterator[Workspace]:
    services = Services(environ={"AISH_DISCOVERY": "off"})
    root = own_files / "workspace"
    root.mkdir()
    opened = Workspace(root, services, Configuration(root, services.trust, services.environ))
    yield opened
    await opened.aclose()
    await services.aclose()


def answer_with(monkeypatch: pytest.MonkeyPatch, workspace: Workspace, *steps: Any) -> None:
    monkeypatch.setattr(workspace.shown, "open_model", lambda _: Faulty(*steps))


async def test_what_arrived_is_kept(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, workspace, Text("So far."), KeyError("ours"))
    result = await begin_turn(workspace.shown, Ask("Well?")).result()
    assert (result.text, result.finish_reason) == ("So far.", "error")
    assert result.error is not None
    assert "KeyError" in result.error["message"]
    assert [message.content for message in workspace.shown.conversation.messages] == [
        "Well?",
        "So far.",
    ]

    answer_with(monkeypatch, workspace, Text("Fine."), Finish("stop"))
    assert (await begin_turn(workspace.shown, Ask("And now?")).result()).text == "Fine."


async def test_where_nothing_arrived_it_is_an_error(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, workspace, ZeroDivisionError())
    job = begin_turn(workspace.shown, Ask("Well?"))
    events: list[Event] = [event async for event in job.events()]
    assert isinstance(events[-1], End)
    assert events[-1].finish_reason == "error"
    with pytest.raises(AishError, match="ZeroDivisionError"):
        await job.result()
    assert workspace.shown.conversation.messages == []
