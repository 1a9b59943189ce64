"""``aish-lsp project``: the project as the model is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aish_lsp.cli import output
from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.foundation.wording import count_of
from aish_lsp.project.files import list_files
from aish_lsp.project.tree import shown

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
            output.tell(f"not all files are listed: {listed.reason}")
        if arguments.json:
            output.out.as_json({"files": listed.files})
        else:
            output.out.write("".join(f"{shown(name)}\n" for name in listed.files))
        return 0
    async with open_workspace(root) as workspace:
        await workspace.project.refresh(workspace.config.project, patience=None)
        block = workspace.project.block
    if arguments.json:
        found = {"block": block.block, "files": block.files, "truncated": block.truncated}
        output.out.as_json(found)
        return 0
    output.out.write(block.block)
    cut = ", cut to fit" if block.truncated else ""
    output.tell(f"{count_of(block.files, 'file')}{cut}")
    return 0
