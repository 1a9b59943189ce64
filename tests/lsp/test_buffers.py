"""What the editor holds and what the disk holds, at each step of edits, commands and undos."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from client import CAPABILITIES, Client
from conversing import Place, ask
from fault_server import FaultServer, Peer, Request, chunk_of


class Editor:
    """An editor with one open file, which makes edits, and saves where it says that it can.

    Attributes:
        text: what its buffer holds.
        applies: whether it makes edits.
        changed: what the server told it about files on the disk.
    """

    def __init__(self, client: Client, path: Path) -> None:
        self.client = client
        self.path = path
        self.text = path.read_text()
        self.version = 1
        self.applies = True
        self.failure: str | None = None
        self.changed: list[list[str]] = []
        client.answers["workspace/applyEdit"] = self._apply
        client.answers["aish/save"] = self._save
        client.answers["window/showMessageRequest"] = self._press
        self.presses = 1
        self.asked: list[str] = []

    @property
    def uri(self) -> str:
        return self.path.as_uri()

    async def open(self) -> None:
        document = {"uri": self.uri, "languageId": "python", "version": 1, "text": self.text}
        await self.client.notify("textDocument/didOpen", {"textDocument": document})

    async def type(self, text: str) -> None:
        self.text = text
        self.version += 1
        document = {"uri": self.uri, "version": self.version}
        changes = {"textDocument": document, "contentChanges": [{"text": text}]}
        await self.client.notify("textDocument/didChange", changes)

    async def reload(self) -> None:
        await self.type(self.path.read_text())

    async def _apply(self, params: Any) -> Any:
        if not self.applies:
            return {"applied": False, "failureReason": self.failure}
        edit = params["edit"]
        every: list[Any] = [
            *edit.get("changes", {}).values(),
            *(one["edits"] for one in edit.get("documentChanges", ())),
        ]
        [edits] = every
        lines = self.text.split("\n")
        for one in edits:
            start, end = one["range"]["start"], one["range"]["end"]
            before = "\n".join(
                [*lines[: start["line"]], lines[start["line"]][: start["character"]]]
            )
            after = "\n".join([lines[end["line"]][end["character"] :], *lines[end["line"] + 1 :]])
            lines = (before + one["newText"] + after).split("\n")
        await self.type("\n".join(lines))
        return {"applied": True}

    async def _save(self, params: Any) -> Any:
        assert params == {"uris": [self.uri]}
        self.path.write_text(self.text)
        await self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.uri}})
        return {"saved": params["uris"]}

    def _press(self, params: Any) -> Any:
        self.asked.append(params["message"])
        actions = params["actions"]
        return actions[self.presses if "Not saved" in params["message"] else 1]

    def told_of(self) -> list[list[str]]:
        return [
            one["uris"] for method, one in self.client.notifications if method == "aish/changed"
        ]


class Model:
    """Changes the file by a tool, or suggests a command."""

    def __init__(self) -> None:
        self.says: str | dict[str, str] = ""
        self.sent: list[Any] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        self.sent.append(request.json["messages"])
        await peer.head()
        is_answered = self.sent[-1][-1]["role"] == "tool"
        if isinstance(self.says, dict) and not is_answered:
            function = {"name": "edit_file", "arguments": json.dumps(self.says)}
            call = {"index": 0, "id": "c1", "type": "function", "function": function}
            await peer.event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
            await peer.event(chunk_of("", finish_reason="tool_calls"))
        else:
            await peer.event(chunk_of("Done." if is_answered else str(self.says)))
            await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")

    @property
    def result(self) -> str:
        return str(self.sent[-1][-1]["content"])


@asynccontextmanager
async def editing(
    root: Path, *, files: bool, capabilities: Any = None
) -> AsyncIterator[tuple[Editor, Model, Client]]:
    (root / "place").mkdir()
    place, model = Place.make(root / "place"), Model()
    path = place.folder / "calc.py"
    path.write_text("def double(x):\n    return x + 1\n")
    subprocess.run(["git", "init", "-q"], cwd=place.folder, check=True)
    async with FaultServer(model) as server:
        place.configure(server.url, context_window=8192)
        async with place.client() as client:
            options = {"aish": {"files": True}} if files else {}
            await client.initialize(
                place.folder,
                options=options,
                capabilities=capabilities or CAPABILITIES,
            )
            editor = Editor(client, path)
            await editor.open()
            yield editor, model, client


async def edit(client: Client, model: Model, old: str, new: str) -> str:
    model.says = {"path": "calc.py", "old": old, "new": new}
    await ask(client, "Mend it.", f"edit{len(model.sent)}")
    return model.result


async def run(client: Client, text: str) -> Any:
    argument = {"text": text, "partialResultToken": f"run {text}"}
    return await client.command_result("aish.run", argument)


async def test_a_buffer_that_was_saved_is_saved_after_an_edit(tmp_path: Path) -> None:
    async with editing(tmp_path, files=True) as (editor, model, client):
        result = await edit(client, model, "x + 1", "x * 2")
        assert result.startswith("Changed calc.py")
        assert "not saved" not in result
        assert editor.text == editor.path.read_text() == "def double(x):\n    return x * 2\n"
        # The test that runs next sees it, and nobody is asked.
        report = await run(client, "python3 -B -c 'import calc; print(calc.double(4))'")
        assert report["output"] == "8\n"
        assert not any("Not saved" in message for message in editor.asked)
        # An undo changes the disk, and the editor is told to look.
        undone = await client.command_result("aish.undo")
        assert undone["restored"] == ["calc.py"]
        assert editor.path.read_text() == "def double(x):\n    return x + 1\n"
        assert editor.told_of()[-1] == [editor.uri]
        await editor.reload()
        await client.command_result("aish.redo")
        assert editor.path.read_text() == "def double(x):\n    return x * 2\n"
        assert editor.told_of()[-1] == [editor.uri]


async def test_a_saved_file_is_written_for_a_client_that_cannot_save(tmp_path: Path) -> None:
    async with editing(tmp_path, files=False) as (editor, model, client):
        editor.path.write_bytes(b"def double(x):\r\n    return x + 1\r\n")
        result = await edit(client, model, "x + 1", "x * 2")
        assert result.startswith("Changed calc.py")
        assert "not saved" not in result
        assert client.asked("workspace/applyEdit") == []
        assert editor.path.read_bytes() == b"def double(x):\r\n    return x * 2\r\n"


@pytest.mark.parametrize("choice", ["Save and run", "Run", "Cancel"])
async def test_unsaved_changes_are_asked_about_before_a_command(
    tmp_path: Path, choice: str
) -> None:
    async with editing(tmp_path, files=True) as (editor, model, client):
        await editor.type("# mine\ndef double(x):\n    return x + 1\n")
        result = await edit(client, model, "x + 1", "x * 2")
        assert "not saved yet" in result
        assert editor.text == "# mine\ndef double(x):\n    return x * 2\n"
        assert "mine" not in editor.path.read_text()
        editor.presses = ["Cancel", "Save and run", "Run"].index(choice)
        report = await run(client, "python3 -B -c 'import calc; print(calc.double(4))'")
        [question] = [message for message in editor.asked if "Not saved" in message]
        assert "calc.py" in question
        if choice == "Cancel":
            assert report["finishReason"] == "denied"
            return
        is_saved = choice == "Save and run"
        assert report["output"] == ("8\n" if is_saved else "5\n")
        assert (editor.path.read_text() == editor.text) is is_saved
        # The model is told what the command saw.
        model.says = "I see."
        await ask(client, "And?", "and")
        assert ("not saved in the editor" in model.result) is not is_saved


async def test_what_reads_only_asks_nothing(tmp_path: Path) -> None:
    async with editing(tmp_path, files=True) as (editor, model, client):
        await editor.type("# mine\ndef double(x):\n    return x + 1\n")
        await edit(client, model, "x + 1", "x * 2")
        await run(client, "cat calc.py")
        assert not any("Not saved" in message for message in editor.asked)


@pytest.mark.parametrize("reason", [None, "the buffer is read-only"])
async def test_an_edit_that_the_editor_refuses_says_why(tmp_path: Path, reason: str | None) -> None:
    async with editing(tmp_path, files=True) as (editor, model, client):
        editor.applies, editor.failure = False, reason
        result = await edit(client, model, "x + 1", "x * 2")
        assert (reason or "it refused") in result
        assert editor.path.read_text() == editor.text == "def double(x):\n    return x + 1\n"


async def test_an_edit_that_is_not_seen_does_not_count(tmp_path: Path) -> None:
    async with editing(tmp_path, files=True) as (editor, model, client):
        client.answers["workspace/applyEdit"] = lambda _: {"applied": True}
        result = await edit(client, model, "x + 1", "x * 2")
        assert "says that it made the edit, but its text is different" in result
        assert editor.path.read_text() == "def double(x):\n    return x + 1\n"


@pytest.mark.parametrize("is_saved", [True, False])
async def test_a_client_that_makes_no_edits_has_saved_files_written(
    tmp_path: Path, is_saved: bool
) -> None:
    workspace = CAPABILITIES["workspace"] | {"applyEdit": False}
    capabilities = CAPABILITIES | {"workspace": workspace}
    async with editing(tmp_path, files=False, capabilities=capabilities) as (editor, model, client):
        if not is_saved:
            await editor.type("# mine\ndef double(x):\n    return x + 1\n")
        result = await edit(client, model, "x + 1", "x * 2")
        assert ("x * 2" in editor.path.read_text()) is is_saved
        assert ("unsaved changes" in result) is not is_saved


async def test_a_command_that_changes_an_open_file_is_told(tmp_path: Path) -> None:
    async with editing(tmp_path, files=True) as (editor, _model, client):
        await run(client, "touch other.py")
        assert editor.told_of() == []
        await run(client, "echo '# more' >> calc.py")
        assert editor.told_of() == [[editor.uri]]


@pytest.mark.parametrize("files", [True, False])
async def test_a_file_that_changed_outside_counts_where_the_buffer_has_no_changes(
    tmp_path: Path, *, files: bool
) -> None:
    async with editing(tmp_path, files=files) as (editor, model, client):
        await run(client, "cat calc.py")
        # The editor has not read it again yet.
        editor.path.write_text("def double(x):\n    return x + 1\n\n\nLIMIT = 4\n")
        result = await edit(client, model, "LIMIT = 4", "LIMIT = 5")
        assert result.startswith("Changed calc.py")
        assert client.asked("workspace/applyEdit") == []
        assert editor.path.read_text() == "def double(x):\n    return x + 1\n\n\nLIMIT = 5\n"
        # Unsaved changes count for more than the file.
        await editor.type("# mine\ndef double(x):\n    return x + 1\n")
        editor.path.write_text("def double(x):\n    return x + 3\n")
        result = await edit(client, model, "x + 1", "x * 2")
        assert "not saved yet" in result
        assert editor.text == "# mine\ndef double(x):\n    return x * 2\n"
        assert editor.path.read_text() == "def double(x):\n    return x + 3\n"
