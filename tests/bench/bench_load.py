"""What the server does under load: a flood of deltas, many streams, a client that stops reading.

python tests/bench/bench_load.py [ROUNDS]
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from measuring import Row, main, memory_of
from stage import AISH, Reply, Stage, Timed, bare, question, served, stage

# isort: split
from client import Client

DELTAS: Final = 100_000
STREAMS: Final = 50
WORDS: Final = 400
#: Milliseconds between two words of a stream: 1,250 words a second in all.
PAUSE: Final = 40
#: Seconds for which the client does not read.
STALL: Final = 10

#: For replies that no real model gives.
SETTINGS: Final = """\
context_window = 4000000
max_output_tokens = 1000000
[suggestions]
repetition_guard = "off"
"""


async def flood(made: Stage, rounds: int) -> list[Row]:
    """Measure the rate at which deltas pass that come as fast as they are read."""
    ours: list[Reply] = []
    theirs: list[Reply] = []
    async with Timed(command=AISH) as server, Timed(command=made.bare) as plain:
        await server.initialize(made.workspace)
        await served(server, 100, 0)
        await bare(plain, 100, 0)
        for _ in range(rounds):
            theirs.append(await bare(plain, DELTAS, 0))
            ours.append(await served(server, DELTAS, 0))
        plain.process.kill()

    def rates(replies: list[Reply]) -> list[float]:
        return [DELTAS / reply.seconds for reply in replies]

    used = [statistics.median(reply.cpu for reply in replies) for replies in (ours, theirs)]
    cpu = used[0] / used[1] if used[1] else None
    what = f"{DELTAS:,} deltas at once"
    return [Row(what, "bare loop", rates(ours), rates(theirs), 0.7, "rate", "/s", cpu)]


class Streams(Client):
    """A client that notes when the words of each stream come."""

    def forget(self) -> None:
        """Forget what was noted."""
        self.words: dict[str, int] = defaultdict(int)
        self.came: dict[str, list[float]] = defaultdict(list)
        #: How many words each stream had when all had begun, and when the first was whole.
        self.at_start: dict[str, int] = {}
        self.at_end: dict[str, int] = {}

    def _dispatch(self, message: Any) -> None:
        params = message.get("params", {})
        value = params.get("value", {})
        if value.get("kind") != "text":
            super()._dispatch(message)
            return
        token = params["token"]
        self.words[token] += len(value["delta"].split())
        if not self.at_start and len(self.words) == STREAMS:
            self.at_start = dict(self.words)
        if self.at_start and not self.at_end:
            self.came[token].append(time.perf_counter())
            if self.words[token] >= WORDS:
                self.at_end = dict(self.words)

    def least_share(self) -> float:
        """Return the least part of its fair share that a stream had, while all were there."""
        got = [self.at_end[token] - self.at_start[token] for token in self.at_end]
        return min(got) / (sum(got) / STREAMS)


async def streams(made: Stage, rounds: int) -> list[Row]:
    """Measure how even many streams are, which share the processor."""
    folders = [made.root / f"work{number}" for number in range(STREAMS)]
    for folder in folders:
        folder.mkdir()
    shares: list[float] = []
    gaps: list[list[float]] = []
    async with Streams(command=AISH) as client:
        await client.initialize(*folders)
        for _ in range(rounds + 1):
            client.forget()
            await asyncio.gather(
                *(
                    client.command_result(
                        "aish.ask",
                        {
                            "prompt": question(WORDS, PAUSE),
                            "workspace": folder.as_uri(),
                            "partialResultToken": folder.name,
                        },
                        timeout=300,
                    )
                    for folder in folders
                )
            )
            shares.append(client.least_share())
            gaps.append([longest_gap(times) for times in client.came.values()])
    # The first round imports and opens.
    most = [max(each) * 1000 for each in gaps[1:]]
    middle = [statistics.median(each) * 1000 for each in gaps[1:]]
    share = [100 * share for share in shares[1:]]
    name = f"{STREAMS} streams in as many workspaces"
    return [
        Row(f"{name}: the least", "its fair share", share, [100.0] * rounds, 0.8, "rate", "%"),
        Row(f"{name}: the longest gap", "the streams' median", most, middle, 5),
    ]


def longest_gap(times: list[float]) -> float:
    """Return the longest time between two deltas."""
    return max((later - sooner for sooner, later in pairwise(times)), default=0)


async def stalled(made: Stage) -> list[Row]:
    """Have the client stop reading in mid-stream; another workspace runs a command meanwhile."""
    folders = [made.workspace, made.root / "other"]
    folders[1].mkdir()
    done = folders[1] / "done"
    async with Client(command=AISH) as client:
        await client.initialize(*folders)
        first, other = ({"workspace": folder.as_uri()} for folder in folders)
        for where in (first, other):
            await client.command_result("aish.ask", where | {"prompt": question(3, 0)})
        ask = first | {"prompt": question(DELTAS, 0), "partialResultToken": "t"}
        answer = asyncio.create_task(client.command_result("aish.ask", ask, timeout=300))
        await client.wait_for(lambda: len(client.progress["t"]) > 100, "the stream")
        before = memory_of(client.process.pid)
        client.pause_reading()
        begun = time.perf_counter()
        # The request reaches the server, whose answer nobody reads yet.
        run = asyncio.create_task(
            client.command_result("aish.run", other | {"text": f"touch {done}"}, timeout=300)
        )
        ran = await until_there(done, begun)
        await asyncio.sleep(max(0.0, STALL - ran))
        grown = memory_of(client.process.pid) - before
        client.resume_reading()
        text = (await answer)["text"]
        await run
    streamed = "".join(event["delta"] for event in client.progress["t"] if event["kind"] == "text")
    lost = DELTAS - len(text.split()) + DELTAS - len(streamed.split())
    name = f"client stalled for {STALL} s"
    return [
        Row(f"{name}: another workspace's command", "its stall", [ran], [STALL], 0.2, unit="s"),
        Row(f"{name}: memory", "before it", [grown], [before], 40, "value", "MB"),
        Row(f"{name}: lost", "words sent", [float(lost)], [float(DELTAS)], 0, "value", "words"),
    ]


async def until_there(path: Path, begun: float) -> float:
    """Return the seconds until a file is there; at most those of the stall."""
    while not path.exists() and time.perf_counter() - begun < STALL:
        await asyncio.sleep(0.01)
    return time.perf_counter() - begun


async def rows(rounds: int) -> list[Row]:
    """Measure all three."""
    with stage(settings=SETTINGS) as made:
        return [
            *await flood(made, rounds),
            *await streams(made, min(rounds, 2)),
            *await stalled(made),
        ]


if __name__ == "__main__":
    main(rows, 3)
