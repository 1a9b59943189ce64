"""``aish-lsp cost``: what was used in a workspace, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aish_lsp.cli import output
from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.context.report import cost_page
from aish_lsp.context.usage import UsageTotals
from aish_lsp.foundation.ports import nobody
from aish_lsp.foundation.wire import to_wire

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``cost`` to the command line."""
    help_ = "what was used, and what it cost"
    cost = commands.add_parser(
        "cost", parents=[common], help=help_, description=f"Show {help_} in the last session."
    )
    cost.add_argument("--all", action="store_true", help="in all sessions of the workspace")
    cost.set_defaults(run=run)


async def run(arguments: argparse.Namespace) -> int:
    """Add up and show; return the exit code.

    Raises:
        StoreUnavailable: ``usage.jsonl`` cannot be read.
    """
    # Nobody is asked whether a found key may be used: nothing of the project is sent here.
    async with open_workspace(workspace_folder(arguments), nobody) as workspace:
        calls = workspace.shown.recorder.usage_of_all_sessions()
        if calls and not arguments.all:
            calls = [call for call in calls if call.session == calls[-1].session]
        await workspace.shown.choose_model(None)
        upcoming = workspace.shown.next_request()
        await upcoming.ask_limit()
        report = upcoming.cost_of(UsageTotals.of(calls))
    if arguments.json:
        output.out.as_json(to_wire(report), indent=2)
        return 0
    page = cost_page(report, detail=True).strip("`\n")
    output.out.line(page if calls else "Nothing has been asked in this workspace yet.")
    return 0
