"""One command from the click to its output: what asks, what runs, what is kept of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from machine import needs, without_landlock, without_programs

from aish_lsp.agent import Workspace
from aish_lsp.agent.events import End, Notice, Output
from aish_lsp.agent.execution import RunReport, approve, run
from aish_lsp.agent.planning import RunRequest
from aish_lsp.agent.services import Services
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.events import Event
from aish_lsp.foundation.job import Job
from aish_lsp.shell.blocks import FoundCommand
from aish_lsp.shell.risk import UNHELD
from aish_lsp.shell.runner import RunResult


class Place:
    """A workspace whose user gives ``answer``, once ``may_answer`` is set."""

    def __init__(self, root: Path) -> None:
        self.answer: bool | None = True
        self.asked: list[str] = []
        self.is_asking = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.events: list[Event] = []
        self.folder = root / "workspace"
        self.folder.mkdir()
        services = Services(environ={"AISH_DISCOVERY": "off", "PATH": "/usr/bin:/bin"})
        services.ask_user = self._ask
        self.workspace = Workspace(
            self.folder, services, Configuration(self.folder, services.trust, services.environ)
        )
        self.session = self.workspace.shown

    async def _ask(self, question: Any) -> bool | None:
        self.asked.append(question.message)
        self.is_asking.set()
        await self.may_answer.wait()
        return self.answer

    def suggest(self, text: str, **fields: Any) -> str:
        return self.session.add_command(FoundCommand(text, 0, **fields), "turn").id

    async def outcome(self, job: Job[RunReport]) -> RunReport:
        self.events = [event async for event in job.events()]
        return await job.result()

    async def run(self, **fields: Any) -> RunReport:
        return await self.outcome(run(self.session, RunRequest(**fields)))

    @property
    def pending(self) -> list[tuple[str, int, str]]:
        outputs = self.session.conversation.pending
        return [(output.command, output.exit, output.output) for output in outputs]


@pytest.fixture
async def place(own_files: Path) -> AsyncIterator[Place]:
    made = Place(own_files)
    yield made
    await made.workspace.aclose()
    await made.workspace.services.aclose()


@needs(without_programs("git"))
@pytest.mark.parametrize("place_for", ["our runner", "a client's terminal"])
async def test_a_program_of_a_repository_is_not_run_by_a_command_that_only_reads(
    place: Place, monkeypatch: pytest.MonkeyPatch, place_for: str
) -> None:
    monkeypatch.setenv("AISH_LANDLOCK_ABI", "0")
    ran = place.folder.parent / "ran"
    for words in (["init", "-q"], ["config", "core.fsmonitor", f"touch {ran}; false"]):
        subprocess.run(["git", *words], cwd=place.folder, check=True)

    async def run_in_terminal(arguments: Sequence[str], cwd: Path, _seconds: float) -> RunResult:
        done = subprocess.run(arguments, cwd=cwd, check=False)
        return RunResult(done.returncode, None, "", False, 0, "stop")

    if place_for != "our runner":
        Path(os.environ["AISH_CONFIG"]).write_text("[shell]\nclient_terminal = true\n")
        await place.workspace.reload()
        place.workspace.services.run_in_terminal = run_in_terminal
    assert (await place.run(command_id=place.suggest("git status"))).exit_code == 0
    assert (place.asked, ran.exists()) == ([], False)


@pytest.mark.parametrize("off", ["the kernel has none", "the user switched it off"])
@pytest.mark.parametrize("command", ["cat link", "grep -ri password ../HOME", "ls"])
async def test_unattended_command_that_only_reads_asks_without_sandbox(
    place: Place, monkeypatch: pytest.MonkeyPatch, command: str, off: str
) -> None:
    key = Path.home() / ".ssh" / "id_rsa"
    key.parent.mkdir(parents=True)
    key.write_text("password\n")
    (place.folder / "link").symlink_to(key)
    if off.startswith("the kernel"):
        monkeypatch.setenv("AISH_LANDLOCK_ABI", "0")
    else:
        Path(os.environ["AISH_CONFIG"]).write_text("[safety]\nconfine = false\n")
        await place.workspace.reload()
    place.answer = False
    report = await place.run(text=command, approval="unseen")
    assert report.finish_reason == "denied"
    assert [UNHELD in message for message in place.asked] == [True]
    # Their own click, and what they typed themselves, is not asked about.
    for fields in ({"command_id": place.suggest(command)}, {"text": command, "origin": "user"}):
        assert (await place.run(**fields)).exit_code == 0
    assert len(place.asked) == 1


async def test_a_suggestion_runs_once_and_its_output_waits_for_the_question(place: Place) -> None:
    command_id = place.suggest("echo hello")
    report = await place.run(command_id=command_id)
    assert (report.exit_code, report.output, report.finish_reason) == (0, "hello\n", "stop")
    assert place.pending == [("echo hello", 0, "hello\n")]
    assert place.asked == []
    assert place.session.commands.all() == []


async def test_the_end_is_told_once_and_last(place: Place) -> None:
    await place.run(text="echo hello; exit 3", origin="user")
    assert [event for event in place.events if isinstance(event, End)] == [End("stop")]
    assert place.events[-1] == End("stop")
    said = [event.delta for event in place.events if isinstance(event, Output)]
    assert "".join(said) == "hello\n"
    assert place.pending == [("echo hello; exit 3", 3, "hello\n")]


async def test_what_may_lose_something_asks_first(place: Place) -> None:
    (place.folder / "kept").write_text("all")
    place.answer = False
    report = await place.run(command_id=place.suggest("rm kept"))
    assert (report.finish_reason, report.exit_code) == ("denied", None)
    assert (place.folder / "kept").exists()
    assert len(place.asked) == 1
    assert place.pending == []
    place.answer = True
    report = await place.run(command_id=place.suggest("rm kept"))
    assert (report.finish_reason, report.exit_code) == ("stop", 0)
    assert not (place.folder / "kept").exists()


async def test_what_nobody_confirmed_runs_once_it_is_approved(place: Place) -> None:
    (place.folder / "kept").write_text("all")
    place.answer = None
    report = await place.run(command_id=place.suggest("rm kept"))
    assert report.finish_reason == "denied"
    [notice] = [event for event in place.events if isinstance(event, Notice)]
    assert f":approve {report.command_id}" in notice.message
    assert (place.folder / "kept").exists()
    approved = await place.outcome(approve(place.session, report.command_id))
    assert approved.exit_code == 0
    assert len(place.asked) == 1
    assert not (place.folder / "kept").exists()
    with pytest.raises(NotFound):
        approve(place.session, report.command_id)


async def test_what_nobody_had_seen_is_not_asked_about_again_once_approved(place: Place) -> None:
    place.answer = None
    report = await place.run(text="touch made", approval="unseen")
    assert report.finish_reason == "denied"
    approved = await place.outcome(approve(place.session, report.command_id))
    assert approved.finish_reason == "stop"
    assert len(place.asked) == 1
    assert (place.folder / "made").exists()


async def test_what_is_approved_before_its_question_has_ended_can_be_stopped(place: Place) -> None:
    place.answer = None
    job = run(place.session, RunRequest(text="rm -f x; sleep 60", origin="user"))
    approved = None
    async for event in job.events():
        if isinstance(event, Notice):
            approved = approve(place.session, job.id)
    await job.result()
    assert approved is not None
    await asyncio.sleep(0)
    assert place.session.jobs.cancel(job.id) == 1
    assert (await place.outcome(approved)).finish_reason == "cancelled"


async def test_a_cancel_before_the_command_starts_gives_a_result(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def can_confine() -> bool:
        return True

    async def sandbox(_: Path) -> None:
        began.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(place.workspace, "can_confine", can_confine)
    monkeypatch.setattr(place.workspace.services.confinement, "sandbox", sandbox)
    command_id = place.suggest("ls")
    job = run(place.session, RunRequest(command_id=command_id))
    await began.wait()
    job.cancel()
    assert (await place.outcome(job)).finish_reason == "cancelled"
    # It was not run, and still can be.
    assert [info.id for info in place.session.commands.all()] == [command_id]
    assert place.pending == []


async def test_a_cancel_while_the_user_is_asked_runs_nothing(place: Place) -> None:
    (place.folder / "kept").write_text("all")
    place.may_answer.clear()
    job = run(place.session, RunRequest(command_id=place.suggest("rm kept")))
    await place.is_asking.wait()
    job.cancel()
    report = await place.outcome(job)
    assert report.finish_reason == "cancelled"
    assert (place.folder / "kept").exists()
    assert place.events[-1] == End("cancelled")


async def test_a_folder_that_was_replaced_while_the_user_was_asked_is_not_run_in(
    place: Place,
) -> None:
    (place.folder / "sub").mkdir()
    place.may_answer.clear()
    job = run(place.session, RunRequest(text="rm -f kept", cwd="sub"))
    await place.is_asking.wait()
    (place.folder / "sub").rename(place.folder / "other")
    (place.folder / "sub").mkdir()
    place.may_answer.set()
    with pytest.raises(Exception, match="taken the place"):
        await place.outcome(job)
    assert place.pending == []


@pytest.mark.parametrize(
    ("fields", "error", "told"),
    [
        ({}, InvalidArgument, "Say what to run"),
        ({"text": " "}, InvalidArgument, "is empty"),
        ({"text": "touch \ud800x"}, InvalidArgument, "half a character"),
        ({"text": "echo", "cwd": "/"}, InvalidArgument, "not inside"),
        ({"text": "echo", "cwd": "nowhere"}, NotFound, "not a folder"),
        ({"text": "echo", "cwd": "x" * 5000}, NotFound, "not a folder"),
        ({"text": "echo", "cwd": "\ud800"}, InvalidArgument, "not inside"),
        ({"text": "echo", "cwd": "a\0b"}, InvalidArgument, "not inside"),
        ({"text": "echo", "cwd": "file://["}, InvalidArgument, "not inside"),
        ({"command_id": "gone"}, NotFound, "gone"),
    ],
)
def test_what_cannot_run_is_refused_at_once(
    place: Place, fields: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        run(place.session, RunRequest(**fields))


def test_a_suggestion_with_gaps_is_to_be_edited(place: Place) -> None:
    command_id = place.suggest("ssh <host>", placeholders=("<host>",))
    with pytest.raises(InvalidArgument, match="fill in <host> first"):
        run(place.session, RunRequest(command_id=command_id))


async def test_what_is_undone_together_is_given_from_above(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[str] = []

    async def before(group: str, *_args: object) -> None:
        groups.append(group)

    async def after() -> list[str]:
        return []

    monkeypatch.setattr(place.workspace.undo, "before", before)
    monkeypatch.setattr(place.workspace.undo, "after", after)
    report = await place.run(text="touch a", origin="user")
    for name in ("b", "c"):
        await place.run(text=f"touch {name}", origin="user", group="together")
    assert groups == [report.command_id, "together", "together"]


@pytest.mark.slow
async def test_what_was_begun_to_be_undoable_is_ended_whenever_it_is_cancelled(
    place: Place,
) -> None:
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    for pause in range(0, 100, 10):
        request = RunRequest(text=f"touch made{pause}; sleep 60", origin="user", group="made")
        job = run(place.session, request)
        await asyncio.sleep(pause / 1000)
        job.cancel()
        assert (await place.outcome(job)).finish_reason == "cancelled"
        assert not place.workspace.undo.holds("made")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("cd .", True),
        ("export A=b", True),
        (". ./e", True),
        ("A=b", True),
        ("cd . && export A=b;", True),
        ('eval "$(true)"', True),
        ("cd . && ls", False),
        ("A=b ls", False),
        ("set -e\nls", False),
        ("cd ." + "\n" * 60 + "ls", False),
        ("ulimit -a", False),
        ("export -p;", False),
        ("ls", False),
    ],
)
async def test_a_change_of_a_shell_that_ends_with_it_is_told(
    place: Place, text: str, is_told: bool
) -> None:
    (place.folder / "e").touch()
    await place.run(text=text, origin="user")
    told = [one.message for one in place.events if isinstance(one, Notice)]
    assert any("Each command runs in a new shell" in message for message in told) is is_told


@pytest.mark.slow
async def test_an_unanswered_question_is_told_to_user_and_model(place: Place) -> None:
    report = await place.run(text="touch x; rm -i x", origin="user")
    assert report.exit_code == 0
    told = [one.message for one in place.events if isinstance(one, Notice)]
    assert any("needs a terminal" in message for message in told)
    assert place.pending[-1][2].endswith("[aish: it needs a terminal, and has none]\n")


@pytest.mark.slow
async def test_a_program_of_the_login_shell_is_found_or_named(place: Place) -> None:
    home = place.folder.parent / "home"
    (home / "tools").mkdir(parents=True)
    (home / ".bash_profile").write_text(
        f"PATH=$PATH:{home}/tools; export MY_TOKEN=kept-by-login-1\n"
    )
    tool = home / "tools" / "my-tool"
    tool.write_text("#!/bin/sh\necho it runs, $MY_TOKEN\n")
    tool.chmod(0o755)
    services = place.workspace.services
    services.environ = {**services.environ, "HOME": str(home), "SHELL": "/bin/bash"}
    report = await place.run(text="my-tool", origin="user")
    assert report.exit_code == 127
    told = [one.message for one in place.events if isinstance(one, Notice)]
    assert any(str(tool) in message and "[shell]" in message for message in told)
    place.workspace.configuration.initialize({"aish": {"shell": {"login": True}}})
    report = await place.run(text="my-tool", origin="user")
    assert report.exit_code == 0
    assert "it runs, kept-by-login-1" in report.output
    # What the login shell keeps secret is masked as well.
    assert place.pending[-1][2] == "it runs, [secret]\n"


@pytest.mark.slow
@needs(without_programs("direnv") or without_landlock())
async def test_what_direnv_sets_in_the_folder_reaches_commands_and_its_secrets_no_model(
    place: Place,
) -> None:
    services = place.workspace.services
    home = str(place.folder.parent / "home")
    services.environ = {**services.environ, "HOME": home, "SHELL": "/bin/bash"}
    envrc = place.folder / ".envrc"
    envrc.write_text("export STAGE=test APP_TOKEN=first-by-direnv\n")
    subprocess.run(["direnv", "allow"], cwd=place.folder, env=services.environ, check=True)
    print_both = "echo $STAGE $APP_TOKEN"
    report = await place.run(text=print_both, origin="user")
    assert report.output == "\n"
    place.workspace.configuration.initialize({"aish": {"shell": {"login": True}}})
    report = await place.run(text=print_both, origin="user")
    assert report.output == "test first-by-direnv\n"
    # Tool servers run unconfined: they get what the login shell sets, and nothing of the project's.
    assert "STAGE" in place.workspace.environ
    assert "STAGE" not in place.workspace.user_environ
    assert place.pending[-1][2] == "test [secret]\n"
    envrc.write_text("export STAGE=test APP_TOKEN=later-by-direnv\n")
    subprocess.run(["direnv", "allow"], cwd=place.folder, env=services.environ, check=True)
    await place.run(text=print_both, origin="user")
    assert place.pending[-1][2] == "test [secret]\n"
    envrc.write_text("export STAGE=other\n")
    report = await place.run(text=print_both, origin="user")
    assert report.output == "\n"
    told = [one.message for one in place.events if isinstance(one, Notice)]
    assert any("direnv allow" in message for message in told)
