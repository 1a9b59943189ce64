"""The list of files after changes that are told one by one, against what git then lists."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_project_files import git, needs_git, root, slow_git, write

from aish_lsp.project import current
from aish_lsp.project.current import CurrentFiles
from aish_lsp.project.files import FolderScan
from aish_lsp.project.git import ProjectGit

__all__ = ["root"]

pytestmark = needs_git


def listed_by_git(folder: Path) -> list[str]:
    gone = git(folder, "ls-files", "-z", "-d").split(b"\0")
    names = git(folder, "ls-files", "-z", "-c", "-o", "--exclude-standard").split(b"\0")
    return sorted(os.fsdecode(name) for name in {*names} - {*gone} if name)


def scanned(folder: Path) -> list[str]:
    return FolderScan(folder, None).run().names


class Told:
    """The files of a folder, of whose changes it is told; counts the scans."""

    def __init__(self, folder: Path) -> None:
        self.scans = 0
        self._files = CurrentFiles(folder)
        self._files.watch()
        for _ in range(2):  # what lies there is younger than the first list
            self.after()
        self._files.on_scan(lambda _scan, _work: self._scanned())
        self.after()
        self.scans = 0

    def _scanned(self) -> None:
        self.scans += 1

    def watch_over(self, prefix: str) -> None:
        self._files.watch_over([prefix])
        self.after()

    def after(self, *names: str) -> list[str]:
        """Return what is known after changes at ``names``."""
        self._files.changed(names)
        asyncio.run(self._files.update())
        return self._files.listing.names


@pytest.fixture
def repository(root: Path) -> Path:
    write(root, "a.py", "src/b.py", "src/deep/c.py", "build/out.o", "forced.log", "tests/t.py")
    write(root, ".gitignore", text="*.log\nbuild/\n")
    write(root, "src/.gitignore", text="*.tmp\n!keep.tmp\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "add", "-f", "forced.log")
    return root


def test_a_file_comes_and_goes(repository: Path) -> None:
    told = Told(repository)
    write(repository, "src/new.py", "src/x.tmp", "src/keep.tmp", "other.log", "build/more.o")
    names = ["src/new.py", "src/x.tmp", "src/keep.tmp", "other.log", "build/more.o"]
    assert "src/keep.tmp" in told.after(*names)
    assert told.after(*names) == listed_by_git(repository)
    (repository / "src/new.py").unlink()
    (repository / "a.py").unlink()
    assert told.after("src/new.py", "a.py") == listed_by_git(repository)
    assert not told.scans


@pytest.mark.parametrize("name", ["src/new.py", "? odd.py", "a\tb.py", "H 100644.py", "forced.log"])
def test_change_at_one_place_starts_git_once(
    repository: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (repository / "forced.log").unlink()
    told = Told(repository)
    write(repository, name)
    started: list[tuple[str, ...]] = []
    start = ProjectGit._start

    def noted(git: ProjectGit, *arguments: str) -> Any:
        started.append(arguments)
        return start(git, *arguments)

    monkeypatch.setattr(ProjectGit, "_start", noted)
    assert name in told.after(name)
    assert told.after(name) == listed_by_git(repository)
    assert not told.scans
    assert len(started) == 1


def test_a_folder_comes_and_goes_with_all_that_is_in_it(repository: Path) -> None:
    told = Told(repository)
    shutil.rmtree(repository / "src")
    assert told.after("src") == listed_by_git(repository)
    write(repository, "src/again.py", "moved/in/a.py", "moved/in/b.log")
    assert told.after("src", "moved") == listed_by_git(repository)
    write(repository, "moved/.gitignore", text="in/\n")
    assert told.after("moved/.gitignore") == listed_by_git(repository)
    assert "moved/in/a.py" not in told.after()
    assert not told.scans


def test_what_is_tracked_although_ignored_comes_back(repository: Path) -> None:
    write(repository, "build/kept/a.txt")
    git(repository, "add", "-f", "build/kept/a.txt")
    shutil.rmtree(repository / "build")
    told = Told(repository)
    (repository / "forced.log").unlink()
    assert "forced.log" not in told.after("forced.log")
    write(repository, "forced.log", "build/kept/a.txt")
    assert told.after("forced.log", "build") == listed_by_git(repository)
    assert {"forced.log", "build/kept/a.txt"} < set(told.after())


@pytest.mark.parametrize("name", ["", ".gitignore", ".git/index", ".git/info/exclude"])
def test_what_concerns_all_is_scanned(repository: Path, name: str) -> None:
    told = Told(repository)
    if name.startswith(".git/"):
        write(repository, name, text=name)
    write(repository, "never/told/of.py")
    assert "never/told/of.py" in told.after(name)
    assert told.scans == 1


def test_too_much_is_scanned(repository: Path) -> None:
    told = Told(repository)
    names = [f"many/{number}.py" for number in range(101)]
    write(repository, *names)
    assert told.after(*names) == listed_by_git(repository)
    assert told.scans == 1


@pytest.mark.parametrize("ignored", [20, 150, 300])
def test_a_change_beside_many_ignored_names_is_no_scan(repository: Path, ignored: int) -> None:
    write(repository, *(f"src/{number}.tmp" for number in range(ignored)))
    told = Told(repository)
    told.watch_over("src/")
    for name in ("src/one.py", "src/more.tmp", "src/two.py"):
        write(repository, name)
        assert told.after() == listed_by_git(repository)
    (repository / "src/one.py").unlink()
    assert told.after() == listed_by_git(repository)
    write(repository, "src/one.py")
    assert told.after() == listed_by_git(repository)
    assert not told.scans


def test_of_too_many_files_a_change_brings_the_new_one_only(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "FILE_LIMIT", 3)
    told = Told(repository)
    told.watch_over("")
    listed = [*told.after()]
    assert len(listed) == 3
    write(repository, "new.py")
    assert told.after() == sorted([*listed, "new.py"])
    assert not told.scans


@pytest.mark.parametrize("ignored", [20, 150])
def test_what_came_between_the_scan_and_the_first_look_is_found(
    repository: Path, ignored: int
) -> None:
    write(repository, *(f"src/{number}.tmp" for number in range(ignored)))
    told = Told(repository)
    write(repository, "src/one.py")
    told.watch_over("src/")
    assert told.after() == listed_by_git(repository)


async def test_a_change_is_not_forgotten_when_the_look_at_it_is_cancelled(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CurrentFiles(repository)
    files.watch()
    for _ in range(3):
        await files.update()
    write(repository, "new.py")
    files.changed(["new.py"])
    with monkeypatch.context() as patch:
        slow_git(tmp_path / "slow", tmp_path / "pid")
        patch.setenv("PATH", f"{tmp_path / 'slow'}:{os.environ['PATH']}")
        look = asyncio.create_task(files.update())
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        look.cancel()
        with suppress(asyncio.CancelledError):
            await look
    await files.update()
    assert "new.py" in files.listing


def test_what_is_none_of_ours_is_nothing(repository: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/x.py")
    (repository / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    (repository / "build" / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    os.mkfifo(repository / "pipe")
    (repository / "empty").mkdir()
    write(repository, "build/node_modules/x/.gitignore", ".git/objects/aa/bb", ".git/index.lock")
    write(repository, "inner/x.py")
    git(repository / "inner", "init", "-q")
    told = Told(repository)
    write(repository, "hidden/.gitignore", text="*\n")
    write(repository, "hidden/notes.md")
    before = list(told.after())
    assert "inner/" in before
    for name in [
        *("pipe", "empty", "hidden", "build", "build/link/x.py", "nothing/at/all", "a.py", "x\0y"),
        *("build/node_modules/x/.gitignore", "build/.git/index", "inner/x.py", "link/x.py"),
        *(".git/objects/aa/bb", ".git/index.lock", ".git/refs/heads/x", "inner/.git/index"),
        *("n" * 300, "*.py", ":(top)*", "link", "src/nothing.py"),
    ]:
        assert told.after(name) == before == listed_by_git(repository), name
    assert not told.scans


def test_a_repository_inside_comes_and_goes(repository: Path) -> None:
    write(repository, "module/x.py")
    told = Told(repository)
    git(repository / "module", "init", "-q")
    assert "module/" in told.after("module/.git/HEAD")
    assert told.after() == listed_by_git(repository)
    shutil.rmtree(repository / "module/.git")
    assert told.after("module/.git") == listed_by_git(repository)


def test_a_file_becomes_a_folder_and_a_folder_a_file(repository: Path) -> None:
    told = Told(repository)
    (repository / "a.py").unlink()
    write(repository, "a.py/x")
    shutil.rmtree(repository / "tests")
    write(repository, "tests")
    assert told.after("a.py", "tests") == sorted({*listed_by_git(repository)})


def test_a_sparse_checkout(repository: Path) -> None:
    git(repository, "config", "core.sparseCheckout", "true")
    git(repository, "update-index", "--skip-worktree", "a.py")
    (repository / "a.py").unlink()
    told = Told(repository)
    write(repository, "new.py", "x.log")
    assert told.after("new.py", "x.log") == scanned(repository)
    assert {"new.py", "x.log", "a.py"} & set(told.after()) == {"new.py"}


@pytest.mark.slow
def test_a_folder_inside_a_repository_heeds_the_rules_above(repository: Path) -> None:
    write(repository, "build/mine/a.o")
    for folder in ("src", "build/mine"):
        inside = repository / folder
        told = Told(inside)
        write(inside, "x.log", "y.tmp", "z.py")
        assert told.after("x.log", "y.tmp", "z.py") == scanned(inside), folder
    assert listed_by_git(repository / "src") == scanned(repository / "src")


@pytest.mark.parametrize("way", ["git", "given", "walk"])
def test_what_would_be_ignored(
    repository: Path, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if way != "git":
        shutil.rmtree(repository / ".git")
    if way == "walk":
        monkeypatch.setenv("PATH", str(tmp_path))
    (repository / "link").symlink_to("src")
    files = CurrentFiles(repository)
    asyncio.run(files.update())
    assert files.listing.way == way
    names = [
        "build/x",
        "src/y.tmp",
        "z.log",
        ".git/x",
        "src/.git/x",
        "*.log",
        ":(top)a.log",
        "\udcff.log",
    ]
    fine = ["a.py", "src/new.py", "src/keep.tmp", "never/new.py", "*.py", ":(top)a", "\udcff"]
    for name in (*names, *fine):
        assert asyncio.run(files.ignores(name)) is (name in names), name
    write(repository, "src/y.tmp", "src/keep.tmp", ":(top)a")
    listed = ["build/out.o", "a.py", "src/y.tmp", "src/keep.tmp", ":(top)a", ".git/config"]
    left_out = {"build/out.o", "src/y.tmp", ".git/config"}
    assert asyncio.run(files.left_out(listed)) == left_out


NAMES = st.sampled_from(["a", "b", "ab", "a.py", "b.log", "c d", "ü", "[x]"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
RULES = st.lists(
    st.sampled_from(["*.log", "/a", "a/", "!a/b", "b", "!*.py", "*", "!*/", "a/**/b", "**/ab"]),
    max_size=4,
)


@settings(
    max_examples=1000 if os.environ.get("TESTS_FULL") else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    before=st.sets(PATHS, max_size=8),
    tracked=st.sets(PATHS, max_size=3),
    rules=RULES,
    inner=RULES,
    steps=st.lists(st.tuples(st.sampled_from(["write", "remove"]), PATHS), max_size=8),
    late=st.booleans(),
)
@pytest.mark.slow
def test_after_any_changes_the_list_is_git_s(
    tmp_path_factory: pytest.TempPathFactory,
    before: set[str],
    tracked: set[str],
    rules: list[str],
    inner: list[str],
    steps: list[tuple[str, str]],
    late: bool,
) -> None:
    """``late``: all is told when it is over, and the folders that were made on the way too."""
    root = tmp_path_factory.mktemp("generated")
    git(root, "init", "-q")
    for name in sorted(before | tracked):
        put(root, name)
    git(
        root,
        "add",
        "-f",
        "--",
        *(f":(literal){name}" for name in tracked if (root / name).exists()),
    )
    (root / ".gitignore").write_text("\n".join(rules))
    if (root / "a").is_dir():
        (root / "a" / ".gitignore").write_text("\n".join(inner))
    kept = Told(root)
    assert kept.after() == listed_by_git(root)
    told: list[str] = []
    for step, name in steps:
        missing = [folder for folder in above(name) if not (root / folder).is_dir()]
        if step == "write":
            put(root, name)
        elif (root / name).is_dir():
            shutil.rmtree(root / name)
        else:
            with suppress(OSError):
                (root / name).unlink()
        told += [*missing, name]
        if not late:
            assert kept.after(*told) == listed_by_git(root)
            told = []
    assert kept.after(*told) == listed_by_git(root)
    shutil.rmtree(root)


def above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def put(root: Path, name: str) -> None:
    with suppress(OSError):  # a file stands where a folder is wanted, or the reverse
        write(root, name)
