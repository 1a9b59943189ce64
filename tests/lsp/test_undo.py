"""Undo, asked for as editors ask: with questions and without, in the chat, after a restart."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from client import Client, RpcError
from conversing import no, yes
from repository import git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def repository(folder: Path) -> Path:
    git(folder, "init", "-q")
    (folder / "kept.txt").write_text("as it was")
    return folder


async def run(client: Client, text: str) -> Any:
    client.answers["window/showMessageRequest"] = yes
    argument = {"text": text, "partialResultToken": os.urandom(4).hex()}
    return await client.command_result("aish.run", argument)


async def undo(client: Client) -> Any:
    return await client.command_result("aish.undo")


def notices(client: Client) -> list[str]:
    events = [event for under in client.progress.values() for event in under]
    return [event["message"] for event in events if event["kind"] == "notice"]


async def holds(path: Path, text: str) -> None:
    """Wait until a file is there and holds ``text``."""
    while not path.exists() or text not in path.read_text():
        await asyncio.sleep(0.05)


def told(client: Client) -> str:
    return "\n".join(params["message"] for params in client.notified("window/showMessage"))


async def test_what_a_command_did_is_undone_and_redone(repository: Path) -> None:
    async with Client() as client:
        await client.initialize(repository)
        await run(client, "echo changed > kept.txt; mkdir new; echo more > new/file.txt")
        assert await undo(client) == {
            "restored": ["kept.txt"],
            "removed": ["new/file.txt"],
            "conflicts": [],
        }
        assert (repository / "kept.txt").read_text() == "as it was"
        assert not (repository / "new").exists()
        assert "Put back: kept.txt" in told(client)
        redone = await client.command_result("aish.redo")
        assert redone["restored"] == ["kept.txt", "new/file.txt"]
        assert (repository / "kept.txt").read_text() == "changed\n"


async def test_what_is_named_is_undone_only_if_it_came_last(repository: Path) -> None:
    async with Client() as client:
        await client.initialize(repository)
        first = await run(client, "echo one > kept.txt")
        second = await run(client, "echo two > kept.txt")

        async def undo_of(ran: Any) -> Any:
            return await client.command_result("aish.undo", {"id": ran["commandId"]})

        with pytest.raises(RpcError, match="others were made after them"):
            await undo_of(first)
        assert (repository / "kept.txt").read_text() == "two\n"
        assert (await undo_of(second))["restored"] == ["kept.txt"]
        assert (repository / "kept.txt").read_text() == "one\n"
        with pytest.raises(RpcError, match="already been undone"):
            await undo_of(second)
        assert (repository / "kept.txt").read_text() == "one\n"


async def test_what_is_named_is_undone_again_after_each_redo(repository: Path) -> None:
    kept = repository / "kept.txt"
    async with Client() as client:
        await client.initialize(repository)
        first = await run(client, "echo one > kept.txt")
        second = await run(client, "echo two > kept.txt")
        for _ in range(3):
            undone = await client.command_result("aish.undo", {"id": second["commandId"]})
            assert (undone["restored"], kept.read_text()) == (["kept.txt"], "one\n")
            await client.command_result("aish.redo")
            assert kept.read_text() == "two\n"
        with pytest.raises(RpcError, match="others were made after them"):
            await client.command_result("aish.undo", {"id": first["commandId"]})
        assert kept.read_text() == "two\n"


async def test_what_is_named_is_not_undone_from_a_session_that_did_something_else(
    repository: Path,
) -> None:
    async with Client() as client:
        await client.initialize(repository)
        beside = (await client.command_result("aish.session.new", {"show": False}))["id"]
        await run(client, "echo mine > kept.txt")
        there = {"session": beside, "partialResultToken": "beside"}
        other = await client.command_result("aish.run", {"text": "echo other > other.txt", **there})
        with pytest.raises(RpcError, match="others were made after them"):
            await client.command_result("aish.undo", {"id": other["commandId"]})
        assert (repository / "kept.txt").read_text() == "mine\n"
        assert (repository / "other.txt").exists()


async def test_undo_goes_back_to_the_first_command_and_redo_forward_again(
    repository: Path,
) -> None:
    kept = repository / "kept.txt"
    async with Client() as client:
        await client.initialize(repository)
        for number in range(3):
            await run(client, f"echo {number} > kept.txt")
        for held in ("1\n", "0\n", "as it was"):
            assert (await undo(client))["restored"] == ["kept.txt"]
            assert kept.read_text() == held
        with pytest.raises(RpcError, match="nothing to undo"):
            await undo(client)
        for number in range(3):
            await client.command_result("aish.redo")
            assert kept.read_text() == f"{number}\n"
        with pytest.raises(RpcError, match="nothing to redo"):
            await client.command_result("aish.redo")
        await undo(client)
        await run(client, "echo other > other.txt")
        with pytest.raises(RpcError, match="nothing to redo"):
            await client.command_result("aish.redo")
        assert (await undo(client))["removed"] == ["other.txt"]
        assert (await undo(client))["restored"] == ["kept.txt"]
        assert kept.read_text() == "0\n"


async def test_the_question_says_that_there_is_an_undo_and_that_there_is_none(
    repository: Path, tmp_path: Path
) -> None:
    async with Client() as client:
        await client.initialize(repository)
        await run(client, "rm -rf kept.txt")
        question = client.asked("window/showMessageRequest")[-1]["message"]
        assert "`:undo` restores the files of this git work tree, except those" in question
        assert "nothing outside it." in question
        shutil.rmtree(repository / ".git")
        await run(client, "rm -rf other.txt")
        question = client.asked("window/showMessageRequest")[-1]["message"]
        assert "This cannot be undone: the folder is not in a git work tree." in question


@pytest.mark.parametrize("answer", [yes, no])
async def test_what_the_user_changed_since_is_asked_about(repository: Path, answer: Any) -> None:
    async with Client() as client:
        await client.initialize(repository)
        await run(client, "echo changed > kept.txt; echo b > other.txt")
        (repository / "kept.txt").write_text("mine")
        client.answers["window/showMessageRequest"] = answer
        undone = await undo(client)
        assert "kept.txt" in client.asked("window/showMessageRequest")[-1]["message"]
        wanted = {yes: ([], "as it was"), no: (["kept.txt"], "mine")}[answer]
        assert (undone["conflicts"], (repository / "kept.txt").read_text()) == wanted
        assert undone["removed"] == ["other.txt"]


async def test_where_nobody_can_be_asked_nothing_is_overwritten_and_the_chat_goes_on(
    repository: Path,
) -> None:
    async with Client() as client:
        await client.initialize(repository)
        await run(client, "echo changed > kept.txt; echo b > other.txt")
        (repository / "kept.txt").write_text("mine")
        client.answers["window/showMessageRequest"] = lambda _: None
        assert await undo(client) == {"restored": [], "removed": [], "conflicts": ["kept.txt"]}
        assert (repository / "other.txt").exists()
        assert ":undo overwrite" in told(client)
        await client.command_result("aish.chat.send", {"prompt": ":undo overwrite"})
        chat = repository / ".aish" / "chat.md"
        await client.within(holds(chat, "`:redo` does this one again"), "the answer")
        assert (repository / "kept.txt").read_text() == "as it was"
        assert not (repository / "other.txt").exists()


@pytest.mark.parametrize("answer", [yes, no, lambda _: None])
async def test_a_command_of_an_earlier_session_is_named_and_asked_about(
    repository: Path, answer: Any
) -> None:
    kept = repository / "kept.txt"
    async with Client() as client:
        await client.initialize(repository)
        await run(client, "echo changed > kept.txt; rm -f gone.txt")
        assert client.process is not None
        os.kill(client.process.pid, signal.SIGKILL)
        await client.ended()
    async with Client() as client:
        await client.initialize(repository)
        client.answers["window/showMessageRequest"] = answer
        undone = await undo(client)
        question = client.asked("window/showMessageRequest")[-1]["message"]
        assert "Undo the last one of an earlier session, of 20" in question
        assert "echo changed > kept.txt; rm -f gone.txt" in question
        assert undone["restored"] == (["kept.txt"] if answer is yes else [])
        assert kept.read_text() == ("as it was" if answer is yes else "changed\n")
        if answer not in (yes, no):
            assert ":undo earlier" in told(client)
            await client.command_result("aish.chat.send", {"prompt": ":undo earlier"})
            chat = repository / ".aish" / "chat.md"
            await client.within(holds(chat, "Put back: kept.txt"), "the answer")
            assert kept.read_text() == "as it was"
        if answer is not no:
            await client.command_result("aish.redo")
            assert kept.read_text() == "changed\n"


async def test_without_a_repository_it_is_told_once_and_the_command_runs(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        for number in range(2):
            report = await run(client, f"touch file{number}")
            assert report["exitCode"] == 0
        assert notices(client) == ["This cannot be undone: the folder is not in a git work tree."]
        with pytest.raises(RpcError) as refused:
            await undo(client)
        assert refused.value.data["kind"] == "notFound"


async def test_run_that_was_asked_about_without_undo_does_not_repeat_it(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        client.answers["window/showMessageRequest"] = yes
        report = await run(client, "rm -rf nothing")
        assert report["exitCode"] == 0
        question = client.asked("window/showMessageRequest")[-1]["message"]
        assert "This cannot be undone: the folder is not in a git work tree." in question
        assert notices(client) == []


async def test_the_chat_says_that_there_is_no_undo(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        client.answers["window/showMessageRequest"] = yes
        await client.command_result("aish.chat.send", {"prompt": ":run touch a"})
        chat = folder / ".aish" / "chat.md"
        await client.within(holds(chat, "> This cannot be undone: the folder is"), "a notice")


async def test_ignored_files_are_named_when_a_command_takes_them(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "a.log").write_text("gone soon")
    async with Client() as client:
        await client.initialize(repository)
        await run(client, "rm a.log; echo b > kept.txt")
        [notice] = notices(client)
        assert notice.startswith(
            "`:undo` cannot bring back a.log: it leaves out files that git ignores"
        )


async def test_what_the_user_saves_while_a_command_runs_is_theirs(repository: Path) -> None:
    (repository / "mine.txt").write_text("one")
    begins = "echo changed > kept.txt; until [ -e .git/go ]; do sleep 0.05; done"
    async with Client() as client:
        await client.initialize(repository)
        running = asyncio.create_task(run(client, begins))
        await client.within(holds(repository / "kept.txt", "changed"), "the command")
        (repository / "mine.txt").write_text("two")
        saved = {"textDocument": {"uri": (repository / "mine.txt").as_uri()}}
        await client.notify("textDocument/didSave", saved)
        (repository / ".git" / "go").touch()
        await running
        client.answers["window/showMessageRequest"] = no
        assert await undo(client) == {
            "restored": ["kept.txt"],
            "removed": [],
            "conflicts": ["mine.txt"],
        }
        assert "mine.txt" in client.asked("window/showMessageRequest")[-1]["message"]
        assert (repository / "mine.txt").read_text() == "two"


async def test_no_snapshot_is_taken_of_what_only_reads_or_where_none_is_wanted(
    repository: Path, clean_home: Path
) -> None:
    (clean_home / "config.toml").write_text("[safety]\nsnapshot = false\n")
    async with Client() as client:
        await client.initialize(repository)
        await run(client, "echo changed > kept.txt")
        await run(client, "rm -rf other")
        question = client.asked("window/showMessageRequest")[-1]["message"]
        assert "This cannot be undone: safety.snapshot is off." in question
        (clean_home / "config.toml").write_text("")
        await run(client, "ls")
    assert not list(clean_home.glob("**/*.record"))


async def test_no_undo_while_a_command_runs(repository: Path) -> None:
    async with Client() as client:
        await client.initialize(repository)
        client.answers["window/showMessageRequest"] = yes
        await client.command_result("aish.run", {"text": "echo x > begun; sleep 60"})
        await client.within(holds(repository / "begun", "x"), "the command")
        with pytest.raises(RpcError) as refused:
            await undo(client)
        assert refused.value.data["kind"] == "busy"
        await client.command_result("aish.cancel")
        await client.within(holds(repository / ".aish" / "chat.md", "stopped after"), "its end")
        assert (await undo(client))["removed"] == ["begun"]


@pytest.mark.parametrize("link", [".git/refs", ".git/objects", ".git/packed-refs", ".git"])
async def test_links_in_a_repository_lead_no_write_anywhere(
    repository: Path, tmp_path: Path, link: str
) -> None:
    (repository / "f").write_text("one\n")
    git(repository, "add", "f")
    git(repository, "commit", "-qm", "one")
    git(repository, "pack-refs", "--all")
    elsewhere, at = tmp_path / "elsewhere", repository / link
    at.rename(elsewhere)
    at.symlink_to(elsewhere)
    before = listed(elsewhere)
    async with Client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(repository)
        assert (await run(client, "rm f; echo two > f"))["exitCode"] == 0
        assert (await undo(client))["restored"] == ["f"]
    assert (repository / "f").read_text() == "one\n"
    assert listed(elsewhere) == before


def listed(folder: Path) -> dict[str, tuple[int, int]]:
    """Return all that lies in a folder, or the file that it is, with when it was changed."""
    found = [folder, *folder.rglob("*")]
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in found}
