"""The list of files after changes that are taken in one by one, against what git then lists."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_project_files import git, needs_git, root, write

from aish_lsp.project.current import Effect, take_in
from aish_lsp.project.files import Listing, Scan

__all__ = ["root"]

pytestmark = needs_git


def listed_by_git(folder: Path) -> list[str]:
    gone = git(folder, "ls-files", "-z", "-d").split(b"\0")
    names = git(folder, "ls-files", "-z", "-c", "-o", "--exclude-standard").split(b"\0")
    return sorted(os.fsdecode(name) for name in {*names} - {*gone} if name)


def scanned(folder: Path) -> Listing:
    return Scan(folder, None).run()


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
    listing = scanned(repository)
    write(repository, "src/new.py", "src/x.tmp", "src/keep.tmp", "other.log", "build/more.o")
    names = ["src/new.py", "src/x.tmp", "src/keep.tmp", "other.log", "build/more.o"]
    assert take_in(listing, repository, names) is Effect.CHANGED
    assert listing.known.names == listed_by_git(repository)
    assert "src/keep.tmp" in listing.known
    assert take_in(listing, repository, names) is Effect.NONE
    (repository / "src/new.py").unlink()
    (repository / "a.py").unlink()
    assert take_in(listing, repository, ["src/new.py", "a.py"]) is Effect.CHANGED
    assert listing.known.names == listed_by_git(repository)


def test_a_folder_goes_with_all_that_was_in_it(repository: Path) -> None:
    listing = scanned(repository)
    shutil.rmtree(repository / "src")
    assert take_in(listing, repository, ["src"]) is Effect.CHANGED
    assert listing.known.names == listed_by_git(repository)


def test_what_is_tracked_although_ignored_comes_back(repository: Path) -> None:
    listing = scanned(repository)
    (repository / "forced.log").unlink()
    assert take_in(listing, repository, ["forced.log"]) is Effect.CHANGED
    assert "forced.log" not in listing.known
    write(repository, "forced.log")
    assert take_in(listing, repository, ["forced.log"]) is Effect.CHANGED
    assert listing.known.names == listed_by_git(repository)


def test_it_comes_back_although_it_was_gone_before_the_scan(repository: Path) -> None:
    write(repository, "build/kept/a.txt")
    git(repository, "add", "-f", "build/kept/a.txt")
    (repository / "forced.log").unlink()
    shutil.rmtree(repository / "build")
    listing = scanned(repository)
    write(repository, "forced.log", "build/kept/a.txt")
    assert take_in(listing, repository, ["forced.log", "build/kept/a.txt"]) is Effect.CHANGED
    assert listing.known.names == listed_by_git(repository)
    # Where only its folder is told of, a scan has to tell.
    assert take_in(listing, repository, ["build"]) is Effect.DOUBTFUL
    shutil.rmtree(repository / "build")
    listing = scanned(repository)
    write(repository, "build/kept/a.txt")
    assert take_in(listing, repository, ["build"]) is Effect.DOUBTFUL


def test_what_only_a_scan_can_tell_is_doubtful(repository: Path) -> None:
    listing = scanned(repository)
    write(repository, "moved/in/a.py", "module/.git/HEAD", "module/.git/objects/x")
    doubtful = [
        *(".gitignore", "src/.gitignore", "src/never/.gitignore"),
        *(".git", ".git/index", ".git/HEAD", ".git/info/exclude"),
        *("moved", "module/.git", "src", "", "a.py/now/a/folder"),
    ]
    for name in doubtful:
        assert take_in(listing, repository, [name]) is Effect.DOUBTFUL, name


def test_what_is_none_of_ours_is_nothing(repository: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/x.py")
    (repository / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    (repository / "build" / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    os.mkfifo(repository / "pipe")
    (repository / "empty").mkdir()
    write(repository, "build/node_modules/x/.gitignore", ".git/objects/aa/bb", ".git/index.lock")
    write(repository, "inner/x.py")
    git(repository / "inner", "init", "-q")
    listing = scanned(repository)
    write(repository, "hidden/.gitignore", text="*\n")
    write(repository, "hidden/notes.md")
    before = list(listing.known.names)
    assert "inner/" in before
    for name in [
        *("pipe", "empty", "hidden", "build", "build/link/x.py", "nothing/at/all", "a.py", "x\0y"),
        *("build/node_modules/x/.gitignore", "build/.git/index", "inner/x.py"),
        *(".git/objects/aa/bb", ".git/index.lock", ".git/refs/heads/x", "inner/.git/index"),
        "n" * 300,
    ]:
        assert take_in(listing, repository, [name]) is Effect.NONE, name
    assert listing.known.names == before == listed_by_git(repository)


def test_a_file_that_becomes_a_folder_is_doubtful(repository: Path) -> None:
    listing = scanned(repository)
    (repository / "a.py").unlink()
    write(repository, "a.py/x")
    assert take_in(listing, repository, ["a.py"]) is Effect.DOUBTFUL


@pytest.mark.parametrize("key", ["core.ignoreCase", "core.sparseCheckout"])
def test_rules_of_another_kind_are_left_to_git(repository: Path, key: str) -> None:
    git(repository, "config", key, "true")
    if key == "core.sparseCheckout":
        git(repository, "update-index", "--skip-worktree", "a.py")
        (repository / "a.py").unlink()
    listing = scanned(repository)
    assert take_in(listing, repository, ["new.py"]) is Effect.DOUBTFUL


@pytest.mark.slow
def test_a_folder_inside_a_repository_heeds_the_rules_above(repository: Path) -> None:
    write(repository, "build/mine/a.o")
    for folder in ("src", "build/mine"):
        inside = repository / folder
        listing = scanned(inside)
        write(inside, "x.log", "y.tmp", "z.py")
        take_in(listing, inside, ["x.log", "y.tmp", "z.py"])
        fresh = scanned(inside).known.names
        assert listing.known.names == fresh, folder
    assert listed_by_git(repository / "src") == scanned(repository / "src").known.names


NAMES = st.sampled_from(["a", "b", "ab", "a.py", "b.log", "c d", "ü", "[x]"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
RULES = st.lists(
    st.sampled_from(["*.log", "/a", "a/", "!a/b", "b", "!*.py", "*", "!*/", "a/**/b", "**/ab"]),
    max_size=4,
)


@settings(
    max_examples=60,
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
def test_after_any_changes_the_list_is_git_s_or_in_doubt(
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
    listing = scanned(root)
    assert listing.known.names == listed_by_git(root)
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
            if take_in(listing, root, told) is Effect.DOUBTFUL:
                listing = scanned(root)
            told = []
            assert listing.known.names == listed_by_git(root)
    if take_in(listing, root, told) is Effect.DOUBTFUL:
        listing = scanned(root)
    assert listing.known.names == listed_by_git(root)
    shutil.rmtree(root)


def above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def put(root: Path, name: str) -> None:
    with suppress(OSError):  # a file stands where a folder is wanted, or the reverse
        write(root, name)
