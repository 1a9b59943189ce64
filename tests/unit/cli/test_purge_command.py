"""``aish-lsp purge``: what is ours is listed and removed, whatever else lies beside it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import run_main
from repository import git

from aish_lsp.config.trust import TrustStore
from aish_lsp.foundation.files import workspace_dir
from aish_lsp.memory.scopes import MemoryScopes
from aish_lsp.offline.ranking import index_file
from aish_lsp.sessions import records
from aish_lsp.sessions.log import SessionLog


@pytest.fixture
def root(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a workspace with a chat, memory, a session and a grant."""
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AISH_CONFIG", str(tmp_path / "config.toml"))
    # The offline model's index lies beside the bytecode; that of this run is not to be removed.
    bytecode = str(tmp_path_factory.mktemp("bytecode"))
    monkeypatch.setattr(sys, "pycache_prefix", bytecode)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", bytecode)
    root = tmp_path / "project"
    root.mkdir()
    _used(root, tmp_path / "data")
    return root


def _used(root: Path, data: Path) -> None:
    log = SessionLog.create(workspace_dir(root) / "sessions", root.as_uri())
    log.append(records.user("How?"))
    log.close()
    scopes = MemoryScopes.open(data / "memory.jsonl", workspace_dir(root) / "memory.jsonl")
    scopes.store("user").add("fact", "tabs")
    TrustStore(data / "trust.json").grant(root, "tool", "git", "0")
    folder = root / ".aish"
    (folder / "output").mkdir(parents=True)
    (folder / "chat.md").write_text("## You\n")
    (folder / "chat-20260101-000000.md").write_text("## You\n")
    (folder / "output" / "0badcafe.txt").write_text("long")
    (folder / ".gitignore").write_text("*\n")


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@contextmanager
def at_its_question() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run it at a terminal until it asks; yield the process and our end of the terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "aish_lsp", "purge"]
    with subprocess.Popen(command, stdin=its, stderr=its, stdout=subprocess.PIPE) as process:
        os.close(its)
        _read_until(ours, b"[y/N]")
        yield process, ours
    os.close(ours)


def _read_until(terminal: int, text: bytes) -> None:
    said = b""
    while text not in said:
        said += os.read(terminal, 4096)


def test_all_that_is_ours_goes_and_the_folders_with_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text('default_model = "offline"\n')
    (root / "main.py").touch()
    index_file().parent.mkdir(parents=True)
    index_file().touch()
    listed = run_main(capsys, "purge", "--json")
    assert listed.returncode == 1
    paths = [item["path"] for item in json.loads(listed.stdout)["found"]]
    for name in ("config.toml", "data/memory.jsonl", "data/trust.json", "project/.aish/chat.md"):
        assert str(tmp_path / name) in paths
    assert str(index_file()) in paths
    done = run_main(capsys, "purge", "--yes")
    assert done.returncode == 0
    assert "removed" in done.stdout
    assert _files(tmp_path) == {"project/main.py"}
    assert not (tmp_path / "data").exists()
    assert not (root / ".aish").exists()
    again = run_main(capsys, "purge", "--yes")
    assert (again.returncode, again.stdout) == (0, "There is nothing to remove.\n")


def test_a_workspace_whose_name_is_not_utf_8_is_found(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    _used(odd, tmp_path / "data")
    assert run_main(capsys, "purge", "--yes").returncode == 0
    assert not (odd / ".aish").exists()


def test_a_workspace_opened_by_a_link_and_by_its_path_is_listed_once(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    log = SessionLog.create(workspace_dir(root) / "sessions", link.as_uri())
    log.append(records.user("How?"))
    log.close()
    # The log of the link is read first.
    log.path.rename(log.path.with_name(f"00000000T000000Z-000000{log.path.suffix}"))
    listed = run_main(capsys, "purge", "--json")
    paths = [Path(item["path"]).resolve() for item in json.loads(listed.stdout)["found"]]
    assert paths.count((root / ".aish/chat.md").resolve()) == 1


@pytest.mark.parametrize(
    ("removed", "told"),
    [
        ((), "the chat, and long outputs of commands"),
        (("output",), "the chat"),
        (("chat",), "long outputs of commands"),
        (("output", "chat"), "the file that hides this folder from git"),
    ],
)
def test_a_workspaces_folder_is_listed_as_what_it_holds(
    root: Path, capsys: pytest.CaptureFixture[str], removed: tuple[str, ...], told: str
) -> None:
    folder = root / ".aish"
    for path in [path for name in removed for path in folder.rglob(f"*{name}*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = json.loads(run_main(capsys, "purge", "--json").stdout)["found"]
    assert [one["what"] for one in found if Path(one["path"]).is_relative_to(folder)] == [told]


def test_without_a_terminal_and_yes_it_only_lists(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _files(tmp_path)
    done = run_main(capsys, "purge")
    assert done.returncode == 1
    assert "Use --yes" in done.stderr
    assert f"{root}: sessions" in done.stdout
    assert _files(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1), (b"\x04", 1)])
def test_at_a_terminal_only_a_yes_removes(
    root: Path, tmp_path: Path, answer: bytes, code: int
) -> None:
    with at_its_question() as (process, terminal):
        os.write(terminal, answer)
        assert process.wait() == code
    assert (root / ".aish/chat.md").exists() == bool(code)
    assert (tmp_path / "data/memory.jsonl").exists() == bool(code)


def test_files_of_others_in_our_folders_stay_and_are_named(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = ["data/letter.txt", "data/asked/me.txt", "data/workspaces/shop/plan.md"]
    foreign += ["project/.aish/commands/fix.md", "project/.aish/output/notes.md"]
    # They are named almost as ours are.
    foreign += ["project/.aish/chat-2.md/notes.txt", "project/.aish/chat-about-parsers.md"]
    foreign += ["project/.aish/output/todo.txt", "project/.aish/output/0badcaff.txt/a"]
    for name in foreign:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    done = run_main(capsys, "purge", "--yes")
    assert done.returncode == 0
    # What hides the rest from git stays with it.
    assert _files(tmp_path) == {*foreign, "project/.aish/.gitignore"}
    for name in ("letter.txt", "me.txt", "shop", "chat-2.md and 2 more", "0badcaff.txt and 2 more"):
        assert f"also holds {name}" in done.stdout


@pytest.mark.parametrize("name", ["project/.aish", "project/.aish/output", "data"])
def test_a_link_in_place_of_a_folder_is_not_followed(
    root: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link, elsewhere = tmp_path / name, tmp_path / "elsewhere"
    link.rename(elsewhere)
    link.symlink_to(elsewhere)
    before = _files(elsewhere)
    done = run_main(capsys, "purge", "--yes")
    assert f"{link} is a link" in done.stdout
    assert link.is_symlink()
    assert _files(elsewhere) == before


def test_a_link_in_place_of_a_file_stays(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dotfiles").write_text("default_model = 'offline'\n")
    (tmp_path / "config.toml").symlink_to("dotfiles")
    run_main(capsys, "purge", "--yes")
    assert _files(tmp_path) == {"dotfiles", "config.toml"}


def test_a_chat_that_git_tracks_stays(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(root, "init", "-q")
    git(root, "add", "-f", ".aish/chat.md")
    done = run_main(capsys, "purge", "--yes")
    assert "chat.md is tracked by git" in done.stdout
    assert _files(root / ".aish") == {"chat.md"}


def test_a_session_that_names_another_folder_does_not_lead_there(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = tmp_path / "victim"
    (victim / ".aish").mkdir(parents=True)
    (victim / ".aish/chat.md").write_text("theirs")
    log = SessionLog.create(workspace_dir(root) / "sessions", victim.as_uri())
    log.append(records.user("How?"))
    log.close()
    run_main(capsys, "purge", "--yes")
    assert _files(tmp_path) == {"victim/.aish/chat.md"}


def test_one_workspace_goes_and_the_others_stay(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    data = tmp_path / "data"
    _used(other, data)
    kept = {name for name in _files(tmp_path) if "project" not in name}
    done = run_main(capsys, "purge", "--yes", "--workspace", str(root))
    assert done.returncode == 0
    assert "1 grant for" in done.stdout
    assert _files(tmp_path) == kept
    trust = TrustStore(data / "trust.json")
    assert trust.granted(other, "tool", "git", "0")
    assert not trust.granted(root, "tool", "git", "0")


def test_workspace_without_a_folder_means_the_current_one(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    run_main(capsys, "purge", "--workspace", "--yes")
    assert not (root / ".aish").exists()


@pytest.mark.parametrize("place", ["sessions", "undo"])
def test_nothing_goes_while_another_program_has_it_open(
    root: Path, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = workspace_dir(root) / place
    folder.mkdir(exist_ok=True)
    path = next(folder.glob("*.jsonl"), folder / "work.lock")
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = _files(tmp_path)
        done = run_main(capsys, "purge", "--yes")
        assert done.returncode == 1
        assert "is in use by" in done.stderr
        assert _files(tmp_path) == before
    assert run_main(capsys, "purge", "--yes").returncode == 0


@pytest.mark.slow
def test_a_folder_that_becomes_a_link_while_it_asks_is_not_followed(
    root: Path, tmp_path: Path
) -> None:
    with at_its_question() as (process, terminal):
        (root / ".aish").rename(tmp_path / "elsewhere")
        (root / ".aish").symlink_to(tmp_path / "elsewhere")
        os.write(terminal, b"y\n")
        _read_until(terminal, b"changed meanwhile")
        assert process.wait() == 1
    assert (tmp_path / "elsewhere/chat.md").exists()
    assert (tmp_path / "data/memory.jsonl").exists()


def test_a_place_that_cannot_be_entered_keeps_no_other_from_going(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data/oauth").write_text("a file where a folder should be")
    done = run_main(capsys, "purge", "--yes")
    assert done.returncode == 0
    assert "oauth cannot be read (Not a directory): left" in done.stdout
    assert _files(tmp_path) == {"data/oauth"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_what_cannot_be_removed_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / ".aish").chmod(0o500)
    done = run_main(capsys, "purge", "--yes")
    (root / ".aish").chmod(0o700)
    assert done.returncode == 1
    assert f"cannot remove {root / '.aish/chat.md'}" in done.stderr
