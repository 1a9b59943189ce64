"""``aish-lsp`` and ``python -m aish_lsp``: serve an editor, or run the command line."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aish_lsp.lsp.server import AishServer, Open
    from aish_lsp.lsp.stream import EarlyInitialize

#: The options if there are no arguments.
_ON_STDIO = SimpleNamespace(ws=None, log_level=None, log_file=None)

#: What a person sees who starts the server by hand, which would only wait for an editor's messages.
_FOR_EDITORS = """\
aish-lsp is a language server: an editor starts it and talks to it on stdin and stdout.
In a terminal, use one of these:

  aish-lsp chat           a conversation
  aish-lsp ask QUESTION   a single question
  aish-lsp setup          find a model and connect it
  aish-lsp doctor         see what works here, and what to do about the rest

`aish-lsp --help` lists all commands; `aish-lsp serve` serves an editor even from a terminal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; return the exit code. Serving ends the process itself."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments and sys.stdin and sys.stdin.isatty():
        print(_FOR_EDITORS)  # noqa: T201 - as below
        return 0
    if not arguments or arguments[0] == "serve":
        return serve(arguments[1:])
    if arguments == ["--version"]:
        from aish_lsp import __version__  # noqa: PLC0415 - not needed to serve

        print(f"aish-lsp {__version__}")  # noqa: T201 - does nothing if stdout is closed
        return 0
    # As when serving: what a command imports stays, so looking for garbage in it finds none.
    gc.set_threshold(10_000)
    from aish_lsp.cli import main as cli_main  # noqa: PLC0415 - slow to import

    return cli_main(arguments)


def serve(arguments: Sequence[str], create: Callable[[], AishServer] | None = None) -> int:
    """Serve according to ``arguments``, with the server that ``create`` returns.

    Returns 1 if it cannot listen or log. Otherwise this ends the process, even if a thread hangs.
    """
    options = _parse(arguments) if arguments else _ON_STDIO
    try:
        stdio = None if options.ws else _take_stdio(answer=create is None)
    except KeyboardInterrupt:
        return 130
    # Importing lsprotocol creates only young garbage. Scanning old objects repeatedly takes up to a
    # third of the startup; not collecting at all would cost ten megabytes permanently.
    thresholds = gc.get_threshold()
    gc.set_threshold(10_000, 1_000, 1_000)

    from aish_lsp.lsp import lean_types, logs  # noqa: PLC0415 - after the answer, like the next

    try:
        logs.configure(options.log_level, options.log_file)
        lean_types.build()
        from aish_lsp.lsp.server import connect_stdio, create_server, run  # noqa: PLC0415

        server = create() if create else create_server()
        gc.freeze()
        gc.set_threshold(*thresholds)
        code = run(server, partial(connect_stdio, *stdio) if stdio else _listening(*options.ws))
    except OSError as error:
        sys.stderr.write(f"aish-lsp: {error}\n")
        return 1
    else:
        logs.flush()
        os._exit(code)


def _take_stdio(*, answer: bool) -> tuple[int, int, EarlyInitialize]:
    """Take over stdin and stdout, and ``answer`` the client before slow imports."""
    from aish_lsp.lsp.stream import (  # noqa: PLC0415 - stdio only
        EarlyInitialize,
        answer_initialize,
        take_stdio,
    )

    source, sink = take_stdio()
    early = answer_initialize(source, sink) if answer else EarlyInitialize.none()
    return source, sink, early


def _listening(host: str, port: int) -> Open:
    from aish_lsp.lsp.websocket import websocket  # noqa: PLC0415 - only to listen

    return websocket(host, port)


def _parse(arguments: Sequence[str]) -> SimpleNamespace:
    import argparse  # noqa: PLC0415 - without arguments it is not needed
    from pathlib import Path  # noqa: PLC0415

    from aish_lsp.lsp.logs import LEVELS  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        prog="aish-lsp serve", description="Serve an editor, on stdin and stdout by default."
    )
    parser.add_argument(
        "--ws", metavar="HOST:PORT", type=parse_address, help="serve one client over WebSocket"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, help="default: warning, or info with a --log-file"
    )
    parser.add_argument("--log-file", type=Path, help="log to this file instead of stderr")
    return parser.parse_args(arguments, SimpleNamespace())


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of ``HOST:PORT``; the default host is the loopback address.

    Raises:
        argparse.ArgumentTypeError: ``text`` is not HOST:PORT.
    """
    from argparse import ArgumentTypeError  # noqa: PLC0415 - as in _parse

    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT")
    host = host.removeprefix("[").removesuffix("]")
    # A single address, so that port 0 means a single port.
    return ("127.0.0.1" if host in {"", "localhost"} else host), int(port)


if __name__ == "__main__":
    sys.exit(main())
