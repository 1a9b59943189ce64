"""What decides about the end of the process, without a process that ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aish_lsp.lsp.lifecycle import Lifecycle, Parent


def test_the_direct_parent_is_watched() -> None:
    parent = Parent.find(os.getppid())
    if os.getppid() > 1:
        assert parent is not None
        assert not parent.gone()


@pytest.mark.parametrize("pid", [-1, 0, 1, 2**31 - 1, 10**12])
def test_numbers_that_prove_nothing_are_not_watched(pid: int) -> None:
    assert Parent.find(pid) is None
    assert Parent.find(os.getpid()) is None


def test_a_process_that_is_no_ancestor_is_not_watched() -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            assert Parent.find(stranger.pid) is None
        finally:
            stranger.kill()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.slow
def test_an_ancestor_is_told_from_another_process_with_its_number() -> None:
    script = (
        "import os, sys; from aish_lsp.lsp.lifecycle import Parent;"
        "parent = Parent.find(int(sys.argv[1]));"
        "print(parent is not None, parent.gone(), Parent(parent.pid, '0').gone())"
    )
    command = f'{sys.executable} -c "{script}" {os.getpid()}; true'
    out = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "False", "True"], out.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_zombie_is_gone() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        parent = Parent(child.pid, started)
        assert not parent.gone()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert parent.gone()


def test_a_network_clients_process_is_not_watched() -> None:
    lifecycle = Lifecycle()
    lifecycle.watch_parent(os.getppid())
    assert lifecycle._parent is None
    lifecycle.watches_parent = True
    lifecycle.watch_parent(None)
    assert lifecycle._parent is None


def test_the_first_reason_to_end_counts() -> None:
    lifecycle = Lifecycle()
    lifecycle.end("first", 0)
    lifecycle.end("second", 1)
    assert lifecycle._code == 0
