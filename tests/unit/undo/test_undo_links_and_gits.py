"""What a command does to what is not a plain file: hard links, and what makes a repository."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from undo_parts import Command, commit, git, redo, repository, undo, worker, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]


def test_a_file_with_a_name_elsewhere_is_told_of_and_undone_for_both(
    root: Path, tmp_path: Path
) -> None:
    repository(root, a="one", b="one", inner="one")
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("a", "b"):
        os.link(root / name, cache / name)
    os.link(root / "inner", root / "inner too")
    commit(root)
    (cache / "b").chmod(0o444)
    with Command(root) as command:
        for name in ("a", "inner"):
            with (root / name).open("a") as file:
                file.write(" more")
        (root / "b").chmod(0o600)
        write(root, {"b": "two"})
    assert command.ended.linked == [b"a", b"b"]
    undone = undo(root)
    assert (undone.restored, undone.failed) == ((b"a", b"b", b"inner", b"inner too"), {})
    assert [(cache / name).read_text() for name in ("a", "b")] == ["one", "one"]
    assert (cache / "b").stat().st_mode & 0o777 == 0o444
    assert (root / "a").samefile(cache / "a")
    assert (root / "inner").samefile(root / "inner too")
    redo(root)
    assert (cache / "a").read_text() == "one more"
    assert (root / "inner too").read_text() == "one more"


def test_a_file_that_was_replaced_gives_its_other_name_nothing_back(
    root: Path, tmp_path: Path
) -> None:
    repository(root, a="one", b="one")
    os.link(root / "a", tmp_path / "a")
    (tmp_path / "secret").write_text("theirs")
    with Command(root) as command:
        (root / "a").unlink()
        write(root, {"a": "two"})
        (root / "b").unlink()
        os.link(tmp_path / "secret", root / "b")
    assert command.ended.linked == []
    (tmp_path / "a").write_text("since")
    assert undo(root).restored == (b"a", b"b")
    assert (root / "b").read_text() == "one"
    assert [(tmp_path / name).read_text() for name in ("a", "secret")] == ["since", "theirs"]


def test_a_tree_of_hard_links(root: Path, tmp_path: Path) -> None:
    repository(root, first="one", same="one")
    cache = tmp_path / "cache"
    cache.mkdir()
    for number in range(2_500):
        (cache / str(number)).write_text(f"{number}")
        os.link(cache / str(number), root / str(number))
        os.link(root / "same", root / f"same {number}")
    with Command(root) as command:
        for name in ("1", "2", "same"):
            with (root / name).open("a") as file:
                file.write(" more")
    assert command.ended.linked == [b"1", b"2"]
    undone = undo(root)
    assert len(undone.restored) == 2_503
    assert (cache / "1").read_text() == "1"
    assert (root / "same 7").read_text() == "one"


def test_a_git_file_that_became_a_folder_is_told_of_and_undone(root: Path, tmp_path: Path) -> None:
    library = repository(tmp_path / "library", code="one")
    repository(root, a="one")
    git(root, "submodule", "add", "-q", str(library), "sub")
    commit(root)
    pointer = (root / "sub/.git").read_text()
    with Command(root) as command:
        (root / "sub/.git").unlink()
        git(root / "sub", "init", "-q")
        git(root / "sub", "config", "core.fsmonitor", "evil")
    assert command.ended.gits == [b"sub/.git"]
    undone = undo(root)
    assert (undone.restored, undone.conflicts) == ((b"sub/.git",), frozenset())
    assert (root / "sub/.git").read_text() == pointer
    assert git(root / "sub", "log", "--format=%s") == "some"
    redo(root)
    assert git(root / "sub", "config", "core.fsmonitor") == "evil"


def test_a_repository_inside_a_folder_that_was_there_loses_its_git_folder_alone(root: Path) -> None:
    repository(root, **{"src/a": "one"})
    with Command(root) as command:
        git(root / "src", "init", "-q")
    assert command.ended.gits == [b"src/.git"]
    undo(root)
    assert not (root / "src/.git").exists()
    assert (root / "src/a").read_text() == "one"
    redo(root)
    assert git(root / "src", "rev-parse", "--show-toplevel") == str(root / "src")


def test_on_another_disk_what_is_put_aside_is_renamed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(root, **{"src/a": "one"})
    with Command(root):
        git(root / "src", "init", "-q")
    rename = os.rename

    def other_disk(one: object, other: object, **folders: int) -> None:
        if "dst_dir_fd" not in folders:
            raise OSError(18, "Invalid cross-device link")
        rename(one, other, **folders)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", other_disk)
        [place] = undo(root).aside
    assert (root / place / "HEAD").exists()
    assert place.startswith("src/.git.undone-")
    assert not (root / "src/.git").exists()


@pytest.mark.parametrize("was", ["nothing", "a file", "a gitlink"])
def test_a_gitlink_in_the_index_is_told_of_and_undone(root: Path, was: str) -> None:
    repository(root, a="one", link="one")
    head = git(root, "rev-parse", "HEAD")
    if was == "nothing":
        git(root, "rm", "-q", "--cached", "link")
        (root / "link").unlink()
    elif was == "a gitlink":
        (root / "link").unlink()
        git(root, "update-index", "--cacheinfo", f"160000,{'1' * 40},link")
    before = git(root, "ls-files", "-s")
    with Command(root) as command:
        git(root, "update-index", "--add", "--cacheinfo", f"160000,{head},link")
    after = git(root, "ls-files", "-s")
    assert command.ended.gits == [b"link"]
    undone = undo(root)
    assert undone.failed == {}
    assert git(root, "ls-files", "-s") == before
    redo(root)
    assert git(root, "ls-files", "-s") == after


def test_a_gitlink_that_was_changed_since_is_asked_about(root: Path) -> None:
    repository(root, a="one")
    head = git(root, "rev-parse", "HEAD")
    with Command(root):
        git(root, "update-index", "--add", "--cacheinfo", f"160000,{head},link")
    git(root, "update-index", "--cacheinfo", f"160000,{'1' * 40},link")
    before = git(root, "ls-files", "-s")
    assert undo(root).conflicts == {b"link"}
    assert git(root, "ls-files", "-s") == before
    undo(root, None, decided=True)
    assert "link" not in git(root, "ls-files", "-s")


def test_files_that_decide_what_runs_are_made_anew_only_if_the_user_says_so(root: Path) -> None:
    repository(root, **{".envrc": "one", "d/.vscode/tasks.json": "{}", "a": "one"})
    with Command(root):
        (root / ".envrc").unlink()
        shutil.rmtree(root / "d")
        write(root, {"a": "two"})
    asked = undo(root, None, decided=True)
    assert asked.asks
    assert asked.made.keys() == {b".envrc", b"d/.vscode/tasks.json"}
    assert "direnv" in asked.made[b".envrc"]
    assert (root / "a").read_text() == "two"
    undone = undo(root, made=frozenset({b".envrc"}))
    assert undone.restored == (b".envrc", b"a")
    assert set(undone.made) == {b"d/.vscode/tasks.json"}
    assert not (root / "d").exists()
    assert worker(root).last_group().startswith("undo-")


def test_one_that_exists_is_put_back_and_one_that_was_made_goes_without_a_question(
    root: Path,
) -> None:
    repository(root, **{".envrc": "one"})
    with Command(root):
        write(root, {".envrc": "evil", ".vscode/tasks.json": "evil"})
    undone = undo(root)
    assert (undone.restored, undone.removed) == ((b".envrc",), (b".vscode/tasks.json",))
    again = redo(root)
    assert again.made.keys() == {b".vscode/tasks.json"}
    assert not (root / ".vscode").exists()


def test_the_repository_around_a_lost_one_is_left_alone(root: Path) -> None:
    outer = repository(root.parent / "outer", a="one")
    inner = repository(outer / "inner", a="one")
    git(inner, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},link")
    before = git(outer, "ls-files", "-s")
    with Command(inner):
        git(inner, "update-index", "--cacheinfo", f"160000,{'2' * 40},link")
        write(inner, {"a": "two"})
    shutil.rmtree(inner / ".git")
    undone = undo(inner)
    assert undone.conflicts == {b"link"}
    undone = undo(inner, None, decided=True)
    assert undone.restored == (b"a",)
    assert undone.failed.keys() == {b"link"}
    assert git(outer, "ls-files", "-s") == before


def test_a_link_to_what_a_file_held_is_a_change(root: Path) -> None:
    repository(root, a="b", b="b")
    with Command(root):
        (root / "a").unlink()
        (root / "a").symlink_to("b")
    assert undo(root).failed == {}
    assert not (root / "a").is_symlink()
