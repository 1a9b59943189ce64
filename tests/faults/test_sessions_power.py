"""What outlasts the power of sessions, usage, grants and learned ratios, by a system-call trace."""

from __future__ import annotations

from pathlib import Path

from power import traced

SESSIONS = """
from aish_lsp.sessions import records
from aish_lsp.sessions.listing import delete_session
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.records import load
from aish_lsp.context.usage import UsageRecord
from aish_lsp.sessions.recorder import append_usage
from aish_lsp.foundation.jsonl import now

folder = Path(sys.argv[1], "sessions")
output = {"command": "ls", "exit": 0, "output": "x"}
log = SessionLog.create(folder, "file:///w")
step("first question", lambda: log.append(records.user("q"), sync=True))
step("reply", lambda: log.append(records.assistant("a", "m", finish="stop"), sync=True))
log.append(records.model("other"))
step("question", lambda: log.append(records.user("r"), sync=True))
step("mark", lambda: log.mark_unanswered(4))
step("mark in a line of its own", lambda: log.mark_unanswered(4))
step("name", lambda: log.set_name("n"))
step("title", lambda: log.append(records.described(title="t"), sync=True))
step("output", lambda: log.append(records.ran("c", output), sync=True))
step("reset", lambda: log.append(records.reset(), sync=True))
log.close()
log, loaded = SessionLog.resume(log.path)
step("question after resume", lambda: log.append(records.user("s"), sync=True))
log.path.unlink()
os.sync()
step("question after somebody deleted the file", lambda: log.append(records.user("t"), sync=True))
copy = step("copy", lambda: SessionLog.copy(loaded, log.path))
step("question in the copy", lambda: copy.append(records.user("u"), sync=True))
log.close()
step("delete", lambda: delete_session(folder, log.id))
call = UsageRecord(ts=now(), session="s", model="m", provider="openai", category="main", input=1,
    output=1)
for number in ("first", "second"):
    step(f"{number} call", lambda: append_usage(Path(sys.argv[1], "usage.jsonl"), call))
"""

STATE = """
import asyncio
from aish_lsp.config.trust import TrustStore
from aish_lsp.context.calibration import Calibration

trust = TrustStore(Path(sys.argv[1], "trust.json"))
calibration = Calibration(Path(sys.argv[1], "calibration.json"))
workspace = Path(sys.argv[2])
for number in ("first", "second"):
    step(f"{number} grant", lambda: trust.grant(workspace, "overlay", number, "x"))
    calibration.learn("model", 1000, 1200)
    step(f"{number} ratio", lambda: asyncio.run(calibration.save()))
step("revoke", lambda: trust.revoke(workspace))
"""


def test_what_is_acknowledged_of_a_session_outlasts_the_power(tmp_path: Path) -> None:
    data = tmp_path / "data"
    steps = traced(SESSIONS, data)
    assert len(steps) == 16
    for step in steps:
        assert step.unsynced == set(), step.name
        # What took no step at all would outlast anything.
        assert step.written or step.name == "delete", step.name
    (copy,) = (step for step in steps if step.name == "copy")
    assert len(copy.written) == 1


def test_grants_and_ratios_outlast_the_power(tmp_path: Path) -> None:
    data, workspace = tmp_path / "data", tmp_path / "workspace"
    workspace.mkdir()
    steps = traced(STATE, data, workspace)
    assert len(steps) == 5
    for step in steps:
        assert step.unsynced == set(), step.name
        # Written beside and renamed, never written into.
        assert step.written, step.name
        assert not any(path.endswith(".json") for path in step.written), step.name
