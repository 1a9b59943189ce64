"""Sessions and usage under sudden death: at random moments of their every step.

The short form runs with all tests; ``AISH_FULL=1`` has hundreds of deaths.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from killing import Death, Deaths

from aish_lsp.sessions import records
from aish_lsp.sessions.listing import list_sessions
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.rebuild import resumption
from aish_lsp.sessions.recorder import read_usage
from aish_lsp.sessions.records import load

KILLS = 700 if os.environ.get("TESTS_FULL") == "1" else 12

VICTIM = """
import time
from aish_lsp.sessions import records
from aish_lsp.sessions.listing import delete_session, list_sessions
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.records import load
from aish_lsp.context.usage import UsageRecord
from aish_lsp.sessions.recorder import append_usage
from aish_lsp.foundation.jsonl import now

folder, newer = Path(sys.argv[1]), Path(sys.argv[2])

def call(session, number):
    append_usage(folder.with_name("usage.jsonl"), UsageRecord(ts=now(), session=session, model="m",
        provider="openai", category="main", input=number, output=0))

def begun():
    tell("begin", "list", "")
    logs = [info.id for info in list_sessions(folder)]
    tell("done", "list", "")
    steps = ["resume"] * 4 + ["copy", "create"] + ["delete"] * (6 if len(logs) > 10 else 0)
    step = chance.choice(steps)
    if step in ("resume", "delete") and len(logs) > 1:
        chosen = chance.choice(logs)
        tell("begin", step, chosen)
        if step == "resume":
            log, _ = SessionLog.resume(folder / f"{chosen}.jsonl")
            tell("done", step, chosen)
            return log
        delete_session(folder, chosen)
        tell("done", step, chosen)
        return begun()
    if step == "copy":
        tell("begin", step, "")
        log = SessionLog.copy(load(newer, newer=True), folder / "x.jsonl")
        tell("done", step, log.id)
        return log
    return SessionLog.create(folder, "file:///w")

log = begun()
for number in range(1, 100):
    for step in ("question", "reply", "ran", "mark", "name", "call"):
        said = f"{step} {chance.random()} " * chance.choice([1, 10, 10, 10, 500])
        tell("begin", step, log.id)
        if step == "question":
            question = n = log.append(records.user(said), sync=True)
        elif step == "reply":
            n = log.append(records.assistant(said, "m", finish="stop"), sync=True)
        elif step == "ran":
            output = {"command": "ls", "exit": 0, "output": said}
            n = log.append(records.ran("c", output), sync=True)
        elif step == "mark":
            if chance.random() < 0.7:
                continue
            n = question
            log.mark_unanswered(question)
        elif step == "name":
            if chance.random() < 0.7:
                continue
            n, said = 0, f"{time.monotonic_ns():020}"
            log.set_name(said)
        else:
            n, said = 0, chance.randrange(10**12)
            call(log.id, said)
        tell("done", step, log.id, n, said)
    log.close()
    log = begun()
tell("begin", "end", "")
while True:
    pass
"""

#: Lines of a session from a newer version that is gone on with in a copy.
COPIED = 300


@dataclass(slots=True)
class Told:
    """What was acknowledged of one session."""

    texts: dict[int, str] = field(default_factory=dict)
    marked: set[int] = field(default_factory=set)
    name: str | None = None

    def take(self, step: str, n: int, said: str) -> None:
        if step == "name":
            self.name = said
        elif step == "mark":
            self.marked.add(n)
        else:
            self.texts[n] = said

    def check(self, path: Path) -> bool:
        """Compare with the log; return whether its last line was torn by a death."""
        loaded = load(path)
        found = {record["n"]: _text(record) for record in loaded.records}
        assert {n: found.get(n) for n in self.texts} == self.texts
        if self.name is not None:
            # Or a later one, that was written and not acknowledged.
            assert loaded.meta["name"] >= self.name
        marked = {
            record["turn"] if "event" in record else record["n"]
            for record in loaded.records
            if "unanswered" in (record.get("event"), record.get("meta"))
        }
        assert self.marked <= marked
        roles = [turn.role for turn in resumption(loaded).messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        return any("never finished" in notice for notice in loaded.notices)


def _text(record: dict[str, Any]) -> str:
    said = record.get("content") or record.get("output") or ""
    assert isinstance(said, str)
    return said


def a_newer_one(folder: Path) -> Path:
    """Write a session of a newer version; return its path."""
    log = SessionLog.create(folder, "file:///w")
    for number in range(1, COPIED + 1, 2):
        log.append(records.user(f"question {number}"))
        log.append(records.assistant("reply " * 200, "m", finish="stop"))
    log.close()
    header, rest = log.path.read_text().split("\n", 1)
    meta = json.loads(header)["meta"] | {"version": 2}
    log.path.write_text(json.dumps({"meta": meta}) + "\n" + rest)
    return log.path


@dataclass(slots=True)
class Known:
    """All that was acknowledged: sessions, and the calls of usage.jsonl."""

    folder: Path
    copied: dict[int, str]
    sessions: dict[str, Told] = field(default_factory=dict)
    calls: set[int] = field(default_factory=set)
    torn: int = 0

    def path(self, session: str) -> Path:
        return self.folder / f"{session}.jsonl"

    def take(self, step: str, session: str, *more: Any) -> None:
        if step == "delete":
            self.sessions.pop(session, None)
            assert not self.path(session).exists()
        elif step == "copy":
            self.sessions[session] = Told(dict(self.copied))
        elif step == "call":
            self.calls.add(more[1])
        elif step not in ("resume", "list"):
            self.sessions.setdefault(session, Told()).take(step, *more)

    def check(self, death: Death) -> None:
        """Compare what a victim had to do with."""
        if death.during and death.during[0] == "delete":
            session = death.during[1]
            # It came to pass, or it did not.
            if not self.path(session).exists():
                self.sessions.pop(session, None)
        touched = {line[1] for line in [*death.done, death.during or ["", ""]]}
        for session in touched & self.sessions.keys():
            self.torn += self.sessions[session].check(self.path(session))
        used = read_usage(self.folder.with_name("usage.jsonl"))
        assert self.calls <= {record.input for record in used}


def test_sudden_death_in_any_step_loses_nothing_acknowledged(tmp_path: Path) -> None:
    folder, newer = tmp_path / "sessions", a_newer_one(tmp_path / "newer")
    before = newer.read_bytes()
    copied = {record["n"]: _text(record) for record in load(newer, newer=True).records}
    deaths = Deaths(random.Random(20261121))
    known = Known(folder, copied)
    for _ in range(KILLS):
        death = deaths.next(VICTIM, folder, newer, lines=24)
        for line in death.done:
            known.take(*line)
        known.check(death)
        assert newer.read_bytes() == before
    told = known.sessions
    for session, one in told.items():
        one.check(known.path(session))
    listed = {info.id: info.turns for info in list_sessions(folder)}
    assert told.keys() <= listed.keys()
    for session, turns in listed.items():
        loaded = load(folder / f"{session}.jsonl")
        assert turns == sum("role" in record for record in loaded.records)
    deaths.tell("sudden death of sessions", sessions=len(listed), torn=known.torn)
    # Each can be gone on with.
    for session in told:
        log, loaded = SessionLog.resume(folder / f"{session}.jsonl")
        last = max(record["n"] for record in loaded.records)
        assert log.append(records.user("still works"), sync=True) == last + 1
        log.close()


# Of each step, a process dies at its first call of the system, the next at its second, and so on,
# until one comes to the end. Prints the step, the folder, and how each ended.
DYING = """
import os, shutil, signal, sys
from pathlib import Path
from aish_lsp.sessions import records
from aish_lsp.sessions.listing import delete_session
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.records import load

CALLS = ("open", "write", "pwrite", "fsync", "ftruncate", "close", "unlink", "mkdir", "stat")
sound, root = Path(sys.argv[1]), Path(sys.argv[2])

def dying(call):
    def counted(*args, **kwargs):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return call(*args, **kwargs)
    return counted

def question(folder):
    log, _ = SessionLog.resume(next(folder.glob("*.jsonl")))
    return lambda: log.append(records.user("next"), sync=True)

def mark(folder):
    log, _ = SessionLog.resume(next(folder.glob("*.jsonl")))
    n = log.append(records.user("next"), sync=True)
    return lambda: log.mark_unanswered(n)

def resume(folder):
    return lambda: question(folder)()

def create(folder):
    log = SessionLog.create(folder / "new", "file:///w")
    return lambda: log.append(records.user("first"), sync=True)

def copy(folder):
    path = next(folder.glob("*.jsonl"))
    return lambda: SessionLog.copy(load(path), path)

def delete(folder):
    return lambda: delete_session(folder, next(folder.glob("*.jsonl")).stem)

for step in (question, mark, resume, create, copy, delete):
    end, at = signal.SIGKILL, 0
    while end:
        folder = root / f"{step.__name__} {at}"
        shutil.copytree(sound, folder)
        child = os.fork()
        if child == 0:
            left = at
            work = step(folder)
            for name in CALLS:
                setattr(os, name, dying(getattr(os, name)))
            work()
            os._exit(0)
        end = os.waitpid(child, 0)[1]
        assert end in (0, signal.SIGKILL), end
        print(step.__name__, end, folder, sep="\\t")
        at += 1
"""


def test_death_at_any_call_of_a_step_loses_nothing(tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    log = SessionLog.create(sound, "file:///w")
    log.append(records.user("q"), sync=True)
    log.append(records.assistant("a", "m", finish="stop"), sync=True)
    log.close()
    command = [sys.executable, "-c", DYING, str(sound), str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    ends = [line.split("\t") for line in done.stdout.splitlines()]
    deaths = Counter(step for step, end, _ in ends if end != "0")
    assert deaths.keys() == {"question", "mark", "resume", "create", "copy", "delete"}
    assert min(deaths.values()) >= 2
    for step, end, folder in ends:
        paths = sorted(Path(folder).rglob("*.jsonl"))
        assert log.path.name in [path.name for path in paths] or step == "delete"
        for path in paths:
            if path.stat().st_size == 0:
                assert (step, end) in {("create", "9"), ("copy", "9")}
                continue
            loaded = load(path)
            assert loaded.notices == ()
            said = [record["content"] for record in loaded.records if "role" in record]
            whole = ["first"] if path.parent.name == "new" else ["q", "a"]
            assert said in (whole, [*whole, "next"])
            again, _ = SessionLog.resume(path)
            assert again.append(records.user("still works"), sync=True) == len(loaded.records) + 1
            again.close()
