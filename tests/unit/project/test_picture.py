"""The picture as it is kept up to date, without an editor: who tells what, and what is believed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from test_project_files import git, needs_git, no_git, root, write

from aish_lsp.config.schema import ProjectSettings
from aish_lsp.project import current
from aish_lsp.project import picture as picture_module
from aish_lsp.project.files import FileListing, FolderScan
from aish_lsp.project.picture import ProjectPicture
from aish_lsp.project.tree import Tree, tree

__all__ = ["no_git", "root"]

pytestmark = needs_git


@pytest.fixture
async def picture(root: Path) -> AsyncIterator[ProjectPicture]:
    git(root, "init", "-q")
    made = ProjectPicture(root)
    yield made
    await made.aclose()


async def drawn(picture: ProjectPicture, **shape: int) -> str:
    await picture.refresh(ProjectSettings(**shape), patience=None)  # type: ignore[arg-type]
    return picture.block.block


class Counted:
    """Counts scans."""

    def __init__(self, picture: ProjectPicture) -> None:
        self.scans: list[FolderScan] = []
        assert picture.files is not None
        picture.files.on_scan(self._began)

    def _began(self, scan: FolderScan, _work: asyncio.Task[FileListing]) -> None:
        self.scans.append(scan)


async def test_who_watches_is_believed_until_too_much_is_told(
    picture: ProjectPicture, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py", "deep/er/b.py")
    monkeypatch.setattr(current, "PENDING_LIMIT", 3)
    await drawn(picture, depth=1)
    assert picture.files is not None
    picture.files.watch()
    await drawn(picture, depth=1)
    await drawn(picture, depth=1)
    counted = Counted(picture)
    write(root, *(f"deep/er/{number}.py" for number in range(5)))
    assert "2 files" not in await drawn(picture, depth=1)
    picture.files.changed(["deep/er/0.py", "deep/er/1.py", "deep/er/0.py"])
    assert "deep/ … 3 files" in await drawn(picture, depth=1)
    assert not counted.scans
    picture.files.changed([f"deep/er/{number}.py" for number in range(5)])
    assert "deep/ … 6 files" in await drawn(picture, depth=1)
    assert len(counted.scans) == 1


async def test_what_git_adds_where_all_is_ignored_is_seen(
    picture: ProjectPicture, root: Path
) -> None:
    write(root, "a.py")
    write(root, ".gitignore", text="*\n")
    assert picture.files is not None
    picture.files.watch()
    for _ in range(3):
        assert await drawn(picture) == ""
    git(root, "add", "-f", "a.py")
    assert await drawn(picture) == "./\n  a.py"


async def test_a_new_shape_is_drawn_without_a_new_scan(picture: ProjectPicture, root: Path) -> None:
    write(root, "src/a.py", "src/deep/b.py")
    await drawn(picture)
    assert picture.files is not None
    picture.files.watch()
    await drawn(picture)
    await drawn(picture)
    counted = Counted(picture)
    assert await drawn(picture, depth=1) == "./\n  src/ … 2 files"
    assert "b.py" in await drawn(picture)
    assert await drawn(picture, max_chars=5) == ""
    picture.shape(2, 4000)
    assert await drawn(picture, max_chars=5) == "./\n  src/\n    deep/ … 1 file\n    a.py"
    assert not counted.scans


async def test_what_was_changed_of_late_is_opened_first(
    picture: ProjectPicture, root: Path
) -> None:
    names = [f"{folder}/module_{n}.py" for folder in ("one", "two", "tests") for n in range(10)]
    write(root, *names)
    assert "tests/ … 10 files" in await drawn(picture, max_chars=250)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "all")
    assert "tests/ … 10 files" in await drawn(picture, max_chars=250)
    write(root, "tests/module_3.py", text="changed")
    git(root, "commit", "-q", "-a", "-m", "one")
    by_commits = await drawn(picture, max_chars=250)
    assert "tests/\n" in by_commits
    assert "two/ … 10 files" in by_commits
    assert await drawn(picture, max_chars=250) == by_commits
    assert picture.files is not None
    for number in range(60):
        picture.files.edited(f"two/no_such_{number}.py")
    picture.files.edited("two/module_1.py")
    assert "two/\n" in await drawn(picture, max_chars=360)


async def test_a_scan_that_is_stopped_is_not_begun_again_unasked(
    picture: ProjectPicture, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    counted = Counted(picture)
    assert picture.files is not None
    picture.files.on_scan(lambda scan, _work: scan.stop())
    await drawn(picture)
    assert picture.block.truncated
    await drawn(picture)
    assert len(counted.scans) == 1
    picture.renew()
    await drawn(picture)
    assert len(counted.scans) == 2


async def test_nobody_waits_for_a_scan_longer_than_asked(
    picture: ProjectPicture, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "slow" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'slow'}{os.pathsep}{os.environ['PATH']}")
    await picture.refresh(ProjectSettings(), patience=0.1)
    assert picture.block.block == ""
    await picture.aclose()


async def test_closing_ends_every_look(
    picture: ProjectPicture, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look waits for another: both end."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "slow" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'slow'}{os.pathsep}{os.environ['PATH']}")
    counted = Counted(picture)
    await picture.refresh(ProjectSettings(), patience=0.1)
    await picture.refresh(ProjectSettings(), patience=0.1)
    await picture.aclose()
    assert [scan.stopped for scan in counted.scans] == [True]


async def test_questions_at_once_share_a_look(picture: ProjectPicture, root: Path) -> None:
    write(root, "a.py")
    counted = Counted(picture)
    await asyncio.gather(*(drawn(picture) for _ in range(20)))
    assert len(counted.scans) <= 3


async def test_a_list_is_not_changed_while_it_is_drawn(
    picture: ProjectPicture, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that somebody looks for just then is taken in behind it."""
    write(root, *(f"src/f{number}.py" for number in range(10)))
    git(root, "add", ".")
    begun, goes_on = threading.Event(), threading.Event()

    def slow(names: list[str], **options: Any) -> Tree:
        before = list(names)
        begun.set()
        goes_on.wait(10)
        assert names == before
        return tree(names, **options)

    assert picture.files is not None
    await picture.files.update()
    monkeypatch.setattr(picture_module, "tree", slow)
    drawing = asyncio.create_task(drawn(picture))
    await asyncio.to_thread(begun.wait, 10)
    (root / "src/f3.py").unlink()
    picture.files.changed(["src/f3.py"])
    checking = asyncio.create_task(picture.files.update())
    await asyncio.sleep(0.3)
    goes_on.set()
    await drawing
    await checking


async def test_a_folder_that_goes_is_empty(picture: ProjectPicture, root: Path) -> None:
    write(root, "a.py")
    assert await drawn(picture) == "./\n  a.py"
    root.rename(root.with_name("away"))
    assert await drawn(picture) == ""
    root.write_text("a file in its place")
    assert await drawn(picture) == ""
    root.unlink()
    root.with_name("away").rename(root)
    assert await drawn(picture) == "./\n  a.py"


@pytest.mark.parametrize("harm", ["corrupt", "locked", "unreadable", "folder"])
async def test_a_harmed_index(picture: ProjectPicture, root: Path, harm: str) -> None:
    write(root, "a.py", "b.log")
    write(root, ".gitignore", text="*.log\n")
    git(root, "add", ".")
    index = root / ".git" / "index"
    match harm:
        case "corrupt":
            index.write_bytes(b"DIRC nonsense" * 50)
        case "locked":
            (root / ".git" / "index.lock").touch()
        case "unreadable":
            index.chmod(0)
        case "folder":
            index.unlink()
            index.mkdir()
    assert await drawn(picture) == "./\n  a.py\n  .gitignore"


async def test_the_users_own_ignore_file_counts_everywhere(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a repository, outside of one, and where git is not asked about a change."""
    home = tmp_path / "home"
    write(home, ".gitconfig", text="[core]\n\texcludesFile = ~/mine\n")
    write(home, "real", text="*.mine\n")
    (home / "mine").symlink_to(home / "real")
    monkeypatch.setenv("HOME", str(home))
    for repository in (False, True):
        if repository:
            git(root, "init", "-q")
        write(root, "a.py", "b.mine")
        picture = ProjectPicture(root)
        assert await drawn(picture) == "./\n  a.py"
        assert picture.files is not None
        write(root, "c.mine", "d.py")
        picture.files.changed(["c.mine", "d.py"])
        assert await drawn(picture) == "./\n  a.py\n  d.py"
        (root / "d.py").unlink()
        await picture.aclose()
