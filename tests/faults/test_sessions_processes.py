"""Sessions and usage under real processes, several of which write at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aish_lsp.foundation.errors import Busy
from aish_lsp.sessions import records
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.recorder import read_usage

TALKER = """
import sys
from pathlib import Path
from aish_lsp.sessions import records
from aish_lsp.sessions.log import SessionLog

folder = Path(sys.argv[1])
logs = sorted(folder.glob("*.jsonl"))
log = SessionLog.resume(logs[0])[0] if logs else SessionLog.create(folder, "file:///w")
while True:
    print(log.append(records.user("question " * 50), sync=True), flush=True)
    print(log.append(records.assistant("reply " * 500, "m", finish="stop"), sync=True), flush=True)
    output = {"command": "ls", "exit": 0, "output": "name " * 99}
    print(log.append(records.ran("c", output), sync=True), flush=True)
"""

USER = """
import sys
from pathlib import Path
from aish_lsp.context.usage import UsageRecord
from aish_lsp.sessions.recorder import append_usage
from aish_lsp.foundation.jsonl import now

for number in range(50):
    append_usage(Path(sys.argv[1]), UsageRecord(ts=now(), session=sys.argv[2], model="m",
        provider="openai", category="main", input=number, output=0))
"""


def test_a_session_that_is_open_elsewhere_is_busy_until_that_process_dies(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TALKER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (path,) = tmp_path.glob("*.jsonl")
        with pytest.raises(Busy, match="in use"):
            SessionLog.resume(path)
        process.kill()
    log, loaded = SessionLog.resume(path)
    assert log.append(records.user("mine now")) == loaded.records[-1]["n"] + 1
    log.close()


def test_several_processes_add_to_one_usage_file(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    path.write_text('{"ts": "2026-05-13T19:0')
    processes = [
        subprocess.Popen([sys.executable, "-c", USER, str(path), name]) for name in ("a", "b", "c")
    ]
    assert [process.wait(timeout=100) for process in processes] == [0, 0, 0]
    for name in ("a", "b", "c"):
        assert [record.input for record in read_usage(path, name)] == list(range(50))
    assert len(read_usage(path)) == 150
