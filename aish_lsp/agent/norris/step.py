"""The work of one step toward a goal: its commands, in order, and the results of its calls."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.execution import run_and_tell
from aish_lsp.agent.planning import RunRequest
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.text import clipped, count_of, escaped, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.agent.events import CommandInfo, Step, StepStatus
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.session import Session
    from aish_lsp.foundation.job import Emit
    from aish_lsp.tools import ResultStatus

#: Seconds that one command of a step may take.
_COMMAND_SECONDS: Final = 600.0

#: The most characters of a command that are shown.
_LINE: Final = 120

#: A number of seconds, which differs each time a command runs.
_DURATION: Final = re.compile(r"\d+(?:\.\d+)?(?=\s*m?s(?:ec|econds?)?\b)")


class StepWork:
    """Does the work of a step, and keeps its results.

    Args:
        session: the session in which the goal is pursued.
        group: the undo group of all steps.
        emit: reports events.
        exits: the last exit status of each command of the run, by its text; the step adds its own.

    Attributes:
        status: how the step ended.
        exit_code: the exit status of the last command that was run; None if there was none.
        rows: a line about each of its calls and commands.
        notes: what the next message tells the model about them.
    """

    def __init__(self, session: Session, group: str, emit: Emit, exits: dict[str, int]) -> None:
        self.status: StepStatus = "done"
        self.exit_code: int | None = None
        self.rows: list[str] = []
        self.notes: list[str] = []
        self._session = session
        self._group = group
        self._emit = emit
        self._exits = exits
        self._results: list[str] = []

    def take_calls(self, broken_off: ResultStatus | None) -> list[str]:
        """Note the calls that the turn made, and return their ids.

        ``broken_off`` is the status of the call that ended the step early, if one did.
        """
        self.status = broken_off or "done"
        messages = self._session.conversation.messages
        recent = list(takewhile(lambda one: one.role != "user", reversed(messages)))
        results = {one.tool_call_id: one.content for one in recent if one.role == "tool"}
        calls = [call for one in reversed(recent) for call in one.tool_calls]
        self._results = [results.get(call.id, "") for call in calls]
        for call, result in zip(calls, self._results, strict=True):
            text = f"{call.name} {call.arguments}"
            ran = re.match(r"\[exit (\d+)", result)
            if ran and call.name == "run_command":
                self._note_exit(text, int(ran[1]))
            else:
                self.rows.append(self._line(text))
        return [call.id for call in calls]

    async def run_commands(self, step: Step, commands: Sequence[CommandInfo]) -> None:
        """Run the commands of a step in order until one fails, or none if a call has failed.

        Raises:
            CancelledError: a command was stopped.
        """
        if commands and self.status == "done":
            await self._emit(replace(step, status="running"))
        for number, info in enumerate(commands):
            if self.status != "done":
                self._note_skipped(len(commands) - number)
                return
            text = self._line(info.text)
            request = RunRequest(
                command_id=info.id, group=self._group, timeout=_COMMAND_SECONDS, approval="unseen"
            )
            try:
                report = await run_and_tell(self._session, request, self._emit)
            except AishError as error:
                self.status = "failed"
                self.rows.append(f"{text}, not run")
                self.notes.append(f"[aish] {text}: {error.message}")
            else:
                self._note_report(report)

    def _note_report(self, report: RunReport) -> None:
        """Note how a command ended.

        Raises:
            CancelledError: it was stopped.
        """
        text = self._line(report.text)
        if report.finish_reason == "denied":
            self.status = "denied"
            self.rows.append(f"{text}, skipped")
            self.notes.append(f"[aish] {text}: skipped by user")
            return
        if report.finish_reason == "cancelled":
            raise asyncio.CancelledError
        code = report.exit_code if report.exit_code is not None else 1
        self._note_exit(report.text, code)
        if report.finish_reason == "timeout":
            self.notes.append(f"[aish] {text}: stopped after {_COMMAND_SECONDS:.0f} s")
        if code or report.finish_reason != "stop":
            self.status = "failed"

    def _note_exit(self, text: str, code: int) -> None:
        """Note the exit status of a command."""
        self.exit_code = code
        # Move it to the end: only the last commands that failed are named.
        self._exits.pop(text, None)
        self._exits[text] = code
        self.rows.append(f"{self._line(text)}, exit {code}")

    def _line(self, command: str) -> str:
        """Return a command as it is logged: what is cut off could be the rest of a secret."""
        return line_of(self._session.workspace.without_secrets(command))

    def _note_skipped(self, count: int) -> None:
        """Note for the model that ``count`` commands were not run."""
        were = "was" if count == 1 else "were"
        commands = f"{count_of(count, 'command')} after it"
        self.notes.append(f"[aish] The rest of the step, {commands} {were} not run.")

    async def state(self) -> str:
        """Return a hash that equals the previous step's if the step has achieved nothing."""
        pending = self._session.conversation.pending
        outputs = [f"{one.command}\n{one.exit}\n{one.output}" for one in pending]
        results = "\n".join([*self.rows, *self.notes, *self._results, *outputs])
        names = await self._session.workspace.files.names()
        tree = await asyncio.to_thread(_tree, self._session.workspace.folder, sorted(names))
        return hashlib.sha256(f"{_DURATION.sub('N', results)}\n{tree}".encode()).hexdigest()


def line_of(command: str) -> str:
    """Return a command as it is shown: shortened, and on one line."""
    return clipped(one_line(escaped(command)), _LINE)


def _tree(folder: Path, names: Sequence[str]) -> str:
    """Return a hash of the names, sizes, modes and times of the project's files."""
    digest = hashlib.sha256()
    for name in names:
        try:
            status = (folder / name).lstat()
        except OSError:
            continue
        entry = f"{name}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0"
        digest.update(os.fsencode(entry))
    return digest.hexdigest()
