"""The server as its features see it: pygls' language server, with commands, progress and an end.

A feature registers its methods with ``feature`` and its commands with ``bind``. It asks the client
with pygls' methods, each of which needs a time limit, and tells the user something with ``tell``.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from aish_lsp import __version__
from aish_lsp.agent.events import Notice
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.validate import structure
from aish_lsp.lsp.calls import Call, Progress
from aish_lsp.lsp.lifecycle import GRACE, Lifecycle
from aish_lsp.lsp.overrides import AishProtocol, converter
from aish_lsp.operations.operation import Face

if TYPE_CHECKING:
    from pygls.server import ServerErrors

    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.messages import Outbox
    from aish_lsp.lsp.protocol import CommandSpec

R = TypeVar("R")

logger = logging.getLogger(__name__)

#: Answers a command: the request that it is, and its params.
Handler: TypeAlias = Callable[[Call, Any], Awaitable[object]]

#: Seconds within which a client must answer that it will show progress.
CREATE_PROGRESS: Final = 10.0


def _argument(name: str, arguments: Sequence[Any] | None) -> Any:
    """Return the one object that a command takes; an empty object if none was sent."""
    if not arguments or (len(arguments) == 1 and arguments[0] is None):
        return {}
    if len(arguments) > 1 or not isinstance(arguments[0], dict):
        message = f"{name} takes one JSON object as its only argument, or none"
        raise InvalidArgument(message, path="arguments")
    return arguments[0]


class BaseServer(LanguageServer):
    """Serves one client, with the commands in ``specs`` that are bound.

    Attributes:
        lifecycle: ends the process.
        initialize_params: what the client sent with ``initialize``; None before that.
        on_command: is called with the name of each command before the command is answered.
    """

    protocol: AishProtocol

    def __init__(self, specs: Mapping[str, CommandSpec]) -> None:
        super().__init__(
            "aish-lsp", __version__, protocol_cls=AishProtocol, converter_factory=converter
        )
        self._specs = specs
        self.lifecycle = Lifecycle()
        self.initialize_params: types.InitializeParams | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._shutdown_hooks: list[Callable[[], Coroutine[Any, Any, object]]] = []
        self.on_command: list[Callable[[str], object]] = []
        self._stopping: asyncio.Task[None] | None = None

        @self.feature(types.INITIALIZE)
        def _initialize(params: types.InitializeParams) -> None:
            self.initialize_params = params
            self.lifecycle.watch_parent(params.process_id)

        @self.feature(types.SHUTDOWN)
        async def _shutdown(_params: None) -> None:
            await self.stop_work()

        @self.feature(types.EXIT)
        def _exit(_params: None) -> None:
            self.lifecycle.end("the client said exit", self.exit_code)

    # Life cycle

    @property
    def outbox(self) -> Outbox | None:
        """What waits to be sent; None while no client is connected."""
        return cast("Outbox | None", self.protocol.writer)

    @property
    def exit_code(self) -> int:
        """The process's exit code when the client goes: 0 after ``shutdown``, else 1."""
        return 0 if self.protocol.is_closing else 1

    def report_server_error(self, error: Exception, source: ServerErrors) -> None:
        """Log that a notification's handler failed; pygls would show the user the error's text."""
        # The error that pygls makes has no traceback; the one that it handles now has.
        logger.error("a handler failed", exc_info=sys.exception())

    def on_shutdown(self, hook: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Call ``hook`` once when the server stops, after the running commands are cancelled."""
        self._shutdown_hooks.append(hook)

    async def stop_work(self) -> None:
        """Cancel all running work, and give it at most GRACE seconds to save what it has."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop_work())
        await asyncio.shield(self._stopping)

    async def _stop_work(self) -> None:
        """Accept no more requests; cancel the running ones, then the tasks; call the hooks."""
        self.protocol.is_closing = True
        if stopping := self.protocol.cancel_requests():
            # Leave a third for the hooks, in case a command does not end.
            await asyncio.wait(stopping, timeout=GRACE * 2 / 3)
        for task in list(self._tasks):
            task.cancel()
        for hook in self._shutdown_hooks:
            self.spawn(hook(), "a shutdown hook")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE / 3)

    # Commands

    def bind(self, name: str, handler: Handler) -> None:
        """Let ``handler`` answer the command ``name``, with params of the type that it specifies.

        Raises:
            KeyError, CommandAlreadyRegisteredError: it is not specified, or is bound already.
        """
        params = self._specs[name].params
        # No partial function: pygls looks for its annotations, and to say that it has none it makes
        # the text of all that the handler holds. That was most of what making a server took.
        self.command(name)(lambda *arguments: self._answer(name, params, handler, *arguments))

    async def _answer(
        self,
        name: str,
        params: type,
        handler: Handler,
        call: Call,
        arguments: Sequence[Any] | None,
    ) -> object:
        """Run a command with what the client sent; return its result as plain JSON data.

        Raises:
            InvalidArgument: the arguments do not fit it.
        """
        for hook in self.on_command:
            hook(name)
        structured: object = structure(_argument(name, arguments), params, camel_case=True)
        return to_wire(await handler(call, structured))

    # Progress

    def begin_progress(self, title: str, *, on_cancel: Callable[[], object]) -> Progress:
        """Begin progress under a token of ours; silent if the client shows no progress.

        The progress may be reported on and ended at once, without waiting for the client.
        """
        if not can(self, "window.work_done_progress"):
            return Progress(title, None)
        token = str(uuid.uuid4())
        forget = self.protocol.on_token_cancel(token, on_cancel)
        progress = Progress(title, partial(self.protocol.send_progress, token), closed=forget)
        self.spawn(self._open_progress(token, progress), f"progress {title}")
        return progress

    async def _open_progress(self, token: str, progress: Progress) -> None:
        params = types.WorkDoneProgressCreateParams(token)
        try:
            async with asyncio.timeout(CREATE_PROGRESS):
                await self.window_work_done_progress_create_async(params)
        except (TimeoutError, JsonRpcException):
            logger.info("the client does not show the progress that it was asked to show")
        else:
            progress.open()

    # Requests and notifications

    async def answer_of(self, asking: Awaitable[R], timeout: float) -> R | None:  # noqa: ASYNC109 - a limit, not a failure
        """Return the client's answer to a request; None if there is none within ``timeout`` s."""
        try:
            async with asyncio.timeout(timeout):
                return await asking
        except Exception as error:  # noqa: BLE001 - whatever went wrong, there is no answer
            logger.info("the client did not answer a request: %s", type(error).__name__)
            return None

    def tell(self, message: str, *, error: bool = False) -> None:
        """Show ``message`` to the user."""
        kind = types.MessageType.Error if error else types.MessageType.Info
        self.window_show_message(types.ShowMessageParams(kind, message))

    async def drained(self) -> None:
        """Wait while more than about a megabyte is queued for the client."""
        if self.outbox is not None:
            await self.outbox.drained()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``work`` in the background; it is cancelled at shutdown, and errors are logged."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_done)
        return task

    def _spawned_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)


@dataclass
class EditorFace(Face):
    """The client as seen by an operation that a command or a line of the chat asks for.

    ``caller`` shows progress, ``send`` takes messages, and ``chat`` returns the text of the chat.
    """

    caller: Call | BaseServer
    send: Callable[[str], object]
    chat: Callable[[], Awaitable[str]]

    def tell(self, message: str) -> None:
        """Pass ``message`` on."""
        self.send(message)

    async def wait(self, job: Job[R], title: str) -> R:
        """Wait for a job and show its progress, where the user can stop it."""
        progress = self.caller.begin_progress(title, on_cancel=job.cancel)
        try:
            async with progress.timed():
                async for event in job.events():
                    if isinstance(event, Notice):
                        progress.reach(event.message.rstrip("."))
                return await job.result()
        finally:
            progress.end()

    async def chat_text(self) -> str:
        """Return the text of the chat."""
        return await self.chat()


def can(server: BaseServer, what: str) -> bool:
    """Return whether the client said that it can do ``what``, e.g. ``workspace.apply_edit``."""
    capability: object = server.client_capabilities
    for name in what.split("."):
        capability = getattr(capability, name, None)
    return bool(capability)


def client_name(server: BaseServer) -> str:
    """Return the name of the client, as it says itself; empty if it does not."""
    params = server.initialize_params
    info = params.client_info if params else None
    return info.name if info is not None else ""


def declared(server: BaseServer, name: str) -> object:
    """Return what ``initializationOptions.aish`` says under ``name``; None if nothing."""
    params = server.initialize_params
    options = params.initialization_options if params else None
    section = options.get("aish") if isinstance(options, dict) else None
    return section.get(name) if isinstance(section, dict) else None


def declares(server: BaseServer, request: str) -> bool:
    """Return whether ``initializationOptions.aish`` says that the client answers ``request``."""
    return declared(server, request) is True
