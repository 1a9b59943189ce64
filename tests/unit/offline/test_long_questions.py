"""Long and roundabout questions: what says nothing is passed over, and nothing else is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aish_lsp.offline import is_unknown
from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import Machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("src", "docs", "photos", "tests", "build"):
        (tmp_path / name).mkdir()
    for name in ("notes.txt", "a.txt", "b.txt", "words.txt", "data.csv", "config.ini", "app.log"):
        (tmp_path / name).write_text("age,size\n1,2\n")
    (tmp_path / "backup.tar.gz").write_bytes(b"")
    return tmp_path


def answer(root: Path, question: str) -> str:
    return reply(TypedQuestion(question), root, Machine("linux", "/usr/bin:/bin", root))


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (
            "my boss wants to know how many python files we have in src, not counting the tests",
            "find src -type f -name '*.py' -not -name tests -not -path '*/tests/*' | wc -l",
        ),
        (
            "I need every file in docs that is a png or a jpg, sorted by size",
            r"find docs -type f \( -name '*.png' -o -name '*.jpg' \) -printf '%s %p\n' | sort -rn",
        ),
        (
            "which files in docs mention the word foo, without regard to upper and lower case",
            "grep -rli foo docs",
        ),
        (
            "show me just the second and third columns of data.csv, without the header",
            "tail -n +2 data.csv | cut -d , -f 2,3",
        ),
        (
            "I'm looking for all folders called node_modules, wherever they are",
            "find . -type d -name node_modules",
        ),
        (
            "I need to know which files nobody has touched for more than half a year",
            "find . -type f -not -mtime -180",
        ),
        ("which of my files can be written by everybody", "find . -type f -perm -a+w"),
        (
            "could you list the files in docs together with their sizes, largest first",
            r"find docs -type f -printf '%s %p\n' | sort -rn",
        ),
        (
            "I want to join the files a.txt and b.txt into one file called both.txt",
            "cat a.txt b.txt > both.txt",
        ),
        (
            "count the lines that have the word INFO in app.log but not the ones with DEBUG",
            "grep INFO app.log | grep -v DEBUG | wc -l",
        ),
        (
            "I need the words in words.txt in alphabetical order, each of them once",
            r"tr -cs '[:alnum:]' '\n' < words.txt | sort -u",
        ),
        ("how do I turn the semicolons in data.csv into commas", "sed -i 's/;/,/g' data.csv"),
        (
            "make a list of all the javascript files and store it in js_files.txt",
            "find . -type f -name '*.js' > js_files.txt",
        ),
        ("please tell me what is in the archive backup.tar.gz", "tar -tf backup.tar.gz"),
        (
            "extract only the .md files from backup.tar.gz",
            "tar -xf backup.tar.gz --wildcards '*.md'",
        ),
        ("tell me how many folders there are in src", "find src -mindepth 1 -type d | wc -l"),
    ],
)
def test_a_long_question_gets_the_command_for_all_that_it_says(
    root: Path, question: str, command: str
) -> None:
    assert answer(root, question).split("\nCMD: ")[1:] == [command]


@pytest.mark.parametrize(
    "question",
    [
        "which files in src are not tracked by git",
        "delete the files that I do not need",
        "delete files i don't need",
        "my boss says not to delete the log files",
        "the manual says delete build",
        "my colleague told me that you can delete the file notes.txt",
        "the error says remove the file notes.txt",
        "delete a number of files in build",
        "make a list of all log files and delete it",
        "delete files in src with no TODO",
        "delete folders without tests",
        "delete folders with no docs",
        "tell me if I can delete build",
        "would it be ok to delete build",
    ],
)
def test_a_question_that_only_asks_or_says_too_little_changes_nothing(
    root: Path, question: str
) -> None:
    assert is_unknown(answer(root, question))


def test_an_average_and_extremes_leave_the_header_out(root: Path) -> None:
    command = answer(root, "the average of the second column of data.csv").split("CMD: ")[1]
    assert "[0-9]" in command


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("find lines containing 'a lot of' in notes.txt", "grep 'a lot of' notes.txt"),
        ('delete the lines with "get rid of" in a.txt', "sed -i '/get rid of/d' a.txt"),
        ("I'm about to delete the folder photos, what is in it", "ls -la photos"),
        ("delete all files in docs. I do not need other files", "find docs -type f -delete"),
        ("do git push", "git push"),
    ],
)
def test_no_rewriting_changes_the_sense(root: Path, question: str, command: str) -> None:
    subprocess.run(["git", "init", "-q", root], check=True)
    assert answer(root, question).split("\nCMD: ")[1:] == [command]


def test_of_what_was_listed_not_all_is_deleted_where_a_condition_is_named(root: Path) -> None:
    question = TypedQuestion(
        "delete all files that don't contain import", earlier=("find all py files in src",)
    )
    assert "-delete" not in reply(question, root, Machine("linux", "/usr/bin:/bin", root))


def test_no_output_overwrites_its_input(root: Path) -> None:
    assert "CMD:" not in answer(root, "combine a.txt and b.txt into one file a.txt")
