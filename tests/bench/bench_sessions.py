"""How long listing many sessions takes, against opening each file and reading two lines of it.

    python tests/bench/bench_sessions.py [SESSIONS [TURNS [ROUNDS]]]

They are measured in turns, in one run; the least of each counts, since machines are noisy. The list
is that of ``aish.session.list``: it counts turns, and adds up the costs in usage.jsonl, one file
more; what it takes without those is told apart. The first list parses each file, the next only
those that have changed. Exits 1 where the next takes more than 3 times as long.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aish_lsp.foundation.jsonl import json_line
from aish_lsp.sessions import listing, records
from aish_lsp.sessions.listing import list_sessions
from aish_lsp.sessions.recorder import read_costs

MOST = 3.0

_TS = "2026-05-13T19:01:01Z"
_QUESTION = "How do I run the tests of the parser here, and only those that failed? " * 2
_REPLY = "They are run by pytest, which the project's manifest names.\n\nCMD: pytest -x\n" * 8
_USAGE = {"inputTokens": 1500, "outputTokens": 200, "cost": 0.001}


def write(folder: Path, sessions: int, turns: int) -> None:
    """Write sessions of so many messages each, and what they have cost."""
    (folder / "sessions").mkdir()
    with (folder / "usage.jsonl").open("w") as usage:
        for number in range(sessions):
            name = f"20260513T{number:06d}Z-abcdef"
            write_session(folder / "sessions" / f"{name}.jsonl", "file:///w", turns)
            usage.write((json_line(_call(name)) + "\n") * (turns // 2))


def write_session(path: Path, workspace: str, turns: int) -> None:
    """Write one session of so many messages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = {"version": 1, "id": path.stem, "workspace": workspace, "created": _TS}
    lines: list[dict[str, object]] = [{"meta": meta | {"title": path.stem, "name": None}}]
    for n in range(1, turns + 1):
        reply = records.assistant(_REPLY, "mine", finish="stop", usage=_USAGE)
        turn = records.user(_QUESTION) if n % 2 else reply
        lines.append({"n": n, "ts": _TS, **turn})
    path.write_text("".join(f"{json_line(line)}\n" for line in lines))


def _call(session: str) -> dict[str, object]:
    counts = {"input": 1500, "output": 200, "reasoning": 0, "cacheRead": 0, "cacheWrite": 0}
    who = {"ts": _TS, "session": session, "model": "mine", "provider": "openai"}
    return {**who, "category": "main", **counts, "cost": 0.001, "local": False, "estimated": False}


def first_and_last_lines(folder: Path) -> int:
    """Open each session and read its first and its last line; return how many there are."""
    count = 0
    for entry in os.scandir(folder / "sessions"):
        with open(entry.path, "rb") as file:  # noqa: PTH123 - the fastest there is
            file.readline()
            size = file.seek(0, os.SEEK_END)
            tail = b""
            while b"\n" not in tail[:-1] and len(tail) < size:
                file.seek(max(0, size - len(tail) - 4096))
                tail = file.read(min(size, len(tail) + 4096))
            tail.rpartition(b"\n")
        count += 1
    return count


def listed(folder: Path) -> int:
    """List them as ``aish.session.list`` does; return how many there are."""
    return len(list_sessions(folder / "sessions", read_costs(folder / "usage.jsonl")))


def first(folder: Path) -> int:
    """List them, without their costs, for the first time; return how many there are."""
    listing._facts.cache_clear()
    return len(list_sessions(folder / "sessions"))


def timed(work: Callable[[Path], int], folder: Path) -> float:
    """Return the seconds that ``work`` takes of the processor: files are in memory by then."""
    begun = time.process_time()
    work(folder)
    return time.process_time() - begun


def main(sessions: int = 1000, turns: int = 20, rounds: int = 30) -> int:
    """Measure and print; return 1 where the list takes too long."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, sessions, turns)
        assert listed(folder) == first_and_last_lines(folder) == sessions
        works = {
            "the first and the last line of each": first_and_last_lines,
            "the first list": first,
            "the next": lambda place: len(list_sessions(place / "sessions")),
            "the same, with costs": listed,
        }
        times: dict[str, list[float]] = {what: [] for what in works}
        for _ in range(rounds):
            for what, work in works.items():
                times[what].append(timed(work, folder))
        size = sum(path.stat().st_size for path in (folder / "sessions").iterdir())
    least = {what: min(seconds) for what, seconds in times.items()}
    _say(f"{sessions} sessions of {turns} messages, {size / 1e6:.1f} MB; best of {rounds}")
    for what, seconds in least.items():
        _say(f"{seconds * 1000:8.1f} ms  {what}")
    bare, *lists = least.values()
    _say("  ".join(f"{one / bare:.2f} times" for one in lists))
    return int(lists[1] > MOST * bare)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
