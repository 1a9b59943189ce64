"""The server's protocol: how commands run and are cancelled, and how a session begins and ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.lsp.server import LanguageServer
from pygls.protocol import lsp_method

from aish_lsp.lsp.call import Call
from aish_lsp.lsp.endpoint import Endpoint
from aish_lsp.lsp.lifecycle import Lifecycle
from aish_lsp.lsp.messages import MessageId
from aish_lsp.lsp.questions import OpenQuestions
from aish_lsp.lsp.registry import CommandTable
from aish_lsp.lsp.text_sync import TEXT_SYNC, open_workspace

if TYPE_CHECKING:
    from cattrs import Converter

logger = logging.getLogger(__name__)

#: What pygls answers for all servers. Notebooks are not offered, so no editor tells us of them.
_NOT_OURS = (
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)

#: The command that stops what asks a question, rather than leave it without an answer.
_CANCEL = "aish.cancel"


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

    # Commands

    def _handle_cancel_notification(self, msg_id: MessageId) -> None:
        call = self._calls.get(msg_id)
        if call is not None:
            call.cancel()
        elif (future := self._request_futures.get(msg_id)) is not None:
            future.cancel()

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

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: types.DidChangeTextDocumentParams
    ) -> Generator[Any, Any, None]:
        """Change an open document; ignore one that is not open."""
        document = self.workspace.text_documents.get(unquote(params.text_document.uri))
        if document is None:
            logger.warning("ignored a change to a document that is not open")
            return
        for change in params.content_changes:
            document.apply_change(change)
        document.version = params.text_document.version
        handler = self.fm.features.get(types.TEXT_DOCUMENT_DID_CHANGE)
        if handler is not None:
            yield handler, (params,), None
