"""Remembered approvals: what runs without a question, where it runs, and asking again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from machine import needs, without_landlock, without_namespaces

from aish_lsp.agent import Workspace
from aish_lsp.agent.execution import RunReport, run
from aish_lsp.agent.norris import Pursuit
from aish_lsp.agent.planning import RunRequest
from aish_lsp.agent.services import Services
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.ports import Buffers, Question, UserAnswer
from aish_lsp.models.request import ToolCall
from aish_lsp.shell.blocks import FoundCommand, Source
from aish_lsp.tools import Around, ToolResult
from aish_lsp.tools.toolbox import call_tool

pytestmark = pytest.mark.slow

SCRIPT = "echo ran; echo x > made; echo y > ../outside/made"


class Place:
    """A work tree whose user gives ``answer``."""

    def __init__(self, root: Path) -> None:
        self.answer: UserAnswer = "session"
        self.asked: list[Question] = []
        self.folder, self.outside = root / "tree", root / "outside"
        self.folder.mkdir()
        self.outside.mkdir()
        subprocess.run(["git", "init", "-q", self.folder], check=True)
        (self.folder / "run.sh").write_text(SCRIPT)
        self.services = Services(
            environ={"AISH_DISCOVERY": "off", "PATH": "/usr/bin:/bin"}, tools_of=tools_of
        )
        self.services.ask_user = self._ask
        self.workspace = self.opened()

    def opened(self) -> Workspace:
        configuration = Configuration(self.folder, self.services.trust, self.services.environ)
        return Workspace(self.folder, self.services, configuration)

    async def _ask(self, question: Question) -> UserAnswer:
        self.asked.append(question)
        return self.answer if self.answer in (*question.remember, True, False) else True

    async def run(
        self, text: str | None = None, workspace: Workspace | None = None, **more: Any
    ) -> RunReport:
        """Run what a model asks for, so that nobody has seen it."""
        request = RunRequest(text=text, **{"approval": "unseen", **more})
        job = run((workspace or self.workspace).shown, request)
        async for _ in job.events():
            pass
        return await job.result()

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        async def ignore(_event: object) -> None:
            pass

        call = ToolCall("c1", name, json.dumps(arguments))
        around = Around(ignore, ignore, "turn", 10_000)
        return await call_tool(self.workspace.shown.tools, call, around)


class Saving(Buffers):
    """An editor with unsaved changes of ours in one file, which it saves when asked to."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    async def unsaved(self) -> list[Path]:
        return [self.path] if self.path.read_text() != self.text else []

    def can_save(self) -> bool:
        return True

    async def save(self, paths: Sequence[Path]) -> list[Path]:
        self.path.write_text(self.text)
        return [*paths]


@pytest.fixture
async def place(own_files: Path) -> AsyncIterator[Place]:
    made = Place(own_files)
    yield made
    await made.workspace.aclose()
    await made.services.aclose()


WORK = needs(without_landlock() or without_namespaces())


@WORK
async def test_what_is_allowed_in_a_session_runs_again_unasked_in_work(place: Place) -> None:
    assert (await place.run("sh run.sh")).exit_code == 0
    [question] = place.asked
    assert [*question.answers] == [
        "Run",
        "Run, and don't ask again in this session",
        "Run, and don't ask again in this folder",
        "Cancel",
    ]
    assert "`:undo` restores" in question.message
    assert question.message.startswith("Run this command (caution)?\n\n    sh run.sh\n\nin ")
    (place.outside / "made").unlink()
    (place.folder / "made").unlink()
    report = await place.run("sh  'run.sh'")
    assert (len(place.asked), report.output[:4]) == (1, "ran\n")
    assert (place.folder / "made").exists()
    assert not (place.outside / "made").exists()
    await place.run("sh run.sh x")
    assert len(place.asked) == 2


@WORK
async def test_what_is_clicked_and_allowed_before_is_not_confined(place: Place) -> None:
    long = f"sh run.sh {'x' * 80}"
    for _ in range(2):
        await place.run(long, approval="")
    assert len(place.asked) == 1
    assert (place.outside / "made").exists()


async def test_a_fence_that_is_allowed_asks_until_it_is_clicked(place: Place) -> None:
    await place.run("sh run.sh")
    place.answer = False

    async def suggested(source: Source, approval: str) -> str:
        found = FoundCommand("sh run.sh", 0, source=source)
        info = place.workspace.shown.add_command(found, "turn")
        return (await place.run(command_id=info.id, approval=approval)).output[:4]

    assert (await suggested("fence", "offered"), len(place.asked)) == ("", 2)
    assert await suggested("cmd", "offered") == "ran\n"
    assert await suggested("fence", "") == "ran\n"
    assert len(place.asked) == 2


async def test_without_work_an_approval_holds_for_the_session_and_the_same_files(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISH_LANDLOCK_ABI", "0")
    await place.run("sh run.sh")
    assert place.asked[0].remember == {
        "session": "Run, and don't ask again in this session (unconfined)"
    }
    (place.outside / "made").unlink()
    await place.run("sh run.sh")
    assert len(place.asked) == 1
    assert (place.outside / "made").exists()
    (place.folder / "run.sh").write_text("echo evil")
    place.answer = False
    assert (await place.run("sh run.sh")).finish_reason == "denied"


async def test_without_work_a_file_that_is_saved_for_the_command_asks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISH_LANDLOCK_ABI", "0")
    await place.run("sh run.sh")
    place.services.buffers = Saving(place.folder / "run.sh", "echo evil > ../outside/evil")
    Path(os.environ["AISH_CONFIG"]).write_text('[suggestions]\nsave = "always"\n')
    await place.workspace.reload()
    with pytest.raises(Denied, match="has changed since it was checked"):
        await place.run("sh run.sh")
    assert not (place.outside / "evil").exists()
    place.answer = False
    assert (await place.run("sh run.sh")).finish_reason == "denied"


@WORK
async def test_what_is_allowed_in_a_folder_is_kept_until_it_is_revoked(place: Place) -> None:
    place.answer = "folder"
    await place.run("sh run.sh && echo done")
    [first, second] = place.workspace.shown.approvals.listed()
    assert (first.what, second.what, first.scope) == ("sh run.sh", "echo done", "folder")
    later = place.opened()
    place.answer = False
    assert (await place.run("sh run.sh", later)).exit_code is not None
    assert len(place.asked) == 1
    approvals = later.shown.approvals
    await approvals.revoke(approvals.listed()[0])
    assert [one.what for one in approvals.listed()] == ["echo done"]
    assert (await place.run("sh run.sh", later)).finish_reason == "denied"
    assert (await place.run("sh run.sh")).finish_reason == "denied"
    await later.aclose()


@WORK
@pytest.mark.parametrize("document", ['{"version": 0, "grants": []}', '{"version": 99}', "{", ""])
async def test_a_file_of_grants_that_cannot_be_read_allows_nothing(
    place: Place, document: str
) -> None:
    place.answer = "folder"
    await place.run("sh run.sh")
    path = Path(os.environ["AISH_DATA_DIR"]) / "trust.json"
    assert json.loads(path.read_text())["grants"][0]["what"] == "command"
    path.write_text(document)
    place.answer = False
    assert (await place.run("sh run.sh")).finish_reason == "denied"
    assert len(place.asked) == 2
    # From a newer version it is left alone: the command runs, and nothing is remembered.
    place.answer = "folder"
    assert (await place.run("sh run.sh")).exit_code == 0
    is_newer = "99" in document
    assert (path.read_text() == document) is is_newer
    assert bool(place.workspace.shown.approvals.listed()) is not is_newer


@WORK
async def test_a_grant_from_before_commands_were_granted_stays(place: Place) -> None:
    path = Path(os.environ["AISH_DATA_DIR"]) / "trust.json"
    place.services.trust.grant(place.folder, "norris", "x", "y")
    place.answer = "folder"
    await place.run("sh run.sh")
    assert [one["what"] for one in json.loads(path.read_text())["grants"]] == ["norris", "command"]


@pytest.mark.parametrize(
    "text", ["rm run.sh", "sh run.sh > out", "sh $X", "sh run.sh `id`", "X=1 sh run.sh"]
)
async def test_what_cannot_be_remembered_is_not_offered(place: Place, text: str) -> None:
    place.answer = False
    await place.run(text)
    assert [*place.asked[0].answers] == ["Run", "Cancel"]


async def test_who_wants_to_be_asked_always_is_asked_always(place: Place) -> None:
    await place.run("sh run.sh")
    Path(os.environ["AISH_CONFIG"]).write_text('[safety]\nconfirm = "always"\n')
    await place.workspace.reload()
    place.answer = False
    assert (await place.run("sh run.sh")).finish_reason == "denied"
    assert place.asked[1].remember == {}
    assert (await place.call("write_file", path="new", content="x")).status == "denied"
    assert place.asked[2].remember == {}


async def test_a_goal_that_may_run_a_command_is_not_asked_about_it_again(place: Place) -> None:
    session = place.workspace.shown
    session.pursuit = Pursuit("tests pass", group="group")
    place.answer = True
    for _ in range(2):
        await place.run("sh run.sh", group="group")
    assert len(place.asked) == 1
    assert "*yes* also covers the same command" in place.asked[0].message
    session.pursuit = None
    await place.run("sh run.sh")
    assert len(place.asked) == 2


async def test_without_work_a_goals_question_says_that_the_command_runs_unconfined(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISH_LANDLOCK_ABI", "0")
    place.workspace.shown.pursuit = Pursuit("tests pass", group="group")
    await place.run("sh run.sh", group="group")
    assert "covers the same command when it comes again (unconfined)." in place.asked[0].message


@WORK
async def test_what_was_allowed_in_work_asks_where_there_is_no_work_any_more(place: Place) -> None:
    await place.run("make -n none")
    Path(os.environ["AISH_CONFIG"]).write_text("[safety]\nconfine = false\n")
    await place.workspace.reload()
    place.answer = False
    assert (await place.run("make -n none")).finish_reason == "denied"
    # What is allowed there takes its place in the list.
    place.answer = "session"
    await place.run("make -n none")
    assert len(place.workspace.shown.approvals.listed()) == 1


async def test_all_edits_of_a_session_can_be_allowed_and_asked_about_again(place: Place) -> None:
    first = await place.call("write_file", path="a.py", content="x\n")
    [question] = place.asked
    assert [*question.answers][1:] == ["All edits in this session", "Cancel"]
    second = await place.call("edit_file", path="a.py", old="x", new="y")
    assert (first.status, second.status, len(place.asked)) == ("done", "done", 1)
    assert second.diff == "-x\n+y"
    approvals = place.workspace.shown.approvals
    [listed] = approvals.listed()
    assert (listed.what, listed.scope) == ("all edits of files", "session")
    await approvals.revoke(listed)
    place.answer = False
    assert (await place.call("edit_file", path="a.py", old="y", new="z")).status == "denied"
    # A file that decides what runs stays closed.
    assert (await place.call("write_file", path=".envrc", content="x")).status == "failed"


async def test_that_goals_are_allowed_in_a_folder_is_listed_and_revoked(place: Place) -> None:
    place.services.trust.grant(place.folder, "norris", "x", "y")
    approvals = place.workspace.shown.approvals
    [consent] = approvals.listed()
    assert (consent.what, consent.scope) == ("goals that the model pursues by itself", "folder")
    await approvals.revoke(consent)
    assert approvals.listed() == []
    assert place.services.trust.times(place.folder, "norris") == {}
