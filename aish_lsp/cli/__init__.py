"""The command line: results on stdout, all else on stderr; exits 0, 1 (failed), 2 (misused)."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from aish_lsp import __version__
from aish_lsp.errors import AishError


def main(argv: Sequence[str]) -> int:
    """Run the command line ``argv``; return the exit code."""
    arguments = parser().parse_args(argv)
    try:
        run = arguments.run(arguments)
        return int(asyncio.run(run) if asyncio.iscoroutine(run) else run)
    except AishError as error:
        if arguments.json:
            sys.stdout.write(json.dumps({"error": error.to_wire() | error.data}) + "\n")
        sys.stderr.write(f"aish-lsp: {error.message}\n")
        return 1
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; each command adds its own part."""
    from aish_lsp.cli import ask, config, demo, doctor  # noqa: PLC0415 - only what is parsed for

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="write for machines")
    common.add_argument(
        "--workspace",
        metavar="DIR",
        type=_folder,
        default=Path.cwd(),
        help="the workspace (default: here)",
    )
    whole = argparse.ArgumentParser(
        prog="aish-lsp",
        description="An AI shell assistant for every editor, over plain LSP. "
        "Without a command: serve an editor on stdin and stdout.",
    )
    whole.add_argument("--version", action="version", version=f"aish-lsp {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser(
        "serve", help="serve an editor: on stdio, --tcp HOST:PORT or --ws HOST:PORT"
    )
    for module in (ask, demo, doctor, config):
        module.add_parser(commands, common)
    return whole


def _folder(text: str) -> Path:
    """Return a folder that is there, for argparse."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return path.resolve()
