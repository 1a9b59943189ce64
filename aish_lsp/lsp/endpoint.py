"""JSON-RPC in both directions: how a message is read, answered and sent.

That is ours; of pygls we keep the features, the capabilities and the documents.
"""

from __future__ import annotations

import contextvars
import enum
import itertools
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol

from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.events import camel_case, to_wire
from aish_lsp.lsp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_INITIALIZED,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    Malformed,
    MessageId,
    Notification,
    Request,
    Response,
    encode,
    first_flaw,
    parse,
)
from aish_lsp.lsp.stream import BadFrame

if TYPE_CHECKING:
    from cattrs import Converter
    from pygls.lsp.server import LanguageServer

logger = logging.getLogger(__name__)

#: What writing JSON raises for data that has no form in it.
UNSENDABLE = (TypeError, ValueError, RecursionError)


class Endpoint(LanguageServerProtocol):
    """One end of a JSON-RPC connection; ``send_body`` is where the transport takes messages.

    Nothing of pygls' is overridden here: its ``handle_message`` is not called, and what that calls
    is not used. ``overrides`` has what it is made to do otherwise.
    """

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        self.send_body: Callable[[bytes], None] | None = None
        #: The request that was answered before we were there to: it gets no second answer.
        self.answered: MessageId | None = None
        self._initialized = False
        self._shutdown_id: MessageId | None = None
        self._pending: dict[MessageId, tuple[str, Future[Any]]] = {}
        self._ids = itertools.count(1)
        # An answer may be a yes to a command: only who was asked can know what it answers.
        self._id_prefix = f"aish-{secrets.token_hex(16)}"
        super().__init__(server, converter)

    @property
    def initialized(self) -> bool:
        """Whether a client has begun a session."""
        return self._initialized

    # Receiving

    def receive(self, frame: bytes | BadFrame) -> None:
        """Handle one message. Whatever it holds, this does not raise."""
        if isinstance(frame, BadFrame):
            self._send_error(None, PARSE_ERROR, frame.message)
            return
        try:
            message = parse(frame)
        except Malformed as error:
            self._refuse(error)
            return
        try:
            contextvars.copy_context().run(self._dispatch, message)
        except Exception:
            logger.exception("a message could not be handled")

    def _dispatch(self, message: Request | Notification | Response) -> None:
        if isinstance(message, Request):
            self._take_request(message.id, message.method, message.params)
        elif isinstance(message, Notification):
            self._take_notification(message.method, message.params)
        else:
            self._take_response(message.id, message.result, message.error)

    def _refuse(self, error: Malformed) -> None:
        # A client that sends a bad answer to a request of ours gets no error in return.
        if error.id is None or error.id not in self._pending:
            self._send_error(error.id, error.code, error.message)

    def _take_request(self, msg_id: MessageId, method_name: str, params: Any) -> None:
        try:
            self._admit(msg_id, method_name)
            handler = self._handler_of(method_name)
            structured = self._structured(method_name, params)
        except JsonRpcException as error:
            self._send_error(msg_id, error.code, error.message, error.data)
            return
        if method_name == types.SHUTDOWN:
            # At once, and not when it is answered: an exit may be in the same read.
            self._shutdown = True
            self._shutdown_id = msg_id
        self._ctx_msg_id.set(msg_id)
        self._execute_handler(
            msg_id,
            handler,
            partial(self._send_outcome, msg_id=msg_id),
            args=(structured,),
        )

    def _admit(self, msg_id: MessageId, method: str) -> None:
        """Refuse a request at the wrong time."""
        if self._shutdown:
            raise JsonRpcException("the server is shutting down", INVALID_REQUEST)
        if method == types.INITIALIZE:
            if self._initialized:
                raise JsonRpcException("the server is initialized already", INVALID_REQUEST)
        elif not self._initialized:
            raise JsonRpcException("the first request must be initialize", NOT_INITIALIZED)
        if msg_id in self._request_futures:
            raise JsonRpcException("a request with this id is running", INVALID_REQUEST)
        if _wants_answer(method) is False:
            raise JsonRpcException(f"{method} is a notification", INVALID_REQUEST)

    def _handler_of(self, feature_name: str) -> Callable[..., Any]:
        handler: Callable[..., Any] | None = self.fm.builtin_features.get(
            feature_name
        ) or self.fm.features.get(feature_name)
        if handler is None:
            # The name is the client's, and may be of any length.
            message = f"there is no method {feature_name[:80]}"
            raise JsonRpcException(message, METHOD_NOT_FOUND)
        return handler

    def _structured(self, method: str, params: Any) -> Any:
        """Return ``params`` as the type that LSP has for them; as they are where it has none."""
        known = types.METHOD_TO_TYPES.get(method)
        if known is None:
            return params
        params_type: Any = known[2]
        if params_type is None:
            return None
        try:
            structured = self._converter.structure({} if params is None else params, params_type)
        except Exception as error:
            path, what = _first_problem(error)
            if method == types.INITIALIZE and self.answered is not None:
                # Its outline was sound, and the client has our word: we take it for a plain one.
                logger.warning("the client's capabilities are malformed at %s", path)
                return self._structured(method, params | {"capabilities": {}})
            raise _misfit(method, path, what) from error
        # An initialize that could be read is good enough: who is refused there gets nothing at all.
        if method != types.INITIALIZE and (flaw := first_flaw(structured)) is not None:
            raise _misfit(method, *flaw)
        return structured

    def _take_notification(self, method_name: str, params: Any) -> None:
        if method_name != types.EXIT and (self._shutdown or not self._initialized):
            return
        if method_name == types.CANCEL_REQUEST:
            msg_id = params.get("id") if isinstance(params, dict) else None
            if isinstance(msg_id, int | str):
                self._cancel(msg_id)
            return
        try:
            handler = self._handler_of(method_name)
            if _wants_answer(method_name):
                logger.warning("ignored %s: it is a request, and came without an id", method_name)
                return
            structured = self._structured(method_name, params)
        except JsonRpcException as error:
            if error.code != METHOD_NOT_FOUND:
                logger.warning("ignored a notification: %s", error.message)
            return
        # Among the requests that run, under a key that no client takes for an id.
        key = f"\0{next(self._ids)}"
        self._execute_handler(
            key, handler, partial(self._log_failure, method=method_name), (structured,)
        )

    def _log_failure(self, future: Future[Any], method: str = "?") -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            logger.error("%s failed", method, exc_info=error)

    def _cancel(self, msg_id: MessageId) -> None:
        """Cancel a request that runs, as the client asked."""
        if (future := self._request_futures.get(msg_id)) is not None:
            future.cancel()

    # Sending

    def _send_outcome(self, future: Future[Any], msg_id: MessageId) -> None:
        if future.cancelled():
            self._send_error(msg_id, REQUEST_CANCELLED, "the request was cancelled")
            return
        error = future.exception()
        if error is None:
            self._send_result(msg_id, future.result())
        elif isinstance(error, AishError):
            logger.info("request %s failed: %s", msg_id, error.kind)
            data = {camel_case(name): value for name, value in error.data.items()}
            self._send_error(msg_id, error.code, error.message, {"kind": error.kind} | data)
        elif isinstance(error, JsonRpcException):
            self._send_error(msg_id, error.code, error.message, error.data)
        else:
            self._send_internal_error(msg_id, error)

    def _send_internal_error(self, msg_id: MessageId, error: BaseException) -> None:
        logger.error("request %s failed", msg_id, exc_info=error)
        name = type(error).__name__
        self._send_error(msg_id, INTERNAL_ERROR, f"internal error ({name}); see the server's log")

    def _send_result(self, msg_id: MessageId, result: Any) -> None:
        if self._has_answer(msg_id):
            return
        try:
            self._send({"jsonrpc": "2.0", "id": msg_id, "result": result})
        except UNSENDABLE as failure:
            self._send_internal_error(msg_id, failure)

    def _send_error(
        self, msg_id: MessageId | None, code: int, message: str, data: Any = None
    ) -> None:
        if self._has_answer(msg_id):
            logger.error("a request that was answered early failed: %s", message)
            return
        error: dict[str, Any] = {"code": code, "message": message}
        whole = error if data is None else error | {"data": data}
        try:
            self._send({"jsonrpc": "2.0", "id": msg_id, "error": whole})
        except UNSENDABLE:
            logger.exception("the data of an error has no form in JSON")
            self._send({"jsonrpc": "2.0", "id": msg_id, "error": error})

    def _has_answer(self, msg_id: MessageId | None) -> bool:
        """Return, once, whether this request was answered before we were there to."""
        if msg_id is None or msg_id != self.answered:
            return False
        self.answered = None
        return True

    def _send(self, message: dict[str, Any]) -> None:
        """Send ``message``; drop it where nobody is connected.

        Raises:
            TypeError, ValueError, RecursionError: it has no form in JSON.
        """
        if self.send_body is not None:
            self.send_body(encode(message, self.plain))

    def plain(self, value: Any) -> Any:
        """Return one of LSP's values, or one of ours, as plain JSON data."""
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
            # Kate answers a question that was dismissed with an empty object.
            if result == {}:
                return None
            path, what = _first_problem(error)
            message = f"the client's answer to {method} is malformed: {what} at {path or 'result'}"
            raise JsonRpcException(message, INVALID_PARAMS) from error
        return response.result


def _wants_answer(method: str) -> bool | None:
    """Return whether ``method`` is a request; None where it is not LSP's, so that it may be."""
    known = types.METHOD_TO_TYPES.get(method)
    return None if known is None else known[1] is not None


def _misfit(method: str, path: str, what: str) -> JsonRpcException:
    """Return the error that the params of ``method`` are not what they should be."""
    message = f"{method}: {what}" + (f" at {path}" if path else "")
    return JsonRpcException(message, INVALID_PARAMS, {"kind": "invalidArgument", "path": path})


def _first_problem(error: BaseException) -> tuple[str, str]:
    """Return where the first problem of a cattrs error is, as the wire names it, and what it is."""
    from cattrs import transform_error  # noqa: PLC0415 - needed for bad input only

    what, _, path = transform_error(error)[0].rpartition(" @ $")
    names = path.lstrip(".").split(".")
    return ".".join(camel_case(name) for name in names), what


def _client_error(error: Any) -> JsonRpcException:
    """Return what a client answered in place of a result as an exception."""
    if not isinstance(error, dict):
        return JsonRpcException("the client answered with a malformed error", INTERNAL_ERROR)
    code = error.get("code")
    return JsonRpcException(
        str(error.get("message", "")) or "the client answered with an error",
        code if isinstance(code, int) else INTERNAL_ERROR,
        error.get("data"),
    )
