from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aish_lsp.project import files
from aish_lsp.project.current import CurrentFiles
from aish_lsp.project.files import FolderScan, _is_ignored, _rules_in, is_left_out, walk
from aish_lsp.project.git import _tagged_names

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": "someone@example.com"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}


async def files_of(root: Path) -> tuple[str, ...]:
    return tuple((await FolderScan(root, None).listing()).names)


def git(root: Path, *arguments: str) -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=root, env=GIT_ENVIRONMENT, capture_output=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def walked(root: Path) -> list[str]:
    """Return what a walk lists, whether there is git or not."""
    return sorted(name for names in walk(root) for name in names)


@pytest.fixture
def no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    empty = tmp_path / "no-programs-here"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    yield
    empty.rmdir()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@needs_git
async def test_tracked_and_new_files_but_no_ignored_and_no_deleted_ones(root: Path) -> None:
    write(root, "kept.py", "gone.py", "src/a b.py", "new.py", "build/out.o", "sub/x.log")
    write(root, ".gitignore", text="build/\n*.log\n")
    git(root, "init", "-q")
    git(root, "add", "kept.py", "gone.py", ".gitignore")
    (root / "gone.py").unlink()
    listed = await FolderScan(root, None).listing()
    assert tuple(listed.names) == (".gitignore", "kept.py", "new.py", "src/a b.py")
    assert not listed.truncated
    assert not listed.reason


@needs_git
async def test_names_are_relative_to_a_folder_inside_a_repository(root: Path) -> None:
    write(root, "top.py", "inner/a.py", "inner/b/c.py")
    git(root, "init", "-q")
    assert await files_of(root / "inner") == ("a.py", "b/c.py")


@needs_git
async def test_a_folder_that_an_outer_repository_ignores_is_walked(root: Path) -> None:
    write(root, "mine/a.py", "mine/skipped.log")
    write(root, ".gitignore", text="*\n")
    write(root, "mine/.gitignore", text="*.log\n")
    git(root, "init", "-q")
    assert await files_of(root / "mine") == (".gitignore", "a.py")


@needs_git
async def test_repositories_inside_are_named_and_not_looked_into(root: Path) -> None:
    write(root, "a.py", "inner/b.py", "module/c.py")
    for folder in ("inner", "module"):
        git(root / folder, "init", "-q")
        git(root / folder, "add", ".")
        git(root / folder, "commit", "-q", "-m", "x")
    git(root, "init", "-q")
    git(root, "-c", "advice.addEmbeddedRepo=false", "add", "module")
    assert await files_of(root) == ("a.py", "inner/", "module/")


@needs_git
async def test_unmerged_files_are_listed_once(root: Path) -> None:
    write(root, "a.py", text="1\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "x")
    git(root, "checkout", "-q", "-b", "other")
    write(root, "a.py", text="2\n")
    git(root, "commit", "-q", "-a", "-m", "y")
    git(root, "checkout", "-q", "main")
    write(root, "a.py", text="3\n")
    git(root, "commit", "-q", "-a", "-m", "z")
    git(root, "merge", "-q", "other")
    assert await files_of(root) == ("a.py",)


AWKWARD = [
    "new\nline",
    "bidi\u202egpj.exe",
    "tab\t",
    " lead",
    "quote\"'",
    "-rf",
    "*",
    "ü",
    "\x1b[2J",
]


@pytest.mark.parametrize("in_repository", [pytest.param(True, marks=needs_git), False])
async def test_awkward_names_are_exact(root: Path, in_repository: bool) -> None:
    if in_repository:
        git(root, "init", "-q")
    write(root, *AWKWARD)
    raw = os.fsencode(root) + b"/bad\xff"
    try:
        Path(os.fsdecode(raw)).write_text("x")
    except OSError as error:
        if error.errno != errno.EILSEQ:
            raise
        pytest.skip("this file system wants UTF-8")
    assert list(await files_of(root)) == sorted([*AWKWARD, os.fsdecode(b"bad\xff")])


@needs_git
async def test_a_hostile_repository_makes_git_run_nothing(root: Path, tmp_path: Path) -> None:
    write(root, "a.py")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "x")
    seen = tmp_path / "seen"
    evil = root / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 >> {seen}\n")
    evil.chmod(0o755)
    for hook in (
        "post-index-change",
        "fsmonitor-watchman",
        "post-checkout",
        "reference-transaction",
    ):
        shutil.copy(evil, root / ".git" / "hooks" / hook)
    for key, value in {
        "core.fsmonitor": str(evil),
        "core.fsmonitorHookVersion": "2",
        "core.pager": str(evil),
        "pager.ls-files": str(evil),
        "core.sshCommand": str(evil),
        "core.gitProxy": str(evil),
        "core.askPass": str(evil),
        "core.editor": str(evil),
        "alias.ls-files": f"!{evil}",
        "filter.x.clean": str(evil),
        "filter.x.smudge": str(evil),
        "filter.x.process": str(evil),
        "diff.external": str(evil),
        "diff.x.textconv": str(evil),
        "credential.helper": f"!{evil}",
        "core.untrackedCache": "true",
    }.items():
        git(root, "config", key, value)
    write(root, ".gitattributes", text="* filter=x diff=x\n")
    (root / "a.py").write_text("changed")
    # The trap works: without our settings git runs what the repository says.
    git(root, "status")
    assert seen.exists()
    seen.unlink()
    assert await files_of(root) == (".gitattributes", "a.py", "evil")
    current = CurrentFiles(root)
    await current.update()
    current.watch()
    await current.update()
    write(root, "new.py")
    current.changed(["new.py", "a.py"])
    await current.update()
    assert "new.py" in current.listing.names
    assert not await current.ignores("other.py")
    assert not await current.left_out(["later.py", "a.py"]) - {"later.py"}
    assert not seen.exists()


@needs_git
async def test_a_sparse_index_fetches_nothing(root: Path, tmp_path: Path) -> None:
    """Expanding it needs trees; a missing one would be fetched by the configured ssh command."""
    write(root, "a.py", "in/b.py", "out/c.py")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "x")
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    missing = git(root, "rev-parse", "HEAD:out").decode().strip()
    (root / ".git/objects" / missing[:2] / missing[2:]).unlink()
    seen = tmp_path / "seen"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 >> {seen}\nexit 1\n")
    evil.chmod(0o755)
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "evil",
        "remote.evil.promisor": "true",
        "remote.evil.url": "ssh://example.invalid/x",
        "core.sshCommand": str(evil),
    }.items():
        git(root, "config", key, value)
    subprocess.run(
        ["git", "ls-files"], cwd=root, env=GIT_ENVIRONMENT, capture_output=True, check=False
    )
    assert seen.exists(), "the trap does not work"
    seen.unlink()
    assert await files_of(root) == ("a.py", "in/b.py")
    assert not seen.exists()


@needs_git
async def test_a_git_of_the_workspace_is_not_used(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    seen = tmp_path / "seen"
    fake = root / "git"
    fake.write_text(f"#!/bin/sh\ntouch {seen}\n")
    fake.chmod(0o755)
    monkeypatch.chdir(root)
    for entry in (".", "", str(root)):
        monkeypatch.setenv("PATH", os.pathsep.join((entry, os.environ["PATH"])))
        assert await files_of(root) == ("a.py", "git")
    assert not seen.exists()


@needs_git
async def test_another_repository_in_the_environment_changes_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    write(other, "b.py")
    git(other, "init", "-q")
    git(other, "add", ".")
    write(root, "a.py")
    git(root, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert await files_of(root) == ("a.py",)


@needs_git
async def test_a_broken_repository_is_walked(root: Path) -> None:
    write(root, "a.py")
    (root / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert await files_of(root) == ("a.py",)


def test_names_that_lead_out_of_the_folder_are_dropped() -> None:
    tracked = b"H 100644 " + b"0" * 40 + b" 0\t"
    names = [b"/etc/passwd", b"../up", b"a/../../up", b"ok..py", b"fine"]
    for record in (tracked, b"? "):
        answer = b"".join(record + name + b"\0" for name in names)
        assert _tagged_names(answer) == ["ok..py", "fine"]


async def test_a_folder_that_is_gone_is_empty_with_a_reason(tmp_path: Path) -> None:
    listed = await FolderScan(tmp_path / "gone", None).listing()
    assert tuple(listed.names) == ()
    assert "gone" in listed.reason
    write(tmp_path, "file")
    assert (await FolderScan(tmp_path / "file", None).listing()).reason


@pytest.mark.usefixtures("no_git")
async def test_without_git_the_folder_is_walked_by_its_ignore_files(root: Path) -> None:
    write(
        root, "a.py", "b.log", "build/x", "src/c.py", "src/keep.log", "src/deep/d.tmp", ".git/HEAD"
    )
    write(root, ".gitignore", text="*.log\n/build/\n")
    write(root, "src/.gitignore", text="!keep.log\n*.tmp\n")
    write(root, ".git/info/exclude", text="secret\n")
    write(root, "secret")
    named = (".gitignore", "a.py", "src/.gitignore", "src/c.py", "src/keep.log")
    assert await files_of(root) == named


@pytest.mark.usefixtures("no_git")
async def test_a_walk_follows_no_links_and_waits_for_no_pipes(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/secret.txt")
    write(root, "a.py")
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "out").symlink_to(tmp_path / "outside", target_is_directory=True)
    (root / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    os.mkfifo(root / ".gitignore")
    assert await files_of(root) == ("a.py", "dangling", "loop", "out")


@pytest.mark.usefixtures("no_git")
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_an_unreadable_folder_is_passed_over(root: Path) -> None:
    write(root, "a.py", "closed/b.py")
    (root / "closed").chmod(0)
    try:
        assert await files_of(root) == ("a.py",)
    finally:
        (root / "closed").chmod(0o700)


def test_a_folder_that_may_not_be_entered_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py", "closed/b.py")
    scandir, stat = os.scandir, os.stat

    def closed(real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(path: Path | int, *arguments: Any, **options: Any) -> Any:
            if f"{path}/".startswith(f"{root}/closed/"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *arguments, **options)

        return ask

    monkeypatch.setattr(os, "scandir", closed(scandir))
    monkeypatch.setattr(os, "stat", closed(stat))
    assert walked(root) == ["a.py"]
    assert not is_left_out(root, "closed/new.py")


@pytest.mark.parametrize("name", ["n" * 300 + "/x", "a\0b/x", "\ud800/x"])
def test_a_name_that_no_file_can_have_is_not_left_out(root: Path, name: str) -> None:
    assert not is_left_out(root, name)


@pytest.mark.usefixtures("no_git")
async def test_a_folder_that_vanishes_during_the_walk_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py", "b/c.py")
    scandir = os.scandir

    def vanishing(path: Path | int) -> os._ScandirIterator[str]:
        if isinstance(path, Path) and path.name == "b":
            raise FileNotFoundError(2, "gone", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert await files_of(root) == ("a.py",)


@pytest.mark.parametrize("in_repository", [pytest.param(True, marks=needs_git), False])
async def test_too_many_files_are_cut(root: Path, in_repository: bool) -> None:
    if in_repository:
        git(root, "init", "-q")
    write(root, *(f"f{number:02}" for number in range(20)))
    listing = await FolderScan(root, 5).listing()
    assert listing.names == ["f00", "f01", "f02", "f03", "f04"]
    assert (listing.truncated, listing.reason) == (
        True,
        "The folder has more than 5 files: the others are left out.",
    )
    assert len(await files_of(root)) == 20


@pytest.mark.usefixtures("no_git")
async def test_a_walk_that_takes_too_long_stops(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    monkeypatch.setattr(files, "TIME_LIMIT", -1.0)
    listed = await FolderScan(root, None).listing()
    assert listed.truncated
    assert listed.reason


@needs_git
async def test_a_name_of_no_file_system_is_not_kept(root: Path) -> None:
    write(root, "a.py")
    git(root, "init", "-q")
    blob = git(root, "hash-object", "-w", "a.py").decode().strip()
    tree = subprocess.run(
        ["git", "mktree"],
        cwd=root,
        env=GIT_ENVIRONMENT,
        input=f"100644 blob {blob}\t{'n' * (1 << 20)}\n".encode(),
        capture_output=True,
        check=True,
    ).stdout
    empty = git(root, "commit-tree", "-m", "x", git(root, "mktree").decode().strip())
    parent = empty.decode().strip()
    commit = git(root, "commit-tree", "-m", "x", "-p", parent, tree.decode().strip())
    git(root, "update-ref", "HEAD", commit.decode().strip())
    listing = await FolderScan(root, None).listing()
    assert (listing.way, listing.names, listing.recent) == ("git", ["a.py"], ())


def slow_git(folder: Path, marker: Path) -> None:
    folder.mkdir()
    fake = folder / "git"
    fake.write_text(f"#!/bin/sh\necho $$ >> {marker}\nexec sleep 60\n")
    fake.chmod(0o755)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
async def test_a_git_that_hangs_is_ended_and_the_folder_walked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    slow_git(tmp_path / "slow", tmp_path / "pid")
    monkeypatch.setenv("PATH", f"{tmp_path / 'slow'}:{os.environ['PATH']}")
    monkeypatch.setattr(files, "TIME_LIMIT", 1.0)
    assert await files_of(root) == ("a.py",)
    assert not any(is_alive(int(pid)) for pid in (tmp_path / "pid").read_text().split())


@needs_git
@pytest.mark.parametrize("end", ["kill -9 $$", "exit 128", "printf 'half a na'; kill -9 $$"])
async def test_a_git_that_dies_is_not_believed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    write(root, "a.py", "b.log")
    write(root, ".gitignore", text="*.log\n")
    git(root, "init", "-q")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "git").write_text(f"#!/bin/sh\n{end}\n")
    (tmp_path / "bad" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bad'}:{os.environ['PATH']}")
    listed = await FolderScan(root, None).listing()
    assert tuple(listed.names) == (".gitignore", "a.py")
    assert not listed.truncated


async def test_cancelling_ends_git(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_git(tmp_path / "slow", tmp_path / "pid")
    monkeypatch.setenv("PATH", f"{tmp_path / 'slow'}:{os.environ['PATH']}")
    listing = asyncio.create_task(FolderScan(root, None).listing())
    for _ in range(500):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
        await asyncio.sleep(0.02)
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    assert not any(is_alive(int(pid)) for pid in (tmp_path / "pid").read_text().split())


def ignored(folder: Path, rules: str, name: str) -> bool:
    """Return whether a walk leaves out ``name`` by these rules; a folder where it ends in /."""
    write(folder, ".gitignore", text=rules)
    parts = name.rstrip("/").split("/")
    return _is_ignored(parts, _rules_in(folder / ".gitignore", 0), folder=name.endswith("/"))


def test_the_usual_white_list_keeps_its_folders(root: Path) -> None:
    rules = "*\n!*/\n!*.py\n"
    assert not ignored(root, rules, "src/")
    assert not ignored(root, rules, "src/a.py")
    assert ignored(root, rules, "src/a.txt")


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 500 + "b",
        "*a" * 64_000 + "b",
        "**/a" * 500 + "/b",
        "[" * 3000,
        "/" + "[" * 3000,
        "?*" * 1000,
    ],
)
def test_no_pattern_keeps_the_matcher_busy(root: Path, pattern: str) -> None:
    started = time.monotonic()
    ignored(root, pattern, "/".join(["a" * 250] * 30))
    assert time.monotonic() - started < 5


@needs_git
@pytest.mark.parametrize(
    "pattern",
    [
        *("**/b", "/a/**", "/a", "a/", "a/*/b", "\ufeffb", "b  ", "b\r", "\\#b", "\\!b", "#b"),
        *("[^b]", "a?", "[a-b]b", "!b", "*\n!a", "/*\n!/a/", "a/\n!a/b"),
    ],
)
def test_patterns_mean_what_they_mean_to_git(root: Path, pattern: str) -> None:
    write(root, "a/b", "a/ab", "a/c/b", "b", "ab", "x/b", "#b", "!b", "x/a/b")
    write(root, ".gitignore", text=pattern)
    git(root, "init", "-q")
    listed = git(root, "ls-files", "-z", "-o", "--exclude-standard").decode().split("\0")[:-1]
    assert walked(root) == sorted(listed)
    assert {name for name in walked(root) if is_left_out(root, name)} == set()


NAMES = st.sampled_from(["a", "b", "ab", "a.py", "b.log", "A", "a b", "x-y", "[a]", "#c", "!d"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)
PATTERNS = st.one_of(
    st.sampled_from(
        [
            "*",
            "!*/",
            "!*.py",
            "/*",
            "a/**",
            "**/a",
            "a/**/b",
            "*.log",
            "/a",
            "a/",
            "!a/b",
            "**",
            "**/",
        ]
    ),
    st.text(alphabet="ab*?!-/.# xy", min_size=1, max_size=8),
    st.lists(
        st.sampled_from(["a", "b", "ab", "*", "**", "?", "[ab]*", "[!a]", "[^b-y]"]), max_size=4
    ).map("/".join),
)


@needs_git
@pytest.mark.skipif(sys.platform == "darwin", reason="names are case-folded there")
@settings(
    max_examples=1000 if os.environ.get("TESTS_FULL") else 50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    paths=st.sets(PATHS, min_size=1, max_size=12),
    top=st.lists(PATTERNS, max_size=6),
    inner=st.lists(PATTERNS, max_size=3),
)
@pytest.mark.slow
def test_a_walk_lists_what_git_lists(
    tmp_path_factory: pytest.TempPathFactory,
    paths: set[tuple[str, ...]],
    top: list[str],
    inner: list[str],
) -> None:
    root = tmp_path_factory.mktemp("generated")
    git(root, "init", "-q")
    for path in sorted(paths):
        try:
            write(root, "/".join(path))
        except OSError:  # it is a file and a folder of that name stands there, or the reverse
            continue
    (root / ".gitignore").write_text("\n".join(top))
    if (root / "a").is_dir():
        (root / "a" / ".gitignore").write_text("\n".join(inner))
    expected = git(root, "ls-files", "-z", "-o", "--exclude-standard").decode().split("\0")[:-1]
    assert walked(root) == sorted(expected)
    every = ["/".join(path) for path in paths if root.joinpath(*path).is_file()]
    assert {name for name in every if not is_left_out(root, name)} == {*every} & {*expected}
    shutil.rmtree(root)
