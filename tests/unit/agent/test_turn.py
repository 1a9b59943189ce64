"""A turn in rounds: the tools that a model calls, what is told, kept and paid for of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from aish_lsp.agent import Workspace
from aish_lsp.agent.events import Command, End, Notice, Text, Tool, Usage
from aish_lsp.agent.services import Services
from aish_lsp.agent.session import Ask, Session
from aish_lsp.agent.side_call import compact
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.agent.turn import AskResult, Turn
from aish_lsp.agent.turn import ask as begin_turn
from aish_lsp.config.loading import Configuration
from aish_lsp.config.schema import Preset, Tools
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable, NotFound
from aish_lsp.foundation.events import Event
from aish_lsp.foundation.job import Job
from aish_lsp.foundation.ports import Question, nobody
from aish_lsp.models.request import (
    Finish,
    ModelEvent,
    ModelRequest,
    RequestMessage,
    ToolCall,
    ToolSchema,
)
from aish_lsp.sessions.rebuild import history
from aish_lsp.tools import Around, ToolResult
from aish_lsp.tools.toolbox import Toolbox

CONFIG = """
default_model = "first"
[models.first]
endpoint = "http://127.0.0.1:9"
context_window = 8192
price = {input = 1.0, output = 2.0}
use_tool_role = ROLE
[models.second]
endpoint = "http://127.0.0.1:9"
context_window = 8192
[project]
auto_tree = false
[routing]
fallback = ["second"]
[tools]
max_rounds = 3
"""

LOOK = ToolSchema("files__look", "Look at a file.", {"type": "object", "properties": {}})
DONE = (Text("It says hello."), Usage(440, 5), Finish("stop"))


def calls(*arguments: str, text: str = "") -> tuple[ModelEvent, ...]:
    """Return a reply that calls LOOK once for each of ``arguments``."""
    found = [ToolCall(f"c{at}", LOOK.name, written) for at, written in enumerate(arguments)]
    said = (Text(text),) if text else ()
    return (*said, *found, Usage(400, 10), Finish("tool"))


class Looking(Toolbox):
    """Tools: LOOK, which tells ``said``, fails with it, or hangs."""

    def __init__(self) -> None:
        super().__init__((), Tools, nobody)
        self.said: str | Exception | None = "hello"
        self.called: list[tuple[str, Mapping[str, Any]]] = []
        self.hangs = asyncio.Event()
        self.reading = False
        self.meet: asyncio.Barrier | None = None

    def definitions(self, _preset: Preset, _window: int, /) -> tuple[ToolSchema, ...]:
        return (LOOK,)

    def names(self) -> tuple[str, ...]:
        return (LOOK.name,)

    def reads(self, _name: str, /) -> bool:
        return self.reading

    async def call(self, name: str, arguments: Mapping[str, Any], _around: Around, /) -> ToolResult:
        self.called.append((name, arguments))
        if self.meet is not None:
            await self.meet.wait()
        if self.said is None:
            self.hangs.set()
            await asyncio.Event().wait()
        if isinstance(self.said, Exception):
            raise self.said
        return ToolResult(str(self.said))


class Place:
    """A session whose model gives ``replies`` in their order, the last one again and again."""

    def __init__(self, root: Path, *, role: bool) -> None:
        self.root = root
        self.requests: list[ModelRequest] = []
        self.replies: list[tuple[ModelEvent, ...] | Exception] = [DONE]
        self.events: list[Event] = []
        self.tools = Looking()
        (root / "config.toml").write_text(CONFIG.replace("ROLE", str(role).lower()))
        services = Services(environ={"AISH_DISCOVERY": "off"})
        folder = root / "workspace"
        folder.mkdir()
        self.workspace = Workspace(
            folder, services, Configuration(folder, services.trust, services.environ)
        )

    @property
    def session(self) -> Session:
        return self.workspace.shown

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        for event in reply:
            yield event

    def begin(self, prompt: str = "What does it say?", **fields: Any) -> Job[AskResult]:
        return begin_turn(self.session, Ask(prompt, **fields))

    async def ask(self, prompt: str = "What does it say?", **fields: Any) -> AskResult:
        job = self.begin(prompt, **fields)
        self.events = [event async for event in job.events()]
        return await job.result()

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def sent(self) -> list[RequestMessage]:
        """What was sent last, without the system's message."""
        return list(self.requests[-1].messages[1:])

    def log(self) -> list[dict[str, Any]]:
        [path] = self.root.rglob(f"{self.session.id}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(params=[True], ids=["tool role"])
async def place(
    request: pytest.FixtureRequest, own_files: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    made = Place(own_files, role=request.param)
    made.session.tools = made.tools

    def open_model(_: Preset) -> Place:
        return made

    monkeypatch.setattr(made.session, "open_model", open_model)
    yield made
    await made.workspace.aclose()
    await made.workspace.services.aclose()


async def test_a_call_reaches_the_turn_and_its_result_the_model(place: Place) -> None:
    place.replies = [calls('{"path": "a"}', text="Let me look."), DONE]
    result = await place.ask()
    assert place.requests[0].tools == place.requests[1].tools == (LOOK,)
    assert place.tools.called == [("files__look", {"path": "a"})]
    assert [
        (e.call_id, e.server, e.name, e.arguments, e.status, e.result) for e in place.told(Tool)
    ] == [
        ("c0", "files", "look", '{"path": "a"}', "pending", None),
        ("c0", "files", "look", '{"path": "a"}', "running", None),
        ("c0", "files", "look", '{"path": "a"}', "done", "hello"),
    ]
    assert [(message.role, message.content) for message in place.sent] == [
        ("user", "What does it say?"),
        ("assistant", "Let me look."),
        ("tool", "hello"),
    ]
    assert place.sent[1].tool_calls == (ToolCall("c0", "files__look", '{"path": "a"}'),)
    assert result.text == "".join(e.delta for e in place.told(Text))
    assert result.text == "Let me look.\n\nIt says hello."
    assert (result.finish_reason, place.events[-1]) == ("stop", End("stop"))


@pytest.mark.parametrize("place", [False], indirect=True, ids=["folded"])
async def test_without_a_tool_role_the_call_is_folded_into_the_text(place: Place) -> None:
    place.replies = [calls('{"path": "a"}'), DONE]
    await place.ask()
    assert [message.role for message in place.sent] == ["user", "assistant"]
    assert place.sent[1].content == '[tool: files__look]\n{"path": "a"}\n[result]\nhello'
    assert [message.role for message in place.session.conversation.messages] == [
        *("user", "assistant", "tool", "assistant"),
    ]


async def test_calls_beyond_the_most_are_answered_last(place: Place) -> None:
    place.replies = [calls(*["{}"] * 40), DONE]
    await place.ask()
    results = [one for one in place.session.conversation.messages if one.role == "tool"]
    assert [one.tool_call_id for one in results] == [f"c{at}" for at in range(40)]
    assert len(place.tools.called) == 32
    assert results[-1].content.startswith("Not made: a reply may have at most 32 calls.")
    loaded = await place.session.recorder.history()
    told = [one.status for one in history(loaded) if one.role == "tool"]
    assert told == [None] * 32 + ["failed"] * 8


async def test_a_call_that_was_not_made_has_one_result_despite_a_cancel(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.replies = [calls(*["{}"] * 33), DONE]
    write, last = place.session.recorder.tool_result, asyncio.Event()

    async def tool_result(call_id: str, text: str, status: str) -> int:
        n = await write(call_id, text, status)
        if text.startswith("Not made"):
            last.set()
            await asyncio.sleep(0.1)
        return n

    monkeypatch.setattr(place.session.recorder, "tool_result", tool_result)
    job = place.begin()
    await last.wait()
    job.cancel()
    await job.result()
    logged = [line["tool_call_id"] for line in place.log() if line.get("role") == "tool"]
    assert logged == [f"c{at}" for at in range(33)]


async def test_a_question_for_a_model_is_asked_again_of_that_model(place: Place) -> None:
    place.replies = [BackendRejected("It does not.")]
    with pytest.raises(BackendRejected):
        await place.ask("@second What does it say?")
    assert place.session.asked_again().model == "second"
    assert place.session.asked_again(model="first").model == "first"


async def test_a_reply_of_blanks_is_called_nothing(place: Place) -> None:
    place.replies = [(Text("\n \n"), Usage(400, 1), Finish("stop"))]
    await place.ask()
    assert place.told(Notice)[-1].message == "The model's answer is empty. Ask again."


async def asked_thrice(place: Place) -> None:
    for question in ("One?", "Two?", "Three?"):
        place.replies = [(Text("An answer. " * 40), Usage(400, 10), Finish("stop"))]
        await place.ask(question)


async def cancel_while_writing_evictions(
    place: Place, monkeypatch: pytest.MonkeyPatch, begin: Callable[[], Job[Any]]
) -> Any:
    """Return the result of a job that is cancelled while what it evicts is written down."""
    began, recorder = asyncio.Event(), place.session.recorder
    write = recorder.evicted

    async def evicted(*arguments: Any) -> None:
        began.set()
        await asyncio.sleep(0.1)
        await write(*arguments)

    monkeypatch.setattr(recorder, "evicted", evicted)
    job = begin()
    await began.wait()
    job.cancel()
    return await job.result()


async def test_a_cancel_while_a_compaction_is_written_comes_too_late(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asked_thrice(place)
    place.replies = [(Text("It was about small numbers."), Usage(400, 10), Finish("stop"))]
    compacted, told = await cancel_while_writing_evictions(
        place, monkeypatch, lambda: compact(place.session)
    )
    assert compacted.evicted_turns == 4
    assert told.startswith("4 messages went into the summary.")
    assert len(place.session.conversation.messages) == 2
    assert place.log()[-1]["event"] == "evicted"


async def test_a_compaction_without_room_for_a_summary_asks_no_model(place: Place) -> None:
    await asked_thrice(place)
    with (place.root / "config.toml").open("a") as config:
        config.write("[context]\nmax_summary_chars = 10\n")
    await place.session.refresh()
    requests = len(place.requests)
    compacted, told = await compact(place.session).result()
    assert (compacted.evicted_turns, len(place.requests)) == (0, requests)
    assert "has no room for a summary" in told


async def test_a_compaction_that_waits_says_so(place: Place) -> None:
    async with place.session.turn_lock:
        job = compact(place.session)
        event = await anext(job.events())
        job.cancel()
    assert event == Notice("info", "A question is being answered; this waits.")


async def test_a_cancel_while_an_eviction_is_written_keeps_the_order(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asked_thrice(place)
    two = place.session.conversation.messages[2].exchange
    with (place.root / "config.toml").open("a") as config:
        config.write("[context]\nmax_turns = 4\nsummarize = false\n")
    await cancel_while_writing_evictions(place, monkeypatch, lambda: place.begin("Two?", again=two))
    said = [one.content for one in place.session.conversation.messages if one.role == "user"]
    assert said == ["Two?", "Three?"]


async def test_each_round_is_paid_for_and_told(place: Place) -> None:
    place.replies = [calls("{}"), DONE]
    result = await place.ask()
    first, second = place.told(Usage)
    assert (first.input_tokens, first.output_tokens) == (400, 10)
    assert (second.input_tokens, second.output_tokens) == (440, 5)
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (840, 15)
    assert result.usage.cost == pytest.approx((840 * 1.0 + 15 * 2.0) / 1e6)
    slot = place.session.meter.usage.models["first"]["main"]
    assert (slot.calls, slot.input) == (2, 840)


async def test_the_log_has_each_round(place: Place) -> None:
    place.replies = [calls("{}", "{}"), DONE]
    await place.ask()
    said = [line for line in place.log() if "role" in line]
    assert [line["role"] for line in said] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call["id"] for call in said[1]["tool_calls"]] == ["c0", "c1"]
    assert [line["tool_call_id"] for line in said[2:4]] == ["c0", "c1"]
    numbers = [message.n for message in place.session.conversation.messages]
    assert numbers == [line["n"] for line in said]


async def test_the_most_rounds_end_the_turn(place: Place) -> None:
    place.replies = [calls("{}")]
    result = await place.ask()
    assert len(place.requests) == len(place.tools.called) == 3
    assert result.finish_reason == "tool"
    assert place.told(Notice)[-1].message.startswith("Stopped after 3 rounds of tools")
    # What the last call found is there for the next question.
    place.replies = [DONE]
    await place.ask("go on")
    assert [message.role for message in place.sent][-2:] == ["tool", "user"]


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (ToolCall("x", "rm", "{}"), 'There is no tool "rm". There are: files__look.'),
        (ToolCall("x", LOOK.name, "{"), "The arguments are not a JSON object."),
        (ToolCall("x", LOOK.name, "[1]"), "The arguments are not a JSON object."),
        (ToolCall("x", LOOK.name, "[" * 5_000), "The arguments are not a JSON object."),
    ],
)
async def test_a_call_that_cannot_be_made_is_told_to_the_model(
    place: Place, called: ToolCall, told: str
) -> None:
    place.replies = [(called, Finish("tool")), DONE]
    result = await place.ask()
    assert place.told(Tool)[-1].status == "failed"
    assert place.sent[-1].content.startswith(told)
    assert place.tools.called == []
    assert result.text == "It says hello."


@pytest.mark.parametrize(
    ("error", "told"),
    [(NotFound("No such file."), "No such file."), (ValueError("ours"), "aish itself failed")],
)
async def test_a_tool_that_fails_is_told_to_the_model(
    place: Place, error: Exception, told: str
) -> None:
    place.tools.said = error
    place.replies = [calls("{}"), DONE]
    await place.ask()
    assert place.told(Tool)[-1].status == "failed"
    assert place.sent[-1].content.startswith(told)


async def test_calls_that_only_read_are_made_at_the_same_time(place: Place) -> None:
    """Each waits for the other; what came of them is kept in the order of the calls."""
    place.tools.reading, place.tools.meet = True, asyncio.Barrier(2)
    place.replies = [calls('{"n": 1}', '{"n": 2}'), DONE]
    async with asyncio.timeout(30):
        await place.ask()
    assert [message.tool_call_id for message in place.sent[2:]] == ["c0", "c1"]
    assert place.tools.called == [("files__look", {"n": 1}), ("files__look", {"n": 2})]


async def test_calls_that_change_something_are_made_one_after_the_other(place: Place) -> None:
    place.replies = [calls('{"n": 1}', '{"n": 2}'), DONE]
    await place.ask()
    assert [(event.call_id, event.status) for event in place.told(Tool)[2:]] == [
        *(("c0", "running"), ("c0", "done"), ("c1", "running"), ("c1", "done")),
    ]


REFUSALS = (
    "registry.ollama.ai/library/gemma:2b does not support tools",
    "No endpoints found that support tool use. Try disabling tools.",
    "tools param requires --jinja flag",
    "Cannot use custom grammar constraints with tools.",
    "Failed to initialize samplers: failed to parse grammar",
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "Function calling is not enabled for models/gemma-3-27b-it",
    "`tools` is not supported with this model",
)


@pytest.mark.parametrize("words", REFUSALS)
async def test_a_model_that_takes_no_tools_is_asked_without_them(place: Place, words: str) -> None:
    place.replies = [BackendRejected("It said no.", provider_message=words, status=400), DONE]
    result = await place.ask()
    assert [bool(request.tools) for request in place.requests] == [True, False]
    assert (result.finish_reason, result.text) == ("stop", "It says hello.")
    await place.ask("And now?")
    assert [bool(request.tools) for request in place.requests] == [True, False, False]
    assert sum("does not support tools" in notice.message for notice in place.told(Notice)) == 0


async def test_a_template_that_leaves_tools_out_is_noticed_by_the_servers_count(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model would never see them: none are offered any more, and no count is doubted."""
    large = replace(LOOK, description="Look at a file, closely. " * 400)
    monkeypatch.setattr(place.tools, "definitions", lambda *_: (large,))
    place.replies = [(Text("Hello."), Usage(400, 5), Finish("stop"))]
    told = []
    for _ in range(3):
        await place.ask()
        told += [notice.message for notice in place.told(Notice)]
    assert [bool(request.tools) for request in place.requests] == [True, False, False]
    assert [one for one in told if "leaves them out" in one or "likely" in one] == [
        "first cannot use tools (its chat template leaves them out), so none are offered to it."
    ]


async def test_a_count_with_the_tools_in_it_is_no_reason_to_do_without(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = replace(LOOK, description="Look at a file, closely. " * 400)
    monkeypatch.setattr(place.tools, "definitions", lambda *_: (large,))
    place.replies = [(Text("Hello."), Usage(1900, 5), Finish("stop"))]
    for _ in range(2):
        await place.ask()
    assert [bool(request.tools) for request in place.requests] == [True, True]


async def test_a_tool_that_a_server_finds_malformed_is_left_out_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(LOOK, name="files__other")
    refused: set[str] = set()

    def definitions(_preset: Preset, _window: int, /) -> tuple[ToolSchema, ...]:
        [names] = place.tools._refused.values() or [refused]
        return tuple(one for one in (LOOK, other) if one.name not in names)

    monkeypatch.setattr(place.tools, "definitions", definitions)
    words = "Invalid schema for function 'files__look': 'properties' is required, in tools[0]"
    place.replies = [BackendRejected("It said no.", provider_message=words, status=400), DONE]
    result = await place.ask()
    assert result.text == "It says hello."
    sent = [[tool.name for tool in request.tools] for request in place.requests]
    assert sent == [["files__look", "files__other"], ["files__other"]]
    await place.ask()
    assert [tool.name for tool in place.requests[-1].tools] == ["files__other"]


async def test_a_refusal_that_names_no_tool_that_was_sent_is_told(place: Place) -> None:
    words = "Invalid schema for function 'look': 'properties' is a required property"
    place.replies = [BackendRejected("It said no.", provider_message=words, status=400), DONE]
    with pytest.raises(BackendRejected):
        await place.ask()
    assert [bool(request.tools) for request in place.requests] == [True]


async def test_no_arguments_are_an_empty_object(place: Place) -> None:
    place.replies = [calls(""), DONE]
    await place.ask()
    assert place.tools.called == [("files__look", {})]


async def test_a_cancel_while_a_tool_runs_leaves_no_call_open(place: Place) -> None:
    place.tools.said = None
    place.replies = [calls("{}", "{}", text="Let me look.")]
    job = place.begin()
    await place.tools.hangs.wait()
    job.cancel()
    place.events = [event async for event in job.events()]
    result = await job.result()
    assert (result.finish_reason, result.text) == ("cancelled", "Let me look.")
    assert len(place.requests) == 1
    turns = place.session.conversation.messages
    assert [(turn.role, turn.content) for turn in turns[2:]] == [("tool", "cancelled")] * 2
    assert [line["content"] for line in place.log() if line.get("role") == "tool"] == [
        *("cancelled", "cancelled"),
    ]
    last = {event.call_id: event.status for event in place.told(Tool)}
    assert last == {"c0": "failed", "c1": "failed"}
    assert len(place.told(Usage)) == 1


class Keeping:
    """Holds the result of one call back before it is written down, until it may be."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch, call_id: str = "c0") -> None:
        self._call_id = call_id
        self.began, self.may_end = asyncio.Event(), asyncio.Event()
        self._keep = place.session.recorder.tool_result
        monkeypatch.setattr(place.session.recorder, "tool_result", self.keep)

    async def keep(self, call_id: str, text: str, status: str) -> int:
        if call_id == self._call_id:
            self.began.set()
            await self.may_end.wait()
        return await self._keep(call_id, text, status)

    async def cancel(self, job: Job[AskResult]) -> None:
        """Cancel a turn while it keeps a result; let it end."""
        await self.began.wait()
        job.cancel()
        for _ in range(9):
            await asyncio.sleep(0)
        assert not job.done
        self.may_end.set()


async def test_a_result_that_is_being_kept_at_a_cancel_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.replies = [calls("{}", "{}", text="Let me look.")]
    keeping = Keeping(place, monkeypatch)
    async with asyncio.timeout(30):
        job = place.begin()
        await keeping.cancel(job)
        place.events = [event async for event in job.events()]
        result = await job.result()
    assert (result.finish_reason, len(place.requests)) == ("cancelled", 1)
    assert len(place.tools.called) == 1
    told = [(event.call_id, event.status, event.result) for event in place.told(Tool)]
    assert told[2:] == [
        *(("c0", "running", None), ("c0", "done", "hello"), ("c1", "failed", "cancelled")),
    ]
    assert place.events[-1] == End("cancelled")
    assert [line["content"] for line in place.log() if line.get("role") == "tool"] == [
        *("hello", "cancelled"),
    ]
    assert not place.session.turn_lock.locked()


async def test_what_was_read_at_the_same_time_is_kept_and_told_once_at_a_cancel(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.tools.reading = True
    place.replies = [calls("{}", "{}")]
    keeping = Keeping(place, monkeypatch)
    async with asyncio.timeout(30):
        job = place.begin()
        await keeping.cancel(job)
        place.events = [event async for event in job.events()]
        await job.result()
    ended = [(one.call_id, one.status) for one in place.told(Tool) if one.result is not None]
    assert ended == [("c0", "done"), ("c1", "done")]
    kept = [line for line in place.log() if line.get("role") == "tool"]
    assert [line["tool_call_id"] for line in kept] == ["c0", "c1"]


@pytest.mark.slow
async def test_what_was_changed_before_a_cancel_is_undone_as_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place.workspace.folder
    subprocess.run(["git", "init", "-q", str(folder)], check=True)

    async def agree(_question: Question) -> bool:
        return True

    monkeypatch.setattr(place.workspace.services, "ask_user", agree)
    place.session.tools = tools_of(place.session)
    written = [json.dumps({"path": name, "content": "new\n"}) for name in ("a.txt", "b.txt")]
    writing = (ToolCall(f"c{at}", "write_file", one) for at, one in enumerate(written))
    place.replies = [(*writing, Finish("tool"))]
    keeping = Keeping(place, monkeypatch, "c1")
    async with asyncio.timeout(60):
        job = place.begin()
        await keeping.cancel(job)
        assert (await job.result()).finish_reason == "cancelled"
    assert sorted(path.name for path in folder.glob("*.txt")) == ["a.txt", "b.txt"]
    undone = await place.workspace.undo.undo(place.session.id, agree)
    assert undone.removed == ["a.txt", "b.txt"]
    assert not list(folder.glob("*.txt"))


async def test_a_cancel_while_the_end_is_told_ends_the_turn(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was written down by then; the next question is not held up."""
    is_telling = asyncio.Event()

    async def emit(event: Event) -> None:
        if isinstance(event, Notice) and event.message == "trouble":
            is_telling.set()
            await asyncio.Event().wait()

    drained = AsyncMock(return_value=["trouble"])
    monkeypatch.setattr(place.session, "drain_warnings", drained)
    turn = Turn(place.session, Ask("What does it say?"), "turn", emit)
    taking = asyncio.create_task(turn.run())
    async with asyncio.timeout(30):
        await is_telling.wait()
        taking.cancel()
        outcome = await taking
    assert (outcome.finish, outcome.error) == ("cancelled", None)
    assert (outcome.result.finish_reason, outcome.result.text) == ("cancelled", "It says hello.")
    assert [line["content"] for line in place.log() if line.get("role") == "assistant"] == [
        "It says hello.",
    ]
    drained.return_value = []
    assert (await place.ask("And now?")).finish_reason == "stop"


async def test_calls_of_a_reply_that_was_cut_are_not_made(place: Place) -> None:
    place.replies = [(Text("Let me"), ToolCall("c0", LOOK.name, "{}"), Finish("length"))]
    result = await place.ask()
    assert (result.finish_reason, place.tools.called) == ("length", [])
    assert place.session.conversation.messages[-1].content == "cancelled"


async def test_once_a_tool_was_called_no_other_model_steps_in(place: Place) -> None:
    place.replies = [calls("{}"), BackendUnavailable("is down."), DONE]
    result = await place.ask()
    assert [request.preset.name for request in place.requests] == ["first", "first"]
    assert (result.model, result.finish_reason) == ("first", "error")
    assert len(place.tools.called) == 1


async def test_what_earlier_rounds_brought_is_kept_where_nobody_answers(place: Place) -> None:
    place.replies = [calls("{}"), BackendUnavailable("is down.")]
    result = await place.ask()
    assert (result.finish_reason, result.text) == ("error", "")
    assert result.error is not None
    assert [message.role for message in place.session.conversation.messages] == [
        "user",
        "assistant",
        "tool",
    ]
    assert all(line.get("meta") != "unanswered" for line in place.log())


async def test_the_oldest_calls_go_where_the_budget_is_short(place: Place) -> None:
    """Whole calls with their results, never the last ones, nor the question."""
    first, second = (json.dumps({"text": f"{word} " * 4000}) for word in ("one", "two"))
    place.replies = [(ToolCall("c1", LOOK.name, first), Finish("tool")), calls(second), DONE]
    result = await place.ask()
    assert (result.text, len(place.requests)) == ("It says hello.", 3)
    assert [message.role for message in place.sent] == ["user", "assistant", "tool"]
    assert place.sent[0].content == "What does it say?"
    assert [call.arguments for call in place.sent[1].tool_calls] == [second]
    assert any("older tool calls" in notice.message for notice in place.told(Notice))
    # They are not lost, only left out.
    assert len(place.session.conversation.messages) == 6


async def test_commands_stand_where_they_are_in_the_whole_text(place: Place) -> None:
    place.replies = [
        calls("{}", text="One.\nCMD: echo 1"),
        (Text("Two.\nCMD: echo 2\n"), Finish("stop")),
    ]
    result = await place.ask()
    lines = result.text.split("\n")
    assert [(info.text, lines[info.line]) for info in result.commands] == [
        ("echo 1", "CMD: echo 1"),
        ("echo 2", "CMD: echo 2"),
    ]
    assert [event.command for event in place.told(Command)] == list(result.commands)


async def test_a_question_without_a_trace_calls_tools_too(place: Place) -> None:
    place.replies = [calls("{}"), DONE]
    result = await place.ask(ephemeral=True)
    assert result.text == "It says hello."
    assert place.session.conversation.messages == []


async def test_a_command_of_a_thought_is_dropped_when_the_thought_ends(place: Place) -> None:
    reply = "Maybe this:\nCMD: rm -rf build\n</think>\nCMD: ls\n"
    place.replies = [(Text(reply), Finish("stop"))]
    result = await place.ask()
    assert result.text == reply
    assert [info.text for info in result.commands] == ["ls"]
    assert [info.text for info in place.session.commands.all()] == ["ls"]


PORT = "What is listening on port 8080?"


def offered(place: Place) -> list[str]:
    return [one.message for one in place.told(Notice) if "The offline model knows" in one.message]


@pytest.mark.slow
async def test_where_a_local_reply_suggests_nothing_the_tables_command_is_offered(
    place: Place,
) -> None:
    place.replies = [(Text("Ports are a wide field, and a port is a door."), Finish("length"))]
    await place.ask(PORT)
    [message] = offered(place)
    assert "8080" in message.partition("`:run ")[2]
    assert place.session.conversation.messages[-1].content.endswith("is a door.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prompt", "reply"),
    [
        (PORT, "CMD: ss -ltnp"),
        ("What does it say?", "Nothing."),
        ("How do I delete all of it except what Bob needs?", "Think twice."),
    ],
)
async def test_a_reply_with_a_command_or_a_question_that_is_not_known_is_left_as_it_is(
    place: Place, prompt: str, reply: str
) -> None:
    place.replies = [(Text(reply), Finish("stop"))]
    await place.ask(prompt)
    assert offered(place) == []


async def test_a_question_of_many_sentences_is_not_looked_up_in_the_table(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aish_lsp.offline.model.sure_command", lambda _text, _folder: "ls")
    place.replies = [(Text("Ports."), Finish("stop"))] * 2
    await place.ask(PORT)
    assert len(offered(place)) == 1
    await place.ask(f"{PORT} {'The fox jumps over the dog. ' * 20}")
    assert offered(place) == []


@pytest.mark.slow
async def test_beside_the_reply_of_another_machines_model_nothing_is_offered(place: Place) -> None:
    config = place.root / "config.toml"
    config.write_text(config.read_text().replace("http://127.0.0.1:9", "https://far.example"))
    await place.workspace.reload()
    place.replies = [(Text("Ports are a wide field."), Finish("stop"))]
    await place.ask(PORT)
    assert offered(place) == []
