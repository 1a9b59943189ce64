"""``aish-lsp tokens``: how many tokens a text has, and who counted them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import output
from aish_lsp.cli.folder import workspace_folder
from aish_lsp.cli.terminal import open_workspace
from aish_lsp.config.schema import Preset
from aish_lsp.context.counter import Counter
from aish_lsp.foundation.files import store_errors
from aish_lsp.foundation.text import escaped

if TYPE_CHECKING:
    import argparse

    from aish_lsp.agent.workspace import Workspace

_DESCRIPTION: Final = (
    "Count the tokens of files, or of stdin. With tokenize.use_endpoint the model's own server"
    " counts, where it can; else they are estimated, by the model's family."
)

#: How stdin is named, and asked for.
_STDIN: Final = "-"


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``tokens`` to the command line."""
    tokens = commands.add_parser(
        "tokens", parents=[common], help="how many tokens a text has", description=_DESCRIPTION
    )
    tokens.add_argument("files", metavar="FILE", nargs="*", default=[_STDIN], help="- is stdin")
    tokens.add_argument(
        "--model", metavar="M", help="a configured model, or any model's name (default: the active)"
    )
    tokens.set_defaults(run=run)


async def run(arguments: argparse.Namespace) -> int:
    """Count; return the exit code.

    Raises:
        StoreUnavailable: a file cannot be read. Nothing is written then.
    """
    texts = [(file, _read(file)) for file in arguments.files]
    async with open_workspace(workspace_folder(arguments)) as workspace:
        preset = _preset(workspace, arguments.model)
        tokenizer = workspace.services.tokenizer(preset, workspace.config.tokenize)
        counter = Counter(preset, tokenizer)
        await counter.fetch([text for _, text in texts], (), ())
        rows = [_row(file, text, counter) for file, text in texts]
    if arguments.json:
        output.out.as_json(rows, indent=2)
        return 0
    for row in rows:
        output.out.line(f"{row['tokens']:>10,}  {escaped(row['file'])}  ({row['method']})")
    return 0


def _row(file: str, text: str, counter: Counter) -> dict[str, Any]:
    tokens = counter.text(text)
    method = "heuristic" if tokens.estimated else counter.name
    return {"file": file, "tokens": counter.settled(tokens), "method": method}


def _preset(workspace: Workspace, name: str | None) -> Preset:
    """Return the preset of a name; of one that is not configured, a model of that name."""
    if name is None:
        return workspace.shown.preset
    return workspace.config.models.get(name) or Preset(name=name, model=name)


def _read(file: str) -> str:
    """Return a file's text; what is not UTF-8 is replaced, as it would be on its way to a model."""
    if file == _STDIN:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    path = Path(file)
    with store_errors(path, "read"):
        return path.read_bytes().decode("utf-8", "replace")
