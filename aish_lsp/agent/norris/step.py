"""What is done in a step towards a goal: its commands, in order, and the results of its calls."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.execution import RunRequest, run_and_tell
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.text import clipped, count_of, escaped, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.agent.events import CommandInfo, Step, StepStatus
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.session import Session
    from aish_lsp.foundation.job import Emit

#: Seconds that one command of a step may take.
_COMMAND_SECONDS: Final = 600.0

#: How many characters of a command are shown.
_LINE: Final = 120

_DURATION: Final = re.compile(r"\d+(?:\.\d+)?(?=\s*m?s(?:ec|econds?)?\b)")


@dataclass(slots=True)
class Made:
    """What a step did: its status, its commands and calls, and notes for the next message."""

    status: StepStatus = "done"
    exit_code: int | None = None
    rows: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class StepWork:
    """Does the work of the steps of one run; all of it is undone together.

    Attributes:
        exits: the last exit status of each command.
    """

    def __init__(self, session: Session, group: str, emit: Emit) -> None:
        self._session = session
        self._group = group
        self._emit = emit
        self.exits: dict[str, int] = {}

    async def run_commands(self, step: Step, commands: Sequence[CommandInfo], made: Made) -> None:
        """Run the commands of a step in order, until one fails; none if a call has failed."""
        if made.status != "done":
            _leave_out(len(commands), made)
            return
        if commands:
            await self._emit(replace(step, status="running"))
        for number, info in enumerate(commands):
            text = clipped(one_line(escaped(info.text)), _LINE)
            request = RunRequest(
                command_id=info.id, group=self._group, timeout=_COMMAND_SECONDS, unattended=True
            )
            try:
                report = await run_and_tell(self._session, request, self._emit)
            except AishError as error:
                made.status = "failed"
                made.rows.append(f"{text}, not run")
                made.notes.append(f"[aish] {text}: {error.message}")
            else:
                self._take(report, text, made)
            if made.status != "done":
                _leave_out(len(commands) - number - 1, made)
                return

    def _take(self, report: RunReport, text: str, made: Made) -> None:
        """Note how a command ended."""
        if report.finish_reason == "denied":
            made.status = "denied"
            made.rows.append(f"{text}, skipped")
            made.notes.append(f"[aish] {text}: skipped by user")
            return
        if report.finish_reason == "cancelled":
            raise asyncio.CancelledError
        code = report.exit_code if report.exit_code is not None else 1
        made.exit_code = code
        self.exits.pop(text, None)
        self.exits[text] = code
        made.rows.append(f"{text}, exit {code}")
        if report.finish_reason == "timeout":
            made.notes.append(f"[aish] {text}: stopped after {_COMMAND_SECONDS:.0f} s")
        if code or report.finish_reason != "stop":
            made.status = "failed"

    def calls(self) -> tuple[list[tuple[str, str]], list[str], int | None]:
        """Return the calls of the step with a line about each, their results, and an exit status.

        The status is that of the last command that a call has run; None if there was none.
        """
        messages = self._session.conversation.messages
        recent = list(takewhile(lambda one: one.role != "user", reversed(messages)))
        results = {one.tool_call_id: one.content for one in recent if one.role == "tool"}
        calls = [call for one in reversed(recent) for call in one.tool_calls]
        rows: list[tuple[str, str]] = []
        code: int | None = None
        for call in calls:
            text = clipped(one_line(escaped(f"{call.name} {call.arguments}")), _LINE)
            ran = re.match(r"\[exit (\d+)", results.get(call.id, ""))
            if ran and call.name == "run_command":
                code = int(ran[1])
                self.exits.pop(text, None)
                self.exits[text] = code
                text += f", exit {code}"
            rows.append((call.id, text))
        return rows, [results.get(call.id, "") for call in calls], code

    async def state(self, made: Made, results: Sequence[str]) -> str:
        """Return a hash that stays the same if a step has achieved nothing."""
        pending = self._session.conversation.pending
        outputs = [f"{one.command}\n{one.exit}\n{one.output}" for one in pending]
        told = "\n".join([*made.rows, *made.notes, *results, *outputs])
        names = await self._session.workspace.files.names()
        tree = await asyncio.to_thread(_tree, self._session.workspace.folder, sorted(names))
        return hashlib.sha256(f"{_DURATION.sub('N', told)}\n{tree}".encode()).hexdigest()


def _leave_out(count: int, made: Made) -> None:
    """Note for the model that ``count`` commands were not run."""
    if count:
        told = f"{count_of(count, 'command')} after it {'was' if count == 1 else 'were'} not run."
        made.notes.append(f"[aish] The rest of the step, {told}")


def _tree(folder: Path, names: Sequence[str]) -> str:
    """Return a hash of the names, sizes, modes and times of the project's files."""
    found = hashlib.sha256()
    for name in names:
        try:
            status = (folder / name).lstat()
        except OSError:
            continue
        told = f"{name}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0"
        found.update(os.fsencode(told))
    return found.hexdigest()
