"""A long session: the real server, driven over LSP, against a real llama.cpp with a small window.

Whatever is not as it must be, at any request, is a fault of the session. ``tools/long_session``
holds hundreds of turns and writes what they came to into the documentation;
``test_long_session_llama.py`` holds some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from client import Client, RpcError
from conversing import SHOWS_NOTHING, Place, chat_holds, yes
from fault_server import FaultServer
from llama_server import LlamaServer
from long_questions import Question, Script
from speaking_proxy import Call, SpeakingProxy

#: With the endpoint's tokenizer, an estimate may be off by so many tokens, or by such a share.
EXACT_TOKENS, EXACT_SHARE = 8, 0.01

#: Tokens at the end of what is kept that llama.cpp may read again.
_SEAM = 8

#: Seconds for llama.cpp to answer, and milliseconds to count, on a busy machine.
_TIMEOUT = 120.0
_TOKENIZE_TIMEOUT = 30_000

#: llama.cpp closes an idle connection when it likes, be it in the moment that it is used again.
_FRESH = httpx.Limits(max_keepalive_connections=0)

_LOGGED = re.compile(r"estimated (\d+) tokens \((actual|estimated)\), actual (\d+)")
_PAGE = re.compile(r"```\n(?:Context|Session).*?\n```", re.DOTALL)

_FILES = {
    "Makefile": "test:\n\tpython -c 'import app; print(app.words(\"a b\"))'\n",
    "app.py": '''\
"""Counts words."""

import sys


def words(text: str) -> int:
    return len(text.split())


def main() -> None:
    print(words(sys.stdin.read()))
''',
}


@dataclass(frozen=True)
class Plan:
    """Which session is held.

    Attributes:
        questions: how many.
        window: the model's, in tokens.
        use_endpoint: whether the model's own tokenizer counts.
        model: the model's file; by default the tiny one, whose tokens are bytes.
        seed: of what is said.
    """

    questions: int
    window: int
    use_endpoint: bool
    model: Path | None = None
    seed: int = 3

    @property
    def max_output(self) -> int:
        """The tokens of the longest reply."""
        return max(256, self.window // 16) if self.model else self.window // 4

    @property
    def longest(self) -> int:
        """The characters of the longest question."""
        return int(self.window * (0.85 if self.model else 0.2))

    @property
    def longest_summary(self) -> int:
        """The characters that a summary may have."""
        return self.window // (12 if self.model else 24)

    def configuration(self, endpoint: str) -> str:
        """Return the user's ``config.toml``."""
        return f"""\
default_model = "local"
[models.local]
endpoint = "{endpoint}"
model = "{self.model.stem if self.model else "aish-tiny"}"
max_output_tokens = {self.max_output}
temperature = 0.0
[context]
max_summary_chars = {self.longest_summary}
[tokenize]
use_endpoint = {json.dumps(self.use_endpoint)}
timeout_ms = {_TOKENIZE_TIMEOUT}
[tools.servers.aish]
enabled = false
"""


@dataclass(frozen=True)
class Row:
    """One question: how large its request was said to be before it left, and was. Tokens.

    ``turns`` are those sent, ``evicted`` those left out for it; ``basis`` is what the estimate
    rests on: the server's count of the request before, or estimates alone. ``new_system`` tells
    whether a block of the system message is another one than in the request before.
    """

    number: int
    kind: str
    turns: int
    estimated: int
    basis: str
    actual: int
    cached: int
    evicted: int
    new_system: bool

    @property
    def error(self) -> int:
        """By how much the estimate was above the truth."""
        return self.estimated - self.actual

    @property
    def error_percent(self) -> float:
        """The same, in percent of the truth."""
        return 100 * self.error / self.actual

    def is_within(self, tokens: int, share: float) -> bool:
        """Return whether the estimate was off by no more than so many tokens, or such a share."""
        return abs(self.error) <= max(tokens, share * self.actual)


@dataclass
class Recording:
    """What a session came to.

    Attributes:
        rows: the questions that were answered.
        calls: all requests, those for summaries among them.
        faults: what was not as it must be; empty for a good session.
        shown: what the user was shown at the end, and what the files held, by a name.
    """

    plan: Plan
    calls: list[Call]
    rows: list[Row] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)


async def record(plan: Plan, folder: Path, tell: Callable[[Row], None] | None = None) -> Recording:
    """Hold a session in the empty ``folder``; return what it came to.

    ``tell`` is told of each question.
    """
    place = Place.make(folder)
    for name, text in _FILES.items():
        (place.folder / name).write_text(text)
    async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, limits=_FRESH) as http:
        with LlamaServer(model=plan.model, context=plan.window) as llama:
            said = _Said(plan, thinks="<think>" in llama.get("/props")["chat_template"])
            proxy = SpeakingProxy(llama.url, http, said.reply)
            async with FaultServer(proxy.hand_on) as server, place.client() as client:
                place.config.write_text(plan.configuration(server.url))
                client.answers["window/showMessageRequest"] = yes
                await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
                session = _Session(plan, place, client, said, proxy.calls)
                await session.hold(tell)
                await session.end()
    return session.recording


class _Said:
    """What user and model say."""

    def __init__(self, plan: Plan, *, thinks: bool) -> None:
        self._script = Script(plan.seed, plan.longest, plan.longest_summary)
        self._thinks = thinks
        self._question: Question | None = None

    def question(self) -> Question:
        """Return what is asked next."""
        self._question = self._script.question()
        return self._question

    def reply(self, call: Call) -> str:
        """Return what the model says to a request."""
        if call.is_summary:
            return self._script.summary()
        assert self._question is not None
        reply, reasoning = self._question.reply, self._question.reasoning
        return f"<think>\n{reasoning}\n</think>\n\n{reply}" if reasoning and self._thinks else reply


class _Logged(NamedTuple):
    estimated: int
    basis: str


class _Session:
    """One session, and what is known of it so far."""

    def __init__(
        self, plan: Plan, place: Place, client: Client, said: _Said, calls: list[Call]
    ) -> None:
        self.recording = Recording(plan, calls)
        self._place = place
        self._client = client
        self._said = said
        #: The roles and texts of all turns, evicted or not.
        self._turns: list[tuple[str, str]] = []
        self._evicted = 0
        #: What the system message has to hold since a block was changed.
        self._news: list[str] = []
        self._last: Call | None = None
        self._number = 0

    async def hold(self, tell: Callable[[Row], None] | None) -> None:
        """Ask all questions."""
        questions = self.recording.plan.questions
        for self._number in range(1, questions + 1):
            if 4 * self._number // questions != 4 * (self._number - 1) // questions:
                await self._change_a_block(4 * self._number // questions)
            row = await self._ask(self._said.question())
            if row is not None:
                self.recording.rows.append(row)
                if tell is not None:
                    tell(row)

    async def _change_a_block(self, quarter: int) -> None:
        """Make a file, or have something remembered."""
        if quarter == 2:
            self._news.append("notes.txt")
            await self._run("printf 'one\\ntwo\\n' > notes.txt")
        else:
            self._news.append(f"The release of quarter {quarter} is built by make.")
            fact = {"kind": "fact", "content": self._news[-1]}
            await self._client.command_result("aish.memory.add", fact)

    async def _run(self, command: str) -> None:
        token = f"run {self._number} {command}"
        run = {"text": command, "partialResultToken": token}
        await self._client.command_result("aish.run", run)

    async def _ask(self, question: Question) -> Row | None:
        """Ask a question, and look at all that was sent for it."""
        for command in question.commands:
            await self._run(command)
        first = len(self.recording.calls)
        asked = {"prompt": question.prompt, "partialResultToken": f"ask {self._number}"}
        try:
            result = await self._client.command_result("aish.ask", asked, timeout=2 * _TIMEOUT)
        except RpcError as error:
            self._fault(f"there was no answer: {error}")
            return None
        calls = self.recording.calls[first:]
        for call in calls:
            self._check_request(call)
        *_, call = [one for one in calls if not one.is_summary]
        new_system = self._last is None or self._last.messages[0] != call.messages[0]
        self._check_turns(call, question, result)
        if len(calls) == 1 and not new_system:
            self._check_prefix(call)
        self._check_report(call, result["context"])
        self._last = call
        logged = await self._logged(call)
        if logged is None:
            return None
        row = Row(
            number=self._number,
            kind=question.kind,
            turns=len(call.messages) - 1,
            estimated=logged.estimated,
            basis=logged.basis,
            actual=call.prompt_tokens,
            cached=call.cached_tokens,
            evicted=result["evictedTurns"],
            new_system=new_system,
        )
        self._check_estimate(row)
        return row

    def _check_request(self, call: Call) -> None:
        """See that a request was accepted, leaves room for a reply, and alternates in its roles."""
        plan = self.recording.plan
        if call.status != 200:
            self._fault(f"llama.cpp answered {call.status} to {len(call.messages)} messages")
        elif not 0 < call.prompt_tokens <= plan.window - plan.max_output:
            self._fault(f"a request had {call.prompt_tokens} tokens")
        roles = [message["role"] for message in call.messages]
        if roles != ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]:
            self._fault(f"the roles were {roles}")

    def _check_turns(self, call: Call, question: Question, result: Any) -> None:
        """See that all that was not evicted was sent as it was said, and then the question."""
        system = call.messages[0]["content"]
        if not all(news in system for news in self._news):
            self._fault(f"of {self._news} not all is in the system message:\n{system}")
        self._evicted += result["evictedTurns"]
        *sent, (_, asked) = [(one["role"], one["content"]) for one in call.messages[1:]]
        if sent != self._turns[self._evicted :]:
            self._fault(f"of {len(self._turns)} turns, {self._evicted} evicted, others were sent")
        missing = [command for command in question.commands if f"$ {command} (exit " not in asked]
        if missing or not asked.endswith(question.prompt):
            self._fault(f"the question that was sent is not the one that was asked: {missing}")
        # Some tokenizers put a blank before a text.
        if result["text"].lstrip() != question.reply or result["finishReason"] != "stop":
            self._fault(f"the reply was {result['text']!r}, {result['error']}")
        self._turns += [("user", asked), ("assistant", result["text"])]

    def _check_prefix(self, call: Call) -> None:
        """See that the cache served all of the request before."""
        assert self._last is not None
        if call.cached_tokens < self._last.prompt_tokens - _SEAM:
            before = self._last.prompt_tokens
            self._fault(f"{call.cached_tokens} of {before} tokens came from the cache")

    def _check_report(self, call: Call, context: Any) -> None:
        """See that the numbers that are shown add up, and are those of llama.cpp."""
        if sum(context["breakdown"].values()) != context["total"]:
            self._fault(f"the parts of {context['total']} are {context['breakdown']}")
        reported = [context["lastCall"][name] for name in ("input", "output", "cacheRead")]
        counted = [call.prompt_tokens, call.output_tokens, call.cached_tokens]
        if reported != counted:
            self._fault(f"reported were {reported}, counted {counted}")
        if context["contextWindow"] != self.recording.plan.window:
            self._fault(f"the window was taken for {context['contextWindow']}")

    async def _logged(self, call: Call) -> _Logged | None:
        """Return what the server's log says that the request was expected to be."""

        def lines() -> list[tuple[str, str, str]]:
            return _LOGGED.findall(self._client.stderr)[len(self._turns) // 2 - 1 :]

        try:
            found = await self._client.wait_for(lines, "the log of a call", timeout=10)
        except TimeoutError:
            self._fault(f"no count of {call.prompt_tokens} tokens was logged")
            return None
        estimated, basis, actual = found[-1]
        if int(actual) != call.prompt_tokens:
            self._fault(f"logged were {actual} tokens, counted {call.prompt_tokens}")
        return _Logged(int(estimated), basis)

    def _check_estimate(self, row: Row) -> None:
        """See that what the model's own tokenizer counted is what was sent."""
        exact = self.recording.plan.use_endpoint
        if exact and not row.is_within(EXACT_TOKENS, EXACT_SHARE):
            self._fault(f"{row.estimated} tokens were expected, and {row.actual} sent")

    async def end(self) -> None:
        """See that the costs add up, and take down what the user is shown."""
        client, place, calls = self._client, self._place, self.recording.calls
        used = (await client.command_result("aish.cost.show"))["total"]
        counted = {
            "input": sum(call.prompt_tokens for call in calls),
            "output": sum(call.output_tokens for call in calls),
            "cacheRead": sum(call.cached_tokens for call in calls),
            "calls": len(calls),
        }
        if {name: used[name] for name in counted} != counted:
            self._fault(f"accounted were {used}, counted {counted}")
        [usage_file] = place.data.glob("workspaces/*/usage.jsonl")
        written = usage_file.read_text().splitlines()
        if len(written) != len(calls):
            self._fault(f"{len(written)} calls were written down of {len(calls)}")
        shown = self.recording.shown
        context = await client.command_result("aish.context.show")
        shown["json"] = json.dumps(context, indent=2)
        for page in ("context", "cost detail"):
            await client.command_result("aish.chat.send", {"prompt": f":{page}"})
        chat = await chat_holds(client, place, "[estimated session ctx:")
        shown["context"], shown["cost"] = _PAGE.findall(chat)[-2:]
        shown["usage"] = written[-1]
        calibration = place.data / "calibration.json"
        if calibration.exists():
            # Of what the model's own tokenizer counts, nothing is learned.
            shown["calibration"] = calibration.read_text().rstrip()

    def _fault(self, what: str) -> None:
        self.recording.faults.append(f"question {self._number}: {what}")
