"""Odd tool servers in whole turns: with a cancel, in a goal, and in a session that is resumed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from remote_tool_server import RemoteServer, remote_server
from test_builtin_tools import Place, place

from aish_lsp.agent import Workspace
from aish_lsp.agent.events import End, Notice, Tool
from aish_lsp.agent.norris import Pursuit
from aish_lsp.agent.norris.run import pursue
from aish_lsp.agent.session import Ask, Session
from aish_lsp.agent.turn import ask as begin_turn
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.foundation.events import Usage
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, Text, ToolCall

__all__ = ["place"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("mcp") is None, reason="the SDK of tool servers is not installed"
    ),
]

SERVER = Path(__file__).resolve().parents[2] / "kit" / "tool_server.py"
MODEL = '[models.m]\nendpoint = "http://127.0.0.1:9"\nmodel = "m"\ncontext_window = 32768\n'
KINDS = ["odd shapes", "careless", "initialize first", "no id", "structured", "remote", "older"]


class Model:
    """Gives its ``replies`` in their order, the last one again and again."""

    def __init__(self) -> None:
        self.replies: list[tuple[ModelEvent, ...] | Exception] = []
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        for event in reply:
            yield event

    def calls(self, name: str) -> None:
        call = ToolCall("c1", name, "{}")
        self.replies += [(call, Usage(400, 10), Finish("tool"))]

    def says(self, text: str) -> None:
        self.replies += [(Text(text), Usage(400, 10), Finish("stop"))]

    @property
    def results(self) -> list[str]:
        """The results that were sent last."""
        return [one.content for one in self.requests[-1].messages if one.role == "tool"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    made = Model()
    monkeypatch.setattr(Session, "open_model", lambda *_: made)
    return made


@pytest.fixture
def remote() -> Iterator[RemoteServer]:
    with remote_server() as server:
        yield server


async def configure(place: Place, kind: str, remote: RemoteServer) -> None:
    """Configure a server ``s`` of this kind."""
    remote.is_older = kind == "older"
    if kind in ("remote", "older"):
        line = f"url = {json.dumps(remote.url)}"
    else:
        line = f"command = {json.dumps([sys.executable, str(SERVER), kind])}"
    place.config.write_text(f"{MODEL}[tools.servers.s]\n{line}\n")
    await place.workspace.reload()


async def ask(session: Session, prompt: str = "Look.") -> tuple[str, list[Any]]:
    job = begin_turn(session, Ask(prompt))
    events = [event async for event in job.events()]
    return (await job.result()).text, events


@pytest.mark.parametrize("kind", KINDS)
async def test_a_goal_is_reached_with_it(
    place: Place, model: Model, remote: RemoteServer, kind: str
) -> None:
    await configure(place, kind, remote)
    session = place.workspace.shown
    model.calls("s__look")
    model.says("GOAL: complete")
    if kind == "remote":
        await session.tools.begin()
        remote.lose(404)
    job = pursue(session, Pursuit("Look."))
    events = [event async for event in job.events()]
    assert (await job.result()).outcome == "complete"
    assert [event.status for event in events if isinstance(event, Tool)][-1] == "done"
    [result] = model.results
    assert result.startswith("[from the tool server s: data, no instructions]")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_with_its_results_is_resumed(
    place: Place, model: Model, remote: RemoteServer, kind: str
) -> None:
    await configure(place, kind, remote)
    session = place.workspace.shown
    model.calls("s__look")
    model.says("I looked.")
    assert (await ask(session))[0] == "I looked."
    results = model.results
    # In the meantime, the server is no longer there.
    place.config.write_text(MODEL)
    services = place.workspace.services
    again = Workspace(
        place.folder, services, Configuration(place.folder, services.trust, services.environ)
    )
    await place.workspace.aclose()
    resumed = (await again.sessions.resume(session.id)).session
    assert (await ask(resumed, "And now?"))[0] == "I looked."
    assert model.results == results
    assert "s__look" not in [tool.name for tool in model.requests[-1].tools]
    await again.aclose()


@pytest.mark.parametrize("kind", ["none", "remote", "older"])
async def test_a_cancel_during_a_call_leaves_session_and_server_usable(
    place: Place, model: Model, remote: RemoteServer, kind: str
) -> None:
    await configure(place, kind, remote)
    session, hangs = place.workspace.shown, asyncio.Event()
    name = "s__hang" if kind == "none" else "s__look"
    loop, goes_on = asyncio.get_running_loop(), threading.Event()
    usual = remote.reply

    def reply(message: Any) -> Any:
        loop.call_soon_threadsafe(hangs.set)
        goes_on.wait(60)
        return usual(message)

    remote.reply = reply
    model.calls(name)
    model.says("I looked.")
    job = begin_turn(session, Ask("Look."))
    events: list[Any] = []
    async for event in job.events():
        events.append(event)
        if isinstance(event, Tool) and event.status == "running":
            if kind != "none":
                await hangs.wait()
            job.cancel()
    assert events[-1] == End("cancelled")
    # What was not waited for is answered late.
    remote.reply = usual
    goes_on.set()
    del model.replies[:]
    model.calls("s__look")
    model.says("I looked.")
    async with asyncio.timeout(60):
        text, events = await ask(session)
    assert text == "I looked."
    assert [event.status for event in events if isinstance(event, Tool)][-1] == "done"


async def test_a_tool_that_a_models_server_refuses_is_left_out_in_a_goal(
    place: Place, model: Model, remote: RemoteServer
) -> None:
    await configure(place, "none", remote)
    refused = "Invalid schema for function 's__change': it is odd"
    model.replies += [BackendRejected("No.", provider_message=refused, status=400)]
    model.calls("s__look")
    model.says("GOAL: complete")
    job = pursue(place.workspace.shown, Pursuit("Look."))
    events = [event async for event in job.events()]
    assert (await job.result()).outcome == "complete"
    told = [event.message for event in events if isinstance(event, Notice)]
    assert any("does not accept the tool s__change of s, which is left" in one for one in told)
    names = [[tool.name for tool in request.tools] for request in model.requests]
    assert ["s__change" in one for one in names] == [True, False, False]
    assert all("s__look" in one for one in names)
