"""``aish-lsp norris "GOAL"``: a goal pursued in the terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from aish_lsp.agent.events import Step
from aish_lsp.agent.norris.run import Goal, pursue
from aish_lsp.chat.transcript import step_ended
from aish_lsp.cli import output
from aish_lsp.cli.ask import as_json, show_event, watched
from aish_lsp.cli.terminal import open_workspace, workspace_folder

if TYPE_CHECKING:
    from aish_lsp.foundation.events import Event


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``norris`` to the command line."""
    norris = commands.add_parser("norris", parents=[common], help="pursue a goal by itself")
    norris.add_argument("goal", help="what is to be reached")
    norris.add_argument("--model", metavar="M", help="the model that answers")
    norris.add_argument("--max-steps", type=_steps, metavar="N", help="steps at most")
    norris.add_argument(
        "--allow-caution",
        action="store_true",
        help="run unasked what can change nothing but the folder's files",
    )
    norris.set_defaults(run=run)


def _steps(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of steps: 1 or more")
    return int(text)


async def run(arguments: argparse.Namespace) -> int:
    """Pursue the goal; return 0 where it was reached."""
    async with open_workspace(workspace_folder(arguments)) as workspace:
        if arguments.model:
            await workspace.shown.answer_with(arguments.model)
        goal = Goal(arguments.goal, arguments.allow_caution, arguments.max_steps)
        job = pursue(workspace.shown, goal)
        result = await watched(job, as_json if arguments.json else _print_step)
        if arguments.json:
            as_json(result)
        return 0 if result.outcome == "complete" else 1


def _print_step(event: Event) -> None:
    """Write replies and outputs to stdout as they come, all else to stderr."""
    if isinstance(event, Step):
        if event.status not in ("planned", "running"):
            output.out.end_line()
            output.tell(step_ended(event))
    else:
        show_event(event)
