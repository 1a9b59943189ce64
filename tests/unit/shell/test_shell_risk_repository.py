"""Reading commands in a repository that has git run programs of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from aish_lsp.shell.risk import classify

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

READS = "git status; git diff; git log -p"


def git(root: Path, *arguments: str) -> None:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(root)}
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_{what}": "someone@example.com" for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], cwd=root, env=environment, capture_output=True, check=False)


def risk(text: str, folder: Path, *, confined: bool = False) -> str:
    return classify(text, "bash", folder=folder, confined=confined).risk


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with settings of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository with a program in it, and a file that has changed."""
    root = tmp_path / "work"
    (root / "inner").mkdir(parents=True)
    git(root, "init", "-q")
    (root / "a").write_text("one")
    (root / ".gitattributes").write_text("a diff=own filter=own\n")
    program = root / "program"
    program.write_text("#!/bin/sh\ntouch ran\ncat\n")
    program.chmod(0o755)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "one")
    (root / "a").write_text("two")
    return root


def test_in_a_repository_like_any_other_they_are_safe(root: Path) -> None:
    git(root, "config", "remote.origin.url", "https://example.com/command=x.git")
    git(root, "config", "branch.clean.remote", "origin")
    git(root, "config", "core.hooksPath", ".husky")
    git(root, "config", "core.fsmonitor", "false")
    assert risk(READS, root) == "safe"
    assert risk(READS, root / "inner") == "safe"
    assert risk(READS, root.parent) == "safe"


@pytest.mark.parametrize(
    "name", ["core.fsmonitor", "diff.external", "diff.own.textconv", "filter.own.clean"]
)
def test_where_its_settings_name_a_program_they_are_not(root: Path, name: str) -> None:
    git(root, "config", name, "./program")
    git(root, "diff")
    assert (root / "ran").exists()
    assert risk(READS, root) == "caution"
    assert risk("git status", root / "inner") == "caution"
    assert risk(f"cd {root} && git status", root.parent) == "caution"
    assert risk("git -C work status", root.parent) == "caution"
    assert risk("ls", root) == "safe"


@pytest.mark.parametrize("hooks", [".git/hooks", "own"])
def test_where_a_hook_looks_at_the_index_they_are_not(root: Path, hooks: str) -> None:
    (root / hooks).mkdir(exist_ok=True)
    shutil.copy(root / "program", root / hooks / "post-index-change")
    git(root, "config", "core.hooksPath", hooks)
    os.utime(root / "program", (1, 1))
    git(root, "status")
    assert (root / "ran").exists()
    assert risk("git status", root) == "caution"


@pytest.mark.parametrize(
    "text",
    [
        "[core]fsmonitor=./program",
        '[core] fsmonitor = "true" ; ./program\n',
        "[a]\n\tb = c\\\n[core]\n[d]\n\tFSMonitor = x",
        "# \\\n[core]\n\tfsmonitor = x",
        '[include]\n\tpath = "other"',
        '[includeIf "gitdir:/"]\n\tpath = other',
        "\ufeff[core]\n\tfsmonitor = x",
        "[user]\n\tname = a\n[user][include]\n\tpath = other",
        '[url "ext::x"]\n\tinsteadOf = https://example.com/',
        "[credential]\n\thelper = !x",
        '[protocol "ext"]\n\tallow = always',
        '[man "x"]\n\tcmd = y',
        "[help]\n\tformat = web",
        "[core]\n\tabbrev = 7 # \\\n\n\tfsmonitor = x",
        "[pretty]\n\tx = %G?",
        "[log]\n\tshowSignature = true",
        '[remote "origin"]\n\tpromisor = true',
        "[new]\n\tkey = x",
        "[core",
    ],
)
def test_however_a_setting_is_written_it_is_found(root: Path, text: str) -> None:
    (root / ".git" / "config").write_text(text)
    assert risk("git status", root) == "caution"


@pytest.mark.slow
def test_what_is_no_file_is_not_waited_for(root: Path) -> None:
    (root / ".git" / "config").unlink()
    os.mkfifo(root / ".git" / "config")
    assert risk("git status", root) == "caution"


def test_linked_work_trees_and_bare_repositories_count(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", str(tmp_path / "linked"))
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare")
    for place in ("linked", "bare"):
        assert risk("git log", tmp_path / place) == "safe"
    git(root, "config", "diff.external", "./program")
    git(tmp_path / "bare", "config", "diff.external", "./program")
    for place in ("linked", "bare"):
        assert risk("git log", tmp_path / place) == "caution"


def test_gits_own_monitor_is_switched_off_where_it_runs_confined(root: Path) -> None:
    git(root, "config", "core.fsmonitor", "true")
    assert risk("git status", root) == "caution"
    assert risk("git status", root, confined=True) == "safe"


def test_what_the_user_set_is_trusted_but_only_confined(root: Path, home: Path) -> None:
    settings = home / ".gitconfig"
    settings.write_text("[alias]\n\tst = !x\n[core]\n\tpager = x\n[include]\n\tpath = more\n")
    assert risk(READS, root) == "safe"
    (home / "more").write_text('[filter "lfs"]\n\tprocess = git-lfs filter-process\n')
    settings.touch()
    assert risk(READS, root) == "caution"
    assert risk(READS, root, confined=True) == "safe"


def test_a_change_of_the_settings_is_seen(root: Path) -> None:
    assert risk("git status", root) == "safe"
    git(root, "config", "diff.external", "./program")
    assert risk("git status", root) == "caution"
    git(root, "config", "--unset", "diff.external")
    assert risk("git status", root) == "safe"


def test_a_repository_within_another_counts(root: Path) -> None:
    inner = root / "module"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "one")
    git(root, "add", "module")
    assert risk("git status", root) == "safe"
    (inner / "more").mkdir()
    git(inner, "config", "core.fsmonitor", str(root / "program"))
    git(root, "status")
    assert (root / "ran").exists() or (inner / "ran").exists()
    assert risk("git status", root) == "caution"


def test_a_repository_that_appears_later_is_seen(tmp_path: Path) -> None:
    plain, linked = tmp_path / "plain", tmp_path / "linked"
    (plain / "inner").mkdir(parents=True)
    linked.mkdir()
    git(linked, "init", "-q")
    git(linked, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    for folder, place in ((plain / "inner", plain), (linked, linked / "module")):
        assert risk("git status", folder) == "safe"
        git(tmp_path, "init", "-q", str(place))
        git(place, "config", "core.fsmonitor", "./program")
        assert risk("git status", folder) == "caution"


@pytest.mark.parametrize("hooks", [".git/hooks", "shared"])
def test_a_hook_that_is_switched_on_later_is_seen(root: Path, home: Path, hooks: str) -> None:
    (home / ".gitconfig").write_text(f"[core]\n\thooksPath = {hooks}\n")
    (root / hooks).mkdir(exist_ok=True)
    hook = root / hooks / "post-index-change"
    hook.write_text("#!/bin/sh\ntouch ran\n")
    assert risk("git status", root) == "safe"
    hook.chmod(0o755)
    assert risk("git status", root) == "caution"


def test_a_bare_repository_within_a_work_tree_counts(root: Path) -> None:
    git(root, "init", "-q", "--bare", "looks/like/nothing")
    assert risk("git log", root) == "safe"
    assert risk("cd looks/like/nothing && git log", root) == "caution"
    assert risk("git -C looks/like/nothing log", root) == "caution"


@pytest.mark.parametrize(
    "text",
    [
        'cd "$d" && git log',
        "for d in */; do (cd $d; git status); done",
        "env -C $d git status",
        "find . -execdir git status \\;",
        "cd a; cd -; git log",
        'git -C "$d" log',
    ],
)
def test_a_folder_that_cannot_be_told_counts(root: Path, text: str) -> None:
    assert risk(text, root, confined=True) == "caution"


def test_each_folder_that_a_command_may_be_in_counts(root: Path, tmp_path: Path) -> None:
    git(root, "config", "diff.external", "./program")
    assert risk(f"(cd {tmp_path / 'home'}); cd ../work; git log", tmp_path / "home") == "caution"
    assert risk("env -C work git log", tmp_path) == "caution"
    assert risk("(cd home); cd work; git log", tmp_path) == "caution"


def test_a_folder_above_a_link_is_where_the_link_stands_and_where_it_leads(root: Path) -> None:
    hidden, far = root / "hidden", root / "far" / "away"
    far.mkdir(parents=True)
    git(root, "init", "-q", "--bare", "hidden")
    for name, value in (
        ("core.bare", "false"),
        ("core.worktree", str(root)),
        ("core.fsmonitor", "./program"),
    ):
        git(hidden, "config", name, value)
    (hidden / "link").symlink_to("../far/away")
    subprocess.run(["bash", "-c", "cd hidden/link/.. && git status"], cwd=root, check=False)
    assert (root / "ran").exists()
    for text in (
        "cd hidden/link/.. && git status",
        "cd hidden/link && cd .. && git status",
        "pushd hidden/link/..; git -C . log",
    ):
        assert risk(text, root) == "caution"
    # With ``-P``, and to git itself, it is the other one.
    (far / "back").symlink_to("../../hidden/objects")
    assert risk("cd -P far/away/back/.. && git status", root) == "caution"
    assert risk("git -C far/away/back/.. status", root) == "caution"
    assert risk("cd far/away/.. && git status", root) == "safe"


def test_a_repository_of_somebody_else_counts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "config", "core.fsmonitor", "./program")
    # As on a machine where somebody else owns it: git takes none of its settings then.
    real = shutil.which("git")
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    assert subprocess.run(["git", "status"], cwd=root, check=False).returncode != 0
    trusting = ["git", "-c", "safe.directory=*", "status"]
    assert subprocess.run(trusting, cwd=root, check=False).returncode == 0
    assert (root / "ran").exists()
    assert risk("git -c safe.directory=* status", root) == "caution"
    git(root, "-c", "safe.directory=*", "config", "--unset", "core.fsmonitor")
    assert risk("git -c safe.directory=* status", root) == "safe"


def test_what_git_ignores_may_be_overwritten(root: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    (root / "a.log").write_text("old")
    assert risk("ls > a.log", root) == "caution"
    assert risk("ls > a", root) == "destructive"
