"""A provider's own count of a whole request: asked seldom, remembered, never waited for long.

Anthropic's ``count_tokens``, Gemini's ``countTokens`` and Responses' ``input_tokens`` take a whole
request as it will be sent, and say nothing of its parts.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from aish_lsp.foundation.errors import AishError
from aish_lsp.models.tokenize_api import Capability, NotACountError

if TYPE_CHECKING:
    from aish_lsp.models.request import Model, ModelRequest

logger = logging.getLogger(__name__)

#: Counts that are remembered; beyond it the oldest go first.
REMEMBERED: Final = 64

# The server counts, and found something wrong with the request: it may be this one alone.
_REFUSED: Final = frozenset({400, 413, 422})


@runtime_checkable
class CountsRequests(Protocol):
    """An adapter whose protocol has a question for the tokens of a request."""

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return the input tokens of ``request``; ``timeout_s`` is in seconds.

        Raises:
            NotACountError: what came is not a count.
            AishError: nothing came.
        """
        ...


class RequestCounter:
    """Counts the requests to one model of one server, as long as that is of use.

    Args:
        model: the preset's name, for the user.
        timeout_s: seconds that one count may take.
        clock: tells seconds.
    """

    def __init__(
        self, model: str, *, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self._capability = Capability(model, clock)
        self._counts: dict[bytes, int] = {}

    @property
    def capable(self) -> bool:
        """False once it is known that its server does not count, or counts wrongly."""
        return self._capability.lasting

    def take_notices(self) -> list[str]:
        """Return what the user should be told; nothing is returned twice."""
        return self._capability.take_notices()

    def distrust(self, reason: str) -> None:
        """Ask no more, without a word to the user: the requests are estimated as without it."""
        self._capability.give_up(reason)

    async def count(self, adapter: Model, request: ModelRequest) -> int | None:
        """Return the input tokens of ``request``; None where its server does not tell in time.

        Never raises.
        """
        if not isinstance(adapter, CountsRequests):
            self._capability.give_up("its protocol cannot count tokens")
            return None
        digest = hashlib.sha256(repr((request.messages, request.tools)).encode("utf-8", "replace"))
        key = digest.digest()
        if key not in self._counts and self._capability.may_ask:
            tokens = await self._ask(adapter, request)
            if tokens is not None:
                if len(self._counts) >= REMEMBERED:
                    del self._counts[next(iter(self._counts))]
                self._counts[key] = tokens
                self._capability.pause.reset()
        return self._counts.get(key)

    async def _ask(self, adapter: CountsRequests, request: ModelRequest) -> int | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                # The time-out ends first: what holds it up may be a command that prints the key.
                return await adapter.count_tokens(request, timeout_s=2 * self._timeout_s)
        except NotACountError:
            self._capability.give_up("its answer is not a count")
        except TimeoutError:
            self._capability.pause.begin()
        except AishError as error:
            # Without a status the request was not sent: the question itself will tell the user.
            if error.data.get("status") in {None, *_REFUSED}:
                logger.info("a request to %s was not counted: %s", self._model, error.message)
                self._capability.pause.begin()
            else:
                self._capability.failed(error)
        return None
