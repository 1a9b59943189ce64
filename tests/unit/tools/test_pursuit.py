"""What a goal's run may do unasked, and what counts as the goal's end."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_builtin_tools import Place, place

from aish_lsp.agent.execution import run
from aish_lsp.agent.norris import Pursuit, goal_said
from aish_lsp.agent.planning import RunRequest
from aish_lsp.context.messages import Message
from aish_lsp.undo.git import NoUndo

__all__ = ["place"]


@pytest.fixture
def alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place whose goal may act alone, and where no snapshot can be taken; the user says no."""

    async def full(*_: object) -> None:
        raise NoUndo("the disk is full")

    monkeypatch.setattr(place.workspace.undo, "before", full)
    place.workspace.shown.pursuit = Pursuit("x", group="group", allow_caution=True, works=True)
    place.answer = False
    return place


@pytest.mark.slow
async def test_a_command_that_cannot_be_undone_asks(alone: Place) -> None:
    request = RunRequest(text="touch new.txt", group="group", approval="unseen")
    report = await run(alone.workspace.shown, request).result()
    assert report.finish_reason == "denied"
    [question] = alone.asked
    assert "- it could not be undone" in question.message
    assert not (alone.folder / "new.txt").exists()


@pytest.mark.slow
async def test_an_edit_that_cannot_be_undone_is_not_made(alone: Place) -> None:
    result = await alone.call("write_file", path="new.txt", content="x")
    assert result.status == "failed"
    assert result.text.startswith("Not done: it could not be undone.")
    assert not (alone.folder / "new.txt").exists()


@pytest.mark.slow
async def test_what_is_not_of_the_run_asks(alone: Place) -> None:
    request = RunRequest(text="touch new.txt", group="another", approval="unseen")
    assert (await run(alone.workspace.shown, request).result()).finish_reason == "denied"
    assert "could not be undone" not in alone.asked[0].message.split("\n\n")[0]


@pytest.fixture
def beside(place: Place) -> Place:
    """A place whose goal may act alone, in a repository; the user says no."""
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    place.workspace.shown.pursuit = Pursuit("x", group="group", allow_caution=True, works=True)
    place.answer = False
    return place


@pytest.mark.slow
async def test_what_is_done_while_another_command_runs_asks(beside: Place) -> None:
    undo, mine = beside.workspace.undo, beside.put("mine.txt", "before\n")
    await undo.before("another", "sleep 100", beside.folder, "session")
    # No snapshot has this.
    mine.write_text("an hour of work\n")
    request = RunRequest(text="echo x > mine.txt", group="group", approval="unseen")
    report = await run(beside.workspace.shown, request).result()
    assert report.finish_reason == "denied"
    assert "- another command is running" in beside.asked[0].message
    await beside.call("read_file", path="mine.txt")
    result = await beside.call("write_file", path="mine.txt", content="x")
    assert result.text.startswith("Not done: it could not be undone.")
    assert mine.read_text() == "an hour of work\n"
    # All that began has ended.
    await undo.after()
    assert not undo.holds("another")


@pytest.mark.parametrize("said", ["complete", "blocked"])
@pytest.mark.parametrize("more", ["", " ", ":", ": why", " why", "\twhy", "\nwhy\n"])
def test_the_end_of_a_goal(said: str, more: str) -> None:
    expected = said, more.strip(": \t\n")
    assert goal_said(f"So.\nGOAL: {said}{more}") == expected


def test_a_reply_that_was_cut_off_says_what_its_whole_lines_do() -> None:
    cut = "GOAL: complete\nAll is well and so"
    assert goal_said(cut, is_whole=False) == ("complete", "All is well and so")
    # It may have gone on with "ly lost".
    assert goal_said("GOAL: complete", is_whole=False) is None


def test_what_a_model_thinks_aloud_is_not_said() -> None:
    thought = "<think>\nI could say\nGOAL: complete\n</think>\nI look first.\n"
    assert goal_said(thought) is None
    assert goal_said(f"{thought}GOAL: blocked: no test") == ("blocked", "no test")


@pytest.mark.timeout(20)
def test_a_fence_full_of_it_takes_no_time() -> None:
    assert goal_said("```\n" + "GOAL: complete\n" * 10_000) is None


@given(st.text(alphabet="a` ~\nGOAL: complete", max_size=80))
def test_a_goal_is_said_on_a_line_of_its_own_alone(text: str) -> None:
    found = goal_said(text)
    fence = False
    expected = False
    for line in text.split("\n"):
        stripped = line.lstrip(" ")
        if len(line) - len(stripped) < 4 and stripped.startswith(("```", "~~~")):
            fence = True
        rest = line.removeprefix("GOAL: complete")
        if rest != line and (not rest or rest[0] in " :"):
            expected = True
    # Where there are no fences it is just that; and it is never said without such a line.
    assert (found is not None) == expected if not fence else found is None or expected


def test_an_evicted_step_leaves_a_line_and_few_are_kept() -> None:
    pursuit = Pursuit("x", group="group")
    pursuit.steps = {str(number): f"step {number}: {'y' * 90}" for number in range(50)}
    for number in range(50):
        pursuit.evicted([Message("user", "", exchange=str(number)), Message("assistant", "")])
    block = pursuit.block()
    assert "- step 49: " in block
    assert "- step 0: " not in block
    assert len(block) < 3500
