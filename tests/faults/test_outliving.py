"""Nothing outlives its stop, not even processes that are gone before anybody can find them."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from machine import without_namespaces
from test_work_profile import work

from aish_lsp.shell.confinement.support import Confinement

pytestmark = pytest.mark.skipif(
    bool(without_namespaces()), reason=without_namespaces() or "there are namespaces"
)

COUNT = 50
HOPPING = Path(__file__).with_name("hopping.py")


class Hopping:
    """Processes that hop: what starts them in a folder, and whether they do so still."""

    def __init__(self, folder: Path) -> None:
        self._beats = folder / "beats"
        shutil.copy(HOPPING, folder)
        words = [sys.executable, "-I", "-S", HOPPING.name, self._beats.name, str(COUNT)]
        self.text = shlex.join(words)

    def read(self) -> bytes:
        """Return the last sign of life of each."""
        return self._beats.read_bytes() if self._beats.exists() else b""

    async def until_all_hop(self) -> None:
        """Wait until each of them has hopped."""
        while len(set(memoryview(self.read()).cast("d"))) < COUNT:
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


async def test_a_time_out_ends_what_hops(confinement: Confinement, tree: Path) -> None:
    hopping = Hopping(tree)
    text = f"{hopping.text}; sleep 600"
    task = asyncio.create_task(work(confinement, text, tree, timeout=4))
    await hopping.until_all_hop()
    assert (await task).finish_reason == "timeout"
    await hopping.assert_over()


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
