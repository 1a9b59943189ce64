"""A reply to messages that belong to no conversation here: what another extension asks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.model_call import SideReply, complete_once
from aish_lsp.foundation.errors import OverBudget
from aish_lsp.foundation.events import Usage
from aish_lsp.foundation.job import Outcome
from aish_lsp.models.request import RequestMessage, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.summary import Fits
    from aish_lsp.foundation.events import FinishReason
    from aish_lsp.foundation.job import Emit

#: There is no place for a system message in what an extension sends: it has its own in the first.
_SYSTEM: Final = "Answer as the messages ask."


async def complete(
    session: Session, preset: Preset, messages: Sequence[RequestMessage], emit: Emit
) -> Outcome[SideReply]:
    """Ask ``preset`` once, at the cost of ``session``; nothing of it is remembered or logged.

    Raises:
        OverBudget: the messages are too long for the model; none of them is left out.
        AishError: the model did not answer in whole, or may not be paid for.
    """
    request = (RequestMessage("system", _SYSTEM), *messages)
    said: list[str] = []
    usage: Usage | None = None

    def compose(fits: Fits) -> tuple[RequestMessage, ...] | None:
        return request if fits(request) else None

    async def told(event: Text | Usage) -> None:
        nonlocal usage
        if isinstance(event, Usage):
            usage = event
        else:
            said.append(event.delta)
        await emit(event)

    finish: FinishReason = "cancelled"
    try:
        reply = await complete_once(session, preset, "main", compose, told)
        if reply is None:
            raise OverBudget(f"These messages do not fit into the window of {preset.name}.")
        finish = reply.finish
    except asyncio.CancelledError:
        pass  # what came until then is the result
    return Outcome(SideReply("".join(said), finish, usage), finish)
