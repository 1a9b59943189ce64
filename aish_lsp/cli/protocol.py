"""``aish-lsp protocol``: what an editor and the server send each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import output

if TYPE_CHECKING:
    import argparse

_DESCRIPTION: Final = (
    "Show every command with its parameters and results, every event and every error: as a page;"
    " with --json as JSON Schema (2020-12), from which a client's types can be made."
)


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``protocol`` to the command line."""
    protocol = commands.add_parser(
        "protocol",
        parents=[common],
        help="what an editor and the server send each other",
        description=_DESCRIPTION,
    )
    protocol.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the schema or the page; return the exit code."""
    if arguments.json:
        from aish_lsp.lsp.schema import schema  # noqa: PLC0415 - the server's room, for this alone

        output.out.as_json(schema(), indent=2)
        return 0
    from aish_lsp.lsp.reference import render  # noqa: PLC0415 - as above

    output.out.write(render())
    return 0
