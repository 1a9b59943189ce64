"""Nothing outlives its stop, not even processes that are gone before anybody can find them."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from machine import needs, without_namespaces, without_programs
from marked import Marked
from test_work_profile import work

from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import run_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds what has hopped")
in_work = needs(without_namespaces())

COUNT = 50
HOPPING = Path(__file__).with_name("hopping.py")


class Hopping:
    """Processes that hop: what starts them in a folder, and whether they do so still."""

    def __init__(self, folder: Path, count: int = COUNT) -> None:
        self.count = count
        self.beats = folder / "beats"
        shutil.copy(HOPPING, folder)
        words = [sys.executable, "-I", "-S", HOPPING.name, self.beats.name, str(count)]
        self.text = shlex.join(words)

    def read(self) -> bytes:
        """Return the last sign of life of each."""
        return self.beats.read_bytes() if self.beats.exists() else b""

    async def until_all_hop(self) -> None:
        """Wait until each of them has hopped."""
        while len(set(memoryview(self.read()).cast("d"))) < self.count:
            await asyncio.sleep(0.05)

    async def assert_over(self) -> None:
        """Assert that none gives a sign of life for ten times as long as they are silent."""
        before = self.read()
        assert before
        await asyncio.sleep(1)
        assert self.read() == before


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty work tree."""
    folder = tmp_path / "tree"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@in_work
async def test_stop_ends_what_hops(confinement: Confinement, tree: Path) -> None:
    hopping = Hopping(tree)
    task = asyncio.create_task(work(confinement, f"{hopping.text}; sleep 600", tree))
    await hopping.until_all_hop()
    task.cancel()
    result = await task
    assert (result.finish_reason, result.output) == ("cancelled", "")
    await hopping.assert_over()
    # What stood for files that were missing was kept until then.
    assert not (tree / ".envrc").exists()


@in_work
async def test_a_time_out_ends_what_hops(confinement: Confinement, tree: Path) -> None:
    hopping = Hopping(tree)
    text = f"{hopping.text}; sleep 600"
    task = asyncio.create_task(work(confinement, text, tree, timeout=4))
    await hopping.until_all_hop()
    assert (await task).finish_reason == "timeout"
    await hopping.assert_over()


@in_work
async def test_what_hops_ends_with_the_command(confinement: Confinement, tree: Path) -> None:
    hopping = Hopping(tree)
    result = await work(confinement, f"{hopping.text}; sleep 2", tree)
    assert (result.exit_code, result.finish_reason) == (0, "stop")
    assert "left running" in result.output
    await hopping.assert_over()


SERVER = """
import asyncio, os, sys
from pathlib import Path
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import run_command

async def ignore(*_):
    pass

async def main():
    root = Path.cwd()
    with await Confinement(os.environ).work_sandbox(root) as sandbox:
        await run_command(
            sys.argv[1], cwd=root, shell="sh", timeout=None, env=os.environ,
            on_output=ignore, sandbox=sandbox,
        )

asyncio.run(main())
"""


@in_work
@pytest.mark.parametrize("killed", ["server", "supervisor", "both", "first of the namespace"])
async def test_a_kill_ends_what_hops(tree: Path, killed: str) -> None:
    hopping = Hopping(tree)
    command = [sys.executable, "-c", SERVER, f"{hopping.text}; sleep 600"]
    with subprocess.Popen(command, cwd=tree) as server:
        try:
            await hopping.until_all_hop()
            [supervisor] = children(server.pid)
            [first] = children(supervisor)
            victims = {"server": [server.pid], "supervisor": [supervisor]}
            victims |= {"both": [server.pid, supervisor], "first of the namespace": [first]}
            for pid in victims[killed]:
                os.kill(pid, signal.SIGKILL)
            # It is reaped when all in its namespace are.
            while Path("/proc", str(first)).exists():
                await asyncio.sleep(0.01)
        finally:
            server.kill()
    await hopping.assert_over()


def children(pid: int) -> list[int]:
    """Return the process ids of the children of a process."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


async def ignore(_stream: str, _delta: str) -> None:
    """Take whatever comes."""


@pytest.fixture
def crowd() -> Iterator[None]:
    """As many processes as a desktop has: they make it slow to search all for one's own."""
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(500)]
    yield
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("profile", ["free", "safe"])
async def test_without_a_namespace_they_are_frozen_and_killed(
    confinement: Confinement, tree: Path, profile: str
) -> None:
    hopping = Hopping(tree, 10)
    if profile == "safe":
        # What runs confined writes only its own temporary folder, which goes when it is over.
        hopping.text = f'cp {HOPPING.name} "$TMPDIR" && cd "$TMPDIR" && {hopping.text}'
    sandbox = await confinement.sandbox(tree) if profile == "safe" else None
    with sandbox or nullcontext():
        task = asyncio.create_task(
            run_command(
                f"{hopping.text}; sleep 600",
                cwd=tree,
                shell="sh",
                timeout=None,
                env=os.environ,
                on_output=ignore,
                sandbox=sandbox,
            )
        )
        if sandbox is not None:
            hopping.beats = sandbox.temporary / "beats"
        await hopping.until_all_hop()
        # It is still there when the file is gone.
        signs = os.open(hopping.beats, os.O_RDONLY)
        task.cancel()
        result = await task
    assert (result.finish_reason, result.output) == ("cancelled", "")
    try:
        before = os.pread(signs, 8 * hopping.count, 0)
        await asyncio.sleep(1)
        assert os.pread(signs, 8 * hopping.count, 0) == before
    finally:
        os.close(signs)


#: Runs as root who may not kill what belongs to others: as a user who has started `sudo`.
WITHOUT_KILL = ("setpriv", "--bounding-set=-kill", "--inh-caps=-kill")
OF_ANOTHER_USER = """
import asyncio, os, sys
from pathlib import Path
from aish_lsp.shell.runner import run_command

async def show(_stream, delta):
    print(delta, end="", flush=True)

async def main():
    task = asyncio.create_task(run_command(
        f"setpriv --reuid 65534 --clear-groups {sys.argv[1]}", cwd=Path("/"), shell="sh",
        timeout=2 if sys.argv[2] == "timeout" else None, env=os.environ, on_output=show,
    ))
    if sys.argv[2] == "cancelled":
        await asyncio.to_thread(input)
        task.cancel()
    result = await task
    print(result.finish_reason)
    print(result.output, end="")

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of another user")
@needs(without_programs("setpriv"))
@pytest.mark.parametrize("end", ["timeout", "cancelled"])
async def test_what_could_not_be_ended_is_told(end: str) -> None:
    marked = Marked()
    server = subprocess.Popen(
        [*WITHOUT_KILL, sys.executable, "-c", OF_ANOTHER_USER, marked.sleep, end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        # The server, the supervisor, and the shell, which may have become what it started.
        await marked.until(3)
        printed = (await asyncio.to_thread(server.communicate, "\n"))[0]
        [left] = marked.alive()
        note = f"[aish: could not be ended: pid {left} (sleep)]\n"
        assert printed == f"{note}{end}\n{note}"
    finally:
        server.kill()
        server.wait()
        marked.kill()
