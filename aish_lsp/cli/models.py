"""``aish-lsp models``: the models there are, and what each endpoint says that it can do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import output
from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.foundation.text import escaped

if TYPE_CHECKING:
    import argparse

    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.models.catalog import ModelInfo

_DESCRIPTION: Final = (
    "List the models: those that are configured, found on this machine or behind a key in the"
    " environment, and the offline one. Each server that may be asked says what it is, which models"
    " it has, and how large their windows are."
)

#: Seconds for all that one server is asked about itself.
_TIMEOUT: Final = 10.0


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``models`` to the command line."""
    models = commands.add_parser(
        "models", parents=[common], help="the models there are", description=_DESCRIPTION
    )
    models.set_defaults(run=run)


async def run(arguments: argparse.Namespace) -> int:
    """Ask and list; return the exit code."""
    async with open_workspace(workspace_folder(arguments)) as workspace:
        for trouble in await workspace.refresh():
            output.tell(trouble)
        rows = await workspace.services.catalog.list(workspace.config)
        told = await asyncio.gather(*(_told(workspace, row) for row in rows))
        active = workspace.shown.active_model
    if arguments.json:
        output.out.as_json({"active": active, "models": told}, indent=2)
        return 0
    for row in told:
        output.out.line(f"{'*' if row['name'] == active else ' '} {_line(row)}")
    return 0


async def _told(workspace: Workspace, row: ModelInfo) -> dict[str, Any]:
    """Return a row with what its server says; nothing is sent where no key was agreed to."""
    from aish_lsp.models.endpoint import EndpointInfo, describe  # noqa: PLC0415 - brings httpx

    info = EndpointInfo()
    preset = workspace.config.models.get(row.name)
    if preset is not None and row.provider != "offline":
        try:
            async with asyncio.timeout(_TIMEOUT):
                info = await describe(workspace.services.http, preset, workspace.services.environ)
        except TimeoutError:
            pass
    return {
        "name": row.name,
        "provider": row.provider,
        "model": row.model,
        "endpoint": row.endpoint,
        "source": row.source,
        "server": info.kind,
        "contextWindow": (preset.context_window if preset else None) or info.context_window,
        "serves": list(info.models),
    }


def _line(row: dict[str, Any]) -> str:
    parts = [f"{row['name']} ({row['source']}, {row['provider']})"]
    at = f" at {row['endpoint']}" if row["endpoint"] else ""
    parts.append(f"{row['model'] or 'its only model'}{at}")
    if row["server"]:
        parts.append(row["server"])
    if row["contextWindow"]:
        parts.append(f"window {row['contextWindow']:,}")
    return escaped(": ".join([parts[0], ", ".join(parts[1:])]))
