"""The command line: results on stdout, all else on stderr; exits 0, 1 (failed), 2 (misused)."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from aish_lsp import __version__
from aish_lsp.cli import terminal
from aish_lsp.foundation.errors import AishError


def main(argv: Sequence[str]) -> int:
    """Run the command line ``argv``; return the exit code."""
    try:
        try:
            return _run(parser().parse_args(argv))
        finally:
            # What cannot be written is told here, and not when the interpreter ends.
            sys.stdout.flush()
    except OSError as error:
        _give_up_stdout()
        # Whoever closed the pipe has seen enough.
        if not isinstance(error, BrokenPipeError):
            terminal.tell(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: argparse.Namespace) -> int:
    """Run a command; tell an error in the form that the command line asks for."""
    try:
        run = arguments.run(arguments)
        return int(asyncio.run(run) if asyncio.iscoroutine(run) else run)
    except AishError as error:
        terminal.refuse(error, as_json=arguments.json)
        return 1


def _give_up_stdout() -> None:
    """Lead stdout nowhere: the interpreter flushes it again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; each command adds its own part."""
    # Only what is parsed for.
    from aish_lsp.cli import (  # noqa: PLC0415
        ask,
        chat,
        demo,
        doctor,
        inspecting,
        memory,
        sessions,
        setup,
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
    for add in (
        *(ask.add_parser, chat.add_parser, ask.add_norris, demo.add_parser, setup.add_parser),
        *(doctor.add_parser, inspecting.add_config, memory.add_parser, sessions.add_parser),
        inspecting.add_parser,
    ):
        add(commands)
    return whole
