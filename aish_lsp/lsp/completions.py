"""``aish.model.complete`` and ``.count``: a model for the editor's other extensions.

They bring messages of their own: no session, memory or project is in the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.agent.model_call import complete
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.lsp.protocol import Completion, Counted
from aish_lsp.models.request import RequestMessage
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.session import Session
    from aish_lsp.lsp.client import Call
    from aish_lsp.lsp.commands import OperationCommands
    from aish_lsp.lsp.protocol import CompleteParams, CountParams, PromptMessage


class Completions:
    """Answers both commands."""

    def __init__(self, operations: OperationCommands) -> None:
        self._operations = operations

    def bind(self) -> None:
        """Begin to answer."""
        self._operations.client.bind("aish.model.complete", self._complete)
        self._operations.client.bind("aish.model.count", self._count)

    async def _complete(self, call: Call, params: CompleteParams) -> Completion:
        messages = _alternating(params.messages)
        session = await self._session(params)
        preset = (await session.choose_model(params.model)).preset
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
        preset = (await session.choose_model(params.model)).preset
        config = session.workspace.config
        counter = session.accounting.counter(preset, config)
        limits = session.accounting.known_limits(preset, config)
        counts = [counter.settled(counter.text(text)) for text in params.texts]
        return Counted(counts, limits.room, limits.output_reserve)

    async def _session(self, params: CompleteParams | CountParams) -> Session:
        workspace = self._operations.workspaces.resolve(params)
        await self._operations.configurations.settled(workspace.root)
        return await workspace.sessions.named(params.session)


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
