"""Private folders, appends, atomic writes and locks."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from aish_lsp.foundation.errors import Busy, StoreUnavailable
from aish_lsp.foundation.files import (
    append_line,
    open_append,
    private_dir,
    read_file,
    store_errors,
    write_atomic,
)
from aish_lsp.foundation.locks import locked


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def append(path: Path, line: str, *, sync: bool = False) -> None:
    fd = open_append(path)
    try:
        append_line(fd, path, line, sync=sync)
    finally:
        os.close(fd)


def test_private_dir_makes_itself_and_missing_parents_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    made = private_dir(tmp_path / "a" / "b")
    assert made == tmp_path / "a" / "b"
    assert mode(made) == mode(made.parent) == 0o700
    assert mode(tmp_path) == 0o755
    assert private_dir(made) == made


def test_private_dir_tells_what_stands_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"cannot make the folder .*file.*exists"):
        private_dir(tmp_path / "file")
    with pytest.raises(StoreUnavailable, match="File exists"):
        private_dir(tmp_path / "file" / "below")


def test_append_makes_a_private_file_and_grows_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.jsonl"
    append(path, "one", sync=True)
    append(path, "two\nthree")
    assert path.read_text() == "one\ntwo\nthree\n"
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_append_closes_a_line_that_was_never_finished(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"b": ')
    append(path, '{"c": 3}')
    assert path.read_text() == '{"a": 1}\n{"b": \n{"c": 3}\n'


def test_append_goes_on_where_the_system_splits_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, bytes(data[:3])))
    append(tmp_path / "x", "a line of many pieces")
    assert (tmp_path / "x").read_text() == "a line of many pieces\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_with_its_path_and_what_to_do() -> None:
    path = Path("/dev/full")
    fd = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(StoreUnavailable, match=r"/dev/full: No space.*Free some space"):
            append_line(fd, path, "line", sync=True)
    finally:
        os.close(fd)


@pytest.mark.parametrize("ours", [True, False])
def test_only_our_own_files_can_be_moved_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    path = tmp_path / ("data" if ours else "work") / "x"
    with pytest.raises(StoreUnavailable) as caught, store_errors(path, "write"):
        raise PermissionError(errno.EACCES, "Permission denied")
    assert caught.value.message.endswith(
        "Make it accessible, or set AISH_DATA_DIR to a folder that is."
        if ours
        else "Permission denied. Make it accessible."
    )


def test_an_append_that_fails_half_way_is_taken_back(tmp_path: Path) -> None:
    # The limit on a file's size makes the system write a part and refuse the rest.
    script = """
import os, resource, sys
from pathlib import Path
from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.files import append_line, open_append
path = Path(sys.argv[1])
fd = open_append(path)
append_line(fd, path, "kept", sync=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    append_line(fd, path, "too long for the limit", sync=True)
except StoreUnavailable as error:
    print(error.message)
"""
    path = tmp_path / "x"
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )
    assert f"cannot write to {path}: File too large" in done.stdout
    assert path.read_text() == "kept\n"


def test_write_atomic_replaces_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "x.json"
    write_atomic(path, "eins")
    write_atomic(path, b"zwei")
    assert path.read_bytes() == b"zwei"
    assert mode(path) == 0o600

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreUnavailable, match="No space left"):
        write_atomic(path, "drei")
    assert path.read_bytes() == b"zwei"
    assert [entry.name for entry in path.parent.iterdir()] == ["x.json"]


def test_write_atomic_syncs_the_file_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(fd: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def recorded_replace(path: Path, target: Path, **folders: int | None) -> None:
        calls.append("rename")
        replace(path, target, **folders)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    write_atomic(path, "x")
    assert calls == ["file", "rename", "folder"]


@pytest.mark.parametrize("cannot", ["open", "fsync"])
def test_a_folder_that_cannot_be_synced_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cannot: str
) -> None:
    opened, fsync = os.open, os.fsync

    def refused_open(path: Path, flags: int, mode: int = 0o777, dir_fd: int | None = None) -> int:
        if flags & os.O_DIRECTORY:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, flags, mode, dir_fd=dir_fd)

    def refused_fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(fd)

    refused = {"open": refused_open, "fsync": refused_fsync}[cannot]
    monkeypatch.setattr(os, cannot, refused)
    path = tmp_path / "new" / "x.json"
    write_atomic(path, "x")
    assert path.read_text() == "x"
    os.close(open_append(tmp_path / "new" / "y.jsonl"))


def test_write_atomic_keeps_a_symbolic_link(tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "real", tmp_path / "link"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_lock_keeps_other_threads_out_and_is_let_go_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    entered = threading.Event()

    def other() -> None:
        with locked(path):
            entered.set()

    thread = threading.Thread(target=other)
    with contextlib.suppress(ZeroDivisionError), locked(path):
        thread.start()
        assert not entered.wait(0.1)
        raise ZeroDivisionError
    assert entered.wait(5)
    thread.join()
    assert mode(tmp_path / "x.lock") == 0o600


def test_a_lock_that_is_removed_while_others_wait_for_it_is_one_lock_still(tmp_path: Path) -> None:
    path = tmp_path / "x"
    waiting, entered = threading.Event(), threading.Event()

    def other() -> None:
        waiting.set()
        with locked(path):
            entered.set()

    thread = threading.Thread(target=other)
    with contextlib.ExitStack() as new:
        with locked(path):
            thread.start()
            assert waiting.wait(5)
            # Until it stands in line.
            assert not entered.wait(0.2)
            (tmp_path / "x.lock").unlink()
            new.enter_context(locked(path))
        assert not entered.wait(0.2)
    assert entered.wait(5)
    thread.join()


def test_a_lock_that_is_held_tells_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "x"
    script = (
        "import sys; from pathlib import Path; from aish_lsp.foundation.locks import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Busy) as caught, locked(path, timeout=0.1):
            pass
        assert str(path) in caught.value.message
        who = f"process {holder.pid} " if Path("/proc/locks").exists() else "another process "
        # A sandbox may show no locks, or pids of its own.
        assert who in caught.value.message or "process " in caught.value.message
        holder.kill()
    with locked(path, timeout=5):
        pass


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    pipe, folder, loop = tmp_path / "pipe", tmp_path / "folder", tmp_path / "loop"
    os.mkfifo(pipe)
    folder.mkdir()
    loop.symlink_to(loop)
    for path, reason in (
        (pipe, "a pipe or a device"),
        (folder, "Is a directory"),
        (loop, "Too many levels of symbolic links"),
        (Path("/dev/null"), "a pipe or a device"),
    ):
        for call in (read_file, open_append):
            with pytest.raises(StoreUnavailable, match=rf"{path}.*{reason}.*Move it away"):
                call(path)


def test_a_file_has_one_lock_whatever_it_is_called(tmp_path: Path) -> None:
    path, link = tmp_path / "real" / "x", tmp_path / "link"
    path.parent.mkdir()
    link.symlink_to(path)
    with locked(link), pytest.raises(Busy), locked(path, timeout=0.1):
        pass
    assert not list(tmp_path.glob("link.lock"))


def test_a_link_to_a_file_that_is_still_to_be_made(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "x")
    append(link, "one", sync=True)
    assert (tmp_path / "x").read_text() == "one\n"
    assert link.is_symlink()
