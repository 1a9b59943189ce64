"""The client's terminals: a command that is not confined runs in one if the user prefers that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from acp import RequestError

from aish_lsp.acp.asking import ASKING
from aish_lsp.foundation.job import run_uncancellable
from aish_lsp.foundation.ports import CALL
from aish_lsp.shell.output import HEAD_LIMIT, TAIL_LIMIT
from aish_lsp.shell.runner import RunResult

if TYPE_CHECKING:
    from aish_lsp.acp.updates import Updates
    from aish_lsp.foundation.events import FinishReason

#: Seconds for the client to end a command and to say what it printed.
_ENDING: Final = 10


async def run_in_terminal(arguments: Sequence[str], cwd: Path, seconds: float) -> RunResult | None:
    """Implement ``services.RunInTerminal``."""
    session = ASKING.get()
    if session is None or not session.updates.has_terminals:
        return None
    updates = session.updates
    making = asyncio.ensure_future(
        updates.client.create_terminal(
            updates.session_id,
            arguments[0],
            [*arguments[1:]],
            cwd=str(cwd),
            output_byte_limit=HEAD_LIMIT + TAIL_LIMIT,
        )
    )
    try:
        await asyncio.wait([making])
    except asyncio.CancelledError:
        # It may run by now, and has to be ended.
        await run_uncancellable(asyncio.wait([making], timeout=_ENDING))
        if making.done() and making.exception() is None:
            await run_uncancellable(_end(updates, making.result().terminal_id, kill=True))
        raise
    if making.exception() is not None:
        return None
    terminal = making.result().terminal_id
    begun = time.monotonic()
    waiting = asyncio.ensure_future(
        updates.client.wait_for_terminal_exit(updates.session_id, terminal)
    )
    reason: FinishReason = "timeout"
    try:
        await updates.begin_call(CALL.get(), arguments[-1], "execute")
        await updates.call_is_in_terminal(CALL.get(), terminal)
        await asyncio.wait([waiting], timeout=seconds)
    except asyncio.CancelledError:
        # As with our own runner, the result is what there is.
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        reason = "cancelled"
    code = signal = None
    if waiting.done():
        reason = "error" if waiting.exception() else "stop"
        if reason == "stop":
            code, signal = waiting.result().exit_code, waiting.result().signal
    output, truncated = await run_uncancellable(_end(updates, terminal, kill=reason != "stop"))
    waiting.cancel()
    took = round((time.monotonic() - begun) * 1000)
    return RunResult(code, signal, output, truncated, took, reason)


async def _end(updates: Updates, terminal: str, *, kill: bool) -> tuple[str, bool]:
    """End a command, if it still runs; return what it printed, and whether that is cut."""
    client, named = updates.client, (updates.session_id, terminal)
    output, truncated = "", False
    with suppress(RequestError, ConnectionError, ValueError, TimeoutError):
        async with asyncio.timeout(_ENDING):
            if kill:
                await client.kill_terminal(*named)
            shown = await client.terminal_output(*named)
            output, truncated = shown.output, shown.truncated
            await client.release_terminal(*named)
    return output, truncated
