"""``:`` lines and their completion for a client with a chat of its own, through the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from client import Client, RpcError
from conversing import Place, begin, yes

from aish_lsp.chat.colon import COLON_COMMANDS


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.make(tmp_path_factory.mktemp("place"))


@pytest.fixture
async def client(place: Place) -> AsyncIterator[Client]:
    (place.folder / "src").mkdir()
    (place.folder / "src" / "app.py").write_text("print(1)\n")
    async with place.client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(place.folder)
        yield client


async def line(client: Client, text: str, **fields: Any) -> Any:
    return await client.command_result("aish.chat.line", {"line": text, **fields})


async def refused(client: Client, text: str, **fields: Any) -> RpcError:
    with pytest.raises(RpcError) as error:
        await line(client, text, **fields)
    return error.value


async def test_a_line_is_answered_in_markdown(client: Client) -> None:
    found = await line(client, ":help")
    assert "`:run N|COMMAND`" in found["text"]
    assert (found["comes"], found["result"]) == (None, None)
    assert "remember" in (await line(client, ":remember The tests run by make."))["text"].lower()
    assert "The tests run by make." in (await line(client, ":memory list"))["text"]


async def test_a_command_streams_to_the_token(client: Client) -> None:
    found = await line(client, ":run echo hi", partialResultToken="r")
    assert (found["comes"], found["result"]["exitCode"]) == ("output", 0)
    told = [event for event in client.progress["r"] if event["kind"] == "output"]
    assert "".join(event["delta"] for event in told) == "hi\n"
    asked = {"prompt": "how do I list files?", "partialResultToken": "a"}
    first = await client.command_result("aish.ask", asked)
    again = await line(client, ":retry", partialResultToken="b")
    assert again["comes"] == "reply"
    assert again["result"]["text"] == first["text"]
    assert client.progress["b"][-1]["kind"] == "end"
    ran = await line(client, ":run 1", partialResultToken="c")
    assert ran["result"]["text"] == again["result"]["commands"][0]["text"]


async def test_a_cancel_stops_what_a_line_has_begun(client: Client) -> None:
    argument = {"line": ":run sleep 100", "partialResultToken": "s"}
    number, result = await begin(client, "aish.chat.line", argument)

    async def runs() -> None:
        while not client.progress.get("s"):
            await asyncio.sleep(0.01)

    await client.within(runs(), "the command to run")
    await client.notify("$/cancelRequest", {"id": number})
    found = await client.within(result, "the result")
    assert found["result"]["finishReason"] == "cancelled"


async def test_what_is_no_line_or_cannot_be_carried_out_is_refused(client: Client) -> None:
    assert (await refused(client, "how do I list files?")).data["kind"] == "invalidArgument"
    assert (await refused(client, ":a\nb")).data["kind"] == "invalidArgument"
    unknown = await refused(client, ":contxt")
    assert (unknown.data["kind"], ":context" in str(unknown)) == ("notFound", True)
    for text in (":run true", ":retry", ":norris do it", ":memory summarize"):
        assert (await refused(client, text)).data["path"] == "partialResultToken"
    assert (await line(client, ":history"))["result"] is None


async def test_a_line_may_show_another_session(client: Client) -> None:
    first = (await line(client, ":context"))["session"]
    second = (await line(client, ":session new"))["session"]
    assert second != first
    beside = (await client.command_result("aish.session.new", {"show": False}))["id"]
    assert (await line(client, ":context", session=beside))["session"] == second


@pytest.mark.parametrize("name", COLON_COMMANDS.rows)
async def test_each_line_has_an_answer_or_a_sentence(client: Client, name: str) -> None:
    argument = {"line": f":{name}", "partialResultToken": name}
    _, answer = await begin(client, "aish.chat.line", argument)
    [found] = await asyncio.gather(answer, return_exceptions=True)
    if isinstance(found, RpcError):
        assert len(str(found)) > 20
    else:
        assert found["text"] or found["comes"]


async def complete(client: Client, prefix: str) -> list[dict[str, Any]]:
    result = await client.command_result("aish.chat.complete", {"prefix": prefix})
    items: list[dict[str, Any]] = result["items"]
    return items


async def test_commands_and_files_complete(client: Client) -> None:
    [model] = await complete(client, ":mod")
    assert (model["insert"], model["start"], model["kind"]) == (":model ", 0, "command")
    assert "offline" in [item["label"] for item in await complete(client, ":model ")]
    assert await complete(client, "what is this") == []
    [folder, *_] = await complete(client, "see @sr")
    assert (folder["label"], folder["kind"], folder["start"]) == ("src/", "folder", 4)
    [file] = await complete(client, "\N{GRINNING FACE} @src/a")
    # A line of JavaScript's: the face counts as two.
    assert (file["insert"], file["start"]) == ("@src/app.py", 3)
