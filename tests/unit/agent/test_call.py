"""What is tried again, how often, how long, and what is not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.agent import call as calls
from aish_lsp.agent import remedies
from aish_lsp.agent.call import Fitting, ModelCall, Received
from aish_lsp.agent.events import Notice
from aish_lsp.agent.remedies import RETRIES, pause_before
from aish_lsp.agent.session import Session
from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable
from aish_lsp.foundation.events import Event, Usage
from aish_lsp.foundation.job import Emit
from aish_lsp.models.repetition import MOST
from aish_lsp.models.request import (
    Finish,
    Model,
    ModelEvent,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
    WithoutPart,
    tool_named,
)

BUSY = BackendUnavailable("It is busy. Ask again.", status=503, provider_message="busy")
REPLY: tuple[ModelEvent, ...] = (Text("All is well."), Finish("stop"))


class Scripted:
    """A model that does at each request what stands next in its script."""

    def __init__(self, *scripts: tuple[Any, ...]) -> None:
        self.scripts = list(scripts)
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            for step in self.scripts.pop(0):
                if isinstance(step, Exception):
                    raise step
                if step == "a call begins":
                    request.tell_begun()
                    continue
                if isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    yield step
        finally:
            self.closed += 1


class Fixed(Fitting):
    """Makes the same request each time, for a model that needs no session."""

    def __init__(self, model: Model, emit: Emit, *, guarded: bool = False) -> None:
        models = SimpleNamespace(is_guarded=lambda _: guarded)
        session = SimpleNamespace(open_model=lambda _: model, models=models)
        super().__init__(cast("Session", session), "main", emit)

    async def fit(self, preset: Preset) -> ModelRequest:
        self.tokens = 0
        return ModelRequest(preset, ())

    async def fit_less(self, error: AishError) -> ModelRequest:
        raise error

    def size(self, _: Received) -> int:
        return 0


@asynccontextmanager
async def replying(
    model: Model, told: list[Event] | None = None, *, guarded: bool = False, **preset: Any
) -> AsyncIterator[AsyncGenerator[ModelEvent, None]]:
    """Give the reply of ``model`` as a call passes it on."""

    async def emit(event: Event) -> None:
        if told is not None:
            told.append(event)

    call = ModelCall(Fixed(model, emit, guarded=guarded), Preset(name="mine", **preset))
    await call.fit()
    async with aclosing(call.reply()) as stream:
        yield stream


async def received(
    model: Scripted, told: list[Event] | None = None, **preset: Any
) -> list[ModelEvent]:
    async with replying(model, told, **preset) as stream:
        return [event async for event in stream]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "_FIRST_PAUSE", 0.01)


@pytest.mark.usefixtures("quick")
async def test_a_busy_server_is_asked_again_and_the_user_told() -> None:
    model, told = Scripted((BUSY,), (BUSY,), REPLY), list[Event]()
    assert await received(model, told) == [*REPLY]
    assert told == [Notice("info", "It is busy. Trying mine again.")] * 2
    assert model.closed == 3


@pytest.mark.usefixtures("quick")
async def test_tries_have_an_end() -> None:
    model = Scripted(*[(BUSY,)] * 9)
    with pytest.raises(BackendUnavailable, match="busy"):
        await received(model)
    assert model.closed == RETRIES + 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("first", [Text("All"), Reasoning("Hm")])
async def test_nothing_is_sent_again_once_the_reply_has_begun(first: ModelEvent) -> None:
    model = Scripted((first, BUSY), REPLY)
    with pytest.raises(BackendUnavailable, match="busy"):
        await received(model)
    assert model.closed == 1


async def test_a_refusal_is_not_tried_again() -> None:
    model = Scripted((BackendRejected("no", status=401),), REPLY)
    with pytest.raises(BackendRejected):
        await received(model)
    assert model.closed == 1


@pytest.mark.parametrize("reported", [Usage(30, 4), None])
async def test_an_attempt_without_a_reply_is_charged_by_itself(
    monkeypatch: pytest.MonkeyPatch, reported: Usage | None
) -> None:
    """Its server may have told what the prompt costs, and then nothing more."""
    charged: list[tuple[Usage | None, bool]] = []

    class Told(Scripted):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            if len(self.scripts) == 2:
                request.tell_cut(Usage(20, 1))
            async with aclosing(super().stream(request)) as events:
                async for event in events:
                    yield event

    async def record(_: ModelCall) -> None:
        pass

    def account(call: ModelCall) -> Usage:
        charged.append((call.received.usage, call.received.is_cut))
        return Usage(0, 0)

    monkeypatch.setattr(remedies, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(ModelCall, "account", account)
    monkeypatch.setattr(ModelCall, "record_usage", record)
    last = () if reported is None else (reported,)
    model = Told((BUSY,), (REPLY[0], *last, REPLY[1]))

    async def emit(_: Event) -> None:
        pass

    call = ModelCall(Fixed(model, emit), Preset(name="mine"))
    await call.fit()
    assert [event async for event in call.reply()] == [REPLY[0], *last, REPLY[1]]
    assert charged == [(Usage(20, 1), True)]
    assert (call.received.usage, call.received.is_cut) == (reported, False)


@pytest.mark.slow
async def test_the_last_try_begins_within_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PATIENCE", 0.3)
    model = Scripted((0.5, BUSY), REPLY)
    with pytest.raises(BackendUnavailable, match="busy"):
        await received(model)
    assert model.closed == 1


def unavailable(**data: Any) -> BackendUnavailable:
    return BackendUnavailable("no", **data)


@pytest.mark.parametrize(
    ("data", "retries"),
    [
        ({"status": 429, "provider_message": "slow down"}, 2),
        ({"status": 500, "provider_message": "oops"}, 2),
        ({"status": 529, "provider_message": "overloaded", "type": "overloaded_error"}, 2),
        # In a stream that began with 200.
        ({"provider_message": "overloaded", "type": "overloaded_error"}, 2),
        ({"reason": "broken"}, 2),
        ({"reason": "refused"}, 1),
        ({"reason": "timeout"}, 0),
        ({"status": 200}, 0),
        ({}, 0),
        ({"status": 501, "provider_message": "not implemented"}, 0),
        ({"status": 429, "provider_message": "pay", "code": "insufficient_quota"}, 0),
        ({"status": 500, "provider_message": "x", "type": "exceed_context_size_error"}, 0),
    ],
)
def test_how_often(data: dict[str, Any], retries: int) -> None:
    pauses = [pause_before(unavailable(**data), attempt) for attempt in range(4)]
    assert [pause is not None for pause in pauses] == [at < retries for at in range(4)]


def test_pauses_grow_and_are_never_the_same() -> None:
    firsts = {pause_before(BUSY, 0) for _ in range(50)}
    assert len(firsts) > 10
    assert all(pause is not None and 0.5 <= pause <= 1 for pause in firsts)
    second = pause_before(BUSY, 1)
    assert second is not None
    assert 1 <= second <= 2


@pytest.mark.parametrize("seconds", [0.0, 7.0, 86400.0])
def test_the_server_says_how_long(seconds: float) -> None:
    error = unavailable(status=429, provider_message="x", retry_after=seconds)
    pause = pause_before(error, 0)
    assert pause is not None
    assert max(seconds, 0.5) <= pause <= max(seconds + 0.25, 1)


async def test_a_server_that_asks_for_more_than_the_patience_is_left_at_once() -> None:
    model = Scripted((unavailable(status=429, provider_message="x", retry_after=100.0),), REPLY)
    async with asyncio.timeout(5):
        with pytest.raises(BackendUnavailable):
            await received(model)


async def test_a_cancel_during_the_pause_works_at_once() -> None:
    model = Scripted((unavailable(status=429, provider_message="x", retry_after=15.0),), REPLY)
    task = asyncio.create_task(received(model))
    await asyncio.sleep(0.05)
    task.cancel()
    async with asyncio.timeout(2):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert model.closed == 1


async def test_a_reply_that_does_not_begin_is_given_up() -> None:
    model = Scripted((60.0, *REPLY))
    message = r"mine did not begin to reply within 0\.3 s"
    with pytest.raises(BackendUnavailable, match=message) as caught:
        await received(model, timeout=0.1)
    assert caught.value.data == {"reason": "timeout"}
    assert model.closed == 1


@pytest.mark.slow
async def test_a_reply_that_has_begun_may_be_silent_for_longer() -> None:
    model = Scripted((Text("All"), 0.5, Text(" is well."), Finish("stop")))
    assert len(await received(model, timeout=0.1)) == 3


@pytest.mark.slow
async def test_a_call_that_has_begun_may_take_longer_until_it_is_whole() -> None:
    call = ToolCall("1", "write_file", "{}")
    model = Scripted(("a call begins", 0.6, call, Finish("tool")))
    assert await received(model, timeout=0.1) == [call, Finish("tool")]
    model = Scripted(("a call begins", 60.0))
    with pytest.raises(BackendUnavailable, match="raise `total_timeout`"):
        await received(model, timeout=0.1, total_timeout=0.6)


async def test_a_reply_that_takes_too_long_is_cut_and_kept() -> None:
    model, told = Scripted((Text("All"), 60.0, *REPLY)), list[Event]()
    assert await received(model, told, total_timeout=0.2) == [Text("All"), Finish("timeout")]
    [notice] = told
    assert isinstance(notice, Notice)
    assert notice.level == "warning"
    assert "0.2 s, its `total_timeout`" in notice.message
    assert model.closed == 1


async def test_the_whole_is_bounded_before_the_first_token_too() -> None:
    with pytest.raises(
        BackendUnavailable, match=r"did not begin to reply within 0.* raise `total_timeout`"
    ):
        await received(Scripted((60.0,)), total_timeout=0.1)


async def test_who_listens_no_more_closes_the_stream() -> None:
    model = Scripted(REPLY)
    async with replying(model) as stream:
        async for _ in stream:
            break
    assert model.closed == 1


pieces = st.lists(st.builds(Text, st.sampled_from(["a", "b"])), max_size=3)
failures = st.sampled_from(
    [BUSY, unavailable(), unavailable(reason="refused"), BackendRejected("")]
)
# What is empty is asked for once more.
tries = st.tuples(pieces, failures | st.none()).filter(any)


@given(st.lists(tries, min_size=RETRIES + 1, max_size=RETRIES + 1))
def test_what_is_yielded_is_one_reply_or_the_beginning_of_one(
    scripts: list[tuple[list[Text], Exception | None]],
) -> None:
    model = Scripted(*(tuple(said) + ((error,) if error else ()) for said, error in scripts))
    events: list[ModelEvent] = []

    async def receive() -> Exception | None:
        try:
            async with replying(model) as stream:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 - what came before an error counts
        except (BackendUnavailable, BackendRejected) as error:
            return error
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remedies, "_FIRST_PAUSE", 0.0)
        raised = asyncio.run(receive())
    said, error = scripts[model.closed - 1]
    assert (events, raised) == (said, error)
    # What came before was nothing but a server that is busy.
    assert all(not said and error is not None for said, error in scripts[: model.closed - 1])


PHRASE = "To run the tests, you can run the tests in the tests folder, and then "


async def guarded(*events: ModelEvent) -> tuple[list[ModelEvent], list[str]]:
    """Return what is left of a guarded reply, and what became of its stream."""
    became: list[str] = []

    class Recorded(Scripted):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            async with aclosing(super().stream(request)) as stream:
                async for event in stream:
                    yield event
                became.append("read to its end")

    model = Recorded(events)
    left: list[ModelEvent] = []
    async with replying(model, guarded=True) as stream:
        async for event in stream:
            if event == Finish("repetition"):
                became.append("told when closed" if model.closed else "told")
            left.append(event)
    return left, became


@pytest.mark.parametrize("kind", [Text, Reasoning])
async def test_a_repetitive_reply_is_cut_and_closed_before_its_end_is_told(
    kind: type[Text | Reasoning],
) -> None:
    said = [kind(PHRASE * 4) for _ in range(10)]
    left, became = await guarded(Text("So. "), *said, Usage(1, 1), Finish("stop"))
    assert became == ["told when closed"]
    *kept, end = left
    assert end == Finish("repetition")
    text = "".join(event.delta for event in kept if isinstance(event, kind))
    assert text.removeprefix("So. ") == (PHRASE * 40)[: len(text.removeprefix("So. "))]
    assert (MOST - 1) * len(PHRASE) < len(text) < (MOST + 1) * len(PHRASE)


async def test_any_other_reply_passes_the_guard_as_it_is() -> None:
    said = (Text("Well, "), Reasoning(PHRASE * 6), Text(PHRASE * 6), Usage(1, 1), Finish("stop"))
    assert await guarded(*said) == ([*said], ["read to its end"])


async def test_a_refused_part_is_left_out_once_and_a_refusal_of_everything_is_told() -> None:
    model, told = Scripted((WithoutPart("no"),), REPLY), list[Event]()
    assert await received(model, told) == [*REPLY]
    assert (model.closed, told) == (2, [])
    model = Scripted(*[(WithoutPart("no"),)] * 60)
    with pytest.raises(BackendRejected, match="no"):
        await received(model)
    assert 1 < model.closed < 60


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("read_file", "read_file"),
        (" read_file\n", "read_file"),
        ("functions.read_file", "read_file"),
        ("default_api:read_file", "read_file"),
        ("read_file<|channel|>commentary", "read_file"),
        ("Read_File", "read_file"),
        ("functions.read_file:0", "read_file"),
        ("to=functions.read_file", "read_file"),
        ("functions/functions.read_file", "read_file"),
        ("readFile", "read_file"),
        ("read-file()", "read_file"),
        ('"read_file"', "read_file"),
        ("s.read_file", "s.read_file"),
        ("functions.other", "functions.other"),
        ("look", "look"),
    ],
)
def test_a_name_is_the_tool_that_alone_matches(name: str, meant: str) -> None:
    assert tool_named(name, ["read_file", "Look", "look"]) == meant
    assert tool_named("LOOK", ["Look", "look"]) == "LOOK"


async def test_an_empty_reply_is_asked_for_once_more() -> None:
    model, told = Scripted((Finish("stop"),), REPLY), list[Event]()
    assert await received(model, told) == [Finish("stop"), *REPLY]
    assert told == [Notice("info", "The answer from mine is empty. Trying again.")]
    model = Scripted((Finish("stop", "OTHER"),), (Finish("stop", "OTHER"),), REPLY)
    assert await received(model) == [Finish("stop")] * 2
    assert model.closed == 2
    model = Scripted((Finish("tool", "tool_calls"),), REPLY)
    assert await received(model) == [Finish("tool"), *REPLY]
    # Nothing would be different.
    model = Scripted((Finish("length"),), REPLY)
    assert await received(model) == [Finish("length")]
