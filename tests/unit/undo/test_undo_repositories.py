"""Snapshots in every kind of repository: hostile, half way through something, odd in its layout."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from undo_parts import (
    Command,
    commit,
    git,
    git_state,
    look,
    redo,
    repository,
    undo,
    worker,
    write,
)

from aish_lsp.undo.git import NoUndo, Nowhere

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]


def everything_goes(root: Path) -> None:
    """Do to a work tree what the worst of commands would."""
    for path in root.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def test_nothing_of_a_hostile_repository_is_run(root: Path, tmp_path: Path) -> None:
    repository(root, a="one")
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("reference-transaction", "post-index-change", "pre-commit", "post-checkout"):
        shutil.copy(program, hooks / hook)
        shutil.copy(program, root / ".git" / "hooks" / hook)
    for key, value in {
        "filter.evil.clean": str(program),
        "filter.evil.smudge": str(program),
        "filter.evil.process": str(program),
        "filter.evil.required": "true",
        "core.fsmonitor": str(program),
        "core.hooksPath": str(hooks),
        "core.sshCommand": str(program),
        "core.pager": str(program),
        "core.editor": str(program),
        "commit.gpgSign": "true",
        "gpg.program": str(program),
        "diff.external": str(program),
        "diff.evil.textconv": str(program),
        "core.attributesFile": str(tmp_path / "attributes"),
    }.items():
        git(root, "config", key, value)
    (tmp_path / "attributes").write_text("* filter=evil\n")
    write(root, {".gitattributes": "* filter=evil diff=evil\n", "b": "new"})
    (root / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    ran.unlink(missing_ok=True)
    before = look(root)
    with Command(root):
        everything_goes(root)
    undo(root)
    assert look(root) == before
    assert not ran.exists()


def test_contents_come_back_byte_for_byte_whatever_git_would_make_of_them(root: Path) -> None:
    repository(root)
    git(root, "config", "core.autocrlf", "true")
    write(root, {".gitattributes": "*.txt text eol=crlf ident\n*.u working-tree-encoding=UTF-16\n"})
    (root / "a.txt").write_bytes(b"one\ntwo\r\nthree\r $Id: x $\n")
    (root / "b.u").write_bytes(b"not in that encoding")
    (root / "c.bin").write_bytes(bytes(range(256)))
    before = look(root)
    with Command(root):
        everything_goes(root)
    undo(root)
    assert look(root) == before


def test_what_git_knows_is_not_touched_in_the_middle_of_a_merge(root: Path) -> None:
    repository(root, a="base", b="base")
    git(root, "switch", "-q", "-c", "other")
    write(root, {"a": "other"})
    commit(root)
    git(root, "switch", "-q", "main")
    write(root, {"a": "main"})
    commit(root)
    git(root, "merge", "other", code=1)
    (root / ".git" / "index.lock").write_text("")
    before, state = look(root), git_state(root)
    assert b"<<<<<<<" in str(before[b"a"]).encode()
    with Command(root):
        everything_goes(root)
    undo(root)
    assert (look(root), git_state(root)) == (before, state)
    (root / ".git" / "index.lock").unlink()
    assert git(root, "ls-files", "-u")


def test_flags_that_hide_changes_from_git_hide_none_from_a_snapshot(root: Path) -> None:
    repository(root, assumed="one", skipped="one", intended="one")
    git(root, "rm", "-q", "--cached", "intended")
    git(root, "add", "-N", "intended")
    git(root, "update-index", "--assume-unchanged", "assumed")
    git(root, "update-index", "--skip-worktree", "skipped")
    write(root, {"assumed": "two", "skipped": "two", "intended": "two"})
    before, state = look(root), git_state(root)
    with Command(root):
        everything_goes(root)
    undo(root)
    assert (look(root), git_state(root)) == (before, state)


def test_a_workspace_inside_a_repository_covers_all_of_its_work_tree(root: Path) -> None:
    repository(root, **{"inner/a": "one", "outer/b": "one"})
    before = look(root)
    with Command(root / "inner"):
        (root / "inner" / "a").unlink()
        write(root, {"outer/b": "two", "c": "new"})
    undone = undo(root / "inner")
    assert (undone.restored, undone.removed) == ((b"inner/a", b"outer/b"), (b"c",))
    assert look(root) == before


def test_the_workspace_itself_stays_where_it_was_empty(root: Path) -> None:
    repository(root, a="one")
    (root / "inner").mkdir()
    with Command(root / "inner"):
        write(root, {"inner/new": "x", "other/new": "x"})
    undo(root / "inner")
    assert (root / "inner").is_dir()
    assert not (root / "other").exists()


def test_each_linked_work_tree_has_its_own_undo(root: Path, tmp_path: Path) -> None:
    repository(root, a="one")
    linked = tmp_path.resolve() / "linked"
    git(root, "worktree", "add", "-q", str(linked))
    with Command(linked):
        write(linked, {"a": "linked"})
    with Command(root):
        write(root, {"a": "main"})
    assert undo(linked).restored == (b"a",)
    assert ((linked / "a").read_text(), (root / "a").read_text()) == ("one", "main")
    undo(root)
    assert (root / "a").read_text() == "one"


def test_the_files_of_submodules_and_of_other_repositories_inside_are_covered(
    root: Path, tmp_path: Path
) -> None:
    library = repository(tmp_path / "library", **{"code.c": "one", "deep/er.c": "one"})
    repository(root, a="one")
    git(root, "submodule", "add", "-q", str(library), "sub/lib")
    commit(root)
    repository(root / "clone", x="one")
    write(root, {"sub/lib/new.c": "untracked", "clone/y": "untracked"})
    before = look(root)
    with Command(root):
        write(root, {"sub/lib/code.c": "two", "clone/x": "two", "clone/z": "new"})
        (root / "sub/lib/new.c").unlink()
        shutil.rmtree(root / "sub/lib/deep")
        (root / "clone/y").unlink()
    undo(root)
    assert look(root) == before
    with Command(root):
        shutil.rmtree(root / "sub")
    undo(root)
    assert look(root) == before


def test_a_clone_that_a_command_makes_is_put_aside_with_all_that_is_in_it(root: Path) -> None:
    repository(root, a="one")
    with Command(root) as command:
        repository(root / "clone", x="one")
        write(root, {"a": "two"})
    assert command.ended.gits == [b"clone"]
    undone = undo(root)
    assert (undone.restored, undone.removed, undone.failed) == ((b"a",), (), {})
    [place] = undone.aside
    assert (Path(place) / "x").read_text() == "one"
    assert not (root / "clone").exists()
    assert redo(root).restored == (b"a", b"clone")
    assert git(root / "clone", "log", "--format=%s") == "some"


def test_a_clone_that_was_worked_in_since_is_asked_about(root: Path) -> None:
    repository(root, a="one")
    with Command(root):
        repository(root / "clone", x="one")
    write(root / "clone", {"y": "mine"})
    commit(root / "clone")
    assert undo(root).conflicts == {b"clone"}
    assert (root / "clone/y").exists()


def test_what_a_sparse_checkout_leaves_out_stays_out(root: Path) -> None:
    repository(root, **{"in/a": "one", "out/b": "one"})
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    assert not (root / "out").exists()
    with Command(root):
        write(root, {"in/a": "two"})
    undo(root)
    assert set(look(root)) == {b"in/a"}
    assert git(root, "status", "--short") == ""


def test_of_a_partial_clone_nothing_is_fetched(root: Path, tmp_path: Path) -> None:
    source = repository(tmp_path / "source", a="old", b="old")
    git(source, "config", "uploadpack.allowFilter", "true")
    write(source, {"a": "one", "b": "one"})
    commit(source)
    git(tmp_path, "clone", "-q", "--filter=blob:none", source.as_uri(), str(root))
    shutil.rmtree(source)
    before = look(root)
    with Command(root):
        everything_goes(root)
    undo(root)
    assert look(root) == before


def test_an_index_in_two_parts_and_a_rebase_are_no_hindrance(root: Path) -> None:
    repository(root, a="base", b="base")
    git(root, "config", "core.splitIndex", "true")
    git(root, "config", "core.untrackedCache", "true")
    git(root, "switch", "-q", "-c", "other")
    write(root, {"a": "other"})
    commit(root)
    git(root, "switch", "-q", "main")
    write(root, {"a": "main"})
    commit(root)
    git(root, "rebase", "-q", "other", code=1)
    before, state = look(root), git_state(root)
    with Command(root):
        everything_goes(root)
    undo(root)
    assert (look(root), git_state(root)) == (before, state)


def test_objects_may_be_named_by_longer_hashes(root: Path) -> None:
    root.mkdir()
    git(root, "init", "-q", "--object-format=sha256")
    write(root, {"a": "one", "b": "one"})
    with Command(root):
        write(root, {"a": "two"})
        (root / "b").unlink()
    undo(root)
    assert (root / "a").read_text() == "one"
    assert (root / "b").read_text() == "one"


def test_variables_that_name_another_repository_are_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other", b="one")
    repository(root, a="one")
    state = git_state(other)
    for name, value in {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git" / "objects"),
        "GIT_NAMESPACE": "elsewhere",
    }.items():
        monkeypatch.setenv(name, value)
    with Command(root):
        write(root, {"a": "two"})
    undo(root)
    assert (root / "a").read_text() == "one"
    assert git_state(other) == state


@pytest.mark.parametrize("kind", ["none", "bare", "empty .git", "elsewhere", "stranger's"])
def test_where_there_is_no_snapshot_it_is_said_why(
    root: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "not in a git work tree"
    root.mkdir()
    match kind:
        case "bare":
            git(root, "init", "-q", "--bare")
        case "empty .git":
            (root / ".git").mkdir()
            reason = "not a git repository"
        case "elsewhere":
            repository(root)
            git(root, "config", "core.worktree", str(tmp_path))
            reason = "work tree elsewhere"
        case "stranger's":
            repository(root)
            monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
            reason = "dubious ownership.*git config --global --add safe.directory"
    with pytest.raises(NoUndo, match=reason):
        worker(root).begin("one", "x")


def test_without_git_there_is_no_snapshot(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(root)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Nowhere, match="git was not found"):
        worker(root).begin("one", "x")


def test_a_program_of_the_workspace_is_not_taken_for_git(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(root)
    write(root, {"git": f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n"})
    (root / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}{os.pathsep}{os.environ['PATH']}")
    with Command(root):
        write(root, {"a": "one"})
    assert undo(root).removed == (b"a",)
    assert not (tmp_path / "ran").exists()
