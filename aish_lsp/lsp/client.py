"""The client as the features see it: its requests and ours, and the notifications to it.

It also has the handler of each command of ``workspace/executeCommand``. A ``Call`` is one such
request while it is being answered. ``Progress`` is what an editor shows during long work: its
beginning, reports and end.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.text import nearest, shown
from aish_lsp.foundation.validate import structure
from aish_lsp.lsp.endpoint import Endpoint
from aish_lsp.lsp.lifecycle import GRACE, Lifecycle
from aish_lsp.lsp.overrides import Documents, open_workspace
from aish_lsp.lsp.stream import initialize_result
from aish_lsp.operations.operation import Face

if TYPE_CHECKING:
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.messages import MessageId
    from aish_lsp.lsp.protocol import CommandSpec

R = TypeVar("R")

logger = logging.getLogger(__name__)

Send: TypeAlias = Callable[[dict[str, Any]], None]


class Call:
    """What a command's handler knows about the request that it answers.

    ``send`` sends a value under the client's token for progress, if it sent one; ``stop`` cancels
    the request's task.

    Attributes:
        cancelled: whether the client has asked to stop.
    """

    def __init__(self, send: Send | None, stop: Callable[[], object]) -> None:
        self.cancelled = False
        self._send = send
        self._stop = stop
        self._callbacks: list[Callable[[], object]] = []

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the client cancels, or at once if it already has.

        The handler then ends by itself, and its answer is sent. Without a callback the handler is
        cancelled, and the request is answered with RequestCancelled (-32800).
        """
        if self.cancelled:
            callback()
        else:
            self._callbacks.append(callback)

    def cancel(self) -> None:
        """Stop the work, as the client asked; a second call does nothing."""
        if self.cancelled:
            return
        self.cancelled = True
        for stop in self._callbacks or [self._stop]:
            stop()

    def progress(self, title: str) -> Progress:
        """Begin progress under the client's ``workDoneToken``; silent if it sent none."""
        progress = Progress(title, self._send)
        progress.open()
        return progress

    def begin_progress(self, title: str, *, on_cancel: Callable[[], object]) -> Progress:
        """Begin progress as ``progress`` does; call ``on_cancel`` when the client cancels."""
        self.on_cancel(on_cancel)
        return self.progress(title)


Handler: TypeAlias = Callable[[Call, Any], Awaitable[object]]


def _argument(name: str, arguments: Sequence[Any] | None) -> Any:
    """Return the one object that a command takes; an empty object if none was sent."""
    if not arguments or (len(arguments) == 1 and arguments[0] is None):
        return {}
    if len(arguments) > 1 or not isinstance(arguments[0], dict):
        message = f"{name} takes one JSON object as its only argument, or none"
        raise InvalidArgument(message, path="arguments")
    return arguments[0]


class Progress:
    """The progress of some work. What is reported before it is open is shown once it is.

    ``send`` takes the values of ``$/progress``, and is None if they are not shown; ``closed`` is
    called at the end.
    """

    def __init__(
        self,
        title: str,
        send: Send | None,
        *,
        closed: Callable[[], object] | None = None,
    ) -> None:
        self._title = title
        self._send = send
        self._closed = closed
        self._message: str | None = None
        self._part = ""
        self._open = False
        self._ended = False

    def open(self) -> None:
        """Show the progress: the client knows its token now."""
        if self._send is None or self._open:
            return
        self._open = True
        begin = {"kind": "begin", "title": self._title, "cancellable": True}
        self._send(begin | self._with_message())
        if self._ended:
            self._send({"kind": "end"})

    def report(self, message: str) -> None:
        """Show ``message``, unless the progress has ended."""
        if self._ended:
            return
        self._message = message
        if self._send is not None and self._open:
            self._send({"kind": "report", "message": message})

    def reach(self, part: str) -> None:
        """Show that the work has reached ``part``, which is shown before the time from now on."""
        self._part = f"{part}, "
        self.report(part)

    @asynccontextmanager
    async def timed(self, has_begun: Callable[[], bool] = lambda: True) -> AsyncIterator[None]:
        """Report each second, until the block ends, the time so far, or that the work waits."""

        async def report_time() -> None:
            seconds = 0
            while True:
                await asyncio.sleep(1)
                seconds += has_begun()
                self.report(f"{self._part}{seconds} s" if seconds else "waits")

        reporting = asyncio.create_task(report_time(), name="report the time")
        try:
            yield
        finally:
            reporting.cancel()

    def end(self, message: str | None = None) -> None:
        """End the progress with a last ``message``; a second call does nothing."""
        if self._ended:
            return
        self._ended = True
        self._message = message
        if self._send is not None and self._open:
            self._send({"kind": "end"} | self._with_message())
        if self._closed is not None:
            self._closed()

    def _with_message(self) -> dict[str, Any]:
        return {} if self._message is None else {"message": self._message}


#: Seconds within which a client must answer that it will show progress.
CREATE_PROGRESS: Final = 10.0


class Client(Endpoint):
    """The one client that is served, and the methods of LSP that no feature answers.

    Attributes:
        commands: the handler of each command, in the order in which they were bound.
        lifecycle: ends the process.
        initialize_params: what the client sent with ``initialize``; None before that.
        client_capabilities: what the client said there that it can do.
        workspace: its folders and open documents.
    """

    def __init__(self, specs: Mapping[str, CommandSpec]) -> None:
        super().__init__()
        self._specs = specs
        self.commands: dict[str, Handler] = {}
        self.lifecycle = Lifecycle()
        self.initialize_params: types.InitializeParams | None = None
        self.client_capabilities = types.ClientCapabilities()
        self.workspace = Documents(None)
        self._calls: dict[asyncio.Task[Any] | None, Call] = {}
        self._on_token_cancel: dict[MessageId, Callable[[], object]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._shutdown_hooks: list[Callable[[], Coroutine[Any, Any, object]]] = []
        self._command_hooks: list[Callable[[str], object]] = []
        self._stopping: asyncio.Task[None] | None = None
        self.feature(types.INITIALIZE)(self._initialize)
        self.feature(types.SHUTDOWN)(lambda _: self.stop_work())
        self.feature(types.EXIT)(
            lambda _: self.lifecycle.end("the client said exit", self.exit_code)
        )
        self.feature(types.WORKSPACE_EXECUTE_COMMAND)(self._execute_command)
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)(self._cancel_progress)

    # Life cycle

    @property
    def exit_code(self) -> int:
        """The process's exit code when the client goes: 0 after ``shutdown``, else 1."""
        return 0 if self._shutdown else 1

    def _initialize(self, params: types.InitializeParams) -> dict[str, Any]:
        """Keep what the client says about itself, and return what we can do."""
        general = params.capabilities.general
        encodings = list(general.position_encodings or ()) if general else []
        result = initialize_result({"general": {"positionEncodings": encodings}})
        able = result["capabilities"]
        able["executeCommandProvider"]["commands"] = list(self.commands)
        self.workspace = open_workspace(params, able["positionEncoding"])
        self.client_capabilities = params.capabilities
        self.initialize_params = params
        self.initialized = True
        self.lifecycle.watch_parent(params.process_id)
        return result

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
        self._shutdown = True
        stopping = {key: task for key, task in self._running.items() if key != self._shutdown_id}
        for key in stopping:
            self._cancel(key)
        if stopping:
            # Leave a third for the hooks, in case a command does not end.
            await asyncio.wait(stopping.values(), timeout=GRACE * 2 / 3)
        for task in list(self._tasks):
            task.cancel()
        for hook in self._shutdown_hooks:
            self.spawn(hook(), "a shutdown hook")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE / 3)

    async def answer_shutdown(self) -> None:
        """Wait until a ``shutdown`` request is answered; without one, return at once."""
        task = self._running.get(self._shutdown_id or "")
        if task is not None:
            await asyncio.wait([task])

    # Commands

    def bind(self, name: str, handler: Handler) -> None:
        """Let ``handler`` answer the command ``name``.

        Raises:
            ValueError: the command is not specified, or is bound already.
        """
        if name not in self._specs:
            raise ValueError(f"{name} has no CommandSpec")
        if name in self.commands:
            raise ValueError(f"{name} is bound twice")
        self.commands[name] = handler

    def on_command(self, hook: Callable[[str], object]) -> None:
        """Call ``hook`` with the name of each command before the command is answered."""
        self._command_hooks.append(hook)

    def _cancel(self, msg_id: MessageId) -> None:
        call = self._calls.get(self._running.get(msg_id))
        if call is not None:
            call.cancel()
        else:
            super()._cancel(msg_id)

    async def _execute_command(self, params: types.ExecuteCommandParams) -> object:
        """Run a command in the request's own task, so that it can be cancelled."""
        task = asyncio.current_task()
        assert task is not None
        for hook in self._command_hooks:
            hook(params.command)
        token = params.work_done_token
        send = None if token is None else partial(self.send_progress, token)
        call = self._calls[task] = Call(send, task.cancel)
        if token is not None:
            self._on_token_cancel[token] = call.cancel
        try:
            return await self._executed(call, params.command, params.arguments)
        finally:
            del self._calls[task]
            if token is not None:
                self._forget_token(token, call.cancel)

    async def _executed(self, call: Call, name: str, arguments: Sequence[Any] | None) -> object:
        """Run a command with what the client sent; return its result as plain JSON data.

        Raises:
            NotFound: no such command is bound.
            InvalidArgument: the arguments do not fit it.
        """
        handler = self.commands.get(name)
        if handler is None:
            raise NotFound(f"no command {shown(name)}; {nearest(name, list(self.commands))}")
        params: object = structure(
            _argument(name, arguments), self._specs[name].params, camel_case=True
        )
        return to_wire(await handler(call, params))

    # Progress

    def send_progress(self, token: MessageId, value: Mapping[str, Any]) -> None:
        """Send ``value``, plain JSON data, under a progress token."""
        self.notify("$/progress", {"token": token, "value": value})

    def begin_progress(self, title: str, *, on_cancel: Callable[[], object]) -> Progress:
        """Begin progress under a token of ours; silent if the client shows no progress.

        The progress may be reported on and ended at once, without waiting for the client.
        """
        if not can(self, "window.work_done_progress"):
            return Progress(title, None)
        token = str(uuid.uuid4())
        self._on_token_cancel[token] = on_cancel
        forget = partial(self._forget_token, token, on_cancel)
        progress = Progress(title, partial(self.send_progress, token), closed=forget)
        self.spawn(self._open_progress(token, progress), f"progress {title}")
        return progress

    async def _open_progress(self, token: str, progress: Progress) -> None:
        params = types.WorkDoneProgressCreateParams(token)
        try:
            await self.request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params, CREATE_PROGRESS)
        except (TimeoutError, JsonRpcException):
            logger.info("the client does not show the progress that it was asked to show")
        else:
            progress.open()

    def _cancel_progress(self, params: types.WorkDoneProgressCancelParams) -> None:
        """Stop the work under a progress token, the client's or ours."""
        callback = self._on_token_cancel.get(params.token)
        if callback is not None:
            callback()

    def _forget_token(self, token: MessageId, callback: Callable[[], object]) -> None:
        """Forget what a token cancels, unless it has been reused for something else."""
        if self._on_token_cancel.get(token) == callback:
            del self._on_token_cancel[token]

    # Other requests and notifications

    async def answer_of(self, method: str, params: object, timeout: float) -> Any:  # noqa: ASYNC109 - a limit, not a failure
        """Ask the client, as ``request`` does; return None if there is no answer."""
        try:
            return await self.request(method, params, timeout)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, there is no answer
            logger.info("the client did not answer %s: %s", method, type(error).__name__)
            return None

    def tell(self, message: str, *, error: bool = False) -> None:
        """Show ``message`` to the user."""
        kind = types.MessageType.Error if error else types.MessageType.Info
        self.notify(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(kind, message))

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

    caller: Call | Client
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
                return await job.result()
        finally:
            progress.end()

    async def chat_text(self) -> str:
        """Return the text of the chat."""
        return await self.chat()


def can(client: Client, what: str) -> bool:
    """Return whether the client said that it can do ``what``, e.g. ``workspace.apply_edit``."""
    found: object = client.client_capabilities
    for name in what.split("."):
        found = getattr(found, name, None)
    return bool(found)


def declares(client: Client, request: str) -> bool:
    """Return whether ``initializationOptions.aish`` says that the client answers ``request``."""
    params = client.initialize_params
    options = params.initialization_options if params else None
    section = options.get("aish") if isinstance(options, dict) else None
    return isinstance(section, dict) and section.get(request) is True
