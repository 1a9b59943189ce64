"""What a client of the Agent Client Protocol sends wrongly: a clear error, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, schema
from acp.helpers import resource_link_block
from acp_client import Caller, Model, Recorder, Wire, connected, in_session, streams
from conversing import Place
from fault_server import FaultServer

from aish_lsp.acp.transport import LineTransport


@pytest.fixture
async def wire(place: Place) -> AsyncIterator[Wire]:
    """Return the lines of a connection."""
    async with streams() as (reader, writer):
        yield Wire(reader, writer)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{not json", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"jsonrpc": "2.0"}', -32600),
        (b'{"jsonrpc": "2.0", "id": [], "result": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "error": "no"}', -32600),
    ],
    ids=range(9),
)
async def test_a_line_that_is_no_message_is_answered_and_the_next_one_is_read(
    wire: Wire, line: bytes, code: int
) -> None:
    await wire.send(line)
    answer = await wire.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, code)
    assert (await wire.ask("initialize", protocolVersion=1))["result"]["protocolVersion"] == 1


async def test_wrong_parameters_are_named(wire: Wire, place: Place) -> None:
    answer = await wire.ask("session/new", cwd=7)
    assert answer["error"]["code"] == -32602
    assert "cwd: Input should be a valid string" in answer["error"]["message"]
    answer = await wire.ask("session/paint")
    assert answer["error"]["code"] == -32601


async def test_a_cwd_that_is_no_folder_is_refused(wire: Wire, place: Place) -> None:
    file = place.root / "file"
    file.write_text("")
    for cwd in (str(file), str(place.root / "gone"), "workspace", "", "a\0b"):
        answer = await wire.ask("session/new", cwd=cwd, mcpServers=[])
        assert (answer["error"]["code"], answer["error"]["data"]["path"]) == (-32602, "cwd")


async def test_an_unknown_session_is_refused_by_every_request(wire: Wire, place: Place) -> None:
    known = {"cwd": str(place.folder), "mcpServers": []}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("session/prompt", {"prompt": []}),
        ("session/load", known),
        ("session/resume", known),
        ("session/close", {}),
        ("session/delete", {}),
        ("session/set_mode", {"modeId": "act"}),
        ("session/set_config_option", {"configId": "mode", "value": "act"}),
    ]
    for method, params in requests:
        answer = await wire.ask(method, sessionId="nobody", **params)
        assert answer["error"]["code"] == -32002, (method, answer)
        assert "nobody" in answer["error"]["message"]


async def test_an_unknown_option_value_or_mode_is_refused(place: Place) -> None:
    async with connected(place.folder) as client:
        await client.open()
        for option, value, said in (
            ("colour", "red", "no option"),
            ("mode", "dream", "no mode"),
            ("model", "nobody", "nobody"),
        ):
            with pytest.raises(RequestError, match=said):
                await client.acp.set_config_option(option, client.session, value)
        with pytest.raises(RequestError, match="no mode"):
            await client.acp.set_session_mode(mode_id="dream", session_id=client.session)


async def test_a_prompt_during_a_prompt_is_refused_and_the_first_goes_on(place: Place) -> None:
    model = Model("One two")
    model.hold = asyncio.Event()
    async with in_session(place, model) as client:
        first = asyncio.create_task(client.prompt("First?"))
        await client.seen.until(lambda: "One" in client.seen.text())
        with pytest.raises(RequestError, match="A prompt is being answered"):
            await client.prompt("Second?")
        with pytest.raises(RequestError, match="A prompt is being answered"):
            await client.acp.load_session(cwd=client.folder, session_id=client.session)
        model.hold.set()
        assert await first == "end_turn"
        assert "One two" in client.seen.text()


async def test_a_cancel_of_nothing_changes_nothing(wire: Wire, place: Place) -> None:
    session = await wire.open(place.folder)
    for name in (session, "nobody"):
        params = {"sessionId": name}
        await wire.send({"jsonrpc": "2.0", "method": "session/cancel", "params": params})
    unknown: list[Any] = [99, "x", None, [], {}]
    for request in unknown:
        params = {"requestId": request}
        await wire.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})
    await wire.send({"jsonrpc": "2.0", "method": "$/cancel_request"})
    answer = await wire.answer_to(await wire.prompt(session, "/help"))
    assert answer["result"]["stopReason"] == "end_turn"


async def test_a_cancelled_request_of_a_prompt_is_answered_cancelled(
    wire: Wire, place: Place
) -> None:
    model = Model("One two")
    model.hold = asyncio.Event()
    async with FaultServer(model) as server:
        place.configure(server.url)
        request = await wire.prompt(await wire.open(place.folder), "Count.")
        while "One" not in str(await wire.receive()):
            pass
        params = {"requestId": request}
        await wire.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})
        assert (await wire.answer_to(request))["result"]["stopReason"] == "cancelled"


async def test_a_prompt_of_ten_megabytes_is_refused_in_words(place: Place) -> None:
    async with in_session(place, Model("Fine."), context_window=4096) as client:
        with pytest.raises(RequestError, match="tokens"):
            await client.prompt("word " * 2_000_000)
        assert await client.prompt("Still there?") == "end_turn"


async def test_an_empty_prompt_is_refused(place: Place) -> None:
    async with connected(place.folder) as client:
        await client.open()
        with pytest.raises(RequestError, match="The question is empty"):
            await client.prompt()


async def test_a_client_that_goes_in_mid_reply_leaves_what_arrived_in_the_log(
    place: Place,
) -> None:
    model = Model("One two", "Fine.")
    model.hold = asyncio.Event()
    async with FaultServer(model) as server:
        place.configure(server.url)
        async with streams() as (reader, writer):
            wire = Wire(reader, writer)
            session = await wire.open(place.folder)
            await wire.prompt(session, "Count.")
            while "One" not in str(await wire.receive()):
                pass
            writer.transport.abort()
        model.hold = None
        async with connected(place.folder) as client:
            await client.acp.load_session(cwd=client.folder, session_id=session)
            assert client.seen.text("user_message_chunk") == "Count."
            assert client.seen.text() == "One "


async def test_a_session_that_another_agent_has_open_is_busy(place: Place, tmp_path: Path) -> None:
    async with connected(place.folder) as first, connected(place.folder) as second:
        await first.open()
        await first.prompt("how do I list files?")
        with pytest.raises(RequestError, match="is in use"):
            await second.acp.load_session(cwd=second.folder, session_id=first.session)


async def test_a_client_that_goes_while_a_permission_is_open_runs_nothing(place: Place) -> None:
    model = Model("Make it.\nCMD: touch made")
    async with FaultServer(model) as server:
        place.configure(server.url)
        async with streams() as (reader, writer):
            wire = Wire(reader, writer)
            session = await wire.open(place.folder)
            await wire.ask("session/set_mode", sessionId=session, modeId="act")
            await wire.prompt(session, "Make a file.")
            while (await wire.receive()).get("method") != "session/request_permission":
                pass
            writer.transport.abort()
        async with connected(place.folder) as client:
            await client.acp.load_session(cwd=client.folder, session_id=session)
            assert client.seen.text() == "Make it.\nCMD: touch made "
    assert not (place.folder / "made").exists()


async def test_a_folder_that_is_gone_is_named_and_the_connection_goes_on(place: Place) -> None:
    other = place.root / "other"
    other.mkdir()
    async with connected(other) as client:
        await client.open()
        other.rmdir()
        with pytest.raises(RequestError) as error:
            await client.prompt("/run echo one")
        assert error.value.code != -32603
        with pytest.raises(RequestError, match="absolute path of a folder"):
            await client.open()
        client.folder = str(place.folder)
        await client.open()
        assert await client.prompt("how do I list files?") == "end_turn"


@pytest.mark.parametrize("uri", ["/run touch made", ":run touch made", "/remember x"])
async def test_a_link_is_never_a_command(place: Place, uri: str) -> None:
    model = Model("I see.")
    async with in_session(place, model) as client:
        assert await client.prompt(resource_link_block("a link", uri)) == "end_turn"
    assert not (place.folder / "made").exists()
    assert model.last == f"<{uri}>"


async def test_a_link_to_a_line_with_an_endless_number_is_a_link_to_the_file(place: Place) -> None:
    model = Model("I see.")
    (place.folder / "a.py").write_text("answer = 42\n")
    uri = f"{(place.folder / 'a.py').as_uri()}#L{'9' * 5_000}"
    async with in_session(place, model) as client:
        assert await client.prompt("See ", resource_link_block("a.py", uri)) == "end_turn"
    assert "answer = 42" in model.last


async def test_a_link_to_a_file_whose_name_is_not_utf_8_sends_the_file(place: Place) -> None:
    model = Model("I see.")
    file = place.folder / os.fsdecode(b"caf\xe9.py")
    file.write_text("answer = 42\n")
    async with in_session(place, model) as client:
        block = resource_link_block("a file", file.as_uri())
        assert await client.prompt("See ", block) == "end_turn"
    assert "answer = 42" in model.last


async def test_a_session_that_a_command_deleted_is_gone_and_can_be_closed(place: Place) -> None:
    async with in_session(place, Model("Hello.")) as client:
        await client.prompt("Hi.")
        client.seen.answer = "Delete"
        assert await client.prompt(f"/session delete {client.session}") == "end_turn"
        with pytest.raises(RequestError, match="There is no session"):
            await client.acp.resume_session(cwd=client.folder, session_id=client.session)
        await client.acp.close_session(session_id=client.session)


async def test_a_session_of_another_folder_is_not_found(place: Place) -> None:
    other = place.root / "other"
    other.mkdir()
    async with connected(place.folder) as client:
        await client.open()
        await client.prompt("how do I list files?")
        with pytest.raises(RequestError, match="There is no session"):
            await client.acp.load_session(cwd=str(other), session_id=client.session)


async def test_a_cancel_ends_a_prompt_whose_tool_server_does_not_start(place: Place) -> None:
    silent = schema.McpServerStdio(name="silent", command="sleep", args=["600"], env=[])
    async with FaultServer(Model("Fine.")) as server, connected(place.folder) as client:
        place.configure(server.url)
        opened = await client.acp.new_session(cwd=client.folder, mcp_servers=[silent])
        client.session = opened.session_id
        client.seen.answer = client.seen.first
        asking = asyncio.create_task(client.prompt("Hello."))
        await client.seen.until(
            lambda: [one["status"] for one in client.seen.calls().values()] == ["completed"]
        )
        await client.acp.cancel(session_id=client.session)
        assert await asking == "cancelled"
        # It was not waited for until it had failed.
        assert client.seen.text() == ""
        assert await client.prompt("/memory list") == "end_turn"


@pytest.mark.parametrize("question", ["What is in @a.py?", "Read it."])
async def test_a_cancel_ends_a_prompt_that_waits_for_a_file_of_the_client(
    place: Place, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.folder / "a.py").write_text("answer = 42\n")
    never, reading = asyncio.Event(), asyncio.Event()

    async def read_text_file(*_: Any, **__: Any) -> None:
        reading.set()
        await never.wait()

    monkeypatch.setattr(Recorder, "read_text_file", read_text_file)
    can = {"fs": {"readTextFile": True}}
    async with in_session(
        place, Caller("read_file", path="a.py"), context_window=16_384, able=can
    ) as client:
        asking = asyncio.create_task(client.prompt(question))
        await reading.wait()
        await client.acp.cancel(session_id=client.session)
        assert await asking == "cancelled"
        never.set()


async def test_text_that_is_not_ascii_is_sent_as_it_is_and_line_ends_escaped(
    wire: Wire, place: Place
) -> None:
    await wire.prompt(await wire.open(place.folder), "/run printf '日\u2028'")
    while "execute" not in (line := await wire.line()):
        pass
    assert "日" in line
    assert "\u2028" not in line


async def test_a_client_that_dies_before_it_read_all_ends_the_stream() -> None:
    ours, theirs = socket.socketpair()
    source = ours.detach()
    transport = LineTransport(source, os.dup(source), lambda _: None)
    await transport.send({"jsonrpc": "2.0", "method": "unread"})
    theirs.close()
    async with asyncio.timeout(60):
        assert await transport.receive() is None
    await transport.close()
