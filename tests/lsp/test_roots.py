"""Which folder counts: for clients that name one root, and for documents outside every folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from client import Client, RpcError


def root_of(folder: Path, spelling: str) -> dict[str, Any]:
    """Return what a client sends of ``folder`` in ``initialize``."""
    root = {
        "rootUri": {"rootUri": folder.as_uri()},
        "rootPath": {"rootPath": str(folder)},
        "both": {"rootUri": folder.as_uri(), "rootPath": str(folder)},
    }[spelling]
    return {"rootUri": None, "workspaceFolders": None} | root


@pytest.mark.parametrize("folders", [None, [], "absent"])
@pytest.mark.parametrize("spelling", ["rootUri", "rootPath", "both"])
async def test_one_root_is_the_one_folder(
    tmp_path: Path, clean_home: Path, spelling: str, folders: Any
) -> None:
    folder = tmp_path / "wörk 1"
    folder.mkdir()
    (folder / "Makefile").write_text("test:\n\techo\n")
    params = root_of(folder, spelling) | {"workspaceFolders": folders}
    if folders == "absent":
        del params["workspaceFolders"]
    async with Client() as client:
        await client.request("initialize", {"processId": None, "capabilities": {}, **params})
        await client.notify("initialized", {})
        opened = await client.command_result("aish.chat.open")
        assert opened["uri"] == (folder / ".aish" / "chat.md").as_uri()
        assert "Makefile" in (await client.command_result("aish.project.show"))["block"]
        ran = {"text": "pwd", "partialResultToken": "t"}
        report = await client.command_result("aish.run", ran)
        assert report["output"] == f"{folder}\n"
    assert not (clean_home / ".aish").exists()


async def test_of_a_document_outside_every_folder_it_is_told_which_counts(
    folder: Path, tmp_path: Path, clean_home: Path
) -> None:
    outside = {"uri": (tmp_path / "elsewhere.py").as_uri()}
    asked = {"prompt": "how do I list files?", **outside, "partialResultToken": "t"}
    async with Client() as client:
        await client.initialize(folder)
        await client.command_result("aish.ask", asked)
        said = [event["message"] for event in client.progress["t"] if event["kind"] == "notice"]
        told = f"{folder}, the folder that is open; elsewhere.py is outside it."
        assert f"Asked in {told}" in said
        await client.command_result("aish.chat.open", outside)
        shown = [params["message"] for params in client.notified("window/showMessage")]
        assert f"This is the chat of {told}" in shown
    async with Client() as client:
        await client.initialize()
        await client.command_result("aish.ask", asked)
        said = [event["message"] for event in client.progress["t"] if event["kind"] == "notice"]
        assert f"Asked in {clean_home}, since the editor has opened no folder." in said


@pytest.mark.parametrize(
    "spelling", ["file:", "file://", "FILE://", "File://localhost", "file://LOCALHOST"]
)
async def test_a_folder_of_this_machine_is_known_however_it_is_spelled(
    tmp_path: Path, spelling: str
) -> None:
    folder = tmp_path / "c:" / "wörk 1"
    folder.mkdir(parents=True)
    path = folder.as_uri().removeprefix("file://").replace(":", "%3A")
    (folder / "a.py").write_text("old\n")
    async with Client() as client:
        folders = [{"uri": spelling + path, "name": "w"}]
        await client.initialize(workspaceFolders=folders)
        item = {
            "uri": f"{spelling}{path}/a.py",
            "languageId": "python",
            "version": 1,
            "text": "new",
        }
        await client.notify("textDocument/didOpen", {"textDocument": item})
        ran = {"text": "pwd", "partialResultToken": "t", "workspace": folder.as_uri()}
        assert (await client.command_result("aish.run", ran))["output"] == f"{folder}\n"
        shown = await client.command_result("aish.prompt.show", {"prompt": "what is in @a.py?"})
        assert "new" in str(shown["messages"])
        assert client.notified("window/showMessage") == []


@pytest.mark.parametrize("name", ["c#", "what?", "a\nb", "c%23"])
async def test_a_name_that_a_client_did_not_escape_is_not_that_of_another_folder(
    tmp_path: Path, name: str
) -> None:
    for beside in ("c", "what", "ab", name):
        (tmp_path / beside).mkdir()
    uri = f"{tmp_path.as_uri()}/{name.replace('%', '%25')}"
    async with Client() as client:
        await client.initialize(workspaceFolders=[{"uri": uri, "name": "w"}])
        ran = {"text": "pwd", "partialResultToken": "t", "workspace": uri}
        output = (await client.command_result("aish.run", ran))["output"]
        assert output == f"{tmp_path}/{name}\n"
        ran["cwd"] = f"FILE://localhost{uri.removeprefix('file://')}"
        assert (await client.command_result("aish.run", ran))["output"] == output


async def test_a_relative_root_path_is_named_and_no_folder_of_the_system(clean_home: Path) -> None:
    params: dict[str, Any] = {"processId": None, "capabilities": {}, "rootPath": "usr"}
    async with Client() as client:
        await client.request("initialize", params)
        await client.notify("initialized", {})
        ran = {"text": "pwd", "partialResultToken": "t"}
        report = await client.command_result("aish.run", ran)
        assert report["output"] == f"{clean_home}\n"
        [told] = [params["message"] for params in client.notified("window/showMessage")]
        assert '"usr" is not a folder of this machine' in told


@pytest.mark.parametrize("uri", ["vscode-remote://ssh-remote%2Bbox/home/w", "file://box/home/w"])
async def test_a_folder_of_another_machine_is_named_and_not_replaced_in_silence(
    clean_home: Path, uri: str
) -> None:
    async with Client() as client:
        await client.initialize(workspaceFolders=[{"uri": uri, "name": "w"}])
        asked = {"prompt": "how do I list files?", "uri": f"{uri}/a.py", "partialResultToken": "t"}
        await client.command_result("aish.ask", asked)
        [told] = [params["message"] for params in client.notified("window/showMessage")]
        assert uri in told
        assert str(clean_home) in told or "~" in told
        said = [event["message"] for event in client.progress["t"] if event["kind"] == "notice"]
        assert any(uri in notice for notice in said)
        with pytest.raises(RpcError, match="not open"):
            await client.command_result("aish.status", {"workspace": uri})


async def test_a_folder_and_its_chat_are_known_by_another_name(
    folder: Path, tmp_path: Path, clean_home: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    async with Client() as client:
        await client.initialize(link)
        chat = await client.command_result("aish.chat.open", {"uri": (folder / "a.py").as_uri()})
        assert not client.notified("window/showMessage")
        text = "# Chat\n\n## You\n\n:help\n"
        uri = (folder / ".aish" / "chat.md").as_uri()
        document = {"uri": uri, "languageId": "markdown", "version": 1, "text": text}
        await client.notify("textDocument/didOpen", {"textDocument": document})
        place = {"start": {"line": 4, "character": 0}, "end": {"line": 4, "character": 0}}
        params = {"textDocument": {"uri": uri}, "range": place, "context": {"diagnostics": []}}
        actions = await client.request("textDocument/codeAction", params)
    assert chat["uri"] in (uri, (link / ".aish" / "chat.md").as_uri())
    assert any("chat.send" in str(action) for action in actions)


async def test_a_folder_whose_name_is_not_utf_8_is_the_one_that_is_meant(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (folder / "here").write_text("")
    async with Client() as client:
        uri = f"{tmp_path.as_uri()}/caf%E9"
        await client.initialize(workspaceFolders=[{"uri": uri, "name": "w"}])
        ran = {"text": "ls", "partialResultToken": "t", "workspace": uri}
        assert (await client.command_result("aish.run", ran))["output"] == "here\n"
        opened = await client.command_result("aish.chat.open", {"workspace": uri})
        assert opened["uri"] == f"{uri}/.aish/chat.md"
        item = {"uri": f"{uri}/a.py", "languageId": "python", "version": 1, "text": "in the editor"}
        await client.notify("textDocument/didOpen", {"textDocument": item})
        shown = await client.command_result("aish.prompt.show", {"prompt": "what is in @a.py?"})
        assert "in the editor" in str(shown["messages"])
    assert (folder / ".aish" / "chat.md").exists()
