"""A goal that is pursued step by step, by a model whose replies are made up."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from machine import needs, without_namespaces
from test_turn import Place, place

from aish_lsp.agent.events import Notice, Output, Step, Text, Usage
from aish_lsp.agent.norris import Pursuit
from aish_lsp.agent.norris.run import pursue, unfinished
from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable, NotFound
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest
from aish_lsp.sessions.rebuild import history

__all__ = ["place"]

LOOKS = (Text("I look.\n"), Usage(400, 10), Finish("stop"))


async def agree(_: Any) -> bool:
    return True


@pytest.mark.slow
async def test_a_command_that_was_stopped_has_no_exit_status(place: Place) -> None:
    place.workspace.services.ask_user = agree
    said = "I try both.\nCMD: echo one\nCMD: sleep 60\n"
    place.replies = [(Text(said), Usage(400, 10), Finish("stop"))]
    job = pursue(place.session, Pursuit("Do it."))
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


async def test_a_secret_that_a_line_would_cut_is_not_logged(place: Place) -> None:
    place.workspace.services.ask_user = agree
    secret = "no-shape-of-a-key-but-known-by-its-value"
    place.workspace.services.environ = {"SHOP_TOKEN": secret}
    said = f"I look.\nCMD: echo {'x' * 90} {secret}\n"
    place.replies = [(Text(said), Usage(400, 10), Finish("stop"))]
    await pursue(place.session, Pursuit("Do it.", max_steps=1)).result()
    [line] = [line for line in place.log() if line.get("status") == "step"]
    assert "x" * 90 in line["line"]
    assert secret[:6] not in line["line"]


@pytest.mark.slow
async def test_a_command_without_its_end_is_not_run_and_the_model_is_told(place: Place) -> None:
    place.workspace.services.ask_user = agree
    replies = ["I write it.\nCMD: cat > new.yml <<'EOF'\na: 1\n", "GOAL: blocked: no\n"]
    place.replies = [(Text(said), Usage(400, 10), Finish("stop")) for said in replies]
    await pursue(place.session, Pursuit("Do it.", allow_caution=True)).result()
    assert place.workspace.root is not None
    assert not (place.workspace.root / "new.yml").exists()
    assert (
        "fill in the line EOF that ends the here-document"
        in place.requests[-1].messages[-1].content
    )


async def test_how_a_step_ended_is_in_the_history_of_its_session(place: Place) -> None:
    place.workspace.services.ask_user = agree
    replies = ["I look.\nCMD: ls\n", "I try.\nCMD: ls gone\n"]
    place.replies = [(Text(said), Usage(400, 10), Finish("stop")) for said in replies]
    await pursue(place.session, Pursuit("Do it.", max_steps=2)).result()
    told = history(await place.session.recorder.history())
    assert [(one.role, one.step and one.step.status) for one in told] == [
        *(("user", None), ("assistant", "done")),
        *(("user", None), ("assistant", "failed")),
    ]
    ends = [one.step for one in told if one.step]
    assert [(end.number, bool(end.exit_code)) for end in ends] == [(1, False), (2, True)]


async def test_a_folder_that_is_gone_is_named(place: Place) -> None:
    assert place.workspace.root is not None
    shutil.rmtree(place.workspace.root)
    with pytest.raises(NotFound, match="workspace is gone"):
        await pursue(place.session, Pursuit("Do it.")).result()


async def test_a_resumed_run_that_was_killed_at_once_goes_on_where_it_was(place: Place) -> None:
    place.workspace.services.ask_user = agree
    place.replies = [LOOKS]
    await pursue(place.session, Pursuit("Do it.", max_steps=2)).result()
    left = unfinished(await place.session.recorder.history())
    assert left is not None
    assert left.made == 2
    # What a run writes before its first step.
    await place.session.recorder.pursued(
        "start", goal=left.goal, group=left.group, allowCaution=False
    )
    assert unfinished(await place.session.recorder.history()) == left


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BackendRejected("The key is not valid."), "The key is not valid."),
        # The next model fails, too, and the offline one answers.
        (BackendUnavailable("It is down."), "The model does not answer."),
    ],
)
async def test_the_user_learns_that_what_they_added_was_not_sent(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: AishError, reason: str
) -> None:
    place.workspace.services.ask_user = agree
    asked = 0

    async def stream(_: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        nonlocal asked
        asked += 1
        if asked in (2, 3):
            raise error
        assert place.session.pursuit is not None
        if asked == 1:
            place.session.pursuit.said.append("Mind the gap.")
        for event in LOOKS:
            yield event

    monkeypatch.setattr(place, "stream", stream)
    job = pursue(place.session, Pursuit("Do it."))
    events = [event async for event in job.events()]
    *_, told = [event.message for event in events if isinstance(event, Notice)]
    assert reason in told
    assert told.endswith("What you added last was not sent.")


async def test_a_step_without_an_answer_is_no_question_to_ask_again(place: Place) -> None:
    place.workspace.services.ask_user = agree
    place.replies = [BackendRejected("The key is not valid.")]
    assert (await pursue(place.session, Pursuit("Do it.")).result()).outcome == "error"
    with pytest.raises(NotFound, match="no question to ask again"):
        place.session.asked_again()


@pytest.mark.slow
async def test_commands_that_begin_alike_are_told_apart(place: Place) -> None:
    place.workspace.services.ask_user = agree
    start = f"echo {'x' * 150}; ls"
    place.replies = [
        (Text(f"CMD: {start} nowhere\n"), Usage(400, 10), Finish("stop")),
        (Text(f"CMD: {start}\n"), Usage(400, 10), Finish("stop")),
        (Text("GOAL: complete\nAll is well.\n"), Usage(400, 10), Finish("stop")),
    ]
    result = await pursue(place.session, Pursuit("Do it.")).result()
    assert (result.outcome, result.steps) == ("complete", 3)
    assert result.summary.startswith("All is well.\nBut the last run of `echo xxx")
    assert result.summary.endswith("(exit 2) failed.")


@needs(without_namespaces())
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cat link", "it seemed only to read"),
        ("sh attempt.sh", "only the work tree can be changed"),
    ],
)
async def test_what_was_denied_to_a_command_is_told_with_where_it_ran(
    place: Place, command: str, said: str
) -> None:
    root = place.workspace.root
    assert root is not None
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "link").symlink_to("/etc/shadow")
    (root / "attempt.sh").write_text("touch ../outside\n")
    place.workspace.services.ask_user = agree
    replies = [f"CMD: {command}\n", "GOAL: complete\n"]
    place.replies = [(Text(said), Usage(400, 10), Finish("stop")) for said in replies]
    job = pursue(place.session, Pursuit("Do it.", allow_caution=True))
    notices = [event.message async for event in job.events() if isinstance(event, Notice)]
    assert len([notice for notice in notices if said in notice]) == 1, notices
    assert not (root.parent / "outside").exists()
