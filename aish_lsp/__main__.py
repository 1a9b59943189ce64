"""``aish-lsp`` and ``python -m aish_lsp``: serve an editor; all else is the command line's."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace

    from aish_lsp.lsp.server import AishServer
    from aish_lsp.lsp.transport import Open


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; return the exit code. Serving ends the process itself."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] == "serve":
        return serve(arguments[1:])
    if arguments == ["--version"]:
        from aish_lsp import __version__  # noqa: PLC0415 - not needed to serve

        sys.stdout.write(f"aish-lsp {__version__}\n")
        return 0
    from aish_lsp.cli import main as cli_main  # noqa: PLC0415 - an editor must not wait for it

    return cli_main(arguments)


def serve(arguments: Sequence[str], create: Callable[[], AishServer] | None = None) -> int:
    """Serve as ``arguments`` say, with the server that ``create`` makes.

    Returns 1 where it cannot listen or log. Else the process ends here, even if a thread hangs.
    """
    options = _parse(arguments) if arguments else None
    try:
        connect = _stdio(answer=create is None) if _on_stdio(options) else None
    except KeyboardInterrupt:
        return 130
    # Importing lsprotocol makes young garbage only: to look through the old objects, again and
    # again, is up to a third of the start; not to collect at all costs ten megabytes for good.
    usual = gc.get_threshold()
    gc.set_threshold(10_000, 1_000, 1_000)

    from aish_lsp.lsp import logs, transport  # noqa: PLC0415 - not before, as the next ones

    try:
        if options is None:
            logs.configure()
        else:
            logs.configure(options.log_level, options.log_file)
        if create is None:
            from aish_lsp.lsp.server import create_server  # noqa: PLC0415

            create = create_server
        server = create()
        gc.freeze()
        gc.set_threshold(*usual)
        code = transport.run(server, connect() if connect else _listening(options))
    except OSError as error:
        sys.stderr.write(f"aish-lsp: {error}\n")
        return 1
    else:
        logs.flush()
        os._exit(code)


def _on_stdio(options: Namespace | None) -> bool:
    return options is None or (options.tcp is None and options.ws is None)


def _stdio(*, answer: bool) -> Callable[[], Open]:
    """Take stdin and stdout, and ``answer`` the client before anything slow is imported."""
    from aish_lsp.lsp.stream import (  # noqa: PLC0415 - stdio only
        EarlyInitialize,
        answer_initialize,
        take_stdio,
    )

    source, sink = take_stdio()
    early = answer_initialize(source, sink) if answer else EarlyInitialize.none()

    def connect() -> Open:
        from aish_lsp.lsp.transport import connect_stdio  # noqa: PLC0415 - brings asyncio

        return connect_stdio(source, sink, early)

    return connect


def _listening(options: Namespace | None) -> Open:
    from aish_lsp.lsp import sockets  # noqa: PLC0415 - only where it listens

    assert options is not None
    if options.tcp is not None:
        return sockets.tcp(*options.tcp)
    return sockets.websocket(*options.ws)


def _parse(arguments: Sequence[str]) -> Namespace:
    import argparse  # noqa: PLC0415 - without arguments it is not needed
    from pathlib import Path  # noqa: PLC0415

    from aish_lsp.lsp.logs import LEVELS  # noqa: PLC0415
    from aish_lsp.lsp.sockets import parse_address  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        prog="aish-lsp serve", description="Serve an editor, on stdin and stdout by default."
    )
    listen = parser.add_mutually_exclusive_group()
    listen.add_argument(
        "--tcp", metavar="HOST:PORT", type=parse_address, help="serve one client over TCP"
    )
    listen.add_argument(
        "--ws", metavar="HOST:PORT", type=parse_address, help="serve one client over WebSocket"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, help="default: warning; info where there is a --log-file"
    )
    parser.add_argument("--log-file", type=Path, help="log to this file and not to stderr")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
