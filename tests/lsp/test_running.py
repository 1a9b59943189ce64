"""What a user is told of a command that has run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from client import Client
from conversing import yes
from test_conversation import events, until


async def test_what_wants_a_terminal_is_handed_to_the_users_own(folder: Path) -> None:
    async with Client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(folder)
        argument = {"text": "cat </dev/tty", "partialResultToken": "t"}
        run = await client.command_result("aish.run", argument)
        assert run["exitCode"] != 0
        line = f"cd {folder} && cat </dev/tty"
        assert [notice for notice in events(client, "t", "notice") if line in notice["message"]]
        await client.command_result("aish.chat.send", {"prompt": f":run {argument['text']}"})
        chat = folder / ".aish" / "chat.md"
        text = await until(client, chat, lambda text: text.count("\n## You\n") == 2)
        assert f">     {line}\n" in text


@pytest.mark.parametrize("in_chat", [True, False])
async def test_the_end_of_the_server_ends_the_block_of_an_output(
    folder: Path, *, in_chat: bool
) -> None:
    async with Client() as client:
        await client.initialize(folder)
        if in_chat:
            await client.command_result("aish.chat.send", {"prompt": ":run echo hi; sleep 600"})
        else:
            await client.command_result("aish.run", {"text": "echo hi; sleep 600"})
        chat = folder / ".aish" / "chat.md"
        await until(client, chat, lambda text: "\nhi\n" in text)
        assert await client.shutdown() == 0
    text = chat.read_text()
    assert "\nhi\n````\n\n> stopped: the server has ended.\n\n## You\n" in text


async def test_the_block_of_a_command_that_cannot_be_started_ends(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        client.answers["window/showMessageRequest"] = yes
        await client.command_result("aish.chat.send", {"prompt": f":run echo {'a' * 200_000}"})
        chat = folder / ".aish" / "chat.md"
        text = await until(client, chat, lambda text: text.count("\n## You\n") == 2)
        assert "aaa\n````\n\n> The command is too long for the system to start.\n" in text


async def test_much_output_is_kept_head_and_tail(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        text = (
            "echo first; head -c 200000 /dev/zero | tr '\\0' a; echo; printf 'caf\\351 \\033[1mend'"
        )
        run = await client.command_result("aish.run", {"text": text, "partialResultToken": "t"})
        assert run["truncated"]
        assert run["output"].startswith("first\n")
        assert "bytes left out here]" in run["output"]
        assert run["output"].endswith("caf\ufffd \x1b[1mend")
        assert len(run["output"]) < 70_000
        assert sum(len(event["delta"]) for event in events(client, "t", "output")) > 200_000
        await client.command_result("aish.ask", {"prompt": "well?", "partialResultToken": "u"})
        await client.command_result("aish.chat.send", {"prompt": ":prompt"})
        chat = folder / ".aish" / "chat.md"
        sent = await until(client, chat, lambda text: text.count("\n## You\n") == 2)
        assert "caf\ufffd end" in sent


async def test_the_title_of_a_run_hides_nothing_and_is_no_longer_than_a_line(folder: Path) -> None:
    def title() -> str:
        values = [value for under in client.progress.values() for value in under]
        return next((value["title"] for value in values if value["kind"] == "begin"), "")

    async with Client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(folder)
        await client.command_result("aish.run", {"text": "echo \u202e\n" + "# long" * 100})
        shown = await client.wait_for(title, "the title")
        assert shown.startswith("aish runs echo \\u202e\\n# long")
        assert len(shown) == len("aish runs ") + 80


async def test_while_the_user_is_asked_it_is_not_told_that_the_command_runs(folder: Path) -> None:
    (folder / "x").mkdir()
    messages: list[str] = []

    def reports(last: str) -> bool:
        values = [value for under in client.progress.values() for value in under]
        messages[:] = [value["message"] for value in values if value.get("kind") == "report"]
        return messages[-1:] == [last]

    async def answer(params: Any) -> Any:
        await client.wait_for(lambda: reports("waits"), "that it waits")
        return yes(params)

    async with Client() as client:
        client.answers["window/showMessageRequest"] = answer
        await client.initialize(folder)
        # It runs until its time was told.
        await client.command_result("aish.chat.send", {"prompt": ":run rm -r x; sleep 600"})
        await client.wait_for(lambda: reports("1 s"), "the time")
        assert set(messages) == {"waits", "1 s"}
        assert (await client.command_result("aish.cancel"))["cancelled"] == 1


async def test_no_secret_of_a_command_or_its_output_goes_to_a_model(folder: Path) -> None:
    key, token = "plain-77-key-of-ours", "ghp_" + "a1B2" * 9
    (folder / "leak").write_text(f"{token}\npassword=hunter2\n{key}\n")
    async with Client(env={"OPENAI_API_KEY": key}) as client:
        await client.initialize(folder)
        text = f"cat leak; true --token {token} {key}"
        run = await client.command_result("aish.run", {"text": text, "partialResultToken": "t"})
        assert key in run["output"]
        await client.command_result("aish.ask", {"prompt": "well?", "partialResultToken": "u"})
        await client.command_result("aish.chat.send", {"prompt": ":prompt"})
        chat = folder / ".aish" / "chat.md"
        sent = await until(client, chat, lambda text: text.count("\n## You\n") == 2)
        assert "$ cat leak; true --token [redacted] [secret] (exit 0)" in sent
        assert "[redacted]\npassword=[redacted]\n[secret]\n" in sent
        assert not [secret for secret in (key, token, "hunter2") if secret in sent]


async def test_a_long_output_stays_short_in_the_chat_and_whole_beside_it(folder: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    chat = folder / ".aish" / "chat.md"
    async with Client() as client:
        await client.initialize(folder)
        await client.command_result("aish.chat.send", {"prompt": f":run seq 1000; echo {token}"})
        text = await until(client, chat, lambda text: "exit 0" in text)
        [shown] = re.findall(r"````console\n(.*?)\n````\n", text, re.DOTALL)
        lines = shown.split("\n")[1:]
        assert lines[39:42] == ["40", "[aish: 941 lines left out]", "982"]
        assert len(lines) == 61
        [link] = re.findall(r"941 lines left out: \[\.aish/(\S+)\]\((\S+)\)", text)
        assert link[0] == link[1]
        file = chat.parent / link[0]
        whole = "".join(f"{number}\n" for number in range(1, 1001))
        assert file.read_text() == f"{whole}[redacted]\n"
        assert file.stat().st_mode & 0o777 == 0o600

        await client.command_result("aish.chat.send", {"prompt": ":run seq 60"})
        text = await until(client, chat, lambda text: text.count("exit 0") == 2)
        assert "\n39\n40\n41\n" in text.rpartition("$ seq 60")[2]
        assert list(file.parent.iterdir()) == [file]


async def test_a_client_that_streams_is_told_the_file_with_all_of_a_long_output(
    folder: Path,
) -> None:
    token = "ghp_" + "a1B2" * 9
    async with Client() as client:
        await client.initialize(folder)

        async def run(text: str) -> Any:
            argument = {"text": text, "partialResultToken": text}
            return await client.command_result("aish.run", argument)

        assert (await run("seq 60"))["outputUri"] is None
        assert not (folder / ".aish").exists()
        long = await run(f"seq 20000; echo {token}")
        assert long["truncated"]
        file = folder / ".aish" / "output" / f"{long['commandId']}.txt"
        assert long["outputUri"] == file.as_uri()
        whole = "".join(f"{number}\n" for number in range(1, 20_001))
        assert file.read_text() == f"{whole}[redacted]\n"
        # Of a project nothing of it is to be committed.
        assert (folder / ".aish" / ".gitignore").read_text() == "*\n"


async def test_an_output_that_cannot_be_kept_whole_is_shown_all_the_same(folder: Path) -> None:
    (folder / ".aish").symlink_to(folder.parent)
    async with Client() as client:
        await client.initialize(folder)
        argument = {"text": "seq 100", "partialResultToken": "t"}
        run = await client.command_result("aish.run", argument)
        assert (run["exitCode"], run["outputUri"]) == (0, None)
        assert run["output"].endswith("\n100\n")
        assert not (folder.parent / "output").exists()
