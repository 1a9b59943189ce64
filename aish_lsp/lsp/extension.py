"""What an extension with a chat of its own asks: ``aish.chat.line`` and ``aish.model.complete``.

``aish.chat.line`` and ``.complete`` are the ``:`` commands, for a client that shows itself what
comes of them: nothing of that is written into the chat document.

``aish.model.complete`` and ``.count`` are a model for the editor's other extensions. They bring
messages of their own: no session, memory or project is in the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aish_lsp.agent.model_call import complete
from aish_lsp.chat.colon import COLON_COMMANDS, carry_out, completions_at, parse
from aish_lsp.foundation.errors import AishError, InvalidArgument
from aish_lsp.lsp.client import EditorFace
from aish_lsp.lsp.protocol import ChatCompletion, ChatCompletions, ChatLineDone, Completion, Counted
from aish_lsp.lsp.questions import answer_before_asking
from aish_lsp.models.request import RequestMessage
from aish_lsp.operations.markdown import checklist
from aish_lsp.operations.operation import Place
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.session import Session
    from aish_lsp.chat.colon import Carried, ColonCommand
    from aish_lsp.lsp.client import Call
    from aish_lsp.lsp.commands import OperationCommands
    from aish_lsp.lsp.protocol import (
        ChatCompleteParams,
        ChatLineParams,
        CompleteParams,
        CountParams,
        PromptMessage,
    )
    from aish_lsp.operations.operation import Operation


class ExtensionCommands:
    """Answers what such an extension asks."""

    def __init__(self, operations: OperationCommands) -> None:
        self._operations = operations
        self._client = operations.client
        # What the client was last given of candidates for the memory: `:memory accept` reads it.
        self._listed: dict[Workspace, str] = {}

    def bind(self) -> None:
        """Answer the commands."""
        self._client.bind("aish.chat.line", self._line)
        self._client.bind("aish.chat.complete", self._complete)
        self._client.bind("aish.model.complete", self._reply)
        self._client.bind("aish.model.count", self._count)
        self._operations.workspaces.on_close(lambda workspace: self._listed.pop(workspace, None))

    async def _line(self, call: Call, params: ChatLineParams) -> ChatLineDone:
        command, operation = _read(params)
        guess = self._operations.workspaces.guess(params)
        workspace = self._operations.workspaces.resolve(params)
        if operation.name == "run":
            self._operations.tell_where_it_runs(workspace, params.uri, guess)
        session = await self._operations.session_for(operation, workspace, params)

        async def listed() -> str:
            return self._listed.get(workspace, "")

        told: list[str] = []
        place = Place(workspace, session, EditorFace(call, told.append, listed))
        carried = await self._carried(operation, carry_out(place, command), told)
        text, token = _text(told, carried), params.partial_result_token
        if carried.job is None or token is None:
            return ChatLineDone(workspace.shown.id, text, None, None)
        self._operations.selections.follow_again(carried.job)
        result: Any = await self._operations.stream(call, token, carried.job, operation.title)
        if operation.comes == "candidates" and result.candidates:
            text = self._listed[workspace] = checklist(result.candidates)
        return ChatLineDone(workspace.shown.id, text, operation.comes, result)

    async def _carried(
        self, operation: Operation, work: Awaitable[Carried], told: list[str]
    ) -> Carried:
        """Return what comes of carrying a command out; what was told of it is not lost with it.

        Raises:
            AishError: what it refuses.
        """
        if not operation.comes_in_pieces:
            work = answer_before_asking(self._client, work, lambda carried: _text(told, carried))
        try:
            return await work
        except AishError:
            while told:
                self._client.tell(told.pop(0))
            raise

    async def _complete(self, _call: Call, params: ChatCompleteParams) -> ChatCompletions:
        workspace, prefix = self._operations.workspaces.resolve(params), params.prefix
        await workspace.sessions.named(params.session)
        found = await completions_at(workspace, prefix, self._listed.get(workspace, ""))
        items = [
            ChatCompletion(one.label, one.insert, one.detail, _units(prefix[: one.start]), one.kind)
            for one in found.items
        ]
        return ChatCompletions(items, is_incomplete=found.are_files)

    async def _reply(self, call: Call, params: CompleteParams) -> Completion:
        messages = _alternating(params.messages)
        session = await self._session(params)
        preset = (await session.models.choose(params.model)).preset
        job = session.jobs.start(
            new_id(), lambda emit: complete(session, preset, messages, emit), "complete"
        )
        token = params.partial_result_token
        title = f"{preset.name} answers an extension"
        if token is not None:
            reply = await self._operations.stream(call, token, job, title)
        else:
            call.on_cancel(job.cancel)
            reply = await job.result()
        return Completion(reply.text, reply.finish, reply.usage)

    async def _count(self, _call: Call, params: CountParams) -> Counted:
        session = await self._session(params)
        preset = (await session.models.choose(params.model)).preset
        config = session.workspace.config
        counter = session.accounting.counter(preset, config)
        limits = session.accounting.known_limits(preset, config)
        counts = [counter.settled(counter.text(text)) for text in params.texts]
        return Counted(counts, limits.room, limits.output_reserve)

    async def _session(self, params: CompleteParams | CountParams) -> Session:
        workspace = self._operations.workspaces.resolve(params)
        await self._operations.configurations.settled(workspace.root)
        return await workspace.sessions.named(params.session)


def _read(params: ChatLineParams) -> tuple[ColonCommand, Operation]:
    """Return the command that a line is, and the operation that it means.

    Raises:
        InvalidArgument: it is none, does not take such an argument, or needs a token.
        NotFound: there is no such command.
    """
    command = parse(params.line)
    if command is None:
        raise InvalidArgument(
            "This is no command of the chat: one is a single line that begins with `:`, such as"
            " `:help`. `aish.ask` takes a question.",
            path="line",
        )
    operation = COLON_COMMANDS.find(command).operation
    if operation.comes_in_pieces and params.partial_result_token is None:
        raise InvalidArgument(
            f"What comes of `:{command.name}` comes in pieces: its events need a token.",
            path="partialResultToken",
        )
    return command, operation


def _text(told: list[str], carried: Carried) -> str:
    return "\n\n".join(filter(None, [*told, carried.text]))


def _units(text: str) -> int:
    """Return the length of ``text`` in UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def _alternating(messages: Sequence[PromptMessage]) -> tuple[RequestMessage, ...]:
    """Return messages as models take them: the user's first and last, each role's joined.

    Raises:
        InvalidArgument: there is none, or the user's is not the first and the last.
    """
    found: list[RequestMessage] = []
    for message in messages:
        if found and found[-1].role == message.role:
            joined = f"{found[-1].content}\n\n{message.content}"
            found[-1] = RequestMessage(message.role, joined)
        else:
            found.append(RequestMessage(message.role, message.content))
    if not found or found[0].role != "user" or found[-1].role != "user":
        raise InvalidArgument("The first and the last message are the user's.", path="messages")
    return tuple(found)
