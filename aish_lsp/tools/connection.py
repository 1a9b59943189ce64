"""The connection to a tool server, which is started when it is first needed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from aish_lsp.config.variables import secret_variables_of, with_variables
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable, NotFound
from aish_lsp.foundation.files import data_dir
from aish_lsp.foundation.text import escaped
from aish_lsp.tools.asking import Elicitation
from aish_lsp.tools.listing import ServerTool, checked_tools

if TYPE_CHECKING:
    from mcp import Client

    from aish_lsp.config.schema import ToolServer
    from aish_lsp.foundation.ports import AskUser, Choose
    from aish_lsp.tools.remote import RemoteTransport
    from aish_lsp.tools.transports import StdioTransport

logger = logging.getLogger(__name__)

State = Literal["off", "starting", "ready", "failed"]

#: Seconds that a server has to answer ``initialize`` and list its tools: ``uvx`` and ``npx`` may
#: have to fetch it first.
_CONNECT_SECONDS: Final = 60.0

#: Seconds for the calls of a session that was lost, and until it is known why a server ended.
_END_SECONDS: Final = 5.0

#: Seconds until a server that failed may be started again: the first time, and at most.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0

#: Seconds until the list of tools may be read again.
_LIST_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServerContext:
    """Where servers are started, and how the user is asked.

    ``environment`` returns our own environment, or that of the user's login shell after ``load``; a
    server gets the harmless part of it. ``without_secrets`` removes the secrets from what a server
    prints.
    """

    root: Path
    environment: Callable[[], Mapping[str, str]]
    ask_user: AskUser
    choose: Choose
    without_secrets: Callable[[str], str]
    load: Callable[[], Awaitable[object]]


class Connection:
    """A tool server as it is configured, and the connection to it while there is one.

    Attributes:
        tools: its tools as it last listed them.
        state: ``off`` before it is needed.
        error: why it failed, or which of its tools cannot be used; empty if all is well.
    """

    def __init__(self, name: str, configured: ToolServer, surroundings: ServerContext) -> None:
        self.name = name
        self.configured = configured
        self.tools: tuple[ServerTool, ...] = ()
        self.state: State = "off"
        self.error = ""
        self._surroundings = surroundings
        self._client: Client | None = None
        self._link: StdioTransport | RemoteTransport | None = None
        self._is_older = False
        self._version = ""
        self._task: asyncio.Task[None] | None = None
        self._limit: asyncio.Timeout | None = None
        self._elicitation = Elicitation(name, surroundings.ask_user, surroundings.choose)
        self._opening = asyncio.Lock()
        self._idle = asyncio.Event()
        self._settled = asyncio.Event()
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_wanted = False
        self._failures = 0
        self._failed_at = 0.0

    async def connect(self) -> None:
        """Start the server, or wait until it has started.

        Raises:
            AishError: it does not start; the message says why.
        """
        while self._task is not None and not self._task.done() and not self._is_wanted:
            await asyncio.wait([self._task])
        if self._task is None or self._task.done():
            # The exponent is bounded: a float cannot hold 2 to the power of thousands.
            pause = min(_FIRST_PAUSE * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
            left = self._failed_at + pause - time.monotonic()
            if self._failures > 1 and left > 0:
                raise BackendUnavailable(f"{self.error} It can be started again in {left:.0f} s.")
            self._is_wanted, self.state, self.error = True, "starting", ""
            self._settled.clear()
            self._over.clear()
            self._changed.clear()
            # One task enters and leaves them all, since the SDK's cancel scopes belong to a task.
            self._task = asyncio.create_task(self._serve(), name=f"tool server {self.name}")
        await self._settled.wait()
        if self.state != "ready":
            raise BackendUnavailable(self.error or f"The tool server {self.name} was stopped.")

    async def disconnect(self) -> None:
        """End the server, even while it starts or answers a call."""
        self._is_wanted = False
        self._failures = 0
        self._over.set()
        if (task := self._task) is not None:
            if not self._settled.is_set():
                task.cancel()
            await asyncio.wait([task])
        if self._task is task:
            self.state, self.error, self.tools = "off", "", ()

    async def call(
        self, tool: ServerTool, arguments: Mapping[str, Any], told: Callable[[str], Awaitable[None]]
    ) -> dict[str, Any]:
        """Call a tool, passing its progress to ``told`` and a cancel to the server.

        Returns the result as the server sent it. If the server has lost the session, the call was
        not made, and is made in a new one.

        Raises:
            AishError: the call failed, or the server did.
        """
        from aish_lsp.tools.protocol import MAY_BE_LOST, SESSION_LOST  # noqa: PLC0415 - heavy

        await self.connect()
        client = self._client
        try:
            return await self._call(tool.name, arguments, told)
        except BackendUnavailable as error:
            reason = error.data.get("reason")
            if not self.configured.url or reason not in (SESSION_LOST, MAY_BE_LOST):
                raise
            await self._open_anew(client)
            if reason == MAY_BE_LOST:
                raise
        if tool.pin not in {one.pin for one in self.tools}:
            raise BackendUnavailable(
                f"{self.name} lost its session, and describes {tool.name} differently in a new one."
                " Call it again."
            )
        return await self._call(tool.name, arguments, told)

    async def _call(
        self, name: str, arguments: Mapping[str, Any], told: Callable[[str], Awaitable[None]]
    ) -> dict[str, Any]:
        """Call a tool once.

        Raises:
            BackendUnavailable: the call failed, or the server did.
        """
        from aish_lsp.tools import protocol  # noqa: PLC0415 - brings the SDK

        client, task = self._client, self._task
        if client is None or task is None:
            raise BackendUnavailable(self.error or f"The tool server {self.name} was stopped.")
        self._elicitation.calls += 1
        self._idle.clear()
        try:
            result = await protocol.call_tool(client, self.name, name, arguments, told)
        except BackendUnavailable as error:
            if not task.done() and error.data.get("reason") != protocol.CONNECTION_ENDED:
                raise
            # The task sets the reason why the server ended.
            await asyncio.wait([task], timeout=_END_SECONDS)
            why = self.error or f"The tool server {self.name} ended."
            raise BackendUnavailable(why) from error
        finally:
            self._elicitation.calls -= 1
            if not self._elicitation.calls:
                self._idle.set()
        self._failures = 0
        return result

    async def _open_anew(self, client: Client | None) -> None:
        """Open a new session in place of that of ``client``, unless another call has done so.

        What the server still answers in the old one is waited for, for a while.

        Raises:
            AishError: it cannot be opened.
        """
        async with self._opening:
            if self._client is client and (task := self._task) is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_SECONDS):
                        await self._idle.wait()
                self._is_wanted = False
                self._over.set()
                await asyncio.wait([task])
            await self.connect()

    async def _serve(self) -> None:
        """Run the connection from its start to its end."""
        self._link = None
        try:
            await _import_sdk()
            async with AsyncExitStack() as stack:
                # Not anyio's timeout: its scopes must nest, and the client outlives this one.
                async with asyncio.timeout(_CONNECT_SECONDS) as self._limit:
                    client = await self._opened(stack)
                    await self._list(client)
                self._limit = None
                self._client, self.state = client, "ready"
                self._settled.set()
                await self._stay(client)
            if self._is_wanted:
                self._fail(BackendUnavailable("it ended"))
            else:
                self.state = "off"
        except asyncio.CancelledError:
            self.state = "off"
        except (BaseExceptionGroup, Exception) as error:  # noqa: BLE001 - of an unknown program
            self._fail(_first(error))
        finally:
            self._client = None
            self._settled.set()

    async def _opened(self, stack: AsyncExitStack) -> Client:
        """Return a client that is connected, until ``stack`` is closed.

        An older server may not take the first message, which asks for the newest protocol: it is
        then started or reached again in the older way.

        Raises:
            Exception: it cannot be connected.
        """
        first: BaseException | None = None
        while True:
            try:
                return await stack.enter_async_context(self._new_client())
            except (BaseExceptionGroup, Exception) as error:  # noqa: BLE001 - as in _serve
                if not self._try_otherwise(_first(error)):
                    self._is_older, self._version = False, ""
                    # That of a server at an address is not hidden by a guess.
                    raise (first or error) if self.configured.url else error from None
                first = first or error
                self._over.clear()

    def _try_otherwise(self, error: BaseException) -> bool:
        """Return whether the server may understand us in another manner, which is tried next."""
        from aish_lsp.tools.protocol import version_in  # noqa: PLC0415 - brings the SDK

        link = self._link
        if not self._version and (version := version_in(error)):
            self._version = version
            return True
        if not self._is_older and link is not None and link.may_be_older(error):
            self._is_older = True
            return True
        return False

    def _new_client(self) -> Client:
        """Return a client for the server, not yet connected.

        Raises:
            InvalidArgument: a variable that its settings name is not set, or its folder is none.
            NotFound: its program is not installed.
            Denied: a key would go unencrypted to another machine.
        """
        from aish_lsp.tools import protocol, transports  # noqa: PLC0415 - brings the SDK
        from aish_lsp.tools.remote import RemoteTransport  # noqa: PLC0415 - as above

        around = self._surroundings
        environ = around.environment()
        server = with_variables(self.configured, environ)
        if server.url:
            self._link = RemoteTransport(
                self.name,
                server.url,
                server.headers,
                around.ask_user,
                self._wait_for_user,
                secrets=[environ.get(name, "") for name in secret_variables_of(self.configured)],
                extra_certificates=environ.get("NODE_EXTRA_CA_CERTS", ""),
                over=self._over.set if self._is_older else None,
            )
        else:
            environment = transports.environment_of(server, environ)
            log = data_dir() / "tool-servers" / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', self.name)}.log"
            self._link = transports.StdioTransport(
                transports.command_of(server, around.root, environment),
                transports.folder_of(server, around.root),
                environment,
                log,
                over=self._over.set,
                without_secrets=around.without_secrets,
            )
        return protocol.client_of(
            self._link,
            around.root,
            self._elicitation,
            changed=self._changed.set,
            ended=self._over.set,
            is_older=self._is_older,
            version=self._version,
        )

    def _wait_for_user(self, seconds: float) -> None:
        """Give the server more time while the user is asked something."""
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)

    async def _stay(self, client: Client) -> None:
        """Keep the list of tools current until the server ends or is no longer wanted."""
        from aish_lsp.tools.protocol import follow_list  # noqa: PLC0415 - brings the SDK

        over = asyncio.create_task(self._over.wait())
        following = asyncio.create_task(follow_list(client, self._changed.set))
        try:
            while not over.done():
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait({over, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if not over.done():
                    self._changed.clear()
                    async with asyncio.timeout(_CONNECT_SECONDS):
                        await self._list(client)
                    await asyncio.wait({over}, timeout=_LIST_PAUSE)
        finally:
            over.cancel()
            following.cancel()
            await asyncio.wait([following])

    async def _list(self, client: Client) -> None:
        """Read the list of tools, if the server has any."""
        from aish_lsp.tools.protocol import MOST_TOOLS, listed_tools  # noqa: PLC0415 - heavy

        listed, has_more = await listed_tools(client)
        tools, left_out = await asyncio.to_thread(checked_tools, self.name, listed)
        if has_more:
            left_out.insert(0, f"it lists more than {MOST_TOOLS:,} tools; these are the first")
        if not listed:
            left_out.append("it says that it has no tools")
        self.tools = tuple(tools)
        self.error = "; ".join(left_out[:5])
        if len(left_out) > 5:
            self.error += f"; and {len(left_out) - 5} more"

    def _fail(self, error: BaseException) -> None:
        self._failures += 1
        self._failed_at = time.monotonic()
        self.state, self.tools = "failed", ()
        if self.configured.url:
            self._is_older, self._version = False, ""  # It may be another when reached again.
        why, detail = self._reason(error), ""
        if self._link is not None:
            why = self._link.trouble or why
            detail = self._link.last_words
        self.error = f"The tool server {self.name} failed: {why}."
        if detail:
            self.error += f" It said: {escaped(detail)}"
        logger.info("%s", self.error)

    def _reason(self, error: BaseException) -> str:
        match error:
            case AishError():
                return error.message.rstrip(".")
            case TimeoutError():
                return f"it did not answer within {_CONNECT_SECONDS:.0f} s"
        from aish_lsp.tools.protocol import reason_of  # noqa: PLC0415 - brings the SDK

        return reason_of(error, self.configured.url or "")


async def _import_sdk() -> None:
    """Import the SDK and our transports for it in a thread, since it takes a second.

    Raises:
        NotFound: it is not installed.
    """
    if importlib.util.find_spec("mcp") is None:
        raise NotFound("support for tool servers is not installed: pip install 'aish-lsp[tools]'")
    await asyncio.to_thread(importlib.import_module, "aish_lsp.tools.protocol")


def _first(error: BaseException) -> BaseException:
    """Return the first error in a group, or else the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
