"""How soon the server answers, against a minimal pygls server in the same run, and what it holds.

    python tests/bench/bench_start.py [ROUNDS] [--cold]

Each is timed from the spawn to the byte that ends what was waited for; all that the client says is
in the pipe at once. With ``--cold`` what Python loads is dropped from the system's cache before.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from measuring import Row, Sample, compared, cpu_seconds, idle, in_turns, main, memory_of
from stage import AISH, Stage, aish, question, stage

# isort: split
from client import Client
from repository import git

MINIMAL: Final = (
    sys.executable,
    "-c",
    "from pygls.lsp.server import LanguageServer\nLanguageServer('minimal', '1').start_io()\n",
)
#: What a client of a model's API cannot do without.
IMPORTS: Final = (
    sys.executable,
    "-c",
    "import asyncio, httpx, httpx_sse\nhttpx.AsyncClient()\n",
)
MORE_FOLDERS: Final = 10
COLD: Final = "--cold" in sys.argv


def request(number: int, method: str, params: Any) -> dict[str, Any]:
    """Return a request; a notification where the number is 0."""
    identity = {"id": number} if number else {}
    return {"jsonrpc": "2.0", **identity, "method": method, "params": params}


def opening(*folders: Path) -> list[dict[str, Any]]:
    """Return what opens a session of a client that can do nothing special."""
    params = {
        "processId": os.getpid(),
        "rootUri": folders[0].as_uri(),
        "capabilities": {},
        "workspaceFolders": [{"uri": one.as_uri(), "name": one.name} for one in folders],
    }
    return [request(1, "initialize", params), request(0, "initialized", {})]


def command(number: int, name: str, argument: Any) -> dict[str, Any]:
    """Return the request that executes a command."""
    params = {"command": name, "arguments": [argument]}
    return request(number, "workspace/executeCommand", params)


@asynccontextmanager
async def spawned(
    command: Sequence[str], data: bytes, until: Callable[[Any], bool]
) -> AsyncIterator[tuple[Sample, int]]:
    """Start a program, write ``data``, read until a message is what is waited for."""
    if COLD:
        drop_caches()
    pipe = asyncio.subprocess.PIPE
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data)
        while True:
            header = await process.stdout.readuntil(b"\r\n\r\n")
            body = await process.stdout.readexactly(int(header.split()[1]))
            if until(json.loads(body)):
                break
        yield Sample(time.perf_counter() - begun, cpu_seconds(process.pid)), process.pid
    finally:
        # With what it has started: that, too, holds the pipe.
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def start(command: Sequence[str], data: bytes, until: Callable[[Any], bool]) -> Sample:
    """Return what it took from the spawn to what is waited for."""
    async with spawned(command, data, until) as (sample, _):
        return sample


def framed(messages: Sequence[Any]) -> bytes:
    """Return messages as a client writes them."""
    bodies = [json.dumps(message).encode() for message in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)


def answers(number: int) -> Callable[[Any], bool]:
    """Return what tells the answer to a request."""
    return lambda message: message.get("id") == number and "method" not in message


def is_delta(message: Any) -> bool:
    """Return whether a message is a piece of a reply."""
    value = message.get("params", {}).get("value", {})
    return isinstance(value, dict) and value.get("kind") == "text"


def drop_caches() -> None:
    """Have the system forget the files that Python loads."""
    for folder in {sys.prefix, str(Path(os.__file__).parent), str(Path.cwd() / "aish_lsp")}:
        for path in Path(folder).rglob("*"):
            if path.suffix in (".pyc", ".so", ".py", ".json") and path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def asked(*command: str) -> Sample:
    """Return what a command of the shell takes, with all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    seconds = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Sample(seconds, used)


def make_project(root: Path) -> None:
    """Make a git project of some size."""
    for number in range(200):
        (root / f"module{number}.py").write_text(f"# {number}\n" * 50)
    (root / "Makefile").write_text("test:\n\tpython -m pytest\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "All")


async def starts(made: Stage, rounds: int) -> list[Row]:
    """Measure how soon a server answers."""
    begin = opening(made.workspace)
    ask = {"prompt": question(3, 1), "partialResultToken": "t"}
    status = framed([*begin, command(2, "aish.status", {})])
    at_once = framed([*begin, command(2, "aish.ask", ask)])
    pygls, initialized, answered, first, loop = await in_turns(
        rounds,
        partial(start, MINIMAL, framed(begin), answers(1)),
        partial(start, AISH, framed(begin), answers(1)),
        partial(start, AISH, status, answers(2)),
        partial(start, AISH, at_once, is_delta),
        partial(start, made.bare, f"{question(3, 1)}\n".encode(), is_delta),
    )
    both = [Sample(a.seconds + b.seconds, a.cpu + b.cpu) for a, b in zip(pygls, loop, strict=True)]
    minimal = "minimal pygls, `initialize`"
    return [
        compared("spawn to `initialize` answered", minimal, initialized, pygls, 0.1),
        compared("spawn to `aish.status` answered", minimal, answered, pygls, 1.1),
        compared(
            "spawn to the first delta, git project", f"{minimal}; bare loop", first, both, 1.3
        ),
    ]


async def asks(made: Stage, rounds: int) -> list[Row]:
    """Measure what a question in the shell takes of the processor."""
    words = ("--no-stdin", "--workspace", str(made.workspace))
    offline = ("--model", "offline", "How do I run the tests?")
    imports, by_table, by_server = await in_turns(
        rounds,
        partial(asked, *IMPORTS),
        partial(asked, *aish("ask", *words, *offline)),
        partial(asked, *aish("ask", *words, question(3, 1))),
    )

    def row(what: str, samples: Sequence[Sample], target: float) -> Row:
        ours, theirs = ([one.cpu for one in each] for each in (samples, imports))
        return Row(what, "imports and a client", ours, theirs, target, unit="s of CPU")

    return [
        row("CPU of `aish-lsp ask`, offline", by_table, 2.5),
        row("CPU of `aish-lsp ask`, with a server", by_server, 1.5),
    ]


async def memory(made: Stage, rounds: int) -> list[Row]:
    """Measure what an idle server holds, with one workspace and with more."""
    folders = [made.workspace]
    for number in range(MORE_FOLDERS):
        folders.append(made.root / f"more{number}")
        folders[-1].mkdir()

    async def held(command: Sequence[str], *folders: Path) -> Sample:
        async with spawned(command, framed(opening(*folders)), answers(1)) as (sample, pid):
            await idle(pid)
            return Sample(memory_of(pid), sample.cpu)

    async def opened(*folders: Path) -> Sample:
        async with Client(command=AISH) as client:
            await client.initialize(*folders)
            for folder in folders:
                await client.command_result("aish.status", {"workspace": folder.as_uri()})
            await idle(client.process.pid)
            return Sample(memory_of(client.process.pid), 0)

    pygls, one, used, all_of_them = (
        [sample.seconds for sample in samples]
        for samples in await in_turns(
            rounds,
            partial(held, MINIMAL, made.workspace),
            partial(held, AISH, made.workspace),
            partial(opened, made.workspace),
            partial(opened, *folders),
        )
    )
    more = [(many - few) / MORE_FOLDERS for many, few in zip(all_of_them, used, strict=True)]
    return [
        Row("idle memory, one workspace", "minimal pygls", one, pygls, 1.2, unit="MB"),
        Row("memory of each further workspace", "the first", more, used, 1, "value", "MB"),
    ]


async def rows(rounds: int) -> list[Row]:
    """Measure in turns."""
    with stage() as made:
        make_project(made.workspace)
        result = await starts(made, rounds)
        if COLD:
            return result
        return result + await asks(made, rounds) + await memory(made, min(rounds, 3))


if __name__ == "__main__":
    main(rows, 9)
