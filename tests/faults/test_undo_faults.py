"""Undo where the disk is full or denied, where a server dies, and where two work at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from client import Client
from conversing import yes
from mounts import run_on_a_small_disk

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

WORKER = """
import shutil, threading
from aish_lsp.undo.git import Git, NoUndo
from aish_lsp.undo.work import Worker

os.environ["AISH_DATA_DIR"] = str(disk / "data")

def git(*arguments):
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)

def no_snapshot(work, *words):
    try:
        work()
    except (NoUndo, AishError, OSError) as error:
        assert any(word in str(error) for word in words), error
        return True
    return False

root = disk / "work"
root.mkdir()
git("init", "-q", "--template=")
(root / "a").write_text("one")
worker = Worker(root, lambda top: Git(top, 60, threading.Event()))
"""

FULL = """
begun = worker.begin("one", "x")
(root / "a").write_text("two")
worker.finish(begun)
(root / "b").write_text("three")
fill()
assert no_snapshot(lambda: worker.begin("two", "y"), "No space left", "unable to write")
assert no_snapshot(lambda: worker.revert(frozenset(), decided=False), "No space", "unable to write")
assert (root / "a").read_text() == "two"
make_room()
assert worker.revert(frozenset(), decided=False).restored == (b"a",)
assert (root / "a").read_text() == "one"
"""

#: A file of which the disk has no room for a copy.
TOO_LARGE = """
(root / "large").write_bytes(os.urandom(150_000))
assert no_snapshot(lambda: worker.begin("one", "x"), "No space left")
(root / ".git/info").mkdir(exist_ok=True)
(root / ".git/info/exclude").write_text("large")
worker.begin("two", "x")
"""

DENIED = """
everything, disk = disk, disk / denied_part
deny()
if denied_part == "data":
    assert no_snapshot(lambda: worker.begin("one", "x"), "ermission", "Read-only file system")
    allow()
begun = worker.begin("one", "x")
(root / "a").write_text("two")
worker.finish(begun)
assert worker.revert(frozenset(), decided=False).restored == (b"a",)
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("AISH_DATA_DIR", str(folder))
    return folder


def test_on_a_full_disk_there_is_no_snapshot_and_nothing_is_half_undone(tmp_path: Path) -> None:
    run_on_a_small_disk(WORKER + FULL, tmp_path / "disk")


def test_a_file_that_had_no_room_takes_none_later(tmp_path: Path) -> None:
    run_on_a_small_disk(WORKER + TOO_LARGE, tmp_path / "disk")


@pytest.mark.parametrize("denied", ["read-only", "forbidden"])
@pytest.mark.parametrize("part", ["data", "work/.git"])
def test_nothing_is_written_to_the_repository_and_without_a_data_folder_there_is_no_snapshot(
    tmp_path: Path, denied: str, part: str
) -> None:
    script = f"{WORKER}(disk / 'data').mkdir()\ndenied_part = {part!r}\n{DENIED}"
    run_on_a_small_disk(script, tmp_path / "disk", denied)


def repository(root: Path) -> Path:
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "a").write_text("one")
    return root


async def run(client: Client, text: str, token: str) -> Any:
    client.answers["window/showMessageRequest"] = yes
    return await client.command_result("aish.run", {"text": text, "partialResultToken": token})


async def test_after_a_server_was_killed_what_its_command_did_is_asked_about(
    tmp_path: Path, data: Path
) -> None:
    root = repository(tmp_path / "work")
    async with Client() as client:
        await client.initialize(root)
        client.answers["window/showMessageRequest"] = yes
        argument = {"text": "echo two > a; echo ready; sleep 600", "partialResultToken": "t"}
        await client.begin(
            "workspace/executeCommand", {"command": "aish.run", "arguments": [argument]}
        )
        await client.wait_for(
            lambda: any("ready" in event.get("delta", "") for event in client.progress["t"]),
            "its output",
        )
        assert client.process is not None
        os.kill(client.process.pid, signal.SIGKILL)
        await client.ended()
    async with Client() as client:
        await client.initialize(root)
        asked: list[str] = []

        def agree(params: Any) -> Any:
            asked.append(params["message"])
            return yes(params)

        client.answers["window/showMessageRequest"] = agree
        undone = await client.command_result("aish.undo")
        assert undone == {"restored": ["a"], "removed": [], "conflicts": []}
        earlier, unseen = asked
        assert "echo two > a; echo ready; sleep 600" in earlier
        assert "may not be as the command left them" in unseen
        assert (root / "a").read_text() == "one"


async def test_two_servers_in_one_work_tree_take_turns(tmp_path: Path, data: Path) -> None:
    root = repository(tmp_path / "work")
    async with Client() as one, Client() as two:
        await asyncio.gather(one.initialize(root), two.initialize(root))
        for number in range(3):
            await asyncio.gather(
                run(one, f"echo {number} > one.txt", f"one{number}"),
                run(two, f"echo {number} > two.txt", f"two{number}"),
            )
        notices = [
            event
            for client in (one, two)
            for under in client.progress.values()
            for event in under
            if event["kind"] == "notice"
        ]
        assert notices == []
    assert len(list(data.glob("workspaces/*/undo/*.record"))) == 6


def test_a_snapshot_killed_at_any_time_leaves_the_next_one_free(tmp_path: Path, data: Path) -> None:
    root = repository(tmp_path / "work")
    for number in range(400):
        (root / f"file{number}").write_text(f"{number}\n" * 100)
    script = (
        "import sys, threading; from pathlib import Path\n"
        "from aish_lsp.undo.git import Git; from aish_lsp.undo.work import Worker\n"
        "worker = Worker(Path(sys.argv[1]), lambda top: Git(top, 60, threading.Event()))\n"
        "print('ready', flush=True)\n"
        "begun = worker.begin(sys.argv[2], 'x')\n"
        "(Path(sys.argv[1]) / 'a').write_text(sys.argv[2])\n"
        "worker.finish(begun)\n"
    )
    command = [sys.executable, "-c", script, str(root)]
    for number in range(8):
        with subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.012 * number)
            process.kill()
    (root / "a").write_text("one")
    subprocess.run([*command, "two"], check=True, capture_output=True)
    script = (
        script.partition("begun")[0] + "print(worker.revert(frozenset(), decided=False).restored)"
    )
    done = subprocess.run([*command[:2], script, str(root)], check=True, capture_output=True)
    assert done.stdout.split(b"\n")[1] == b"(b'a',)"
    assert (root / "a").read_text() == "one"
