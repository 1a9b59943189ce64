"""What the next request is said to come to, against what llama.cpp then counts, call by call.

The real server process is driven over LSP, with everything that changes a request on the way. The
tiny model's tokens are bytes, which only its own tokenizer knows; estimates are held against the
vocabularies of real models, which are a development machine's.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from client import Client
from conversing import SHOWS_NOTHING, Place, ask, events, yes
from llama_server import LlamaServer, says
from natural_texts import NATURAL
from real_counts import RealCounts

from aish_lsp.agent.accounting import Accounting
from aish_lsp.agent.events import Usage
from aish_lsp.agent.services import Services
from aish_lsp.config.schema import Config, Preset, Tokenize
from aish_lsp.context.budget import Budget, Limits
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.prompt import Blocks
from aish_lsp.models.request import ModelRequest, ToolCall

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")

#: Calls after which an estimate has to be near.
LEARNED_AFTER = 3

#: Tokens of a cached prefix's end that llama.cpp may read again.
SEAM = 8

#: What the models say. Random weights cut a text into other tokens than its own: what they say is
#: short where tokens are words, for to read it again takes fewer tokens than were reported.
SHORT = {"one": "Yes.\n", "two": "No.\n"}
LONG = {
    "one": (
        "The module has three parts. First it reads the configuration, then it opens a\n"
        "connection, and at the end it writes what it found into a file. I would begin with\n"
        "the second part, since it has no tests.\n\n```python\ndef opened(path: str) -> bool:\n"
        "    return path.endswith('.toml')\n```\n"
    ),
    "two": "It looks right to me. Run the tests once more before you send it.\n",
}

pytestmark = [pytest.mark.llama, pytest.mark.usefixtures("parts"), pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Call:
    """A question, what its request was said to come to, and what the server counted. Tokens."""

    step: str
    model: str
    said: int
    actual: int
    output: int
    cached: int
    evicted: int
    context: dict[str, Any]

    @property
    def error(self) -> int:
        return self.said - self.actual

    def is_within(self, share: float) -> bool:
        return abs(self.error) <= max(8, share * self.actual)

    def __str__(self) -> str:
        percent = 100 * self.error / self.actual
        return f"{self.step:<18}{self.model} {self.said:6} {self.actual:6} {percent:+6.1f} %"


@dataclass
class Session:
    """A conversation through the real server process, with each of its calls."""

    place: Place
    client: Client
    #: Where tokens are bytes, texts have to be short.
    shortened: int = 1
    calls: list[Call] = field(default_factory=list)
    text: random.Random = field(default_factory=lambda: random.Random(1))

    async def ask(self, step: str, kind: str = "python", size: int = 500) -> Call:
        """Ask about a text, and check what the context's report says before and after."""
        token = f"question {len(self.calls)}"
        question = f"What does this do?\n{NATURAL[kind](self.text, size // self.shortened)}"
        before = await self.client.command_result("aish.context.show", {})
        check_sums(before)
        result = await ask(self.client, question, token)
        [start] = events(self.client, token, "start")
        usage, after = result["usage"], result["context"]
        call = Call(
            step=step,
            model=result["model"],
            said=start["contextTokens"],
            actual=usage["inputTokens"],
            output=usage["outputTokens"],
            cached=usage["cacheReadTokens"],
            evicted=result["evictedTurns"],
            context=after,
        )
        self.calls.append(call)
        sys.stdout.write(f"{call}\n")
        check_sums(after)
        compared = after["accuracy"]
        assert (compared["estimated"], compared["actual"]) == (call.said, call.actual)
        assert compared["errorTokens"] == call.error
        assert compared["errorPercent"] == pytest.approx(100 * call.error / call.actual, abs=0.06)
        # All that goes back of this call is known by now.
        assert (after["basis"], after["newSince"]) == ("actual", 0)
        assert after["total"] == call.actual + call.output
        assert after["lastCall"]["input"] == call.actual
        return call

    async def go_through(self) -> None:
        """Ask with everything that changes a request in between."""
        client, folder = self.client, self.place.folder
        for kind in ("python", "english", "json", "python"):
            await self.ask("code and prose", kind, 1000)
        # What is new is estimated by itself: in a request that is mostly new it shows.
        for command in ("ls -l / | head -9", "seq 30"):
            await client.command_result("aish.run", {"text": command, "partialResultToken": "run"})
            await self.ask("command output", "english", 100)
        note = {"kind": "fact", "content": "The release is built by `make dist` on Fridays."}
        await client.command_result("aish.memory.add", note)
        await self.ask("memory added")
        for name in ("parser.py", "test_parser.py", "CHANGES.md"):
            (folder / name).write_text("")
        await self.ask("files created")
        with (folder / "AGENTS.md").open("a") as instructions:
            instructions.write(NATURAL["english"](self.text, 600))
        await self.ask("more instructions")
        await client.command_result("aish.model.use", {"name": "two"})
        for _ in range(LEARNED_AFTER + 1):
            await self.ask("another model", "english", 200)
        await client.command_result("aish.model.use", {"name": "one"})
        for _ in range(2):
            await self.ask("and back")

    async def fill(self, evictions: int) -> None:
        """Ask until turns have been evicted so many times, and once more."""
        for _ in range(40):
            call = await self.ask("filling", "python", 700)
            if call.context["compactions"] >= evictions:
                break
        await self.ask("after eviction")

    def after_learning(self) -> Iterator[Call]:
        """Yield the calls to models that had been called often enough before."""
        seen: dict[str, int] = {}
        for call in self.calls:
            seen[call.model] = seen.get(call.model, 0) + 1
            if seen[call.model] > LEARNED_AFTER:
                yield call


def check_sums(context: dict[str, Any]) -> None:
    assert sum(context["breakdown"].values()) == context["total"]
    assert all(part >= 0 for part in context["breakdown"].values())
    assert context["free"] == max(0, context["tokenBudget"] - context["total"])
    assert context["tokenBudget"] <= context["contextWindow"] - context["outputReserve"]


def vocabulary(file: str) -> Path:
    path = SHARED / "models" / file
    if not path.exists():
        pytest.skip(f"needs {file} in {SHARED.name}/models")
    return path


def words() -> dict[str, Path | None]:
    """Return two real vocabularies."""
    return {"one": vocabulary("tiny-qwen3think.gguf"), "two": vocabulary("tiny-llama-spm.gguf")}


@dataclass(frozen=True)
class Setting:
    """Two servers, and how their tokens are counted."""

    window: int
    files: dict[str, Path | None]
    use_endpoint: bool


def configure(place: Place, setting: Setting, urls: dict[str, str]) -> None:
    """Write a configuration with two models; nothing is summarized, so nothing else is called."""
    replies = SHORT if any(setting.files.values()) else LONG
    families = {"one": "qwen3", "two": "llama-2"}
    tables = [
        f'[models.{name}]\nendpoint = "{url}"\nmodel = "{families[name]}"\ntemperature = 0.0\n'
        f"max_output_tokens = 256\nextra_body = {{grammar = {json.dumps(says(replies[name]))}}}\n"
        for name, url in urls.items()
    ]
    counting = f"[tokenize]\nuse_endpoint = {json.dumps(setting.use_endpoint)}\ntimeout_ms = 30000"
    text = "\n".join(
        ['default_model = "one"', *tables, "[context]\nsummarize = false\n", counting, ""]
    )
    place.config.write_text(text, encoding="utf-8")


async def held(
    setting: Setting, folder: Path, talk: Callable[[Session], Awaitable[None]]
) -> Session:
    """Hold a conversation with two llama.cpp servers."""
    shortened = 1 if any(setting.files.values()) else 4
    place = Place.make(folder)
    # A project as they are: the prompt is some thousand tokens before anything is said.
    (place.folder / "Makefile").write_text("dist:\n\ttrue\n")
    (place.folder / "AGENTS.md").write_text(NATURAL["english"](random.Random(3), 5000 // shortened))
    with ExitStack() as stack:
        urls = {
            name: stack.enter_context(LlamaServer(model=file, context=setting.window)).url
            for name, file in setting.files.items()
        }
        configure(place, setting, urls)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            session = Session(place, client, shortened)
            await talk(session)
    return session


def check_cache(calls: list[Call]) -> None:
    """Check that each request begins with all of the one before, unless something was evicted."""
    for before, call in pairwise(calls):
        if not call.evicted:
            assert call.cached >= before.actual - SEAM, str(call)


@pytest.mark.shared
async def test_after_three_calls_the_estimate_is_near(tmp_path: Path) -> None:
    files = {
        "one": vocabulary("tiny-qwen3think.gguf"),
        "two": vocabulary("tiny-llama-spm.gguf"),
    }
    session = await held(Setting(8192, {**files}, use_endpoint=False), tmp_path, Session.go_through)
    assert [str(call) for call in session.after_learning() if not call.is_within(0.03)] == []


async def test_with_the_servers_tokenizer_the_first_count_is_near_too(tmp_path: Path) -> None:
    setting = Setting(32768, {"one": None, "two": None}, use_endpoint=True)
    session = await held(setting, tmp_path, Session.go_through)
    assert [str(call) for call in session.calls if not call.is_within(0.01)] == []


@pytest.mark.shared
async def test_with_a_real_vocabularys_server_the_first_count_is_near_too(tmp_path: Path) -> None:
    session = await held(Setting(8192, words(), use_endpoint=True), tmp_path, Session.go_through)
    assert [str(call) for call in session.calls if not call.is_within(0.01)] == []


@pytest.mark.shared
async def test_evictions_are_rare_and_leave_the_rest_cached(tmp_path: Path) -> None:
    setting = Setting(4096, {"one": vocabulary("tiny-qwen3think.gguf")}, use_endpoint=False)

    async def fill(session: Session) -> None:
        await session.fill(evictions=3)

    calls = (await held(setting, tmp_path, fill)).calls
    check_cache(calls)
    evicting = [number for number, call in enumerate(calls) if call.evicted]
    # A fourth of the budget goes at a time: several questions fit before the next has to go.
    assert min(after - before for before, after in pairwise(evicting)) >= 2
    assert len(calls) >= 3 * len(evicting)
    late = calls[LEARNED_AFTER:]
    assert [str(call) for call in late if not call.is_within(0.03)] == []


@pytest.mark.shared
@pytest.mark.parametrize("exact", [False, True], ids=["estimate", "own tokenizer"])
async def test_tool_calls_and_their_results_are_near_too(*, exact: bool) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(LlamaServer(model=vocabulary("tiny-qwen3think.gguf")))
        counts = stack.enter_context(RealCounts(server.url))
        services = Services(environ={})
        preset = Preset(name="one", endpoint=server.url, model="qwen3")
        compared = await compared_with_tools(preset, counts, Accounting(services), exact=exact)
        await services.aclose()
    share = 0.01 if exact else 0.03
    late = compared if exact else compared[LEARNED_AFTER:]
    off = [(said, actual) for said, actual in late if abs(said - actual) > max(8, share * actual)]
    assert off == []


async def compared_with_tools(
    preset: Preset, counts: RealCounts, accounting: Accounting, *, exact: bool
) -> list[tuple[int, int]]:
    """Hold a conversation of tool calls; return what each request was said to be, and was."""
    text, conversation = random.Random(2), Conversation()
    config = Config(tokenize=Tokenize(use_endpoint=exact, timeout_ms=30_000))
    limit = Limits(window=32768, output_reserve=1024, budget=30000)
    compared = []
    for number in range(24):
        call = ToolCall(f"call{number:05}", "search", json.dumps({"pattern": f"part_{number}"}))
        answers_result = bool(number % 2)
        if answers_result:
            result = NATURAL["output" if number % 4 == 1 else "python"](text, 400)
            conversation.append_tool(f"call{number - 1:05}", result)
        else:
            conversation.append_user(NATURAL["english"](text, 300))
        counter = accounting.counter(preset, config)
        budget = Budget(Blocks(NATURAL["english"](text, 8000)), config.context, limit, counter)
        prepared = await budget.plan(conversation)
        actual = counts.request(ModelRequest(preset, prepared.messages()))
        compared.append((prepared.measure.total, actual))
        assert prepared.measure.breakdown.total == prepared.measure.total
        reply = NATURAL["english"](text, 100)
        calls = [] if answers_result else [call]
        # As Qwen writes a call.
        named = f'{{"name": "{call.name}", "arguments": {call.arguments}}}'
        wire = f"\n<tool_call>\n{named}\n</tool_call>"
        output = counts.text(reply + wire * len(calls)) + 1
        conversation.append_assistant(reply, tool_calls=calls)
        accounting.answered(conversation, prepared, counter, Usage(actual, output))
    sys.stdout.write(f"{compared}\n")
    return compared
