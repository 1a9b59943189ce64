"""``aish-lsp risk``: what a command could do, judged without running it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import output
from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.text import escaped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from aish_lsp.shell.risk import Verdict

_DESCRIPTION: Final = (
    "Say what a command could do: safe (it only reads), caution or destructive, and why."
    " Nothing is run."
)
_LINES: Final = "judge each line of stdin; with --json each is a JSON string"


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``risk`` to the command line."""
    risk = commands.add_parser(
        "risk", parents=[common], help="what a command could do", description=_DESCRIPTION
    )
    what = risk.add_mutually_exclusive_group(required=True)
    what.add_argument("text", metavar="COMMAND", nargs="?", help="the command, quoted as one word")
    what.add_argument("--lines", action="store_true", help=_LINES)
    risk.set_defaults(run=run)


async def run(arguments: argparse.Namespace) -> int:
    """Judge; return the exit code.

    Raises:
        InvalidArgument: a line is not a JSON string.
    """
    async with open_workspace(workspace_folder(arguments)) as workspace:
        texts = _lines(as_json=arguments.json) if arguments.lines else iter([arguments.text])
        # Some commands are safe only where they run confined.
        await workspace.services.confinement.support()
        for text in texts:
            verdict = workspace.judge(text)
            if arguments.json:
                output.out.as_json({"risk": verdict.risk, "reasons": verdict.reasons})
            else:
                output.out.line(_line(text, verdict))
    return 0


def _line(text: str, verdict: Verdict) -> str:
    reasons = "; ".join(verdict.reasons)
    return f"{verdict.risk:<11}  {escaped(text)}{f'  ({reasons})' if reasons else ''}"


def _lines(*, as_json: bool) -> Iterator[str]:
    for number, raw in enumerate(sys.stdin.buffer, 1):
        line = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if not as_json:
            yield line
            continue
        if not line.strip():
            continue
        try:
            text = json.loads(line)
        except (ValueError, RecursionError):
            text = None
        if not isinstance(text, str):
            msg = f"Line {number} of stdin is not a JSON string."
            raise InvalidArgument(msg, path=f"line {number}")
        yield text
