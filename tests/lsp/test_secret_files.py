"""Files of keys and passwords leave by the user's word alone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from client import Client, RpcError
from conversing import no, yes
from selection_parts import Document, Model, span
from test_conversation import ask, events, until

HUSH = "SETTING=hush-hush\n"


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[Model]:
    async with Model().serve(clean_home, context_window=100_000) as served:
        yield served


@pytest.fixture
async def client(clean_home: Path, folder: Path, model: Model) -> AsyncIterator[Client]:
    (folder / ".env").write_text(HUSH)
    (folder / "deploy").mkdir()
    (folder / "deploy" / "id_rsa").write_text("hush-hush, a key\n")
    (folder / "plain.txt").write_text("plain\n")
    (folder / "settings").symlink_to(".env")
    async with Client() as started:
        await started.initialize(folder)
        yield started


def asked(client: Client) -> list[str]:
    return [question["message"] for question in client.asked("window/showMessageRequest")]


async def test_a_yes_sends_it_once_asked_in_a_session(
    client: Client, model: Model, folder: Path
) -> None:
    client.answers["window/showMessageRequest"] = yes
    for token in ("one", "two"):
        await ask(client, "what is in @.env and @plain.txt?", token)
        assert HUSH in model.asked[-1]
    [question] = asked(client)
    assert "Send .env to the model?" in question
    # What has changed is asked about again, and so is everything in another session.
    document = await Document(client, (folder / ".env").as_uri()).open("other\n")
    await ask(client, "and now, @.env?", "three")
    assert "other" in model.asked[-1]
    await document.close()
    await client.command_result("aish.session.new")
    await ask(client, "what is in @.env?", "four")
    assert len(asked(client)) == 3


@pytest.mark.parametrize("name", [".env", "deploy/id_rsa", "settings", "./deploy/../.env"])
async def test_a_no_keeps_it_here(client: Client, model: Model, folder: Path, name: str) -> None:
    client.answers["window/showMessageRequest"] = no
    result = await ask(client, f"what is in @{name} and @plain.txt?", "t")
    assert len(asked(client)) == 1
    assert "hush-hush" not in model.asked[-1]
    assert "plain\n" in model.asked[-1]
    assert [part["path"] for part in result["attached"]] == ["plain.txt"]
    [notice] = [e["message"] for e in events(client, "t", "notice") if "not sent" in e["message"]]
    assert "keys or passwords" in notice
    assert ":approve" not in notice


async def test_where_nobody_answers_the_chat_tells_how_to_go_on(
    client: Client, model: Model, folder: Path
) -> None:
    client.answers["window/showMessageRequest"] = lambda _: None
    await ask(client, "what is in @.env?", "one")
    assert "hush-hush" not in model.asked[-1]
    [notice] = [e["message"] for e in events(client, "one", "notice") if ":approve" in e["message"]]
    command = re.search(r":approve \w+", notice)
    assert command is not None
    await client.command_result("aish.chat.send", {"prompt": command[0]})
    await until(client, folder / ".aish" / "chat.md", lambda text: "may be sent" in text)
    await ask(client, "what is in @.env?", "two")
    assert HUSH in model.asked[-1]
    assert len(asked(client)) == 1


async def test_a_selection_of_such_a_file_asks_and_is_nothing_without_it(
    client: Client, model: Model, folder: Path
) -> None:
    uri = (folder / ".env").as_uri()
    document = await Document(client, uri, "dotenv").open(HUSH)
    actions = await document.actions(span(0, 0, 1, 0))
    client.answers["window/showMessageRequest"] = no
    with pytest.raises(RpcError) as caught:
        await ask(client, "why?", "t", uri=uri, range=span(0, 0, 1, 0))
    assert (caught.value.code, caught.value.data["kind"]) == (1006, "denied")
    assert model.asked == []
    client.answers["window/showMessageRequest"] = yes
    await document.take(actions["Explain"])
    await model.until_asked()
    assert HUSH.strip() in model.asked[-1]


async def test_nothing_reads_one_unasked(client: Client, model: Model, folder: Path) -> None:
    (folder / "AGENTS.md").symlink_to(".env")
    (folder / "Makefile").symlink_to("deploy/id_rsa")
    await ask(client, "hello", "t")
    assert "hush-hush" not in model.systems[-1] + model.asked[-1]
    assert asked(client) == []


async def test_other_files_do_not_ask(client: Client, model: Model, folder: Path) -> None:
    names = (".env.example", "secrets.py", "id_rsa.pub", "environment.ts")
    for name in names:
        (folder / name).write_text(f"in {name}\n")
    await ask(client, " ".join(f"@{name}" for name in names), "t")
    for name in names:
        assert f"in {name}\n" in model.asked[-1]
    assert asked(client) == []
