"""How long a notification of 1,000 changes to a 1 MB document takes, until a request is answered.

    python tests/bench/bench_changes.py [ROUNDS]

The text is one line or 20,000, of ASCII or of characters that take two or three bytes, or two units
of UTF-16; positions are counted in UTF-16 or UTF-8. The least of all rounds counts, since machines
are noisy. Exits 1 if one takes more than MOST seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

for folder in ("kit", "servers", "lsp"):
    sys.path.insert(0, str(Path(__file__).parent.parent / folder))
os.environ["AISH_REAL_START"] = "1"

from client import Client  # noqa: E402 - once it can be found

MOST = 0.2
CHANGES = 1_000
SIZE = 1_000_000
WIDTHS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}


def changes(text: str, encoding: str) -> list[dict[str, Any]]:
    """Return insertions spread over ``text``, from the end to the start."""
    lines = text.split("\n")
    codec, width = WIDTHS[encoding]
    result = []
    for number in reversed(range(CHANGES)):
        line = number * len(lines) // CHANGES
        at = len(lines[line]) * number // CHANGES
        units = len(lines[line][:at].encode(codec)) // width
        place = {"line": line, "character": units}
        result.append({"range": {"start": place, "end": place}, "text": "\u00fc"})
    return result


async def change(root: Path, text: str, encoding: str, rounds: int) -> float:
    """Return the seconds that the changes take at best."""
    sent, times = changes(text, encoding), []
    general = {"positionEncodings": [encoding]}
    async with Client(env={"HOME": os.fspath(root), "AISH_DISCOVERY": "off"}) as client:
        await client.initialize(root, capabilities={"general": general})
        for number in range(rounds):
            uri = (root / f"{number}.txt").as_uri()
            document = {"uri": uri, "languageId": "", "version": 1, "text": text}
            await client.notify("textDocument/didOpen", {"textDocument": document})
            await client.command_result("aish.status", {})
            start = time.perf_counter()
            which = {"uri": uri, "version": 2}
            await client.notify(
                "textDocument/didChange", {"textDocument": which, "contentChanges": sent}
            )
            await client.command_result("aish.status", {})
            times.append(time.perf_counter() - start)
    return min(times)


async def main(rounds: int) -> int:
    """Measure, print a table, and return the exit status."""
    worst = 0.0
    for character in ("a", "\u00e9", "\u6f22", "\U0001f600"):
        for breaks in (0, 20_000):
            line = character * (SIZE // (breaks or 1) // len(character.encode()))
            text = "\n".join([line] * (breaks or 1))
            for encoding in WIDTHS:
                with tempfile.TemporaryDirectory() as folder:
                    seconds = await change(Path(folder), text, encoding, rounds)
                worst = max(worst, seconds)
                name = f"U+{ord(character):04X}, {breaks or 1} lines, {encoding}"
                sys.stdout.write(f"{name}: {seconds * 1000:.0f} ms\n")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)))
