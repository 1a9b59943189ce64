"""eglot does nothing else until its command is answered, and takes the first action at a return."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from client import Client, RpcError, execute, never
from conversing import yes
from selection_parts import Document, span
from trap_editors import EGLOT, PacedModel, StrictClient, TrapEditor, progress_is_over

HEADING = "\n\n## You\n\n"


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[PacedModel]:
    async with PacedModel().serve(clean_home) as served:
        yield served


async def emptied(client: Client, folder: Path) -> TrapEditor:
    """Open the chat without a heading to write under; from now on the client is strict."""
    editor = TrapEditor(client)
    await client.initialize(folder, capabilities=EGLOT)
    await editor.open()
    await client.command_result("aish.status")
    await editor.replace_all("notes\n")
    return editor


async def test_eglot_is_answered_before_it_makes_an_edit(folder: Path, model: PacedModel) -> None:
    async with Client() as client:
        editor = await emptied(client, folder)
        on_disk = editor.file
        strict = StrictClient(client)
        assert set(await strict.command("aish.ask", {"prompt": "how?"})) == {"turnId"}
        await model.until_asked()
        model.say("So.")
        model.end()
        text = await editor.ends(f"So.{HEADING}")
        assert text == f"notes\n{HEADING[1:]}how?\n\n## aish\n\nSo.{HEADING}"
        await progress_is_over(client)
        # Nothing stands there: it is told at once, and a heading comes.
        await editor.replace_all("notes\n")
        with pytest.raises(RpcError, match="Nothing is written") as refused:
            await strict.command("aish.chat.send")
        assert refused.value.code == -32602
        await editor.shows(lambda text: text == f"notes\n{HEADING[1:]}", "a heading")
        assert editor.file == on_disk


@pytest.mark.parametrize(("button", "told"), [(1, "Forgot 1 item."), (0, "Nothing was forgotten")])
async def test_eglot_is_answered_before_it_asks(folder: Path, button: int, told: str) -> None:
    async with Client() as client:
        await client.initialize(folder, capabilities=EGLOT)
        await client.command_result("aish.memory.add", {"kind": "fact", "content": "one"})
        client.answers["window/showMessageRequest"] = lambda params: params["actions"][button]
        strict = StrictClient(client)
        with pytest.raises(RpcError, match="asks you first") as refused:
            await strict.command("aish.memory.clear")
        assert refused.value.data["kind"] == "busy"
        await client.wait_for(lambda: client.notified("window/showMessage"), "what came of it")
        [message] = client.notified("window/showMessage")
        assert message["message"].startswith(told)
        items = (await client.command_result("aish.memory.list"))["items"]
        assert len(items) == 1 - button


async def test_eglot_may_grant_what_a_folder_asks_for(folder: Path) -> None:
    (folder / ".aish.toml").write_text('[context]\nsystem_prompt = "Be brief."\n')
    async with Client() as client:
        await client.initialize(folder, capabilities=EGLOT)
        assert (await client.command_result("aish.trust.show"))["trusted"] is False
        client.answers["window/showMessageRequest"] = yes
        strict = StrictClient(client)
        with pytest.raises(RpcError, match="asks you first"):
            await strict.command("aish.trust.grant")
        await client.wait_for(lambda: client.notified("window/showMessage"), "what came of it")
        assert (await client.command_result("aish.trust.show"))["trusted"] is True


async def test_eglot_replaces_a_selection_behind_the_answer(
    folder: Path, model: PacedModel
) -> None:
    async with Client() as client:
        await client.initialize(folder, capabilities=EGLOT)
        document = await Document(client, (folder / "a.py").as_uri()).open("x = 1\ny = 2\n")
        argument = {"prompt": "how?", "uri": document.uri, "range": span(0, 0, 1, 0)}
        _, answer = await client.begin(
            "workspace/executeCommand", execute("aish.ask", argument | {"partialResultToken": "t"})
        )
        await model.until_asked()
        model.say("So:\n\n```python\nx = 3\n```\n")
        model.end()
        turn = await client.within(answer, "the reply")
        client.answers["window/showMessageRequest"] = yes
        strict = StrictClient(client)
        with pytest.raises(RpcError, match="asks you first"):
            await strict.command("aish.selection.replace", {"turnId": turn["turnId"]})
        await client.wait_for(lambda: client.asked("workspace/applyEdit"), "the edit")
        [params] = client.asked("workspace/applyEdit")
        [change] = params["edit"]["documentChanges"]
        assert change["edits"] == [{"range": span(0, 0, 1, 0), "newText": "x = 3\n"}]


async def test_eglot_that_turns_away_from_a_question_has_said_no(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder, capabilities=EGLOT)
        await client.command_result("aish.memory.add", {"kind": "fact", "content": "one"})
        client.answers["window/showMessageRequest"] = never
        with pytest.raises(RpcError, match="asks you first"):
            await client.command_result("aish.memory.clear")
        await client.wait_for(lambda: client.asked("window/showMessageRequest"), "the question")
        assert len((await client.command_result("aish.memory.list"))["items"]) == 1
        await client.wait_for(lambda: client.notified("window/showMessage"), "what came of it")
        [message] = client.notified("window/showMessage")
        assert message["message"].startswith("Nothing was forgotten")


DESTROYS = "CMD: rm -rf build\n"


@pytest.mark.parametrize("only", [None, ["quickfix"], ["quickfix.aish.run"]])
@pytest.mark.parametrize("name", ["notes.md", ".aish/chat.md", "a.py"])
async def test_the_first_action_runs_nothing_that_destroys(
    folder: Path, model: PacedModel, name: str, only: list[str] | None
) -> None:
    async with Client() as client:
        await client.initialize(folder, capabilities=EGLOT)
        _, answer = await client.begin(
            "workspace/executeCommand",
            execute("aish.ask", {"prompt": "how?", "partialResultToken": "t"}),
        )
        await model.until_asked()
        model.say(f"So:\n\n{DESTROYS}")
        model.end()
        await client.within(answer, "the reply")
        await client.command_result("aish.chat.open")
        # In the notes the line stands; in the program the reply's is offered, and nothing else.
        texts = {
            "notes.md": DESTROYS,
            ".aish/chat.md": f"## You\n\nhow?\n\n## aish\n\nSo:\n\n{DESTROYS}{HEADING}",
            "a.py": "\n",
        }
        document = await Document(client, (folder / name).as_uri()).open(texts[name])
        line = texts[name].split("\n").index(DESTROYS.strip()) if name != "a.py" else 0
        context = {} if only is None else {"only": only}
        found = await document.actions(span(line, 0, line, 0), **context)
        titles = list(found)
        run = "Run: rm -rf build (destructive)"
        assert run in titles
        assert titles[0] == "Edit and run: rm -rf build (destructive)"
        assert found[titles[0]]["command"]["command"] == "aish.chat.open"
        assert not any(action.get("isPreferred") for action in found.values())
