"""When the file of the chat is written, and when it is left to the editor.

An editor that makes edits has all of the chat in its document: the file stays as the user saved it.
Where it makes none, or no more, the file gets what its document holds, saved or not, and the reply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from client import CAPABILITIES, Client, never
from selection_parts import Document, span
from trap_editors import (
    HELIX,
    KATE,
    PacedModel,
    TrapEditor,
    file_holds,
    progress_is_over,
)

HEADING = "\n\n## You\n\n"
REPLY = f"\n## aish\n\nOne. Two.{HEADING}"

#: It makes edits and shows nothing, or makes none.
EDITS: dict[str, Any] = HELIX
NO_EDITS: dict[str, Any] = {"workspace": {"workspaceFolders": True}}


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[PacedModel]:
    async with PacedModel().serve(clean_home) as served:
        yield served


async def answer(model: PacedModel, *pieces: str, times: int = 1) -> None:
    """Answer question number ``times``."""
    await model.until_asked(times)
    model.say(*pieces)
    model.end()


def whole(text: str) -> bool:
    """Return whether a chat ends with a reply, and a heading to go on under."""
    return text.endswith(REPLY)


def ending(end: str) -> Callable[[str], bool]:
    """Return what tells whether a chat ends so."""
    return lambda text: text.endswith(end)


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "unsaved"])
async def test_an_editor_that_makes_edits_has_its_file_left_alone(
    folder: Path, model: PacedModel, is_saved: bool
) -> None:
    async with Client() as client:
        editor = TrapEditor(client)
        await client.initialize(folder, capabilities=EDITS)
        await editor.open()
        await editor.type("how?\n")
        if is_saved:
            await editor.save()
        before, on_disk, written = editor.text, editor.file, editor.path.stat().st_mtime_ns
        await client.command_result("aish.chat.send")
        await answer(model, "One. ", "Two.")
        text = await editor.shows(whole, "the reply")
        assert text == before + REPLY
        assert editor.file == on_disk
        assert editor.path.stat().st_mtime_ns == written


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "unsaved"])
@pytest.mark.parametrize("can", [NO_EDITS, EDITS], ids=["makes none", "says that it does"])
async def test_an_editor_that_makes_no_edits_gets_the_file(
    folder: Path, model: PacedModel, can: dict[str, Any], is_saved: bool
) -> None:
    async with Client() as client:
        editor = TrapEditor(client)
        editor.takes_edits = False
        await client.initialize(folder, capabilities=can)
        await editor.open()
        await editor.type("how?\n")
        if is_saved:
            await editor.save()
        before = editor.text
        await client.command_result("aish.chat.send")
        await answer(model, "One. ", "Two.")
        # With what was not saved: a reply to it stands below it.
        assert await editor.writes(whole, "the reply") == before + REPLY
        assert editor.text == before
        # Twice: then it is known that it makes none.
        assert editor.refused == (2 if can is EDITS else 0)
        await editor.reload()
        await editor.type("more?\n")
        await client.command_result("aish.chat.send")
        await answer(model, "One. ", "Two.", times=2)
        both = f"{before}{REPLY}more?\n{REPLY}"
        assert await editor.writes(lambda text: text == both, "both replies")
        assert editor.refused == (2 if can is EDITS else 0)


async def test_a_chat_that_no_editor_has_open_is_a_file(folder: Path, model: PacedModel) -> None:
    async with Client() as client:
        await client.initialize(folder, capabilities=EDITS)
        await client.command_result("aish.ask", {"prompt": "how?"})
        await answer(model, "One. ", "Two.")
        text = await file_holds(client, folder / ".aish" / "chat.md", whole, "the reply")
        assert text.endswith(f"\n## You\n\nhow?\n{REPLY}")
        assert client.asked("workspace/applyEdit") == []


async def test_kate_that_makes_no_more_edits_after_two_seconds(
    folder: Path, model: PacedModel
) -> None:
    capabilities = EDITS | {"window": KATE["window"]}
    async with Client() as client:
        editor = TrapEditor(client)
        await client.initialize(folder, capabilities=capabilities)
        await editor.open()
        await editor.type("how?\n")
        before, on_disk = editor.text, editor.file
        await client.command_result("aish.chat.send")
        await model.until_asked()
        model.say("One. ")
        await editor.shows(lambda text: "One." in text, "the reply's start")
        assert editor.file == on_disk
        # The two seconds are over.
        editor.takes_edits = False
        model.say("Two.")
        model.end()
        assert await editor.writes(whole, "the reply") == before + REPLY
        assert before + "\n## aish\n\nOne." in editor.text
        assert "Two." not in editor.text
        # It reloads, and whatever it makes from now on, nothing stands there twice.
        await editor.reload(as_range=True)
        editor.takes_edits = True
        await editor.type("more?\n")
        await client.command_result("aish.chat.send")
        await answer(model, "One. ", "Two.", times=2)
        both = f"{before}{REPLY}more?\n{REPLY}"

        def has_both(_: str) -> bool:
            return both in (editor.text, editor.file)

        await editor.writes(has_both, "both replies")


async def test_who_keeps_their_own_text_over_the_file_goes_on_with_that(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        editor = TrapEditor(client)
        await client.initialize(folder, capabilities=NO_EDITS)
        await editor.open()
        await editor.type("how?\n")
        mine = editor.text
        await client.command_result("aish.chat.send")
        await answer(model, "One. ", "Two.")
        assert await editor.writes(whole, "the reply") == mine + REPLY
        # The editor asks which of the two to keep.
        await editor.type(f"{HEADING[1:]}again?\n")
        await editor.save()
        mine = editor.text
        await client.command_result("aish.chat.send")
        await answer(model, "One. ", "Two.", times=2)
        assert await editor.writes(lambda text: text == mine + REPLY, "the second reply")
        assert model.asked == ["how?", "again?"]
        # Nor is the first gone: the session has it.
        history = await client.command_result("aish.session.history")
        assert [turn["content"] for turn in history["turns"]] == [
            "how?",
            "One. Two.",
            "again?",
            "One. Two.",
        ]


async def test_what_another_program_wrote_is_kept_and_so_is_what_was_not_saved(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        editor = TrapEditor(client)
        await client.initialize(folder, capabilities=NO_EDITS)
        await editor.open()
        await editor.type("my draft")
        mine = editor.text
        theirs = editor.file.replace("# aish", "# aish, by another program", 1)
        editor.path.write_text(theirs)
        await client.command_result("aish.ask", {"prompt": "how?"})
        await answer(model, "One. ", "Two.")
        text = await editor.writes(lambda text: REPLY.rstrip() in text, "the reply")
        assert text.startswith(theirs.rstrip())
        assert text.count("One. Two.") == 1
        assert editor.text == mine


async def test_a_whole_conversation_with_ale(folder: Path) -> None:
    """It opens, saves, asks for actions and executes commands; to the server it answers nothing."""
    (folder / "Makefile").write_text("test:\n\t@echo tests ran\n")
    victim = folder / "x"
    victim.write_text("here")
    chat = folder / ".aish" / "chat.md"
    async with Client() as client:
        for method in list(client.answers):
            client.answers[method] = never
        root = {"rootUri": folder.as_uri(), "rootPath": str(folder)}
        await client.request("initialize", {"processId": None, "capabilities": {}} | root)
        await client.notify("initialized", {})
        assert await client.command_result("aish.chat.open") == {"uri": chat.as_uri()}
        editor = TrapEditor(client)
        editor.path, editor.text = chat, chat.read_text()
        document = await Document(client, chat.as_uri(), "markdown").open(editor.text)

        async def send(message: str, *parts: str) -> str:
            """Type a message, save it, take *Send*; return the file, once the answer is there."""
            await editor.reload()
            await editor.type(message)
            await editor.save()
            headings = editor.text.count("\n## You\n")
            end = editor.text.count("\n")
            await document.take((await document.actions(span(end, 0, end, 0)))["Send"])
            return await written(headings, *parts)

        async def written(headings: int, *parts: str) -> str:
            return await editor.writes(
                lambda text: (
                    text.count("\n## You\n") > headings and all(part in text for part in parts)
                ),
                f"{parts}",
            )

        async def run(line: str, *parts: str) -> str:
            """Take *Run* on a line, once the editor has loaded it; return the file."""
            await editor.reload()
            at = editor.text.split("\n").index(f"CMD: {line}")
            found = await document.actions(span(at, 0, at, 0))
            [title] = [one for one in found if one.startswith(f"Run: {line}")]
            await document.take(found[title])
            return await written(0, *parts)

        await send("How do I run the tests?\n", "\nCMD: make test\n")
        text = await run("make test", "tests ran", "> exit 0")
        assert text.count("tests ran") == 1
        # What destroys is not run: nobody can be asked. Their next command tells it.
        await editor.reload()
        headings = editor.text.count("\n## You\n")
        await client.command_result("aish.run", {"text": "rm -r x"})
        await client.wait_for(lambda: client.asked("window/showMessageRequest"), "the question")
        await client.command_result("aish.status")
        text = await written(headings - 1, ":approve ")
        assert victim.exists()
        # They say it in the chat.
        approve = f":approve {text.rpartition(':approve ')[2].split('`')[0].split()[0]}"
        await send(f"{approve}\n", "$ rm -r x")
        await editor.writes(lambda _: not victim.exists(), "that it was run")
        # Nothing that it cannot do was asked of it, but the question.
        assert {method for method, _ in client.requests} == {"window/showMessageRequest"}
        assert {method for method, _ in client.notifications} <= {
            "textDocument/publishDiagnostics",
            "window/showMessage",
        }
        assert client.progress == {}
        assert await client.shutdown() == 0


async def test_send_is_offered_in_a_chat_that_was_just_loaded(
    folder: Path, model: PacedModel
) -> None:
    """The heading was known where it stands in the file, which the editor had yet to load."""
    async with Client() as client:
        editor = TrapEditor(client)
        await client.initialize(folder, capabilities=KATE)
        await editor.open()
        document = Document(client, editor.path.as_uri())
        await editor.type("how?\n")
        await client.command_result("aish.chat.send")
        await answer(model, "One. ", "Two.")
        await editor.writes(whole, "the reply")
        await progress_is_over(client)
        await editor.reload(as_range=True)
        await editor.type("more?\n")
        end = editor.text.count("\n")
        await document.take((await document.actions(span(end, 0, end, 0)))["Send"])
        await model.until_asked(2)
        assert model.asked == ["how?", "more?"]
        await answer(model, "Yes.", times=2)
        await progress_is_over(client)


async def test_one_heading_is_open_where_the_editor_loaded_the_file_before_it_was_written(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        editor = TrapEditor(client)
        await client.initialize(folder, capabilities=NO_EDITS)
        await editor.open()
        await editor.type("how?\n")
        before = editor.text
        await client.command_result("aish.chat.send")
        await answer(model, "One. ", "Two.")
        await editor.writes(whole, "the reply")
        await editor.reload(f"{before}{REPLY.removesuffix(HEADING)}\n")
        await client.command_result("aish.run", {"text": "echo ran"})
        await editor.writes(lambda text: "> exit 0" in text, "the output")
        output = "\n\n````console\n$ echo ran\nran\n````\n\n> exit 0"
        assert editor.file.startswith(before + REPLY.removesuffix(HEADING) + output)
        assert editor.file.endswith(HEADING)
        assert editor.file.count(HEADING) == 2


@pytest.mark.parametrize("capabilities", [KATE, CAPABILITIES], ids=["kate", "says that it can"])
async def test_a_chat_that_is_never_shown_holds_nothing_up(
    folder: Path, model: PacedModel, capabilities: dict[str, Any]
) -> None:
    shows = "showDocument" in capabilities["window"]
    async with Client() as client:
        client.answers["window/showDocument"] = never
        await client.initialize(folder, capabilities=capabilities)
        chat = folder / ".aish" / "chat.md"
        for number in (1, 2, 3):
            await client.command_result("aish.ask", {"prompt": f"{number}?"})
            await answer(model, "One. ", "Two.", times=number)
            await file_holds(client, chat, ending(f"\n{number}?\n{REPLY}"), "the reply")
        shown = client.asked("window/showDocument")
        assert len(shown) == (3 if shows else 0)
        # Each of them is a job that has ended, seen in its progress and in what is busy.
        await client.wait_for(
            lambda: (
                len(client.progress) == 3
                and all(events[-1]["kind"] == "end" for events in client.progress.values())
            ),
            "the end of each progress",
        )
        assert (await client.command_result("aish.status"))["busy"] is False
        assert await client.shutdown() == 0


@pytest.mark.parametrize("dismissed", [{}, None])
async def test_a_question_that_kate_dismisses_is_a_no(folder: Path, dismissed: Any) -> None:
    (folder / ".aish.toml").write_text('[context]\nsystem_prompt = "Be brief."\n')
    async with Client() as client:
        client.answers["window/showMessageRequest"] = lambda _: dismissed
        await client.initialize(folder, capabilities=KATE)
        await client.command_result("aish.memory.add", {"kind": "fact", "content": "one"})
        assert await client.command_result("aish.memory.clear") == {"forgotten": 0}
        assert len((await client.command_result("aish.memory.list"))["items"]) == 1
        assert (await client.command_result("aish.trust.grant"))["trusted"] is False
        listed = await client.command_result("aish.model.add")
        assert listed["added"] is None


def told(client: Client) -> list[str]:
    """Return the messages so far."""
    return [one["message"] for one in client.notified("window/showMessage")]
