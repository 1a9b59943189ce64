"""How soon code actions and lenses come, in a document of 10,000 lines with 500 suggestions.

    python tests/bench/bench_lenses.py [ROUNDS]

Over stdio, as an editor asks for them, against a minimal pygls server that answers the same from a
variable. A round is 50 requests of each.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, Final, Self

from measuring import Row, cpu_seconds, main, percentile
from stage import AISH, stage

# isort: split
from client import Client, _Stream

LINES: Final = 10_000
SUGGESTIONS: Final = 500
REQUESTS: Final = 50

#: Has the same answers ready: two lenses for each suggestion, and three actions.
READY: Final = f"""
from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("ready", "1")
run = types.Command("Run", "run", arguments=[{{"text": "ls -l file.txt", "uri": "file:///x/y.md"}}])
lenses = [
    types.CodeLens(types.Range(types.Position(line, 0), types.Position(line, 0)), command=run)
    for line in range({2 * SUGGESTIONS})
]
actions = [types.CodeAction("Run", "quickfix", command=run) for _ in range(3)]

@server.feature(types.TEXT_DOCUMENT_CODE_LENS)
def _lenses(params):
    return lenses

@server.feature(types.TEXT_DOCUMENT_CODE_ACTION)
def _actions(params):
    return actions

server.start_io()
"""


class Ready(Client):
    """A client that takes any headers, as pygls sends more than we do."""

    async def start(self) -> Self:
        await super().start()
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self._stream = _AnyHeaders(self.process.stdout, self.process.stdin)
        return self


class _AnyHeaders(_Stream):
    async def receive(self) -> bytes | None:
        try:
            header = await self._reader.readuntil(b"\r\n\r\n")
            return await self._reader.readexactly(int(header.split()[1]))
        except (asyncio.IncompleteReadError, OSError):
            return None


def text() -> str:
    """Return the document."""
    every = LINES // SUGGESTIONS
    lines = (
        f"CMD: ls -l folder/file{number}.txt | head -n {number}"
        if number % every == 0
        else f"This is line {number} of the notes."
        for number in range(LINES)
    )
    return "\n".join(lines)


async def requests(client: Client, uri: str, method: str) -> list[float]:
    """Return the milliseconds that each request takes."""
    taken = []
    for number in range(REQUESTS):
        place = {"line": number * LINES // REQUESTS, "character": 0}
        params: dict[str, Any] = {"textDocument": {"uri": uri}}
        if method.endswith("codeAction"):
            params |= {"range": {"start": place, "end": place}, "context": {"diagnostics": []}}
        begun = time.perf_counter()
        assert await client.request(method, params)
        taken.append((time.perf_counter() - begun) * 1000)
    return taken


async def rows(rounds: int) -> list[Row]:
    """Measure both kinds of request."""
    return await measured(rounds, "textDocument/codeAction", "textDocument/codeLens")


async def measured(rounds: int, *methods: str) -> list[Row]:
    """Measure in turns."""
    with stage() as made:
        path: Path = made.workspace / "notes.md"
        document = {"uri": path.as_uri(), "languageId": "markdown", "version": 1, "text": text()}
        taken: dict[str, tuple[list[float], list[float]]] = {one: ([], []) for one in methods}
        pygls = (sys.executable, "-c", READY)
        async with Client(command=AISH) as ours, Ready(command=pygls) as ready:
            for client in (ours, ready):
                await client.initialize(made.workspace)
                await client.notify("textDocument/didOpen", {"textDocument": document})
                for method in methods:
                    await requests(client, path.as_uri(), method)
            used = {method: [0.0, 0.0] for method in methods}
            for _ in range(rounds):
                for method, figures in taken.items():
                    for at, client in enumerate((ours, ready)):
                        before = cpu_seconds(client.process.pid)
                        each = await requests(client, path.as_uri(), method)
                        used[method][at] += cpu_seconds(client.process.pid) - before
                        figures[at].append(percentile(each, 99))
            ready.process.kill()
    return [
        Row(
            f"`{method}`, {LINES:,} lines, p99",
            "pygls, answers ready",
            *figures,
            2,
            "value",
            cpu=used[method][0] / used[method][1] if used[method][1] else None,
        )
        for method, figures in taken.items()
    ]


if __name__ == "__main__":
    main(rows, 5)
