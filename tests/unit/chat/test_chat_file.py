"""The chat's file: made where it may be, refused where it must be, never lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from repository import git

from aish_lsp.chat.file import LARGEST, ChatFile
from aish_lsp.chat.markdown import first_text
from aish_lsp.foundation.errors import StoreUnavailable


def test_a_fresh_one(tmp_path: Path) -> None:
    chat = ChatFile(tmp_path)
    assert chat.read() == ""
    chat.ensure()
    assert chat.path == tmp_path / ".aish" / "chat.md"
    assert chat.read() == first_text()
    assert (tmp_path / ".aish" / ".gitignore").read_text() == "*\n"
    assert chat.path.stat().st_mode & 0o077 == 0


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / ".aish").mkdir()
    (tmp_path / ".aish" / ".gitignore").write_text("mine\n")
    (tmp_path / ".aish" / "chat.md").write_text("talk\n")
    chat = ChatFile(tmp_path)
    chat.ensure()
    assert chat.read() == "talk\n"
    assert (tmp_path / ".aish" / ".gitignore").read_text() == "mine\n"


def test_append_and_replace(tmp_path: Path) -> None:
    chat = ChatFile(tmp_path)
    assert chat.write("", "a\r\n", appends=True)
    assert chat.write("a\r\n", "é", appends=True)
    assert chat.path.read_bytes() == b"a\r\n\xc3\xa9"
    assert not chat.write("something else", "new\n", appends=False)
    assert chat.write("a\r\né", "new\n", appends=False)
    assert chat.read() == "new\n"
    assert sorted(path.name for path in chat.folder.iterdir()) == [".gitignore", "chat.md"]


def test_bytes_that_are_no_utf8_survive(tmp_path: Path) -> None:
    chat = ChatFile(tmp_path)
    chat.ensure()
    chat.path.write_bytes(b"caf\xe9\n")
    before = chat.read()
    assert chat.write(before, f"{before}more\n", appends=False)
    assert chat.path.read_bytes() == b"caf\xe9\nmore\n"


ACTIONS: list[Callable[[ChatFile], object]] = [
    ChatFile.ensure,
    ChatFile.read,
    lambda chat: chat.write(chat.read(), "x", appends=True),
    lambda chat: chat.write(chat.read(), "x", appends=False),
]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_not_followed(
    tmp_path: Path, action: Callable[[ChatFile], object], exists: bool
) -> None:
    root, target = tmp_path / "root", tmp_path / "target"
    (root / ".aish").mkdir(parents=True)
    if exists:
        target.write_text("precious")
    (root / ".aish" / "chat.md").symlink_to(target)
    with pytest.raises(StoreUnavailable, match=r"chat\.md is a symbolic link"):
        action(ChatFile(root))
    assert target.exists() == exists
    assert not exists or target.read_text() == "precious"


@pytest.mark.parametrize("action", ACTIONS)
def test_a_file_with_a_second_name_is_not_used(
    tmp_path: Path, action: Callable[[ChatFile], object]
) -> None:
    target, chat = tmp_path / "target", ChatFile(tmp_path)
    target.write_text("precious")
    chat.folder.mkdir()
    chat.path.hardlink_to(target)
    with pytest.raises(StoreUnavailable, match=r"chat\.md has a second name"):
        action(chat)
    assert target.read_text() == "precious"
    target.unlink()
    action(chat)


def test_a_gitignore_with_a_second_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".aish").mkdir()
    (tmp_path / "target").touch()
    (tmp_path / ".aish" / ".gitignore").hardlink_to(tmp_path / "target")
    ChatFile(tmp_path).ensure()
    assert (tmp_path / "target").read_text() == ""


def grown(chat: ChatFile, size: int) -> None:
    chat.ensure()
    with chat.path.open("r+b") as file:
        file.truncate(size)


def test_one_that_has_grown_too_large_is_put_aside_and_named(tmp_path: Path) -> None:
    chat = ChatFile(tmp_path)
    for number in range(3):
        grown(chat, LARGEST)
        chat.ensure()
        assert len(chat.read()) == LARGEST
        grown(chat, 200 << 20)
        chat.ensure()
        aside = [path.name for path in chat.folder.glob("chat-*.md")]
        assert len(aside) == number + 1
        assert any(f"`{name}`" in chat.read() for name in aside)
        assert chat.read().endswith("\n\n## You\n\n")
        assert [path.stat().st_size for path in chat.folder.glob("chat-*.md")] == [200 << 20] * len(
            aside
        )


def test_one_that_is_open_in_an_editor_is_not_taken_from_it(tmp_path: Path) -> None:
    chat = ChatFile(tmp_path)
    grown(chat, 200 << 20)
    chat.ensure(is_open=True)
    assert chat.path.stat().st_size == 200 << 20
    with pytest.raises(StoreUnavailable, match="beyond 2 MiB"):
        chat.read()


@pytest.mark.parametrize("action", ACTIONS)
def test_a_linked_folder_is_not_followed(
    tmp_path: Path, action: Callable[[ChatFile], object]
) -> None:
    root, target = tmp_path / "root", tmp_path / "target"
    root.mkdir()
    target.mkdir()
    (root / ".aish").symlink_to(target)
    with pytest.raises(StoreUnavailable, match=r"\.aish is a symbolic link"):
        action(ChatFile(root))
    assert list(target.iterdir()) == []


def test_a_linked_gitignore_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".aish").mkdir()
    (tmp_path / ".aish" / ".gitignore").symlink_to(tmp_path / "target")
    ChatFile(tmp_path).ensure()
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("action", ACTIONS)
def test_something_else_has_its_name(tmp_path: Path, action: Callable[[ChatFile], object]) -> None:
    folder, file, pipe = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    (folder / ".aish" / "chat.md").mkdir(parents=True)
    file.mkdir()
    (file / ".aish").write_text("")
    (pipe / ".aish").mkdir(parents=True)
    os.mkfifo(pipe / ".aish" / "chat.md")
    for root, message in (
        (folder, "not a regular file"),
        (file, "not a folder"),
        (pipe, "not a regular file"),
    ):
        with pytest.raises(StoreUnavailable, match=message):
            action(ChatFile(root))


def test_a_workspace_that_is_gone(tmp_path: Path) -> None:
    chat = ChatFile(tmp_path / "gone")
    with pytest.raises(StoreUnavailable, match=r"cannot create .*chat\.md: No such file"):
        chat.ensure()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_workspace_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreUnavailable, match=r"Permission denied\. Make it accessible\."):
            ChatFile(tmp_path).ensure()
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("below", ["", "deep/er"])
def test_a_file_that_git_tracks_is_refused(tmp_path: Path, below: str) -> None:
    git(tmp_path, "init", "-q")
    root = tmp_path / below
    (root / ".aish").mkdir(parents=True)
    (root / ".aish" / "chat.md").write_text("## You\n\n:run evil\n")
    chat = ChatFile(root)
    chat.ensure()
    git(root, "add", "-f", ".aish/chat.md")
    with pytest.raises(StoreUnavailable, match="tracked by git"):
        chat.ensure()
    git(root, "rm", "-q", "--cached", ".aish/chat.md")
    chat.ensure()


def test_git_does_not_see_the_chat(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    ChatFile(tmp_path).ensure()
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert listed.stdout == b""


def test_a_hostile_repository_spawns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    spy = tmp_path / "spy.sh"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/spawned\n")
    spy.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(spy))
    git(tmp_path, "ls-files")
    assert (tmp_path / "spawned").exists(), "the trap does not work"
    (tmp_path / "spawned").unlink()
    # Neither may the environment of an editor that a git hook started mislead us.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    chat = ChatFile(tmp_path)
    chat.ensure()
    assert not (tmp_path / "spawned").exists()
    monkeypatch.delenv("GIT_DIR")
    git(tmp_path, "-c", "core.fsmonitor=false", "add", "-f", ".aish/chat.md")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    with pytest.raises(StoreUnavailable, match="tracked"):
        chat.ensure()
    assert not (tmp_path / "spawned").exists()


def test_a_git_of_the_workspace_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "git"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/spawned\n")
    fake.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for entry in (".", "", str(tmp_path)):
        monkeypatch.setenv("PATH", os.pathsep.join((entry, os.environ["PATH"])))
        ChatFile(tmp_path).ensure()
    assert not (tmp_path / "spawned").exists()


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    chat = ChatFile(tmp_path)
    chat.ensure()
    assert chat.read() == first_text()


@pytest.mark.slow
def test_two_servers_on_one_folder(tmp_path: Path) -> None:
    def serve(number: int) -> None:
        chat = ChatFile(tmp_path)
        for _ in range(20):
            chat.ensure()
            while not chat.write(chat.read(), f"line of {number}\n", appends=True):
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(serve, range(4)))
    text = ChatFile(tmp_path).read()
    assert text.count(first_text()) == 1
    lines = text.replace(first_text(), "").splitlines()
    assert sorted(lines) == sorted(f"line of {n}" for n in range(4) for _ in range(20))
