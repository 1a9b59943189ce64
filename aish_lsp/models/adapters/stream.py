"""What all adapters share: a request is sent, and what streams back goes through a reader.

And the model to name in a request where the preset names none. JSON is read as what may hold
anything in any place: what is of another kind counts as absent. What goes wrong in it is mended:
calls that no server takes back, and texts cut in a character.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.foundation.text import well_formed
from aish_lsp.models.address import origin
from aish_lsp.models.endpoint import chat_models, list_models
from aish_lsp.models.faults import error_in_stream, redactor

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import ModelEvent

#: Seconds to wait for what may follow a reply that is whole: its usage, and the end.
TAIL_TIMEOUT = 5.0

#: Seconds to wait for the end of a response after its last event, so that the connection can serve
#: the next request.
DRAIN_TIMEOUT = 0.1


class ReplyReader(Protocol):
    """Puts one reply together while it streams, in one protocol's terms."""

    @property
    def is_whole(self) -> bool:
        """Whether the content is complete: what may follow is usage, or nothing."""

    @property
    def is_over(self) -> bool:
        """Whether the protocol's own end has come: nothing follows."""

    @property
    def error(self) -> Any:
        """What the server said went wrong within the stream: a JSON value, or None."""

    @property
    def gave_up(self) -> str | None:
        """The finish reason, where it says that the server broke the reply off."""

    def feed(self, event: Json) -> list[ModelEvent]:
        """Return what ``event`` gives at once, and keep the rest of it."""

    def end(self) -> list[ModelEvent]:
        """Return what stands only at the end: tool calls, metadata, usage, and the finish."""


@dataclass(frozen=True, slots=True)
class Post:
    """A request as it is sent; ``timeout_s`` bounds the silence between two packets (seconds)."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any]
    timeout_s: float


async def stream_reply(
    http: HttpClient, post: Post, reader: ReplyReader
) -> AsyncGenerator[ModelEvent, None]:
    """Send ``post`` and yield the reply as ``reader`` reads it; its finish comes last.

    Raises:
        BackendUnavailable: no answer, or the answer broke off. What was yielded stands.
        BackendRejected: the server refused.
    """
    events = http.stream_sse(post.url, post.body, headers=post.headers, timeout_s=post.timeout_s)
    async with aclosing(events), aclosing(_read(events, reader, post)) as pieces:
        async for event in pieces:
            yield event
        for event in reader.end():
            yield event
        await _drain(events)


async def stream_again(
    http: HttpClient,
    ask: Callable[[], tuple[Post, ReplyReader]],
    learn: Callable[[BackendRejected, Mapping[str, Any]], bool],
) -> AsyncGenerator[ModelEvent, None]:
    """Send what ``ask`` returns, and again where it was refused and ``learn`` knows better now.

    ``learn`` is given the refusal and the refused body.

    Raises:
        BackendUnavailable, BackendRejected: as ``stream_reply``.
    """
    while True:
        post, reader = ask()
        began = False
        try:
            async with aclosing(stream_reply(http, post, reader)) as reply:
                async for event in reply:
                    began = True
                    yield event
        except BackendRejected as error:
            if began or not learn(error, post.body):
                raise
        else:
            return


async def _read(
    events: AsyncGenerator[str, None], reader: ReplyReader, post: Post
) -> AsyncGenerator[ModelEvent, None]:
    """Yield text and reasoning until the reply is over; raise where it broke off."""
    try:
        async with aclosing(_arriving(events, reader)) as arriving:
            async for data in arriving:
                if data == "[DONE]":
                    break
                for event in chain.from_iterable(map(reader.feed, _parse(data, post.url))):
                    yield event
                if reader.error is not None or reader.is_over:
                    break
            else:
                if not reader.is_whole:
                    raise _broken(post.url, "it ended before the reply did")
    except BackendUnavailable:
        # What is whole is not spoiled by what comes behind it.
        if not reader.is_whole:
            raise
    if reader.error is not None:
        raise error_in_stream(post.url, reader.error, redactor(post.headers))
    if reader.gave_up is not None:
        raise _broken(post.url, f"the server gave up ({reader.gave_up})")


async def _arriving(
    events: AsyncGenerator[str, None], reader: ReplyReader
) -> AsyncGenerator[str, None]:
    """Yield the data of each event; behind a whole reply nothing is waited for long."""
    with suppress(StopAsyncIteration, TimeoutError):
        while True:
            async with asyncio.timeout(TAIL_TIMEOUT if reader.is_whole else None):
                data = await anext(events)
            # Without blank lines between them, what was many events comes as the lines of one.
            for part in data.split("\n") if "\n" in data and not _is_json(data) else [data]:
                yield part


def _is_json(data: str) -> bool:
    """Return whether ``data`` is one JSON value."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _parse(data: str, url: str) -> list[Json]:
    """Return an event's JSON object; Google makes a list of them where it does not stream."""
    try:
        decoded = json.loads(data)
    except (ValueError, RecursionError):
        decoded = None
    parts = decoded if isinstance(decoded, list) and decoded else [decoded]
    if not all(isinstance(part, dict) for part in parts):
        why = f"it sent something that is not part of a reply, or is cut ({data[:60]!r})"
        raise _broken(url, why)
    return parts


def _broken(url: str, why: str) -> BackendUnavailable:
    return BackendUnavailable(f"The reply of {origin(url)} broke off: {why}. Ask again.")


async def _drain(events: AsyncGenerator[str, None]) -> None:
    """Read to the end of the response, if it comes at once."""
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT):
            async for _ in events:
                pass
    except (TimeoutError, BackendUnavailable):
        pass


#: Seconds to ask a server for the models that it has.
LIST_TIMEOUT = 10.0


class ModelNames:
    """The names that servers were found to use; each server is asked once."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self._found: dict[str, str] = {}

    async def name_for(self, preset: Preset, headers: Mapping[str, str]) -> str:
        """Return the preset's model, else the first chat model that its server lists.

        Empty where the server has no list: it then has but one.

        Raises:
            BackendUnavailable, BackendRejected: as ``endpoint.list_models``.
        """
        if preset.model:
            return preset.model
        known = self._found.get(preset.endpoint)
        if known is None:
            timeout_s = min(preset.timeout, LIST_TIMEOUT)
            try:
                models = await list_models(self._http, preset, headers, timeout_s=timeout_s)
            except BackendRejected as error:
                if error.data.get("status") not in {404, 405}:
                    raise
                models = []
            known = next(iter(chat_models(models)), "")
            self._found[preset.endpoint] = known
        return known


Json: TypeAlias = dict[str, Any]

#: Tokens or dollars beyond which a server's count is taken for nonsense.
ABSURD = 10**9


def as_dict(value: Any) -> Json:
    """Return an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return an array, or an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a text, or an empty one."""
    return value if isinstance(value, str) else ""


def as_number(value: Any) -> float | None:
    """Return a number that makes sense as an amount, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= ABSURD else None


def as_count(value: Any) -> int:
    """Return a count of tokens; 0 for what is none."""
    return int(as_number(value) or 0)


# An earlier call as it goes back: models write names and arguments that no server takes.

# What functions' names and calls' ids may not hold, and how long the names may be.
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64


def plain(name: str) -> str:
    """Return ``name`` with ``_`` for what no name and no id may hold."""
    return _UNFIT.sub("_", name)


def function_name(name: str) -> str:
    """Return the name of a called function; a model may call what none can be named."""
    return plain(name)[:_LONGEST_NAME] or "unknown"


def arguments_of(text: str) -> Json:
    """Return a call's arguments as the object that servers and their templates want.

    What is none is wrapped: the tool's answer will speak of what the model wrote, so it stands
    there.
    """
    if not text.strip():
        return {}
    decoded = _decoded(text)
    return decoded if isinstance(decoded, dict) else {"arguments": text}


def arguments_text(text: str) -> str:
    """Return a call's arguments as the text of an object: as it came, if that is one."""
    return text if is_object(text) else json.dumps(arguments_of(text))


def is_object(text: str) -> bool:
    """Return whether ``text`` is a whole JSON object."""
    return isinstance(_decoded(text), dict)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(constant)


class SurrogateJoiner:
    """Joins a text that comes in pieces, which may part a surrogate pair.

    Some servers send the two halves of an emoji in two chunks, each escaped in JSON of its own. A
    text with such a half cannot be written to a file or sent to an editor.
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what is complete with ``piece``; a half at its end waits for the next piece."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return well_formed(text)
