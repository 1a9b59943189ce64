"""Nothing of a command is left, however it, its runner or its supervisor ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from marked import Marked

from aish_lsp.shell import runner, supervisor
from aish_lsp.shell.runner import RunResult, Stream, run_command

linux_only = pytest.mark.skipif(
    sys.platform != "linux",
    reason="what leaves its process group is only found by a subreaper, which is Linux's",
)

Listener: TypeAlias = Callable[[Stream, str], Awaitable[None]]


@pytest.fixture
def marked() -> Iterator[Marked]:
    processes = Marked()
    yield processes
    processes.kill()


async def ignore(stream: Stream, delta: str) -> None:
    """A listener that takes whatever comes."""


async def stuck(stream: Stream, delta: str) -> None:
    await asyncio.Event().wait()


def start(
    text: str, cwd: Path, *, on_output: Listener = ignore, timeout: float | None = None
) -> asyncio.Task[RunResult]:
    return asyncio.create_task(
        run_command(text, cwd=cwd, shell="sh", timeout=timeout, env=os.environ, on_output=on_output)
    )


# The shell itself has the number on its command line, and so has its supervisor: 2 more each.
FAMILIES = {
    "one": ("echo begun; {sleep}", 3),
    "grandchildren": ("echo begun; sh -c '{sleep}; :' & sh -c 'sh -c \"{sleep}; :\"'; :", 5),
    "stopped": ("echo begun; sh -c 'kill -STOP $$; {sleep}' & {sleep}; :", 4),
    "ignoring TERM": ("trap '' TERM; echo begun; {sleep} & while :; do {sleep}; done", 4),
}
ESCAPED = {
    "own session": ("echo begun; setsid {sleep} & setsid sh -c '{sleep}; :'; :", 5),
    "daemon": ("echo begun; (setsid {sleep} <&- >&- 2>&- &) ; {sleep}; :", 4),
}


@pytest.mark.parametrize(
    ("text", "count"),
    [pytest.param(*family, id=name) for name, family in FAMILIES.items()]
    + [pytest.param(*family, id=name, marks=linux_only) for name, family in ESCAPED.items()],
)
async def test_cancel_ends_the_whole_family(
    tmp_path: Path, marked: Marked, text: str, count: int
) -> None:
    task = start(text.format(sleep=marked.sleep), tmp_path)
    await marked.until(count)
    task.cancel()
    result = await task
    assert marked.alive() == []
    assert result.finish_reason == "cancelled"
    assert result.output == "begun\n"
    assert result.exit_code is None
    assert task.cancelling() == 0


async def test_time_out_ends_the_whole_family(tmp_path: Path, marked: Marked) -> None:
    result = await start(f"echo begun; {marked.sleep} & {marked.sleep}; :", tmp_path, timeout=1)
    assert marked.alive() == []
    assert (result.finish_reason, result.output) == ("timeout", "begun\n")
    assert result.signal == "SIGTERM"
    assert result.duration_ms >= 1000


async def test_last_words_are_heard(tmp_path: Path, marked: Marked) -> None:
    heard: list[str] = []

    async def listen(stream: Stream, delta: str) -> None:
        heard.append(delta)

    text = f"trap 'echo bye; exit 7' TERM; echo begun; {marked.sleep} & wait"
    task = start(text, tmp_path, on_output=listen)
    await marked.until(3)
    while not heard:
        await asyncio.sleep(0.01)
    task.cancel()
    result = await task
    assert "".join(heard) == result.output == "begun\nbye\n"
    assert (result.exit_code, result.finish_reason) == (7, "cancelled")


async def test_cancelled_again_and_again(tmp_path: Path, marked: Marked) -> None:
    task = start(f"trap '' TERM; {marked.sleep} & while :; do {marked.sleep}; done", tmp_path)
    await marked.until(4)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    assert task.result().finish_reason == "cancelled"
    assert marked.alive() == []


async def test_cancelled_before_the_shell_was_started(tmp_path: Path) -> None:
    task = start("touch made; exec sleep 600", tmp_path)
    await asyncio.sleep(0)
    task.cancel()
    result = await task
    assert (result.finish_reason, result.exit_code, result.output) == ("cancelled", None, "")
    # On a busy machine it may be started before the supervisor hears of the end.
    assert result.signal == "SIGTERM" or not (tmp_path / "made").exists()


def test_a_supervisor_whose_server_is_gone_already_starts_nothing() -> None:
    reports = subprocess.run(
        [sys.executable, "-I", "-S", supervisor.__file__, "1", "-", "/bin/sh", "-c", "exit 0"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert (reports.stdout, reports.stderr) == (b"ended\n", b"")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{sleep} & printf done", id="in the group"),
        pytest.param("(setsid {sleep} &); sleep 0.2; printf done", id="escaped", marks=linux_only),
    ],
)
async def test_what_outlives_the_shell_is_ended_with_a_note(
    tmp_path: Path, marked: Marked, text: str
) -> None:
    result = await start(text.format(sleep=marked.sleep), tmp_path)
    assert marked.alive() == []
    assert (result.exit_code, result.finish_reason) == (0, "stop")
    assert result.output.startswith("done\n[aish: ")
    assert "left running" in result.output


async def test_a_fork_storm_is_ended(tmp_path: Path, marked: Marked) -> None:
    storm = tmp_path / "storm.sh"
    storm.write_text(
        "[ $1 -gt 0 ] && { sh storm.sh $(($1 - 1)) $2 & sh storm.sh $(($1 - 1)) $2 & }\n"
        "while :; do sleep 1000.$2 & wait; done\n"
    )
    task = start(f"sh storm.sh 4 {marked.number}", tmp_path)
    await marked.until(40)
    task.cancel()
    assert (await task).finish_reason == "cancelled"
    assert marked.alive() == []


@linux_only
async def test_processes_that_fork_into_sessions_of_their_own_while_they_are_ended(
    tmp_path: Path, marked: Marked
) -> None:
    # Each new one replaces the one before, in a new session, and shrugs off TERM.
    script = tmp_path / "hydra.py"
    script.write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True:\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "    else:\n"
        "        time.sleep(0.005)\n"
        "        os._exit(0)\n"
    )
    task = start(f"{sys.executable} -I -S hydra.py {marked.number} & sleep 1000", tmp_path)
    await marked.until(3)
    task.cancel()
    assert (await task).finish_reason == "cancelled"
    await asyncio.sleep(0.3)
    assert marked.alive() == []


async def test_endless_output_with_a_slow_listener(tmp_path: Path, marked: Marked) -> None:
    text = (
        f"for word in {marked.number}; do :; done; "
        "while :; do head -c 65536 /dev/zero | tr '\\0' a; echo x >> rounds; done"
    )
    task = start(text, tmp_path, on_output=stuck)
    rounds = tmp_path / "rounds"
    await marked.until(2)
    await asyncio.sleep(0.8)
    # One piece is with the listener, and one or two are in the pipe: the command waits.
    assert not rounds.exists() or len(rounds.read_text()) <= 2 * 4
    task.cancel()
    result = await task
    assert marked.alive() == []
    assert result.finish_reason == "cancelled"
    assert set(result.output.replace("[aish: ", "").partition(" bytes")[0]) <= set("a\n0123456789")
    assert result.output.startswith("aaaa")


async def test_endless_output_is_cut_off_by_the_time_out(tmp_path: Path) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    result = await start("yes", tmp_path, timeout=1)
    ticking.cancel()
    assert (result.finish_reason, result.truncated) == ("timeout", True)
    assert len(result.output) < 70_000
    # Meanwhile everybody else had their turn.
    assert ticks > 10


@linux_only
async def test_descendants_are_found_where_the_kernel_does_not_list_children(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sh", "-c", f"{marked.sleep} & {marked.sleep}; :"]):
        await marked.until(3)
        listed = [pid for pid in supervisor._descendants() if pid in marked.alive()]
        monkeypatch.setattr(os.path, "exists", lambda _path: False)
        searched = [pid for pid in supervisor._descendants() if pid in marked.alive()]
        marked.kill()
    assert len(listed) == 3
    assert searched == listed


@linux_only
async def test_a_pipe_that_somebody_else_holds_open(tmp_path: Path, marked: Marked) -> None:
    # With its supervisor gone, what left the group gets away, and still holds the pipe.
    text = f"echo begun; setsid {marked.sleep} & sleep 0.5; kill -9 $PPID; {marked.sleep}"
    result = await start(text, tmp_path)
    assert result.finish_reason == "error"
    assert (result.exit_code, result.signal) == (None, None)
    assert result.output.startswith("begun\n[aish: ")
    assert "supervisor" in result.output
    await asyncio.sleep(0.1)
    assert len(marked.alive()) == 1


async def test_a_supervisor_that_was_stopped(
    tmp_path: Path, marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SUPERVISOR_SECONDS", 0.5)
    task = start(f"kill -STOP $PPID; echo begun; {marked.sleep}; :", tmp_path)
    await marked.until(3)
    task.cancel()
    result = await task
    assert result.finish_reason == "cancelled"
    assert result.output.startswith("begun\n[aish: ")
    assert "may still run" in result.output
    await marked.until_gone()


SERVER = """
import asyncio, os, sys
from pathlib import Path
from aish_lsp.shell.runner import run_command

async def ignore(stream, delta):
    pass

asyncio.run(run_command(
    sys.argv[1], cwd=Path.cwd(), shell="sh", timeout=None, env=os.environ, on_output=ignore
))
"""


IGNORING_TERM = "trap '' TERM; {sleep} & while :; do {sleep}; done"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("{sleep} & {sleep}; :", signal.SIGKILL, id="in the group"),
        pytest.param("{sleep} & {sleep}; :", signal.SIGTERM, id="in the group, TERM"),
        pytest.param(IGNORING_TERM, signal.SIGKILL, id="ignoring TERM"),
        pytest.param("setsid {sleep} & {sleep}; :", signal.SIGKILL, id="escaped", marks=linux_only),
        pytest.param("yes {number} & {sleep}; :", signal.SIGKILL, id="writing"),
    ],
)
async def test_nothing_is_left_when_the_server_is_killed(
    tmp_path: Path, marked: Marked, text: str, number: signal.Signals
) -> None:
    command = text.format(sleep=marked.sleep, number=marked.number)
    server = subprocess.Popen([sys.executable, "-c", SERVER, command], cwd=tmp_path)
    try:
        # The server, the supervisor, the shell, and two that the shell started.
        await marked.until(5)
    finally:
        server.send_signal(number)
        server.wait()
    await marked.until_gone()


def test_nothing_is_left_when_the_loop_is_shut_down(tmp_path: Path, marked: Marked) -> None:
    results: list[RunResult] = []

    async def main() -> None:
        task = start(f"{marked.sleep} & {marked.sleep}; :", tmp_path)
        task.add_done_callback(lambda task: results.append(task.result()))
        await marked.until(4)

    asyncio.run(main())
    assert [result.finish_reason for result in results] == ["cancelled"]
    assert marked.alive() == []
