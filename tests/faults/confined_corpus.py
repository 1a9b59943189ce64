"""Whether everyday commands give the same confined: each is run both ways and compared.

``python tests/faults/safety_page.py confined`` writes the table of docs/confinement.md from it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.environment import command_environment
from aish_lsp.shell.risk import classify
from aish_lsp.shell.risk.words import parse
from aish_lsp.shell.runner import RunResult, run_command

CORPUS: Final = Path(__file__).parents[1] / "corpora" / "read_only.toml"

#: Seconds that a command may take; for endless ones (`tail -f`), the beginning is compared.
SECONDS: Final = 20.0
#: Commands that never end on their own, or wait for keys.
ENDLESS: Final = re.compile(
    r"\btail -[fF]|\bwatch\b|\btop\b|--follow|-f app|\bless\b|\bmore\b|\bman\b"
)
ENDLESS_SECONDS: Final = 1.5

#: Lines that are only there when confined, or have another value then.
_OF_THE_ENVIRONMENT: Final = re.compile(
    r"^(?:declare -x |export )?(?:TMPDIR|GIT_OPTIONAL_LOCKS|GIT_CONFIG_\w+"
    r"|npm_config_update_notifier|_|SHLVL|core\.fsmonitor)=.*\n?",
    re.MULTILINE,
)
#: Commands that show what changes from moment to moment, or at random: these only need to end in
#: the same way, with nothing refused to them.
_MOVES: Final = re.compile(
    r"^(?:ps|pstree|pgrep|top|free|vmstat|iostat|uptime|w|df|date|time|env|printenv|shuf"
    r"|cat /proc|ldd|ss)\b"
)
#: Commands that search in several threads, and print matches in the order they are found.
_IN_ANY_ORDER: Final = re.compile(r"^(?:rg|ag|fd)\b")

Outcome = Literal["same", "differs", "not tried"]


@dataclass(frozen=True, slots=True)
class Compared:
    """The result for one command; ``how`` says what differs, or what is missing."""

    command: str
    outcome: Outcome
    how: str = ""


def corpus() -> list[tuple[str, list[str]]]:
    """Return the groups of the read-only corpus, each with its reason and its commands."""
    groups = tomllib.loads(CORPUS.read_text(encoding="utf-8"))["group"]
    return [(group["why"], group["commands"]) for group in groups]


def make_scene(folder: Path) -> None:
    """Fill a folder with the files that the commands of the corpus name."""
    for name in ("src", "tests", "docs", "dir1", "dir2", "build", "node_modules"):
        (folder / name).mkdir(parents=True)
    texts = {
        "README.md": "# Read me\n\nTODO: foo and bar\n",
        "package.json": '{"name": "scene", "version": "1.0.0", "items": [{"id": 1}]}\n',
        "f.json": '{"items": [{"id": 1}, {"id": 2}], "name": "f"}\n',
        "data.csv": "a,b,200\nc,d,50\n",
        "f": "foo bar\nbaz\nfoo bar\n",
        "a": "1\n2\n3\n",
        "b": "2\n3\n4\n",
        "x": "x\n",
        "a.txt": "one\ntwo\n",
        "b.txt": "one\nthree\n",
        "names.txt": "zoe\nadam\nmia\n",
        "app.log": "".join(f"line {n} error\n" for n in range(50)),
        "conf": "# comment\nkey = value\n",
        "main.c": "int main(void) { return 0; }\n",
        "Makefile": "test:\n\ttrue\n",
        "docker-compose.yml": "services:\n  web:\n    image: x\n",
        "src/main.py": "import os\n\nprint('foo')  # TODO\n",
        "src/main.rs": "fn main() {}\n",
        "src/app.js": "const foo = 1;\n",
        "tests/test_main.py": "def test(): pass\n",
        "dir1/same": "1\n",
        "dir2/same": "2\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "link").symlink_to("README.md")
    (folder / "data.bin").write_bytes(bytes(range(256)))
    for archive in ("a.tar", "a.tgz", "archive.tgz"):
        subprocess.run(["tar", "caf", archive, "f", "src"], cwd=folder, check=True)
    subprocess.run(["gzip", "-k", "-c", "app.log"], cwd=folder, check=True, capture_output=True)
    (folder / "log.gz").write_bytes(
        subprocess.run(["gzip", "-c", folder / "app.log"], check=True, capture_output=True).stdout
    )
    who = ("-c", "user.name=bob", "-c", "user.email=bob@x.test")
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["commit", "-qm", "first"],
        ["branch", "feature"],
        ["tag", "v1.0"],
        ["commit", "-q", "--allow-empty", "-m", "second"],
    ):
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True)
    (folder / "f").write_text("foo bar\nchanged\n")
    (folder / "untracked").write_text("new\n")


def missing_program(command: str, path: str | None) -> str:
    """Return the first program in a command that is not installed; empty if all are."""
    for name in _programs(command):
        builtin = subprocess.run(
            ["bash", "-c", 'type -t -- "$1"', "bash", name], capture_output=True, check=False
        )
        if builtin.returncode != 0 and shutil.which(name, path=path) is None:
            return name
    return ""


def _programs(command: str) -> Iterator[str]:
    waiting = [parse(command.encode())]
    while waiting:
        node = waiting.pop()
        if node.type == "command_name" and node.text is not None:
            name = node.text.decode()
            if re.fullmatch(r"[\w./+-]+", name):
                yield name
        waiting += node.children


async def compare(confinement: Confinement, command: str, folder: Path) -> Compared:
    """Run a command unconfined and confined, and say whether both give the same."""
    environ = command_environment(os.environ, ())
    missing = missing_program(command, environ.get("PATH"))
    if missing:
        return Compared(command, "not tried", f"`{missing}` is not installed")
    free = await _run(command, folder, environ, None)
    held = await _run(command, folder, environ, confinement)
    difference = _difference(command, free, held)
    if difference and _difference(command, free, await _run(command, folder, environ, None)):
        return Compared(command, "not tried", "two unconfined runs also differ")
    return Compared(command, "differs" if difference else "same", difference)


async def _run(
    command: str, folder: Path, environ: dict[str, str], confinement: Confinement | None
) -> RunResult:
    async def ignore(_stream: str, _delta: str) -> None:
        pass

    seconds = ENDLESS_SECONDS if ENDLESS.search(command) else SECONDS
    sandbox = await confinement.sandbox(folder) if confinement else None
    try:
        return await run_command(
            command,
            cwd=folder,
            shell="bash",
            timeout=seconds,
            env=environ,
            on_output=ignore,
            sandbox=sandbox,
        )
    finally:
        if sandbox is not None:
            sandbox.__exit__(None, None, None)


def _difference(command: str, free: RunResult, held: RunResult) -> str:
    """Return briefly how two runs differ; empty if they do not."""
    status = (free.exit_code, free.signal), (held.exit_code, held.signal)
    if status[0] != status[1]:
        return f"exit {status[0][0]} unconfined, {status[1][0]} confined"
    if _MOVES.match(command):
        return "something was refused to it" if held.refused else ""
    texts = [_OF_THE_ENVIRONMENT.sub("", result.output) for result in (free, held)]
    if _IN_ANY_ORDER.match(command):
        texts = ["\n".join(sorted(text.splitlines())) for text in texts]
    if texts[0] == texts[1]:
        return ""
    lines = [set(text.splitlines()) for text in texts]
    only = sorted(lines[1] - lines[0]) or sorted(lines[0] - lines[1]) or ["the order of lines"]
    return f"only one of the two prints `{only[0].strip()[:80]}`"


async def compare_all(commands: Sequence[str], folder: Path) -> list[Compared]:
    """Compare commands, a few at a time; the results are in the order of the commands."""
    confinement = Confinement(os.environ)
    places = asyncio.Semaphore(4)

    async def one(command: str) -> Compared:
        async with places:
            return await compare(confinement, command, folder)

    try:
        return await asyncio.gather(*map(one, commands))
    finally:
        await confinement.aclose()


def table(rows: list[tuple[str, list[Compared]]]) -> str:
    """Return the table of docs/confinement.md."""
    lines = ["| | same when confined | differs | not tried |", "|---|---|---|---|"]
    for why, compared in rows:
        cells = [
            ", ".join(_cell(one) for one in compared if one.outcome == outcome)
            for outcome in ("same", "differs", "not tried")
        ]
        lines.append(f"| {why} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(one: Compared) -> str:
    text = one.command.replace("|", "\\|").replace("\n", "⏎")
    fence = "``" if "`" in text else "`"
    shown = f"{fence} {text} {fence}" if fence == "``" else f"`{text}`"
    return f"{shown} ({one.how})".replace(" ()", "") if one.outcome != "same" else shown


async def everything() -> list[tuple[str, list[Compared]]]:
    """Compare all safe commands of the corpus."""
    with tempfile.TemporaryDirectory(prefix="scene-") as folder:
        scene = Path(folder, "scene")
        make_scene(scene)
        rows = []
        for why, commands in corpus():
            safe = [c for c in commands if classify(c, "bash", confined=True).risk == "safe"]
            rows.append((why, await compare_all(safe, scene)))
        return rows
