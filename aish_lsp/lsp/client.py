"""The client, as the features of this room see it: a port that the server implements.

And the commands of ``workspace/executeCommand``: what each takes, and who answers it. A ``Call`` is
one such request while it is answered, ``Progress`` what an editor shows for work that takes long:
begin, reports, end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from lsprotocol import types
from pygls.workspace import Workspace

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.text import nearest, shown
from aish_lsp.foundation.validate import structure
from aish_lsp.lsp.messages import MessageId

if TYPE_CHECKING:
    from aish_lsp.operations.operation import Operation

F = TypeVar("F", bound=Callable[..., Any])


class Client(Protocol):
    """What a feature may ask and tell the client, and how it answers what the client asks."""

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        """The client's capabilities."""

    @property
    def initialize_params(self) -> types.InitializeParams | None:
        """What the client sent with ``initialize``; None before it."""

    @property
    def workspace(self) -> Workspace:
        """The folders and the open documents."""

    async def request(self, method: str, params: Any, timeout: float) -> Any:  # noqa: ASYNC109 - raises TimeoutError
        """Ask the client; return its answer as lsprotocol's type for it.

        Raises:
            TimeoutError: it did not answer within ``timeout`` seconds.
            JsonRpcException: it answered with an error, or with what is no answer to ``method``.
        """

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""

    def tell(self, message: str, *, error: bool = False) -> None:
        """Show ``message`` to the user, beside whatever they do."""

    def send_progress(self, token: MessageId, value: Mapping[str, Any]) -> None:
        """Send ``value``, plain JSON data, under a progress token."""

    def begin_progress(self, title: str, *, on_cancel: Callable[[], object]) -> Progress:
        """Begin progress of our own; silent where the client shows none.

        It may be reported on and ended at once: nothing waits for the client.
        """

    async def drained(self) -> None:
        """Wait while the client is more than about a megabyte behind."""

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``work`` in the background; what it raises is logged. The shutdown cancels it."""

    def bind(self, name: str, handler: Handler) -> None:
        """Let ``handler`` answer the command ``name``.

        Raises:
            ValueError: it is not specified, or bound already.
        """

    def feature(self, method: str, options: Any = None, /) -> Callable[[F], F]:
        """Let what is decorated answer a method of LSP."""

    def on_shutdown(self, hook: Callable[[], Awaitable[object]]) -> None:
        """Call ``hook`` once when the server stops, after the running commands were cancelled."""


logger = logging.getLogger(__name__)


class Call:
    """What a command's handler knows about the request that it answers.

    ``send`` sends a value under a progress token; ``stop`` cancels the request's task.

    Attributes:
        request_id: the request's id.
        work_done_token: the client's token for progress of this request, or None.
        cancelled: whether the client has asked to stop.
    """

    def __init__(
        self,
        send: Callable[[MessageId, Mapping[str, Any]], None],
        request_id: MessageId,
        work_done_token: MessageId | None,
        stop: Callable[[], object],
    ) -> None:
        self.request_id = request_id
        self.work_done_token = work_done_token
        self.cancelled = False
        self._send = send
        self._stop = stop
        self._callbacks: list[Callable[[], object]] = []

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the client cancels, or now if it has.

        The handler is then left to end by itself and its answer is sent. With no callback it is
        cancelled, and the request is answered with RequestCancelled (-32800).
        """
        if self.cancelled:
            self._run(callback)
        else:
            self._callbacks.append(callback)

    def cancel(self) -> None:
        """Stop the work, as the client asked; a second time does nothing."""
        if self.cancelled:
            return
        self.cancelled = True
        if not self._callbacks:
            self._stop()
        for callback in self._callbacks:
            self._run(callback)

    def progress(self, title: str) -> Progress:
        """Begin progress under the client's ``workDoneToken``; silent where there is none."""
        if self.work_done_token is None:
            return Progress.silent()
        progress = Progress(title, partial(self._send, self.work_done_token))
        progress.open()
        return progress

    def _run(self, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("what was to stop a command failed")


Handler: TypeAlias = Callable[[Call, Any], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command's contract.

    Attributes:
        name: as the client sends it: ``aish.ask``.
        params: the dataclass that its argument becomes; its fields are camelCase on the wire.
        result: the type of its result; of an operation, that says it itself.
        doc: what the reference says of it, in Markdown; as above.
        operation: the operation that it is a spelling of; None for what editors alone can do.
    """

    name: str
    params: type
    result: Any = None
    doc: str = ""
    operation: Operation | None = None


class CommandTable:
    """The commands that are answered here, out of those that are specified."""

    def __init__(self, specs: Mapping[str, CommandSpec]) -> None:
        self._specs = specs
        self._handlers: dict[str, Handler] = {}

    @property
    def names(self) -> list[str]:
        """The bound commands, in the order in which they were bound."""
        return list(self._handlers)

    def bind(self, name: str, handler: Handler) -> None:
        """Let ``handler`` answer the command ``name``.

        Raises:
            ValueError: it is not specified, or bound already.
        """
        if name not in self._specs:
            raise ValueError(f"{name} has no CommandSpec")
        if name in self._handlers:
            raise ValueError(f"{name} is bound twice")
        self._handlers[name] = handler

    async def execute(self, call: Call, name: str, arguments: Sequence[Any] | None) -> Any:
        """Run a command with what the client sent; return its result as plain JSON data.

        Raises:
            NotFound: no such command is bound.
            InvalidArgument: the arguments do not fit it.
        """
        handler = self._handlers.get(name)
        if handler is None:
            message = f"no command {shown(name)}; {nearest(name, self.names)}"
            raise NotFound(message)
        params: object = structure(
            _argument(name, arguments), self._specs[name].params, camel_case=True
        )
        return to_wire(await handler(call, params))


def _argument(name: str, arguments: Sequence[Any] | None) -> Any:
    """Return the one object that a command takes; none is an empty one."""
    if not arguments or (len(arguments) == 1 and arguments[0] is None):
        return {}
    if len(arguments) > 1 or not isinstance(arguments[0], dict):
        message = f"{name} takes one JSON object as its only argument, or none"
        raise InvalidArgument(message, path="arguments")
    return arguments[0]


Send: TypeAlias = Callable[[dict[str, Any]], None]


class Progress:
    """One progress. What is reported before it is open is shown once it is.

    ``send`` gets the values of ``$/progress``; ``closed`` is called at the end.
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

    @classmethod
    def silent(cls) -> Progress:
        """Return a progress that nobody sees."""
        return cls("", None)

    def open(self) -> None:
        """Show it: the client knows the token now."""
        if self._send is None or self._open:
            return
        self._open = True
        begin = {"kind": "begin", "title": self._title, "cancellable": True}
        self._send(begin | self._with_message())
        if self._ended:
            self._send({"kind": "end"})

    def report(self, message: str) -> None:
        """Show ``message``; after the end it is dropped."""
        if self._ended:
            return
        self._message = message
        if self._send is not None and self._open:
            self._send({"kind": "report", "message": message})

    def reach(self, part: str) -> None:
        """Show which ``part`` of the work is reached, from now on beside the time."""
        self._part = f"{part}, "
        self.report(part)

    @asynccontextmanager
    async def timed(self, has_begun: Callable[[], bool] = lambda: True) -> AsyncIterator[None]:
        """Report each second how long it takes, or that it waits, until the block is left."""

        async def tell() -> None:
            seconds = 0
            while True:
                await asyncio.sleep(1)
                seconds += has_begun()
                self.report(f"{self._part}{seconds} s" if seconds else "waits")

        telling = asyncio.create_task(tell(), name="tell the time")
        try:
            yield
        finally:
            telling.cancel()

    def end(self, message: str | None = None) -> None:
        """Take it away, with a last ``message``; a second time does nothing."""
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
