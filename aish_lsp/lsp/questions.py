"""Asking the user through the editor: ``window/showMessageRequest``, where only a yes is a yes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aish_lsp.questions import Question

if TYPE_CHECKING:
    from aish_lsp.questions import AskUser
    from aish_lsp.server import AishServer

logger = logging.getLogger(__name__)

#: Seconds that a question stands. Nobody's answer after that is a no.
_PATIENCE = 600.0

#: Seconds that a question waits, so that the answer to the command which led to it goes first:
#: eglot waits ten seconds for that, and asks the user within them.
_PRECEDENCE = 0.05


def asker(server: AishServer) -> AskUser:
    """Return how to ask the user of ``server``'s client."""

    async def ask_user(question: Question) -> bool | None:
        params = {
            "type": 2,
            "message": question.message,
            "actions": [{"title": question.yes}, {"title": question.no}],
        }
        await asyncio.sleep(_PRECEDENCE)
        try:
            answer = await server.request("window/showMessageRequest", params, _PATIENCE)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, nobody said yes
            logger.info("the client could not ask the user: %s", type(error).__name__)
            return None
        title = answer.get("title") if isinstance(answer, dict) else getattr(answer, "title", None)
        return {question.yes: True, question.no: False}.get(title) if title else None

    return ask_user
