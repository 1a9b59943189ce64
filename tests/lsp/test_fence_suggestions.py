"""Fences that a reply suggests, through the real server: offered, edited, approved, run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client import Client, RpcError
from conversing import yes
from selection_parts import Document, Model, span
from test_conversation import ask, events, until

SCRIPT = "cd sub\ntouch made\necho done"
REPLY = f"""\
Do this:

```sh
{SCRIPT}
```

or, with your own name:

```bash
git clone <url>
```

```fish
echo (pwd)
```

```console
$ echo hi
hi
```

```pwsh
Get-ChildItem
```
"""


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "sub").mkdir()
    return folder


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[Model]:
    async with Model(REPLY).serve(clean_home, context_window=100_000) as served:
        yield served


async def chat_of(client: Client, project: Path) -> Document:
    """Ask in the chat; return its document, open in the client."""
    await client.command_result("aish.ask", {"prompt": "how?"})
    chat = project / ".aish" / "chat.md"
    text = await until(client, chat, lambda text: text.count("\n## You\n") == 2)
    return await Document(client, chat.as_uri(), "markdown").open(text)


def at(document: Document, text: str) -> dict[str, Any]:
    line = document.text.split("\n").index(text)
    return span(line, 0, line, 0)


def kinds(actions: dict[str, Any]) -> list[str]:
    """Return what each action is, without what it is about."""
    return [title.partition(":")[0] for title in actions]


async def test_a_fence_is_one_suggestion_in_the_stream_and_runs_whole(
    project: Path, model: Model
) -> None:
    async with Client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(project)
        result = await ask(client, "how?", "t")
        commands = result["commands"]
        assert [event["command"] for event in events(client, "t", "command")] == commands
        assert commands[0] == {
            "id": commands[0]["id"],
            "text": SCRIPT,
            "line": 2,
            "endLine": 6,
            "source": "fence",
            "placeholders": [],
            "risk": "caution",
            "reasons": commands[0]["reasons"],
        }
        assert [(c["text"], c["placeholders"]) for c in commands[1:]] == [
            ("git clone <url>", ["<url>"]),
            ("echo (pwd)", []),
            ("echo hi", []),
            ("Get-ChildItem", []),
        ]
        assert commands[3]["risk"] == "safe"
        assert all(commands[n]["risk"] != "safe" for n in (0, 1, 2, 4))
        listed = await client.command_result("aish.commands.list")
        assert listed["commands"] == commands

        argument = {"commandId": commands[0]["id"], "partialResultToken": "u"}
        run = await client.command_result("aish.run", argument)
        assert (run["text"], run["output"]) == (SCRIPT, "done\n")
        assert (project / "sub" / "made").exists()
        # A menu does not show all of it: it was asked about, whole, with the shell that runs it.
        [asked] = client.asked("window/showMessageRequest")
        assert "    cd sub\n    touch made\n    echo done\n" in asked["message"]
        assert f"in {project}, by sh\n" in asked["message"]


async def test_what_cannot_run_as_it_stands_is_refused_with_what_to_do(
    project: Path, model: Model
) -> None:
    async with Client() as client:
        await client.initialize(project)
        commands = (await ask(client, "how?", "t"))["commands"]
        for number, told in ((1, "<url>"), (2, "fish"), (4, "PowerShell")):
            argument = {"commandId": commands[number]["id"], "partialResultToken": "u"}
            with pytest.raises(RpcError, match=told):
                await client.command_result("aish.run", argument)
            with pytest.raises(RpcError, match=told):
                await client.command_result(
                    "aish.run", argument | {"edited": commands[number]["text"]}
                )
        argument = {"commandId": commands[1]["id"], "edited": "echo $0", "partialResultToken": "u"}
        run = await client.command_result("aish.run", argument)
        assert run["output"].strip().endswith("bash")


async def test_in_the_chat_each_fence_has_its_lenses_hints_and_actions(
    project: Path, model: Model
) -> None:
    async with Client() as client:
        await client.initialize(project)
        chat = await chat_of(client, project)
        lenses = await client.request("textDocument/codeLens", {"textDocument": {"uri": chat.uri}})
        lines = chat.text.split("\n")
        assert [
            (lines[lens["range"]["start"]["line"]], lens["command"]["title"]) for lens in lenses
        ] == [
            *(("```sh", "Run"), ("```sh", "Edit"), ("```bash", "Edit")),
            *(("```console", "Run"), ("```console", "Edit"), ("## You", "Send")),
        ]
        # Run is not the first: an editor may take that without a question.
        offered = await chat.actions(at(chat, "touch made"))
        assert kinds(offered)[:4] == ["Edit and run", "Run", "Copy", "Dismiss"]
        assert list(offered)[1] == "Run: cd sub\\ntouch made\\necho done"
        assert kinds(await chat.actions(at(chat, "git clone <url>")))[:3] == [
            *("Edit and run", "Copy", "Dismiss")
        ]
        assert kinds(await chat.actions(at(chat, "echo (pwd)")))[:2] == ["Copy", "Dismiss"]
        assert kinds(await chat.actions(at(chat, "Get-ChildItem")))[:2] == ["Copy", "Dismiss"]
        # Nor where only what runs something is asked for, nor in another document.
        only = await chat.actions(at(chat, "touch made"), only=["quickfix"])
        assert kinds(only)[:2] == ["Edit and run", "Run"]
        code = await Document(client, (project / "a.py").as_uri()).open("x = 1\n")
        assert kinds(await code.actions(span(0, 0, 0, 0)))[0] == "Edit and run"
        assert not any(action.get("isPreferred") for action in offered.values())
        assert await client.wait_for(lambda: hints(client, chat), "hints") == [
            "Can be run (caution)",
            "Can be edited and run",
            "Can be copied, not run",
            "Can be run (safe)",
            "Can be copied, not run",
        ]


def hints(client: Client, document: Document) -> list[str]:
    """Return how the hints begin that a document has now."""
    published = [
        params["diagnostics"]
        for params in client.notified("textDocument/publishDiagnostics")
        if params["uri"] == document.uri
    ]
    return [hint["message"].partition(":")[0] for hint in (published or [[]])[-1]]


async def test_edit_and_run_in_the_chat_keeps_all_lines_and_the_shell(
    project: Path, model: Model
) -> None:
    model.reply = "```sh\nX=1\necho $0 $X\n```\n"
    async with Client() as client:
        await client.initialize(project)
        chat = await chat_of(client, project)
        offered = await chat.actions(at(chat, "X=1"))
        edit = next(action for title, action in offered.items() if title.startswith("Edit"))
        prompt = edit["command"]["arguments"][0]["prompt"]
        assert prompt == ":run\n```sh\nX=1\necho $0 $X\n```"
        await chat.close()
        await client.command_result("aish.chat.send", {"prompt": prompt.replace("X=1", "X=2")})
        text = await until(client, project / ".aish" / "chat.md", lambda text: "exit 0" in text)
        assert "sh 2\n" in text
        assert "bash 2\n" not in text


async def test_a_suggestion_runs_by_its_number_and_by_approval(project: Path, model: Model) -> None:
    chat = project / ".aish" / "chat.md"

    async def said(client: Client, line: str, text: str) -> str:
        await client.command_result("aish.chat.send", {"prompt": line})
        return await until(client, chat, lambda found: text in found)

    async with Client() as client:
        await client.initialize(project)
        await ask(client, "how?", "t")
        await said(client, ":run 2", "fill in <url> first")
        await said(client, ":run 3", "it is for fish, which is not installed here")
        await said(client, ":run 9", "no command 9 left to run, only 1, 2, 3, 4, 5.")
        await said(client, ":run 4", "hi\n````\n\n> exit 0")
        await said(client, ":run 4", "left to run, only 1, 2, 3, 5.")
        # Nobody answers the question: what was asked is shown, and runs by its id.
        text = await said(client, ":run 1", ":approve")
        assert ">     cd sub\n>     touch made\n>     echo done\n" in text
        assert not (project / "sub" / "made").exists()
        command_id = text.rpartition(":approve ")[2].partition("`")[0]
        await said(client, f":approve {command_id}", "done\n````\n\n> exit 0")
        assert (project / "sub" / "made").exists()


async def test_fences_that_were_not_run_come_back_with_the_session(
    project: Path, model: Model
) -> None:
    async with Client() as client:
        await client.initialize(project)
        first = await ask(client, "how?", "t")
        safe = first["commands"][3]
        await client.command_result(
            "aish.run", {"commandId": safe["id"], "partialResultToken": "u"}
        )
    async with Client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(project)
        await client.command_result("aish.session.resume", {"id": first["sessionId"]})
        listed = (await client.command_result("aish.commands.list"))["commands"]
        assert listed == [command for command in first["commands"] if command != safe]
        await client.command_result("aish.chat.send", {"prompt": ":run 5"})
        chat = project / ".aish" / "chat.md"
        await until(client, chat, lambda text: "it is for PowerShell" in text)


async def test_a_line_takes_the_place_of_the_fence_that_it_repeats(
    project: Path, model: Model
) -> None:
    model.reply = "```sh\necho hi\n```\n\nCMD: echo hi\n"
    async with Client() as client:
        await client.initialize(project)
        result = await ask(client, "how?", "t")
        [command] = result["commands"]
        assert (command["source"], command["line"], command["endLine"]) == ("cmd", 4, 4)
        first, second = (event["command"] for event in events(client, "t", "command"))
        assert (first["source"], first["id"]) == ("fence", second["id"])
        assert second == command
        assert (await client.command_result("aish.commands.list"))["commands"] == [command]


async def test_fences_are_left_alone_where_the_user_says_so(
    project: Path, model: Model, clean_home: Path
) -> None:
    config = clean_home / "config.toml"
    config.write_text(f"{config.read_text()}\n[suggestions]\nfences = false\n")
    model.reply += "CMD: pwd\n"
    async with Client() as client:
        await client.initialize(project)
        commands = (await ask(client, "how?", "t"))["commands"]
        assert [command["text"] for command in commands] == ["pwd"]


async def test_a_suggestion_is_copied_or_shown_to_be(
    project: Path, model: Model, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    clipboard = programs / "xclip"
    clipboard.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/options\ncat >{tmp_path}/copied\n')
    clipboard.chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    async with Client(
        env={"PATH": path, "DISPLAY": ":0", "WAYLAND_DISPLAY": "", "TMUX": ""}
    ) as client:
        await client.initialize(project)
        command = (await ask(client, "how?", "t"))["commands"][0]
        argument = {"commandId": command["id"]}
        copied = await client.command_result("aish.commands.copy", argument)
        assert copied == {"text": SCRIPT, "copied": True}
        assert (tmp_path / "copied").read_text() == SCRIPT
        assert (tmp_path / "options").read_text() == "-selection clipboard\n"

        clipboard.write_text("#!/bin/sh\nexit 1\n")
        copied = await client.command_result("aish.commands.copy", argument)
        assert not copied["copied"]
        [shown] = client.notified("window/showMessage")
        assert shown["message"].endswith(SCRIPT)
