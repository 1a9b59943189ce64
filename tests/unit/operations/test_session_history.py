"""The risks of the commands in a session's history."""

from __future__ import annotations

import asyncio
from typing import Any

from test_dispatch import caller

from aish_lsp.agent.norris import Pursuit
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.dispatch import dispatch
from aish_lsp.operations.operation import Answer, Caller
from aish_lsp.sessions import records
from aish_lsp.sessions.log import SessionLog
from aish_lsp.shell.blocks import FoundCommand

__all__ = ["caller"]


def written(caller: Caller, texts: list[str]) -> str:
    """Write a session with a reply for each command, and return its id."""
    log = SessionLog.create(caller.session.recorder.session_path.parent, None)
    for number, text in enumerate(texts):
        log.append(records.user(f"Question {number}?"))
        commands = [{"id": f"c{number}", "text": text}]
        log.append(records.assistant(f"CMD: {text}\n", "m", finish="stop", commands=commands))
    log.close()
    return log.id


async def risks(caller: Caller, session: str) -> list[Any]:
    answer = await dispatch(OPERATIONS["session.history"], {"id": session}, caller)
    assert isinstance(answer, Answer)
    return [one["risk"] for turn in answer.result.turns for one in turn.commands]


async def test_history_while_a_goal_acts_alone_is_judged_as_a_click_would_be(
    caller: Caller,
) -> None:
    root = caller.workspace.root
    assert root is not None
    (root / "kept.txt").write_text("as it was")
    overwrites = "echo changed > kept.txt"
    session = written(caller, [overwrites])
    caller.session.pursuit = Pursuit("Do it.", group="g", allow_caution=True, works=True)
    suggested = caller.session.add_command(FoundCommand(overwrites, 0), "t")
    assert suggested.risk == "caution"
    assert await risks(caller, session) == ["destructive"]


async def test_a_call_is_titled_as_it_ended_whatever_its_result_says(caller: Caller) -> None:
    log = SessionLog.create(caller.session.recorder.session_path.parent, None)
    log.append(records.user("Change it."))
    edit = {"name": "edit_file", "arguments": '{"path": "a.py"}'}
    calls = [{**edit, "id": status} for status in ("done", "failed", "denied")]
    log.append(records.assistant("", "m", finish="tool", tool_calls=calls))
    for call in calls:
        log.append(records.tool(call["id"], "so", call["id"]))
    log.close()
    answer = await dispatch(OPERATIONS["session.history"], {"id": log.id}, caller)
    assert isinstance(answer, Answer)
    reply, *results = answer.result.turns[1:]
    titles = [call["title"] for call in reply.tool_calls]
    assert titles == ["Edited a.py", "Could not edit a.py", "Did not edit a.py"]
    assert [one.status for one in results] == [None, "failed", "denied"]


async def test_long_history_that_is_judged_lets_others_have_their_turns(caller: Caller) -> None:
    session = written(caller, [f"rm -rf ../{number}" for number in range(50)])
    judged = most = 0
    judge = caller.session.judged

    def counted(found: FoundCommand, command_id: str) -> Any:
        nonlocal judged
        judged += 1
        return judge(found, command_id)

    async def take_turns() -> None:
        nonlocal judged, most
        while True:
            most, judged = max(most, judged), 0
            await asyncio.sleep(0)

    caller.session.judged = counted  # type: ignore[method-assign]
    other = asyncio.create_task(take_turns())
    assert await risks(caller, session) == ["destructive"] * 50
    other.cancel()
    assert most == 1
