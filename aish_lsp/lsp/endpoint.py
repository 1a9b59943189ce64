"""JSON-RPC in both directions: how messages are read, answered and sent."""

from __future__ import annotations

import asyncio
import enum
import inspect
import itertools
import logging
import secrets
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs
from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.exceptions import JsonRpcException

from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.events import camel_case, to_wire
from aish_lsp.lsp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_INITIALIZED,
    REQUEST_CANCELLED,
    Malformed,
    MessageId,
    Notification,
    Request,
    Response,
    encode,
    error_response,
    first_flaw,
    parse,
)
from aish_lsp.lsp.stream import position_encoding

if TYPE_CHECKING:
    from cattrs import Converter

    from aish_lsp.lsp.messages import Outbox
    from aish_lsp.lsp.stream import BadFrame

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

#: Takes the params of a message, as LSP's type for them; returns the result or a coroutine for it.
Feature: TypeAlias = Callable[[Any], Any]

#: What encoding as JSON raises for data that JSON cannot hold.
UNSENDABLE = (TypeError, ValueError, RecursionError)


@cache
def converter() -> Converter:
    """Return the converter of this process between LSP's types and plain data."""
    return get_converter()


class Endpoint:
    """One end of a JSON-RPC connection.

    Attributes:
        outbox: what waits to be sent; None while no client is connected.
        features: the handler of each method.
        initialized: whether a client has started a session.
        answered: the id of the request that was answered before this object existed, or None; the
            request gets no second answer.
    """

    def __init__(self) -> None:
        self.outbox: Outbox | None = None
        self.features: dict[str, Feature] = {}
        self.answered: MessageId | None = None
        self._converter = converter()
        self.initialized = False
        self._shutdown = False
        self._shutdown_id: MessageId | None = None
        self._running: dict[MessageId, asyncio.Task[Any]] = {}
        self._pending: dict[MessageId, tuple[str, asyncio.Future[Any]]] = {}
        self._ids = itertools.count(1)
        # An answer may be a yes to a command: only the client that was asked can know the id.
        self._id_prefix = f"aish-{secrets.token_hex(16)}"

    def feature(self, method: str) -> Callable[[F], F]:
        """Let the decorated function answer a method of LSP.

        Raises:
            ValueError: the method has a handler already.
        """

        def register(handler: F) -> F:
            if method in self.features:
                raise ValueError(f"{method} has two handlers")
            self.features[method] = handler
            return handler

        return register

    # Receiving

    def receive(self, frame: bytes | BadFrame) -> None:
        """Handle one message. This does not raise, whatever the message holds."""
        try:
            message = parse(frame)
        except Malformed as error:
            # A client that sends a bad answer to a request of ours gets no error in return.
            if error.id is None or error.id not in self._pending:
                self._send_error(error.id, error.code, error.message)
            return
        try:
            self._dispatch(message)
        except Exception:
            logger.exception("a message could not be handled")

    def _dispatch(self, message: Request | Notification | Response) -> None:
        if isinstance(message, Request):
            self._take_request(message.id, message.method, message.params)
        elif isinstance(message, Notification):
            self._take_notification(message.method, message.params)
        else:
            self._take_response(message.id, message.result, message.error)

    def _take_request(self, msg_id: MessageId, method_name: str, params: Any) -> None:
        try:
            self._admit(msg_id, method_name)
            handler = self._handler_of(method_name)
            structured = self._structured(method_name, params)
        except JsonRpcException as error:
            self._fail(msg_id, error)
            return
        if method_name == types.SHUTDOWN:
            # Set now, not when it is answered: an exit may arrive in the same read.
            self._shutdown = True
            self._shutdown_id = msg_id
        self._run(
            msg_id,
            partial(handler, structured),
            partial(self._send_result, msg_id),
            partial(self._fail, msg_id),
        )

    def _run(
        self,
        key: MessageId,
        handler: Callable[[], Any],
        succeeded: Callable[[Any], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        """Run a handler; a coroutine that it returns runs in a task, stored under ``key``."""

        def ended(task: asyncio.Task[Any]) -> None:
            del self._running[key]
            if task.cancelled():
                failed(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                failed(error)
            else:
                succeeded(task.result())

        try:
            outcome = handler()
        except Exception as error:  # noqa: BLE001 - it is answered, or logged
            failed(error)
            return
        if not inspect.iscoroutine(outcome):
            succeeded(outcome)
            return
        self._running[key] = asyncio.create_task(outcome)
        self._running[key].add_done_callback(ended)

    def _admit(self, msg_id: MessageId, method: str) -> None:
        """Refuse a request that arrives at the wrong time."""
        if self._shutdown:
            raise JsonRpcException("the server is shutting down", INVALID_REQUEST)
        if method == types.INITIALIZE:
            if self.initialized:
                raise JsonRpcException("the server is initialized already", INVALID_REQUEST)
        elif not self.initialized:
            raise JsonRpcException("the first request must be initialize", NOT_INITIALIZED)
        if msg_id in self._running:
            raise JsonRpcException("a request with this id is running", INVALID_REQUEST)
        if _wants_answer(method) is False:
            raise JsonRpcException(f"{method} is a notification", INVALID_REQUEST)

    def _handler_of(self, method: str) -> Feature:
        handler = self.features.get(method)
        if handler is None:
            # The client may send a name of any length.
            message = f"there is no method {method[:80]}"
            raise JsonRpcException(message, METHOD_NOT_FOUND)
        return handler

    def _structured(self, method: str, params: Any) -> Any:
        """Return ``params`` as LSP's type for them; unchanged if LSP has none."""
        known = types.METHOD_TO_TYPES.get(method)
        if known is None:
            return params
        params_type: Any = known[2]
        if params_type is None:
            return None
        try:
            structured = self._converter.structure({} if params is None else params, params_type)
        except Exception as error:
            if method == types.INITIALIZE and self.answered is not None:
                return self._readable(params)
            raise _misfit(method, *_first_problem(error)) from error
        # An initialize that can be read is enough: a client that is refused gets nothing at all.
        if method != types.INITIALIZE and (flaw := first_flaw(structured)) is not None:
            raise _misfit(method, *flaw)
        return structured

    def _readable(self, params: dict[str, Any]) -> types.InitializeParams:
        """Return what can be read of an ``initialize`` that was answered with success already."""
        agreed = {"positionEncodings": [position_encoding(params["capabilities"])]}
        readable: dict[str, Any] = {"capabilities": {"general": agreed}}
        for name, value in params.items():
            try:
                self._converter.structure({"capabilities": {}, name: value}, types.InitializeParams)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, leave it out
                logger.warning("initialize is malformed at %s", _first_problem(error)[0])
            else:
                readable[name] = value
        return self._converter.structure(readable, types.InitializeParams)

    def _take_notification(self, method_name: str, params: Any) -> None:
        if method_name != types.EXIT and (self._shutdown or not self.initialized):
            return
        if method_name == types.CANCEL_REQUEST:
            msg_id = params.get("id") if isinstance(params, dict) else None
            if isinstance(msg_id, int | str):
                self._cancel(msg_id)
            return
        try:
            handler = self._handler_of(method_name)
            if _wants_answer(method_name):
                logger.warning("ignored %s: it is a request, and has no id", method_name)
                return
            structured = self._structured(method_name, params)
        except JsonRpcException as error:
            if error.code != METHOD_NOT_FOUND:
                logger.warning("ignored a notification: %s", error.message)
            return
        # No client uses such a key as an id.
        self._run(
            f"\0{next(self._ids)}",
            partial(handler, structured),
            lambda _: None,
            partial(_log_failure, method_name),
        )

    def _cancel(self, msg_id: MessageId) -> None:
        """Cancel a running request, as the client asked."""
        if (task := self._running.get(msg_id)) is not None:
            task.cancel()

    # Sending

    def _fail(self, msg_id: MessageId, error: BaseException) -> None:
        """Answer a request with what was raised."""
        if isinstance(error, AishError):
            logger.info("request %s failed: %s", msg_id, error.kind)
            data = {camel_case(name): value for name, value in error.data.items()}
            self._send_error(msg_id, error.code, error.message, {"kind": error.kind} | data)
        elif isinstance(error, JsonRpcException):
            self._send_error(msg_id, error.code, error.message, error.data)
        elif isinstance(error, asyncio.CancelledError):
            self._send_error(msg_id, REQUEST_CANCELLED, "the request was cancelled")
        else:
            logger.error("request %s failed", msg_id, exc_info=error)
            message = f"internal error ({type(error).__name__}); see the server's log"
            self._send_error(msg_id, INTERNAL_ERROR, message)

    def _send_result(self, msg_id: MessageId, result: Any) -> None:
        if self._has_answer(msg_id):
            return
        try:
            self._send({"jsonrpc": "2.0", "id": msg_id, "result": result})
        except UNSENDABLE as failure:
            self._fail(msg_id, failure)

    def _send_error(
        self, msg_id: MessageId | None, code: int, message: str, data: Any = None
    ) -> None:
        if self._has_answer(msg_id):
            logger.error("a request that was answered early failed: %s", message)
            return
        try:
            self._send(error_response(msg_id, code, message, data))
        except UNSENDABLE:
            logger.exception("the data of an error cannot be written as JSON")
            self._send(error_response(msg_id, code, message))

    def _has_answer(self, msg_id: MessageId | None) -> bool:
        """Return whether this request was answered before this object existed; then forget it."""
        if msg_id is None or msg_id != self.answered:
            return False
        self.answered = None
        return True

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        self._send(_message(method, params))

    async def request(self, method: str, params: object, timeout: float) -> Any:  # noqa: ASYNC109 - raises TimeoutError
        """Ask the client; return its answer as lsprotocol's type for it.

        Raises:
            TimeoutError: the client did not answer within ``timeout`` seconds.
            JsonRpcException: it answered with an error, or with what ``method`` cannot return.
        """
        request_id = f"{self._id_prefix}-{next(self._ids)}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = method, answer
        try:
            self._send(_message(method, params) | {"id": request_id})
            async with asyncio.timeout(timeout):
                return await answer
        finally:
            del self._pending[request_id]

    def _send(self, message: dict[str, Any]) -> None:
        """Send ``message``; drop it if no client is connected.

        Raises:
            TypeError, ValueError, RecursionError: it cannot be written as JSON.
        """
        if self.outbox is not None:
            self.outbox.put(encode(message, self.plain))

    def plain(self, value: Any) -> Any:
        """Return a value of one of LSP's types, or of ours, as plain JSON data."""
        if attrs.has(type(value)):
            return self._converter.unstructure(value)
        if isinstance(value, enum.Enum):
            return value.value
        return to_wire(value)

    def _take_response(self, msg_id: MessageId, result: Any = None, error: Any = None) -> None:
        method, future = self._pending.get(msg_id, ("", None))
        if future is None or future.done():
            return
        if error is not None:
            future.set_exception(_client_error(error))
            return
        try:
            future.set_result(self._structured_result(method, result))
        except JsonRpcException as failure:
            future.set_exception(failure)

    def _structured_result(self, method: str, result: Any) -> Any:
        response_type: Any = types.METHOD_TO_TYPES.get(method, (None, None))[1]
        if response_type is None:
            return result
        try:
            response = self._converter.structure({"id": 0, "result": result}, response_type)
        except Exception as error:
            # Kate answers with an empty object when a question is dismissed.
            if result == {}:
                return None
            path, what = _first_problem(error)
            message = f"the client's answer to {method} is malformed: {what} at {path or 'result'}"
            raise JsonRpcException(message, INVALID_PARAMS) from error
        return response.result


def _message(method: str, params: object) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else message | {"params": params}


def _log_failure(method: str, error: BaseException) -> None:
    if not isinstance(error, asyncio.CancelledError):
        logger.error("%s failed", method, exc_info=error)


def _wants_answer(method: str) -> bool | None:
    """Return whether ``method`` is a request; None if it is not LSP's, and so may be either."""
    known = types.METHOD_TO_TYPES.get(method)
    return None if known is None else known[1] is not None


def _misfit(method: str, path: str, what: str) -> JsonRpcException:
    """Return the error for params of ``method`` that are malformed at ``path``."""
    message = f"{method}: {what}" + (f" at {path}" if path else "")
    return JsonRpcException(message, INVALID_PARAMS, {"kind": "invalidArgument", "path": path})


def _first_problem(error: BaseException) -> tuple[str, str]:
    """Return the path of a cattrs error's first problem, as on the wire, and what it is."""
    from cattrs import transform_error  # noqa: PLC0415 - needed for bad input only

    what, _, path = transform_error(error)[0].rpartition(" @ $")
    names = path.lstrip(".").split(".")
    return ".".join(camel_case(name) for name in names), what


def _client_error(error: Any) -> JsonRpcException:
    """Return the error that a client answered with, as an exception."""
    if not isinstance(error, dict):
        return JsonRpcException("the client answered with a malformed error", INTERNAL_ERROR)
    code = error.get("code")
    return JsonRpcException(
        str(error.get("message", "")) or "the client answered with an error",
        code if isinstance(code, int) else INTERNAL_ERROR,
        error.get("data"),
    )
