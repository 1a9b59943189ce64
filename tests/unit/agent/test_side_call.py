"""A call to a model: what it takes, whatever the server reports, and once more with less."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import CodeType

import httpx
import pytest
from rooms import PACKAGE

from aish_lsp.agent import Workspace
from aish_lsp.agent.call import ModelCall
from aish_lsp.agent.events import Notice
from aish_lsp.agent.fitting import ConversationFitting
from aish_lsp.agent.services import Services
from aish_lsp.agent.session import Ask, Session
from aish_lsp.agent.side_call import SideCall, SideFitting, unchanged
from aish_lsp.agent.turn import ask
from aish_lsp.config.loading import Configuration
from aish_lsp.config.schema import Preset
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.summary import Fits
from aish_lsp.context.usage import Category
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable, CostCap
from aish_lsp.foundation.events import Event, Usage
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    Reasoning,
    RequestMessage,
    Text,
    ToolCall,
)

CONFIG = """
[models.mine]
endpoint = "http://127.0.0.1:9"
model = "m"
context_window = 8192
price = {input = 1.0, output = 10.0}
"""
ASKED = (RequestMessage("system", "Be short."), RequestMessage("user", "Well?"))
REPLY = (Reasoning("Hm."), Text("Yes"), Text("."), Usage(50, 4), Finish("stop"))


class Script:
    """A model that says each of its replies in turn; an error among the events is raised."""

    def __init__(self, *replies: tuple[ModelEvent | Exception, ...]) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        for event in self.replies.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


@pytest.fixture
async def session(own_files: Path) -> AsyncIterator[Session]:
    (own_files / "config.toml").write_text(CONFIG)
    services = Services(environ={"AISH_DISCOVERY": "off"})
    folder = own_files / "workspace"
    folder.mkdir()
    workspace = Workspace(folder, services, Configuration(folder, services.trust, services.environ))
    yield workspace.shown
    await workspace.aclose()
    await services.aclose()


def scripted(
    session: Session, monkeypatch: pytest.MonkeyPatch, *replies: tuple[ModelEvent | Exception, ...]
) -> Script:
    script = Script(*replies)
    monkeypatch.setattr(session, "open_model", lambda _: script)
    return script


def preset(session: Session) -> Preset:
    return session.workspace.config.models["mine"]


async def received(call: ModelCall) -> list[ModelEvent]:
    await call.fit()
    async with aclosing(call.reply()) as events:
        return [event async for event in events]


def side_call(session: Session, category: Category = "main") -> ModelCall:
    return ModelCall(SideFitting(session, category, unchanged(ASKED)), preset(session))


async def test_a_reply_is_kept_as_it_is_passed_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = ToolCall("c1", "look", '{"at": 1}')
    scripted(session, monkeypatch, (*REPLY[:3], called, *REPLY[3:]))
    call = side_call(session)
    assert not call.answered
    assert await received(call) == [
        *REPLY[:3],
        called,
        *REPLY[3:],
    ]
    assert call.answered
    assert call.received.said() == ("Yes.", "Hm.", "look", '{"at": 1}')
    assert (call.received.usage, call.received.finish) == (Usage(50, 4), "stop")


async def test_what_it_took_is_counted_with_its_cost_and_written_down(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(session, monkeypatch, REPLY)
    call = side_call(session, "memory")
    await received(call)
    usage = call.account()
    assert (usage.input_tokens, usage.output_tokens) == (50, 4)
    assert usage.cost == pytest.approx((50 * 1 + 4 * 10) / 1e6)
    await call.record_usage()
    [record] = session.recorder.usage_of_all_sessions()
    assert (record.category, record.input, record.output, record.estimated) == (
        *("memory", 50, 4),
        False,
    )


async def test_what_the_server_does_not_report_is_estimated(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(session, monkeypatch, (Text("word " * 100), Finish("stop")))
    call = side_call(session)
    await received(call)
    usage = call.account()
    assert 5 <= usage.input_tokens <= 50
    assert 80 <= usage.output_tokens <= 150
    await call.record_usage()
    [record] = session.recorder.usage_of_all_sessions()
    assert record.estimated


async def test_a_piece_of_a_reply_passes_few_frames(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames are read where a piece comes in, and where it goes out: of a turn, and a job."""
    passed: dict[CodeType, None] = {}

    def note_frames() -> None:
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                passed[frame.f_code] = None

    async def body() -> AsyncIterator[bytes]:
        # What kind of body it is shows once, before the first piece.
        yield b": it begins\n\n"
        for text, reason in (("All is well.", None), ("", "stop")):
            note_frames()
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
            yield f"data: {json.dumps({'choices': [choice]})}\n\n".encode()
            await asyncio.sleep(0)
        yield b"data: [DONE]\n\n"

    @asynccontextmanager
    async def respond(*_: object) -> AsyncIterator[httpx.Response]:
        kind = {"content-type": "text/event-stream"}
        request = httpx.Request("POST", "http://127.0.0.1:9")
        yield httpx.Response(200, headers=kind, content=body(), request=request)

    monkeypatch.setattr(session.workspace.services.http, "_respond", respond)
    job = ask(session, Ask("Well?"))
    changed = job._changed.wait

    async def waiting() -> bool:
        note_frames()
        return await changed()

    monkeypatch.setattr(job._changed, "wait", waiting)
    assert Text("All is well.") in [event async for event in job.events()]
    generators = [code for code in passed if code.co_flags & inspect.CO_ASYNC_GENERATOR]
    names = [code.co_qualname for code in passed]
    assert len(generators) <= 4, names
    assert len(names) <= 14, names
    assert {"ModelCall.reply", "Job.events"} <= set(names)


async def test_of_a_call_that_nothing_came_of_nobody_knows_what_it_took(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(session, monkeypatch, (BackendRejected("No."),))
    call = side_call(session)
    with pytest.raises(BackendRejected):
        await received(call)
    assert not call.answered


def too_long() -> BackendRejected:
    return BackendRejected(
        "too long",
        provider_message=(
            "This model's maximum context length is 4096 tokens. However, your messages resulted"
            " in 9000 tokens."
        ),
        code="context_length_exceeded",
        status=400,
    )


async def test_a_question_beside_is_asked_again_with_less(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripted(session, monkeypatch, (too_long(),), REPLY)
    offered: list[int] = []

    def compose(fits: Fits) -> tuple[RequestMessage, ...] | None:
        words = 6000
        while not fits(made := (ASKED[0], RequestMessage("user", "word " * words))):
            words = words * 9 // 10
        offered.append(words)
        return made

    call = SideCall(session, preset(session), "summary", compose)
    assert await call.complete()
    assert (call.text, call.received.finish) == ("Yes.", "stop")
    assert len(script.requests) == 2
    assert offered[-1] < offered[0]


async def test_a_question_beside_that_never_fits_is_not_asked(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripted(session, monkeypatch)
    assert not await SideCall(session, preset(session), "summary", lambda _: None).complete()
    assert script.requests == []


async def test_a_reply_that_broke_off_is_paid_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(session, monkeypatch, (Text("Ye"), BackendUnavailable("gone")))
    told: list[object] = []

    async def hear(event: object) -> None:
        told.append(event)

    call = SideCall(session, preset(session), "memory", lambda _: ASKED)
    with pytest.raises(BackendUnavailable):
        await call.complete(hear)
    assert call.text == "Ye"
    assert told[0] == Text("Ye")
    assert isinstance(told[1], Usage)
    assert session.meter.usage.models["mine"]["memory"].calls == 1


async def test_what_would_cross_the_cap_is_not_sent(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(f"{CONFIG}[cost]\ncap_at_dollars = 0.000001\n")
    await session.workspace.reload()
    script = scripted(session, monkeypatch)
    with pytest.raises(CostCap):
        await SideCall(session, preset(session), "summary", lambda _: ASKED).complete()
    assert script.requests == []


async def test_a_round_that_its_server_finds_too_long_is_sent_once_more_with_less(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripted(session, monkeypatch, (too_long(),), REPLY)
    told: list[Event] = []

    async def emit(event: Event) -> None:
        told.append(event)

    conversation = Conversation()
    for number in range(6):
        conversation.append_user(f"question {number} " + "word " * 300)
        conversation.append_assistant("answer " + "word " * 300)
    conversation.append_user("Well?")
    fitting = ConversationFitting(session, conversation, emit)
    call = ModelCall(fitting, preset(session))
    await call.fit()
    async with aclosing(call.reply()) as events:
        assert [event async for event in events] == list(REPLY)
    first, second = script.requests
    assert len(second.messages) < len(first.messages)
    assert second.messages[-1].content == "Well?"
    assert fitting.evicted == len(first.messages) - len(second.messages)
    notices = [event.message for event in told if isinstance(event, Notice)]
    assert "The question is too long for mine. It is sent again with less." in notices
