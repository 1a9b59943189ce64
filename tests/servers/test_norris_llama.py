"""A goal pursued in a real repository, by a real llama.cpp whose replies a grammar forces."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_model
from calling_proxy import Caller, Reply
from client import RpcError
from conversing import SHOWS_NOTHING, Place, begin, chat_holds, events
from fault_server import FaultServer
from llama_server import LlamaServer
from machine import needs, without_namespaces

pytestmark = pytest.mark.llama

WINDOW = 32768
CALC = "def double(x):\n    return x + 1\n"
TEST = "import calc\n\nassert calc.double(4) == 8\nprint('all is well')\n"
CHECK = "CMD: python3 test_calc.py\n"
WRITE = "CMD: printf 'def double(x):\\n    return 2 * x\\n' > calc.py\n"
#: Steps in a small window.
STEPS = 60 if os.environ.get("TESTS_FULL") == "1" else 8
COMPLETE: Reply = ("GOAL: complete\nThe test passes.\n", ())


@pytest.fixture(scope="module")
def calling(parts: None) -> Iterator[LlamaServer]:
    """A server whose template knows of tools."""
    with LlamaServer(model=tiny_model.calling_model_path(), context=WINDOW) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with a failing test."""
    place = Place.make(tmp_path)
    (place.folder / "calc.py").write_text(CALC)
    (place.folder / "test_calc.py").write_text(TEST)
    (place.folder / "calc.py").chmod(0o750)
    (place.folder / ".gitignore").write_text("__pycache__/\n.aish/\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "The first one"]):
        identity = ["-c", "user.name=n", "-c", "user.email=e@x"]
        subprocess.run(["git", *identity, *arguments], cwd=place.folder, check=True)
    return place


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return what the files of a work tree hold, and their modes."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return {
        name: ((folder / name).read_bytes(), (folder / name).stat().st_mode)
        for name in names
        if (folder / name).exists() and not name.startswith((".aish", "__pycache__"))
    }


#: What runs unasked needs it.
works = needs(without_namespaces())


def pressed(number: int, asked: Any) -> Any:
    """Return a button of a question."""
    return asked["actions"][number]


class Run:
    """What became of a goal."""

    def __init__(self) -> None:
        self.result: Any = None
        self.steps: list[Any] = []
        self.asked: list[str] = []
        self.sent: list[Any] = []
        self.read: list[int] = []
        self.notices: list[str] = []
        self.undone: Any = None
        self.risks: dict[str, str] = {}
        self.sessions: list[Any] = []

    @property
    def messages(self) -> list[str]:
        """The messages of the user's in the last request."""
        return [one["content"] for one in self.sent[-1]["messages"] if one["role"] == "user"]


async def pursue(
    place: Place,
    calling: LlamaServer,
    replies: Sequence[Reply],
    *,
    answers: Sequence[int] = (),
    undo: bool = False,
    bounds: str = "",
    window: int = WINDOW,
    **params: Any,
) -> Run:
    """Pursue a goal; ``answers`` are the buttons that are pressed, the last one again and again."""
    run = Run()
    caller = Caller(calling, replies)
    left = list(answers) or [1]

    def answer(asked: Any) -> Any:
        run.asked.append(asked["message"])
        return asked["actions"][left.pop(0) if len(left) > 1 else left[0]]

    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=window, max_output_tokens=300)
        with place.config.open("a") as file:
            file.write(f"[norris]\n{bounds}\n")
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = answer
            await client.initialize(place.folder)
            fields = {"goal": "Make the test pass.", "partialResultToken": "t", **params}
            run.result = await client.command_result("aish.norris.start", fields, timeout=500)
            run.steps = events(client, "t", "step")
            found = [one["command"] for one in events(client, "t", "command")]
            run.risks = {one["id"]: one["risk"] for one in found}
            run.notices = [one["message"] for one in events(client, "t", "notice")]
            listed = await client.command_result("aish.session.list", {})
            run.sessions = listed["sessions"]
            if undo:
                run.undone = await client.command_result("aish.undo", {})
    run.sent, run.read = caller.sent, caller.read
    return run


@works
async def test_a_goal_is_reached_with_nobody_to_ask_and_undone_in_one(
    place: Place, calling: LlamaServer
) -> None:
    before = state(place.folder)
    write = "CMD: printf 'It doubles.\\n' > NOTES.md\n"
    replies: list[Reply] = [
        (f"I run the test.\n{CHECK}", ()),
        (f"I repair it.\n{WRITE}{write}", ()),
        (f"Once more.\n{CHECK}", ()),
        COMPLETE,
    ]
    run = await pursue(place, calling, replies, undo=True, allowCaution=True)
    assert run.result == {"outcome": "complete", "steps": 4, "summary": "The test passes."}
    # But for the question whether goals may be pursued here.
    [asked] = run.asked
    assert asked.startswith("`:norris` pursues a goal by itself. May it do so in ")
    ended = [step for step in run.steps if step["status"] not in ("planned", "running")]
    assert [(step["number"], step["status"], step["exitCode"]) for step in ended] == [
        *((1, "failed", 1), (2, "done", 0), (3, "done", 0), (4, "done", None)),
    ]
    assert ended[0]["plan"] == "I run the test."
    assert [len(step["commandIds"]) for step in ended] == [1, 2, 1, 0]
    system = run.sent[0]["messages"][0]["content"]
    assert "[NORRIS MODE]\nGoal: Make the test pass.\n" in system
    assert "[project]" not in system
    assert run.messages[0] == "[norris] goal: Make the test pass."
    assert "$ python3 test_calc.py (exit 1)" in run.messages[1]
    assert run.messages[1].endswith("[norris] step 2")
    assert "all is well" in run.messages[3]
    [session] = run.sessions
    assert session["questions"] == 1
    assert session["title"] == "Make the test pass."
    assert run.undone["restored"] == ["calc.py"]
    assert run.undone["removed"] == ["NOTES.md"]
    assert state(place.folder) == before


#: Repositories with a failing test: a program; a file, what is wrong in it and right; another; how
#: the test is run.
LANGUAGES = {
    "node": (
        ("double.js", "exports.double = (x) => x + 1\n", "x + 1", "2 * x"),
        ("test.js", "require('node:assert').equal(require('./double').double(4), 8)\n"),
        "node test.js",
    ),
    "rustc": (
        ("double.rs", "pub fn double(x: i32) -> i32 {\n    x + 1\n}\n", "x + 1", "2 * x"),
        (
            "test.rs",
            "mod double;\n#[test]\nfn doubles() {\n    assert_eq!(double::double(4), 8);\n}\n",
        ),
        "rustc --test test.rs -o built && ./built",
    ),
}


@works
@pytest.mark.parametrize("program", LANGUAGES)
async def test_another_language(
    place: Place, calling: LlamaServer, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name, text, wrong, right), (test, check), command = LANGUAGES[program]
    # What rustup puts on PATH looks for its toolchains in the home of whoever has installed them.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    monkeypatch.setenv("RUSTUP_HOME", str(home / ".rustup"))
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    (place.folder / name).write_text(text)
    (place.folder / test).write_text(check)
    with (place.folder / ".gitignore").open("a") as ignored:
        ignored.write("built\n")
    before = state(place.folder)
    edit = {"path": name, "old": wrong, "new": right}
    replies: list[Reply] = [
        (f"CMD: {command}\n", ()),
        ("", [("edit_file", edit)]),
        (f"CMD: {command}\n", ()),
        COMPLETE,
    ]
    run = await pursue(place, calling, replies, undo=True, allowCaution=True)
    ended = [one for one in run.steps if one["status"] not in ("planned", "running")]
    assert [one["exitCode"] == 0 for one in ended if one["exitCode"] is not None] == [False, True]
    assert run.result == {"outcome": "complete", "steps": 4, "summary": "The test passes."}
    assert len(run.asked) == 1
    assert state(place.folder) == before


@works
async def test_tools_reach_a_goal_too(place: Place, calling: LlamaServer) -> None:
    before = state(place.folder)
    edit = {"path": "calc.py", "old": "x + 1", "new": "2 * x"}
    replies: list[Reply] = [
        ("I look.", [("read_file", {"path": "calc.py"}), ("list_files", {})]),
        ("I repair it.", [("edit_file", edit)]),
        ("", [("write_file", {"path": "NOTES.md", "content": "It doubles.\n"})]),
        ("", [("run_command", {"command": "python3 test_calc.py"})]),
        COMPLETE,
    ]
    run = await pursue(place, calling, replies, undo=True, allowCaution=True)
    assert (run.result["outcome"], run.result["steps"]) == ("complete", 5)
    assert len(run.asked) == 1
    results = [one["content"] for one in run.sent[-1]["messages"] if one["role"] == "tool"]
    assert results[-1] == "[exit 0]\nall is well\n"
    assert (run.undone["restored"], run.undone["removed"]) == (["calc.py"], ["NOTES.md"])
    assert state(place.folder) == before


@works
@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        (("run_command", {"command": "false"}), "failed", 1),
        (("run_command", {"command": "rm calc.py"}), "denied", None),
        (("edit_file", {"path": "calc.py", "old": "not there", "new": "x"}), "failed", None),
    ],
    ids=["fails", "is refused", "cannot be done"],
)
async def test_after_a_call_that_comes_to_nothing_the_rest_of_its_step_is_not_run(
    place: Place, calling: LlamaServer, call: Any, status: str, code: int | None
) -> None:
    more = ("run_command", {"command": "touch by_call.txt"})
    replies: list[Reply] = [("CMD: touch by_line.txt\n", [call, more]), COMPLETE]
    run = await pursue(place, calling, replies, answers=[1, 0], allowCaution=True)
    first = next(one for one in run.steps if one["status"] not in ("planned", "running"))
    assert (first["status"], first["exitCode"]) == (status, code)
    assert not {"by_call.txt", "by_line.txt"} & {path.name for path in place.folder.iterdir()}
    results = [one["content"] for one in run.sent[-1]["messages"] if one["role"] == "tool"]
    assert results[1] == "Not made: the call before it failed, or was refused."
    assert "[aish] The rest of the step, 1 command after it was not run." in run.messages[-1]


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_without_allowance_what_changes_something_asks(
    place: Place, calling: LlamaServer, is_allowed: bool
) -> None:
    replies: list[Reply] = [
        ("CMD: touch new.txt\nCMD: ls\n", ()),
        ("GOAL: blocked: nothing may be changed\n", ()),
    ]
    run = await pursue(place, calling, replies, answers=[1, 1 if is_allowed else 0])
    assert [message.split("\n")[0] for message in run.asked[1:]] == ["Run this command (caution)?"]
    assert (place.folder / "new.txt").exists() == is_allowed
    assert run.result["outcome"] == "blocked"
    assert run.result["summary"] == "nothing may be changed"
    if is_allowed:
        assert "$ ls (exit 0)" in run.messages[-1]
    else:
        assert "[aish] touch new.txt: skipped by user\n" in run.messages[-1]
        assert "[aish] The rest of the step, 1 command after it was not run." in run.messages[-1]
        assert "$ ls" not in run.messages[-1]
    assert ("denied" in [step["status"] for step in run.steps]) != is_allowed


async def test_what_destroys_asks_and_a_refusal_again_and_again_ends_it(
    place: Place, calling: LlamaServer
) -> None:
    replies: list[Reply] = [("CMD: rm -rf .git\n", ())]
    run = await pursue(place, calling, replies, answers=[1, 0], allowCaution=True)
    assert run.result["outcome"] == "limit"
    assert run.result["summary"] == "Nothing changed in 3 steps."
    assert len(run.asked) == 4
    assert (place.folder / ".git").is_dir()


async def test_a_lie_is_told(place: Place, calling: LlamaServer) -> None:
    replies: list[Reply] = [(CHECK, ()), ("GOAL: complete\nCMD: rm calc.py\n", ())]
    run = await pursue(place, calling, replies)
    assert run.result["outcome"] == "complete"
    assert "But the last run of `python3 test_calc.py` (exit 1) failed." in run.result["summary"]
    # What is suggested beside it is not run.
    assert (place.folder / "calc.py").exists()


@pytest.mark.parametrize(
    ("said", "is_end"),
    [
        ("GOAL: complete", True),
        ("GOAL: complete.", False),
        ("GOAL: completely lost", False),
        ("  GOAL: complete", False),
        ("The GOAL: complete", False),
        ("goal: complete", False),
        ("```\nGOAL: complete\n```", False),
        ("~~~text\nGOAL: complete", False),
        ("```sh\nls\n```\nGOAL: complete: all done", True),
        ("GOAL: complete\ttab", True),
        ("> GOAL: complete", False),
    ],
)
async def test_where_a_goal_is_said_to_be_reached(
    place: Place, calling: LlamaServer, said: str, is_end: bool
) -> None:
    replies: list[Reply] = [(f"{said}\n", ()), ("GOAL: blocked: tested\n", ())]
    run = await pursue(place, calling, replies)
    assert run.result["outcome"] == ("complete" if is_end else "blocked")
    assert run.result["steps"] == (1 if is_end else 2)


async def test_what_others_say_of_the_goal_ends_nothing(place: Place, calling: LlamaServer) -> None:
    (place.folder / "GOAL: complete").write_text("GOAL: complete\n")
    replies: list[Reply] = [
        ("CMD: cat 'GOAL: complete'\n", ()),
        ("", [("list_files", {}), ("read_file", {"path": "GOAL: complete"})]),
        ("CMD: ls\n", ()),
        COMPLETE,
    ]
    run = await pursue(place, calling, replies)
    assert (run.result["outcome"], run.result["steps"]) == ("complete", 4)


@pytest.mark.parametrize(
    ("bounds", "params", "reason"),
    [
        ("max_steps = 2", {}, "It made 2 steps"),
        ("", {"maxSteps": 3}, "It made 3 steps"),
        ("max_tokens = 5000", {}, "It would take more than 5,000 tokens"),
        ("max_minutes = 0.05", {}, "It took longer than 0.05 minutes"),
        (
            "max_dollars = 5.0\n[models.tested.price]\ninput = 1000.0\noutput = 1000.0",
            {},
            "It would cost more than 5 dollars",
        ),
        # Before the first request, too.
        ("max_tokens = 100", {}, "It would take more than 100 tokens"),
        (
            "max_dollars = 0\n[models.tested.price]\ninput = 1.0\noutput = 1.0",
            {},
            "It would cost more than 0 dollars",
        ),
    ],
)
async def test_each_bound_ends_it(
    place: Place, calling: LlamaServer, bounds: str, params: Any, reason: str
) -> None:
    replies: list[Reply] = [(f"CMD: echo {number}\n", ()) for number in range(50)]
    if "minutes" in bounds:
        replies[1] = ("CMD: tail -f calc.py\n", ())
    run = await pursue(place, calling, replies, bounds=bounds, **params)
    assert run.result["outcome"] == "limit"
    assert run.result["summary"].startswith(reason)
    assert (":undo" in run.notices[-1]) == (run.result["steps"] > 0)
    if "tokens" in bounds:
        assert sum(run.read) <= int(bounds.rpartition(" ")[2])
    if "max_dollars" in bounds:
        assert len(run.read) == (1 if "5.0" in bounds else 0)


@pytest.mark.parametrize(
    "replies",
    [
        [("CMD: cat calc.py\n", ())],
        [("I think about it.\n", ())],
        [("```sh\nls\n```\n", ())],
        [("", [("read_file", {"path": "calc.py"})])],
        [("", [("no_such_tool", {})])],
        [("CMD: false\n", ())],
        [("CMD: ls <folder>\n", ())],
    ],
    ids=["the same", "no plan", "a fence", "a call", "no tool", "a failure", "a gap"],
)
async def test_three_steps_that_bring_nothing_end_it(
    place: Place, calling: LlamaServer, replies: list[Reply]
) -> None:
    run = await pursue(place, calling, replies)
    assert run.result == {"outcome": "limit", "steps": 3, "summary": "Nothing changed in 3 steps."}


async def test_where_there_is_no_repository_what_changes_something_asks(
    place: Place, calling: LlamaServer
) -> None:
    shutil.rmtree(place.folder / ".git")
    replies: list[Reply] = [("CMD: touch new.txt\n", ()), COMPLETE]
    run = await pursue(place, calling, replies, answers=[1, 0], allowCaution=True)
    assert len(run.asked) == 2
    assert not (place.folder / "new.txt").exists()
    assert "Commands that may change something ask you first: " in "\n".join(run.notices)
    assert ":undo" not in run.notices[-1]


async def test_it_ends_where_what_was_agreed_to_is_taken_back(
    place: Place, calling: LlamaServer
) -> None:
    caller = Caller(calling, [("CMD: sleep 3\n", ()), COMPLETE])
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = partial(pressed, 1)
            await client.initialize(place.folder)
            fields = {"goal": "Do it.", "partialResultToken": "t"}
            running = asyncio.create_task(
                client.command_result("aish.norris.start", fields, timeout=60)
            )
            async with asyncio.timeout(40):
                while not events(client, "t", "output"):
                    await asyncio.sleep(0.05)
            await client.command_result("aish.trust.revoke", {})
            result = await running
    assert (result["outcome"], result["steps"]) == ("stopped", 1)
    assert "no longer allow goals" in result["summary"]
    assert len(caller.sent) == 1


@pytest.mark.parametrize("face", ["command", "chat"])
async def test_a_progress_counts_the_steps(place: Place, calling: LlamaServer, face: str) -> None:
    caller = Caller(calling, [("CMD: sleep 2\n", ()), ("CMD: sleep 2\n", ()), COMPLETE])
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = partial(pressed, 1)
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            if face == "chat":
                await client.command_result("aish.chat.send", {"prompt": ":norris Do it."})
                await chat_holds(client, place, "The goal was reached in 3 steps.")
            else:
                fields = {"goal": "Do it.", "partialResultToken": "t"}
                work = {"workDoneToken": "work"}
                _, ended = await begin(client, "aish.norris.start", fields, **work)
                await client.within(ended, "result")
            values = [one for sent in client.progress.values() for one in sent]
    told = [one.get("message", "") for one in values if one["kind"] == "report"]
    steps = [text for number in range(1, 4) for text in told if text == f"step {number}"]
    assert list(dict.fromkeys(steps)) == ["step 1", "step 2", "step 3"]
    if face == "chat":
        assert any(re.fullmatch(r"step 1, \d+ s", text) for text in told)


@works
async def test_what_git_keeps_is_changed_by_git_alone(place: Place, calling: LlamaServer) -> None:
    own = place.folder / ".git"
    (place.folder / "clean.py").write_text(
        "import shutil\nfor name in ('objects', 'refs'):\n    shutil.rmtree(f'.git/{name}')\n"
    )
    objects = [path for path in (own / "objects").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in objects}
    commit = "git add clean.py && git -c user.name=n -c user.email=e@x commit -qm work"
    replies: list[Reply] = [("CMD: python3 clean.py\n", ()), (f"CMD: {commit}\n", ()), COMPLETE]
    run = await pursue(place, calling, replies, allowCaution=True)
    assert len(run.asked) == 1
    ended = [one["exitCode"] for one in run.steps if one["status"] not in ("planned", "running")]
    assert ended == [1, 0, None]
    assert all(path.read_bytes() == before[path] for path in objects)


@works
async def test_a_folder_that_is_reached_by_a_link(place: Place, calling: LlamaServer) -> None:
    place.folder.rename(place.root / "real")
    place.folder.symlink_to("real")
    before = state(place.folder)
    replies: list[Reply] = [(f"{WRITE}CMD: touch new.txt\n", ()), COMPLETE]
    run = await pursue(place, calling, replies, answers=[1, 0], allowCaution=True, undo=True)
    assert len(run.asked) == 1
    assert (run.undone["restored"], run.undone["removed"]) == (["calc.py"], ["new.txt"])
    assert state(place.folder) == before


@works
async def test_it_is_told_why_what_changes_something_asks(
    place: Place, calling: LlamaServer
) -> None:
    shutil.rmtree(place.folder / ".git")
    replies: list[Reply] = [("CMD: touch new.txt\n", ()), COMPLETE]
    run = await pursue(place, calling, replies, answers=[1, 0], allowCaution=True)
    assert len(run.asked) == 2
    told = next(
        one
        for one in run.notices
        if one.startswith("Commands that may change something ask you first: ")
    )
    assert told.endswith("the folder is not in a git work tree.")


async def test_nothing_begins_where_the_user_does_not_want_it(
    place: Place, calling: LlamaServer
) -> None:
    caller = Caller(calling, [COMPLETE])
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            await client.initialize(place.folder)
            for answer, is_begun in ((0, False), (1, True), (0, True)):
                client.answers["window/showMessageRequest"] = partial(pressed, answer)
                fields = {"goal": "Do it.", "partialResultToken": f"t{answer}{is_begun}"}
                asking = client.command_result("aish.norris.start", fields, timeout=60)
                if is_begun:
                    assert (await asking)["outcome"] == "complete"
                else:
                    with pytest.raises(RpcError, match="you did not agree"):
                        await asking
    assert len(caller.sent) == 2


def is_running(command_line: str) -> bool:
    """Return whether a process of this machine has such a command line."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if command_line.encode() in process.read_bytes():
                return True
    return False


@works
async def test_it_can_be_stopped_and_goes_on_after_a_restart(
    place: Place, calling: LlamaServer
) -> None:
    before = state(place.folder)
    replies: list[Reply] = [
        (WRITE, ()),
        ("CMD: echo $$ > pid.txt; sleep 600.0625\n", ()),
        (CHECK, ()),
        COMPLETE,
    ]
    caller = Caller(calling, replies)
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        with place.config.open("a") as file:
            file.write('[sessions]\nresume = "always"\n')
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = partial(pressed, 1)
            await client.initialize(place.folder)
            fields = {"goal": "Do it.", "allowCaution": True, "partialResultToken": "t"}
            running = asyncio.create_task(
                client.command_result("aish.norris.start", fields, timeout=60)
            )
            pid = place.folder / "pid.txt"
            async with asyncio.timeout(40):
                while not (pid.exists() and pid.read_text().strip()):
                    await asyncio.sleep(0.05)
            with pytest.raises(RpcError, match="being pursued"):
                await client.command_result("aish.norris.start", {"goal": "Another."})
            await client.command_result("aish.norris.say", {"text": "Mind the tests."})
            await client.command_result("aish.norris.stop", {})
            result = await running
            assert (result["outcome"], result["steps"]) == ("stopped", 2)
            with pytest.raises(RpcError, match="No goal is being pursued"):
                await client.command_result("aish.norris.stop", {})
        # Its number counts in its own namespace alone.
        assert not is_running("sleep\0" + "600.0625")
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = partial(pressed, 1)
            await client.initialize(place.folder)
            fields = {"resume": True, "partialResultToken": "u"}
            result = await client.command_result("aish.norris.start", fields, timeout=60)
            assert (result["outcome"], result["steps"]) == ("complete", 2)
            numbers = [step["number"] for step in events(client, "u", "step")]
            assert numbers[0] == 3
            with pytest.raises(RpcError, match="There is no goal"):
                await client.command_result("aish.norris.start", {"resume": True})
            await client.command_result("aish.undo", {})
    assert state(place.folder) == before
    last = caller.sent[-1]["messages"]
    assert "[norris] goal: Do it.\nIt goes on after a break" in str(last).replace("\\n", "\n")


@works
async def test_a_command_of_the_users_parts_what_is_undone(
    place: Place, calling: LlamaServer
) -> None:
    before = state(place.folder)
    more = "CMD: echo more > more.txt\n"
    caller = Caller(calling, [(WRITE, ()), (more, ()), COMPLETE])
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = partial(pressed, 1)
            await client.initialize(place.folder)
            fields = {"goal": "Do it.", "allowCaution": True, "partialResultToken": "t"}
            result = await client.command_result(
                "aish.norris.start", fields | {"maxSteps": 1}, timeout=60
            )
            assert result["outcome"] == "limit"
            assert "restores all files that it changed." in told(client, "t")
            first = state(place.folder)
            run = {"text": "echo own > own.txt", "partialResultToken": "r"}
            await client.command_result("aish.run", run)
            own = state(place.folder)
            again = {"resume": True, "partialResultToken": "u"}
            result = await client.command_result("aish.norris.start", again, timeout=60)
            assert (result["outcome"], result["steps"]) == ("complete", 2)
            assert "restores all files that it changed since it was resumed." in told(client, "u")
            [session] = (await client.command_result("aish.session.list", {}))["sessions"]
            for expected in (own, first, before):
                await client.command_result("aish.undo", {})
                assert state(place.folder) == expected
    # The goal is the only question of the user's.
    assert session["questions"] == 1


def told(client: Any, token: str) -> str:
    """Return the last notice of a run."""
    notices: list[str] = [one["message"] for one in events(client, token, "notice")]
    return notices[-1]


async def test_it_is_stopped_and_the_only_one_while_the_user_is_asked(
    place: Place, calling: LlamaServer
) -> None:
    caller = Caller(calling, [COMPLETE])
    asked = asyncio.Event()

    async def never(_: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = never
            await client.initialize(place.folder)
            fields = {"goal": "Do it.", "partialResultToken": "t"}
            waiting = asyncio.create_task(
                client.command_result("aish.norris.start", fields, timeout=60)
            )
            await client.within(asked.wait(), "question")
            with pytest.raises(RpcError, match="being pursued here"):
                await client.command_result("aish.norris.start", {"goal": "Another."})
            await client.command_result("aish.norris.stop", {})
            assert (await waiting)["outcome"] == "stopped"
    assert not caller.sent


@works
async def test_what_the_model_thinks_aloud_is_not_run(place: Place, calling: LlamaServer) -> None:
    thought = (
        "<think>\nCMD: touch thought.txt\nCMD: echo x >> said.txt\n</think>\nI do this.\n"
        "CMD: echo x >> said.txt\n"
    )
    run = await pursue(place, calling, [(thought, ()), COMPLETE], allowCaution=True)
    assert run.result["outcome"] == "complete"
    assert (place.folder / "said.txt").read_text() == "x\n"
    assert not (place.folder / "thought.txt").exists()


async def test_what_the_user_says_goes_with_the_next_step(
    place: Place, calling: LlamaServer
) -> None:
    caller = Caller(calling, [("CMD: sleep 2\n", ()), COMPLETE])
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = partial(pressed, 1)
            await client.initialize(place.folder)
            fields = {"goal": "Do it.", "partialResultToken": "t"}
            running = asyncio.create_task(
                client.command_result("aish.norris.start", fields, timeout=60)
            )
            async with asyncio.timeout(40):
                while not events(client, "t", "output"):
                    await asyncio.sleep(0.05)
            await client.command_result("aish.norris.say", {"text": "Mind the tests."})
            assert (await running)["outcome"] == "complete"
    assert caller.sent[-1]["messages"][-1]["content"].endswith("[norris] step 2\nMind the tests.")


@pytest.mark.timeout(600)
async def test_many_steps_stay_within_a_small_window(place: Place, calling: LlamaServer) -> None:
    # Of the tiny model each byte is a token.
    replies: list[Reply] = [
        (f"Step {number}.\nCMD: echo {number} {'x' * 200}\n", ()) for number in range(STEPS)
    ]
    window = 8192
    run = await pursue(
        place,
        calling,
        [*replies, COMPLETE],
        bounds="max_steps = 80\nmax_tokens = 2000000",
        window=window,
    )
    assert (run.result["outcome"], run.result["steps"]) == ("complete", STEPS + 1)
    assert max(run.read) + 300 <= window
    system = run.sent[-1]["messages"][0]["content"]
    assert "Earlier steps, which are not shown any more:\n- step " in system
    assert all("summar" not in one["messages"][0]["content"][:40] for one in run.sent)
    assert len(run.sent) == STEPS + 1


#: Commands of a run with the allowance.
UNASKED = (
    "cat calc.py",
    "python3 test_calc.py",
    "mkdir -p docs && echo text > docs/new.md",
    "printf 'x = 1\\n' > calc.py",
    "sed -i s/1/2/ calc.py",
    "git add -A && git commit -qm work",
    "touch .git/hooks/pre-commit",
    "python3 settings.py",
    "touch ~/elsewhere",
    "python3 connect.py",
    "rm calc.py",
    "git reset -q --hard",
)


async def test_a_model_that_goes_away_is_told_and_the_run_can_go_on(
    place: Place, calling: LlamaServer
) -> None:
    replies: list[Reply] = [("CMD: echo one\n", ()), ("CMD: echo two\n", ())]
    caller = Caller(calling, replies)

    async def gone(request: Any, peer: Any) -> None:
        if len(caller.sent) == 2 and request.path.endswith("/chat/completions"):
            await peer.reply({"error": {"message": "out of memory"}}, "400 Bad Request")
            return
        await caller(request, peer)

    async with FaultServer(gone) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = partial(pressed, 1)
            await client.initialize(place.folder)
            fields = {"goal": "Do it.", "partialResultToken": "t"}
            result = await client.command_result("aish.norris.start", fields, timeout=60)
            assert (result["outcome"], result["steps"]) == ("error", 3)
            assert "out of memory" in result["summary"]
            caller.sent.append(None)
            caller.replies = [COMPLETE]
            # A question beside it, in another session, is answered while it goes on.
            other = await client.command_result("aish.session.new", {"show": False})
            resumed = {"resume": True, "partialResultToken": "u"}
            result, beside = await asyncio.gather(
                client.command_result("aish.norris.start", resumed, timeout=60),
                client.command_result(
                    "aish.ask",
                    {"prompt": "Hm?", "session": other["id"], "partialResultToken": "v"},
                    timeout=60,
                ),
            )
            assert result["outcome"] == "complete"
            assert beside["finishReason"] == "stop"


async def test_what_the_user_adds_too_late_is_told(place: Place, calling: LlamaServer) -> None:
    caller = Caller(calling, [("CMD: sleep 2\n", ())])
    async with FaultServer(caller) as server:
        place.configure(server.url, context_window=WINDOW)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = partial(pressed, 1)
            await client.initialize(place.folder)
            fields = {"goal": "Do it.", "maxSteps": 1, "partialResultToken": "t"}
            running = asyncio.create_task(
                client.command_result("aish.norris.start", fields, timeout=60)
            )
            await client.wait_for(
                lambda: any(step["status"] == "running" for step in events(client, "t", "step")),
                "the step",
            )
            await client.command_result("aish.norris.say", {"text": "Mind the tests."})
            assert (await running)["outcome"] == "limit"
            assert "What you added last was not sent" in told(client, "t")


async def test_a_network_that_is_gone_is_told_and_the_run_can_go_on(
    place: Place, calling: LlamaServer
) -> None:
    caller = Caller(calling, [("CMD: sleep 3\n", ()), COMPLETE])
    async with place.client() as client:
        client.answers["window/showMessageRequest"] = partial(pressed, 1)
        async with FaultServer(caller) as server:
            place.configure(server.url, context_window=WINDOW)
            await client.initialize(place.folder)
            fields = {"goal": "Do it.", "partialResultToken": "t"}
            running = asyncio.create_task(
                client.command_result("aish.norris.start", fields, timeout=120)
            )
            await client.wait_for(
                lambda: any(step["status"] == "running" for step in events(client, "t", "step")),
                "the first step",
            )
        result = await running
        assert (result["outcome"], result["steps"]) == ("error", 2)
        assert server.url in result["summary"], result
        async with FaultServer(caller) as server:
            place.configure(server.url, context_window=WINDOW)
            resumed = {"resume": True, "partialResultToken": "u"}
            result = await client.command_result("aish.norris.start", resumed, timeout=60)
            assert result["outcome"] == "complete"


@works
async def test_what_runs_unasked(place: Place, calling: LlamaServer) -> None:
    """The table of docs/norris.md."""
    for name, value in (("user.name", "n"), ("user.email", "e@x")):
        subprocess.run(["git", "config", name, value], cwd=place.folder, check=True)
    connect = "import socket\nsocket.create_connection(('192.0.2.1', 80), 5)\n"
    (place.folder / "connect.py").write_text(connect)
    settings = "import os\nos.makedirs('deep/.vscode')\nopen('deep/.vscode/tasks.json', 'w')\n"
    (place.folder / "settings.py").write_text(settings)
    replies: list[Reply] = [(f"CMD: {command}\n", ()) for command in UNASKED]
    run = await pursue(
        place,
        calling,
        [*replies, COMPLETE],
        answers=[1, 0],
        allowCaution=True,
        bounds="max_steps = 30",
    )
    asked = "\n".join(run.asked[1:])
    steps = {one["number"]: one for one in run.steps if one["status"] not in ("planned", "running")}
    rows = []
    for number, command in enumerate(UNASKED, 1):
        risk = run.risks[steps[number]["commandIds"][0]]
        how = {"safe": "confined", "caution": "in `work`"}.get(risk, "")
        became = "asked" if f"    {command}\n" in asked else f"ran {how}"
        code = steps[number]["exitCode"]
        ended = "" if code is None else "done" if code == 0 else "refused"
        if command.endswith("test_calc.py"):
            ended = "failed"
        rows.append(f"| `{command}` | {risk} | {became} | {ended} |")
    page = (Path(__file__).parents[2] / "docs" / "norris.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page, "\n".join(rows)
    assert not (place.folder / ".git" / "hooks" / "pre-commit").exists()
    assert not (place.folder / "deep" / ".vscode").exists()
    # The model is told, too.
    assert "deep/.vscode is put aside: it decides what runs" in "\n".join(run.messages)
