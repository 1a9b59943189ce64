"""Traps of editors, each with a client that behaves as that editor does: Helix, Neovim, showing.

Where each is shown (``eglot``, ``files`` and ``requests``: ``test_editor_traps_*.py``):

- Helix gives a request up after 20 s:
  ``test_helix_has_its_answer_before_the_model_has_said_a_word``,
  ``test_a_result_that_nobody_waits_for_any_more_is_in_the_session``. It blocks on resolve:
  ``test_what_is_offered_is_whole_and_waits_for_nothing``. It cancels no request:
  ``test_a_reply_is_stopped_without_cancelling_a_request``, and for commands
  ``test_chat_waiting.py``. It refuses edits of an older version:
  ``test_edits_that_typing_has_overtaken_are_made_anew``, and in all orders
  ``unit/lsp/test_chat_writer.py`` and ``test_chat_torn.py``. Each edit is an entry of its undo:
  ``test_a_reply_is_few_entries_of_the_undo``, ``test_what_piles_up_is_one_edit``.
- Neovim shows a message over a question: ``test_nothing_is_told_while_neovim_shows_a_question``.
- The chat is shown once, where the reply will stand, to who shows documents:
  ``test_the_chat_is_shown_*``. Its answer is not waited for: ``unit/lsp/test_lsp_editor.py``.
- eglot does nothing else until its command is answered: ``eglot``, and for a run
  ``test_questions.py``. It takes the first action where return is pressed: ``eglot``, and in the
  chat ``test_chat_actions.py``; for fences ``test_fence_suggestions.py``.
- Kate makes edits for two seconds after a command, and never answers a showDocument: ``files``;
  that nothing is kept of it ``unit/lsp/test_rpc_server.py``. It answers a question that was
  dismissed with ``{}``: ``files``, and for a run ``test_conversation.py``.
- ALE can do nothing at all: ``files``, with the table of when the chat's file is written.
- Clients that answer requests of ours with errors, null, ``{}`` or never, and that send null for
  what they have not: ``requests``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client import CAPABILITIES, Client, RpcError, execute
from conversing import no
from selection_parts import Document, span
from trap_editors import EGLOT, HELIX, PacedModel, TrapEditor, progress_is_over

HEADING = "\n\n## You\n\n"


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[PacedModel]:
    async with PacedModel().serve(clean_home) as served:
        yield served


async def asked(client: Client, folder: Path, question: str, **more: Any) -> TrapEditor:
    """Open the chat in an editor and type a question there."""
    editor = TrapEditor(client)
    await client.initialize(folder, **{"capabilities": HELIX, **more})
    await editor.open()
    await editor.type(question)
    return editor


# Helix


async def test_helix_has_its_answer_before_the_model_has_said_a_word(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        editor = await asked(client, folder, "one?\n")
        answer = await client.command_result("aish.chat.send")
        await model.until_asked(1)
        model.say("First.")
        model.end()
        await editor.ends(f"First.{HEADING}")
        for number, (command, argument) in enumerate(
            [("aish.ask", {"prompt": "two?"}), ("aish.retry", {})], start=2
        ):
            answer = await client.command_result(command, argument)
            assert set(answer) == {"turnId"}
            await model.until_asked(number)
            model.say(f"Reply {number}.")
            model.end()
            await editor.ends(f"Reply {number}.{HEADING}")
        # Nor for a command: it may take as long as it likes.
        answer = await client.command_result("aish.run", {"text": "sleep 60; echo done"})
        assert set(answer) == {"commandId"}
        await editor.holds_text("> Running (")
        await client.command_result("aish.cancel")
        await editor.holds_text("> stopped after")


async def test_a_result_that_nobody_waits_for_any_more_is_in_the_session(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        await client.initialize(folder, capabilities=HELIX)
        # With a token the answer comes at the end, and its client has gone on by then.
        argument = {"prompt": "one?", "partialResultToken": "t"}
        _, given_up = await client.begin("workspace/executeCommand", execute("aish.ask", argument))
        await model.until_asked()
        assert not given_up.done()
        assert (await client.command_result("aish.status"))["busy"] is True
        model.say("Late, ", "but whole.")
        model.end()
        await client.within(given_up, "the late answer")
        history = await client.command_result("aish.session.history")
        said = [(turn["role"], turn["content"]) for turn in history["turns"]]
        assert said == [("user", "one?"), ("assistant", "Late, but whole.")]


async def test_what_is_offered_is_whole_and_waits_for_nothing(
    folder: Path, model: PacedModel
) -> None:
    for number in range(40):
        part = folder / f"part{number}"
        part.mkdir()
        for name in range(50):
            (part / f"{name}.py").write_text("def f():\n    return 1\n")
    async with Client() as client:
        editor = await asked(client, folder, "how?\n")
        assert not client.capabilities["codeActionProvider"].get("resolveProvider")
        await client.command_result("aish.chat.send")
        await model.until_asked()
        model.say("So:\n\nCMD: make test\n")
        text = await editor.holds_text("CMD: make test\n")
        line = text.split("\n").index("CMD: make test")
        asked_for = {
            "textDocument": {"uri": editor.path.as_uri()},
            "range": span(line, 0, line, 0),
            "context": {"diagnostics": []},
        }

        async def offered() -> list[dict[str, Any]]:
            actions: list[dict[str, Any]] = await client.request(
                "textDocument/codeAction", asked_for
            )
            return actions

        # The line is seen a moment before it is known whether it can run confined.
        while (await offered())[0]["title"] == "Stop":
            await asyncio.sleep(0.01)
        _, scanned = await client.begin(
            "workspace/executeCommand", execute("aish.project.refresh", {})
        )
        found = await offered()
        assert not scanned.done()
        assert found[0]["title"] == "Run: make test"
        assert {"Stop", "Edit and run: make test"} <= {one["title"] for one in found}
        assert all("command" in one or "edit" in one for one in found)
        # Who asks all the same is told at once, while the reply goes on.
        with pytest.raises(RpcError) as refused:
            await client.request("codeAction/resolve", found[0])
        assert refused.value.code == -32601
        model.end()
        await client.within(scanned, "the project")
        await editor.ends(HEADING)


@pytest.mark.parametrize("way", ["action", "command"])
async def test_a_reply_is_stopped_without_cancelling_a_request(
    folder: Path, model: PacedModel, way: str
) -> None:
    async with Client() as client:
        editor = await asked(client, folder, "how?\n")
        await client.command_result("aish.chat.send")
        await model.until_asked()
        model.say("It begins")
        await editor.holds_text("It begins")
        if way == "action":
            document = Document(client, editor.path.as_uri())
            stop = (await document.actions(span(0, 0, 0, 0)))["Stop"]
            assert await document.take(stop) == {"cancelled": 1}
        else:
            assert await client.command_result("aish.cancel") == {"cancelled": 1}
        await client.within(model.gone.wait(), "the end of the model's connection")
        text = await editor.ends(HEADING)
        assert text.count("It begins") == 1
        await progress_is_over(client)


async def test_edits_that_typing_has_overtaken_are_made_anew(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        editor = await asked(client, folder, "how?\n")
        before, on_disk = editor.text, editor.file
        typed = 0

        async def type_above() -> None:
            nonlocal typed
            if typed < 12:
                typed += 1
                await editor.type_at_start("x")

        editor.before_edit = type_above
        await client.command_result("aish.chat.send")
        await model.until_asked()
        for piece in ("One. ", "Two. ", "Three."):
            model.say(piece)
            await editor.holds_text(piece.strip())
        model.end()
        text = await editor.ends(HEADING)
        assert text == f"{'x' * typed}{before}\n## aish\n\nOne. Two. Three.{HEADING}"
        assert editor.refused >= 12
        assert editor.file == on_disk


async def test_a_reply_is_few_entries_of_the_undo(folder: Path, model: PacedModel) -> None:
    async with Client() as client:
        editor = await asked(client, folder, "how?\n")
        await client.command_result("aish.chat.send")
        await model.until_asked()
        began = time.monotonic()
        words = [f"w{number} " for number in range(80)]
        for word in words:
            model.say(word)
            await asyncio.sleep(0.01)
        model.end()
        text = await editor.ends(HEADING)
        assert "".join(words).rstrip() in text
        # Ten a second, however long it took, and not one for each word.
        assert len(editor.undo) <= 10 * (time.monotonic() - began) + 2


async def test_what_piles_up_is_one_edit(folder: Path, model: PacedModel) -> None:
    async with Client() as client:
        editor = await asked(client, folder, "how?\n")
        await client.command_result("aish.chat.send")
        await model.until_asked()
        model.say("Now: ")
        await editor.holds_text("Now: ")
        editor.holds.clear()
        model.say("held ")
        await client.wait_for(lambda: editor.is_held, "an edit")
        words = [f"w{number} " for number in range(300)]
        model.say(*words)
        await model.until_sent()
        entries = len(editor.undo)
        editor.holds.set()
        model.end()
        text = await editor.ends(HEADING)
        assert f"Now: held {''.join(words)}".rstrip() in text
        # The one that was held, what came meanwhile, the heading; not one for each word.
        assert len(editor.undo) - entries < 30


# Neovim, and showing


async def test_nothing_is_told_while_neovim_shows_a_question(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        answered = asyncio.Event()

        async def later(params: Any) -> Any:
            await answered.wait()
            return no(params)

        client.answers["window/showMessageRequest"] = later
        editor = await asked(
            client,
            folder,
            ":run rm -rf x\n",
            capabilities=CAPABILITIES,
            clientInfo={"name": "Neovim", "version": "0.11.4"},
        )
        await client.command_result("aish.chat.send")
        await client.wait_for(lambda: client.asked("window/showMessageRequest"), "the question")
        # Meanwhile other things begin, end and wait.
        run = await client.command_result("aish.run", {"text": "ls", "partialResultToken": "t"})
        assert run["exitCode"] == 0
        await client.command_result("aish.ask", {"prompt": "and now?"})
        await editor.holds_text("> Waiting for its turn (")
        assert client.notified("window/showMessage") == []
        answered.set()
        await model.until_asked()
        model.say("Yes.")
        model.end()
        text = await editor.ends(HEADING)
        assert "> Not run" in text
        assert client.notified("window/showMessage") == []


async def test_the_chat_is_shown_where_the_reply_will_stand(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        editor = TrapEditor(client)
        client.answers["window/showDocument"] = editor.show
        await client.initialize(folder, capabilities=EGLOT)
        await client.command_result("aish.ask", {"prompt": "how?"})
        await model.until_asked()
        model.say("One. ")
        await editor.holds_text("One. ")
        model.say("Two.")
        model.end()
        text = await editor.ends(HEADING)
        assert text.count("how?\n\n## aish\n\nOne. Two.\n") == 1
        await progress_is_over(client)
        await client.command_result("aish.status")
        # Once: who reads on elsewhere is not taken back with each piece.
        [shown] = client.asked("window/showDocument")
        assert shown["uri"] == editor.path.as_uri()
        at = shown["selection"]["start"]
        assert shown["selection"]["end"] == at
        assert at["line"] == text[: text.index("how?\n")].count("\n") - 1
        # The file stays as it was: the editor has all of it.
        assert editor.file == editor.opened


@pytest.mark.parametrize("said", [None, False])
async def test_the_chat_is_shown_to_nobody_who_shows_no_documents(
    folder: Path, model: PacedModel, said: bool | None
) -> None:
    window = {} if said is None else {"showDocument": {"support": said}}
    capabilities = CAPABILITIES | {"window": window}
    async with Client() as client:
        await client.initialize(folder, capabilities=capabilities)
        await client.command_result("aish.chat.open")
        await client.command_result("aish.ask", {"prompt": "how?"})
        await model.until_asked()
        model.say("So.")
        model.end()
        chat = TrapEditor(client)
        chat.path = folder / ".aish" / "chat.md"
        await chat.writes(lambda text: text.endswith(f"So.{HEADING}"), "the reply")
        # Not what a long command says, either.
        await client.command_result("aish.run", {"text": f"rm -rf {'x' * 5000}"})
        await client.wait_for(lambda: client.asked("window/showMessageRequest"), "the question")
        assert client.asked("window/showDocument") == []
