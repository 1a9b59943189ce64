"""What is tried again, how often, how long, and what is not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.foundation.events import Level
from aish_lsp.models import retrying
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, Reasoning, Text
from aish_lsp.models.retrying import RETRIES, pause_before, stream_with_retries

BUSY = BackendUnavailable("It is busy. Ask again.", status=503, provider_message="busy")
REPLY: tuple[ModelEvent, ...] = (Text("All is well."), Finish("stop"))


class Scripted:
    """A model that does at each request what stands next in its script."""

    def __init__(self, *scripts: tuple[Any, ...]) -> None:
        self.scripts = list(scripts)
        self.closed = 0

    async def stream(self, _: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            for step in self.scripts.pop(0):
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    yield step
        finally:
            self.closed += 1


async def received(
    model: Scripted, told: list[tuple[Level, str]] | None = None, **preset: Any
) -> list[ModelEvent]:
    async def tell(level: Level, message: str) -> None:
        if told is not None:
            told.append((level, message))

    request = ModelRequest(Preset(name="mine", **preset), ())
    async with aclosing(stream_with_retries(model, request, tell)) as stream:
        return [event async for event in stream]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_FIRST_PAUSE", 0.01)


@pytest.mark.usefixtures("quick")
async def test_a_busy_server_is_asked_again_and_the_user_told() -> None:
    model, told = Scripted((BUSY,), (BUSY,), REPLY), list[tuple[Level, str]]()
    assert await received(model, told) == [*REPLY]
    assert told == [("info", "It is busy. Trying mine again.")] * 2
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


@pytest.mark.slow
async def test_the_last_try_begins_within_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "PATIENCE", 0.3)
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


async def test_a_reply_that_takes_too_long_is_cut_and_kept() -> None:
    model, told = Scripted((Text("All"), 60.0, *REPLY)), list[tuple[Level, str]]()
    assert await received(model, told, total_timeout=0.2) == [Text("All"), Finish("timeout")]
    [(level, message)] = told
    assert level == "warning"
    assert "0.2 s, its `total_timeout`" in message
    assert model.closed == 1


async def test_the_whole_is_bounded_before_the_first_token_too() -> None:
    with pytest.raises(
        BackendUnavailable, match=r"did not begin to reply within 0.* raise `total_timeout`"
    ):
        await received(Scripted((60.0,)), total_timeout=0.1)


async def test_who_listens_no_more_closes_the_stream() -> None:
    model = Scripted(REPLY)
    async with aclosing(stream_with_retries(model, ModelRequest(Preset(), ()))) as stream:
        async for _ in stream:
            break
    assert model.closed == 1


pieces = st.lists(st.builds(Text, st.sampled_from(["a", "b"])), max_size=3)
failures = st.sampled_from(
    [BUSY, unavailable(), unavailable(reason="refused"), BackendRejected("")]
)
tries = st.tuples(pieces, failures | st.none())


@given(st.lists(tries, min_size=RETRIES + 1, max_size=RETRIES + 1))
def test_what_is_yielded_is_one_reply_or_the_beginning_of_one(
    scripts: list[tuple[list[Text], Exception | None]],
) -> None:
    model = Scripted(*(tuple(said) + ((error,) if error else ()) for said, error in scripts))
    events: list[ModelEvent] = []

    async def receive() -> Exception | None:
        try:
            async with aclosing(stream_with_retries(model, ModelRequest(Preset(), ()))) as stream:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 - what came before an error counts
        except (BackendUnavailable, BackendRejected) as error:
            return error
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrying, "_FIRST_PAUSE", 0.0)
        raised = asyncio.run(receive())
    said, error = scripts[model.closed - 1]
    assert (events, raised) == (said, error)
    # What came before was nothing but a server that is busy.
    assert all(not said and error is not None for said, error in scripts[: model.closed - 1])
