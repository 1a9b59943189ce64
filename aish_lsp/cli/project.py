"""``aish-lsp project``: the project as the model is told of it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.project.files import list_files
from aish_lsp.project.names import shown

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``project`` to the command line."""
    help_ = "what the model is told about the project"
    project = commands.add_parser(
        "project", parents=[common], help=help_, description=f"Show {help_}."
    )
    project.add_argument("--files", action="store_true", help="the files that it is made from")
    project.set_defaults(run=run)


async def run(arguments: argparse.Namespace) -> int:
    """Look at the project and show it; return the exit code."""
    root = workspace_folder(arguments)
    if arguments.files:
        listed = await list_files(root, every=True)
        if listed.truncated:
            sys.stderr.write(f"aish-lsp: not all files are listed: {listed.reason}\n")
        if arguments.json:
            sys.stdout.write(json.dumps({"files": listed.files}) + "\n")
        else:
            sys.stdout.write("".join(f"{shown(name)}\n" for name in listed.files))
        return 0
    async with open_workspace(root) as workspace:
        await workspace.project.refresh(workspace.config.project, patience=None)
        block = workspace.project.block
    if arguments.json:
        found = {"block": block.block, "files": block.files, "truncated": block.truncated}
        sys.stdout.write(json.dumps(found) + "\n")
        return 0
    sys.stdout.write(block.block)
    cut = ", cut to fit" if block.truncated else ""
    sys.stderr.write(f"aish-lsp: {block.files} files{cut}\n")
    return 0
