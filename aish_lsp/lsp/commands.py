"""The operations as commands of LSP: which session is meant, and the two ways to get a reply.

Copied text is put into the clipboard of this machine by whichever program the desktop has for it.

The commands for extensions are here too. ``aish.chat.line`` and ``.complete`` are the ``:``
commands for a client that has its own chat: it shows their results itself, and nothing is written
into the chat document. ``aish.model.complete`` and ``.count`` offer a model to the editor's other
extensions. These send their own messages: the request holds no session, memory or project.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lsprotocol import types

from aish_lsp.agent.events import Step
from aish_lsp.agent.side_call import complete
from aish_lsp.chat.colon import COLON_COMMANDS, carry_out, completions_at, parse
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, InvalidArgument
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.text import escaped
from aish_lsp.foundation.uris import path_of
from aish_lsp.lsp.base_server import EditorFace
from aish_lsp.lsp.protocol import (
    Begun,
    BegunCommand,
    ChatLineDone,
    Completion,
    Copied,
    Counted,
)
from aish_lsp.lsp.questions import answer_before_asking, can_choose
from aish_lsp.lsp.selections import selected
from aish_lsp.models.request import RequestMessage
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.dispatch import dispatch
from aish_lsp.operations.markdown import checklist
from aish_lsp.operations.operation import Answer, Caller, Subject
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.services import Services
    from aish_lsp.agent.session import Session
    from aish_lsp.chat.colon import Carried, ChatCompletions, ColonCommand
    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.calls import Call
    from aish_lsp.lsp.chats import ChatDocuments
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.lsp.protocol import (
        ChatCompleteParams,
        ChatLineParams,
        CompleteParams,
        CountParams,
        PromptMessage,
    )
    from aish_lsp.lsp.selections import Selected, Selections
    from aish_lsp.lsp.workspaces import Workspaces
    from aish_lsp.operations.ask import AskParams
    from aish_lsp.operations.operation import Operation, Target, Token
    from aish_lsp.operations.run import CommandParams

R = TypeVar("R")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandHandlers:
    """Answers the commands of the operations, ``aish.commands.copy``, and those for extensions."""

    server: BaseServer
    services: Services
    documents: OpenDocuments
    workspaces: Workspaces
    chats: ChatDocuments
    selections: Selections
    #: The checklist of memory candidates that a client got last: `:memory accept` reads it.
    _listed: dict[Workspace, str] = field(default_factory=dict, init=False)

    def bind(self) -> None:
        """Bind the commands."""
        for operation in OPERATIONS.values():
            self.server.bind(f"aish.{operation.name}", partial(self._execute, operation))
        self.server.bind("aish.commands.copy", self._copy)
        self.server.bind("aish.chat.line", self._line)
        self.server.bind("aish.chat.complete", self._complete)
        self.server.bind("aish.model.complete", self._reply)
        self.server.bind("aish.model.count", self._count)
        self.workspaces.on_close(lambda workspace: self._listed.pop(workspace, None))

    # The operations

    async def _execute(self, operation: Operation, call: Call, params: Any) -> object:
        """Carry an operation out for the client; return its result."""
        workspace, guess = self._meant(params)
        # Not the chat itself: this server takes one only when it is needed.
        face = _CommandFace(
            call, self.server.tell, lambda: self.chats.of(workspace).text(), self, workspace
        )
        caller = Caller(workspace, workspace.shown, face, guess=guess)
        work: Awaitable[Any] = dispatch(operation, params, caller)
        if not operation.comes_in_pieces:
            work = answer_before_asking(self.server, work, lambda answer: str(answer.text))
        reply = await work
        if isinstance(reply, Answer):
            if reply.is_told:
                self.server.tell(reply.text)
            return reply.result
        self.selections.follow(reply, face.about)
        token: Token | None = params.partial_result_token
        if token is not None:
            return await self._stream(call, token, reply, operation.title)
        self.chats.of(workspace).follow(operation, reply)
        return BegunCommand(reply.id) if operation.comes == "output" else Begun(reply.id)

    def _meant(self, params: Target) -> tuple[Workspace, str]:
        """Return the workspace that is meant and, as a clause, why, if the user may not see that.

        Raises:
            NotFound: the folder that is named is not open.
        """
        workspace, guess = self.workspaces.resolve_or_guess(params)
        sees_it = guess and self.chats.is_shown_at(params.uri)
        return workspace, "" if sees_it else guess

    async def _stream(self, call: Call, token: Token, job: Job[R], title: str) -> R:
        """Send a job's events under the client's token, then return its result.

        A client that reads slowly gets the pieces that have piled up as one; the job waits for it
        only if there are many. Cancelling the request in any way stops the job, which then ends by
        itself.
        """
        progress = call.begin_progress(title, on_cancel=job.cancel)
        try:
            async for event in job.events():
                self.server.progress(types.ProgressParams(token, to_wire(event)))
                if isinstance(event, Step):
                    progress.reach(f"step {event.number}")
                await self.server.drained()
            return await job.result()
        finally:
            progress.end()

    async def _copy(self, _call: Call, params: CommandParams) -> Copied:
        session = await self.workspaces.resolve(params).sessions.named(params.session)
        text = session.commands.get(params.command_id).text
        copied = await to_clipboard(text, self.services.environ)
        if not copied:
            shown = "\n".join(map(escaped, text.split("\n")))
            self.server.tell(f"No clipboard was found. This is the text:\n\n{shown}")
        return Copied(text, copied)

    # The commands for extensions

    async def _line(self, call: Call, params: ChatLineParams) -> ChatLineDone:
        command, operation = _read(params)
        workspace, guess = self._meant(params)

        async def listed() -> str:
            return self._listed.get(workspace, "")

        messages: list[str] = []
        # What is said before a job is shown at once, not after it.
        tell = self.server.tell if operation.comes_in_pieces else messages.append
        face = EditorFace(call, tell, listed)
        caller = Caller(workspace, workspace.shown, face, guess=guess)
        work: Awaitable[Carried] = carry_out(caller, command, params.session)
        if not operation.comes_in_pieces:
            work = answer_before_asking(self.server, work, lambda carried: _text(messages, carried))
        try:
            carried = await work
        except AishError:
            # What is shown now must not be part of what is shown after a question.
            while messages:
                self.server.tell(messages.pop(0))
            raise
        text, token = _text(messages, carried), params.partial_result_token
        if carried.job is None or token is None:
            return ChatLineDone(workspace.shown.id, text, None, None)
        self.selections.follow(carried.job)
        result: Any = await self._stream(call, token, carried.job, operation.title)
        if operation.comes == "candidates" and result.candidates:
            text = self._listed[workspace] = checklist(result.candidates)
        return ChatLineDone(workspace.shown.id, text, operation.comes, result)

    async def _complete(self, _call: Call, params: ChatCompleteParams) -> ChatCompletions:
        workspace, prefix = self.workspaces.resolve(params), params.prefix
        await workspace.sessions.named(params.session)
        completions = await completions_at(workspace, prefix, self._listed.get(workspace, ""))
        items = [
            replace(one, start=len(prefix[: one.start].encode("utf-16-le")) // 2)
            for one in completions.items
        ]
        return replace(completions, items=items)

    async def _reply(self, call: Call, params: CompleteParams) -> Completion:
        messages = _alternating(params.messages)
        session, preset = await self._model(params)
        job = session.jobs.start(
            new_id(), lambda emit: complete(session, preset, messages, emit), "complete"
        )
        token = params.partial_result_token
        if token is not None:
            title = f"{preset.name} answers an extension"
            reply = await self._stream(call, token, job, title)
        else:
            call.on_cancel(job.cancel)
            reply = await job.result()
        return Completion(reply.text, reply.finish, reply.usage)

    async def _count(self, _call: Call, params: CountParams) -> Counted:
        session, preset = await self._model(params)
        config = session.workspace.config
        counter = session.accounting.counter(preset, config)
        limits = session.accounting.known_limits(preset, config)
        counts = [counter.settled(counter.text(text)) for text in params.texts]
        return Counted(counts, limits.room, limits.output_reserve)

    async def _model(self, params: CompleteParams | CountParams) -> tuple[Session, Preset]:
        """Return the session that pays for a model, and the model."""
        workspace = self.workspaces.resolve(params)
        await self.services.settled(workspace.root)
        session = await workspace.sessions.named(params.session)
        return session, (await session.models.choose(params.model)).preset


@dataclass
class _CommandFace(EditorFace):
    """The client as seen by an operation that a command asks for; ``about`` is what it selects."""

    handlers: CommandHandlers
    workspace: Workspace
    about: Selected | None = None

    async def subject(self, params: AskParams) -> Subject:
        """Return what the range of a question selects, and the file in which it is asked."""
        self.about = await selected(self.handlers.documents, self.workspace, params)
        file = path_of(params.uri) if params.uri is not None else None
        return Subject(self.about.attached if self.about else (), file)

    async def make_room(self, operation: Operation, session: Session) -> None:
        """Show the chat document, where the events go.

        Raises:
            InvalidArgument: it shows another session.
            StoreUnavailable: it cannot be created.
        """
        if session is not self.workspace.shown:
            msg = f"The chat does not show the session {session.id}, so its events need a token."
            raise InvalidArgument(msg, path="partialResultToken")
        await self.handlers.chats.of(self.workspace).prepare(show=not operation.quiet)

    async def continue_in_chat(self, line: str) -> bool:
        """Carry out ``line`` in the chat document if the client cannot ask the user to choose."""
        if can_choose(self.handlers.server):
            return False
        await self.handlers.chats.of(self.workspace).send(line)
        return True


def _read(params: ChatLineParams) -> tuple[ColonCommand, Operation]:
    """Return the command that a line is, and the operation that it means.

    Raises:
        InvalidArgument: the line is not a command, its argument is wrong, or it needs a token.
        NotFound: there is no such command.
    """
    command = parse(params.line)
    if command is None:
        raise InvalidArgument(
            "This is not a command of the chat, which is a single line that begins with `:`, such"
            " as `:help`. For a question, use `aish.ask`.",
            path="line",
        )
    operation = COLON_COMMANDS.find(command).operation
    if operation.comes_in_pieces and params.partial_result_token is None:
        raise InvalidArgument(
            f"The result of `:{command.name}` comes as events, which need a token.",
            path="partialResultToken",
        )
    return command, operation


def _text(messages: list[str], carried: Carried) -> str:
    return "\n\n".join(filter(None, [*messages, carried.text]))


def _alternating(messages: Sequence[PromptMessage]) -> tuple[RequestMessage, ...]:
    """Return messages as models take them: neighbours of the same role are joined.

    Raises:
        InvalidArgument: there are none, or the first or the last is not the user's.
    """
    alternating: list[RequestMessage] = []
    for message in messages:
        if alternating and alternating[-1].role == message.role:
            joined = f"{alternating[-1].content}\n\n{message.content}"
            alternating[-1] = RequestMessage(message.role, joined)
        else:
            alternating.append(RequestMessage(message.role, message.content))
    if not alternating or alternating[0].role != "user" or alternating[-1].role != "user":
        raise InvalidArgument("The first and the last message must be the user's.", path="messages")
    return tuple(alternating)


#: Seconds that a program may take; some keep running, to hold what was copied.
_TIMEOUT: Final = 5.0

#: The programs with their options, each with the environment variable that it needs, if any.
_PROGRAMS: Final = (
    ("", ("pbcopy",)),
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("clip.exe",)),
    ("TMUX", ("tmux", "load-buffer", "-w", "-")),
)


async def to_clipboard(text: str, environ: Mapping[str, str]) -> bool:
    """Put ``text`` into the clipboard; return whether a program was found that did so."""
    for variable, (program, *options) in _PROGRAMS:
        if variable and variable not in environ:
            continue
        path = shutil.which(program, path=environ.get("PATH"))
        if path and await _copied([path, *options], text, environ):
            return True
    return False


async def _copied(arguments: list[str], text: str, environ: Mapping[str, str]) -> bool:
    """Pass ``text`` to a program on its stdin; return whether the program succeeded."""
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=dict(environ)
        )
        await asyncio.wait_for(process.communicate(text.encode(errors="replace")), _TIMEOUT)
    except (OSError, TimeoutError) as error:
        logger.info("%s did not copy: %s", arguments[0], type(error).__name__)
        return False
    return process.returncode == 0
