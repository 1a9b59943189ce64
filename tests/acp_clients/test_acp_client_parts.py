"""What a client of the Agent Client Protocol brings along: unsaved texts, tool servers, models."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, schema
from acp_client import Caller, Connected, Model, Recorder, connected, in_session
from conversing import Place
from fault_server import FaultServer

SERVER = Path(__file__).resolve().parents[1] / "kit" / "tool_server.py"
STREAMS = {"_meta": {"terminal_output": True}}
FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


async def test_an_unsaved_text_is_what_a_question_sends(place: Place) -> None:
    file = place.folder / "a.py"
    file.write_text("saved = 1\n")
    (place.folder / "b.py").write_text("other = 1\n")
    model = Model("I see.")
    async with in_session(place, model, able=FILES) as client:
        client.seen.texts[str(file)] = "unsaved = 2\r\n"
        await client.prompt("What is in @a.py and @b.py?")
    assert "unsaved = 2" in model.last
    assert "saved = 1" not in model.last
    assert "other = 1" in model.last


async def test_an_edit_of_an_unsaved_text_is_made_by_the_client(place: Place) -> None:
    file = place.folder / "a.py"
    file.write_text("saved = 1\n")
    model = Caller("edit_file", path="a.py", old="unsaved", new="changed")
    async with in_session(place, model, "act", context_window=16_384, able=FILES) as client:
        client.seen.texts[str(file)] = "unsaved = 2\r\n"
        client.seen.answer = client.seen.first
        await client.prompt("Change it.")
        [call] = client.seen.calls().values()
    assert call["status"] == "completed"
    assert client.seen.texts[str(file)] == "changed = 2\r\n"
    assert file.read_text() == "saved = 1\n"


def server_named(name: str, *arguments: str) -> Any:
    """Return a tool server as a client names it."""
    return schema.McpServerStdio(
        name=name, command=sys.executable, args=[str(SERVER), *arguments], env=[]
    )


async def test_a_client_s_tool_servers_are_asked_about_at_the_first_prompt(place: Place) -> None:
    model = Model("I see.")
    async with FaultServer(model) as server, connected(place.folder) as client:
        place.configure(server.url, context_window=16_384)
        named = [server_named("wanted", "none"), server_named("refused", "none")]
        opened = await client.acp.new_session(cwd=client.folder, mcp_servers=named)
        client.session = opened.session_id

        async def answer() -> str:
            asked = client.seen.asked[-1]
            names = [name for name, _ in asked["options"]]
            text = asked["call"]["content"][0]["content"]["text"]
            return str(names[0] if "wanted" in text else names[-1])

        client.seen.answer = answer
        assert client.seen.asked == []
        await client.prompt("Hello.")
        assert len(client.seen.asked) == 2
        assert "refused was not started: you did not agree" in client.seen.text()
        await client.prompt("Hello again.")
        assert len(client.seen.asked) == 2
        await client.prompt("/tools")
        assert "**wanted**: about" in client.seen.text()
        assert "**refused**: off" in client.seen.text()
        assert {one["status"] for one in client.seen.calls().values()} == {"completed", "failed"}


async def test_a_model_chosen_by_a_slash_is_shown_as_the_option(place: Place) -> None:
    place.configure("http://127.0.0.1:9")
    async with connected(place.folder) as client:
        await client.open()
        await client.prompt("/model offline")
        update = client.seen.of_kind("config_option_update")[-1]
    assert update["configOptions"][1]["currentValue"] == "offline"


@pytest.mark.parametrize("able", [None, STREAMS], ids=["plain", "streams"])
@pytest.mark.parametrize(
    ("byte", "size"),
    [("x", 10_000_000), ("\\n", 100_000_000), ("\\033", 1_000_000)],
    ids=["text", "lines", "escapes"],
)
@pytest.mark.slow
async def test_a_great_output_is_sent_once_and_cut(
    place: Place, able: Any, byte: str, size: int
) -> None:
    async with connected(place.folder, client_capabilities=able) as client:
        await client.open()
        fill = f"head -c {size} /dev/zero | tr '\\0' '{byte}'"
        await client.prompt(f"/run {fill}; echo; echo tw1\\ce")
        [call] = client.seen.calls().values()
        sent = [one for one in client.seen.updates if one.get("toolCallId") == call["toolCallId"]]
    assert call["status"] == "completed"
    wire = "".join(json.dumps(one, ensure_ascii=False) for one in sent)
    assert len(wire.encode()) <= 1.1 * (64 << 10)
    assert wire.count("tw1ce") == 1
    if byte == "x":
        assert len(wire) > 48 << 10
        assert "bytes left out here" in wire


async def test_what_a_command_prints_is_sent_while_it_runs_each_piece_once(place: Place) -> None:
    async with connected(place.folder, client_capabilities=STREAMS) as client:
        await client.open()
        running = asyncio.create_task(
            client.prompt("/run echo one; until [ -e go ]; do sleep 0.05; done; echo two")
        )
        await client.seen.until(lambda: "one" in printed(client))
        [call] = client.seen.calls().values()
        assert call["status"] == "in_progress"
        assert call["content"] == [{"type": "terminal", "terminalId": call["toolCallId"]}]
        (place.folder / "go").touch()
        assert await running == "end_turn"
        assert printed(client) == "one\ntwo\n"
        [call] = client.seen.calls().values()
    ended = {"terminal_id": call["toolCallId"], "exit_code": 0, "signal": None}
    assert (call["status"], call["_meta"]) == ("completed", {"terminal_exit": ended})


async def test_a_tool_call_streams_what_its_command_prints(place: Place) -> None:
    model = Caller("run_command", command="echo one; touch made")
    async with in_session(place, model, "act", STREAMS, context_window=16_384) as client:
        client.seen.answer = client.seen.first
        assert await client.prompt("Run it.") == "end_turn"
        assert printed(client) == "one\n"
        [call] = client.seen.calls().values()
    assert call["content"] == [{"type": "terminal", "terminalId": "c1"}]


def printed(client: Connected) -> str:
    """Return the pieces of output that a client was sent."""
    metas = [one.get("_meta", {}) for one in client.seen.updates]
    return "".join(one["terminal_output"]["data"] for one in metas if "terminal_output" in one)


@pytest.fixture
def prefers_terminals(place: Place) -> None:
    """Have the configuration say that commands run in the client's terminals."""
    place.config.write_text("[shell]\nclient_terminal = true\n")


@pytest.mark.usefixtures("prefers_terminals")
async def test_a_command_runs_in_the_client_s_terminal_if_the_user_prefers_it(
    place: Place,
) -> None:
    async with connected(place.folder, client_capabilities={"terminal": True}) as client:
        await client.open()
        assert await client.prompt("/run touch made; echo seen; exit 3") == "end_turn"
        [call] = client.seen.calls().values()
        assert call["content"] == [{"type": "terminal", "terminalId": "0"}]
        assert (call["status"], call["rawOutput"]["exitCode"]) == ("failed", 3)
        assert client.seen.released == ["0"]
        await client.prompt("/prompt And now?")
        assert "seen\n" in client.seen.text()
    assert (place.folder / "made").exists()


@pytest.mark.usefixtures("prefers_terminals")
@pytest.mark.parametrize("able", [None, {"terminal": False}])
async def test_a_command_runs_in_our_runner_for_a_client_without_terminals(
    place: Place, able: Any
) -> None:
    async with connected(place.folder, client_capabilities=able) as client:
        await client.open()
        await client.prompt("/run touch made; echo seen")
        [call] = client.seen.calls().values()
    assert client.seen.terminals == []
    assert "seen" in call["content"][0]["content"]["text"]


@pytest.mark.usefixtures("prefers_terminals")
async def test_a_client_that_refuses_a_terminal_leaves_the_command_to_our_runner(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create_terminal(*_: Any, **__: Any) -> None:
        raise RequestError.internal_error()

    monkeypatch.setattr(Recorder, "create_terminal", create_terminal)
    async with connected(place.folder, client_capabilities={"terminal": True}) as client:
        await client.open()
        await client.prompt("/run touch made; echo seen")
        [call] = client.seen.calls().values()
    assert "seen" in call["content"][0]["content"]["text"]


@pytest.mark.usefixtures("prefers_terminals")
async def test_a_cancel_kills_the_command_in_the_client_s_terminal_and_keeps_its_output(
    place: Place,
) -> None:
    async with connected(place.folder, client_capabilities={"terminal": True}) as client:
        await client.open()
        asking = asyncio.create_task(client.prompt("/run echo seen; touch made; exec sleep 600"))
        shown = [{"type": "terminal", "terminalId": "0"}]
        await client.seen.until(
            lambda: any(one.get("content") == shown for one in client.seen.updates)
        )
        while not (place.folder / "made").exists():
            await asyncio.sleep(0.01)
        await client.acp.cancel(session_id=client.session)
        assert await asking == "cancelled"
        await client.seen.terminals[0].wait()
        assert client.seen.released == ["0"]
        await client.prompt("/prompt And now?")
        assert "seen\n" in client.seen.text()


async def test_a_goal_is_pursued_in_act_with_its_steps_as_the_plan(place: Place) -> None:
    model = Model("I make it.\nCMD: touch made", "It is there.\nGOAL: complete")
    async with in_session(place, model, context_window=16_384) as client:
        with pytest.raises(RequestError, match="in the mode `act`"):
            await client.prompt("/norris make the file")
        await client.acp.set_session_mode(session_id=client.session, mode_id="act")
        client.seen.answer = client.seen.first
        assert await client.prompt("/norris make the file") == "end_turn"
        plans = client.seen.of_kind("plan")
        calls = client.seen.calls().values()
    assert (place.folder / "made").is_file()
    assert {entry["status"] for entry in plans[-1]["entries"]} == {"completed"}
    assert "in_progress" in {entry["status"] for plan in plans for entry in plan["entries"]}
    assert "touch made" in {call["title"] for call in calls}
    assert {call["status"] for call in calls} == {"completed"}


@pytest.mark.parametrize("line", ["/resume", "/session new", "/session resume x"])
async def test_a_command_that_shows_another_session_is_refused(place: Place, line: str) -> None:
    async with connected(place.folder) as client:
        await client.open()
        with pytest.raises(RequestError, match="Your client shows only this session"):
            await client.prompt(line)
        await client.seen.until(lambda: client.seen.of_kind("available_commands_update"))
        [commands] = client.seen.of_kind("available_commands_update")
        names = {one["name"] for one in commands["availableCommands"]}
        assert "resume" not in names
        assert "sessions" in names


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_an_editor_and_an_agent_client_add_to_one_memory_at_once(place: Place) -> None:
    each = 250
    async with place.client() as editor, connected(place.folder) as client:
        await editor.initialize(place.folder)
        await client.open()

        async def add_in_editor() -> None:
            for number in range(each):
                item = {"kind": "fact", "content": f"bread {number} is kept"}
                await editor.command_result("aish.memory.add", item)

        async def add_in_client() -> None:
            for number in range(each):
                await client.prompt(f"/remember milk {number} is kept")

        await asyncio.gather(add_in_editor(), add_in_client())
        listed = (await editor.command_result("aish.memory.list"))["items"]
        before = len(client.seen.text())
        await client.prompt("/memory list")
        rows = re.findall(r"^- (\d+) .* (\w+ \d+) is", client.seen.text()[before:], re.MULTILINE)
    kept = {f"{word} {number}" for word in ("bread", "milk") for number in range(each)}
    assert {one["content"].removesuffix(" is kept") for one in listed} == kept
    assert len({one["id"] for one in listed}) == len(listed) == len(kept)
    assert {int(number): content for number, content in rows} == {
        one["id"]: one["content"].removesuffix(" is kept") for one in listed
    }


async def test_calls_of_the_same_id_are_told_apart_and_shown_again_when_loaded(
    place: Place,
) -> None:
    (place.folder / "notes.txt").write_text("bread\n")
    model = Caller("read_file", path="notes.txt")
    async with FaultServer(model) as server:
        place.configure(server.url, context_window=16_384)
        async with connected(place.folder) as client:
            await client.open()
            await client.prompt("What is in my notes?")
            await client.prompt("And now?")
            calls, session = client.seen.calls(), client.session
        async with connected(place.folder) as client:
            await client.acp.load_session(cwd=client.folder, session_id=session)
            again = client.seen.calls()
    assert [*calls] == [*again] == ["c1", "c1-2"]
    for shown in (*calls.values(), *again.values()):
        assert (shown["kind"], shown["status"]) == ("read", "completed")
        assert "bread" in shown["content"][0]["content"]["text"]
