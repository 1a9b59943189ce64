"""Server-sent events: from the bytes of a response to the data of each event.

httpx-sse decodes; what it is given here makes up for what real servers get wrong: a byte order
mark, a character cut in two, a last event without its blank line, an event that never ends.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import httpx

#: Characters of one event; a server that sends more without an end is not speaking the protocol.
EVENT_LIMIT = 64 << 20


async def event_data(pieces: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Yield the data of each event of a stream that arrives in pieces cut anywhere.

    Only ``data`` is kept: every provider says in its JSON what an event is.

    Raises:
        ValueError: an event is longer than EVENT_LIMIT.
    """
    from httpx_sse import EventSource  # noqa: PLC0415 - brings httpx

    response = _Response(pieces)
    source = EventSource(cast("httpx.Response", response))
    async with aclosing(source.aiter_sse()) as events:
        async for event in events:
            response.pending = 0
            if event.data:
                yield event.data


class _Response:
    """As much of a response as httpx-sse reads.

    ``pending`` counts the characters since the last event, whose reader sets it back.
    """

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        # Servers of this kind forget the content type; whoever reads the response has judged it.
        self.headers: dict[str, Any] = {"content-type": "text/event-stream"}
        self.pending = 0
        self._pieces = pieces

    async def aiter_text(self) -> AsyncIterator[str]:
        """Yield the text, with an end to its last event."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        async for piece in self._pieces:
            text = decoder.decode(piece)
            self.pending += len(text)
            if self.pending > EVENT_LIMIT:
                raise ValueError("an event without end")
            if text:
                yield text
        yield decoder.decode(b"", final=True) + "\n\n"
