from __future__ import annotations

import asyncio
from collections.abc import Callable

from aish_lsp.lsp import messages as module
from aish_lsp.lsp.messages import BATCH, HARD_LIMIT, HIGH_WATER, Outbox


class Sink:
    """What is sent; only while ``ready`` is set, and with no success once ``is_gone``."""

    def __init__(self, overflow: Callable[[], None] = lambda: None) -> None:
        self.batches: list[bytes] = []
        self.ready = asyncio.Event()
        self.is_gone = False
        self.box = Outbox(self._send, overflow=overflow)

    async def _send(self, bodies: list[bytes]) -> bool:
        await self.ready.wait()
        self.batches.append(b"".join(bodies))
        return not self.is_gone


async def test_what_is_put_is_sent_in_order_and_in_batches() -> None:
    sink = Sink()
    sink.ready.set()
    parts = [b"%06d" % number * 1_000 for number in range(200)]
    for part in parts:
        sink.box.write(part)
    await asyncio.wait_for(sink.box.drained(0), 5)
    assert all(len(batch) <= BATCH for batch in sink.batches)
    assert 1 < len(sink.batches) < len(parts)
    assert b"".join(sink.batches) == b"".join(parts)


async def test_a_part_larger_than_a_batch_is_sent_alone() -> None:
    sink = Sink()
    sink.ready.set()
    for part in (b"a", b"b" * (BATCH + 1), b"c"):
        sink.box.write(part)
    await asyncio.wait_for(sink.box.drained(0), 5)
    assert [len(batch) for batch in sink.batches] == [1, BATCH + 1, 1]


async def test_what_is_put_while_a_batch_is_sent_follows_it() -> None:
    sink = Sink()
    sink.box.write(b"first")
    await asyncio.sleep(0)
    sink.box.write(b"second")
    sink.box.write(b"third")
    sink.ready.set()
    await asyncio.wait_for(sink.box.drained(0), 5)
    assert sink.batches == [b"first", b"secondthird"]


async def test_drained_waits_only_while_much_is_queued() -> None:
    sink = Sink()
    sink.box.write(bytes(HIGH_WATER))
    await asyncio.wait_for(sink.box.drained(), 5)
    sink.box.write(b"x")
    waiting = asyncio.create_task(sink.box.drained())
    await asyncio.sleep(0.01)
    # Taken is not sent.
    assert not waiting.done()
    sink.ready.set()
    await asyncio.wait_for(waiting, 5)


async def test_a_client_that_is_gone_gets_nothing_more() -> None:
    sink = Sink()
    sink.is_gone = True
    sink.box.write(bytes(BATCH))
    sink.box.write(bytes(HIGH_WATER + 1))
    sink.ready.set()
    await asyncio.wait_for(sink.box.drained(0), 5)
    assert (len(sink.batches), sink.box.closed) == (1, True)


async def test_closing_drops_what_waits_and_lets_everybody_go() -> None:
    sink = Sink()
    sink.box.write(bytes(HIGH_WATER + 1))
    waiting = asyncio.create_task(sink.box.drained())
    await asyncio.sleep(0)
    sink.box.close()
    await asyncio.wait_for(waiting, 5)
    sink.box.write(b"more")
    sink.ready.set()
    await asyncio.sleep(0.01)
    assert b"more" not in sink.batches
    assert sink.box.queued == 0


async def test_beyond_the_hard_limit_the_client_counts_as_gone_once() -> None:
    overflows: list[int] = []
    box = Sink(overflow=lambda: overflows.append(1)).box
    box.write(bytes(HARD_LIMIT))
    box.write(b"one message may be as large as it likes")
    assert not overflows
    box.write(b"x")
    box.write(b"x")
    assert overflows == [1]
    assert box.closed
    assert box.queued == 0


async def test_a_cancelled_waiter_stops_nobody() -> None:
    sink = Sink()
    sink.box.write(bytes(module.HIGH_WATER + 1))
    waiting = [asyncio.create_task(sink.box.drained()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    sink.ready.set()
    await asyncio.wait_for(waiting[1], 5)


async def test_what_can_be_sent_at_once_never_overtakes_what_is_queued() -> None:
    sink = Sink()
    sent: list[bytes] = []
    blocks = False

    def at_once(part: bytes) -> bool:
        if not blocks:
            sent.append(part)
        return not blocks

    box = Outbox(sink._send, overflow=lambda: None, at_once=at_once)
    box.write(b"first")
    assert (sent, box.queued) == ([b"first"], 0)
    blocks = True
    box.write(b"second")
    blocks = False
    box.write(b"third")
    sink.ready.set()
    await asyncio.wait_for(box.drained(0), 5)
    assert (sent, sink.batches) == ([b"first"], [b"secondthird"])
    box.write(b"fourth")
    assert sent == [b"first", b"fourth"]
    box.close()
    box.write(b"dropped")
    assert sent == [b"first", b"fourth"]
