"""A reply from a server that may need a moment: tried again, and not waited for forever.

What libraries for retries offer ends where a reply begins to stream, and none sees an error within
a response that began with 200; so it is done here, above the adapters and for all of them alike.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.foundation.errors import BackendUnavailable
from aish_lsp.foundation.events import Level
from aish_lsp.models.overflow import overflow_of
from aish_lsp.models.request import Finish

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.models.request import Model, ModelEvent, ModelRequest

#: Times that a request is sent again. Where nobody listens, or the connection fails: once.
RETRIES: Final = 2

#: Seconds from the first try within which the last one begins.
PATIENCE: Final = 20.0

#: Times a preset's ``timeout`` that a server may keep a connection alive before its reply begins.
FIRST_TOKEN: Final = 3

#: Seconds of the first pause, at the most; each that follows is twice as long.
_FIRST_PAUSE: Final = 1.0

#: Statuses that another try does not change: not implemented, HTTP version.
_LASTING: Final = frozenset({501, 505})

#: What OpenAI and those like it call an account that is used up; their status is 429.
_SPENT: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

Tell: TypeAlias = Callable[[Level, str], Awaitable[None]]


async def nobody(_level: Level, _message: str) -> None:
    """Tell nobody."""


async def stream_with_retries(
    model: Model, request: ModelRequest, tell: Tell = nobody
) -> AsyncGenerator[ModelEvent, None]:
    """Send ``request`` and yield its reply; send it again where the server is only busy.

    Nothing is sent again once anything was yielded. ``tell`` is told of each pause, and of a reply
    that took longer than the preset's ``total_timeout``: that one is cut, and ends as ``timeout``.

    Raises:
        BackendUnavailable: no answer, after all tries, or it broke off. What was yielded stands.
        BackendRejected: as the model's own ``stream``.
    """
    clock = asyncio.get_running_loop().time
    begun, attempt, started = clock(), 0, False
    while True:
        events = _timed(model.stream(request), request.preset, begun, tell)
        try:
            async with aclosing(events):
                async for event in events:
                    started = True
                    yield event
        except BackendUnavailable as error:
            pause = pause_before(error, attempt)
            patience = min(PATIENCE, request.preset.total_timeout)
            if started or pause is None or clock() + pause > begun + patience:
                raise
            await tell("info", f"{cause(error)} Trying {request.preset.name} again.")
        else:
            return
        await asyncio.sleep(pause)
        attempt += 1


def cause(error: AishError) -> str:
    """Return what an error says, without the advice to ask again: that is being done."""
    return error.message.removesuffix(" Ask again.")


def pause_before(error: BackendUnavailable, attempt: int) -> float | None:
    """Return the seconds to wait before another try, by chance a little more or less.

    None where there is to be none: ``attempt`` (from 0) was the last, or another changes nothing.
    """
    data = error.data
    lasting = data.get("status") in _LASTING or {data.get("type"), data.get("code")} & _SPENT
    if lasting or overflow_of(error) is not None:
        return None
    if "provider_message" in data:
        tries = RETRIES
    else:
        tries = {"broken": RETRIES, "refused": 1}.get(data.get("reason", ""), 0)
    if attempt >= tries:
        return None
    # Chance keeps those who were turned away together from coming back together.
    pause = _FIRST_PAUSE * 2.0**attempt * random.uniform(0.5, 1)  # noqa: S311 - no secret
    wanted: float | None = data.get("retry_after")
    return pause if wanted is None else max(pause, wanted + random.uniform(0, 0.25))  # noqa: S311


async def _timed(
    stream: AsyncGenerator[ModelEvent, None], preset: Preset, begun: float, tell: Tell
) -> AsyncGenerator[ModelEvent, None]:
    """Yield ``stream`` within the limits for its first event and for all of it.

    The silence between two packets is bounded below, by ``timeout``: a comment that only keeps the
    connection alive is not silence there, and not a reply here.
    """
    now = asyncio.get_running_loop().time()
    end = begun + preset.total_timeout
    limit, started = min(end, now + FIRST_TOKEN * preset.timeout), False
    async with aclosing(stream):
        while True:
            try:
                async with asyncio.timeout_at(limit):
                    event = await anext(stream, None)
            except TimeoutError:
                if not started:
                    setting = "total_timeout" if limit == end else "timeout"
                    raise _no_reply(preset, limit - now, setting) from None
                break
            if event is None:
                return
            limit, started = end, True
            yield event
    message = (
        f"The reply of {preset.name} was cut after {preset.total_timeout:g} s, its `total_timeout`."
        " Ask it to continue."
    )
    await tell("warning", message)
    yield Finish("timeout")


def _no_reply(preset: Preset, seconds: float, setting: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"{preset.name} began no reply within {round(seconds, 1):g} s. If it needs longer, "
        f"raise `{setting}`.",
        reason="timeout",
    )
