"""Server-sent events: from the bytes of a response to the data of each event.

httpx-sse decodes; what it is given here makes up for what real servers get wrong: a byte order
mark, a character cut in two, a last event without its blank line, a line that never ends.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import httpx

#: Characters of one line; a server that sends more without a line end is not speaking the protocol.
LINE_LIMIT = 64 << 20


async def event_data(pieces: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Yield the data of each event of a stream that arrives in pieces cut anywhere.

    Only ``data`` is kept: every provider says in its JSON what an event is.

    Raises:
        ValueError: a line is longer than LINE_LIMIT.
    """
    from httpx_sse import EventSource  # noqa: PLC0415 - brings httpx

    source = EventSource(cast("httpx.Response", _Response(pieces)))
    async with aclosing(source.aiter_sse()) as events:
        async for event in events:
            if event.data:
                yield event.data


class _Response:
    """As much of a response as httpx-sse reads."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        # Servers of this kind forget the content type; whoever reads the response has judged it.
        self.headers: dict[str, Any] = {"content-type": "text/event-stream"}
        self._pieces = pieces

    async def aiter_text(self) -> AsyncIterator[str]:
        """Yield the text, with an end to its last event."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        line = 0
        async for piece in self._pieces:
            text = decoder.decode(piece)
            end = max(text.rfind("\n"), text.rfind("\r"))
            line = line + len(text) if end < 0 else len(text) - end - 1
            if line > LINE_LIMIT:
                raise ValueError("a line without end")
            if text:
                yield text
        yield decoder.decode(b"", final=True) + "\n\n"
