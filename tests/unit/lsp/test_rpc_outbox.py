from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from aish_lsp.lsp import messages as module
from aish_lsp.lsp.messages import BATCH, HARD_LIMIT, HIGH_WATER, Outbox


def make(
    wake: Callable[[], None] = lambda: None,
    overflow: Callable[[], None] = lambda: None,
) -> Outbox:
    loop = asyncio.get_running_loop()
    return Outbox(loop, wake=wake, overflow=overflow)


def send_one_batch(box: Outbox) -> bytes:
    data = b"".join(box.take())
    box.sent(len(data))
    return data


async def test_what_is_put_is_taken_in_order_and_in_batches() -> None:
    box = make()
    parts = [b"%06d" % number * 1_000 for number in range(200)]
    for part in parts:
        box.write(part)
    taken = b""
    while batch := send_one_batch(box):
        assert len(batch) <= BATCH
        taken += batch
    assert taken == b"".join(parts)
    assert box.queued == 0


async def test_a_part_larger_than_a_batch_is_taken_alone() -> None:
    box = make()
    box.write(b"a")
    box.write(b"b" * (BATCH + 1))
    box.write(b"c")
    assert [len(b"".join(box.take())) for _ in range(4)] == [1, BATCH + 1, 1, 0]


async def test_drained_waits_only_while_much_is_queued() -> None:
    box = make()
    box.write(bytes(HIGH_WATER))
    await asyncio.wait_for(box.drained(), 5)
    box.write(b"x")
    waiting = asyncio.create_task(box.drained())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    # Taken is not sent.
    taken = box.take()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    box.sent(len(b"".join(taken)))
    await asyncio.wait_for(waiting, 5)
    assert not box._waiting


async def test_a_sender_in_a_thread_wakes_who_waits() -> None:
    ready = threading.Event()
    box = make(wake=ready.set)

    def send() -> None:
        while not box.closed:
            ready.wait()
            ready.clear()
            while send_one_batch(box):
                pass

    thread = threading.Thread(target=send)
    thread.start()
    for _ in range(200):
        box.write(bytes(100_000))
        await asyncio.wait_for(box.drained(), 10)
        assert box.queued <= HIGH_WATER
    await asyncio.wait_for(box.drained(0), 10)
    assert box.queued == 0
    box.close()
    thread.join(10)
    assert not thread.is_alive()


async def test_closing_drops_what_waits_and_lets_everybody_go() -> None:
    box = make()
    box.write(bytes(HIGH_WATER + 1))
    waiting = asyncio.create_task(box.drained())
    await asyncio.sleep(0)
    box.close()
    await asyncio.wait_for(waiting, 5)
    box.write(b"more")
    assert box.take() == []
    assert box.queued == 0


async def test_beyond_the_hard_limit_the_client_counts_as_gone_once() -> None:
    overflows: list[int] = []
    box = make(overflow=lambda: overflows.append(1))
    box.write(bytes(HARD_LIMIT))
    box.write(b"one message may be as large as it likes")
    assert not overflows
    box.write(b"x")
    box.write(b"x")
    assert overflows == [1]
    assert box.closed
    assert box.queued == 0


async def test_a_cancelled_waiter_is_forgotten() -> None:
    box = make()
    box.write(bytes(module.HIGH_WATER + 1))
    waiting = asyncio.create_task(box.drained())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not box._waiting
