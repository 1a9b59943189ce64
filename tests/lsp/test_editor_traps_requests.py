"""Clients that answer what the server asks of them with nothing that is of use, or never.

Whatever a client says that it can do: a request of ours may be unknown to it all the same (-32601),
be answered with null or an empty object where something else is due, or with no answer at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from client import CAPABILITIES, Client, RpcError, execute, never
from conversing import events
from fault_server import FaultServer
from test_tools import Model
from trap_editors import PacedModel, TrapEditor, file_holds, progress_is_over

REPLY = "\n## aish\n\nOne. Two.\n\n## You\n\n"

#: All that the server asks of a client anywhere: those of LSP, and two of its own.
OF_LSP: Final = (
    "client/registerCapability",
    "workspace/configuration",
    "workspace/applyEdit",
    "workspace/codeLens/refresh",
    "window/showDocument",
    "window/showMessageRequest",
    "window/workDoneProgress/create",
)
OWN: Final = ("aish/approve", "aish/lookup")
#: What a client may say to have these asked.
OPTIONS: Final = {"aish": {"approve": True, "lookup": True, "status": True}}


def unknown(_: Any) -> Any:
    raise RpcError(-32601, "method not found")


ANSWERS: Final[dict[str, Callable[[Any], Any]]] = {
    "unknown": unknown,
    "null": lambda _: None,
    "empty": lambda _: {},
    "text": lambda _: "yes",
    "never": never,
}


def answering(client: Client, answer: Callable[[Any], Any], *methods: str) -> None:
    """Have the client answer each of ``methods`` so."""
    for method in methods:
        client.answers[method] = answer


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[PacedModel]:
    async with PacedModel().serve(clean_home) as served:
        yield served


async def until_whole(editor: TrapEditor, times: int) -> str:
    """Wait until so many replies stand in the document, or in its file; return that."""

    def is_whole(text: str) -> bool:
        return text.count("One. Two.") == times and text.endswith(REPLY)

    await file_holds(
        editor.client,
        editor.path,
        lambda text: is_whole(text) or is_whole(editor.text),
        f"{times} replies",
    )
    return editor.text if is_whole(editor.text) else editor.file


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
async def test_a_conversation_with_a_client_that_does_nothing_it_is_asked_to(
    folder: Path, model: PacedModel, answer: Callable[[Any], Any]
) -> None:
    victim = folder / "x"
    victim.write_text("here")
    async with Client() as client:
        editor = TrapEditor(client)
        answering(client, answer, *OF_LSP)
        await client.initialize(folder, capabilities=CAPABILITIES)
        await editor.open()
        await editor.type("how?\n")
        before = editor.text
        await client.command_result("aish.chat.send")
        await model.until_asked()
        model.say("One. ", "Two.")
        model.end()
        # It makes no edit, so the reply is in the file, below what was typed.
        assert await until_whole(editor, 1) == before + REPLY
        run = await client.command_result("aish.run", {"text": "ls", "partialResultToken": "s"})
        assert (run["exitCode"], run["output"]) == (0, "x\n")
        # Whatever it answers, that is no yes.
        argument = {"text": "rm -r x", "partialResultToken": "d"}
        _, ended = await client.begin("workspace/executeCommand", execute("aish.run", argument))
        await client.wait_for(lambda: client.asked("window/showMessageRequest"), "the question")
        if answer is never:
            await client.command_result("aish.cancel")
        reason = (await client.within(ended, "the answer"))["finishReason"]
        assert reason == ("cancelled" if answer is never else "denied")
        assert victim.exists()
        await client.command_result("aish.ask", {"prompt": "again?"})
        await model.until_asked(2)
        model.say("One. ", "Two.")
        model.end()
        await until_whole(editor, 2)
        await client.command_result("aish.model.use", {"name": "m"})
        assert {method for method, _ in client.requests} >= set(OF_LSP) - {
            "workspace/codeLens/refresh"
        }
        if answer is not never:
            # Progress that it has agreed to show ends; that of others is not begun.
            agreed = answer in (ANSWERS["null"], ANSWERS["empty"])
            if agreed:
                await progress_is_over(client)
        assert (await client.command_result("aish.status"))["busy"] is False
        assert await client.shutdown() == 0
        assert client.stderr == ""


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
async def test_a_plugin_that_does_not_know_what_it_declares(
    folder: Path, clean_home: Path, answer: Callable[[Any], Any]
) -> None:
    """It says that it approves and looks up, and does neither."""
    (folder / "a.py").write_text("def f():\n    return 1\n")
    found = {"name": "diagnostics", "arguments": "{}"}
    asks = Model({"id": "c1", "type": "function", "function": found})
    async with FaultServer(asks) as server, Client() as client:
        (clean_home / "config.toml").write_text(
            'default_model = "m"\n[models.m]\nmodel = "m"\ncontext_window = 8192\n'
            f'endpoint = "{server.url}"\n'
        )
        answering(client, answer, *OWN)
        # A server that waits for 20 s would wait for them here.
        await client.initialize(folder, options=OPTIONS)
        argument = {"text": "rm -r x", "partialResultToken": "d"}
        _, ended = await client.begin("workspace/executeCommand", execute("aish.run", argument))
        await client.wait_for(lambda: client.asked("aish/approve"), "the question")
        if answer is never:
            await client.command_result("aish.cancel")
        reason = (await client.within(ended, "the answer"))["finishReason"]
        assert reason == ("cancelled" if answer is never else "denied")
        argument = {"prompt": "What is wrong?", "partialResultToken": "t"}
        _, answered = await client.begin("workspace/executeCommand", execute("aish.ask", argument))
        await client.wait_for(lambda: client.asked("aish/lookup"), "what is looked up")
        if answer is never:
            await client.command_result("aish.cancel")
            assert (await client.within(answered, "the reply"))["finishReason"] == "cancelled"
        else:
            assert (await client.within(answered, "the reply"))["text"].endswith("I see.")
            assert events(client, "t", "tool")[-1]["status"] in ("done", "failed")
        assert client.asked("window/showMessageRequest") == []
        assert await client.shutdown() == 0
        assert client.stderr == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"rootUri": None, "rootPath": None, "workspaceFolders": None},
        {"workspaceFolders": None},
        {"clientInfo": None, "locale": None, "trace": None, "initializationOptions": None},
        {"initializationOptions": {"aish": None}},
        {
            "capabilities": {
                "workspace": None,
                "window": None,
                "textDocument": None,
                "general": None,
            }
        },
        {"capabilities": {"workspace": {"workspaceEdit": None}, "window": {"showDocument": None}}},
    ],
)
async def test_null_is_as_good_as_nothing(folder: Path, fields: dict[str, Any]) -> None:
    """Neovim and others send null for what they have not."""
    async with Client() as client:
        await client.initialize(folder, **fields)
        nothing = {"uri": None, "workspace": None, "session": None}
        asked = {"prompt": "hello", "partialResultToken": "t", "model": None, "range": None}
        result = await client.command_result("aish.ask", nothing | asked)
        assert result["finishReason"] == "stop"
        assert await client.command_result(
            "aish.chat.open", {"uri": None, "workspace": None, "prompt": None}
        )
        empty = {"command": "aish.status", "arguments": None, "workDoneToken": None}
        assert (await client.request("workspace/executeCommand", empty))["model"] == "offline"
        at = {"line": 0, "character": 0}
        actions = {
            "textDocument": {"uri": (folder / "a.md").as_uri()},
            "range": {"start": at, "end": at},
            "context": {"diagnostics": [], "only": None, "triggerKind": None},
        }
        assert isinstance(await client.request("textDocument/codeAction", actions), list)
        assert await client.shutdown() == 0
