"""A program that knows all about undo, run as a step of a goal: it forges nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from machine import without_namespaces
from swapping import swapped

from aish_lsp.foundation.errors import NotFound
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import RunResult, run_command
from aish_lsp.undo.git import Git
from aish_lsp.undo.records import undo_folder
from aish_lsp.undo.work import Worker

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

#: Writes whatever it can of what an undo could believe: records in the data folder, with names that
#: lead to the file beside the tree.
PROGRAM = """
import hashlib, json, os, sys
records, beside = sys.argv[1:]

def attempt(work):
    try:
        work()
    except OSError as error:
        print(type(error).__name__)

def into_data():
    names = os.listdir(records)
    for name in sorted(names):
        if name.endswith(".record"):
            text = open(f"{records}/{name}").read().partition("\\n")[2]
            record = json.loads(text)
            [change] = record["changes"].values()
            record["changes"] = {"../beside": change, "d/x": change}
            data = json.dumps(record).encode()
            seal = hashlib.sha256(data).hexdigest().encode()
            open(f"{records}/00000099.record", "wb").write(seal + b"\\n" + data)
            os.link(f"{records}/{name}", "d/linked")
            os.rename(f"{records}/{name}", f"{records}/00000098.record")

attempt(into_data)
attempt(lambda: os.link(beside, "hard"))
attempt(lambda: os.symlink(os.path.dirname(beside), "out"))
attempt(lambda: open("a", "w").write("changed"))
"""


def worker(root: Path) -> Worker:
    return Worker(root, lambda top: Git(top, 60, threading.Event()))


def look(folder: Path, without: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if not path.is_relative_to(without))
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def repository(root: Path) -> Path:
    (root / "d").mkdir(parents=True)
    for name in ("a", "d/x", "beside.now"):
        (root / name).write_text("beside" if name == "beside.now" else "one")
    for arguments in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "beside").write_text("beside")
    return repository(tmp_path.resolve() / "work")


@pytest.mark.skipif(bool(without_namespaces()), reason=without_namespaces() or "there are some")
async def test_a_program_of_a_goal_forges_nothing(
    root: Path, tmp_path: Path, confinement: Confinement
) -> None:
    first = worker(root)
    begun = first.begin("first", "x")
    (root / "a").write_text("two")
    first.finish(begun)
    before = look(tmp_path, root)
    begun = worker(root).begin("second", "x")
    inside = (str(undo_folder(root)), str(tmp_path / "beside"))
    words = [sys.executable, "-I", "-c", PROGRAM, *inside]
    result = await run(confinement, root, shlex.join(words) + "; git --version")
    assert "changed" in (root / "a").read_text(), result.output
    worker(root).finish(begun)
    kept = {name: held for name, held in look(tmp_path, root).items() if name in before}
    assert {name for name, held in kept.items() if held != before[name]} <= {
        str(undo_folder(root) / "last")
    }
    with suppress(NotFound):
        for _ in range(9):
            worker(root).revert(None, decided=True, made=frozenset())
    assert (root / "a").read_text() == "one"
    assert (root / "d/x").read_text() == "one"
    assert (tmp_path / "beside").read_text() == "beside"
    assert not (root / ".envrc").exists()


async def run(confinement: Confinement, root: Path, text: str) -> RunResult:
    async def ignore(_stream: str, _delta: str) -> None:
        pass

    with await confinement.work_sandbox(root) as sandbox:
        return await run_command(
            text,
            cwd=root,
            shell="bash",
            timeout=90,
            env=os.environ,
            on_output=ignore,
            sandbox=sandbox,
        )


@pytest.mark.parametrize("kind", ["undo", "redo"])
def test_no_folder_that_is_swapped_with_a_link_leads_an_undo_out(
    root: Path, tmp_path: Path, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("theirs")
    for number in range(20):
        begun = worker(root).begin(f"command {number}", "x")
        (root / "d/x").write_text(f"{number}")
        (root / "d/new").write_text(f"{number}")
        worker(root).finish(begun)
        if kind == "redo":
            worker(root).revert(None, decided=True)
        with swapped(root / "d", outside), suppress(Exception):
            worker(root).revert(None, decided=True, kind="undo" if kind == "undo" else "redo")
        for left in (root / "d", root / "d.aside", root / "d.aside.link"):
            if left.is_symlink():
                left.unlink()
        if (root / "d.aside").exists():
            shutil.rmtree(root / "d", ignore_errors=True)
            (root / "d.aside").rename(root / "d")
        assert {path.name: path.read_text() for path in outside.iterdir()} == {"x": "theirs"}
