"""Whether an answer is sure, one of two, or none, and what misspelled words become."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline.choosing import Part
from aish_lsp.offline.model import is_unknown, reply
from aish_lsp.offline.spelling import corrected
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import WorkspaceFacts


def asked(root: Path, question: str) -> str:
    return reply(TypedQuestion(question), root)


def commands(answer: str) -> list[str]:
    lines = answer.split("\n")
    return [line.removeprefix("CMD: ") for line in lines if line.startswith("CMD: ")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("notes.txt", "todo.txt", "app.log"):
        (tmp_path / name).write_text("hello\n")
    for name in ("src", "photos"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_an_unsure_question_gets_at_most_two_commands_that_are_ready_to_run(root: Path) -> None:
    answer = asked(root, "number of error lines in app.log")
    assert answer.startswith("Perhaps one of these:\n")
    assert 1 <= len(commands(answer)) <= 2
    assert "grep -c -i -e error -- app.log" in commands(answer)
    assert "<" not in answer


def test_an_unknown_question_names_no_other_one(root: Path) -> None:
    answer = asked(root, "delete the moon of Jupiter with a rocket")
    assert is_unknown(answer)
    assert "*" not in answer


@pytest.mark.parametrize(
    "question",
    [
        "print the current directory tree with file permissions",
        "delete all files/directories older than 48 hours in /path/to/files* paths",
    ],
)
def test_a_question_with_a_clause_for_files_that_is_not_understood_gets_no_near_answer(
    root: Path, question: str
) -> None:
    assert is_unknown(asked(root, question))


@pytest.mark.parametrize(
    "question",
    [
        "copy src to /tmp but without the generated stubs",
        "zip photos unless it is over 10 MB",
        "show commits ignoring merges by dependabot",
        "remove the log files but only on tuesdays",
    ],
)
def test_a_clause_that_the_command_would_drop_is_never_dropped(root: Path, question: str) -> None:
    answer = asked(root, question)
    assert is_unknown(answer), answer


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("git stauts", "git status"),
        ("waht is using port 80", "what is using port 80"),
        ("hwo much disk space", "how much disk space"),
        ("unzp site.zip", "unzip site.zip"),
        ("kil process 99", "kill process 99"),
        ("creat a brnach called stauts", "creat a branch called stauts"),
        ('grep "stauts" app.log', 'grep "stauts" app.log'),
        ("cat stauts.txt --stauts", "cat stauts.txt --stauts"),
        ("is my cat mad", "is my cat mad"),
    ],
)
def test_a_misspelled_word_is_corrected_unless_it_may_be_a_name(
    root: Path, typed: str, meant: str
) -> None:
    assert corrected(typed, WorkspaceFacts(root)) == meant


def test_the_name_of_a_file_is_kept_although_it_looks_misspelled(root: Path) -> None:
    (root / "stauts").touch()
    assert corrected("show stauts", WorkspaceFacts(root)) == "show stauts"


def test_a_command_is_ready_if_nothing_in_it_is_to_be_filled_in() -> None:
    assert Part("", ("ls -la",)).is_ready
    assert not Part("", ("rm -- <file>",)).is_ready
    assert not Part("Nothing to run.").is_ready


@pytest.mark.parametrize(
    "question",
    [
        "in data.csv there are some lines without anything in them, can you get rid of those",
        "convert main.py to typescript",
    ],
)
def test_an_unsure_question_is_offered_nothing_that_loses_or_changes_something_else(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / "data.csv").touch()
    (tmp_path / "main.py").touch()
    assert is_unknown(asked(tmp_path, question))
