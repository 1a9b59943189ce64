"""The command line: results on stdout, the rest on stderr; exits with 0, 1 (failed), 2 (misuse)."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from aish_lsp import __version__
from aish_lsp.cli import terminal
from aish_lsp.foundation.errors import AishError

#: Where each command is added to the parser, in the order of the help.
_COMMANDS: Final = {
    "ask": "ask.add_parser",
    "chat": "chat.add_parser",
    "acp": "agent.add_parser",
    "norris": "ask.add_norris",
    "demo": "demo.add_parser",
    "setup": "setup.add_parser",
    "models": "models.add_parser",
    "doctor": "doctor.add_parser",
    "config": "inspecting.add_config",
    "memory": "memory.add_parser",
    "sessions": "sessions.add_parser",
    **dict.fromkeys(
        ("cost", "project", "tokens", "risk", "approvals", "protocol"), "inspecting.add_parser"
    ),
    "purge": "purge.add_parser",
}
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
            return _run(parser(argv[0]).parse_args(_with_action(argv)))
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


def parser(command: str = "") -> argparse.ArgumentParser:
    """Return the parser of the command line, to which each command adds its own.

    For a ``command`` that there is, only that one is there: the others' modules are not imported.
    """
    root = argparse.ArgumentParser(
        prog="aish-lsp",
        description="An AI shell assistant for every editor, over plain LSP. "
        "Without a command, it serves an editor on stdin and stdout.",
    )
    root.add_argument("-V", "--version", action="version", version=f"aish-lsp {__version__}")
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    if command not in _COMMANDS:
        commands.add_parser(
            "serve", help="serve an editor: on stdio, or over WebSocket with --ws HOST:PORT"
        )
    for place in dict.fromkeys(
        [_COMMANDS[command]] if command in _COMMANDS else _COMMANDS.values()
    ):
        module, function = place.split(".")
        getattr(import_module(f"aish_lsp.cli.{module}"), function)(commands)
    return root
