"""Other programs beside ours, against the same model's server, with the same prompt.

    python tests/bench/bench_peers.py [ROUNDS]

``./dev bench --peers`` installs them into .bench-peers; what is not there is left out. Agents are
started and asked over their protocol: the start is from the spawn to a session, memory is taken
after the replies. Commands are started for each question, with their start in the first delta.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import peer_counts
from bench_start import answers, framed, opening, spawned
from measuring import TESTS, Row, idle, main, memory_of
from stage import Stage, aish, question, stage

PEERS: Final = TESTS.parent / ".bench-peers"
NPM: Final = PEERS / "node_modules/.bin"
COPILOT: Final = NPM / "copilot-language-server"
AIDER: Final = PEERS / "aider-chat/bin/aider"
AIDER_FLAGS: Final = ("--yes-always", "--no-git", "--no-check-update", "--no-show-model-warnings",
                      "--no-pretty", "--analytics-disable", "--map-tokens", "0")  # fmt: skip
#: Words of a reply, and milliseconds between two of them.
WORDS: Final = 200
PAUSE: Final = 5
#: The figures, as they are named in a row.
KINDS: Final = {
    "start": "start", "first": "first delta", "late": "delay of a delta", "memory": "memory",
    "idle": "idle memory",
}  # fmt: skip
#: Seconds after which a program is left out.
PATIENCE: Final = 90


@dataclass
class Measured:
    """What was measured of a program, a figure for each repetition; milliseconds, megabytes."""

    start: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)


class Words:
    """Takes pieces of text, and notes how late each whole word is."""

    def __init__(self) -> None:
        self._rest = ""
        self.late: list[float] = []

    def feed(self, text: str) -> None:
        """Note the words that a piece completes."""
        now = time.monotonic()
        *whole, self._rest = (self._rest + text).split(" ")
        for word in whole:
            try:
                self.late.append((now - float(word)) * 1000)
            except ValueError:
                continue  # what the program says itself


class Agent:
    """An agent that speaks lines of JSON: the Agent Client Protocol, or codex's app-server."""

    def __init__(self, process: asyncio.subprocess.Process, text_of: Callable[[Any], str]) -> None:
        self.process = process
        self._text_of = text_of
        self._last = 0
        self.words = Words()

    async def ask(self, method: str, until: str = "", **params: Any) -> Any:
        """Return the result of a request, or the notification ``until`` that comes after it."""
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line) if line.startswith(b"{") else {}
            self.words.feed(self._text_of(message))
            if until and message.get("method") == until:
                return message["params"]
            if message.get("id") == self._last and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                if not until:
                    return message["result"]
        raise RuntimeError(f"{method}: the program ended")

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def acp_text(message: Any) -> str:
    """Return the piece of a reply in a message of the Agent Client Protocol."""
    update = message.get("params", {}).get("update", {})
    if update.get("sessionUpdate") != "agent_message_chunk":
        return ""
    text: str = update["content"].get("text", "")
    return text


async def acp_open(agent: Agent, folder: Path) -> Callable[[str], Any]:
    """Open a session; return what sends a prompt."""
    capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}}
    await agent.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
    opened = await agent.ask("session/new", cwd=str(folder), mcpServers=[])
    session = opened["sessionId"]
    return lambda text: agent.ask(
        "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}]
    )


def codex_text(message: Any) -> str:
    """Return the piece of a reply in a message of codex's app-server."""
    if message.get("method") != "item/agentMessage/delta":
        return ""
    text: str = message["params"]["delta"]
    return text


async def codex_open(agent: Agent, folder: Path) -> Callable[[str], Any]:
    """Start a thread; return what sends a prompt."""
    await agent.ask("initialize", clientInfo={"name": "bench", "title": None, "version": "1"})
    agent.send({"method": "initialized"})
    started = await agent.ask("thread/start", cwd=str(folder), approvalPolicy="never")
    thread = started["thread"]["id"]
    return lambda text: agent.ask(
        "turn/start", "turn/completed", threadId=thread, input=[{"type": "text", "text": text}]
    )


async def agent(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    opened: Callable[..., Any],
    text_of: Callable[[Any], str],
) -> Measured:
    """Start an agent, ask it three times, and return what was measured once."""
    pipe = asyncio.subprocess.PIPE
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, **env}, cwd=folder, limit=1 << 26, start_new_session=True,
    )  # fmt: skip
    try:
        peer = Agent(process, text_of)
        send = await opened(peer, folder)
        measured = Measured(start=[(time.monotonic() - begun) * 1000])
        for number in range(3):
            peer.words = Words()
            asked = time.monotonic()
            sent = asyncio.create_task(send(question(WORDS, PAUSE)))
            while not peer.words.late and not sent.done():
                await asyncio.sleep(0.0005)
            first = (time.monotonic() - asked) * 1000
            await sent
            # The first question loads what is used.
            if number and peer.words.late:
                measured.first.append(first)
                measured.late.append(statistics.median(peer.words.late))
        await idle(process.pid)
        measured.memory.append(memory_of(process.pid))
        return measured
    finally:
        os.killpg(process.pid, 9)
        await process.communicate()


async def by_command(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Measured:
    """Run a command that answers a question, and return what was measured once."""
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, env={**os.environ, **env}, cwd=folder,
    )  # fmt: skip
    words, first, memory = Words(), 0.0, 0.0
    assert process.stdout is not None
    while data := await process.stdout.read(4096):
        words.feed(data.decode(errors="replace"))
        if words.late and not first:
            first = (time.monotonic() - begun) * 1000
        if len(words.late) > WORDS // 2 and not memory:
            memory = memory_of(process.pid)
    await process.wait()
    late = [statistics.median(words.late)] if words.late else []
    return Measured(first=[first] if first else [], late=late, memory=[memory] if memory else [])


def programs(made: Stage) -> dict[str, Callable[[], Any]]:
    """Return what measures each program that is there; ours come first."""
    url, folder, home = f"{made.url}/v1", made.workspace, made.root
    asked = question(WORDS, PAUSE)
    model = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": url, "apiKey": "x"},
             "models": {"m": {"limit": {"context": 100_000, "output": 8_000}}}}  # fmt: skip
    opencode = {"provider": {"mine": model}, "model": "mine/m", "small_model": "mine/m",
                "autoupdate": False, "share": "disabled"}  # fmt: skip
    provider = f'model_providers.mine={{name="mine",base_url="{url}",wire_api="responses"}}'
    codex = ("-c", provider, "-c", 'model_provider="mine"', "-c", 'model="m"')
    key = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": made.url}
    openai = {"OPENAI_API_KEY": "x", "OPENAI_API_BASE": url}
    (home / "llm").mkdir(exist_ok=True)
    llm = f"- model_id: mine\n  model_name: m\n  api_base: {url}\n  api_key_name: none\n"
    (home / "llm/extra-openai-models.yaml").write_text(llm, encoding="utf-8")
    gemini = (str(NPM / "gemini"), "--acp", "-m", "gemini-2.5-flash")
    found: dict[str, tuple[Path | None, Callable[[], Any]]] = {
        "aish-lsp": (None, lambda: language_server(aish(), folder)),
        "copilot-language-server": (
            COPILOT,
            lambda: language_server((str(COPILOT), "--stdio"), folder),
        ),
        "aish-lsp acp": (
            None,
            lambda: agent(aish("acp"), {}, folder, acp_open, acp_text),
        ),
        "codex app-server": (
            NPM / "codex",
            lambda: agent(
                (str(NPM / "codex"), "app-server", *codex), {}, folder, codex_open, codex_text
            ),
        ),
        "opencode acp": (
            NPM / "opencode",
            lambda: agent(
                (str(NPM / "opencode"), "acp"),
                {"OPENCODE_CONFIG_CONTENT": json.dumps(opencode)},
                folder, acp_open, acp_text,
            ),
        ),
        "gemini-cli --acp": (
            NPM / "gemini",
            lambda: agent(gemini, key, folder, acp_open, acp_text),
        ),
        "aish-lsp ask": (None, lambda: by_command(aish("ask", "--no-stdin", asked), {}, folder)),
        "llm": (
            PEERS / "llm/bin/llm",
            lambda: by_command(
                (str(PEERS / "llm/bin/llm"), "-m", "mine", "--key", "x", asked),
                {"LLM_USER_PATH": str(home / "llm")}, folder,
            ),
        ),
        "aider": (
            AIDER,
            lambda: by_command(
                (str(AIDER), "--model", "openai/m", *AIDER_FLAGS, "-m", asked),
                openai, folder,
            ),
        ),
    }  # fmt: skip
    return {name: run for name, (path, run) in found.items() if path is None or path.exists()}


async def rows(rounds: int) -> list[Row]:
    """Measure all in turns; each figure of the others is held against ours."""
    with stage() as made:
        measures = programs(made)
        taken: dict[str, list[Measured]] = {name: [] for name in measures}
        for _ in range(rounds):
            for name, measure in measures.items():
                try:
                    taken[name].append(await asyncio.wait_for(measure(), PATIENCE))
                except (TimeoutError, RuntimeError, OSError, ValueError) as error:
                    sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
    return held(taken) + await peer_counts.rows(AIDER, AIDER_FLAGS)


async def language_server(command: Sequence[str], folder: Path) -> Measured:
    """Measure the answer to ``initialize``, and the memory of a server that was asked nothing."""
    begin = opening(folder)
    editor = {"name": "bench", "version": "1"}
    begin[0]["params"]["initializationOptions"] = {"editorInfo": editor, "editorPluginInfo": editor}
    async with spawned(command, framed(begin), answers(1)) as (sample, pid):
        await idle(pid)
        return Measured(start=[sample.seconds * 1000], idle=[memory_of(pid)])


#: Which of our ways in is held against which programs.
AGAINST: Final = {
    "aish-lsp": ("codex app-server", "copilot-language-server"),
    "aish-lsp acp": ("codex app-server", "opencode acp", "gemini-cli --acp"),
    "aish-lsp ask": ("llm", "aider"),
}


def held(taken: Mapping[str, list[Measured]]) -> list[Row]:
    """Return a row for each figure in which ours is held against another program's."""
    result = []
    for ours, others in AGAINST.items():
        for other in others:
            for kind, name in KINDS.items():
                mine, theirs = (
                    [value for one in taken.get(program, []) for value in getattr(one, kind)]
                    for program in (ours, other)
                )
                both = min(len(mine), len(theirs))
                if both:
                    unit = "MB" if "memory" in name else "ms"
                    row = Row(f"{ours}: {name}", other, mine[:both], theirs[:both], 1, unit=unit)
                    result.append(row)
    return result


if __name__ == "__main__":
    main(rows, 3)
