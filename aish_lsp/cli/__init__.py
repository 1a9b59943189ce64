"""The command line: results on stdout, the rest on stderr; exits with 0, 1 (failed), 2 (misuse)."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from aish_lsp import __version__
from aish_lsp.cli import terminal
from aish_lsp.foundation.errors import AishError

#: What a command with actions does if none is named.
_USUAL_ACTIONS: Final = {
    "sessions": "list",
    "memory": "list",
    "approvals": "list",
    "config": "show",
}


def main(argv: Sequence[str]) -> int:
    """Run the command line ``argv``; return the exit code."""
    _prepare_streams()
    try:
        try:
            return _run(parser().parse_args(_with_action(argv)))
        finally:
            # Report a write error here, not when the interpreter exits.
            sys.stdout.flush()
    except OSError as error:
        _give_up_stdout()
        # A reader that closed the pipe has seen enough.
        if not isinstance(error, BrokenPipeError):
            terminal.tell(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def _with_action(argv: Sequence[str]) -> Sequence[str]:
    """Return the command line with the action that a command has if none is named."""
    command, *rest = argv
    names_none = not rest or (rest[0].startswith("-") and not {"-h", "--help"} & set(rest))
    if command in _USUAL_ACTIONS and names_none:
        return [command, _USUAL_ACTIONS[command], *rest]
    return argv


def _prepare_streams() -> None:
    """Accept any character on stdin and stdout, and replace closed streams with /dev/null."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115 - stays open
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _run(arguments: argparse.Namespace) -> int:
    """Run a command; report an error in the requested format."""
    try:
        run = arguments.run(arguments)
        return int(asyncio.run(run) if asyncio.iscoroutine(run) else run)
    except AishError as error:
        terminal.refuse(error, as_json=arguments.json)
        return 1


def _give_up_stdout() -> None:
    """Redirect stdout to /dev/null, since the interpreter flushes it again at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, to which each command adds its own."""
    # Imported only when a command line is parsed.
    from aish_lsp.cli import (  # noqa: PLC0415
        agent,
        ask,
        chat,
        demo,
        doctor,
        inspecting,
        memory,
        models,
        purge,
        sessions,
        setup,
    )

    root = argparse.ArgumentParser(
        prog="aish-lsp",
        description="An AI shell assistant for every editor, over plain LSP. "
        "Without a command, it serves an editor on stdin and stdout.",
    )
    root.add_argument("-V", "--version", action="version", version=f"aish-lsp {__version__}")
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser(
        "serve", help="serve an editor: on stdio, or over WebSocket with --ws HOST:PORT"
    )
    for add in (
        *(
            ask.add_parser,
            chat.add_parser,
            agent.add_parser,
            ask.add_norris,
            demo.add_parser,
            setup.add_parser,
            models.add_parser,
        ),
        *(doctor.add_parser, inspecting.add_config, memory.add_parser, sessions.add_parser),
        inspecting.add_parser,
        purge.add_parser,
    ):
        add(commands)
    return root
