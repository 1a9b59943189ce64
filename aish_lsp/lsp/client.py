"""The client, as the features of this room see it: a port that the server implements."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from lsprotocol import types
from pygls.workspace import Workspace

from aish_lsp.lsp.messages import MessageId
from aish_lsp.lsp.registry import Handler, Progress

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
