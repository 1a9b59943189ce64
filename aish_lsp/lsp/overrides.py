"""What pygls is made to do otherwise: all of it stands here, each with its reason.

The tests compare these with what is overridden, and know the text of each method of pygls' that is:
where a release changes one, its reason is looked at again, and it goes where pygls has mended it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.lsp.server import LanguageServer
from pygls.protocol import lsp_method
from pygls.uris import from_fs_path
from pygls.workspace import TextDocument, Workspace

from aish_lsp.lsp.client import Call, CommandTable
from aish_lsp.lsp.endpoint import Endpoint
from aish_lsp.lsp.lifecycle import Lifecycle
from aish_lsp.lsp.messages import MessageId
from aish_lsp.lsp.questions import OpenQuestions

if TYPE_CHECKING:
    from cattrs import Converter

logger = logging.getLogger(__name__)

#: Changes come as ranges.
TEXT_SYNC = types.TextDocumentSyncKind.Incremental

#: What pygls answers for all servers. Notebooks are not offered, so no editor tells us of them.
_NOT_OURS = (
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)

#: The command that stops what asks a question, rather than leave it without an answer.
_CANCEL = "aish.cancel"


_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")

#: Each class that is overridden, and by its method why.
REASONS: Final[Mapping[str, Mapping[str, str]]] = {
    "LanguageServerProtocol": {
        "_execute_handler": "It keeps the futures of notifications, and of handlers that a built-in"
        " feature calls, for as long as the process lives.",
        "notify": "Its way out writes to a stream; ours goes through the outbox, which a client"
        " that does not read cannot fill.",
        "send_request": "It keeps requests of ours among the client's, and for good where no answer"
        " comes; an answer of any form counts.",
        "lsp_workspace__execute_command": "Its handlers know neither the request's id nor its token"
        " for progress, and to cancel the request does not stop what runs.",
        "lsp_work_done_progress_cancel": "It knows tokens of its own alone, not the client's.",
        "lsp_initialize": "Its documents end lines elsewhere, and one malformed root is the end.",
        "lsp_shutdown": "It answers before what runs has recorded what it has.",
        "lsp_exit": "It raises SystemExit in the loop; the life cycle ends the process.",
    },
    "TextDocument": {
        "lines": "It ends a line where Python does (form feed, U+2028 and more); LSP knows three"
        " line ends. Each later position would be off, and an edit would garble the text.",
    },
    "Workspace": {
        "_create_text_document": "There is no other way to have documents of our own class.",
    },
}


class Document(TextDocument):
    """A text document whose lines end where LSP says."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines with their ends."""
        return tuple(_LINE.findall(self.source))


class Documents(Workspace):
    """The workspace folders and the open documents of a client."""

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> Document:
        return Document(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )


def open_workspace(
    params: types.InitializeParams, encoding: types.PositionEncodingKind | str
) -> Documents:
    """Return the workspace that ``initialize`` names; a malformed root counts as none.

    Where it names no folders, its root is the only one: older clients send nothing else.
    """
    root = params.root_uri
    if root is None and params.root_path is not None:
        root = from_fs_path(params.root_path)
    folders = params.workspace_folders or []
    if root and not folders:
        folders = [types.WorkspaceFolder(root, unquote(root.rstrip("/").rpartition("/")[2]))]
    try:
        return Documents(root, TEXT_SYNC, folders, encoding)
    except ValueError:
        return Documents(None, TEXT_SYNC, params.workspace_folders or [], encoding)


class Host(LanguageServer):
    """What the methods of LSP that are answered here need of the server.

    Attributes:
        commands: the commands that are answered.
        lifecycle: ends the process.
        initialize_params: what the client sent with ``initialize``; None before it.
        questions: what the user is being asked.
    """

    commands: CommandTable
    lifecycle: Lifecycle
    initialize_params: types.InitializeParams | None
    questions: OpenQuestions

    async def stop_work(self) -> None:
        """Cancel what runs and let it record what it has."""
        raise NotImplementedError


class AishProtocol(Endpoint):
    """The methods of LSP that the server itself answers; features answer the rest."""

    _server: Host

    def __init__(self, server: Host, converter: Converter) -> None:
        self._calls: dict[MessageId, Call] = {}
        self._on_token_cancel: dict[MessageId, Callable[[], object]] = {}
        super().__init__(server, converter)
        for method in _NOT_OURS:
            del self.fm.builtin_features[method]

    # JSON-RPC

    def _execute_handler(
        self,
        msg_id: MessageId,
        handler: Callable[..., Any],
        callback: Callable[[Future[Any]], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Run ``handler``; unlike pygls, keep nothing once it is done."""

        def done(future: Future[Any]) -> None:
            self._request_futures.pop(msg_id, None)
            callback(future)

        super()._execute_handler(msg_id, handler, done, args, kwargs)

    def notify(self, method: str, params: Any | None = None) -> None:
        """Send a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self._send(message)

    def send_request(
        self,
        method: str,
        params: Any | None = None,
        callback: Callable[[Any], None] | None = None,
        msg_id: MessageId | None = None,
    ) -> Future[Any]:
        """Send a request; its future is forgotten when it is done or cancelled.

        The future raises JsonRpcException where the client answers with an error or with what is
        no answer to ``method``.
        """
        request_id = f"{self._id_prefix}-{next(self._ids)}" if msg_id is None else msg_id
        future: Future[Any] = Future()
        future.add_done_callback(lambda _: self._pending.pop(request_id, None))
        if callback is not None:
            future.add_done_callback(lambda done: callback(done.result()))
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        self._pending[request_id] = (method, future)
        try:
            self._send(message)
        except BaseException:
            future.cancel()
            raise
        return future

    # Commands

    def _cancel(self, msg_id: MessageId) -> None:
        call = self._calls.get(msg_id)
        if call is not None:
            call.cancel()
        else:
            super()._cancel(msg_id)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # type: ignore[override]  # a generator in pygls
        self, params: types.ExecuteCommandParams
    ) -> Any:
        """Run a command in the request's own task, so that it can be cancelled."""
        request_id, task = self.msg_id, asyncio.current_task()
        assert request_id is not None
        assert task is not None
        if params.command != _CANCEL:
            self._server.questions.turn_away()
        token = params.work_done_token
        call = Call(self.send_progress, request_id, token, task.cancel)
        self._calls[request_id] = call
        if token is not None:
            self.on_token_cancel(token, call.cancel)
        try:
            return await self._server.commands.execute(call, params.command, params.arguments)
        finally:
            del self._calls[request_id]
            if token is not None:
                self.forget_token(token, call.cancel)

    @lsp_method(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        """Stop what runs under a progress token, the client's or ours."""
        callback = self._on_token_cancel.get(params.token)
        if callback is not None:
            callback()

    def send_progress(self, token: MessageId, value: Mapping[str, Any]) -> None:
        """Send ``value``, plain JSON data, under a progress token."""
        self.notify("$/progress", {"token": token, "value": value})

    def on_token_cancel(self, token: MessageId, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the client cancels the progress with ``token``."""
        self._on_token_cancel[token] = callback

    def forget_token(self, token: MessageId, callback: Callable[[], object]) -> None:
        """Undo ``on_token_cancel``, unless the token serves somebody else by now."""
        if self._on_token_cancel.get(token) == callback:
            del self._on_token_cancel[token]

    async def stop_requests(self, timeout: float) -> None:  # noqa: ASYNC109 - a limit, not a failure
        """Take no more requests; cancel those that run, and wait ``timeout`` seconds for them."""
        self._shutdown = True
        stopping: list[asyncio.Future[Any]] = []
        for request_id, future in list(self._request_futures.items()):
            if request_id == self._shutdown_id:
                continue
            if (call := self._calls.get(request_id)) is not None:
                call.cancel()
            else:
                future.cancel()
            if isinstance(future, asyncio.Future):
                stopping.append(future)
        if stopping:
            await asyncio.wait(stopping, timeout=timeout)

    async def answer_shutdown(self) -> None:
        """Wait until a ``shutdown`` request is answered; without one, return at once."""
        future = self._request_futures.get(self._shutdown_id or "")
        if isinstance(future, asyncio.Future):
            await asyncio.wait([future])

    # Life cycle and documents

    @property
    def exit_code(self) -> int:
        """What the process is to exit with when the client goes: 0 after ``shutdown``."""
        return 0 if self._shutdown else 1

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(
        self, params: types.InitializeParams
    ) -> Generator[Any, Any, types.InitializeResult]:
        """Take note of the client, and say what we can do."""
        server = self._server
        self.server_capabilities = self.capabilities_for(params.capabilities)
        encoding = self.server_capabilities.position_encoding
        assert encoding is not None
        self._workspace = open_workspace(params, encoding)
        self.client_capabilities = params.capabilities
        server.process_id = params.process_id
        server.initialize_params = params
        self._initialized = True
        handler = self.fm.features.get(types.INITIALIZE)
        if handler is not None:
            yield handler, (params,), None
        server.lifecycle.watch_parent(params.process_id)
        return types.InitializeResult(self.server_capabilities, self.server_info)

    def capabilities_for(self, client: types.ClientCapabilities) -> types.ServerCapabilities:
        """Return what we can do for a client with these capabilities."""
        built: types.ServerCapabilities = ServerCapabilitiesBuilder(
            client,
            {*self.fm.features, *self.fm.builtin_features},
            self.fm.feature_options,
            self._server.commands.names,
            TEXT_SYNC,
            None,
            ServerCapabilitiesBuilder.choose_position_encoding(client),
        ).build()  # type: ignore[no-untyped-call]
        if built.workspace is not None:
            # Said to all, as with the rest: a client that has no such thing passes it over.
            options = self.fm.feature_options
            built.workspace.file_operations = types.FileOperationOptions(
                did_create=options.get(types.WORKSPACE_DID_CREATE_FILES),
                did_rename=options.get(types.WORKSPACE_DID_RENAME_FILES),
                did_delete=options.get(types.WORKSPACE_DID_DELETE_FILES),
            )
        return built

    @lsp_method(types.SHUTDOWN)
    async def lsp_shutdown(self, *_: Any) -> None:  # type: ignore[override]  # a generator in pygls
        """Stop the work that runs; answer when what it had is recorded."""
        await self._server.stop_work()

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_: Any) -> None:  # type: ignore[override]  # a generator in pygls
        """End the process."""
        self._server.lifecycle.end("the client said exit", self.exit_code)
