"""Retries and time limits for streamed replies, and a guard against endless repetition.

Retry libraries do not help once a reply has begun to stream, and they do not see an error in a
response that began with status 200. Retries are therefore made here, above all adapters.

``guarded`` stops a reply that repeats itself, as those of small models sometimes do: the same 50
characters occur 10 times within 1,000 characters, adjacent or not. In a fenced block, a table or a
list, where repetition is normal, the limit is 40 times within 4,000 characters.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.foundation.errors import BackendUnavailable, InvalidArgument
from aish_lsp.foundation.events import Level
from aish_lsp.models.overflow import overflow_of
from aish_lsp.models.request import Finish, Reasoning, Text

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.models.request import Model, ModelEvent, ModelRequest

#: How many times a request is retried; only once if the connection is refused.
RETRIES: Final = 2

#: Seconds after the first attempt within which the last one must begin.
PATIENCE: Final = 20.0

#: The time limit for the first event of a reply, as a multiple of the preset's ``timeout``.
FIRST_TOKEN: Final = 3

#: The longest first pause, in seconds; each later pause is twice as long.
_FIRST_PAUSE: Final = 1.0

#: Statuses for which a retry is useless: not implemented, HTTP version.
_PERMANENT: Final = frozenset({501, 505})

#: The type or code for an exhausted account at OpenAI and similar servers; the status is 429.
_NO_CREDIT: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

Tell: TypeAlias = Callable[[Level, str], Awaitable[None]]


async def nobody(_level: Level, _message: str) -> None:
    """Tell nobody."""


async def stream_with_retries(
    model: Model, request: ModelRequest, tell: Tell = nobody
) -> AsyncGenerator[ModelEvent, None]:
    """Send ``request`` and yield its reply; retry if the server is only busy.

    There is no retry once anything was yielded. ``tell`` is called before each pause, and when a
    reply takes longer than the preset's ``total_timeout``: it is cut off and ends as ``timeout``.

    Raises:
        BackendUnavailable: no answer after all retries, or it broke off. What was yielded remains
            valid.
        BackendRejected: as the model's ``stream``.
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
    """Return an error's message without the advice to ask again, as a retry follows."""
    return error.message.removesuffix(" Ask again.")


def pause_before(error: BackendUnavailable, attempt: int) -> float | None:
    """Return the seconds to wait before a retry, partly random; None if there is to be no retry.

    There is none if ``attempt`` (from 0) was the last, or if a retry would be useless.
    """
    data = error.data
    permanent = (
        data.get("status") in _PERMANENT or {data.get("type"), data.get("code")} & _NO_CREDIT
    )
    if permanent or overflow_of(error) is not None:
        return None
    if "provider_message" in data:
        retries = RETRIES
    else:
        retries = {"broken": RETRIES, "refused": 1}.get(data.get("reason", ""), 0)
    if attempt >= retries:
        return None
    # Random, so that clients that were refused at the same time do not retry at the same time.
    pause = _FIRST_PAUSE * 2.0**attempt * random.uniform(0.5, 1)  # noqa: S311 - no secret
    wanted: float | None = data.get("retry_after")
    return pause if wanted is None else max(pause, wanted + random.uniform(0, 0.25))  # noqa: S311


async def _timed(
    stream: AsyncGenerator[ModelEvent, None], preset: Preset, begun: float, tell: Tell
) -> AsyncGenerator[ModelEvent, None]:
    """Yield ``stream`` within the time limits for its first event and for all of it.

    The HTTP client already limits the time between two packets, to ``timeout``. For it, a comment
    that keeps the connection alive is a packet; here, it does not count as a reply.
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
        f"{preset.name} did not begin to reply within {round(seconds, 1):g} s. If it needs longer, "
        f"raise `{setting}`.",
        reason="timeout",
    )


# Requests that a turn can do without, such as how many tokens a text has. They are not retried but
# postponed, or given up.

#: The first and the longest pause after a server was busy, in seconds.
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 300.0


def is_busy(error: AishError) -> bool:
    """Return whether the server may answer later: it was unreachable or overloaded."""
    status = error.data.get("status")
    if status is None:
        return not isinstance(error, InvalidArgument)
    # A 2xx status means that the body was not JSON; 501 means that the server cannot count.
    return isinstance(error, BackendUnavailable) and status >= 400 and status != 501


class Pause:
    """A pause between requests, each twice as long as the last one until a request succeeds.

    ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = 0.0
        self._next = FIRST_PAUSE

    @property
    def is_active(self) -> bool:
        """Whether a pause is in progress."""
        return self._clock() < self._end

    def begin(self) -> None:
        """Begin a pause, unless one is in progress: requests sent before it do not extend it."""
        if not self.is_active:
            self._end = self._clock() + self._next
            self._next = min(2 * self._next, LONGEST_PAUSE)

    def reset(self) -> None:
        """Make the next pause as short as the first one."""
        self._next = FIRST_PAUSE


#: Characters that are compared.
GRAM: Final = 50

#: How many times they occur in a repetitive text, and within how many characters.
MOST: Final = 10
WITHIN: Final = 1_000

#: The same in a fenced block, a table or a list.
MOST_ALIKE: Final = 40
WITHIN_ALIKE: Final = 4_000

#: Characters at the start of a line that show what kind of line it is.
_HEAD: Final = 40

_MARKS: Final = r"(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*"
_FENCE: Final = re.compile(rf"{_MARKS}(`{{3,}}|~{{3,}})(.*)")
_TABLE_OR_LIST: Final = re.compile(r"[ \t>]*(?:\||(?:[-*+]|\d{1,9}[.)])[ \t])")
#: A line that continues the one before, or may still become one of the above.
_CONTINUES: Final = re.compile(r"[ \t>]*(?:[-*+`~]{0,3}|\d{0,9}[.)]?)|[ \t]{2}.*")


async def guarded(
    stream: AsyncGenerator[ModelEvent, None],
) -> AsyncGenerator[ModelEvent, None]:
    """Yield a reply as it arrives, but end it as ``repetition`` once it repeats itself.

    ``stream`` is closed before the finish is yielded. Text and reasoning are checked separately.
    """
    guards = {Text: RepetitionGuard(), Reasoning: RepetitionGuard()}
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, Text | Reasoning):
                end = guards[type(event)].take(event.delta)
                if end is not None:
                    cut = replace(event, delta=event.delta[:end])
                    break
            yield event
        else:
            return
    yield cut
    yield Finish("repetition")


class RepetitionGuard:
    """Detects repetition in a text that arrives in pieces, however it is split."""

    def __init__(self) -> None:
        # The last ``WITHIN_ALIKE`` characters.
        self._tail = ""
        # How many times each run of ``GRAM`` characters has occurred, by its hash: since the last
        # multiple of ``WITHIN_ALIKE`` characters, and in the ``WITHIN_ALIKE`` before that.
        self._counts: dict[int, int] = {}
        self._counts_before: dict[int, int] = {}
        self._length = 0
        self._place = _Place()

    def take(self, delta: str) -> int | None:
        """Add the next piece; return after how many of its characters the text repeats itself.

        None if it does not.
        """
        text = self._tail + delta
        begin = looked = len(self._tail)
        for end in range(begin + 1, len(text) + 1):
            # Most runs are new: for these, neither the search nor the place is needed.
            is_often = self._count_run(text[max(0, end - GRAM) : end]) >= MOST
            if is_often and _times(text, end, WITHIN_ALIKE) >= MOST:
                self._place.take(text[looked:end])
                looked = end
                if self._is_repetition(text, end):
                    return end - begin
        self._place.take(text[looked:])
        self._tail = text[-WITHIN_ALIKE:]
        return None

    def _count_run(self, run: str) -> int:
        """Count ``run``; return its occurrences in the last ``WITHIN_ALIKE`` characters, or more.

        The count may be too high: it includes overlaps, some older occurrences and, rarely,
        another run with the same hash.
        """
        if self._length % WITHIN_ALIKE == 0:
            self._counts_before, self._counts = self._counts, {}
        self._length += 1
        key = hash(run)
        times = self._counts[key] = self._counts.get(key, 0) + 1
        return times + self._counts_before.get(key, 0)

    def _is_repetition(self, text: str, end: int) -> bool:
        """Return whether the run before ``end`` occurs too often for the place that it is in."""
        if not self._place.is_repetitive():
            return _times(text, end, WITHIN) >= MOST
        # A wide table consists mostly of blanks and rules.
        has_words = any(map(str.isalnum, text[end - GRAM : end]))
        return has_words and _times(text, end, WITHIN_ALIKE) >= MOST_ALIKE


def _times(text: str, end: int, within: int) -> int:
    """Return how often the run before ``end`` occurs in the last ``within``, without overlaps."""
    return text.count(text[max(0, end - GRAM) : end], max(0, end - within), end)


class _Place:
    """What the end of the text is in: a fenced block, a table or a list, or prose."""

    def __init__(self) -> None:
        self._head = ""
        self._fence = ""
        self._was_repetitive = False

    def take(self, text: str) -> None:
        """Add the next piece of the text."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._head += line[: _HEAD - len(self._head)]
            self._end_of_line()
        self._head += rest[: _HEAD - len(self._head)]

    def _end_of_line(self) -> None:
        fence = _FENCE.fullmatch(self._head)
        if fence is not None and not self._fence:
            self._fence = fence[1]
        elif fence is not None and fence[1].startswith(self._fence) and not fence[2].strip():
            self._fence = ""
        self._was_repetitive = not self._fence and self._line_is_repetitive()
        self._head = ""

    def is_repetitive(self) -> bool:
        """Return whether repetition is normal here."""
        return bool(self._fence) or self._line_is_repetitive()

    def _line_is_repetitive(self) -> bool:
        if _TABLE_OR_LIST.match(self._head):
            return True
        return self._was_repetitive and _CONTINUES.fullmatch(self._head) is not None
