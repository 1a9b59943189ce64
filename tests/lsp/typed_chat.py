"""A ``:`` line carried out in a session, as if it had been typed in an empty chat."""

from __future__ import annotations

from typing import TypeVar

from aish_lsp.agent import Workspace
from aish_lsp.chat.colon import carry_out, parse
from aish_lsp.foundation.job import Job
from aish_lsp.operations.operation import Caller, Face

R = TypeVar("R")


class EmptyChat(Face):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, message: str) -> None:
        self.told.append(message)

    async def wait(self, job: Job[R], title: str) -> R:
        assert title
        return await job.result()

    async def chat_text(self) -> str:
        return ""


async def typed(workspace: Workspace, line: str) -> str:
    """Return the answer to ``line``, as the chat shows it."""
    command = parse(line)
    assert command is not None
    chat = EmptyChat()
    carried = await carry_out(Caller(workspace, workspace.shown, chat), command)
    assert carried.job is None
    return "\n\n".join(filter(None, [*chat.told, carried.text]))
