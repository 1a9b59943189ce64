"""The sentence above a composed command: plain English for what the command does."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline.compose import compose
from aish_lsp.offline.workspace import WorkspaceFacts

HERE = "in this folder and its subfolders"


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("the largest files", f"Shows the 10 largest files {HERE}."),
        ("the newest file in src", "Shows the newest file in src and its subfolders."),
        (
            "delete all log files older than 7 days",
            f"Deletes the files named `*.log` {HERE}, only those older than 7 days.",
        ),
        (
            "which files contain the word TODO?",
            f"Lists the files {HERE}, only those that contain the word `TODO`.",
        ),
        (
            "find files larger than 10 MB in src/ and docs/",
            "Lists the files in src/ and docs/ and their subfolders, only those larger than 10 MB.",
        ),
        ("which folders are empty?", f"Lists the empty folders {HERE}."),
        (
            "find files not named *.py or *.txt",
            f"Lists the files not named `*.py` or `*.txt` {HERE}.",
        ),
        (
            "search for TODO in all py files",
            f"Shows the lines with `TODO` in the files named `*.py` {HERE}.",
        ),
        (
            "replace foo with bar in all py files",
            f"For each of the files named `*.py` {HERE}: replace foo with bar.",
        ),
        (
            "move all jpg files to pics/",
            f"Moves the files named `*.jpg` {HERE} to pics/.",
        ),
        ("sort names.txt and remove duplicates", "To sort `names.txt` and remove duplicates:"),
        ("how many lines does names.txt have?", "For “how many lines does `names.txt` have”:"),
        ("last 20 lines of names.txt", "For “last 20 lines of `names.txt`”:"),
        (
            "remove the blank lines from names.txt",
            "To remove the blank lines from `names.txt`, in the file itself:",
        ),
    ],
)
def test_a_composed_command_is_introduced_in_plain_english(
    question: str, says: str, tmp_path: Path
) -> None:
    for name in ("src", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "names.txt").touch()
    composed = compose(question, WorkspaceFacts(tmp_path))
    assert composed is not None
    assert composed.says == says


def test_what_goes_on_from_lines_says_both(tmp_path: Path) -> None:
    composed = compose("only the first 3", WorkspaceFacts(tmp_path), ["sort names.txt"])
    assert composed is not None
    assert composed.says == "To sort `names.txt`; only the first 3:"
