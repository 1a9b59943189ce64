"""The connection to a tool server, which is started when it is first needed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from aish_lsp.foundation.errors import AishError, BackendUnavailable, InvalidArgument, NotFound
from aish_lsp.foundation.files import data_dir
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.tools.asking import Elicitation, ServerTool, checked_tools

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import Transport
    from mcp_types import CallToolResult

    from aish_lsp.config.schema import ToolServer
    from aish_lsp.foundation.ports import AskUser, Choose
    from aish_lsp.tools.transports import StdioTransport

logger = logging.getLogger(__name__)

State = Literal["off", "starting", "ready", "failed"]

#: Seconds that a server has to answer ``initialize`` and list its tools (``uvx`` and ``npx`` may
#: have to fetch it first), and seconds that a call may take.
_CONNECT_SECONDS: Final = 60.0
_CALL_SECONDS: Final = 600.0

#: Seconds until a server that failed may be started again: the first time, and at most.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0

#: How many pages of a list of tools are read, how many tools are kept, and seconds until the list
#: may be read again.
_MOST_PAGES: Final = 50
_MOST_TOOLS: Final = 1000
_LIST_PAUSE: Final = 1.0

#: Seconds between two reports of progress, and characters of a report.
_PROGRESS_PAUSE: Final = 0.1
_LONGEST_PROGRESS: Final = 200

#: The variables of our environment that a server gets: those that it needs to run, and no secrets.
_INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ"),
    *("USER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where servers are started, and how the user is asked.

    ``environ`` is our own environment; a server gets the harmless part of it.
    """

    root: Path
    environ: Mapping[str, str]
    ask_user: AskUser
    choose: Choose


class Connection:
    """A tool server as it is configured, and the connection to it while there is one.

    Attributes:
        tools: its tools as it last listed them.
        state: ``off`` before it is needed.
        error: why it failed, or which of its tools cannot be used; empty if all is well.
    """

    def __init__(self, name: str, configured: ToolServer, surroundings: Surroundings) -> None:
        self.name = name
        self.configured = configured
        self.tools: tuple[ServerTool, ...] = ()
        self.state: State = "off"
        self.error = ""
        self._surroundings = surroundings
        self._client: Client | None = None
        self._process: StdioTransport | None = None
        self._task: asyncio.Task[None] | None = None
        self._limit: asyncio.Timeout | None = None
        self._elicitation = Elicitation(name, surroundings.ask_user, surroundings.choose)
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
    ) -> CallToolResult:
        """Call a tool, passing its progress to ``told`` and a cancel to the server.

        Raises:
            AishError: the call failed, or the server did.
        """
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - heavy, and there by now
        from mcp_types import CONNECTION_CLOSED  # noqa: PLC0415 - as above
        from pydantic import ValidationError  # noqa: PLC0415 - as above

        await self.connect()
        assert self._client is not None
        told_at = -_PROGRESS_PAUSE

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            nonlocal told_at
            if time.monotonic() - told_at < _PROGRESS_PAUSE:
                return
            told_at = time.monotonic()
            of = f" of {total:g}" if total else ""
            said = f", {escaped(message[:_LONGEST_PROGRESS])}" if message else ""
            await told(f"{self.name}: {progress:g}{of}{said}\n")

        self._elicitation.calls += 1
        try:
            result = await self._client.call_tool(
                tool.name, dict(arguments), _CALL_SECONDS, progress_callback=progressed
            )
        except MCPError as error:
            if self._client is None or error.error.code == CONNECTION_CLOSED:
                # The task sets the reason why the server ended.
                if self._task is not None:
                    await asyncio.wait([self._task])
                why = self.error or f"The tool server {self.name} ended."
                raise BackendUnavailable(why) from error
            raise BackendUnavailable(
                f"{self.name}: {cut(escaped(error.error.message), 500)}"
            ) from error
        except (ValidationError, ValueError, RuntimeError) as error:
            what = cut(escaped(str(error)), 300)
            raise BackendUnavailable(
                f"{self.name} gave a result that is not valid: {what}"
            ) from error
        finally:
            self._elicitation.calls -= 1
        self._failures = 0
        return result

    async def _serve(self) -> None:
        """Run the connection from its start to its end."""
        self._process = None
        try:
            await _import_sdk()
            async with AsyncExitStack() as stack:
                # Not anyio's timeout: its scopes must nest, and the client outlives this one.
                async with asyncio.timeout(_CONNECT_SECONDS) as self._limit:
                    client = await stack.enter_async_context(self._client_of(self._transport()))
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
        except BaseExceptionGroup as group:
            self._fail(_first(group))
        except Exception as error:  # noqa: BLE001 - anything an unknown program may cause
            self._fail(error)
        finally:
            self._client = None
            self._settled.set()

    def _transport(self) -> Transport:
        """Return the transport for the server.

        Raises:
            NotFound: its program is not installed.
        """
        from aish_lsp.tools import transports  # noqa: PLC0415 - brings the SDK

        if self.configured.url:
            headers = {
                name: _VARIABLE.sub(lambda found: self._variable(found[1]), value)
                for name, value in self.configured.headers.items()
            }
            return transports.remote_transport(
                self.name,
                self.configured.url,
                headers,
                self._surroundings.ask_user,
                self._wait_for_user,
            )
        environ = self._surroundings.environ
        environment = {name: environ[name] for name in _INHERITED if name in environ}
        for name, value in self.configured.env.items():
            environment[name] = _VARIABLE.sub(lambda found: environ.get(found[1], ""), value)
        program, *arguments = self.configured.command or [""]
        where = environment.get("PATH", os.defpath)
        program = os.path.expanduser(program)  # noqa: PTH111 - as a shell
        if os.path.dirname(program):  # noqa: PTH120 - as above
            program = str(self._surroundings.root / program)
        found = shutil.which(program, path=where)
        if found is None:
            raise NotFound(f"{escaped(program)[:80]} is not installed, or not on PATH")
        log = data_dir() / "tool-servers" / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', self.name)}.log"
        command = [os.path.abspath(found), *arguments]  # noqa: PTH100 - links are not followed
        self._process = transports.StdioTransport(
            command, self._surroundings.root, environment, log, self._over.set
        )
        return self._process

    def _variable(self, name: str) -> str:
        """Return the value of an environment variable that a header names.

        Raises:
            InvalidArgument: it is not set.
        """
        if value := self._surroundings.environ.get(name):
            return value
        raise InvalidArgument(f"its headers name the variable {name}, which is not set")

    def _wait_for_user(self, seconds: float) -> None:
        """Give the server more time while the user is asked something."""
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)

    def _client_of(self, transport: Transport) -> Client:
        import mcp_types  # noqa: PLC0415 - brings pydantic
        from mcp import Client  # noqa: PLC0415 - heavy

        from aish_lsp import __version__  # noqa: PLC0415 - of the root

        async def roots(context: Any) -> mcp_types.ListRootsResult:
            del context
            root: Any = self._surroundings.root.as_uri()
            return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=root)])

        async def told(message: Any) -> None:
            if isinstance(message, mcp_types.ToolListChangedNotification):
                self._changed.set()

        return Client(
            transport,
            client_info=mcp_types.Implementation(name="aish-lsp", version=__version__),
            elicitation_callback=self._elicitation.answer,
            list_roots_callback=roots,
            message_handler=told,
            cache=None,
        )

    async def _stay(self, client: Client) -> None:
        """Keep the list of tools current until the server ends or is no longer wanted."""
        over = asyncio.create_task(self._over.wait())
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

    async def _list(self, client: Client) -> None:
        found: list[Any] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) >= _MOST_TOOLS:
                break
        tools, left_out = await asyncio.to_thread(checked_tools, self.name, found[:_MOST_TOOLS])
        if cursor or len(found) > _MOST_TOOLS:
            left_out.insert(0, f"it lists more than {_MOST_TOOLS:,} tools; these are the first")
        self.tools = tuple(tools)
        self.error = "; ".join(left_out[:5])
        if len(left_out) > 5:
            self.error += f"; and {len(left_out) - 5} more"

    def _fail(self, error: BaseException) -> None:
        self._failures += 1
        self._failed_at = time.monotonic()
        self.state, self.tools = "failed", ()
        why, said = _why(error), ""
        if self._process is not None:
            why = self._process.trouble or why
            said = self._process.last_words
        self.error = f"The tool server {self.name} failed: {why}."
        if said:
            self.error += f" It said: {escaped(said)}"
        logger.info("%s", self.error)


async def _import_sdk() -> None:
    """Import the SDK and our transports for it in a thread, since it takes a second.

    Raises:
        NotFound: it is not installed.
    """
    if importlib.util.find_spec("mcp") is None:
        raise NotFound("the part for tool servers is not installed: pip install 'aish-lsp[tools]'")
    await asyncio.to_thread(importlib.import_module, "aish_lsp.tools.transports")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a group that is not itself a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _why(error: BaseException) -> str:
    match error:
        case AishError():
            return error.message.rstrip(".")
        case TimeoutError():
            return f"it did not answer within {_CONNECT_SECONDS:.0f} s"
        case OSError():
            return error.strerror or type(error).__name__
        case ValueError() if callable(errors := getattr(error, "errors", None)):
            # Not all of pydantic's message, which adds the type and a link to its documentation.
            first = errors()[0]
            place = ".".join(map(str, first["loc"]))
            return cut(
                escaped(f"its answer does not follow the protocol: {place}: {first['msg']}"), 300
            )
        case _:
            return cut(escaped(str(error)), 300).rstrip(".") or type(error).__name__
