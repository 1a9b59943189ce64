"""What answers show and leave in a scratch folder, by kinds that were once answered wrongly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for name, text in (
        ("big/data.bin", "x" * 600_000),
        ("small/a.py", "# one\nTODO\n\nprint()\n"),
        ("small/b.py", "TODO\n"),
        ("big/c.py", "TODO # no comment\n"),
        ("names.txt", "bob\nann\nbob\ncid\nann\nbob\n"),
        (".git/config", "x\n"),
        ("small/.git/config", "x\n"),
        ("small/notes.git", "x\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def does(world: Path, question: str) -> set[str]:
    """Return the lines that the answer's one command prints, without blanks around them."""
    told = reply(TypedQuestion(question), world).splitlines()
    (command,) = [line.removeprefix("CMD: ") for line in told if line.startswith("CMD: ")]
    done = subprocess.run(
        ["bash", "-c", command], check=False, cwd=world, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {" ".join(line.split()) for line in done.stdout.splitlines()}


@pytest.mark.parametrize(
    "question",
    ["directories bigger than 500 KB", "find directories larger than 500KB"],
)
def test_a_folder_is_as_large_as_what_is_in_it(world: Path, question: str) -> None:
    assert {line.split()[1] for line in does(world, question)} == {"./big", "."}


def test_folders_are_ranked_by_what_is_in_them(world: Path) -> None:
    shown = does(world, "the 2 largest folders, not following other disks")
    assert {line.split()[1] for line in shown} == {".", "./big"}


def test_what_is_mine_is_found_by_my_own_name(world: Path) -> None:
    assert "./names.txt" in does(world, "find all files owned by me")
    assert does(world, "files not owned by me") == set()


def test_files_with_a_text_are_counted_in_each_folder(world: Path) -> None:
    shown = does(world, "count the files containing TODO per folder")
    assert shown == {"2 ./small", "1 ./big"}


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("lines that appear only twice in names.txt", {"ann"}),
        ("lines that occur exactly 3 times in names.txt", {"bob"}),
        ("lines that appear only once in names.txt", {"cid"}),
        ("count lines of small/a.py not counting comments", {"3"}),
        ("count lines of big/c.py without comments", {"1"}),
    ],
)
def test_lines_are_shown_by_how_often_they_are_there_and_counted_without_comments(
    world: Path, question: str, shown: set[str]
) -> None:
    assert does(world, question) == shown


def test_a_folder_that_is_left_out_is_no_extension(world: Path) -> None:
    does(world, "copy small to backup without .git")
    assert sorted(path.name for path in (world / "backup").rglob("*.git")) == ["notes.git"]


@pytest.mark.parametrize(
    ("question", "mode"),
    [
        ("make names.txt executable so that nobody but me can run it", 0o700),
        ("set the permissions of names.txt so that only i can read it", 0o600),
        ("make names.txt executable", 0o755),
    ],
)
def test_who_may_use_a_file_is_what_was_said(world: Path, question: str, mode: int) -> None:
    (world / "names.txt").chmod(0o644)
    does(world, question)
    assert (world / "names.txt").stat().st_mode & 0o777 == mode


def test_a_file_that_is_to_be_kept_is_still_there_after_compressing(world: Path) -> None:
    does(world, "compress names.txt with gzip but i also want to keep the original file")
    assert (world / "names.txt").exists()
    assert (world / "names.txt.gz").exists()
