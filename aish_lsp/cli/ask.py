"""``aish-lsp ask "..."`` and ``aish-lsp norris "GOAL"``: ask a model, or let it pursue a goal.

After a reply, each command that it suggests is offered to the user.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aish_lsp.agent.events import Command, CommandInfo, End, Notice, Output, Step, Text, Tool
from aish_lsp.chat.transcript import call_ended, run_ending, step_ended
from aish_lsp.cli import terminal
from aish_lsp.cli.command import (
    Joined,
    Shell,
    add_command,
    add_session_choice,
    caller_of,
    open_workspace,
)
from aish_lsp.cli.spelling import for_shell
from aish_lsp.cli.terminal import read_line
from aish_lsp.context.attached import piped
from aish_lsp.foundation.errors import AishError, InvalidArgument
from aish_lsp.foundation.events import Event, to_wire
from aish_lsp.foundation.text import escaped, is_seen
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.dispatch import begin, dispatch
from aish_lsp.operations.operation import Answer, Subject

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.agent.planning import ApprovalState
    from aish_lsp.context.messages import Attached
    from aish_lsp.foundation.job import Job
    from aish_lsp.foundation.ports import Question, Remember, UserAnswer
    from aish_lsp.operations.operation import Caller

R = TypeVar("R")

#: Seconds within which something must come from a pipe.
_PATIENCE: Final = 1.0
_ASK_WHAT: Final = (
    "Ask what? Such as `aish-lsp ask how do I run the tests`. `aish-lsp chat` is a conversation."
)

#: Bytes that are kept of each end of what is piped in.
_PIPED_END: Final = 1 << 17


def add_parser(commands: Any) -> None:
    """Add ``ask`` to the command line."""
    ask = add_command(commands, "ask", run, "ask a question")
    ask.add_argument(
        "question",
        nargs="*",
        help="the question, quoted or not; - reads it from stdin, as does none with a pipe",
    )
    ask.add_argument("--no-stdin", action="store_true", help="do not send along what is piped in")
    ask.add_argument("--model", metavar="M", help="the model that answers")
    ask.add_argument(
        "--yes-safe", action="store_true", help="run read-only commands without asking"
    )
    add_session_choice(ask)


async def run(arguments: argparse.Namespace) -> int:
    """Ask, stream the reply and offer its commands; return the exit code.

    Raises:
        InvalidArgument: the question is a command of the chat.
    """
    attached = None
    if arguments.question == ["-"]:
        question = sys.stdin.read()
    elif not arguments.question:
        question = "" if sys.stdin.isatty() or arguments.no_stdin else sys.stdin.read()
        if not question.strip():
            terminal.tell(_ASK_WHAT)
            return 2
    else:
        question = " ".join(arguments.question)
        attached = None if arguments.no_stdin else await _piped()
    if question.startswith(":"):
        _refuse_command(question)
    offering = _Offering()
    asks = offering.ask_user if terminal.can_ask() else None
    async with open_workspace(arguments, asks) as workspace:
        offering.workspace = workspace
        if arguments.model:  # Before a session begins, which `--continue` would go on with.
            await workspace.shown.models.choose(arguments.model)
        if arguments.session is not None or arguments.last:
            earlier = {"id": arguments.session}
            resumed = await dispatch(OPERATIONS["session.resume"], earlier, caller_of(workspace))
            assert isinstance(resumed, Answer)
            terminal.tell(for_shell(resumed.text))
        params = {"prompt": question, "model": arguments.model}
        caller = replace(caller_of(workspace), face=_Asking(attached))
        job = await begin("ask", params, caller)
        result = await watched(job, as_json if arguments.json else _print_turn)
        if arguments.json:
            as_json(result)
        else:
            for command in result.commands:
                await offering.offer(command, safe_unasked=arguments.yes_safe)
        is_answered = result.text.strip() or result.finish_reason == "tool"
        return 0 if is_answered and result.finish_reason in ("stop", "length", "tool") else 1


def _refuse_command(question: str) -> None:
    """Raise InvalidArgument for a command of the chat, which a model would take for a question."""
    from aish_lsp.chat.colon import COLON_COMMANDS, parse  # noqa: PLC0415 - no question needs it

    command = parse(question)
    if command and command.name in COLON_COMMANDS.rows:
        msg = f"This is a command, not a question: use `:{command.name} {command.argument}".rstrip()
        raise InvalidArgument(f"{msg}`.")


#: Programs that run another one with their own input, and read none of it.
_WRAPPERS: Final = frozenset(
    {"timeout", "time", "sudo", "doas", "nice", "ionice", "stdbuf", "setsid", "strace"}
)


class _Asking(Shell):
    """The shell with what was piped into it."""

    def __init__(self, attached: Attached | None) -> None:
        self._attached = attached

    async def subject(self, _params: Any) -> Subject:
        """Return what was piped in: the question is about that."""
        return Subject((self._attached,) if self._attached else ())


async def _piped() -> Attached | None:
    """Return what is piped in, from a pipe or a file that nobody else reads."""
    if not _is_ours():
        return None
    fd = sys.stdin.fileno()
    readable, _, _ = await asyncio.to_thread(select.select, [fd], [], [], _PATIENCE)
    if not readable:
        terminal.tell(
            f"Nothing came from the pipe for {_PATIENCE:.0f} s: the question goes without it."
            " `--no-stdin` never waits for one."
        )
        return None
    head, tail, size = bytearray(), bytearray(), 0
    while piece := await asyncio.to_thread(os.read, fd, 1 << 16):
        size += len(piece)
        room = max(0, _PIPED_END - len(head))
        head += piece[:room]
        tail += piece[room:]
        if len(tail) > 2 * _PIPED_END:
            del tail[:-_PIPED_END]
    del tail[: max(0, len(tail) - _PIPED_END)]
    if b"\0" in head or b"\0" in tail:
        terminal.tell(
            "What is piped in is not text in UTF-8: the question goes without it. If it is UTF-16,"
            " pass it through `iconv -f UTF-16`."
        )
        return None
    attached = piped(bytes(head), bytes(tail), size - len(head) - len(tail))
    if attached is not None and "\ufffd" in attached.text and "\ufffd".encode() not in head + tail:
        terminal.tell(
            "What is piped in is not UTF-8: bytes that could not be read are sent as \ufffd. If it"
            " is Latin-1, pass it through `iconv -f LATIN1`."
        )
    return attached


def _is_ours() -> bool:
    """Return whether stdin is a pipe or a file whose contents are meant for this command alone.

    A loop such as ``while read`` has the same stdin as the commands in it, which must leave it.
    """
    try:
        fd = sys.stdin.fileno()
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            return os.lseek(fd, 0, os.SEEK_CUR) == 0 and status.st_size > 0
        if not stat.S_ISFIFO(status.st_mode):
            return False
    except (OSError, ValueError):
        return False  # It is closed, or no file at all.
    try:
        around = Path(f"/proc/{os.getppid()}")
        while (around / "comm").read_text().strip() in _WRAPPERS:
            # The number of its parent follows its name, in brackets, and its state.
            parent = (around / "stat").read_text().rpartition(")")[2].split()[1]
            around = Path(f"/proc/{parent}")
        return not os.path.samestat(status, (around / "fd" / "0").stat())
    except OSError:
        return True  # There is no such folder, or it is another user's.


async def watched(job: Job[R], show: Callable[[Event], None]) -> R:
    """Show a job's events and return its result; Ctrl-C stops the job, not the program."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, job.cancel)
    try:
        async for event in job.events():
            show(event)
        return await job.result()
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def as_json(value: Any) -> None:
    """Write an event or a result on one line."""
    terminal.out.as_json(to_wire(value))


def _print_turn(event: Event) -> None:
    """Write a reply to stdout as it arrives, and everything else to stderr."""
    if isinstance(event, Output):
        terminal.err.write(event.delta)
    else:
        show_event(event)


def show_event(event: Event) -> None:
    """Write text and output to stdout as they arrive, and everything else to stderr.

    Suggested commands are skipped, as the text contains them.
    """
    match event:
        case Text() | Output():
            terminal.out.write(event.delta)
        case Notice():
            terminal.tell(event.message)
        case Tool():
            if summary := call_ended(event):
                terminal.tell(summary)
        case Step(status=status):
            if status not in ("planned", "running"):
                terminal.out.end_line()
                terminal.tell(step_ended(event))
        case End(finish_reason=reason):
            terminal.out.end_line()
            if reason in ("cancelled", "timeout"):
                terminal.tell("stopped" if reason == "cancelled" else "it took too long")


class _Offering:
    """Offers to run the commands of a reply, which the user may edit first."""

    def __init__(self) -> None:
        self.workspace: Workspace
        # Whether the next question is about the command that is offered, and whether to edit it.
        self._is_offering = self._is_to_be_edited = False

    async def ask_user(self, question: Question) -> UserAnswer:
        """Ask at the terminal; what is offered can be edited, and allowed in this folder."""
        if not self._is_offering:
            return await terminal.ask_user(question)
        # The session ends with this reply.
        remember: Mapping[Remember, str] = {
            scope: label for scope, label in question.remember.items() if scope == "folder"
        }
        folder = "[f]rom now on in this folder, " if remember else ""
        answer = await read_line(
            f"\n{terminal.wrapped(for_shell(question.message))}\n\n[y]es, {folder}[e]dit, [N]o? "
        )
        self._is_to_be_edited = _is_edit(answer)
        # The end of the input is a no: nothing here could approve the command later.
        return terminal.meant(replace(question, remember=remember), answer or "")

    async def offer(self, command: CommandInfo, *, safe_unasked: bool) -> None:
        """Offer a suggestion.

        With ``safe_unasked``, a safe ``CMD: `` line runs without asking. A fence never does, as the
        model may only have wanted to show it.
        """
        suggestion = self.workspace.shown.commands.suggestion(command.id)
        unasked = safe_unasked and command.risk == "safe" and command.source == "cmd"
        if not (unasked or terminal.can_ask()):
            return
        shown = "\n".join(f"    {escaped(line)}" for line in command.text.split("\n"))
        if suggestion.obstacle and not unasked:
            terminal.tell(f"not run, because {suggestion.obstacle}:\n\n{shown}")
            return
        if suggestion.runs or unasked:
            await self._run(command, "unseen" if unasked else "offered")
        else:
            where = f"in {escaped(str(self.workspace.folder))}"
            answer = await read_line(f"\n{shown}\n\n{where}\n\n[e]dit, [N]o? ")
            self._is_to_be_edited = _is_edit(answer)
        if self._is_to_be_edited and (edited := await _edited(command.text)).strip():
            # The user has just seen exactly this text and agreed to it.
            await self._run(command, "given", edited)

    async def _run(
        self, command: CommandInfo, approval: ApprovalState, edited: str | None = None
    ) -> None:
        self._is_offering, self._is_to_be_edited = approval == "offered", False
        caller = caller_of(self.workspace, approval)
        again = await _run(caller, {"commandId": command.id, "edited": edited})
        self._is_offering = False
        # A command that needs to run without confinement is suggested again.
        for info in again:
            await self.offer(info, safe_unasked=False)


def _is_edit(answer: str | None) -> bool:
    return (answer or "").strip().lower() in ("e", "edit")


async def _run(caller: Caller, params: Mapping[str, object]) -> list[CommandInfo]:
    """Run a command and show its output; return the commands suggested in its place."""
    again: list[CommandInfo] = []

    def show(event: Event) -> None:
        if isinstance(event, Command):
            again.append(event.command)
        show_event(event)

    try:
        report = await watched(await begin("run", params, caller), show)
    except AishError as error:
        terminal.tell(error.message)
        return []
    if report.finish_reason != "denied":
        terminal.tell(run_ending(report))
    return again


async def _edited(text: str) -> str:
    """Let the user edit a command, in their editor if it has several lines; empty if canceled."""
    if "\n" in text:
        return await asyncio.to_thread(terminal.edit_command, text)
    if is_seen(text) and sys.stdout.isatty() and not terminal.is_dumb():
        return terminal.edit_line("Run instead: ", text)
    return await read_line("Run instead: ") or ""


def add_norris(commands: Any) -> None:
    """Add ``norris`` to the command line."""
    norris = add_command(commands, "norris", _norris, "pursue a goal autonomously")
    norris.add_argument("goal", nargs="+", action=Joined, help="the goal to reach, quoted or not")
    norris.add_argument("--model", metavar="M", help="the model that answers")
    norris.add_argument("--max-steps", type=_steps, metavar="N", help="the most steps to take")
    norris.add_argument(
        "--allow-caution",
        action="store_true",
        help="without asking, run commands that can only change files in the folder",
    )


def _steps(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps, 1 or more")
    return int(text)


async def _norris(arguments: argparse.Namespace) -> int:
    """Pursue the goal; return 0 if it was reached, else 1."""
    async with open_workspace(arguments) as workspace:
        if arguments.model:
            await workspace.shown.answer_with(arguments.model)
        names = {"goal": "goal", "allow_caution": "allowCaution", "max_steps": "maxSteps"}
        params = {key: getattr(arguments, name) for name, key in names.items()}
        job = await begin("norris.start", params, caller_of(workspace))
        result = await watched(job, as_json if arguments.json else show_event)
        if arguments.json:
            as_json(result)
        return 0 if result.outcome == "complete" else 1
