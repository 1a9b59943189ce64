"""``aish-lsp chat``: the conversation in the terminal, with the same ``:`` commands as the editor.

``prompt_toolkit`` reads the user's input, with completion and history. Without a terminal, Python's
own ``input`` is used.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from aish_lsp.agent.events import Notice
from aish_lsp.chat.colon import (
    COLON_COMMANDS,
    ColonCommand,
    carry_out,
    command_below,
    completions_at,
    parse,
)
from aish_lsp.chat.transcript import first_line, run_ending
from aish_lsp.cli import terminal
from aish_lsp.cli.ask import show_event
from aish_lsp.cli.command import add_command, open_workspace
from aish_lsp.cli.spelling import in_chat
from aish_lsp.cli.terminal import read_line
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.files import data_dir, private_dir
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import escaped
from aish_lsp.operations.ask import AskParams
from aish_lsp.operations.dispatch import begin
from aish_lsp.operations.markdown import checklist
from aish_lsp.operations.operation import Caller, Face

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

    from prompt_toolkit.completion import CompleteEvent, Completer
    from prompt_toolkit.document import Document

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.extractor import Extracted
    from aish_lsp.foundation.job import Job
    from aish_lsp.foundation.ports import Choice

R = TypeVar("R")

#: What ends the conversation, beside the end of the input.
_ENDS: Final = frozenset({"exit", "quit", ":exit", ":quit", ":q"})

_DESCRIPTION: Final = (
    "Talk with the model in this terminal. :help lists the commands, @FILE names a file; Tab"
    " completes both. !COMMAND runs a command. Ctrl-C stops a reply or a command; exit or Ctrl-D"
    " ends the chat."
)


def add_parser(commands: Any) -> None:
    """Add ``chat`` to the command line."""
    help_ = "start a conversation in the terminal"
    chat = add_command(commands, "chat", run, help_, _DESCRIPTION)
    chat.add_argument("--model", metavar="M", help="the model that answers")
    which = chat.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="resume this session, by id or name")
    which.add_argument(
        "--continue", dest="last", action="store_true", help="resume the last session"
    )


async def run(arguments: argparse.Namespace) -> int:
    """Talk until the input ends; return the exit code."""
    in_chat.set(True)
    async with open_workspace(arguments) as workspace:
        chat = TerminalChat(workspace, as_json=arguments.json)
        workspace.services.choose = chat.choose
        if terminal.can_ask():
            # Ctrl-C at a question only leaves it unanswered; the conversation continues.
            workspace.services.ask_user = partial(terminal.ask_user, ctrl_c_ends=False)
        if arguments.session is not None or arguments.last:
            await chat.do(ColonCommand("resume", arguments.session or ""))
        else:
            await workspace.sessions.begin()
            if line := await first_line(workspace):
                chat.show(line.removeprefix("> ").rstrip())
        if arguments.model is not None:
            await workspace.shown.use_model(arguments.model)
        await chat.talk()
    return 0


class TerminalChat(Face):
    """A conversation at this terminal."""

    def __init__(self, workspace: Workspace, *, as_json: bool) -> None:
        self._workspace = workspace
        self._as_json = as_json
        # The last checklist of memory candidates, which `:memory accept` reads.
        self._checklist = ""
        self._work: asyncio.Task[None] | None = None
        self._job: Job[Any] | None = None
        self._had_notice = False

    # The Face protocol

    def tell(self, message: str) -> None:
        """Show ``message`` above the answer."""
        self.show(message)

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for a job, which Ctrl-C stops."""
        terminal.tell(f"{title} ...")
        self._job = job
        try:
            return await job.result()
        finally:
            self._job = None

    async def chat_text(self) -> str:
        """Return the last checklist."""
        return self._checklist

    async def choose(self, choice: Choice) -> int | None:
        """Ask for the number of an option; None without a terminal.

        Any other answer counts as the last option.
        """
        if not terminal.can_ask():
            return None
        rows = [f"  {number}. {option}" for number, option in enumerate(choice.options, 1)]
        whole = [choice.whole, ""] if choice.whole else []
        prompt = "\n".join([*whole, choice.message, *rows, "Which number? "])
        answer = (await read_line(prompt, ctrl_c_ends=False) or "").strip()
        number = int(answer[:9]) if answer.isascii() and answer.isdigit() else 0
        return number - 1 if 0 < number <= len(choice.options) else len(choice.options) - 1

    # The conversation

    async def talk(self) -> None:
        """Read and answer messages until the input ends."""
        read = _reader(self._workspace, lambda: self._checklist)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            while True:
                try:
                    message = await read()
                except KeyboardInterrupt:
                    terminal.out.line("")
                    continue
                except EOFError:
                    terminal.out.line("")
                    return
                finally:
                    # The reader may have removed the handler.
                    loop.add_signal_handler(signal.SIGINT, self._interrupt)
                if message.strip() in _ENDS:
                    return
                if message.strip():
                    await self._interruptible(self._answer(message))
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _interrupt(self) -> None:
        """Stop the current work; a job records what it has before it ends."""
        if self._job is not None:
            self._job.cancel()
        elif self._work is not None:
            self._work.cancel()

    async def _interruptible(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = asyncio.create_task(work)
        try:
            await asyncio.wait([self._work])
            if not self._work.cancelled() and (error := self._work.exception()) is not None:
                if not isinstance(error, AishError):
                    raise error
                terminal.refuse(error, as_json=self._as_json)
        finally:
            self._work = None

    async def _answer(self, message: str) -> None:
        """Carry out a command, or ask the model."""
        command = parse(message)
        if message.startswith("!") and message[1:].strip():
            command = ColonCommand("run", message[1:].strip())
        if command is None and (below := command_below(message, COLON_COMMANDS)):
            command = below.command
            if not below.alone:
                line = f":{command.name} {command.argument}".rstrip()
                asked = f"The last line is an aish command: {escaped(line)}"
                question = Question(asked, "Run it instead of asking the model")
                if not await terminal.ask_user(question, ctrl_c_ends=False):
                    command = None
        if command is not None:
            await self.do(command)
        else:
            params = AskParams(prompt=message)
            await self._reply(await begin("ask", params, self._caller()))

    async def do(self, command: ColonCommand) -> None:
        """Carry out a ``:`` command and show its answer.

        Raises:
            AishError: the command refuses.
        """
        carried = await carry_out(self._caller(), command)
        if carried.text:
            self.show(carried.text)
        match carried.operation.comes:
            case _ if carried.job is None:
                pass
            case "output":
                await self._output(carried.job)
            case "candidates":
                await self._found(carried.job)
            case _:
                await self._reply(carried.job)

    def _caller(self) -> Caller:
        return Caller(self._workspace, self._workspace.shown, self)

    def show(self, text: str) -> None:
        """Write a text of our own, as Markdown source; invisible characters are escaped."""
        if self._as_json:
            terminal.out.as_json({"text": text})
        else:
            terminal.out.line(text)

    async def _reply(self, job: Job[Any]) -> None:
        """Show a reply as it arrives, then its suggested commands with their numbers."""
        await self._watched(job)
        self._list_suggestions()

    def _list_suggestions(self) -> None:
        """Show which commands of the last reply can be run."""
        waiting = self._workspace.shown.last_turn_suggestions
        if waiting and not self._as_json:
            terminal.out.end_line()
            for one in waiting:
                first, *more = escaped_lines(one.info.text)
                gaps = "".join(f", fill in {escaped(gap)}" for gap in one.info.placeholders)
                terminal.out.line(f"  [{one.number}] {first}  ({one.info.risk}{gaps})")
                for line in more:
                    terminal.out.line(f"      {line}")
            terminal.out.line("`:run N` runs one of them.")

    async def _output(self, job: Job[RunReport]) -> None:
        """Show a command and what it prints."""
        if not self._as_json:
            terminal.out.line("\n".join(f"$ {line}" for line in escaped_lines(job.label)))
        report = await self._watched(job)
        if report.finish_reason != "denied":
            terminal.tell(run_ending(report))
        elif not self._had_notice:
            terminal.tell("not run")
        # A command that needs to run without confinement is suggested again.
        if any(one.unconfined for one in self._workspace.shown.last_turn_suggestions):
            self._list_suggestions()

    async def _found(self, job: Job[Extracted]) -> None:
        """Show the candidates for the memory."""
        found = (await self._watched(job)).candidates
        self._checklist = checklist(found) if found else ""
        if self._checklist and not self._as_json:
            terminal.out.line(self._checklist)

    async def _watched(self, job: Job[R]) -> R:
        """Show a job's events and return its result; Ctrl-C stops it."""
        self._job, self._had_notice = job, False
        try:
            async for event in job.events():
                self._had_notice |= isinstance(event, Notice)
                if self._as_json:
                    terminal.out.as_json(to_wire(event))
                else:
                    show_event(event)
            result = await job.result()
        finally:
            self._job = None
        if self._as_json:
            terminal.out.as_json(to_wire(result))
        return result


def escaped_lines(text: str) -> list[str]:
    """Return the lines of a text, with invisible characters escaped."""
    return [escaped(line) for line in text.split("\n")]


_PROMPT: Final = "aish> "


#: Returns the next message. Raises EOFError at the end of the input, and KeyboardInterrupt if the
#: user wants to start over.
_Read: TypeAlias = "Callable[[], Awaitable[str]]"


def _reader(workspace: Workspace, chat_text: Callable[[], str]) -> _Read:
    """Return a reader of messages, with line editing if there is a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _read_plainly
    return _toolkit(workspace, chat_text)


async def _read_plainly() -> str:
    """Return a line. This blocks the event loop, but nothing else runs meanwhile."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input()  # noqa: ASYNC250 - see above
    finally:
        signal.signal(signal.SIGINT, before)


def _toolkit(workspace: Workspace, chat_text: Callable[[], str]) -> _Read:
    """Return a reader with prompt_toolkit: completion, history, messages with several lines."""
    from prompt_toolkit import PromptSession  # noqa: PLC0415 - only at a terminal
    from prompt_toolkit.history import FileHistory  # noqa: PLC0415 - as above
    from prompt_toolkit.key_binding import KeyBindings  # noqa: PLC0415 - as above
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent  # noqa: PLC0415

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    path = private_dir(data_dir()) / "chat_history"
    path.touch(mode=0o600)
    session: PromptSession[str] = PromptSession(
        _PROMPT,
        history=FileHistory(str(path)),
        completer=_completer(workspace, chat_text),
        complete_while_typing=True,
        key_bindings=keys,
        enable_open_in_editor=True,
    )

    async def read() -> str:
        terminal.out.end_line()
        return await session.prompt_async(handle_sigint=False)

    return read


def _completer(workspace: Workspace, chat_text: Callable[[], str]) -> Completer:
    """Return a completer for ``:`` commands with their arguments, and for ``@`` files."""
    from prompt_toolkit.completion import Completer, Completion  # noqa: PLC0415 - as above

    class _Completer(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> list[Completion]:
            """Return nothing: all completions come from the asynchronous method."""
            return []

        async def get_completions_async(
            self, document: Document, complete_event: CompleteEvent
        ) -> AsyncGenerator[Completion, None]:
            """Yield what could be inserted at the cursor."""
            prefix = document.current_line_before_cursor
            proposals = await completions_at(workspace, prefix, chat_text())
            for item in proposals.items:
                yield Completion(
                    item.insert,
                    start_position=item.start - len(prefix),
                    display=item.label,
                    display_meta=item.detail,
                )

    return _Completer()
