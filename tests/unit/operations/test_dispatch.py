"""The one way in: parameters are checked, settings awaited, the session found, in that order."""

from __future__ import annotations

import ast
import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import aish_lsp
from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.job import Job
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.dispatch import begin, dispatch, dispatch_line
from aish_lsp.operations.operation import Answer, Caller, Face, Operation, Subject

R = TypeVar("R")

PACKAGE = Path(aish_lsp.__file__).parent


class RecordingFace(Face):
    """Notes what it is told and asked for."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.rooms: list[str] = []

    def tell(self, message: str) -> None:
        self.told.append(message)

    async def wait(self, job: Job[R], title: str) -> R:
        return await job.result()

    async def chat_text(self) -> str:
        return ""

    async def subject(self, _params: Any) -> Subject:
        return Subject(file=Path("/asked/here.py"))

    async def make_room(self, operation: Operation, _session: object) -> None:
        self.rooms.append(operation.name)


@pytest.fixture
async def caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AISH_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text('default_model = "offline"\n')
    services = Services(environ={**os.environ, "AISH_DISCOVERY": "off"})
    root = tmp_path / "work"
    root.mkdir()
    workspace = Workspace(root, services, Configuration(root, services.trust, services.environ))
    yield Caller(workspace, workspace.shown, RecordingFace())
    await workspace.aclose()
    await services.aclose()


async def test_json_data_is_checked_against_the_parameters(caller: Caller) -> None:
    with pytest.raises(InvalidArgument, match="modle: unknown; did you mean"):
        await dispatch(OPERATIONS["ask"], {"prompt": "x", "modle": "y"}, caller)
    with pytest.raises(InvalidArgument, match="timeout: found 0"):
        await dispatch(OPERATIONS["run"], {"text": "ls", "timeout": 0}, caller)


async def test_what_needs_the_settings_waits_for_them(caller: Caller) -> None:
    known = asyncio.Event()
    caller.workspace.services.settled = lambda _root: known.wait()
    waiting = asyncio.create_task(begin("ask", {"prompt": "x"}, caller))
    listed = await dispatch(OPERATIONS["commands.list"], {}, caller)
    assert isinstance(listed, Answer)
    assert not waiting.done()
    known.set()
    assert (await (await waiting).result()).finish_reason == "stop"


async def test_the_session_that_is_named_is_meant_by_data_and_by_a_line(caller: Caller) -> None:
    beside = await dispatch(OPERATIONS["session.new"], {"show": False}, caller)
    assert isinstance(beside, Answer)
    named = beside.result.id
    data = {"prompt": "x", "session": named}
    job = await begin("ask", data, caller)
    assert job.id in (await caller.workspace.sessions.named(named)).jobs
    retry = OPERATIONS["retry"]
    with pytest.raises(NotFound, match="no question to ask again"):
        await dispatch_line(retry, retry.lines[0], "", caller)
    await job.result()
    again = await dispatch_line(retry, retry.lines[0], "", caller, named)
    assert isinstance(again, Job)
    with pytest.raises(NotFound, match="not open here"):
        await dispatch_line(retry, retry.lines[0], "", caller, "nosuch")


async def test_a_job_without_a_token_has_room_made_for_it(caller: Caller) -> None:
    assert isinstance(caller.face, RecordingFace)
    await begin("ask", {"prompt": "x", "partialResultToken": "t"}, caller)
    assert caller.face.rooms == []
    await begin("ask", {"prompt": "x"}, caller)
    await dispatch(OPERATIONS["status"], {}, caller)
    assert caller.face.rooms == ["ask"]


@pytest.mark.parametrize("face", ["cli", "lsp", "chat"])
def test_no_face_decides_by_the_kind_of_its_parameters_or_begins_work_itself(face: str) -> None:
    begins = {"aish_lsp.agent.turn.ask", "aish_lsp.agent.execution.run"}
    for path in (PACKAGE / face).rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                assert not names & begins, path
                assert "aish_lsp.agent.norris.run.pursue" not in names, path
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                subject, kind = map(ast.unparse, node.args)
                assert not (subject == "params" and kind.endswith("Params")), path
