"""*Replace selection*: a reply's block in the place of what was asked about, after a yes."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from client import CAPABILITIES, Client, RpcError
from conversing import yes
from selection_parts import Document, Model, span
from test_conversation import ask, until

CODE = "import os\n\ndef f(x):\n    y = x\n    return y\n\nz = 1\n"
REPLY = "Shorter:\n\n```python\nreturn x\n```\n\nThat is all.\n"
SELECTED = span(3, 0, 5, 0)
REPLACE = "Replace selection"

REASONING = copy.deepcopy(CAPABILITIES)
REASONING["textDocument"]["codeAction"]["disabledSupport"] = True
UNVERSIONED = copy.deepcopy(CAPABILITIES)
del UNVERSIONED["workspace"]["workspaceEdit"]


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[Model]:
    async with Model(REPLY).serve(clean_home, context_window=100_000) as served:
        yield served


@asynccontextmanager
async def opened(
    folder: Path, capabilities: Any = CAPABILITIES, text: str = CODE, options: Any = None
) -> AsyncIterator[Document]:
    """Open a document in a client, and ask about a part of it."""
    async with Client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(folder, capabilities=capabilities, options=options)
        document = await Document(client, (folder / "a.py").as_uri()).open(text)
        client.answers["workspace/applyEdit"] = partial(make, document)
        yield document


async def make(document: Document, params: Any) -> Any:
    """Make an edit as an editor does, which tells of the change before it answers."""
    edit = params["edit"]
    by_uri = [(one["textDocument"]["uri"], one["edits"]) for one in edit.get("documentChanges", ())]
    for uri, changes in [*edit.get("changes", {}).items(), *by_uri]:
        if uri == document.uri:
            [change] = changes
            await document.change(change["newText"], change["range"])
    return {"applied": True}


async def asked(document: Document, range_: Any = SELECTED, token: str = "t") -> str:
    """Ask about a range; return the turn's id."""
    result = await ask(document.client, "shorter?", token, uri=document.uri, range=range_)
    turn_id: str = result["turnId"]
    return turn_id


async def replace(document: Document, turn_id: str, **fields: Any) -> Any:
    return await document.client.command_result(
        "aish.selection.replace", {"turnId": turn_id, **fields}
    )


def edits(client: Client) -> list[Any]:
    return [params["edit"] for params in client.asked("workspace/applyEdit")]


async def replaced(document: Document, range_: Any) -> Any:
    """Take the action at a place; return the change that the client was asked to make."""
    await document.take((await document.actions(range_))[REPLACE])
    [change] = edits(document.client)[-1]["documentChanges"]
    return change


async def test_replacing_is_offered_at_what_was_asked_about(folder: Path, model: Model) -> None:
    async with opened(folder, REASONING) as document:
        assert REPLACE not in await document.actions(SELECTED)
        await asked(document)
        # Where the cursor is within it, too.
        for range_ in (SELECTED, span(4, 2, 4, 2)):
            action = (await document.actions(range_))[REPLACE]
            assert action["kind"] == "refactor.aish"
        assert REPLACE not in await document.actions(span(0, 0, 0, 9))
        assert REPLACE not in await document.actions(SELECTED, only=["quickfix"])
        change = await replaced(document, SELECTED)
        assert change["textDocument"] == {"uri": document.uri, "version": 1}
        assert change["edits"] == [{"range": SELECTED, "newText": "    return x\n"}]


@pytest.mark.parametrize("approved", [True, False, None])
async def test_a_client_that_approves_is_shown_both_texts(
    folder: Path, model: Model, approved: bool | None
) -> None:
    options = {"aish": {"approve": True}}
    async with opened(folder, REASONING, options=options) as document:
        document.client.answers["aish/approve"] = lambda _params: {"approved": approved}
        turn_id = await asked(document)
        result = await replace(document, turn_id)
        assert result == {"applied": approved is True}
        [question] = document.client.asked("aish/approve")
        assert (question["kind"], question["text"]) == ("edit", "a.py")
        assert question["callId"] == ""
        assert question["diff"] == {
            "uri": document.uri,
            "before": CODE,
            "after": CODE.replace("    y = x\n    return y\n", "    return x\n"),
            "lines": [
                *(" ", " def f(x):", "-    y = x", "-    return y", "+    return x"),
                *(" ", " z = 1"),
            ],
        }
        assert document.client.asked("window/showMessageRequest") == []
        assert len(edits(document.client)) == (approved is True)


async def test_it_is_followed_through_edits_around_it(folder: Path, model: Model) -> None:
    async with opened(folder, REASONING) as document:
        await asked(document)
        await document.change("# 😀 a line\n# and another\n", span(0, 0, 0, 0))
        await document.change("z = 2\n", span(8, 0, 9, 0))
        change = await replaced(document, span(5, 0, 5, 0))
        assert change["textDocument"]["version"] == 3
        assert change["edits"][0]["range"] == span(5, 0, 7, 0)


@pytest.mark.parametrize("way", ["chat", "command", "line"])
async def test_a_question_that_is_asked_again_is_about_the_same(
    folder: Path, model: Model, way: str
) -> None:
    model.reply = "I do not know.\n"
    async with opened(folder, REASONING) as document:
        await asked(document)
        assert REPLACE not in await document.actions(SELECTED)
        model.reply = REPLY
        if way == "chat":
            await document.client.command_result("aish.chat.send", {"prompt": ":retry"})
            chat = folder / ".aish" / "chat.md"
            await until(document.client, chat, lambda text: text.count("\n## You\n") == 2)
        elif way == "line":
            line = {"line": ":retry", "partialResultToken": "again"}
            await document.client.command_result("aish.chat.line", line)
        else:
            await document.client.command_result("aish.retry", {"partialResultToken": "again"})
        change = await replaced(document, SELECTED)
        assert change["edits"][0]["newText"] == "    return x\n"


async def test_what_has_changed_there_is_not_replaced(folder: Path, model: Model) -> None:
    async with opened(folder, REASONING) as document:
        turn_id = await asked(document)
        await document.change("w", span(3, 4, 3, 5))
        action = (await document.actions(SELECTED))[REPLACE]
        assert "command" not in action
        assert "has changed since" in action["disabled"]["reason"]
        with pytest.raises(RpcError, match=r"lines 4-5 of a\.py has changed") as error:
            await replace(document, turn_id)
        assert error.value.data["kind"] == "notFound"
        assert edits(document.client) == []
        # Taken back it is the same again.
        await document.change("y", span(3, 4, 3, 5))
        assert (await replaced(document, SELECTED))["edits"][0]["range"] == SELECTED


async def test_an_editor_that_shows_no_reasons_is_told_when_it_tries(
    folder: Path, model: Model
) -> None:
    async with opened(folder) as document:
        await asked(document)
        await document.change("w", span(3, 4, 3, 5))
        action = (await document.actions(SELECTED))[REPLACE]
        assert "disabled" not in action
        with pytest.raises(RpcError, match="has changed since"):
            await document.take(action)
        assert document.client.asked("window/showMessageRequest") == []


async def test_it_is_found_again_where_the_whole_text_came_anew(folder: Path, model: Model) -> None:
    async with opened(folder, REASONING) as document:
        await asked(document)
        await document.change("# new\n" + CODE)
        change = await replaced(document, SELECTED)
        assert change["edits"][0]["range"] == span(4, 0, 6, 0)
        # Twice there, nobody knows which.
        await document.change("# new\n" + CODE + CODE)
        assert "disabled" in (await document.actions(SELECTED))[REPLACE]


@pytest.mark.parametrize("capabilities", [CAPABILITIES, UNVERSIONED])
async def test_another_editor_is_asked_by_a_question(
    folder: Path, model: Model, capabilities: Any
) -> None:
    async with opened(folder, capabilities) as document:
        client = document.client
        turn_id = await asked(document)
        action = (await document.actions(SELECTED))[REPLACE]
        assert "edit" not in action
        assert action["command"]["arguments"] == [
            {"turnId": turn_id, "block": 0, "uri": document.uri}
        ]
        assert await document.take(action) == {"applied": True}
        [question] = client.asked("window/showMessageRequest")
        # What changes, and what stands around it.
        assert question["message"] == (
            "Replace lines 4-5 of a.py with this?\n\n"
            " \n def f(x):\n-    y = x\n-    return y\n+    return x\n \n z = 1"
        )
        [edit] = edits(client)
        if capabilities is UNVERSIONED:
            assert edit == {"changes": {document.uri: [{"range": SELECTED, "newText": NEW}]}}
        else:
            [change] = edit["documentChanges"]
            assert change["textDocument"]["version"] == 1
            assert change["edits"] == [{"range": SELECTED, "newText": NEW}]


NEW = "    return x\n"


@pytest.mark.parametrize("answer", [None, {}, {"title": "Cancel"}, {"title": "replace"}, "x"])
async def test_only_a_yes_replaces(folder: Path, model: Model, answer: Any) -> None:
    async with opened(folder) as document:
        document.client.answers["window/showMessageRequest"] = lambda _: answer
        turn_id = await asked(document)
        if answer == {"title": "Cancel"}:
            assert await replace(document, turn_id) == {"applied": False}
        else:
            with pytest.raises(RpcError, match="nobody answered") as error:
                await replace(document, turn_id)
            assert error.value.data["kind"] == "denied"
        assert edits(document.client) == []


@pytest.mark.parametrize("says", [{"applied": False}, {}, None, "nonsense"])
async def test_an_edit_that_is_not_made_is_told(folder: Path, model: Model, says: Any) -> None:
    async with opened(folder) as document:
        document.client.answers["workspace/applyEdit"] = lambda _: says
        assert await replace(document, await asked(document)) == {"applied": False}
        [told] = document.client.notified("window/showMessage")
        assert "did not make the edit" in told["message"]


async def test_an_edit_that_is_not_seen_is_not_made(folder: Path, model: Model) -> None:
    async with opened(folder) as document:
        document.client.answers["workspace/applyEdit"] = lambda _: {"applied": True}
        assert await replace(document, await asked(document)) == {"applied": False}
        [told] = document.client.notified("window/showMessage")
        assert "its text is different" in told["message"]


async def test_what_changes_while_the_user_is_asked_is_not_replaced(
    folder: Path, model: Model
) -> None:
    async with opened(folder) as document:
        turn_id = await asked(document)

        async def type_first(params: Any) -> Any:
            await document.change("w", span(3, 4, 3, 5))
            return yes(params)

        document.client.answers["window/showMessageRequest"] = type_first
        with pytest.raises(RpcError, match="has changed since"):
            await replace(document, turn_id)
        assert edits(document.client) == []


async def test_a_document_that_was_closed_is_not_replaced_until_it_is_open_again(
    folder: Path, model: Model
) -> None:
    async with opened(folder) as document:
        turn_id = await asked(document)
        await document.close()
        with pytest.raises(RpcError, match=r"a\.py is not open any more"):
            await replace(document, turn_id)
        await document.open(CODE.replace("y = x", "y = 0"))
        with pytest.raises(RpcError, match="has changed since"):
            await replace(document, turn_id)
        await document.close()
        await document.open(CODE)
        assert await replace(document, turn_id) == {"applied": True}


async def test_line_ends_and_columns_are_the_documents(folder: Path, model: Model) -> None:
    model.reply = "```\na\nb\n```"
    async with opened(folder, REASONING, "é😀 x\r\n\tnext\r\nlast") as document:
        await document.client.notify(
            "textDocument/didClose", {"textDocument": {"uri": document.uri}}
        )
        await document.open("é😀 x\r\n\tnext\r\nlast")
        await asked(document, span(1, 0, 2, 0))
        change = await replaced(document, span(1, 1, 1, 1))
        assert change["edits"][0]["newText"] == "\ta\r\n\tb\r\n"
        # This client counts in bytes.
        await asked(document, span(0, 7, 0, 8))
        change = await replaced(document, span(0, 7, 0, 7))
        assert change["edits"][0]["range"] == span(0, 7, 0, 8)


async def test_each_block_is_offered_and_what_is_no_text_is_not(folder: Path, model: Model) -> None:
    model.reply = (
        "```diff\n-a\n+b\n```\n```\nCMD: rm x\n```\n```python\nfirst = 1\n```\n"
        "```\n\n  second = 2\n```\n```\n\n```\n```python\nnever closed\n"
    )
    async with opened(folder) as document:
        turn_id = await asked(document)
        titles = [title for title in await document.actions(SELECTED) if REPLACE in title]
        assert titles == [f"{REPLACE}: first = 1", f"{REPLACE}: second = 2"]
        assert await replace(document, turn_id, block=1) == {"applied": True}
        [edit] = edits(document.client)
        assert edit["documentChanges"][0]["edits"][0]["newText"] == "\n    second = 2\n"
        for block in (2, 10**6):
            with pytest.raises(RpcError, match="no such block"):
                await replace(document, turn_id, block=block)
        with pytest.raises(RpcError, match="no such block"):
            await replace(document, "nonsense")
        with pytest.raises(RpcError, match="at least 0"):
            await replace(document, turn_id, block=-1)


async def test_hidden_characters_of_a_block_are_told(folder: Path, model: Model) -> None:
    model.reply = "```\nx = 'a\u202eb'\n```"
    async with opened(folder) as document:
        await replace(document, await asked(document))
        [question] = document.client.asked("window/showMessageRequest")
        assert "invisible characters: U+202E RIGHT-TO-LEFT OVERRIDE" in question["message"]
        assert "x = 'a\\u202eb'" in question["message"]


async def test_a_question_shows_no_more_than_can_be_read(folder: Path, model: Model) -> None:
    model.reply = "```python\n" + "".join(f"line {number}\n" for number in range(99)) + "```"
    async with opened(folder) as document:
        await replace(document, await asked(document))
        [question] = document.client.asked("window/showMessageRequest")
        lines = question["message"].split("\n")
        assert lines[2:6] == [" ", " def f(x):", "-    y = x", "-    return y"]
        assert lines[6] == "+    line 0"
        assert lines[-1] == f"... {2 + 2 + 99 + 2 - 25} more lines"


async def test_a_reply_to_a_part_of_it_takes_no_place(folder: Path, clean_home: Path) -> None:
    async with Model(REPLY).serve(clean_home, context_window=4096), opened(folder) as document:
        await document.change("x = 1\n" * 20_000)
        await asked(document, span(0, 0, 20_000, 0))
        assert REPLACE not in await document.actions(span(0, 0, 0, 0))


async def test_a_question_without_a_selection_offers_nothing(folder: Path, model: Model) -> None:
    async with opened(folder) as document:
        await ask(document.client, "shorter? @a.py", "t", uri=document.uri)
        assert REPLACE not in await document.actions(SELECTED)


async def test_it_is_offered_in_the_chat_on_the_block_of_the_reply(
    folder: Path, model: Model
) -> None:
    model.reply = "```python\nreturn x\n:kept\n```\n```python\nother\n```\n"
    async with opened(folder) as document:
        client = document.client
        argument = {"prompt": "shorter? @a.py:4-5", "uri": document.uri}
        await client.command_result("aish.chat.send", argument)
        path = folder / ".aish" / "chat.md"
        text = await until(client, path, lambda text: text.count("\n## You\n") == 2)
        chat = await Document(client, path.as_uri(), "markdown").open(text)
        lines = text.split("\n")
        first, other = lines.index("return x"), lines.index("other")
        assert lines[first + 1] == "\\:kept"
        assert REPLACE not in await chat.actions(span(first - 2, 0, first - 2, 0))
        action = (await chat.actions(span(first, 0, first, 0)))[REPLACE]
        assert await chat.take(action) == {"applied": True}
        [edit] = edits(client)
        assert edit["documentChanges"][0]["textDocument"]["uri"] == document.uri
        [change] = edit["documentChanges"][0]["edits"]
        assert (change["range"], change["newText"]) == (SELECTED, "    return x\n    :kept\n")
        assert (await chat.actions(span(other, 0, other, 0)))[REPLACE]["command"]["arguments"][0][
            "block"
        ] == 1
