"""The recorder: in order, off the event loop, and whole whoever stops waiting."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.config.schema import Preset
from aish_lsp.context.messages import Message
from aish_lsp.foundation.events import Usage
from aish_lsp.foundation.locks import locked
from aish_lsp.sessions.recorder import Recorder, read_usage


def lines(folder: Path) -> list[dict[str, Any]]:
    (log,) = (folder / "sessions").iterdir()
    return [json.loads(line) for line in log.read_text().splitlines()[1:]]


def usage(recorder: Recorder) -> asyncio.Task[None]:
    call = Usage(10, 20)
    return asyncio.create_task(
        recorder.usage(
            Preset(name="m", provider="openai"), "main", call, local=False, estimated=False
        )
    )


async def test_lines_come_in_the_order_of_their_calls(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, None, str)
    numbers = await asyncio.gather(
        *(recorder.tool_result(str(number), "x" * (50_000 >> number)) for number in range(20))
    )
    await recorder.aclose()
    assert numbers == list(range(1, 21))
    assert [line["tool_call_id"] for line in lines(tmp_path)] == [str(n) for n in range(20)]


async def test_a_lock_that_is_held_elsewhere_holds_only_usage_up(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, None, str)
    path = tmp_path / "usage.jsonl"
    release, held = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(path):
            held.set()
            release.wait(20)

    holder = asyncio.create_task(asyncio.to_thread(hold))
    await asyncio.to_thread(held.wait, 20)
    writing = usage(recorder)
    # The loop turns meanwhile, and the log goes on.
    assert await recorder.question(Message("user", "Well?")) == 1
    assert not writing.done()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    closing = asyncio.create_task(recorder.aclose())
    await asyncio.sleep(0.05)
    assert not closing.done(), "it waits for what is being written"
    assert read_usage(path) == []
    release.set()
    await holder
    await closing
    assert [call.output for call in read_usage(path)] == [20]
    assert recorder.drain_warnings() == []


async def test_costs_are_reset_behind_the_calls_before(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, None, str)
    await asyncio.gather(*(usage(recorder) for _ in range(3)), recorder.costs_reset())
    await recorder.aclose()
    [line] = lines(tmp_path)
    assert (line["event"], line["calls"]) == ("costsReset", 3)


async def test_a_closed_recorder_keeps_no_threads_and_still_writes(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    recorder = Recorder(tmp_path, None, str)
    await recorder.question(Message("user", "Well?"))
    await usage(recorder)
    threads = set(threading.enumerate()) - before
    assert {thread.name.rpartition("_")[0] for thread in threads} == {"session log", "usage"}
    await recorder.aclose()
    for thread in threads:
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
    assert await recorder.tool_result("late", "x") == 2
    await recorder.aclose()


async def test_what_could_not_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("no folder")
    recorder = Recorder(tmp_path, None, str)
    assert await recorder.question(Message("user", "Well?")) == 0
    await recorder.model("m")
    (trouble,) = recorder.drain_warnings()
    assert "not being saved" in trouble
    await recorder.aclose()
