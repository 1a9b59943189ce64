"""What is put back, what is not, and what nobody can know."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from pathlib import Path

import pytest
from undo_parts import (
    Command,
    commit,
    git,
    look,
    records,
    repository,
    undo,
    worker,
    write,
)

from aish_lsp.foundation.errors import NotFound
from aish_lsp.undo import listing, named, snapshots
from aish_lsp.undo import records as store_of_records
from aish_lsp.undo.git import Git, NoUndo, TooSlow
from aish_lsp.undo.records import Head, Records, undo_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]


def opened(root: Path, seconds: float = 60) -> Git:
    return Git(root, seconds, threading.Event())


def test_without_a_command_there_is_nothing_to_undo(root: Path) -> None:
    repository(root, a="one")
    with pytest.raises(NotFound):
        undo(root)
    with Command(root):
        pass
    assert records(root) == []
    with pytest.raises(NotFound):
        undo(root)


def test_a_command_that_changed_no_file_does_not_count(root: Path) -> None:
    repository(root, a="one")
    with Command(root):
        write(root, {"a": "two"})
    with Command(root, "another"):
        os.utime(root / "a")
    assert undo(root).restored == (b"a",)


def test_permissions_come_back_that_git_does_not_keep(root: Path) -> None:
    repository(root, a="one")
    write(root, {"secret": "s", "private/key": "k"})
    (root / "secret").chmod(0o600)
    (root / "private").chmod(0o700)
    with Command(root):
        (root / "secret").unlink()
        shutil.rmtree(root / "private")
        (root / "a").chmod(0o666)
    undo(root)
    assert (root / "secret").stat().st_mode & 0o777 == 0o600
    assert (root / "private").stat().st_mode & 0o777 == 0o700
    assert (root / "a").stat().st_mode & 0o777 == 0o644


def test_permissions_of_all_files_come_back(root: Path) -> None:
    repository(root, **{"a": "one", "b": "one", "folder/c": "one"})
    (root / "folder").chmod(0o755)
    with Command(root):
        for path in (root / "a", root / "b", root / "folder" / "c"):
            path.chmod(0o600)
        (root / "folder").chmod(0o700)
    assert set(undo(root).restored) == {b"a", b"b", b"folder/c"}
    with Command(root):
        write(root, {"b": "two"})
        for path in (root / "a", root / "b", root / "folder" / "c"):
            path.chmod(0o600)
    assert set(undo(root).restored) == {b"a", b"b", b"folder/c"}
    found = [(root / name).stat().st_mode & 0o777 for name in ("a", "b", "folder/c")]
    assert found == [0o644] * 3


def test_what_a_permission_says_beside_who_may_do_what_comes_back_too(root: Path) -> None:
    repository(root, **{"program": "one", "shared/file": "one"})
    (root / "program").chmod(0o4755)
    (root / "shared").chmod(0o2770)
    with Command(root):
        write(root, {"program": "two"})
        (root / "program").chmod(0o755)
        shutil.rmtree(root / "shared")
    undo(root)
    assert stat.S_IMODE((root / "program").stat().st_mode) == 0o4755
    assert stat.S_IMODE((root / "shared").stat().st_mode) == 0o2770


def test_names_that_another_system_takes_for_gits_folder_are_names(root: Path) -> None:
    repository(root, a="one")
    names = {"git~1": "one", ".git ": "one", "d/.git. ": "one"}
    write(root, names)
    with Command(root):
        for name in names:
            (root / name).unlink()
    asked = undo(root)
    assert asked.made.keys() == {b".git ", b"d/.git. "}
    undo(root, made=frozenset(asked.made))
    assert {name: (root / name).read_text() for name in names} == names


def test_nothing_is_written_through_a_link(root: Path, tmp_path: Path) -> None:
    repository(root, **{"d/x": "one", "d/y": "one"})
    outside = tmp_path / "outside"
    write(outside, {"x": "theirs"})
    with Command(root):
        shutil.rmtree(root / "d")
        (root / "d").symlink_to(outside)
    undo(root)
    assert (root / "d" / "x").read_text() == "one"
    with Command(root):
        write(root, {"d/x": "two", "d/y": "two"})
    shutil.rmtree(root / "d")
    (root / "d").symlink_to(outside)
    undone = undo(root, None, decided=True)
    assert undone.failed.keys() == {b"d/x", b"d/y"}
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"x": "theirs"}


def test_a_folder_of_the_users_stays_where_a_file_was(root: Path) -> None:
    repository(root, a="one", b="one")
    with Command(root):
        (root / "a").unlink()
        write(root, {"a/command": "x", "b": "two"})
    write(root, {"a/mine": "precious"})
    undone = undo(root)
    assert undone.failed.keys() == {b"a"}
    assert look(root) == {b"a/mine": ("0o644", b"precious"), b"b": ("0o644", b"one")}


def test_a_file_that_was_ignored_is_not_taken_for_a_new_one(root: Path) -> None:
    repository(root, **{".gitignore": ".env\nout/\n"})
    write(root, {".env": "KEY=1", "out/x": "x"})
    with Command(root):
        write(root, {".gitignore": "", "new": "x"})
    undone = undo(root, None, decided=True)
    assert undone.removed == (b"new",)
    assert (root / ".env").read_text() == "KEY=1"
    assert (root / "out" / "x").exists()


def test_of_many_ignored_files_the_folders_are_known(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_UNCOVERED", 3)
    repository(root, **{".gitignore": "*.o\n", "src/a.c": "one"})
    write(root, {f"src/{number}.o": "x" for number in range(5)})
    with Command(root):
        write(root, {".gitignore": "", "src/a.c": "two", "new": "x"})
    undone = undo(root, None, decided=True)
    assert (undone.restored, undone.removed) == ((b".gitignore", b"src/a.c"), (b"new",))
    assert len(list((root / "src").glob("*.o"))) == 5


def test_a_file_that_a_command_has_git_ignore_is_still_looked_after(root: Path) -> None:
    repository(root, a="one")
    write(root, {"new": "one", "other": "one"})
    with Command(root):
        write(root, {".gitignore": "new\nother\n", "new": "two", "other": "two"})
    write(root, {"other": "mine"})
    assert undo(root).conflicts == {b"other"}
    undone = undo(root, decided=True)
    assert (undone.restored, undone.removed) == ((b"new",), (b".gitignore",))
    assert ((root / "new").read_text(), (root / "other").read_text()) == ("one", "mine")


def test_what_is_too_large_is_left_alone_and_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SIZE_LIMIT", 10)
    repository(root, a="one")
    write(root, {"large": "x" * 11, "grows": "x", "goes": "y" * 11})
    with Command(root) as command:
        write(root, {"large": "small", "grows": "x" * 11, "a": "two"})
        (root / "goes").unlink()
    assert command.ended.gone == [b"goes"]
    assert undo(root).conflicts == {b"grows"}
    assert undo(root, decided=True).restored == (b"a",)
    assert (root / "large").read_text() == "small"


def test_pipes_and_sockets_are_left_alone(root: Path) -> None:
    repository(root, a="one")
    os.mkfifo(root / "pipe")
    with Command(root):
        (root / "a").unlink()
        os.mkfifo(root / "a")
    assert undo(root).conflicts == {b"a"}
    undone = undo(root, None, decided=True)
    assert undone.failed.keys() == {b"a"}
    assert (root / "pipe").is_fifo()


def test_commands_of_one_group_are_one_undo(root: Path) -> None:
    repository(root, a="one", b="one", c="one")
    with Command(root, "before"):
        write(root, {"c": "two"})
    with Command(root, "run"):
        write(root, {"a": "two", "b": "two"})
    with Command(root, "run"):
        write(root, {"a": "three", "new": "x"})
        (root / "b").unlink()
    undone = undo(root)
    assert (undone.restored, undone.removed) == ((b"a", b"b"), (b"new",))
    assert (root / "c").read_text() == "two"


def test_what_the_user_changed_between_the_commands_of_a_group_is_theirs(root: Path) -> None:
    repository(root, a="one", b="one")
    with Command(root, "run"):
        write(root, {"a": "two"})
    write(root, {"a": "mine", "theirs": "mine"})
    with Command(root, "run"):
        write(root, {"a": "three", "b": "two"})
    assert undo(root).conflicts == {b"a"}
    undone = undo(root, decided=True)
    assert (undone.restored, undone.removed) == ((b"b",), ())
    assert (root / "a").read_text() == "three"
    assert (root / "theirs").read_text() == "mine"


def test_where_the_end_was_not_seen_all_that_changed_is_in_doubt(root: Path) -> None:
    repository(root, a="one", b="one")
    worker(root).begin("one", "x")
    write(root, {"a": "two", "new": "x"})
    assert undo(root).conflicts == {b"a", b"new"}
    assert (root / "a").read_text() == "two"
    assert undo(root, None, decided=True).restored == (b"a",)


def test_where_head_was_is_told(root: Path) -> None:
    repository(root, a="one")
    first = git(root, "rev-parse", "HEAD")
    with Command(root):
        write(root, {"a": "two"})
        commit(root)
    undone = undo(root)
    assert undone.moved is not None
    assert undone.moved[0] == Head("main", first)
    assert git(root, "rev-parse", "HEAD~") == first
    assert (root / "a").read_text() == "one"


def test_what_is_old_or_too_many_is_dropped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_of_records, "KEPT", 3)
    repository(root, a="0")
    for number in range(1, 6):
        with Command(root, str(number)):
            write(root, {"a": str(number)})
    assert records(root) == ["00000003", "00000004", "00000005"]
    other = repository(root.parent / "other", a="0")
    with Command(other):
        write(other, {"a": "1"})
    kept = Records(other, undo_folder(other))
    day = 86_400
    kept.drop_old(time.time() + 13 * day)
    assert len(records(root)) == 3
    kept.drop_old(time.time() + 15 * day)
    assert not undo_folder(root).exists()
    assert records(other) == []


def test_the_last_command_is_kept_however_large_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(root, a="0")
    monkeypatch.setattr(store_of_records, "KEPT_BYTES", 20_000)
    for number in range(1, 4):
        with Command(root, str(number)):
            (root / "a").write_bytes(os.urandom(15_000))
            commit(root)
    assert records(root) == ["00000003"]
    with Command(root, "large"):
        (root / "a").write_bytes(os.urandom(30_000))
        commit(root)
    with Command(root, "larger"):
        (root / "a").unlink()
    assert records(root) == ["00000005"]
    assert undo(root).restored == (b"a",)


def test_more_untracked_bytes_than_are_kept_are_no_snapshot(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(root, a="0")
    monkeypatch.setattr(store_of_records, "KEPT_BYTES", 20_000)
    (root / "new").write_bytes(os.urandom(30_000))
    with pytest.raises(NoUndo, match="what git does not hold here is more than"):
        worker(root).begin("one", "x")
    (root / "new").unlink()
    with Command(root):
        write(root, {"a": "1"})
    assert undo(root).restored == (b"a",)


def test_more_than_a_pipe_holds_is_given_to_a_slow_git(root: Path) -> None:
    repository(root, a="x" * 2_000)
    feed = b"a\n" * 50_000
    assert len(opened(root).ask("hash-object", "--stdin-paths", feed=feed)) == 41 * 50_000


def test_a_git_that_takes_too_long_is_ended(root: Path) -> None:
    repository(root, a="x" * 50_000)
    found = opened(root, 1.0)
    with pytest.raises(TooSlow, match="more than 1 s"):
        found.ask("hash-object", "--stdin-paths", feed=b"a\n" * 5_000_000)


def test_a_git_that_is_stopped_ends(root: Path) -> None:
    repository(root, a="x" * 50_000)
    stopped = threading.Event()
    found = Git(root, 60, stopped)
    timer = threading.Timer(0.3, stopped.set)
    timer.start()
    with pytest.raises(NoUndo, match="stopped"):
        found.ask("hash-object", "--stdin-paths", feed=b"a\n" * 5_000_000)
    timer.join()


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("rm -rf build", ["build"]),
        ("rm -rf ./build/ && echo build/x", ["build", "build/x"]),
        ("rm -f build/*.o src/a", ["build"]),
        ("echo KEY=2 >.env; cp '.env' b", [".env"]),
        ("dd of=.env", [".env"]),
        ("rm 'unclosed .env", [".env"]),
        ("rm ../sub/../.env", []),
        ("rm -rf .git src/inner/.git/hooks", [".git", "src/inner/.git/hooks"]),
        ("cat src/a \"$HOME\" '' \0", []),
        ("rm ~/.env ~nobody-of-this-name/x", [".env"]),
    ],
)
def test_words_that_name_what_is_not_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, found: list[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    uncovered = frozenset({b"build/", b".env"})
    assert named(command, tmp_path, tmp_path, uncovered) == list(map(os.fsencode, found))


#: The last one is what ``put_in_place`` writes first.
EDITORS = (
    *(".main.py.swp", "#main.py#", ".#main.py", "main.py~", "deep/.main.py.swo"),
    ".chat.md.3b1e87079f0d.tmp",
)


def test_editors_own_files_are_left_alone(root: Path) -> None:
    repository(root, a="one", **{"kept.py~": "committed", "plain.swp": "one"})
    write(root, dict.fromkeys(EDITORS, "of the editor"))
    with Command(root) as command:
        write(root, {"a": "two", "kept.py~": "new", "plain.swp": "two", "made~": "x"})
        write(root, {EDITORS[0]: "moved on"})
        for name in EDITORS[1:]:
            (root / name).unlink()
    assert command.ended.gone == []
    undone = undo(root)
    assert (undone.restored, undone.removed) == ((b"a", b"plain.swp"), ())
    assert (root / EDITORS[0]).read_text() == "moved on"
    assert (root / "kept.py~").read_text() == "new"
    assert (root / "made~").exists()
    assert not any((root / name).exists() for name in EDITORS[1:])
