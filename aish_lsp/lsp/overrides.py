"""What pygls' protocol is made to do differently, with each reason.

Its documents are in ``text_documents``.

The tests have the source of each method of pygls that is overridden: when a release changes one,
check the reason again, and remove the override once pygls no longer needs it.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias, Union, get_args, get_origin

import attrs
from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    JsonRPCResponseMessage,
    LanguageServerProtocol,
    lsp_method,
)

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.text import accepted, nearest, shown
from aish_lsp.foundation.uris import is_uri
from aish_lsp.lsp.calls import Call
from aish_lsp.lsp.messages import (
    Malformed,
    MessageId,
    client_error,
    encode,
    first_problem,
    misfit,
    parse,
    response_error,
    wants_answer,
)
from aish_lsp.lsp.stream import position_encoding
from aish_lsp.lsp.text_documents import TEXT_SYNC, open_workspace

if TYPE_CHECKING:
    from cattrs import Converter
    from pygls.lsp.server import LanguageServer

    from aish_lsp.lsp.stream import BadFrame

logger = logging.getLogger(__name__)

#: Answers a command: the request that it is, and the command's arguments.
Command: TypeAlias = Callable[[Call, Sequence[Any] | None], Awaitable[object]]

#: The fields of a message and of an error, in the order in which they are sent.
_ENVELOPE = ("jsonrpc", "id", "method", "params", "result", "error", "code", "message", "data")

#: What encoding as JSON raises for data that JSON cannot hold.
UNSENDABLE = (TypeError, ValueError, RecursionError)


@cache
def converter() -> Converter:
    """Return the converter of this process between LSP's types and plain data.

    lsprotocol's own passes on anything where one of several plain types is allowed, such as a
    progress token.
    """
    made = get_converter()
    made.register_structure_hook_func(_is_plain_choice, _chosen)
    return made


def _is_plain_choice(kind: Any) -> bool:
    """Return whether a type is a union of several plain ones, ``None`` aside."""
    kinds = {*get_args(kind)} if get_origin(kind) is Union else set()
    return len(kinds - {NoneType}) > 1 and kinds <= {int, str, float, bool, NoneType}


def _chosen(value: Any, kind: Any) -> Any:
    if type(value) not in get_args(kind):
        raise InvalidArgument(f"expected {accepted(kind)}, found {shown(value)}")
    return value


class AishProtocol(LanguageServerProtocol):
    """pygls' protocol, fed with messages by ``receive``.

    Attributes:
        initialized: whether a client has started a session.
        is_closing: whether the server is about to end: it refuses further requests.
        answered: the id of the request that was answered before this object existed, or None; the
            request gets no second answer.
    """

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.answered: MessageId | None = None
        self.initialized = False
        self.is_closing = False
        self.client_capabilities = types.ClientCapabilities()
        self._calls: dict[MessageId, Call] = {}
        self._ids = itertools.count(1)
        # An answer may be a yes to a command: only the client that was asked can know the id.
        self._id_prefix = f"aish-{secrets.token_hex(16)}"
        self._shutdown_id: MessageId | None = None

    # Receiving

    def receive(self, frame: bytes | BadFrame) -> None:
        """Handle one message. This does not raise, whatever the message holds."""
        try:
            data = parse(frame)
        except Malformed as error:
            # A client that sends a bad answer to a request of ours gets no error in return.
            if error.id not in self._result_types:
                self._send_response(error.id, error=error.to_response_error())
            return
        method, msg_id = data.get("method"), data.get("id")
        try:
            if not self._is_admitted(method, msg_id):
                return
            message = self.structure_message(data)
        except JsonRpcException as error:
            if msg_id is not None:
                self._send_response(msg_id, error=error.to_response_error())
            elif not isinstance(error, JsonRpcMethodNotFound):
                logger.warning("ignored a notification: %s", error.message)
            return
        if method == types.SHUTDOWN:
            # Set now, not when it is answered: an exit may arrive in the same read.
            self.is_closing, self._shutdown_id = True, msg_id
        try:
            self.handle_message(message)
        except Exception:
            logger.exception("a message could not be handled")

    def _is_admitted(self, method: str | None, msg_id: MessageId | None) -> bool:
        """Return whether a message is handled now; a notification that is not is ignored.

        Raises:
            JsonRpcException: a request is refused, or there is no such method.
        """
        if method is None:
            # It must answer a request of ours: pygls keeps the client's in the same table.
            return msg_id in self._result_types
        if msg_id is not None:
            self._admit_request(method, msg_id)
        elif method != types.EXIT and (self.is_closing or not self.initialized):
            return False
        elif wants_answer(method):
            logger.warning("ignored %s: it is a request, and has no id", method)
            return False
        method_tables = (self.fm.builtin_features, self.fm.features, {types.CANCEL_REQUEST})
        if not any(method in methods for methods in method_tables):
            # The client may send a name of any length.
            raise JsonRpcMethodNotFound(f"there is no method {method[:80]}")
        return True

    def _admit_request(self, method: str, msg_id: MessageId) -> None:
        """Refuse a request that arrives at the wrong time."""
        if self.is_closing:
            raise JsonRpcInvalidRequest("the server is shutting down")
        if method == types.INITIALIZE:
            if self.initialized:
                raise JsonRpcInvalidRequest("the server is initialized already")
        elif not self.initialized:
            raise JsonRpcServerNotInitialized("the first request must be initialize")
        if msg_id in self._request_futures:
            raise JsonRpcInvalidRequest("a request with this id is running")
        if wants_answer(method) is False:
            raise JsonRpcInvalidRequest(f"{method} is a notification")

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return the message that ``data`` is, as LSP's type for it.

        pygls' own takes every object inside a message that has a key "jsonrpc" for a message of its
        own. Its error does not say which request was malformed, so that gets no answer. It takes
        values that do not fit their fields, and turns params that LSP has no type for into
        namedtuples, which takes seconds for a megabyte.

        Raises:
            JsonRpcException: its params are malformed.
        """
        method = data.get("method")
        if method is None:
            return self._structured_response(data)
        envelope = {"id": data["id"]} if "id" in data else {}
        message_type: Any = types.METHOD_TO_TYPES.get(method)
        if message_type is None:
            kind = JsonRPCRequestMessage if envelope else JsonRPCNotification
            return kind(**envelope, method=method, jsonrpc="2.0", params=data.get("params"))
        if message_type[2] is None:
            return message_type[0](**envelope)
        return message_type[0](
            **envelope, params=self._structured(method, data.get("params"), message_type[2])
        )

    def _structured(self, method: str, params: Any, params_type: Any) -> Any:
        try:
            structured = self._converter.structure({} if params is None else params, params_type)
        except Exception as error:
            if method == types.INITIALIZE and self.answered is not None:
                return self._readable(params)
            raise misfit(method, *first_problem(error)) from error
        # A client may send any text as a URI; pygls makes a path of a document's.
        uri = getattr(getattr(structured, "text_document", None), "uri", "")
        if not is_uri(uri):
            raise misfit(method, "textDocument.uri", f"expected a URI, found {shown(uri)}")
        return structured

    def _readable(self, params: dict[str, Any]) -> types.InitializeParams:
        """Return what can be read of an ``initialize`` that was answered with success already."""
        agreed = {"positionEncodings": [position_encoding(params["capabilities"])]}
        readable: dict[str, Any] = {"capabilities": {"general": agreed}}
        for name, value in params.items():
            try:
                self._converter.structure({"capabilities": {}, name: value}, types.InitializeParams)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, leave it out
                logger.warning("initialize is malformed at %s", first_problem(error)[0])
            else:
                readable[name] = value
        return self._converter.structure(readable, types.InitializeParams)

    def _structured_response(self, data: dict[str, Any]) -> Any:
        """Return the client's answer to a request of ours; a malformed one becomes an error."""
        msg_id, result, error = data["id"], data.get("result"), data.get("error")
        kind = self._result_types[msg_id]
        if error is not None:
            return types.ResponseErrorMessage(id=msg_id, error=client_error(error))
        if kind is None:
            return JsonRPCResponseMessage(id=msg_id, jsonrpc="2.0", result=result)
        try:
            return self._converter.structure({"id": msg_id, "result": result}, kind)
        except Exception as problem:  # noqa: BLE001 - whatever is wrong with it, it is an answer
            # Kate answers with an empty object when a question is dismissed.
            if result == {}:
                return kind(id=msg_id, result=None)
            path, what = first_problem(problem)
            message = f"the client's {kind.__name__} is malformed: {what} at {path or 'result'}"
            invalid = JsonRpcInvalidParams(message)
            return types.ResponseErrorMessage(id=msg_id, error=invalid.to_response_error())

    def _execute_handler(
        self,
        msg_id: MessageId,
        handler: Callable[..., Any],
        callback: Callable[[Future[Any]], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Run ``handler``, and forget it when it ends.

        pygls keeps the futures of notifications, and of what a built-in feature calls, for ever.
        """

        def ended(future: Future[Any]) -> None:
            self._request_futures.pop(msg_id, None)
            # It raises this if a built-in feature called the handler.
            with suppress(asyncio.CancelledError):
                callback(future)

        super()._execute_handler(msg_id, handler, ended, args, kwargs)

    def _handle_cancel_notification(self, msg_id: MessageId) -> None:
        """Cancel a running request, as the client asked; a command may end by itself.

        pygls would cancel requests to the client, too, and forgets what runs before it has ended.
        """
        if (call := self._calls.get(msg_id)) is not None:
            call.cancel()
        elif msg_id not in self._result_types and msg_id in self._request_futures:
            self._request_futures[msg_id].cancel()

    def cancel_requests(self) -> list[asyncio.Task[Any]]:
        """Cancel all that runs for the client, except ``shutdown``; return what has to end."""
        stopping: list[asyncio.Task[Any]] = []
        for msg_id, future in list(self._request_futures.items()):
            if isinstance(future, asyncio.Task) and msg_id != self._shutdown_id:
                self._handle_cancel_notification(msg_id)
                stopping.append(future)
        return stopping

    async def answer_shutdown(self) -> None:
        """Wait until a ``shutdown`` request is answered; without one, return at once."""
        future: Any = self._request_futures.get(self._shutdown_id or "")
        if future is not None:
            await asyncio.wait([future])

    # Sending

    def _send_handler_result(self, future: Future[Any], *, msg_id: MessageId) -> None:
        """Answer a request with what its handler returned or raised.

        pygls sends tracebacks, and logs texts that may quote a payload.
        """
        error: BaseException | None = None
        try:
            result = future.result()
        except (asyncio.CancelledError, Exception) as caught:  # noqa: BLE001 - it is the answer
            error = caught
        if error is None:
            self._send_response(msg_id, result)
        else:
            self._send_response(msg_id, error=response_error(msg_id, error))

    def _send_response(
        self,
        msg_id: Any,
        result: Any = None,
        error: types.ResponseError | None = None,
    ) -> None:
        """Answer a request once, even if the answer cannot be written as JSON.

        pygls leaves such a request without an answer.
        """
        if msg_id is not None and msg_id == self.answered:
            self.answered = None
            if error is not None:
                logger.error("a request that was answered early failed: %s", error.message)
            return
        try:
            super()._send_response(msg_id, result, error)
        except UNSENDABLE as failure:
            if error is None:
                error = response_error(msg_id, failure)
            else:
                logger.exception("the data of an error cannot be written as JSON")
                error = types.ResponseError(error.code, error.message)
            super()._send_response(msg_id, error=error)

    def _send_data(self, data: Any) -> None:
        """Send a message; drop it if no client is connected.

        pygls writes what is not JSON (NaN) and halves of surrogate pairs, logs whole messages, and
        swallows the error if one cannot be written. Our writer adds the header in its own thread.

        Raises:
            TypeError, ValueError, RecursionError: it cannot be written as JSON.
        """
        if self.writer is not None:
            self.writer.write(encode(data, self._serialize_message))

    def _serialize_message(self, data: Any) -> Any:
        """Return a message, a value of one of LSP's types, or of ours, as plain JSON data.

        pygls does not know our dataclasses, whose names are camelCase on the wire.
        """
        if not attrs.has(type(data)):
            return data.value if isinstance(data, enum.Enum) else to_wire(data)
        if not (hasattr(data, "jsonrpc") or isinstance(data, types.ResponseError)):
            return self._converter.unstructure(data)
        # Only the envelope: what it holds is serialized by its own type.
        values = {field.name: getattr(data, field.name) for field in attrs.fields(type(data))}
        return {
            name: values[name]
            for name in _ENVELOPE
            if name in values and (values[name] is not None or name in {"id", "result"})
        }

    def send_request(
        self,
        method: str,
        params: Any = None,
        callback: Callable[[Any], None] | None = None,
        msg_id: MessageId | None = None,
    ) -> Future[Any]:
        """Send a request. Its future raises JsonRpcException if the client answers with an error.

        pygls keeps the futures of requests that are not answered, or are no longer awaited, and the
        types of the answers that are errors.
        """
        request_id = f"{self._id_prefix}-{next(self._ids)}" if msg_id is None else msg_id
        try:
            future = super().send_request(method, params, callback, request_id)
        except UNSENDABLE:
            self._forget_request(request_id)
            raise
        future.add_done_callback(lambda _: self._forget_request(request_id))
        return future

    def _forget_request(self, request_id: MessageId) -> None:
        self._request_futures.pop(request_id, None)
        self._result_types.pop(request_id, None)

    # The methods that a server has to answer

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(
        self, params: types.InitializeParams
    ) -> Generator[Any, Any, types.InitializeResult]:
        """Keep what the client says about itself, and return what we can do.

        pygls raises an error for a malformed root, and makes documents of its own class. Its
        capabilities differ by client; ours have been answered before the client's are read.
        """
        encoding = ServerCapabilitiesBuilder.choose_position_encoding(params.capabilities)
        self.client_capabilities = params.capabilities
        self._server.process_id = params.process_id
        self._workspace = open_workspace(params, encoding)
        self.initialized = True
        yield self.fm.features[types.INITIALIZE], (params,), None
        self.server_capabilities = self.capabilities(encoding)
        return types.InitializeResult(self.server_capabilities, self.server_info)

    def capabilities(self, encoding: types.PositionEncodingKind | str) -> types.ServerCapabilities:
        """Return what we can do for a client that counts positions in ``encoding``.

        Nothing else of the client is known: ``initialize`` is answered before the rest is read.
        """
        builder = ServerCapabilitiesBuilder(
            types.ClientCapabilities(),
            {*self.fm.features, *self.fm.builtin_features},
            self.fm.feature_options,
            list(self.fm.commands),
            TEXT_SYNC,
            None,
            encoding,
        )
        built: types.ServerCapabilities = builder.build()  # type: ignore[no-untyped-call]
        return built

    @lsp_method(types.SHUTDOWN)
    async def lsp_shutdown(self, *args: Any) -> None:  # type: ignore[override]  # a generator there
        """Answer once everything that must be recorded is recorded.

        pygls also cancels our requests to the client, and takes no more answers to them; but what
        stops may still have to write into a document.
        """
        await self.fm.features[types.SHUTDOWN](*args)

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: Any) -> None:  # type: ignore[override]  # a generator in pygls
        """Let the server end the process; pygls raises SystemExit in the event loop."""
        self.fm.features[types.EXIT](*args)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # type: ignore[override]  # a generator in pygls
        self, params: types.ExecuteCommandParams
    ) -> Any:
        """Run a command in the request's own task, so that it can be cancelled.

        pygls answers that it was cancelled and lets it run on. Its commands do not know the
        request, nor the token for its progress.

        Raises:
            NotFound: there is no such command.
        """
        command: Command | None = self.fm.commands.get(params.command)
        if command is None:
            near = nearest(params.command, list(self.fm.commands))
            raise NotFound(f"no command {shown(params.command)}; {near}")
        msg_id, task, token = self.msg_id, asyncio.current_task(), params.work_done_token
        assert msg_id is not None
        assert task is not None
        send = None if token is None else partial(self.send_progress, token)
        call = self._calls[msg_id] = Call(send, task.cancel)
        forget = None if token is None else self.on_token_cancel(token, call.cancel)
        try:
            return await command(call, params.arguments)
        finally:
            del self._calls[msg_id]
            if forget is not None:
                forget()

    # Progress

    def send_progress(self, token: MessageId, value: dict[str, Any]) -> None:
        """Send ``value``, plain JSON data, under a progress token."""
        self.notify(types.PROGRESS, types.ProgressParams(token, value))

    def on_token_cancel(
        self, token: MessageId, callback: Callable[[], object]
    ) -> Callable[[], None]:
        """Call ``callback`` once if the client cancels a progress token.

        Returns:
            What forgets ``callback``, unless the token has been reused for something else.
        """
        # pygls cancels this future when it is told that the user has cancelled the progress.
        future: Future[None] = Future()
        future.add_done_callback(lambda _: callback())
        tokens = self.progress.tokens
        tokens[token] = future

        def forget() -> None:
            if tokens.get(token) is future:
                del tokens[token]

        return forget
