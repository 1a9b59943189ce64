"""Asks the rounds of fresh questions in rounds/*.txt; nothing is run, the command is compared.

``python tests/offline/rounds.py [--quiet] [ROUND ...]`` prints what fails, and the figures. A line
holds the ways to ask for one thing, and a regular expression that the commands of the answer have
to fit: ``ASK | ASK => REGEX``; where nothing is behind the arrow, the question is beyond the model.
``|^$`` at its end says that not knowing is right as well. ``FIRST >> ASK`` asks both, one after the
other, in one conversation; the second is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from grading import commands_of
from world import tools

from aish_lsp.config.schema import Preset
from aish_lsp.models.request import ModelRequest, RequestMessage, Text
from aish_lsp.offline import OfflineModel, is_unknown
from aish_lsp.offline.workspace import Machine

FOLDER: Final = Path(__file__).resolve().with_name("rounds")

#: The workspace that they are asked in.
_FILES: Final = (
    *("notes.txt", "todo.md", "README.md", "data.csv", "users.json", "config.yml", "app.log"),
    *("server.log", "main.py", "script.sh", "image.png", "site.zip", "backup.tar.gz"),
    *("src/app.py", "src/utils.py", "tests/test_app.py", "docs/guide.md", "photos/a.jpg"),
    *("build/out.o", "old/keep.txt", ".env", ".gitignore", "requirements.txt", "Dockerfile"),
)
_PROJECT: Final = '[project]\nname = "app"\n[tool.pytest.ini_options]\n[tool.ruff]\n'
_BRANCHES: Final = ("dev", "feature/login")

#: How an expression ends where not knowing is right as well.
_OR_NOT: Final = "|^$"


@dataclass(frozen=True, slots=True)
class Fresh:
    """What is asked, and the expression that the commands have to fit; none: it is beyond."""

    round: str
    question: str
    fits: str

    def outcome(self, reply: str, commands: Sequence[str]) -> str:
        """Return whether a reply is right, silent or wrong."""
        if is_unknown(reply):
            return "right" if not self.fits or self.fits.endswith(_OR_NOT) else "silent"
        told = "\n".join(commands) or reply
        return "right" if self.fits and self.does(told) else "wrong"

    def does(self, told: str) -> bool:
        """Return whether commands do what is asked."""
        return re.search(self.fits.removesuffix(_OR_NOT), told, re.MULTILINE) is not None


def fresh(rounds: Sequence[str] = ()) -> Iterator[Fresh]:
    """Yield the questions of some rounds, or of all."""
    for path in sorted(FOLDER.glob("*.txt")):
        if rounds and path.stem not in rounds:
            continue
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                asks, _, fits = line.rpartition("=>")
                for ask in asks.split(" | "):
                    yield Fresh(path.stem, ask.strip(), fits.strip())


@contextmanager
def workspace() -> Iterator[Path]:
    """Make the folder that they are asked in."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for file in _FILES:
            (root / file).parent.mkdir(exist_ok=True)
            (root / file).write_text("hello\n")
        (root / "pyproject.toml").write_text(_PROJECT)
        identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
        for arguments in (
            ["init", "-qb", "main"],
            ["add", "-A"],
            [*identity, "commit", "-qm", "begin"],
            *(["branch", branch] for branch in _BRANCHES),
        ):
            subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)
        yield root


@cache
def machine() -> Machine:
    """Return the machine that the answers are for: this one's tools, some of them fakes."""
    return Machine("linux", os.fspath(tools()), Path("/home/ann"))


async def answer(question: str, root: Path) -> str:
    """Return the reply to a question."""
    said = tuple(RequestMessage("user", one.strip()) for one in question.split(" >> "))
    request = ModelRequest(Preset(), said)
    events = OfflineModel(root, machine()).stream(request)
    return "".join([event.delta async for event in events if isinstance(event, Text)])


async def main(rounds: list[str], *, quiet: bool) -> None:
    """Ask and print."""
    counts: Counter[tuple[str, str]] = Counter()
    with workspace() as root:
        for one in fresh(rounds):
            reply = await answer(one.question, root)
            commands = commands_of(reply)
            outcome = one.outcome(reply, commands)
            counts[one.round, outcome] += 1
            if outcome != "right" and not quiet:
                told = " ;; ".join(commands) or reply.split("\n")[0]
                sys.stdout.write(f"{outcome}: {one.question}\n      {told}\n")
    for name in sorted({name for name, _ in counts}):
        total = sum(count for (other, _), count in counts.items() if other == name)
        shares = (f"{o} {counts[name, o] / total:.1%}" for o in ("right", "wrong", "silent"))
        sys.stdout.write(f"round {name}, {total} questions: {', '.join(shares)}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quiet", action="store_true", help="print the figures alone")
    parser.add_argument("round", nargs="*")
    given = parser.parse_args()
    asyncio.run(main(given.round, quiet=given.quiet))
