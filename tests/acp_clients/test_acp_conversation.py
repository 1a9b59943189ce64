"""A conversation over the Agent Client Protocol: ask, run, ask about the output, cancel, resume."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from acp import RequestError, embedded_text_resource, image_block, resource_block
from acp.helpers import resource_link_block
from acp_client import Caller, Connected, Model, connected, in_session
from conversing import Place
from fault_server import FaultServer, Peer, Request

from aish_lsp.__main__ import main


async def test_initialize_names_what_the_agent_can_do(place: Place) -> None:
    async with connected(place.folder) as client:
        for version in (1, 0, 2):
            answer = await client.acp.initialize(protocol_version=version)
            assert answer.protocol_version == 1
        capabilities = answer.agent_capabilities
        assert capabilities.load_session
        assert capabilities.prompt_capabilities.embedded_context
        assert not capabilities.prompt_capabilities.image
        sessions = capabilities.session_capabilities
        assert None not in (sessions.list, sessions.resume, sessions.close, sessions.delete)
        assert answer.auth_methods == []


async def test_setup_is_offered_to_a_client_with_a_terminal(place: Place) -> None:
    async with connected(place.folder) as client:
        able = {"auth": {"terminal": True}}
        answer = await client.acp.initialize(protocol_version=1, client_capabilities=able)
        [method] = answer.auth_methods
        assert (method.type, method.args) == ("terminal", ["setup"])
        await client.acp.authenticate(method_id="setup")
        with pytest.raises(RequestError, match="no such method"):
            await client.acp.authenticate(method_id="other")


async def test_a_new_session_is_told_its_commands_usage_and_options(place: Place) -> None:
    async with connected(place.folder) as client:
        opened = await client.open()
        await client.seen.until(lambda: client.seen.of_kind("usage_update"))
        [commands] = client.seen.of_kind("available_commands_update")
    assert [mode.id for mode in opened.modes.available_modes] == ["ask", "act"]
    assert [(one.id, one.current_value) for one in opened.config_options] == [
        ("mode", "ask"),
        ("model", "offline"),
    ]
    names = [one["name"] for one in commands["availableCommands"]]
    assert {"help", "run", "undo", "memory", "norris", "model", "context"} <= {*names}


async def test_a_reply_streams_and_its_usage_and_title_are_shown(place: Place) -> None:
    model = Model("It has three parts.")
    async with in_session(place, model, context_window=8192) as client:
        assert await client.prompt("How is it ", "built?") == "end_turn"
        seen = client.seen
        assert seen.text() == "It has three parts. "
        [title] = seen.of_kind("session_info_update")
        assert title["title"] == "How is it built?"
        usage = seen.of_kind("usage_update")[-1]
        assert 0 < usage["used"] < usage["size"]
    assert model.last == "How is it built?"


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("length", "max_tokens"), ("content_filter", "refusal"), ("stop", "end_turn")],
)
async def test_the_reason_why_a_reply_ended_becomes_the_stop_reason(
    place: Place, finish: str, stop: str
) -> None:
    model = Model("Well,", finish=finish)
    async with in_session(place, model) as client:
        assert await client.prompt("Go on.") == stop


async def test_a_reply_that_repeats_itself_ends_the_prompt_as_max_tokens(place: Place) -> None:
    model = Model("You can run the tests in the tests folder, and then " * 200)
    async with in_session(place, model) as client:
        assert await client.prompt("Go on.") == "max_tokens"


async def test_the_limit_of_rounds_ends_the_prompt_as_max_turn_requests(place: Place) -> None:
    (place.folder / "notes.txt").write_text("bread\n")
    model = Caller("read_file", path="notes.txt")
    model.is_endless = True
    async with FaultServer(model) as server, connected(place.folder) as client:
        place.configure(server.url, context_window=16_384)
        with place.config.open("a") as config:
            config.write("[tools]\nmax_rounds = 2\n")
        await client.open()
        assert await client.prompt("What is in my notes?") == "max_turn_requests"


async def test_in_ask_a_suggestion_is_listed_and_run_by_its_number(place: Place) -> None:
    model = Model("Try this.\nCMD: echo seen; true", "Fine.")
    async with in_session(place, model) as client:
        assert await client.prompt("Say something.") == "end_turn"
        assert "- `/run 1` (" in client.seen.text()
        assert client.seen.calls() == {}
        assert await client.prompt("/run 1") == "end_turn"
        [call] = client.seen.calls().values()
        assert (call["kind"], call["status"]) == ("execute", "completed")
        assert call["title"] == "echo seen; true"
        assert "seen" in call["content"][0]["content"]["text"]
        assert call["rawOutput"]["exitCode"] == 0
        await client.prompt("And now?")
    assert client.seen.asked == []
    assert "seen\n" in model.last


async def test_in_act_an_allowed_suggestion_runs_within_the_prompt(place: Place) -> None:
    model = Model("Make it.\nCMD: touch made", "Fine.")
    async with in_session(place, model, "act") as client:
        client.seen.answer = "Run"
        assert await client.prompt("Make a file.") == "end_turn"
        assert (place.folder / "made").is_file()
        [asked] = client.seen.asked
        first, *remembered, last = asked["options"]
        assert (first, last) == (("Run", "allow_once"), ("Cancel", "reject_once"))
        assert {kind for _, kind in remembered} == {"allow_always"}
        assert asked["call"]["rawInput"]["risk"] == "caution"
        assert asked["call"]["rawInput"]["reasons"] == ["may change files: touch"]
        [call] = client.seen.calls().values()
        assert (call["toolCallId"], call["status"]) == (asked["call"]["toolCallId"], "completed")


@pytest.mark.parametrize("command", ["touch made", "ls"])
async def test_a_refused_suggestion_does_not_run_and_the_model_is_told(
    place: Place, command: str
) -> None:
    model = Model(f"Do it.\nCMD: {command}", "Fine.")
    async with in_session(place, model, "act") as client:
        client.seen.answer = "Cancel"
        assert await client.prompt("Make a file.") == "end_turn"
        assert len(client.seen.asked) == 1
        [call] = client.seen.calls().values()
        assert call["status"] == "failed"
        await client.prompt("And now?")
    assert not (place.folder / "made").exists()
    assert "[aish: not run: the user refused it]" in model.last


async def test_in_ask_the_model_has_the_tools_that_read_alone(place: Place) -> None:
    (place.folder / "notes.txt").write_text("bread\n")
    model = Caller("read_file", path="notes.txt")
    async with in_session(place, model, context_window=16_384) as client:
        assert await client.prompt("What is in my notes?") == "end_turn"
        [call] = client.seen.calls().values()
    assert "read_file" in model.offered
    assert {"write_file", "edit_file", "run_command"}.isdisjoint(model.offered)
    assert (call["kind"], call["status"]) == ("read", "completed")
    assert call["rawInput"] == {"path": "notes.txt"}
    assert "bread" in call["content"][0]["content"]["text"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "made", "text": "x"}),
        ("edit_file", {"path": "notes.txt", "old": "bread", "new": "milk"}),
        ("run_command", {"command": "touch made"}),
    ],
)
async def test_in_ask_a_call_of_a_tool_that_is_not_offered_changes_nothing(
    place: Place, tool: str, arguments: dict[str, str]
) -> None:
    (place.folder / "notes.txt").write_text("bread\n")
    model = Caller(tool, **arguments)
    async with in_session(place, model, "act", context_window=16_384) as client:
        await client.acp.set_session_mode(session_id=client.session, mode_id="ask")
        assert await client.prompt("Do it.") == "end_turn"
        assert client.seen.asked == []
        assert {one["status"] for one in client.seen.calls().values()} <= {"failed"}
    assert (place.folder / "notes.txt").read_text() == "bread\n"
    assert not (place.folder / "made").exists()


async def test_a_change_to_ask_during_a_reply_holds_for_its_tools(place: Place) -> None:
    model = Caller("run_command", command="touch made")
    held, begun = asyncio.Event(), asyncio.Event()

    async def hold(request: Request, peer: Peer) -> None:
        if request.path.endswith("/chat/completions"):
            begun.set()
            await held.wait()
        await model(request, peer)

    async with in_session(place, hold, "act", context_window=16_384) as client:
        client.seen.answer = "Run"
        asking = asyncio.create_task(client.prompt("Do it."))
        await begun.wait()
        await client.acp.set_session_mode(session_id=client.session, mode_id="ask")
        held.set()
        await asking
        assert client.seen.asked == []
    assert not (place.folder / "made").exists()


@pytest.mark.parametrize("answer", [True, False])
async def test_in_act_an_edit_is_asked_about_with_its_diff(place: Place, *, answer: bool) -> None:
    file = place.folder / "notes.txt"
    file.write_text("bread\n")
    model = Caller("edit_file", path="notes.txt", old="bread", new="milk")
    async with in_session(place, model, "act", context_window=16_384) as client:

        async def choose() -> str:
            names = [name for name, _ in client.seen.asked[-1]["options"]]
            return str(names[0] if answer else names[-1])

        client.seen.answer = choose
        assert await client.prompt("Change it.") == "end_turn"
        [asked] = client.seen.asked
        [call] = client.seen.calls().values()
    diff = asked["call"]["content"][0]
    assert asked["call"]["locations"] == [{"path": str(file)}]
    assert (diff["type"], diff["path"]) == ("diff", str(file))
    assert (diff["oldText"], diff["newText"]) == ("bread\n", "milk\n")
    assert asked["call"]["toolCallId"] == call["toolCallId"] == "c1"
    assert asked["options"] == [
        ("Change it", "allow_once"),
        ("All edits in this session", "allow_always"),
        ("Cancel", "reject_once"),
    ]
    assert call["status"] == ("completed" if answer else "failed")
    assert file.read_text() == ("milk\n" if answer else "bread\n")


async def test_in_act_a_new_file_is_asked_about_with_its_text_and_then_written(
    place: Place,
) -> None:
    file = place.folder / "made.txt"
    model = Caller("write_file", path="made.txt", content="bread\n")
    able = {"fs": {"readTextFile": True, "writeTextFile": True}}
    async with in_session(place, model, "act", able, context_window=16_384) as client:
        client.seen.answer = client.seen.first
        assert await client.prompt("Write it.") == "end_turn"
        [asked] = client.seen.asked
    diff = asked["call"]["content"][0]
    assert (diff["type"], diff["path"], diff["newText"]) == ("diff", str(file), "bread\n")
    assert "oldText" not in diff
    assert file.read_text() == "bread\n"


async def test_a_cancel_in_mid_reply_is_answered_cancelled(place: Place) -> None:
    model = Model("One two three", "Fine.")
    model.hold = asyncio.Event()
    async with in_session(place, model) as client:
        asking = asyncio.create_task(client.prompt("Count."))
        await client.seen.until(lambda: "One" in client.seen.text())
        await client.acp.cancel(session_id=client.session)
        assert await asking == "cancelled"
        model.hold = None
        assert await client.prompt("Go on.") == "end_turn"
    assert any("One" in message["content"] for message in model.sent[-1][:-1])


async def test_a_prompt_right_after_a_cancel_is_answered_once_that_is_done(place: Place) -> None:
    model = Model("One two three", "Fine.")
    model.hold = asyncio.Event()
    async with in_session(place, model) as client:
        asking = asyncio.create_task(client.prompt("Count."))
        await client.seen.until(lambda: "One" in client.seen.text())
        model.hold = None
        await client.acp.cancel(session_id=client.session)
        assert await client.prompt("Go on.") == "end_turn"
        assert asking.done()
        assert await asking == "cancelled"


async def test_a_prompt_that_waits_for_a_cancelled_one_can_be_cancelled(place: Place) -> None:
    model = Model("One two three", "Four five six")
    model.hold = asyncio.Event()
    async with in_session(place, model) as client:
        first = asyncio.create_task(client.prompt("Count."))
        await client.seen.until(lambda: "One" in client.seen.text())
        await client.acp.cancel(session_id=client.session)
        second = asyncio.create_task(client.prompt("Go on."))
        # It is sent before the next message.
        await asyncio.sleep(0)
        await client.acp.cancel(session_id=client.session)
        assert [await first, await second] == ["cancelled", "cancelled"]


async def test_a_cancel_while_a_permission_is_open_ends_the_prompt(place: Place) -> None:
    model = Model("Make it.\nCMD: touch made")
    async with in_session(place, model, "act") as client:
        never = asyncio.Event()
        client.seen.answer = never.wait
        asking = asyncio.create_task(client.prompt("Make a file."))
        await client.seen.asking.wait()
        await client.acp.cancel(session_id=client.session)
        assert await asking == "cancelled"
        await client.seen.until(
            lambda: [one["status"] for one in client.seen.calls().values()] == ["failed"]
        )
        never.set()
    assert not (place.folder / "made").exists()


async def test_a_session_is_listed_loaded_with_its_history_and_deleted(place: Place) -> None:
    model = Model("Hello there.", "Again.")
    async with FaultServer(model) as server:
        place.configure(server.url)
        async with connected(place.folder) as client:
            await client.open()
            await client.prompt("Good morning.")
            session = client.session
        async with connected(place.folder) as client:
            [listed] = (await client.acp.list_sessions(cwd=client.folder)).sessions
            assert (listed.session_id, listed.title) == (session, "Good morning.")
            assert listed.cwd == client.folder
            loaded = await client.acp.load_session(cwd=client.folder, session_id=session)
            assert loaded.modes.current_mode_id == "ask"
            assert client.seen.text("user_message_chunk") == "Good morning."
            assert client.seen.text() == "Hello there. "
            client.session = session
            await client.prompt("Do you remember?")
            await client.acp.close_session(session_id=session)
            with pytest.raises(RequestError, match="not open here"):
                await client.prompt("Still there?")
            await client.acp.resume_session(cwd=client.folder, session_id=session)
            assert await client.prompt("And now?") == "end_turn"
            await _delete(client, session)
            assert (await client.acp.list_sessions(cwd=client.folder)).sessions == []
    assert "Good morning." in json.dumps(model.sent[1])


@pytest.mark.parametrize("way", ["load", "resume"])
async def test_a_damaged_session_that_is_opened_says_so_once(place: Place, way: str) -> None:
    async with connected(place.folder) as client:
        await client.open()
        await client.prompt("how do I list files?")
        session = client.session
    [log] = place.data.rglob(f"{session}.jsonl")
    log.write_text(log.read_text().replace("\n", "\n{broken\n", 1))
    async with connected(place.folder) as client:
        opening = client.acp.load_session if way == "load" else client.acp.resume_session
        await opening(cwd=client.folder, session_id=session)
        client.session = session
        await client.prompt("/help")
        said = client.seen.text()
    assert said.count("It is skipped.") == 1
    assert f"{session}.jsonl" in said


async def _delete(client: Connected, session: str) -> None:
    # The SDK's client has no method for it either.
    await client.acp._conn.send_request("session/delete", {"sessionId": session})


async def test_two_sessions_of_a_folder_answer_at_the_same_time(place: Place) -> None:
    model = Model("One two")
    model.hold = asyncio.Event()
    async with in_session(place, model) as client:
        first = asyncio.create_task(client.prompt("First?"))
        await client.seen.until(lambda: "One" in client.seen.text())
        await client.open()
        second = asyncio.create_task(client.prompt("Second?"))
        await client.seen.until(lambda: len(client.seen.of_kind("agent_message_chunk")) == 2)
        model.hold.set()
        assert {*await asyncio.gather(first, second)} == {"end_turn"}
        said = {one["sessionId"] for one in client.seen.of_kind("agent_message_chunk")}
    assert len(said) == 2


async def test_what_a_client_sends_along_reaches_the_model(place: Place) -> None:
    (place.folder / "a file.py").write_text("answer = 42\n")
    model = Model("I see.")
    uri = (place.folder / "a file.py").as_uri()
    unsaved = embedded_text_resource("file:///elsewhere/b.py", "unsaved = 1\n")
    async with in_session(place, model) as client:
        await client.prompt(
            "Explain ",
            resource_link_block("a file.py", uri),
            " and this.",
            resource_block(unsaved),
            image_block("aGk=", "image/png"),
        )
        assert "> An image was left out" in client.seen.text()
    assert 'Explain @"a file.py" and this.' in model.last
    assert "answer = 42" in model.last
    assert "unsaved = 1" in model.last


async def test_a_slash_is_a_command_and_a_path_is_a_question(place: Place) -> None:
    model = Model("It is a file.")
    async with in_session(place, model) as client:
        assert await client.prompt("/remember We deploy with make ship") == "end_turn"
        assert await client.prompt("/memory list") == "end_turn"
        assert "We deploy with make ship" in client.seen.text()
        with pytest.raises(RequestError, match="Did you mean `/memory`"):
            await client.prompt("/memry")
        await client.prompt("/etc/hosts is what?")
    assert model.last == "/etc/hosts is what?"


async def test_the_model_and_the_mode_are_options(place: Place) -> None:
    place.configure("http://127.0.0.1:9")
    async with connected(place.folder) as client:
        opened = await client.open()
        models = opened.config_options[1]
        assert models.current_value == "tested"
        assert {one.value for one in models.options} == {"tested", "offline"}
        chosen = await client.acp.set_config_option("model", client.session, "offline")
        assert chosen.config_options[1].current_value == "offline"
        chosen = await client.acp.set_config_option("mode", client.session, "act")
        assert chosen.config_options[0].current_value == "act"
        assert client.seen.of_kind("current_mode_update")[-1]["currentModeId"] == "act"
        await client.acp.set_session_mode(mode_id="ask", session_id=client.session)
        options = client.seen.of_kind("config_option_update")[-1]["configOptions"]
        assert options[0]["currentValue"] == "ask"


def test_without_the_sdk_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["acp"]) == 1
    assert "pip install 'aish-lsp[acp]'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_process_answers_and_ends_with_its_client(place: Place) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/new",
            "params": {"cwd": str(place.folder), "mcpServers": []},
        },
    ]
    answers: dict[object, Any] = {}
    with subprocess.Popen(
        [sys.executable, "-m", "aish_lsp", "acp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.root,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in lines:
            process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        while 2 not in answers:
            answer = json.loads(process.stdout.readline())
            answers[answer.get("id")] = answer
        _, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert answers[1]["result"]["agentInfo"]["name"] == "aish-lsp"
    assert answers[2]["result"]["sessionId"]


def test_a_client_that_adds_setup_to_the_arguments_gets_the_setup(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["acp", "setup"]) == 1
    assert "Looking for model servers" in capsys.readouterr().err
