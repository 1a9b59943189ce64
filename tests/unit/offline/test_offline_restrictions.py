"""A change that is asked for with a restriction heeds it, or is not sure."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion

#: Requests for a change, each of which alone is answered for certain.
_CHANGES: Final = (
    "delete the png files",
    "delete all .log files",
    "delete all files in tmp",
    "delete the folder build",
    "delete files older than 30 days",
    "delete empty folders",
    "remove notes.txt",
    "move the png files to backup",
    "make script.sh executable",
    "replace foo with bar in all txt files",
    "truncate app.log",
    "kill all node processes",
    "kill the process on port 3000",
    "undo my last commit",
    "discard all changes",
    "discard the changes in main.py",
    "delete untracked files",
    "delete all merged branches",
    "force push",
    "drop the last stash",
    "remove all stopped containers",
    "remove the container web",
    "npm uninstall express",
    "shut down the computer",
)
#: What is added to a request; a command that is the same without it passes it over.
_RESTRICTIONS: Final = (
    "{} without docs",
    "{} but not docs",
    "{} but not a.txt",
    "{} except a.txt",
    "{} except the newest one",
    "{}, but keep the newest 2",
    "{} only if it is old",
    "{} unless it is empty",
    "{}, some of them",
    "{}, but only half of them",
    "{} not owned by me",
    "{} that nobody uses",
    "{} but just show me",
    "{}, don't really do it",
    "{} instead of src",
    "{} apart from docs",
    "{} other than b.txt",
    "{} when it is done",
    "{} tomorrow",
    "{}, and only the first",
    "don't {}",
    "never {}",
    "did I {}",
    "should I {}",
    "what happens if I {}",
    "only pretend to {}",
)
_FILES: Final = (
    *("docs/a.md", "src/b.py", "tmp/x.tmp", "tmp/y.tmp", "build/app.o", "notes.txt", "a.txt"),
    *("b.txt", "app.log", "script.sh", "main.py", "logo.png", "docs/c.png", "package.json"),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    (folder / ".git").mkdir()
    (folder / "backup").mkdir()
    (folder / "docs/old").mkdir(parents=True)
    for name in _FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    return folder


def surely(root: Path, question: str) -> list[str]:
    """Return the commands of an answer that is sure; none of one that is not."""
    lines = reply(TypedQuestion(question), root).splitlines()
    if lines[0].startswith("Perhaps"):
        return []
    return [line for line in lines if line.startswith("CMD: ")]


@pytest.mark.parametrize("request_", _CHANGES)
def test_a_change_without_a_restriction_is_sure(root: Path, request_: str) -> None:
    assert surely(root, request_)


@pytest.mark.parametrize(
    ("request_", "restriction"),
    random.Random(1).sample(list(product(_CHANGES, _RESTRICTIONS)), 120),
)
def test_a_restriction_of_a_change_is_never_passed_over(
    root: Path, request_: str, restriction: str
) -> None:
    got = surely(root, restriction.format(request_))
    assert not got or got != surely(root, request_)


@pytest.mark.parametrize(
    "question",
    [
        "delete the last 2 lines of app.log",
        "delete every second line of a.txt",
        "there are a lot of .o files in build that I don't need any more, please delete them",
        "delete a.txt or b.txt",
        "kill the process on port 3000 or 3001",
        "replace foo with bar case insensitively in notes.txt",
        "delete all lines from app.log except those with ERROR",
    ],
)
def test_a_word_that_says_which_or_how_is_no_part_of_a_name_or_a_text(
    root: Path, question: str
) -> None:
    assert not surely(root, question)


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("remove write permission for others on all files in src", "-exec chmod o-w {} +"),
        ("delete tmp", "rm -r tmp"),
        ("delete the files with write permission for others in src", "-perm -o+w -delete"),
        ('replace "last 2" with "first 2" in a.txt', "sed -i 's/last 2/first 2/g' a.txt"),
    ],
)
def test_what_is_taken_away_or_changed_is_what_was_said(
    root: Path, question: str, command: str
) -> None:
    assert surely(root, question)[0].endswith(command)


def test_a_permission_that_is_to_be_taken_away_deletes_no_file(root: Path) -> None:
    assert "-delete" not in "".join(surely(root, "delete the write permission for others in src"))


def test_a_folder_that_is_to_be_deleted_is_no_package_that_is_uninstalled(root: Path) -> None:
    for name in ("docs/old", "build", "backup"):
        assert "uninstall" not in "".join(surely(root, f"delete {name}"))


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (
            "our disk is full, so delete the log files in tmp that are bigger than 1 MB",
            "find tmp -type f -name '*.log' -size +1M -delete",
        ),
        (
            "delete all png files in docs, I have a copy of them in backup",
            "find docs -type f -name '*.png' -delete",
        ),
    ],
)
def test_what_is_told_beside_a_request_adds_nothing_to_what_it_deletes(
    root: Path, question: str, command: str
) -> None:
    got = [one.removeprefix("CMD: ") for one in surely(root, question)]
    assert got == [command]


@pytest.mark.parametrize(
    "request_",
    [
        "delete all but {}",
        "delete all files except {}",
        "rm everything except {}",
        "delete everything in docs but {}",
    ],
)
def test_nothing_is_deleted_where_what_is_to_be_spared_is_not_there(
    root: Path, request_: str
) -> None:
    assert not surely(root, request_.format("a.tex"))
    assert surely(root, request_.format("a.txt")) or surely(root, request_.format("a.md"))
