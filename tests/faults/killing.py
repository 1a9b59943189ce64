"""Processes that are killed at random moments, and what they had told until then.

A victim prints lines of JSON: ``["begin", STEP, ...]`` ahead of each step, ``["done", STEP, ...]``
once it is acknowledged.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from figures import tell

#: What every victim's script begins with.
PRELUDE = """
import json, os, random, sys
from pathlib import Path

chance = random.Random(sys.argv[-1])
if chance.random() < 0.5:
    # As the system may split them, so that a death can tear a line.
    whole = os.write
    os.write = lambda fd, data: whole(fd, bytes(data[:100]))

def tell(*line):
    print(json.dumps(line), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Death:
    """What was acknowledged, and the step that was not: none between two steps."""

    done: list[list[Any]]
    during: list[Any] | None


@dataclass(slots=True)
class Deaths:
    """A series of them, each of a new process.

    Attributes:
        chance: decides on the moments, so that a run can be had again.
        acknowledged: how many steps were.
        steps: how many died in each step; of these the figures tell.
    """

    chance: random.Random
    acknowledged: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def next(self, script: str, *arguments: object, lines: int) -> Death:
        """Start a victim; kill it within 10 ms of one of its first ``lines`` lines."""
        seed = self.chance.random()
        command = [sys.executable, "-c", PRELUDE + script, *map(str, arguments), str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            output = "".join(
                process.stdout.readline() for _ in range(self.chance.randint(1, lines))
            )
            time.sleep(self.chance.random() / 100)
            process.kill()
            output += process.stdout.read()
        assert process.returncode == -9, output
        told = [json.loads(line) for line in output.splitlines(True) if line.endswith("\n")]
        done = [line[1:] for line in told if line[0] == "done"]
        during = told[-1][1:] if told[-1][0] == "begin" else None
        self.acknowledged += len(done)
        self.steps[during[0] if during else "between"] += 1
        return Death(done, during)

    def tell(self, what: str, **more: object) -> None:
        """Print the figures."""
        steps = " + ".join(f"{count} in {step}" for step, count in sorted(self.steps.items()))
        tell(
            what,
            kills=f"{self.steps.total()} ({steps})",
            acknowledged=self.acknowledged,
            lost=0,
            **more,
            seconds=round(time.monotonic() - self.began),
        )
