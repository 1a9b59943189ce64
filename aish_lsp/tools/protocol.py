"""What is said with a tool server, in the words of the protocol's SDK.

Importing this module takes a second, so it is imported when the first server starts.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp_types import METHOD_NOT_FOUND
from pydantic import ValidationError

from aish_lsp import __version__
from aish_lsp.foundation.errors import BackendUnavailable
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.tools.remote import LOST, transport_fault
from aish_lsp.tools.wire import SENT

if TYPE_CHECKING:
    from mcp.client import Transport

    from aish_lsp.tools.asking import Elicitation

#: Seconds that a call may take.
_CALL_SECONDS: Final = 600.0

#: Seconds between two reports of progress, and characters of a report.
_PROGRESS_PAUSE: Final = 0.1
_LONGEST_PROGRESS: Final = 200

#: How many pages of a list of tools are read, and how many tools.
_MOST_PAGES: Final = 50
MOST_TOOLS: Final = 1000

#: What the SDK says if a connection ends during a call. Its code does not tell: servers use it too.
_CLOSED: Final = "Connection closed"

#: Why a call failed: the server does not know the session, so that the call was not made; or the
#: connection has ended.
SESSION_LOST: Final = "session lost"
CONNECTION_ENDED: Final = "connection ended"


def client_of(
    transport: Transport, root: Path, elicitation: Elicitation, changed: Callable[[], None]
) -> Client:
    """Return a client that is not yet connected.

    ``changed`` is called when the server says that its list of tools has changed.
    """

    async def roots(context: Any) -> mcp_types.ListRootsResult:
        del context
        uri: Any = root.as_uri()
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=uri)])

    async def told(message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            changed()

    return Client(
        transport,
        client_info=mcp_types.Implementation(name="aish-lsp", version=__version__),
        elicitation_callback=elicitation.answer,
        list_roots_callback=roots,
        message_handler=told,
        cache=None,
    )


async def listed_tools(client: Client) -> tuple[list[Any], bool]:
    """Return the tools as the server sent them, and whether there are more.

    A server that says that it has none is not asked.

    Raises:
        Exception: any error of the SDK.
    """
    listed: list[Any] = []
    cursor = None
    for _ in range(_MOST_PAGES if client.server_capabilities.tools else 0):
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.error.code != METHOD_NOT_FOUND or error.error.data or listed:
                raise
            break
        listed += [(tool.meta or {}).get(SENT) for tool in page.tools]
        cursor = page.next_cursor
        if not cursor or len(listed) >= MOST_TOOLS:
            break
    return listed[:MOST_TOOLS], bool(cursor) or len(listed) > MOST_TOOLS


async def call_tool(
    client: Client,
    server: str,
    name: str,
    arguments: Mapping[str, Any],
    told: Callable[[str], Awaitable[None]],
) -> dict[str, Any]:
    """Call a tool, passing its progress to ``told``; return the result as the server sent it.

    Raises:
        BackendUnavailable: it failed; its ``reason`` may be one of those above.
    """
    told_at = -_PROGRESS_PAUSE

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        nonlocal told_at
        if time.monotonic() - told_at < _PROGRESS_PAUSE:
            return
        told_at = time.monotonic()
        of = f" of {total:g}" if total else ""
        said = f", {escaped(message[:_LONGEST_PROGRESS])}" if message else ""
        await told(f"{server}: {progress:g}{of}{said}\n")

    try:
        result = await client.call_tool(
            name, dict(arguments), _CALL_SECONDS, progress_callback=progressed
        )
    except MCPError as error:
        data = error.error.data
        lost = isinstance(data, dict) and data.get(LOST) is True
        reason = SESSION_LOST if lost else CONNECTION_ENDED if str(error) == _CLOSED else ""
        said = cut(escaped(str(error)), 700)
        raise BackendUnavailable(f"{server}: {said}", reason=reason) from error
    except (ValidationError, ValueError, RuntimeError) as error:
        what = cut(escaped(str(error)), 300)
        raise BackendUnavailable(f"{server} gave a result that is not valid: {what}") from error
    sent: dict[str, Any] = (result.meta or {})[SENT]
    return sent


def reason_of(error: BaseException, url: str) -> str:
    """Return why a connection failed, for the user; ``url`` is the server's, if it has one."""
    match error:
        case httpx2.TransportError():
            return transport_fault(error, url)
        case OSError():
            return error.strerror or type(error).__name__
        case ValidationError():
            # Not all of pydantic's message, which adds the type and a link to its documentation.
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            return cut(
                escaped(f"its answer does not follow the protocol: {place}: {first['msg']}"), 300
            )
    return cut(escaped(str(error)), 700).rstrip(".") or type(error).__name__
