from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish_lsp.agent.events import End, Notice, Output, Reasoning, Text
from aish_lsp.foundation import job as job_module
from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.events import Event
from aish_lsp.foundation.job import Emit, Job, Outcome, ending

T = TypeVar("T")

pieces = st.one_of(
    st.builds(Text, st.text(max_size=5)),
    st.builds(Reasoning, st.text(max_size=5)),
    st.builds(
        Output, st.sampled_from("ab"), st.sampled_from(["stdout", "stderr"]), st.text(max_size=5)
    ),
    st.builds(Notice, st.just("info"), st.text(max_size=5)),
)


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(job_module, "PENDING_LIMIT", 10)
    return 10


def emitting(*events: Event) -> Callable[[Emit], Awaitable[str]]:
    """Return a body that emits ``events`` as fast as it may."""

    async def body(emit: Emit) -> str:
        for event in events:
            await emit(event)
        return "done"

    return body


async def soon(work: Awaitable[T]) -> T:
    """Wait for what must not hang."""
    return await asyncio.wait_for(work, 10)


async def listened(job: Job[str]) -> list[Event]:
    return [event async for event in job.events()]


def split(events: list[Event]) -> list[Event]:
    """Return the events with each text in pieces of one character: joining does not show."""
    characters: list[Event] = []
    for event in events:
        match event:
            case Text(delta) | Reasoning(delta):
                characters += [type(event)(character) for character in delta]
            case Output(command, stream, delta):
                characters += [Output(command, stream, character) for character in delta]
            case _:
                characters.append(event)
    return characters


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


# --- events ---------------------------------------------------------------------------------------


async def test_events_and_result() -> None:
    job = Job("1", emitting(Text("a"), End("stop"))).start()
    assert not job.done
    assert await soon(listened(job)) == [Text("a"), End("stop")]
    assert await soon(job.result()) == "done"
    assert job.done


async def test_what_piled_up_comes_joined() -> None:
    job = Job(
        "1",
        emitting(
            Text("a"),
            Text("b"),
            Reasoning("c"),
            Reasoning("d"),
            Text("e"),
            Notice("info", "f"),
            Notice("info", "f"),
            Text("g"),
            Output("1", "stdout", "h"),
            Output("1", "stdout", "i"),
            Output("1", "stderr", "j"),
            Output("2", "stderr", "k"),
        ),
    ).start()
    await soon(job.result())
    assert await soon(listened(job)) == [
        Text("ab"),
        Reasoning("cd"),
        Text("e"),
        Notice("info", "f"),
        Notice("info", "f"),
        Text("g"),
        Output("1", "stdout", "hi"),
        Output("1", "stderr", "j"),
        Output("2", "stderr", "k"),
    ]


async def test_a_listener_that_keeps_up_gets_each_piece() -> None:
    async def body(emit: Emit) -> str:
        for delta in "abc":
            await emit(Text(delta))
            await asyncio.sleep(0.01)
        return "done"

    job = Job("1", body).start()
    assert await soon(listened(job)) == [Text("a"), Text("b"), Text("c")]


@settings(deadline=None)
@given(st.lists(st.tuples(pieces, st.booleans()), max_size=30), st.integers(0, 3))
@pytest.mark.slow
def test_nothing_is_lost_doubled_or_reordered(emitted: list[tuple[Event, bool]], pace: int) -> None:
    async def body(emit: Emit) -> str:
        for event, pause in emitted:
            await emit(event)
            if pause:
                await asyncio.sleep(0)
        return "done"

    async def run() -> list[Event]:
        received = []
        job = Job("1", body).start()
        async for event in job.events():
            received.append(event)
            for _ in range(pace):
                await asyncio.sleep(0)
        assert await job.result() == "done"
        return received

    received = asyncio.run(run())
    assert split(received) == split([event for event, _ in emitted])
    assert len(received) <= len(emitted)


async def test_a_listener_may_come_when_all_is_over() -> None:
    job = Job("1", emitting(Text("a"))).start()
    assert await soon(job.result()) == "done"
    assert await soon(listened(job)) == [Text("a")]


async def test_a_job_has_one_listener() -> None:
    job = Job("1", emitting(Text("a"))).start()
    assert await soon(listened(job)) == [Text("a")]
    with pytest.raises(AssertionError, match="one listener"):
        await soon(listened(job))


async def test_a_job_is_started_once_and_before_it_is_asked() -> None:
    job = Job("1", emitting())
    assert not job.done
    assert not job.cancel()
    with pytest.raises(AssertionError, match="not started"):
        await job.result()
    with pytest.raises(AssertionError, match="not started"):
        await listened(job)
    job.start()
    with pytest.raises(AssertionError, match="started before"):
        job.start()
    await soon(job.result())


async def test_the_end_is_told_to_who_asked() -> None:
    ended: list[bool] = []
    job = Job("1", emitting(Text("a")))
    job.start(lambda: ended.append(job.done))
    await soon(job.result())
    await settle()
    assert ended == [True]


# --- back-pressure --------------------------------------------------------------------------------


async def test_the_work_waits_for_a_slow_listener(small_limit: int) -> None:
    emitted = 0

    async def body(emit: Emit) -> str:
        nonlocal emitted
        for _ in range(100):
            emitted += 1
            await emit(Text("x"))
        return "done"

    job = Job("1", body).start()
    received = 0
    async for event in job.events():
        assert isinstance(event, Text)
        received += len(event.delta)
        await settle()
        assert emitted - received <= small_limit + 1
    assert received == 100


async def test_what_is_no_text_does_not_wait(small_limit: int) -> None:
    notices = [Notice("info", "x" * 99) for _ in range(5)]
    job = Job("1", emitting(*notices)).start()
    await settle()
    assert job.done
    assert await soon(listened(job)) == notices


async def test_the_limit_holds_until_a_listener_comes(small_limit: int) -> None:
    job = Job("1", emitting(*[Text("x" * small_limit)] * 5)).start()
    await settle()
    assert not job.done
    assert "".join(e.delta for e in await soon(listened(job)) if isinstance(e, Text)) == "x" * 50


@pytest.mark.usefixtures("small_limit")
async def test_who_waits_for_the_result_need_not_read() -> None:
    job = Job("1", emitting(*[Text("x" * 100)] * 5)).start()
    await settle()
    assert not job.done
    assert await soon(job.result()) == "done"
    assert await soon(listened(job)) == [Text("x" * 500)]


@pytest.mark.usefixtures("small_limit")
async def test_a_waiter_for_the_result_does_not_free_the_work_from_its_listener() -> None:
    job = Job("1", emitting(*[Text("x" * 100)] * 5)).start()
    waiter = asyncio.create_task(job.result())
    async with aclosing(job.events()) as events:
        await soon(anext(events))
        await settle()
        received = 1
        async for _ in events:
            received += 1
    assert received > 1
    assert await soon(waiter) == "done"


@pytest.mark.usefixtures("small_limit")
async def test_who_stops_listening_lets_the_work_go_on() -> None:
    job = Job("1", emitting(*[Text("x" * 100)] * 5)).start()
    await settle()
    assert not job.done
    job.stop_listening()
    await settle()
    assert job.done
    assert await soon(listened(job)) == []
    assert await soon(job.result()) == "done"


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("how", ["close", "cancel", "break"])
async def test_a_listener_that_leaves_lets_the_work_go_on(how: str) -> None:
    job = Job("1", emitting(*[Text("x" * 100)] * 5)).start()

    async def leave() -> None:
        async for _ in job.events():
            if how == "cancel":
                await asyncio.sleep(60)
            break

    if how == "close":
        async with aclosing(job.events()) as events:
            await soon(anext(events))
    else:
        listener = asyncio.create_task(leave())
        await settle()
        if how == "cancel":
            listener.cancel()
        await asyncio.wait([listener])
        del listener
    for _ in range(100):
        await asyncio.sleep(0)
    assert job.done
    assert await soon(job.result()) == "done"


async def test_stopping_while_the_listener_waits_ends_with_the_work() -> None:
    gate = asyncio.Event()

    async def body(emit: Emit) -> str:
        await gate.wait()
        await emit(Text("unheard"))
        return "done"

    job = Job("1", body).start()
    listener = asyncio.create_task(listened(job))
    await settle()
    job.stop_listening()
    gate.set()
    assert await soon(listener) == []


# --- cancel ---------------------------------------------------------------------------------------


def recording(recorded: list[str]) -> Callable[[Emit], Awaitable[str]]:
    """Return a body that waits for ever, and records slowly when it is cancelled."""

    async def body(emit: Emit) -> str:
        try:
            await emit(Text("partial"))
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            recorded.append("partial")
            await emit(End("cancelled"))
        return "cut off"

    return body


@pytest.mark.parametrize("steps", [0, 1, 5])
async def test_a_cancelled_job_records_and_returns_what_it_has(steps: int) -> None:
    recorded: list[str] = []
    job = Job("1", recording(recorded)).start()
    for _ in range(steps):
        await asyncio.sleep(0)
    assert job.cancel()
    assert await soon(listened(job)) == [Text("partial"), End("cancelled")]
    assert await soon(job.result()) == "cut off"
    assert recorded == ["partial"]


async def test_a_second_cancel_does_not_disturb_the_recording() -> None:
    written = asyncio.Event()

    async def body(_emit: Emit) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await written.wait()
        return "recorded"

    job = Job("1", body).start()
    await settle()
    assert job.cancel()
    await settle()
    assert job.cancel()
    await settle()
    assert not job.done
    written.set()
    assert await soon(job.result()) == "recorded"


async def test_a_cancel_after_the_end_says_so_and_does_nothing() -> None:
    job = Job("1", emitting(Text("a"))).start()
    await soon(job.result())
    assert not job.cancel()
    assert await job.result() == "done"


async def test_a_cancel_in_the_last_moment_loses_neither_result_nor_events() -> None:
    job = Job("1", emitting(Text("a"))).start()
    assert job.cancel()
    assert await soon(job.result()) == "done"
    assert await soon(listened(job)) == [Text("a")]


@pytest.mark.usefixtures("small_limit")
async def test_a_cancelled_job_waits_for_no_listener() -> None:
    recorded: list[str] = []

    async def body(emit: Emit) -> str:
        try:
            await emit(Text("x" * 100))
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await emit(Text("y" * 100))
            recorded.append("y")
        return "cut off"

    job = Job("1", body).start()
    await settle()
    assert job.cancel()
    await settle()
    assert job.done
    assert recorded == ["y"]
    assert await soon(listened(job)) == [Text("x" * 100 + "y" * 100)]


async def test_who_stops_waiting_does_not_stop_the_work() -> None:
    gate = asyncio.Event()

    async def body(emit: Emit) -> str:
        await gate.wait()
        return "done"

    job = Job("1", body).start()
    waiter = asyncio.create_task(job.result())
    await settle()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not job.done
    gate.set()
    assert await soon(job.result()) == "done"


async def test_the_listener_is_told_of_an_end_that_came_before_the_first_step() -> None:
    job = Job("7", emitting(Text("never"))).start()
    # As the loop does when it shuts down.
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "job 7")
    task.cancel()
    assert await soon(listened(job)) == []
    with pytest.raises(asyncio.CancelledError):
        await soon(job.result())


# --- errors ---------------------------------------------------------------------------------------


async def test_what_the_work_raises_comes_with_the_result_after_the_events() -> None:
    async def body(emit: Emit) -> str:
        await emit(Text("so far"))
        raise Denied("No.")

    job = Job("1", body).start()
    assert await soon(listened(job)) == [Text("so far")]
    for _ in range(2):
        with pytest.raises(Denied, match="No"):
            await soon(job.result())
    assert not job.cancel()


async def ended(work: Callable[[Emit], Awaitable[Outcome[str]]]) -> tuple[Job[str], list[Event]]:
    """Do ``work`` as a job that tells its end; return it with its events."""
    job = Job("1", ending(work)).start()
    return job, await soon(listened(job))


@pytest.mark.parametrize("error", [None, Denied("No.")])
async def test_how_work_ended_is_its_last_event(error: Denied | None) -> None:
    async def work(emit: Emit) -> Outcome[str]:
        await emit(Text("a"))
        return Outcome("done", "length", error)

    job, events = await ended(work)
    assert events == [Text("a"), End("length", error.to_wire() if error else None)]
    assert await job.result() == "done"


@pytest.mark.parametrize(("error", "told"), [(Denied("No."), "No."), (ValueError("x"), "itself")])
async def test_that_work_failed_is_told_too(error: Exception, told: str) -> None:
    async def work(emit: Emit) -> Outcome[str]:
        await emit(Text("a"))
        raise error

    job, events = await ended(work)
    [text, end] = events
    assert text == Text("a")
    assert isinstance(end, End)
    assert end.finish_reason == "error"
    assert told in (end.error or {})["message"]
    with pytest.raises(type(error)):
        await job.result()
