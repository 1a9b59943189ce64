"""A question that names a program is answered with it, and what is no question of the shell not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline.deeds import agrees, ways_with
from aish_lsp.offline.model import is_unknown, reply
from aish_lsp.offline.results import Ran
from aish_lsp.offline.table import Intent, Way
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import Machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "requirements.txt").write_text("requests\n")
    (tmp_path / "notes.txt").write_text("notes\n")
    return tmp_path


def asked(root: Path, text: str, ran: Ran | None = None) -> str:
    tools = dict.fromkeys(("apt", "apt-get", "pip", "python3", "git", "npm", "make"), "/usr/bin/x")
    machine = Machine("linux", "/nowhere", root / "home", dict(tools))
    question = TypedQuestion(text, ran, ran is not None)
    return reply(question, root, machine)


@pytest.mark.parametrize(
    ("question", "program"),
    [
        ("outdated npm packages", "npm outdated"),
        ("audit npm packages for vulnerabilities", "npm audit"),
        ("brew install wget", "brew install wget"),
        ("install wget using homebrew", "brew install wget"),
        ("install requests with pip", "python3 -m pip install requests"),
    ],
)
def test_what_is_named_is_what_it_is_done_with(root: Path, question: str, program: str) -> None:
    assert program in asked(root, question)


def test_a_way_of_the_program_serves_whatever_is_installed() -> None:
    ways = (Way(("brew install {package}",), ("on:darwin", "given:package")), Way(("apt install",)))
    intent = Intent("packages", "install", "Installs it.", ways)
    assert ways_with(intent, ["brew"]) == (
        ways[0],
        Way(("brew install {package}",), ("given:package",)),
    )
    assert agrees(intent, "brew")
    assert not agrees(intent, "cargo")
    assert ways_with(intent, ["cargo"]) == ()


@pytest.mark.parametrize(
    "question",
    [
        "how are you",
        "how's your day",
        "write me a poem about linux",
        "what's the weather tomorrow",
        "best linux distro",
        "npm vs yarn which is better",
        "why does this function return none",
        "heroku logs",
        "create an s3 bucket with terraform",
    ],
)
def test_what_is_no_question_of_the_shell_is_not_answered(root: Path, question: str) -> None:
    assert is_unknown(asked(root, question))


FAILED = Ran("make build", 2, "make: *** No rule to make target 'build'.  Stop.")


@pytest.mark.parametrize(
    "question", ["why did that fail?", "what went wrong", "fix it", "and now?"]
)
def test_a_failed_command_is_mended_by_a_word_of_trouble(root: Path, question: str) -> None:
    assert "make" in asked(root, question, FAILED).lower()
    assert not is_unknown(asked(root, question, FAILED))


@pytest.mark.parametrize(
    ("question", "command"),
    [("how big is notes.txt", "notes.txt"), ("list the files", "ls"), ("what is my ip", "ip")],
)
def test_a_failed_command_is_not_mended_without_one(
    root: Path, question: str, command: str
) -> None:
    told = asked(root, question, FAILED)
    assert command in told
    assert "make" not in told


def test_a_question_beyond_the_table_is_none_of_what_failed(root: Path) -> None:
    assert is_unknown(asked(root, "recite the alphabet backwards in klingon", FAILED))
