"""A model that calls the tools of ours, by a real llama.cpp through the real server process."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_model
from calling_proxy import Caller
from client import CAPABILITIES
from conversing import Place, ask, begin, chat_holds, events, yes
from fault_server import FaultServer
from llama_server import LlamaServer

pytestmark = pytest.mark.llama

WINDOW = 32768
CALC = b"def double(x):\r\n    return x + 1\r\n"
CHECK = b"import calc\nassert calc.double(4) == 8\nprint('all is well')\n"
#: Replies to one question; by hand with more.
ROUNDS = int(os.environ.get("TOOL_ROUNDS", "8"))
DONE: Any = ("Done.", ())
LOOK: Any = [("read_file", {"path": "calc.py"}), ("search", {"pattern": "double"})]
EDIT: Any = {"path": "calc.py", "old": "    return x + 1\n", "new": "    return 2 * x\n"}
#: The replies to one question: look at the program, change it, and see whether that is right.
REPAIR: Any = [
    ("Let me look.", LOOK),
    ("", [("edit_file", EDIT)]),
    ("", [("run_command", {"command": "python3 check.py"})]),
    DONE,
]


@pytest.fixture(scope="module")
def calling(parts: None) -> Iterator[LlamaServer]:
    """A server whose template knows of tools."""
    with LlamaServer(model=tiny_model.calling_model_path(), context=WINDOW) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A work tree with a program that is wrong, and what checks it."""
    place = Place.make(tmp_path)
    (place.folder / "calc.py").write_bytes(CALC)
    (place.folder / "calc.py").chmod(0o751)
    (place.folder / "check.py").write_bytes(CHECK)
    (place.folder / ".gitignore").write_text("__pycache__/\nbuild/\n")
    git(place, "init", "-q")
    return place


def git(place: Place, *arguments: str) -> None:
    """Run git in the workspace."""
    subprocess.run(["git", *arguments], cwd=place.folder, check=True, capture_output=True)


def statuses(told: list[Any]) -> list[tuple[str, str]]:
    """Return the calls that ended, and how."""
    return [(one["name"], one["status"]) for one in told if one["result"] is not None]


async def test_it_reads_edits_runs_and_each_exchange_is_one_undo(
    place: Place, calling: LlamaServer
) -> None:
    caller = Caller(
        calling,
        [
            *REPAIR,
            ("", [("write_file", {"path": "docs/new.md", "content": "# New\n"})]),
            DONE,
        ],
    )
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            first = await ask(client, "Repair calc.py.", "one")
            assert (first["finishReason"], first["text"]) == ("stop", "Let me look.\n\nDone.")
            assert statuses(events(client, "one", "tool")) == [
                *(("read_file", "done"), ("search", "done")),
                *(("edit_file", "done"), ("run_command", "done")),
            ]
            shown = "".join(one["delta"] for one in events(client, "one", "output"))
            assert shown == "all is well\n"
            calc = place.folder / "calc.py"
            assert calc.read_bytes() == b"def double(x):\r\n    return 2 * x\r\n"
            assert stat.S_IMODE(calc.stat().st_mode) == 0o751
            second = await ask(client, "Write about it.", "two")
            new = place.folder / "docs" / "new.md"
            assert (second["finishReason"], new.read_text()) == ("stop", "# New\n")

            assert (await client.command_result("aish.undo", {}))["removed"] == ["docs/new.md"]
            assert not new.exists()
            assert calc.read_bytes() != CALC
            assert (await client.command_result("aish.undo", {}))["restored"] == ["calc.py"]
            assert calc.read_bytes() == CALC
            assert stat.S_IMODE(calc.stat().st_mode) == 0o751
            asked = [params["message"] for name, params in client.requests if "Message" in name]
    results = [one["content"] for one in caller.sent[3]["messages"] if one["role"] == "tool"]
    read, found, edited, ran = results
    assert read == "[calc.py, lines 1-2 of 2]\ndef double(x):\n    return x + 1"
    assert "calc.py:1: def double(x):" in found
    assert "check.py:2: assert calc.double(4) == 8" in found
    assert edited == "Changed calc.py: 1 line added, 1 removed."
    assert ran == "[exit 0]\nall is well\n"
    assert [message.split("\n")[0] for message in asked] == [
        "Change calc.py (caution)?",
        "Run this command (caution)?",
        "Make docs/new.md (caution)?",
    ]
    assert "    -    return x + 1\n    +    return 2 * x" in asked[0]


async def test_the_chat_has_a_line_for_each_call(place: Place, calling: LlamaServer) -> None:
    """As docs/tools.md shows it."""
    caller = Caller(calling, REPAIR)
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder, capabilities={})
            unasked = await client.command_result("aish.tools.list", {})
            await client.command_result("aish.ask", {"prompt": "Repair calc.py."})
            text = await chat_holds(client, place, "## You\n", times=2)
            listed = await client.command_result("aish.tools.list", {})
            switched = await client.command_result(
                "aish.tools.switch", {"server": "aish", "tool": "run_command", "on": False}
            )
    page = Path(__file__).parents[2] / "docs" / "tools.md"
    shown = page.read_text().partition("```text\n")[2].partition("```\n")[0]
    assert text[text.index("## You\n\nRepair") :] == f"{shown}\n## You\n\n"
    [ours] = listed["servers"]
    assert listed["offered"] == [tool["name"] for tool in ours["tools"]]
    assert "run_command" not in switched["offered"]
    # The tiny model's tokens are bytes: by now that is learned, as far as an estimate is corrected.
    before, after = (
        sum(tool["tokens"] for tool in one["servers"][0]["tools"]) for one in (unasked, listed)
    )
    assert after == pytest.approx(3 * before, rel=0.05)


async def test_a_server_that_is_killed_in_mid_call_leaves_nothing_running(
    place: Place, calling: LlamaServer
) -> None:
    """At the next start the call is cancelled, and what it had done can be undone."""
    command = "echo $$ > pid.txt; sleep 600; echo never > never.txt"
    caller = Caller(calling, [("", [("run_command", {"command": command})]), DONE])
    started = place.folder / "pid.txt"
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            await begin(client, "aish.ask", {"prompt": "Wait.", "partialResultToken": "t"})
            await client.within(until(lambda: started.exists() and started.read_text()), "a start")
            client.process.kill()
            await client.process.wait()
        number = int(started.read_text())
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            await client.within(until(lambda: not is_alive(number)), "the end of the command")
            await client.command_result("aish.session.resume", {})
            await ask(client, "Go on.", "t")
            undone = await client.command_result("aish.undo", {})
    [found] = [one for one in caller.sent[-1]["messages"] if one["role"] == "tool"]
    assert found["content"] == "cancelled"
    assert undone["removed"] == ["pid.txt"]


def is_alive(number: int) -> bool:
    """Return whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    while not condition():
        await asyncio.sleep(0.03)


async def test_rounds_without_end_stay_within_a_small_window(place: Place, parts: None) -> None:
    """The oldest calls go, whole, and each request is what llama.cpp counts it to be, or less."""
    window, reply = 8192, 512
    (place.folder / "long.txt").write_text("".join(f"line {n} of it\n" for n in range(2000)))
    reads = [
        ("", [("read_file", {"path": "long.txt", "start": n, "end": n + 90 + 10 * (n % 3)})])
        for n in range(1, ROUNDS)
    ]
    with LlamaServer(model=tiny_model.calling_model_path(), context=window) as llama:
        caller = Caller(llama, [*reads, DONE])
        async with FaultServer(caller) as server:
            place.configure(server.url, context_window=window, max_output_tokens=reply)
            with place.config.open("a") as file:
                file.write(f"[tools]\nmax_rounds = {ROUNDS}\n[tokenize]\nuse_endpoint = true\n")
            async with place.client() as client:
                await client.initialize(place.folder)
                result = await client.command_result(
                    "aish.ask",
                    {"prompt": "Read all of it.", "partialResultToken": "one"},
                    timeout=20.0 * ROUNDS,
                )
    assert result["finishReason"] == "stop"
    assert len(caller.read) == ROUNDS
    assert max(caller.read) <= window - reply
    # It was near: without the oldest calls going it would have been over.
    assert max(caller.read) > (window - reply) // 2
    for body in caller.sent:
        calls = [call["id"] for one in body["messages"] for call in one.get("tool_calls") or ()]
        found = [one["tool_call_id"] for one in body["messages"] if one["role"] == "tool"]
        assert calls == found


async def test_what_is_refused_is_not_done_and_told_to_the_model(
    place: Place, calling: LlamaServer
) -> None:
    edit = {"path": "calc.py", "old": "x + 1", "new": "2 * x"}
    caller = Caller(
        calling,
        [
            ("", [("edit_file", edit), ("run_command", {"command": "touch made"})]),
            ("", [("no_such_tool", {}), ("read_file", {"path": "../config.toml"})]),
            DONE,
        ],
    )
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            await client.initialize(place.folder)
            result = await ask(client, "Repair it.", "one")
            told = statuses(events(client, "one", "tool"))
    assert result["finishReason"] == "stop"
    assert told == [
        *(("edit_file", "denied"), ("run_command", "denied")),
        *(("no_such_tool", "failed"), ("read_file", "failed")),
    ]
    assert (place.folder / "calc.py").read_bytes() == CALC
    assert not (place.folder / "made").exists()
    last = [one["content"] for one in caller.sent[-1]["messages"] if one["role"] == "tool"]
    assert last[3] == "../config.toml is outside of the workspace."


async def test_the_limit_of_rounds_ends_a_turn_with_a_notice(
    place: Place, calling: LlamaServer
) -> None:
    caller = Caller(calling, [("", [("list_files", {"path": "."})])])
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        with place.config.open("a") as file:
            file.write("[tools]\nmax_rounds = 3\n")
        async with place.client() as client:
            await client.initialize(place.folder)
            result = await ask(client, "Look for ever.", "one")
            notices = [one["message"] for one in events(client, "one", "notice")]
    assert (result["finishReason"], len(caller.sent)) == ("tool", 3)
    assert notices[-1].startswith("Stopped after 3 rounds of tools")


async def test_an_open_file_is_changed_in_the_editor(place: Place, calling: LlamaServer) -> None:
    edit = {"path": "calc.py", "old": "x + 1", "new": "2 * x"}
    caller = Caller(calling, [("", [("edit_file", edit)]), DONE])
    edits: list[Any] = []

    async def apply(params: Any) -> Any:
        edits.append(params["edit"])
        # The editor tells of what it has made.
        told = {
            "textDocument": {"uri": uri, "version": 7 + len(edits)},
            "contentChanges": [{"text": changed if len(edits) == 1 else text}],
        }
        await client.notify("textDocument/didChange", told)
        return {"applied": True}

    def approve(params: Any) -> Any:
        approvals.append(params)
        return {"approved": True}

    approvals: list[Any] = []
    uri = (place.folder / "calc.py").as_uri()
    text = "# unsaved\r\n" + CALC.decode()
    changed = text.replace("x + 1", "2 * x")
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers |= {"workspace/applyEdit": apply, "aish/approve": approve}
            options = {"aish": {"approve": True}}
            await client.initialize(place.folder, capabilities=CAPABILITIES, options=options)
            document = {"uri": uri, "languageId": "python", "version": 7, "text": text}
            await client.notify("textDocument/didOpen", {"textDocument": document})
            result = await ask(client, "Repair it.", "one")
            assert not [name for name, _ in client.requests if "showMessageRequest" in name]
            undone = await client.command_result("aish.undo", {})
    assert undone["restored"] == ["calc.py"]
    back = [change for one in edits for change in changes(one) if "x + 1" in json.dumps(change)]
    assert [change["newText"] for change in back] == ["x + 1"]
    assert result["finishReason"] == "stop"
    [approval] = approvals
    assert (approval["kind"], approval["risk"], approval["text"]) == ("edit", "caution", "calc.py")
    assert approval["diff"]["uri"] == uri
    assert approval["diff"]["after"] == text.replace("\r\n", "\n").replace("x + 1", "2 * x")
    [made] = [change for one in edits for change in changes(one) if "2 * x" in json.dumps(change)]
    assert made["newText"] == "2 * x"
    assert made["range"]["start"] == {"line": 2, "character": 11}
    # The editor has it, and saves it when its user does.
    assert (place.folder / "calc.py").read_bytes() == CALC


def changes(edit: Any) -> list[Any]:
    """Return the text edits of a workspace's edit."""
    documents = [one["edits"] for one in edit.get("documentChanges") or []]
    return [
        change for some in (*documents, *(edit.get("changes") or {}).values()) for change in some
    ]
