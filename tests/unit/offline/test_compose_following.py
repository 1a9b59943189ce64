"""Questions that go on from the one before, read by the grammar of files and of lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline.compose import compose
from aish_lsp.offline.workspace import Machine, WorkspaceFacts


@pytest.fixture
def world(tmp_path: Path) -> WorkspaceFacts:
    for name in ("src/a.py", "tests/b.py", "docs/c.md", "app.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return WorkspaceFacts(tmp_path, Machine("linux", "/usr/bin:/bin", tmp_path))


def told(world: WorkspaceFacts, *sentences: str) -> str:
    composed = compose(sentences[-1], world, sentences[:-1])
    return composed.command if composed else ""


@pytest.mark.parametrize(
    ("sentences", "command"),
    [
        (("find all python files in src", "and in tests?"), "find tests -type f -name '*.py'"),
        (("find all python files in src", "what about md files"), "find src -type f -name '*.md'"),
        (("find files older than 30 days", "older than 60 days"), "find . -type f -mtime +60"),
        (
            ("find files larger than 10 MB", "only the last week's", "how many are there?"),
            "find . -type f -size +10M -mtime -7 | wc -l",
        ),
        (("find all log files", "how many?", "list the folders"), "find . -type d"),
        (("count the lines of app.log", "and words?"), "wc -w < app.log"),
        (("sort app.log", "and remove duplicates"), "sort -u app.log"),
        (
            ("find all python files in src", "make them executable"),
            "find src -type f -name '*.py' -exec chmod +x {} +",
        ),
        (
            ("show the lines with ERROR in app.log", "only the last 5", "sort them"),
            "grep ERROR app.log | tail -n 5 | sort",
        ),
        (
            ("sort app.log by column 2", "in reverse", "only the first 5"),
            "sort -r -k 2,2 app.log | head -n 5",
        ),
    ],
)
def test_what_is_said_takes_the_place_of_what_was_or_is_added(
    world: WorkspaceFacts, sentences: tuple[str, ...], command: str
) -> None:
    assert told(world, *sentences) == command


@pytest.mark.parametrize(
    "sentences",
    [
        ("delete those files",),
        ("how much memory is free", "delete those files"),
        ("how much memory is free", "find the files and delete them"),
        ("show the lines with ERROR in app.log", "delete those files"),
        # A clause that is not understood is not dropped.
        ("find all python files", "delete them unless they are mine"),
        ("find all python files", "only the ones that nobody needs"),
        # What is limited cannot be done with all of them.
        ("find all python files", "the largest 3", "change their mode to 644"),
        ("find all python files", "the largest 3", "how many lines do they have?"),
        ("find all python files", "show the first 3 of them", "delete them"),
        # The three that are left may not be those that were shown.
        ("the 3 largest files", "delete everything except app.log"),
    ],
)
def test_nothing_is_composed_where_it_is_not_clear_which_files_are_meant(
    world: WorkspaceFacts, sentences: tuple[str, ...]
) -> None:
    assert told(world, *sentences) == ""


def test_a_deletion_is_not_repeated_by_a_question_about_the_files(world: WorkspaceFacts) -> None:
    command = told(world, "delete all .log files", "how many are there?")
    assert command == "find . -type f -name '*.log' | wc -l"


def test_one_of_them_is_meant_where_no_number_is_said(world: WorkspaceFacts) -> None:
    assert "head -n 1 " in told(world, "find all python files", "the largest?")
    assert "head -n 10 " in told(world, "find all python files", "only the largest ones")
