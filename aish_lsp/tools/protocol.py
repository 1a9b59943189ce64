"""What is said with a tool server, in the words of the protocol's SDK.

Importing this module takes a second, so it is imported when the first server starts.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from aish_lsp import __version__
from aish_lsp.foundation.errors import BackendUnavailable
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.models.address import without_secrets
from aish_lsp.tools.remote import LOST, transport_fault
from aish_lsp.tools.wire import SENT, tolerant

if TYPE_CHECKING:
    from mcp.client import Transport

    from aish_lsp.tools.asking import Elicitation

#: Seconds that a call may take without reporting progress, and in all.
_CALL_SECONDS: Final = 600.0
_LONGEST_CALL: Final = 7200.0

#: Seconds between two reports of progress, and characters of a report.
_PROGRESS_PAUSE: Final = 0.1
_LONGEST_PROGRESS: Final = 200

#: How many pages of a list of tools are read, and how many tools.
_MOST_PAGES: Final = 50
MOST_TOOLS: Final = 1000

#: Seconds until a server is listened to again, at first and at most.
_LISTEN_PAUSE: Final = 5.0
_LONGEST_LISTEN_PAUSE: Final = 600.0

#: What the SDK says if a connection ends during a call. Its code does not tell: servers use it too.
_CLOSED: Final = "Connection closed"

#: Why a call failed: the server does not know the session, so that the call was not made; it may
#: say so in words alone; or the connection has ended.
SESSION_LOST: Final = "session lost"
MAY_BE_LOST: Final = "session may be lost"
CONNECTION_ENDED: Final = "connection ended"

_SESSION_WORDS: Final = re.compile(
    r"(?:session|mcp-session-id)\b.{0,40}\b(?:not found|expired|unknown|invalid|terminated)"
    r"|\b(?:unknown|invalid|expired|no valid)\b.{0,20}\bsession|not initialized",
    re.IGNORECASE,
)


def client_of(
    transport: Transport,
    root: Path,
    elicitation: Elicitation,
    *,
    changed: Callable[[], None],
    ended: Callable[[], None],
    is_older: bool,
    version: str,
) -> Client:
    """Return a client that is not yet connected.

    ``changed`` is called when the server says that its list of tools has changed, and ``ended``
    when it says nothing more. A server that ``is_older`` is not asked for the newest protocol, and
    with a ``version`` for that one.
    """

    async def roots(context: Any) -> mcp_types.ListRootsResult:
        del context
        uri: Any = root.as_uri()
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=uri)])

    async def told(message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            changed()

    return Client(
        tolerant(transport, ended, version=version, explain=getattr(transport, "explained", None)),
        client_info=mcp_types.Implementation(name="aish-lsp", version=__version__),
        elicitation_callback=elicitation.answer,
        list_roots_callback=roots,
        message_handler=told,
        mode="legacy" if is_older or version else "auto",
        cache=None,
    )


def version_in(error: BaseException) -> str:
    """Return the newest version of the protocol that a server says it speaks; empty if none.

    Some refuse to start for a version that they do not know, instead of naming another.
    """
    if not isinstance(error, MCPError):
        return ""
    text = f"{error} {json.dumps(error.error.data, default=str)}"
    if "version" not in text.lower():
        return ""
    versions = set(HANDSHAKE_PROTOCOL_VERSIONS) - {LATEST_HANDSHAKE_VERSION}
    return max(versions.intersection(re.findall(r"\d{4}-\d{2}-\d{2}", text)), default="")


async def listed_tools(client: Client) -> tuple[list[Any], bool]:
    """Return the tools as the server sent them, and whether there are more.

    A server that says that it has none is not asked.

    Raises:
        Exception: any error of the SDK.
    """
    listed: list[Any] = []
    cursor: str | None = None
    seen: set[str | None] = set()
    for _ in range(_MOST_PAGES if client.server_capabilities.tools else 0):
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.error.code != METHOD_NOT_FOUND or error.error.data or listed:
                raise
            break
        listed += [(tool.meta or {}).get(SENT) for tool in page.tools]
        seen.add(cursor)
        cursor = page.next_cursor
        if not cursor or cursor in seen or len(listed) >= MOST_TOOLS:
            break
    if cursor in seen:
        cursor = None  # It leads to what was listed.
    return listed[:MOST_TOOLS], bool(cursor) or len(listed) > MOST_TOOLS


async def follow_list(client: Client, changed: Callable[[], None]) -> None:
    """Call ``changed`` whenever a server of the newest protocol says that its list has changed.

    It says so only while it is listened to. Others say it unasked: see ``client_of``.
    """
    tools = client.server_capabilities.tools
    is_newest = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    if not is_newest or tools is None or not tools.list_changed:
        return
    pause = _LISTEN_PAUSE
    while True:
        try:
            async with client.listen(tools_list_changed=True) as events:
                pause = _LISTEN_PAUSE
                async for _ in events:
                    changed()
        except (MCPError, SubscriptionLost, TimeoutError):
            pause = min(2 * pause, _LONGEST_LISTEN_PAUSE)
        await asyncio.sleep(pause)
        changed()  # It may have said so meanwhile.


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
    limit = asyncio.timeout(_CALL_SECONDS)

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        nonlocal told_at
        limit.reschedule(asyncio.get_running_loop().time() + _CALL_SECONDS)
        if time.monotonic() - told_at < _PROGRESS_PAUSE:
            return
        told_at = time.monotonic()
        of = f" of {total:g}" if total else ""
        text = f", {escaped(message[:_LONGEST_PROGRESS])}" if message else ""
        await told(f"{server}: {progress:g}{of}{text}\n")

    try:
        async with limit:
            result = await client.call_tool(
                name, dict(arguments), _LONGEST_CALL, progress_callback=progressed
            )
    except TimeoutError as error:
        msg = f"{server}: it has not answered for {_CALL_SECONDS:g} s, and the call was cancelled"
        raise BackendUnavailable(msg) from error
    except MCPError as error:
        text = cut(escaped(str(error) + _details(error)), 1500)
        raise BackendUnavailable(f"{server}: {text}", reason=_kind(error)) from error
    except (ValidationError, ValueError, RuntimeError) as error:
        what = cut(escaped(str(error)), 300)
        raise BackendUnavailable(f"{server} gave a result that is not valid: {what}") from error
    sent: dict[str, Any] = (result.meta or {})[SENT]
    return sent


def _details(error: MCPError) -> str:
    """Return what a server says about an error besides its message, for the model."""
    data = error.error.data
    if data in (None, "", {}, []) or (isinstance(data, dict) and LOST in data):
        return ""
    return f": {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}"


def _kind(error: MCPError) -> str:
    """Return why a call failed; empty for other reasons than those above."""
    data = error.error.data
    if isinstance(data, dict) and data.get(LOST) is True:
        return SESSION_LOST
    if str(error) == _CLOSED:
        return CONNECTION_ENDED
    return MAY_BE_LOST if _SESSION_WORDS.search(str(error)) else ""


def reason_of(error: BaseException, url: str) -> str:
    """Return why a connection failed, for the user; ``url`` is the server's, if it has one."""
    match error:
        case httpx2.TransportError():
            return transport_fault(error, url)
        case OAuthFlowError():
            return (
                f"{without_secrets(url)} wants a key, and the sign-in that it offers failed:"
                f" {cut(escaped(str(error)), 300).rstrip('.')}. Set a key in its `headers`, for"
                ' example Authorization = "Bearer ${NAME}"'
            )
        case OSError():
            return error.strerror or type(error).__name__
        case ValidationError():
            # Not all of pydantic's message, which adds the type and a link to its documentation.
            first = error.errors()[0]
            path = ".".join(map(str, first["loc"]))
            return cut(
                escaped(f"its answer does not follow the protocol: {path}: {first['msg']}"), 300
            )
    return cut(escaped(str(error)), 700).rstrip(".") or type(error).__name__
