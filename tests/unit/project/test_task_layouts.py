"""What the offline model answers for kinds of projects, and that the answers work.

With ``AISH_FULL=1`` the commands are run, where the tools are there; what is skipped is told.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from task_layouts import QUESTIONS, Layout
from tasks_page import LAYOUTS

from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.project.manifests import find_tasks

FULL = os.environ.get("TESTS_FULL") == "1"

#: Seconds for one command; many fetch what they need.
PATIENCE = 300

_SOURCE = re.compile(r"^(?:To .* here \(from (.*)\)|(?:Or|And), from (.*)):$")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def answered(text: str) -> str:
    """Return the commands of a reply, each with the source that it names for them."""
    told: list[tuple[str, list[str]]] = []
    commands: list[str] = []
    for line in text.split("\n"):
        source = _SOURCE.match(line)
        if line.startswith("CMD: "):
            commands.append(line.removeprefix("CMD: "))
        else:
            commands = []
        if source is not None:
            told.append((source[1] or source[2], commands))
    return "\n".join(f"{source}: {' && '.join(commands)}" for source, commands in told)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_question_is_answered_for_the_project(root: Path, layout: Layout) -> None:
    layout.write(root)
    found = {
        intent: answered(reply(TypedQuestion(question), root))
        for intent, question in QUESTIONS.items()
    }
    assert found == {intent: layout.answers.get(intent, "") for intent in QUESTIONS}


def test_there_are_many_kinds_and_none_twice() -> None:
    names = [layout.name for layout in LAYOUTS]
    assert len(set(names)) == len(names) >= 50


@pytest.mark.skipif(not FULL, reason="runs with AISH_FULL=1")
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.timeout(PATIENCE * 10)
def test_the_commands_work(root: Path, layout: Layout) -> None:
    missing = [program for program in layout.needs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"NOT RUN, for want of {', '.join(missing)}")
    if not layout.runs:
        pytest.skip("NOT RUN: nothing of it can be run here")
    layout.write(root)
    # The user of the tests has an empty home; Rust's tools lie in that of the real one.
    rustup = Path(pwd.getpwuid(os.getuid()).pw_dir, ".rustup")
    environment = {"RUSTUP_HOME": str(rustup), **os.environ, **layout.environment}
    if layout.prepare:
        run(layout.prepare, root, environment)
    for intent in layout.runs:
        run(layout.answers[intent].split("\n")[0].partition(": ")[2], root, environment)


def run(command: str, root: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.skipif(not FULL, reason="runs with AISH_FULL=1")
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_the_terminal_is_answered_the_same(root: Path, layout: Layout) -> None:
    layout.write(root)
    command = [sys.executable, "-m", "aish_lsp", "ask", "How do I build and test this?"]
    done = subprocess.run(
        [*command, "--workspace", str(root)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    wanted = [layout.answers[intent] for intent in ("build", "test") if intent in layout.answers]
    assert answered(done.stdout) == "\n".join(wanted)


def test_what_is_found_depends_on_the_files_alone(root: Path, tmp_path: Path) -> None:
    layout = next(layout for layout in LAYOUTS if "front end" in layout.name)
    layout.write(root)
    shutil.copytree(root, tmp_path / "again" / "project")
    assert find_tasks(root) == find_tasks(tmp_path / "again" / "project")
