"""What pygls is made to do differently: all of it is known, and each reason still holds."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.workspace import TextDocument, Workspace

from aish_lsp.foundation.errors import OverBudget
from aish_lsp.lsp.overrides import AishProtocol
from aish_lsp.lsp.server import AishServer
from aish_lsp.lsp.text_documents import Document, Documents

OURS: dict[type, type] = {
    AishServer: LanguageServer,
    AishProtocol: LanguageServerProtocol,
    Document: TextDocument,
    Documents: Workspace,
}

#: The methods of pygls as they were when the reasons were last looked at. Where one has another
#: text, see whether the reason to override it is gone; then write the new one down here.
KNOWN = {
    "LanguageServer.report_server_error": "bb8c3433a6199aec",
    "LanguageServerProtocol._execute_handler": "d08c9ac9995fc571",
    "LanguageServerProtocol._handle_cancel_notification": "fa7c59a911cd13fc",
    "LanguageServerProtocol._send_data": "40e0a5bb70951777",
    "LanguageServerProtocol._send_handler_result": "38d95833f8826cde",
    "LanguageServerProtocol._send_response": "b799bb966ca7ebb1",
    "LanguageServerProtocol._serialize_message": "075c32e9ae36b6e8",
    "LanguageServerProtocol.lsp_exit": "229d16e062e3b9d4",
    "LanguageServerProtocol.lsp_initialize": "25d45da16abef004",
    "LanguageServerProtocol.lsp_shutdown": "86ec7ca1055cb177",
    "LanguageServerProtocol.lsp_workspace__execute_command": "b8471858fcb02f5d",
    "LanguageServerProtocol.send_request": "0e4491683e0fa479",
    "LanguageServerProtocol.structure_message": "ac66b961a32acb07",
    "TextDocument.apply_change": "94461cd5541fdfbb",
    "TextDocument.source": "34123c46ddac1f49",
    "TextDocument.lines": "5c8b82a9fe998f7e",
    "Workspace._create_text_document": "2811348670bdc571",
}


def overridden(ours: type, theirs: type) -> set[str]:
    """Return the names in a class of ours, and in those between, that pygls has, too."""
    between = [cls for cls in ours.__mro__ if cls.__module__.startswith("aish_lsp.")]
    names = {name for cls in between for name in vars(cls) if not name.startswith("__")}
    return {name for name in names if inspect.isroutine(_found(theirs, name))}


def _found(cls: type, name: str) -> Any:
    """Return a method of a class; of a property what it calls."""
    member = inspect.getattr_static(cls, name, None)
    return member.fget if isinstance(member, property) else member


def test_each_override_is_known() -> None:
    found = {
        f"{theirs.__name__}.{name}"
        for ours, theirs in OURS.items()
        for name in overridden(ours, theirs)
    }
    assert found == set(KNOWN)


@pytest.mark.parametrize(
    ("theirs", "name"),
    [(theirs, name) for ours, theirs in OURS.items() for name in sorted(overridden(ours, theirs))],
)
def test_what_is_overridden_has_not_changed_upstream(theirs: type, name: str) -> None:
    text = inspect.getsource(_found(theirs, name))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert digest == KNOWN.get(f"{theirs.__name__}.{name}"), f"pygls has another {name}"


# That each reason holds: where one of these fails, pygls has mended it, and an override can go.


class Plain:
    """A server of pygls as it is, and what it sends."""

    def __init__(self) -> None:
        self.server = LanguageServer("plain", "0")
        self.protocol = self.server.protocol
        self.sent: list[Any] = []
        self.protocol.set_writer(self, include_headers=False)

    def write(self, data: bytes) -> None:
        self.sent.append(json.loads(data))

    def close(self) -> None:
        pass

    def receive(self, **message: Any) -> None:
        """Receive as pygls' own transports do."""
        body = json.dumps({"jsonrpc": "2.0", **message})
        with suppress(JsonRpcException):
            self.protocol.handle_message(
                json.loads(body, object_hook=self.protocol.structure_message)
            )

    def initialize(self) -> Plain:
        self.receive(id="init", method="initialize", params={"capabilities": {}})
        self.sent.clear()
        return self

    def execute(self, command: str, *arguments: Any) -> None:
        params = {"command": command, "arguments": list(arguments)}
        self.receive(id=1, method="workspace/executeCommand", params=params)


async def settled() -> None:
    """Let all that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_pygls_takes_data_with_a_key_jsonrpc_for_a_message() -> None:
    plain, got = Plain().initialize(), []

    @plain.server.command("c")
    def _command(data: Any) -> None:
        got.append(data)

    data = {"jsonrpc": "2.0", "method": "x", "params": 1}
    plain.execute("c", data)
    assert got != [data]


def test_pygls_leaves_malformed_params_without_an_answer() -> None:
    plain = Plain().initialize()
    plain.server.feature(types.TEXT_DOCUMENT_HOVER)(lambda params: None)
    plain.receive(id=1, method="textDocument/hover", params={})
    assert plain.sent == []


def test_pygls_makes_other_objects_of_params_without_a_type() -> None:
    plain, got = Plain().initialize(), []

    @plain.server.feature("aish/custom")
    def _custom(params: Any) -> None:
        got.append(params)

    plain.receive(method="aish/custom", params={"a": 1})
    assert got != [{"a": 1}]


async def test_pygls_keeps_what_has_ended() -> None:
    plain = Plain().initialize()

    @plain.server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    async def _will_save(params: types.WillSaveTextDocumentParams) -> None:
        pass

    saved = {"textDocument": {"uri": "file:///x"}, "reason": 1}
    plain.receive(method="textDocument/willSave", params=saved)
    await settled()
    assert plain.protocol._request_futures


async def test_pygls_lets_a_cancelled_command_run_on() -> None:
    plain, events = Plain().initialize(), []

    @plain.server.command("c")
    async def _command() -> None:
        events.append("began")
        await asyncio.sleep(0)
        events.append("went on")

    plain.execute("c")
    plain.receive(method="$/cancelRequest", params={"id": 1})
    await settled()
    assert plain.sent[0]["error"]["code"] == -32800
    assert events == ["began", "went on"]


async def test_pygls_lets_a_client_cancel_a_request_to_it() -> None:
    plain = Plain().initialize()
    asked = plain.protocol.send_request("aish/ask", {})
    plain.receive(method="$/cancelRequest", params={"id": plain.sent[0]["id"]})
    assert asked.cancelled()


def test_pygls_answers_with_a_traceback() -> None:
    plain = Plain().initialize()

    @plain.server.feature(types.TEXT_DOCUMENT_HOVER)
    def _hover(params: types.HoverParams) -> None:
        raise ValueError("secret")

    place = {"textDocument": {"uri": "file:///x"}, "position": {"line": 0, "character": 0}}
    plain.receive(id=1, method="textDocument/hover", params=place)
    assert "secret" in plain.sent[0]["error"]["message"]
    assert "traceback" in plain.sent[0]["error"]["data"]


def test_pygls_leaves_a_result_that_is_not_json_without_an_answer() -> None:
    plain = Plain().initialize()
    plain.server.command("c")(lambda: {"value": {1, 2}})
    plain.execute("c")
    assert [message for message in plain.sent if message.get("id") == 1] == []


@pytest.mark.parametrize("value", [float("nan"), "\ud800"])
def test_pygls_sends_what_many_clients_cannot_read(value: object) -> None:
    plain = Plain().initialize()
    plain.server.command("c")(lambda: {"value": value})
    plain.execute("c")
    assert repr(plain.sent[0]["result"]) == repr({"value": value})


def test_pygls_logs_what_it_sends(caplog: pytest.LogCaptureFixture) -> None:
    plain = Plain().initialize()
    with caplog.at_level(logging.INFO, "pygls"):
        plain.server.window_log_message(types.LogMessageParams(types.MessageType.Info, "secret"))
    assert "secret" in caplog.text


def test_pygls_writes_the_fields_of_a_dataclass_as_they_are_called_here() -> None:
    plain = Plain().initialize()

    class Mine:
        def __init__(self) -> None:
            self.some_name = 1

    plain.protocol.notify("aish/mine", Mine())
    assert plain.sent[0]["params"] == {"some_name": 1}


async def test_pygls_keeps_a_request_that_is_not_answered() -> None:
    plain = Plain().initialize()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await plain.protocol.send_request_async("aish/ask", {})
    assert plain.protocol._request_futures
    assert plain.protocol._result_types


def test_pygls_shows_the_user_the_text_of_an_error() -> None:
    plain = Plain().initialize()

    @plain.server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    def _will_save(params: types.WillSaveTextDocumentParams) -> None:
        raise ValueError("secret")

    saved = {"textDocument": {"uri": "file:///x"}, "reason": 1}
    plain.receive(method="textDocument/willSave", params=saved)
    assert "secret" in plain.sent[0]["params"]["message"]


def test_pygls_takes_no_malformed_root() -> None:
    plain = Plain()
    params = {"capabilities": {}, "rootUri": "file://[x/"}
    plain.receive(id=1, method="initialize", params=params)
    assert "error" in plain.sent[0]


def test_pygls_says_what_it_can_do_by_what_the_client_can() -> None:
    client = {"textDocument": {"synchronization": {"willSave": True}}}
    answers = []
    for capabilities in ({}, client):
        plain = Plain()
        plain.receive(id=1, method="initialize", params={"capabilities": capabilities})
        answers.append(plain.sent[0]["result"]["capabilities"])
    assert answers[0] != answers[1]


async def test_pygls_takes_no_answers_after_a_shutdown() -> None:
    plain = Plain().initialize()
    asked = plain.protocol.send_request("aish/ask", {})
    plain.receive(id=1, method="shutdown")
    plain.receive(id=plain.sent[0]["id"], result=1)
    assert asked.cancelled()


def test_pygls_ends_the_process_in_the_loop() -> None:
    plain = Plain().initialize()
    plain.protocol.writer = None
    with pytest.raises(SystemExit):
        plain.receive(method="exit")


def test_pygls_ends_lines_where_lsp_does_not() -> None:
    text = "one\ftwo\u2028three\n"
    assert len(TextDocument("file:///x", text).lines) == 3
    assert len(Document("file:///x", text).lines) == 1


def test_pygls_splits_the_whole_text_for_each_change() -> None:
    splits = 0

    class Counted(TextDocument):
        @property
        def lines(self) -> Sequence[str]:
            nonlocal splits
            splits += 1
            return tuple(self.source.splitlines(keepends=True))

    document, at = Counted("file:///x", "one\ntwo\n"), types.Position(0, 0)
    for _ in range(3):
        document.apply_change(types.TextDocumentContentChangePartial(types.Range(at, at), "x"))
    assert splits == 3


def test_pygls_takes_halves_of_surrogate_pairs() -> None:
    whole = types.TextDocumentContentChangeWholeDocument("a\ud800")
    theirs, ours = TextDocument("file:///x", ""), Document("file:///x", "")
    for document in (theirs, ours):
        document.apply_change(whole)
    assert (theirs.source, ours.source) == ("a\ud800", "a\ufffd")


# That the server is one of pygls.


async def test_a_feature_that_is_added_by_pygls_decorator_is_answered() -> None:
    server, sent = AishServer({}), []

    class Writer:
        def write(self, data: bytes) -> None:
            sent.append(json.loads(data))

        def close(self) -> None:
            pass

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def _hover(ls: AishServer, params: types.HoverParams) -> types.Hover:
        assert ls is server
        return types.Hover(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_RENAME)
    def _rename(params: types.RenameParams) -> None:
        raise OverBudget("Too large.")

    server.protocol.set_writer(Writer(), include_headers=False)
    place = {"textDocument": {"uri": "file:///x"}, "position": {"line": 0, "character": 0}}
    for number, (method, params) in enumerate(
        {
            "initialize": {"capabilities": {}},
            "textDocument/hover": place,
            "textDocument/rename": place | {"newName": "x"},
        }.items()
    ):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.protocol.handle_message(server.protocol.structure_message(message))
    await settled()
    assert isinstance(server, LanguageServer)
    assert types.TEXT_DOCUMENT_HOVER in server.protocol.fm.features
    answers = {message["id"]: message for message in sent}
    assert answers[0]["result"]["capabilities"]["hoverProvider"] is True
    assert answers[1]["result"] == {"contents": "file:///x"}
    assert answers[2]["error"]["data"] == {"kind": "overBudget"}
