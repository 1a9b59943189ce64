"""What comes of a search for what is worth remembering, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path

import pytest

from aish_lsp.agent import Workspace
from aish_lsp.agent.events import End, Notice, Text, Usage
from aish_lsp.agent.extractor import Extracted, extract
from aish_lsp.agent.services import Services
from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import ask as begin_turn
from aish_lsp.config.loading import Configuration
from aish_lsp.context.messages import ExecOutput, Message
from aish_lsp.foundation.errors import AishError, BackendUnavailable
from aish_lsp.foundation.events import Event
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest

REPLY = "fact: first\nfact: second\nfact: thi"


class Scripted:
    """A model that says this, or raises it, a step of the loop between."""

    def __init__(self, *script: ModelEvent | Exception) -> None:
        self._script = script

    async def stream(self, _: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for part in self._script:
            await asyncio.sleep(0)
            if isinstance(part, Exception):
                raise part
            yield part


@pytest.fixture
async def workspace(own_files: Path) -> AsyncIterator[Workspace]:
    (own_files / "config.toml").write_text(
        '[models.mine]\nprovider = "openai"\nendpoint = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
        "context_window = 8192\nprice = {input = 1.0, output = 10.0}\n"
    )
    services = Services(environ={"AISH_DISCOVERY": "off"})
    root = own_files / "workspace"
    root.mkdir()
    opened = Workspace(root, services, Configuration(root, services.trust, services.environ))
    await opened.shown.recorder.question(
        Message("user", "We ship with make.", exec=(ExecOutput("cat x", 0, "the second"),))
    )
    yield opened
    await opened.aclose()
    await services.aclose()


def answer(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, *script: ModelEvent | Exception
) -> None:
    monkeypatch.setattr(workspace.shown, "open_model", lambda _: Scripted(*script))


async def search(workspace: Workspace) -> tuple[list[Event], Extracted | AishError]:
    """Search; return the events and what came of it."""
    job = extract(workspace.shown)
    events = [event async for event in job.events()]
    try:
        return events, await job.result()
    except AishError as error:
        return events, error


def contents(found: Extracted | AishError) -> list[str]:
    assert isinstance(found, Extracted)
    return [one.content for one in found.candidates]


def notices(events: Sequence[Event]) -> str:
    return " ".join(event.message for event in events if isinstance(event, Notice))


async def test_a_whole_reply_is_told_with_what_it_cost(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(workspace, monkeypatch, Text(REPLY), Usage(1000, 100), Finish("stop"))
    events, found = await search(workspace)
    assert contents(found) == ["first", "second", "thi"]
    assert events[-2:] == [Usage(1000, 100, cost=0.002), End("stop")]
    logged = (await workspace.sessions.history(workspace.shown.id)).records[-1]
    assert (logged["meta"], logged["usage"]["cost"]) == ("summarize", 0.002)


async def test_a_reply_that_is_cut_off_loses_the_half_line(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(workspace, monkeypatch, Text(REPLY), Finish("length"))
    events, found = await search(workspace)
    assert contents(found) == ["first", "second"]
    assert "max_output_tokens" in notices(events)
    assert events[-1] == End("length")
    # Of an estimate the cost is told too.
    [usage] = [event for event in events if isinstance(event, Usage)]
    assert usage.cost
    assert usage.output_tokens


@pytest.mark.parametrize("text", [REPLY, "fact: hal"])
async def test_a_reply_that_breaks_off(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    answer(workspace, monkeypatch, Text(text), BackendUnavailable("It broke off."))
    events, found = await search(workspace)
    end = events[-1]
    assert isinstance(end, End)
    assert (end.finish_reason, end.error) == (
        "error",
        BackendUnavailable("It broke off.").to_wire(),
    )
    assert any(isinstance(event, Usage) for event in events)
    if text == REPLY:
        assert contents(found) == ["first", "second"]
        assert "It broke off." in notices(events)
    else:
        assert isinstance(found, BackendUnavailable)


async def test_a_fault_of_ours_ends_it_too(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(workspace, monkeypatch, RuntimeError("a bug"))
    events, found = await search(workspace)
    assert isinstance(found, AishError)
    assert "aish itself failed (RuntimeError)" in found.message
    assert isinstance(events[-1], End)
    assert not workspace.shown.turn_lock.locked()


@pytest.mark.slow
async def test_stopped_at_any_moment_it_ends_with_an_end(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(
        workspace, monkeypatch, Text("fact: first\n"), Text(REPLY), Usage(1000, 100), Finish("stop")
    )
    reasons = set()
    for steps in range(0, 120, 4):
        job = extract(workspace.shown)
        listening = asyncio.create_task(listen(job.events()))
        for _ in range(steps):
            # Threads, which read and write files, get some time as well.
            await asyncio.sleep(0.0005)
        job.cancel()
        found = await asyncio.wait_for(job.result(), 20)
        events = await asyncio.wait_for(listening, 20)
        ends = [event for event in events if isinstance(event, End)]
        assert events[-1:] == ends
        reasons.add(ends[0].finish_reason)
        if any(isinstance(event, Text) for event in events):
            assert "first" in contents(found)
            assert any(isinstance(event, Usage) for event in events)
        assert not workspace.shown.turn_lock.locked()
    assert "cancelled" in reasons
    await asyncio.sleep(0)
    assert len(workspace.shown.jobs) == 0


async def listen(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


async def test_what_is_wrong_with_the_files_is_told(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(workspace, monkeypatch, Text("none"), Finish("stop"))
    with workspace.shown.recorder.session_path.open("a") as log:
        log.write("no JSON\n")
    workspace.memory.store("workspace").path.write_text('{"id": 1, "ts"')
    events, found = await search(workspace)
    assert contents(found) == []
    told = notices(events)
    assert "It is skipped." in told
    assert "put aside" in told
    assert "nothing that is worth remembering" in told


async def test_what_a_model_repeats_of_an_output_is_not_what_the_user_said(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = ExecOutput("cat README", 0, "The release key is on build-7.")
    await workspace.shown.recorder.question(
        Message("user", "So? I say: the tests take a minute.", exec=(output,))
    )
    reply = "It says: the release key is on build-7."
    monkeypatch.setattr(
        workspace.shown, "open_model", lambda _: Scripted(Text(reply), Finish("stop"))
    )
    await workspace.shown.use_model("mine")
    await begin_turn(workspace.shown, Ask("What does it say?")).result()
    found = "fact: the release key is on build-7\nfact: the tests take a minute"
    answer(workspace, monkeypatch, Text(found), Finish("stop"))
    _, extracted = await search(workspace)
    assert isinstance(extracted, Extracted)
    first, second = extracted.candidates
    assert "output of a command" in first.flags[0]
    assert second.flags == ()


async def test_a_cancel_at_the_very_end_comes_too_late(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(workspace, monkeypatch, Text(REPLY), Finish("stop"))

    async def refresh() -> list[str]:
        job.cancel()
        await asyncio.sleep(0.01)
        return []

    monkeypatch.setattr(workspace, "refresh_memory", refresh)
    job = extract(workspace.shown)
    events = await listen(job.events())
    assert contents(await job.result()) == ["first", "second", "thi"]
    assert events[-1] == End("stop")
