"""``aish-lsp chat``: the conversation in the terminal, with the same ``:`` commands as the editor.

At a terminal, the next message can be typed while a reply arrives, which is rendered block by block
(``chat_input``, ``rendering``). Otherwise messages are read line by line, and shown as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aish_lsp.agent.events import Command, End, Notice, Output, Start, Step, Text, Tool
from aish_lsp.chat.colon import (
    ColonCommand,
    carry_out,
    parse,
    run_block,
)
from aish_lsp.chat.transcript import first_line, run_ending
from aish_lsp.cli import terminal
from aish_lsp.cli.ask import as_json, show_event
from aish_lsp.cli.blocks import suggestion
from aish_lsp.cli.command import add_command, add_session_choice, open_workspace
from aish_lsp.cli.reply_view import ReplyView
from aish_lsp.cli.spelling import in_chat
from aish_lsp.cli.terminal import read_line
from aish_lsp.foundation.errors import AishError, InvalidArgument, NotFound
from aish_lsp.foundation.events import Event, to_wire
from aish_lsp.foundation.ports import Question, UserAnswer
from aish_lsp.foundation.text import escaped, hidden_characters
from aish_lsp.operations.ask import AskParams
from aish_lsp.operations.dispatch import begin
from aish_lsp.operations.markdown import checklist
from aish_lsp.operations.operation import Caller, Face

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterator

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.extractor import Extracted
    from aish_lsp.cli.chat_input import ChatInput
    from aish_lsp.cli.rendering import Renderer
    from aish_lsp.foundation.job import Job
    from aish_lsp.foundation.ports import Choice

R = TypeVar("R")

#: What ends the conversation, beside the end of the input.
_KEYS: Final = (
    "Here `!COMMAND` runs a command, too, and `:edit N` writes suggestion N as your next message,"
    " to change it first. Alt-Enter begins a new line, Ctrl-C stops a reply or a command, and"
    " `exit` or Ctrl-D ends the chat."
)

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
    add_session_choice(chat)


async def run(arguments: argparse.Namespace) -> int:
    """Talk until the input ends; return the exit code."""
    in_chat.set(True)
    async with open_workspace(arguments) as workspace:
        chat = TerminalChat(workspace, as_json=arguments.json)
        workspace.services.choose = chat.choose
        if terminal.can_ask():
            workspace.services.ask_user = chat.ask_user
        if arguments.model is not None:
            await workspace.shown.use_model(arguments.model)
        with chat.screen():
            if arguments.session is not None or arguments.last:
                await chat.do(ColonCommand("resume", arguments.session or ""))
                if arguments.model is not None:
                    await workspace.shown.use_model(arguments.model)
            else:
                await workspace.sessions.begin()
                if line := await first_line(workspace):
                    chat.show(line.removeprefix("> ").rstrip())
            await chat.talk()
    return 0


class TerminalChat(Face):
    """A conversation at this terminal, or with whatever writes to the program's input."""

    def __init__(self, workspace: Workspace, *, as_json: bool) -> None:
        self._workspace = workspace
        self._as_json = as_json
        # The last checklist of memory candidates, which `:memory accept` reads.
        self._checklist = ""
        self._work: asyncio.Task[None] | None = None
        self._job: Job[Any] | None = None
        self._had_notice = self._is_waiting = False
        # Line editing and rendering, at a terminal that can do it.
        self._input: ChatInput | None = None
        self._renderer: Renderer | None = None

    @contextlib.contextmanager
    def screen(self) -> Iterator[None]:
        """Greet the user and write above what is typed, at a terminal that can do that."""
        is_screen = sys.stdin.isatty() and sys.stdout.isatty() and not terminal.is_dumb()
        if not is_screen or self._as_json:
            yield
            return
        from aish_lsp.cli.chat_input import ChatInput  # noqa: PLC0415 - here alone
        from aish_lsp.cli.rendering import Renderer  # noqa: PLC0415 - here alone

        self._input = ChatInput(
            self._workspace, lambda: self._checklist, self._interrupt, lambda: self._doing
        )
        self._renderer = Renderer(terminal.columns, colours=terminal.has_colours(sys.stdout))
        terminal.out.rendered(_greeting(self._workspace, self._renderer))
        with self._input.below_output():
            yield

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
        text = "\n".join([*whole, terminal.wrapped(choice.message), *rows])
        answer = (await self._asked(text, "Which number? ") or "").strip()
        number = int(answer[:9]) if answer.isascii() and answer.isdigit() else 0
        return number - 1 if 0 < number <= len(choice.options) else len(choice.options) - 1

    async def ask_user(self, question: Question) -> UserAnswer:
        """Ask; only a plain yes is a yes. Ctrl-C only leaves the question unanswered."""
        answer = await self._asked(*terminal.shown_question(question))
        return terminal.meant(question, answer)

    async def _asked(self, text: str, question: str) -> str | None:
        if self._input is None or self._renderer is None:
            return await read_line(f"{text}\n{question}", ctrl_c_ends=False)
        terminal.out.rendered(self._renderer.difference(text) + "\n")
        return await self._input.answer(question)

    # The conversation

    async def talk(self) -> None:
        """Read and answer messages until the input ends.

        At a terminal the next ones can be typed meanwhile: they wait for their turn.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        waiting: list[str] = []
        reading: asyncio.Task[str | None] | None = None
        has_ended = False
        try:
            while not has_ended or waiting or self._work:
                if not self._work and waiting:
                    if (message := waiting.pop(0)).strip() in _ENDS:
                        return
                    self._work = asyncio.create_task(self._answer(message))
                if not (reading or has_ended) and (self._input or not self._work):
                    reading = asyncio.create_task(self._read())
                tasks = [task for task in (reading, self._work) if task]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if self._work and self._work.done():
                    self._end_work(self._work)
                if reading and reading.done():
                    line, reading = reading.result(), None
                    has_ended = line is None
                    waiting += [line] if line and line.strip() else []
        finally:
            if reading:
                reading.cancel()
                await asyncio.wait([reading])
            loop.remove_signal_handler(signal.SIGINT)

    async def _read(self) -> str | None:
        """Return the next message, empty if the user dropped it; None at the end of the input."""
        try:
            if self._input is not None:
                return await self._input.message() or ""
            return await terminal.read_plainly("aish> " if terminal.can_ask() else "")
        except EOFError:
            terminal.out.end_line()
            return None
        finally:
            # The reader may have removed the handler.
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)

    def _end_work(self, work: asyncio.Task[None]) -> None:
        self._work, self._is_waiting = None, False
        if self._input is not None:
            terminal.out.end_line()
            self._input.refresh()
        if not work.cancelled() and (error := work.exception()) is not None:
            if not isinstance(error, AishError):
                raise error
            terminal.refuse(error, as_json=self._as_json)

    @property
    def _doing(self) -> str:
        model = escaped(self._workspace.shown.preset.name)
        waiting = f"waiting for {model} ... " if self._is_waiting else ""
        return f"{waiting}Ctrl-C stops; what you type waits for its turn" if self._work else ""

    def _interrupt(self) -> bool:
        """Stop the current work, if any; a job records what it has before it ends."""
        if self._job is not None:
            self._job.cancel()
        elif self._work is not None:
            self._work.cancel()
        return self._work is not None

    async def _answer(self, message: str) -> None:
        """Carry out a command, or ask the model."""
        command = parse(message)
        if message.startswith("!") and message[1:].strip():
            command = ColonCommand("run", message[1:].strip())
        if command is not None and self._input is not None and command.name == "edit":
            self._edit(command.argument)
        elif command is not None:
            await self.do(command)
        else:
            params = AskParams(prompt=message)
            self._is_waiting = True
            await self._reply(await begin("ask", params, self._caller()))

    def _edit(self, number: str) -> None:
        """Write a suggestion as the next message, for the user to change before it runs.

        Raises:
            NotFound: there is no suggestion with this number.
            InvalidArgument: not all of it would be seen while it is changed.
        """
        waiting = self._workspace.shown.last_turn_suggestions
        one = next((one for one in waiting if str(one.number) == number), None)
        if one is None:
            raise NotFound("Say which suggestion of the last reply to change: `:edit 1`.")
        text = one.info.text
        if hidden := ", ".join(hidden_characters(text)[:5]):
            raise InvalidArgument(
                f"It holds characters that are not seen ({hidden}): type the command yourself."
            )
        line = run_block(text, one.shell) if "\n" in text or one.shell else f":run {text}"
        assert self._input is not None
        self._input.write_again(line)

    async def do(self, command: ColonCommand) -> None:
        """Carry out a ``:`` command and show its answer.

        Raises:
            AishError: the command refuses.
        """
        carried = await carry_out(self._caller(), command)
        if carried.text:
            self.show(carried.text)
        if command.name == "help" and self._input is not None:
            self.show(_KEYS)
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
        """Write a text of our own, which is Markdown; invisible characters are escaped."""
        if self._as_json:
            terminal.out.as_json({"text": text})
        elif self._renderer is not None:
            terminal.out.rendered(self._renderer.whole(text))
        else:
            terminal.out.line(text)

    async def _reply(self, job: Job[Any]) -> None:
        """Show a reply as it arrives, then how to run the commands that it suggests."""
        await self._watched(job)
        # Where it is rendered, each is shown in its place.
        self._how_to_run(listed=self._renderer is None)

    def _how_to_run(self, *, listed: bool) -> None:
        """Say how to run the commands of the last reply, if there are any."""
        waiting = self._workspace.shown.last_turn_suggestions
        if not waiting or self._as_json:
            return
        if listed:
            styled = self._renderer.styled if self._renderer else lambda text, _: text
            terminal.out.rendered("".join(suggestion(one, styled) for one in waiting))
        edit = ", `:edit N` lets you change it first" if self._input else ""
        terminal.out.line("")
        self.show(f"`:run N` runs one of them{edit}.")

    async def _output(self, job: Job[RunReport]) -> None:
        """Show a command and what it prints."""
        if not self._as_json:
            terminal.out.line("\n".join(f"$ {escaped(line)}" for line in job.label.split("\n")))
        report = await self._watched(job)
        if report.finish_reason != "denied":
            terminal.tell(run_ending(report))
        elif not self._had_notice:
            terminal.tell("not run")
        # A command that needs to run without confinement is suggested again.
        if any(one.unconfined for one in self._workspace.shown.last_turn_suggestions):
            self._how_to_run(listed=True)

    async def _found(self, job: Job[Extracted]) -> None:
        """Show the candidates for the memory."""
        candidates = (await self._watched(job)).candidates
        self._checklist = checklist(candidates) if candidates else ""
        if self._checklist and not self._as_json:
            self.show(self._checklist)

    async def _watched(self, job: Job[R]) -> R:
        """Show a job's events and return its result; Ctrl-C stops it."""
        self._job, self._had_notice = job, False
        show = self._viewer()
        try:
            async for event in job.events():
                self._had_notice |= isinstance(event, Notice)
                await show(event)
            result = await job.result()
        finally:
            self._job = None
        if self._as_json:
            terminal.out.as_json(to_wire(result))
        return result

    def _viewer(self) -> Callable[[Event], Awaitable[None]]:
        """Return what shows the events of a job."""
        if self._renderer is None:

            async def show_plainly(event: Event) -> None:
                (as_json if self._as_json else show_event)(event)

            return show_plainly
        find = self._workspace.shown.commands.suggestion
        view = ReplyView(self._renderer.for_reply(), terminal.out.rendered, find)

        async def show(event: Event) -> None:
            if self._is_waiting and not isinstance(event, Start | Notice):
                self._is_waiting = False
                assert self._input is not None
                self._input.refresh()
            match event:
                case Text():
                    await view.text(event.delta)
                case Command():
                    view.command(event.command)
                case Notice():
                    view.pause()
                    show_event(event)
                case Tool() | Step() | Output() | End():
                    view.finish()
                    show_event(event)
                case _:
                    show_event(event)

        return show


def _greeting(workspace: Workspace, renderer: Renderer) -> str:
    """Return the two lines that a chat begins with."""
    model = renderer.styled(escaped(workspace.shown.preset.name), "bold")
    folder = renderer.styled(terminal.from_home(workspace.folder), "bold")
    keys = "Alt-Enter begins a new line, :help lists commands, exit ends the chat."
    return f"{model} answers, in {folder}\n{renderer.styled(keys, 'dim')}\n"
