"""A goal that is pursued step by step, by a model whose replies are made up."""

from __future__ import annotations

from typing import Any

import pytest
from test_turn import Place, place

from aish_lsp.agent.events import Output, Step, Text, Usage
from aish_lsp.agent.norris.run import Goal, pursue
from aish_lsp.models.request import Finish

__all__ = ["place"]


@pytest.mark.slow
async def test_a_command_that_was_stopped_has_no_exit_status(place: Place) -> None:
    async def agree(_: Any) -> bool:
        return True

    place.workspace.services.ask_user = agree
    said = "I try both.\nCMD: echo one\nCMD: sleep 60\n"
    place.replies = [(Text(said), Usage(400, 10), Finish("stop"))]
    job = pursue(place.session, Goal("Do it."))
    steps: list[Step] = []
    async for event in job.events():
        if isinstance(event, Step):
            steps.append(event)
        elif isinstance(event, Output) and event.command_id == steps[-1].command_ids[1]:
            job.cancel()
    assert (await job.result()).outcome == "stopped"
    assert [step.status for step in steps] == ["planned", "running", "stopped"]
    # That of the first command would be taken for the second one's.
    assert steps[-1].exit_code is None
    [line] = [line for line in place.log() if line.get("status") == "step"]
    assert line["line"] == "step 1: stopped"
