"""``aish-lsp acp``: an agent for the clients of the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import signal
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import setup
from aish_lsp.foundation.errors import NotFound
from aish_lsp.lsp import logs
from aish_lsp.lsp.stream import take_stdio

if TYPE_CHECKING:
    import argparse
    from collections.abc import Coroutine

_DESCRIPTION: Final = (
    "Serve a client of the Agent Client Protocol (Zed, JetBrains and others) on stdin and stdout."
    " The client starts this and names the folder."
)


def add_parser(commands: Any) -> None:
    """Add ``acp`` to the command line."""
    help_ = "be an agent for clients of the Agent Client Protocol"
    parser = commands.add_parser("acp", help=help_, description=_DESCRIPTION)
    # Clients add what the agent says about signing in to the arguments that they start it with.
    parser.add_argument("action", nargs="?", choices=["setup"], help="set up a model instead")
    parser.set_defaults(run=run, json=False, workspace=None)


def run(arguments: argparse.Namespace) -> Coroutine[Any, Any, int] | int:
    """Serve the client until it goes, then end the process, even if a thread hangs.

    Raises:
        NotFound: the SDK is not installed.
    """
    if importlib.util.find_spec("acp") is None:
        msg = "the Agent Client Protocol is not installed: pip install 'aish-lsp[acp]'"
        raise NotFound(msg)
    if arguments.action == "setup":
        return setup.run(arguments)
    logs.configure(None, None)
    streams = take_stdio()
    asyncio.new_event_loop().run_until_complete(_serve(*streams))
    logs.flush()
    os._exit(0)


async def _serve(source: int, sink: int) -> None:
    # As for an editor: collecting garbage takes up to a third of such imports, and there is little.
    thresholds = gc.get_threshold()
    gc.set_threshold(10_000, 1_000, 1_000)
    from aish_lsp.acp.agent import serve  # noqa: PLC0415 - imports the SDK

    gc.freeze()
    gc.set_threshold(*thresholds)
    serving = asyncio.ensure_future(serve(source, sink))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()
