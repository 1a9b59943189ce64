"""What an undo needs lies out of reach: of git, of commands, and of whoever edits a record."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from undo_parts import Command, commit, git, look, records, redo, repository, undo, worker, write

from aish_lsp.foundation.errors import NotFound
from aish_lsp.undo.folder import FileState, WorkFolder
from aish_lsp.undo.records import Records, _sealed, undo_folder, usage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]


def amend(root: Path) -> None:
    git(root, "commit", "-q", "--amend", "--allow-empty", "-m", "amended")


def expire(root: Path) -> None:
    git(root, "reflog", "expire", "--expire=now", "--all")


def collect(root: Path) -> None:
    git(root, "gc", "-q", "--prune=now")


def repack(root: Path) -> None:
    git(root, "repack", "-q", "-ad")


def lose_objects(root: Path) -> None:
    shutil.rmtree(root / ".git/objects")


def lose_git(root: Path) -> None:
    shutil.rmtree(root / ".git")


TRICKS = {
    "amend": (amend, expire, collect),
    "repack": (amend, expire, repack),
    "objects": (lose_objects,),
    "git": (lose_git,),
}


def change_everything(root: Path) -> None:
    write(root, {"a": "two", "new": "two", "made": "two"})
    (root / "b").unlink()
    shutil.rmtree(root / "d")


@pytest.mark.parametrize("tricks", TRICKS.values(), ids=TRICKS.keys())
@pytest.mark.parametrize("when", ["in the command", "after it", "after a crash"])
def test_nothing_that_is_done_to_git_takes_an_undo_away(
    root: Path, tricks: tuple[Callable[[Path], None], ...], when: str
) -> None:
    repository(root, **{"a": "one", "b": "\0" * 9000, "d/c": "one", "same": "one"})
    collect(root)
    write(root, {"loose": "one"})
    commit(root)
    write(root, {"new": "one", "d/new": "one", "a": "changed"})
    before = look(root)

    def trick() -> None:
        for one in tricks:
            one(root)

    if when == "after a crash":
        worker(root).begin("one", "x")
        change_everything(root)
        commit(root)
        trick()
        undone = undo(root, None, decided=True)
    else:
        with Command(root) as command:
            change_everything(root)
            commit(root)
            if when == "in the command":
                trick()
        assert command.ended.lost == []
        if when == "after it":
            trick()
        undone = undo(root)
    assert undone.failed == {}
    assert look(root) == before
    redo(root)
    assert not (root / "b").exists()


def other_disk(*_: object, **_more: object) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


@pytest.mark.parametrize("text", ["rm -rf .git *", "git gc --prune=now", "make"])
def test_where_objects_cannot_be_linked_all_is_copied_before_what_may_remove_them(
    root: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", other_disk)
    repository(root, a="one", b="one")
    begun = worker(root).begin("one", "x", text=text)
    (root / "a").unlink()
    lose_git(root)
    ended = worker(root).finish(begun)
    assert ended.lost == ([b"a"] if text == "make" else [])
    undone = undo(root)
    assert undone.failed == ({b"a": "what it held is gone"} if text == "make" else {})
    assert (root / "a").exists() == (text != "make")
    assert (root / "b").read_text() == "one"


def state(root: Path) -> tuple[str, str, str]:
    return git(root, "for-each-ref"), git(root, "log", "--all"), git(root, "count-objects", "-v")


@pytest.mark.parametrize("packed", [True, False])
def test_what_git_lost_between_two_commands_is_kept_from_then_on(root: Path, packed: bool) -> None:
    repository(root, a="one", b="one", c="one", d="two")
    if packed:
        collect(root)
    with Command(root, "first"):
        write(root, {"a": "two"})
    for path in (root / ".git/objects").rglob("*"):
        if path.is_file():
            path.unlink()
    before = look(root)
    for number in range(3):
        with Command(root, f"{number}") as command:
            (root / "b").unlink()
            write(root, {"c": f"{number}"})
        assert command.ended.lost == []
        assert undo(root).failed == {}
        assert look(root) == before


def test_nothing_of_ours_is_in_the_repository(root: Path) -> None:
    repository(root, a="one")
    git(root, "update-ref", "refs/aish/other", "HEAD")
    before, files = state(root), sorted((root / ".git").rglob("*"))
    with Command(root):
        write(root, {"a": "two", "new": "x"})
    undo(root)
    redo(root)
    assert (state(root), sorted((root / ".git").rglob("*"))) == (before, files)
    git(root, "clone", "-q", "--mirror", str(root), str(root.parent / "mirror"))
    assert git(root.parent / "mirror", "for-each-ref") == before[0]


def edited(root: Path, **changes: object) -> None:
    """Write the record of a workspace anew, with ``changes``, as only its owner could."""
    [path] = undo_folder(root).glob("*.record")
    record = json.loads(path.read_bytes().partition(b"\n")[2]) | changes
    path.write_bytes(_sealed(json.dumps(record)))


def cut(root: Path) -> None:
    [path] = undo_folder(root).glob("*.record")
    path.write_bytes(path.read_bytes()[:-20])


def unsealed(root: Path) -> None:
    [path] = undo_folder(root).glob("*.record")
    path.write_bytes(path.read_bytes().replace(b"some command", b"that command"))


def folder_instead(root: Path) -> None:
    [path] = undo_folder(root).glob("*.record")
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "edited": unsealed,
    "empty": lambda root: os.truncate(next(undo_folder(root).glob("*.record")), 0),
    "a folder": folder_instead,
    "of another folder": lambda root: edited(root, top=f"{root}-other"),
    "of another form": lambda root: edited(root, version=1),
    "with more": lambda root: edited(root, more=1),
    "with a wrong type": lambda root: edited(root, changes=[]),
    "with a wrong id": lambda root: edited(root, contents={"x": [0, 1]}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_record_is_dropped_and_told_of(
    root: Path, damage: Callable[[Path], None]
) -> None:
    repository(root, a="one")
    with Command(root):
        write(root, {"a": "two"})
    damage(root)
    one = worker(root)
    with pytest.raises(NotFound):
        one.revert(None, decided=True)
    assert one.notices == [
        "1 of undo's records were damaged or not of this folder, and were dropped."
    ]
    assert (root / "a").read_text() == "two"
    assert records(root) == []
    with Command(root):
        write(root, {"a": "three"})
    assert undo(root).restored == (b"a",)


@pytest.mark.parametrize("where", ["columns", "folders"])
def test_a_snapshot_with_a_mode_that_is_no_number_is_dropped(root: Path, where: str) -> None:
    repository(root, **{"a": "one", "d/b": "one"})
    begun = worker(root).begin("g", "some command")
    begun.close()  # As if the server had been killed.
    write(root, {"a": "two", "d/b": "two"})
    [path] = undo_folder(root).glob("*.before")
    snapshot = json.loads(path.read_bytes().partition(b"\n")[2])
    if where == "columns":
        snapshot["columns"][0] = ["x" for _ in snapshot["columns"][0]]
    else:
        snapshot["folders"]["d"] = "x"
    path.write_bytes(_sealed(json.dumps(snapshot)))
    with Command(root):
        write(root, {"a": "three"})
    assert undo(root).restored == (b"a",)
    assert (root / "a").read_text() == "two"


STATE = {"mode": 0o100644, "content": "", "inode": 0}
BAD_PARTS = st.sampled_from(["..", ".", "", ".git", ".GIT", "\0", "a\0b", "/", "~", "a"])
BAD_NAMES = st.one_of(
    st.lists(BAD_PARTS, min_size=1, max_size=4).map("/".join).filter(".git".__ne__),
    st.sampled_from(
        ["/etc/passwd", "../x", "d/../../x", ".git/hooks/x", "s/.git/config", "d/.git/"]
    ),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=BAD_NAMES, where=st.sampled_from(["changes", "edits", "saved", "folders", "index"]))
def test_no_name_of_a_record_leads_out_of_the_tree(
    tmp_path_factory: pytest.TempPathFactory, name: str, where: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("forged").resolve()
        patch.setenv("AISH_DATA_DIR", str(folder / "data"))
        root = repository(folder / "work", a="one", b="one")
        with Command(root):
            write(root, {"b": "two"})
        [path] = undo_folder(root).glob("*.record")
        [old] = json.loads(path.read_bytes().partition(b"\n")[2])["contents"]
        change = {"old": STATE | {"content": old}, "new": None}
        forged = {
            "changes": {name: change},
            "edits": [{"name": name, "old": old, "new": old}],
            "saved": [name],
            "folders": {name: 0o777},
            "index": {name: ["", f"160000 {'0' * 40}"]},
        }[where]
        edited(root, **{where: forged})
        before = times(folder)
        with suppress(NotFound):
            undo(root, None, decided=True, made=frozenset({os.fsencode(name)}))
        changed = {Path(one).relative_to(root) for one, _ in before ^ times(folder)}
        inside_git = {one for one in changed if one.parts[:1] == (".git",)}
        assert inside_git <= {Path(".git"), Path(".git/index")}


def times(folder: Path) -> set[tuple[str, int]]:
    """Return all that lies in ``folder`` but outside of our data, with when it was changed."""
    found = (path for path in folder.rglob("*") if not path.is_relative_to(folder / "data"))
    return {(str(path), path.lstat().st_mtime_ns) for path in found}


@pytest.mark.parametrize(
    "name",
    [
        b"../x",
        b"/x",
        b"d/../../x",
        b".git/x",
        b"d/.GIT/x",
        b"",
        b".",
        b"d//x",
        b"link/x",
        b"d/.git/x",
    ],
)
def test_a_name_is_checked_again_when_it_is_used(root: Path, tmp_path: Path, name: bytes) -> None:
    repository(root, **{"d/a": "one"})
    (root / "link").symlink_to(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    folder = WorkFolder(root)
    for work in (
        lambda: folder.write(name, FileState(0o100644, ""), b"x"),
        lambda: folder.remove(name),
        lambda: folder.set_permission(name, 0o777),
        lambda: folder.put_aside(name, tmp_path / "aside"),
        lambda: folder.take_back(name, root / "d"),
    ):
        with pytest.raises(OSError, match=r".") as refused:
            work()
        assert not isinstance(refused.value, FileNotFoundError)
    assert sorted(tmp_path.rglob("*")) == before


def test_two_thousand_records_are_as_few_as_are_kept(root: Path) -> None:
    repository(root, a="one")
    with Command(root):
        write(root, {"a": "two"})
    [path] = undo_folder(root).glob("*.record")
    for number in range(2, 2_000):
        path.with_name(f"{number:08d}.record").write_bytes(path.read_bytes())
    with Command(root, "another"):
        write(root, {"a": "three"})
    assert len(records(root)) == 50
    assert usage(root)[0] == 50
    assert undo(root).restored == (b"a",)


def test_a_moved_folder_has_no_undo_and_one_that_is_back_has(root: Path) -> None:
    repository(root, a="one")
    with Command(root):
        write(root, {"a": "two"})
    moved = root.rename(root.with_name("moved"))
    with pytest.raises(NotFound):
        undo(moved)
    moved.rename(root)
    assert undo(root).restored == (b"a",)


def test_what_is_restored_in_another_repository_at_that_place_is_asked_about(root: Path) -> None:
    repository(root, a="one")
    with Command(root):
        write(root, {"a": "two"})
    shutil.rmtree(root)
    repository(root, a="theirs", b="theirs")
    assert undo(root).conflicts == {b"a"}
    assert (root / "a").read_text() == "theirs"


def test_a_file_of_git_that_is_a_link_or_a_file_is_no_hindrance(root: Path, tmp_path: Path) -> None:
    repository(root, a="one")
    for kind in ("file", "link"):
        place = (root / ".git").rename(tmp_path / f"git {kind}")
        if kind == "file":
            (root / ".git").write_text(f"gitdir: {place}\n")
        else:
            (root / ".git").symlink_to(place)
        with Command(root):
            write(root, {"a": "two"})
        assert undo(root).restored == (b"a",)
        (root / ".git").unlink()
        place.rename(root / ".git")


def test_records_of_a_running_command_are_left_alone_and_two_servers_agree(root: Path) -> None:
    repository(root, a="one", b="one")
    begun = worker(root).begin("one", "x")
    write(root, {"a": "two"})
    with Command(root, "two"):
        write(root, {"b": "two"})
    assert undo(root).restored == (b"b",)
    worker(root).finish(begun)
    begun.close()
    assert undo(root).restored == (b"a",)
    assert Records(root, undo_folder(root)).unfinished() == []
