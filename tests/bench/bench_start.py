"""How soon the server answers, against a minimal pygls server in the same run.

    python tests/bench/bench_start.py [ROUNDS]

Prints the least and the median milliseconds of each, since machines are noisy: from the spawn to
the reply to ``initialize``, and to the end of a first question to the offline model.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lsp"))

from client import Client

MINIMAL = "from pygls.lsp.server import LanguageServer\nLanguageServer('minimal', '1').start_io()\n"


async def initialized(command: list[str], folder: Path) -> float:
    """Return the seconds from the spawn to the first byte of the reply to ``initialize``."""
    begun = time.perf_counter()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    params = {"processId": os.getpid(), "rootUri": folder.as_uri(), "capabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    body = json.dumps(message).encode()
    process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    await process.stdout.readexactly(1)
    seconds = time.perf_counter() - begun
    process.kill()
    await process.communicate()
    return seconds


async def answered(command: list[str], folder: Path) -> float:
    """Return the seconds from the spawn to the end of a first question."""
    begun = time.perf_counter()
    async with Client(command=command) as client:
        await client.initialize(folder)
        question = {"prompt": "How do I run the tests?", "partialResultToken": "t"}
        await client.command_result("aish.ask", question)
        return time.perf_counter() - begun


async def main(rounds: int) -> None:
    """Measure in turns, so that a noisy moment hits all alike."""
    aish = [sys.executable, "-m", "aish_lsp"]
    minimal = [sys.executable, "-c", MINIMAL]
    cases: dict[str, tuple[Callable[..., Awaitable[float]], list[str]]] = {
        "minimal pygls: initialize": (initialized, minimal),
        "aish-lsp: initialize": (initialized, aish),
        "aish-lsp: first question": (answered, aish),
    }
    taken: dict[str, list[float]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"AISH_DATA_DIR": f"{folder}/data", "AISH_DISCOVERY": "off"}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        root = Path(folder, "workspace")
        root.mkdir()
        for _ in range(rounds):
            for name, (measure, command) in cases.items():
                taken[name].append(await measure(command, root))
    for name, seconds in taken.items():
        least, median = min(seconds) * 1000, statistics.median(seconds) * 1000
        sys.stdout.write(f"{name:<28} least {least:6.0f} ms, median {median:6.0f} ms\n")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
