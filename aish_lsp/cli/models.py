"""``aish-lsp models``: list the models, with what their servers say about themselves."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import terminal
from aish_lsp.cli.command import add_command, open_workspace, write_result
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.text import escaped
from aish_lsp.models.providers import describe

if TYPE_CHECKING:
    import argparse

    from aish_lsp.agent import Workspace
    from aish_lsp.models.catalog import ModelInfo

_MODELS: Final = (
    "List the models: those that are configured, found on this machine or available with a key in"
    " the environment, and the offline model. For configured models, the servers report their kind,"
    " their models and the size of the context window."
)

#: Timeout in seconds for all questions to one server about itself.
_TIMEOUT: Final = 10.0


def add_parser(commands: Any) -> None:
    """Add ``models`` to the command line."""
    add_command(commands, "models", run, "list the models", _MODELS)


async def run(arguments: argparse.Namespace) -> int:
    """Ask and list; return the exit code."""
    async with open_workspace(arguments) as workspace:
        for problem in await workspace.refresh():
            terminal.tell(problem)
        rows = await workspace.services.catalog.list(workspace.config)
        models = await asyncio.gather(*(_with_server(workspace, row) for row in rows))
        active = workspace.shown.preset.name
    lines = (f"{'*' if row['name'] == active else ' '} {_model_line(row)}" for row in models)
    value = {"active": active, "models": models}
    return write_result(arguments, value, "\n".join(lines), listed=True)


async def _with_server(workspace: Workspace, row: ModelInfo) -> dict[str, Any]:
    """Return a row with its server's data; only servers of configured models are asked."""
    from aish_lsp.models.endpoint import EndpointInfo  # noqa: PLC0415 - imports httpx

    info = EndpointInfo()
    preset = workspace.config.models.get(row.name)
    if preset is not None and row.provider != "offline":
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                info = await describe(workspace.services.http, preset, workspace.services.keys)
    server = {
        "server": info.kind,
        "contextWindow": (preset.context_window if preset else None) or info.context_window,
        "serves": list(info.models),
    }
    return {**to_wire(row), **server}


def _model_line(row: dict[str, Any]) -> str:
    parts = [f"{row['name']} ({row['source']}, {row['provider']})"]
    at = f" at {row['endpoint']}" if row["endpoint"] else ""
    parts.append(f"{row['model'] or 'its only model'}{at}")
    if row["server"]:
        parts.append(row["server"])
    if row["contextWindow"]:
        parts.append(f"window {row['contextWindow']:,}")
    return escaped(": ".join([parts[0], ", ".join(parts[1:])]))
