"""The protocol in this process, with a list where the transport would be."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import CommandAlreadyRegisteredError, FeatureAlreadyRegisteredError

from aish_lsp.foundation.errors import BackendRejected, OverBudget
from aish_lsp.lsp.calls import Call
from aish_lsp.lsp.protocol import CommandSpec
from aish_lsp.lsp.server import AishServer
from aish_lsp.lsp.stream import BadFrame

SECRET = "sk-live-do-not-tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    some_name: str = "default"
    count: int = 0
    data: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    exit_code: int
    path: str | None = None


class Peer:
    """A server, and what it sends."""

    def __init__(self, *names: str) -> None:
        specs = {name: CommandSpec(name, Params) for name in names}
        self.server = AishServer(specs)
        self.sent: list[Any] = []
        self.server.protocol.set_writer(self, include_headers=False)

    def write(self, data: bytes) -> None:
        self.sent.append(json.loads(data))

    def close(self) -> None:
        raise AssertionError

    def receive(self, **message: Any) -> None:
        self.server.protocol.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def initialize(self, **capabilities: Any) -> Any:
        self.receive(id="init", method="initialize", params={"capabilities": capabilities})
        return self.sent.pop()["result"]

    def execute(self, request_id: int | str, command: str, *arguments: Any, **params: Any) -> None:
        params |= {"command": command, "arguments": list(arguments)}
        self.receive(id=request_id, method="workspace/executeCommand", params=params)

    async def answer(self, request_id: int | str | None) -> Any:
        """Wait for the answer to a request, and take it."""
        for _ in range(500):
            for message in self.sent:
                if message.get("id") == request_id and "method" not in message:
                    self.sent.remove(message)
                    return message
            await asyncio.sleep(0.002)
        raise AssertionError(f"no answer to {request_id} in {self.sent}")

    def retained(self) -> int:
        protocol = self.server.protocol
        return sum(
            len(table)
            for table in (
                protocol._calls,
                protocol._request_futures,
                protocol._result_types,
                protocol.progress.tokens,
                self.server._tasks,
            )
        )


def peer(**handlers: Callable[[Call, Params], Awaitable[object]]) -> Peer:
    made = Peer(*handlers)
    for name, handler in handlers.items():
        made.server.bind(name, handler)
    made.initialize()
    return made


async def echo(_: Call, params: Params) -> object:
    return Result(params.count, params.some_name)


# Commands


async def test_a_command_gets_its_dataclass_and_answers_in_camel_case() -> None:
    one = peer(echo=echo)
    one.execute(1, "echo", {"someName": "x", "count": 3})
    assert (await one.answer(1))["result"] == {"exitCode": 3, "path": "x"}


@pytest.mark.parametrize("arguments", [(), (None,), ({},)])
async def test_no_argument_is_an_empty_one(arguments: tuple[Any, ...]) -> None:
    one = peer(echo=echo)
    one.execute(1, "echo", *arguments)
    assert (await one.answer(1))["result"] == {"exitCode": 0, "path": "default"}


async def test_arguments_may_be_left_out() -> None:
    one = peer(echo=echo)
    one.receive(id=1, method="workspace/executeCommand", params={"command": "echo"})
    assert (await one.answer(1))["result"] == {"exitCode": 0, "path": "default"}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (({"count": "three"},), "count"),
        (({"unknown": 1},), "unknown"),
        (({"some_name": "snake"},), "some_name"),
        (("text",), "arguments"),
        (({}, {}), "arguments"),
        (([],), "arguments"),
    ],
)
async def test_a_bad_argument_is_refused_with_its_path(
    arguments: tuple[Any, ...], path: str
) -> None:
    one = peer(echo=echo)
    one.execute(1, "echo", *arguments)
    error = (await one.answer(1))["error"]
    assert error["code"] == -32602
    assert error["data"]["kind"] == "invalidArgument"
    assert error["data"]["path"] == path


async def test_an_unknown_command_names_the_nearest() -> None:
    one = peer(echo=echo)
    one.execute(1, "ecco")
    error = (await one.answer(1))["error"]
    assert error["code"] == 1009
    assert error["data"] == {"kind": "notFound"}
    assert '"echo"' in error["message"]


async def test_only_bound_commands_are_offered() -> None:
    one = Peer("first", "second", "never")
    one.server.bind("second", echo)
    one.server.bind("first", echo)
    offered = one.initialize()["capabilities"]["executeCommandProvider"]["commands"]
    assert offered == ["second", "first"]


def test_a_command_is_bound_once_and_only_if_it_is_specified() -> None:
    one = Peer("echo")
    one.server.bind("echo", echo)
    with pytest.raises(CommandAlreadyRegisteredError):
        one.server.bind("echo", echo)
    with pytest.raises(KeyError, match="other"):
        one.server.bind("other", echo)


def test_binding_a_command_shows_its_handler_to_nobody() -> None:
    class Handler:
        shown = 0

        def __repr__(self) -> str:
            self.shown += 1
            return "a handler, with all that it holds"

        async def __call__(self, _: Call, params: Params) -> object:
            return params

    handler = Handler()
    Peer("echo").server.bind("echo", handler)
    assert handler.shown == 0


async def test_an_error_of_ours_goes_out_with_code_kind_and_data() -> None:
    async def fail(*_: Any) -> object:
        raise BackendRejected("The key is wrong.", status=401)

    one = peer(fail=fail)
    one.execute(1, "fail")
    assert (await one.answer(1))["error"] == {
        "code": 1002,
        "message": "The key is wrong.",
        "data": {"kind": "backendRejected", "status": 401},
    }


@pytest.mark.parametrize("result", [float("inf"), object(), {"x": {1, 2}}])
async def test_a_result_without_a_form_in_json_is_still_answered(result: object) -> None:
    async def odd(*_: Any) -> object:
        return {"value": result}

    one = peer(odd=odd)
    one.execute(1, "odd")
    assert (await one.answer(1))["error"]["code"] == -32603


async def test_error_data_without_a_form_in_json_is_left_out() -> None:
    async def fail(*_: Any) -> object:
        raise OverBudget("Too large.", thing=object())

    one = peer(fail=fail)
    one.execute(1, "fail")
    assert (await one.answer(1))["error"] == {"code": 1003, "message": "Too large."}


async def test_an_unexpected_error_tells_neither_its_text_nor_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: Any) -> object:
        raise RuntimeError(SECRET)

    one = peer(fail=fail)
    with caplog.at_level(logging.DEBUG):
        one.execute(1, "fail")
        answer = await one.answer(1)
    assert answer["error"]["code"] == -32603
    assert "RuntimeError" in answer["error"]["message"]
    assert SECRET not in json.dumps(answer)
    assert "data" not in answer["error"]
    # The log has the traceback; its text is left to the formatter, which drops it.
    assert any(record.exc_info for record in caplog.records)
    assert SECRET not in caplog.messages


async def test_the_log_has_no_payloads_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    one = peer(echo=echo)
    with caplog.at_level(logging.DEBUG, "aish_lsp"):
        one.execute(1, "echo", {"someName": SECRET})
        await one.answer(1)
        one.execute(2, "echo", {"someName": SECRET, "count": SECRET})
        await one.answer(2)
        one.execute(3, SECRET)
        await one.answer(3)
        one.receive(method="textDocument/didOpen", params={"text": SECRET})
        one.receive(method=f"x/{SECRET}", params={})
        one.receive(id=77, result=SECRET)
        one.server.window_log_message(types.LogMessageParams(types.MessageType.Info, SECRET))
        one.server.protocol.receive(SECRET.encode())
    assert SECRET not in "\n".join(
        f"{record.getMessage()} {record.args}"
        for record in caplog.records
        if record.name.startswith("aish_lsp")
    )


# Cancelling


async def test_cancelling_really_stops_a_command() -> None:
    events: list[str] = []

    async def slow(*_: Any) -> object:
        events.append("began")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            events.append("stopped")
            raise
        events.append("went on")
        return {}

    one = peer(slow=slow)
    one.execute(1, "slow")
    await asyncio.sleep(0.01)
    one.receive(method="$/cancelRequest", params={"id": 1})
    assert (await one.answer(1))["error"]["code"] == -32800
    assert events == ["began", "stopped"]
    assert one.retained() == 0


async def test_cancelling_before_the_first_step_is_answered() -> None:
    one = peer(echo=echo)
    one.execute(1, "echo")
    one.receive(method="$/cancelRequest", params={"id": 1})
    assert (await one.answer(1))["error"]["code"] == -32800
    await asyncio.sleep(0.01)
    assert one.retained() == 0


@pytest.mark.parametrize("way", ["request", "token"])
async def test_a_command_that_wants_to_end_by_itself_answers_with_what_it_has(way: str) -> None:
    count = 0

    async def partial(call: Call, _: Params) -> object:
        nonlocal count
        stop = asyncio.Event()

        def cancelled() -> None:
            nonlocal count
            count += 1
            stop.set()

        call.on_cancel(cancelled)
        await stop.wait()
        await asyncio.sleep(0.01)
        return {"partial": call.cancelled}

    one = peer(partial=partial)
    one.execute(1, "partial", workDoneToken="w")
    await asyncio.sleep(0.01)
    for _ in range(2):
        if way == "request":
            one.receive(method="$/cancelRequest", params={"id": 1})
        else:
            one.receive(method="window/workDoneProgress/cancel", params={"token": "w"})
    assert (await one.answer(1))["result"] == {"partial": True}
    assert count == 1
    assert one.retained() == 0


async def test_all_callbacks_run_and_a_late_one_at_once() -> None:
    async def partial(call: Call, _: Params) -> object:
        stop = asyncio.Event()
        ran: list[str] = []
        call.on_cancel(lambda: ran.append("first"))
        call.on_cancel(stop.set)
        await stop.wait()
        call.on_cancel(lambda: ran.append("late"))
        return {"ran": ran}

    one = peer(partial=partial)
    one.execute(1, "partial")
    await asyncio.sleep(0.01)
    one.receive(method="$/cancelRequest", params={"id": 1})
    assert (await one.answer(1))["result"] == {"ran": ["first", "late"]}


async def test_a_token_that_the_client_reuses_cancels_the_newer_call() -> None:
    async def slow(*_: Any) -> object:
        await asyncio.sleep(30)
        return {}

    one = peer(slow=slow)
    one.execute(1, "slow", workDoneToken="w")
    one.execute(2, "slow", workDoneToken="w")
    await asyncio.sleep(0.01)
    one.receive(method="$/cancelRequest", params={"id": 1})
    await one.answer(1)
    one.receive(method="window/workDoneProgress/cancel", params={"token": "w"})
    assert (await one.answer(2))["error"]["code"] == -32800
    assert one.retained() == 0


@pytest.mark.parametrize("bad", [None, {}, {"id": None}, {"id": [1]}, [1], "x", {"id": 99}])
async def test_a_malformed_or_late_cancel_is_ignored(bad: Any) -> None:
    one = peer(echo=echo)
    one.receive(method="$/cancelRequest", params=bad)
    one.receive(method="window/workDoneProgress/cancel", params=bad)
    one.execute(1, "echo")
    assert "result" in await one.answer(1)


@pytest.mark.slow
async def test_nothing_is_kept_after_two_thousand_calls() -> None:
    seen: list[weakref.ref[Call]] = []

    async def note(call: Call, params: Params) -> object:
        seen.append(weakref.ref(call))
        call.on_cancel(lambda: None)
        call.progress("x").end()
        if params.count % 2:
            await asyncio.sleep(0)
        if params.count % 3 == 0:
            raise BackendRejected("no")
        return {}

    one = peer(note=note)
    for number in range(2_000):
        one.execute(number, "note", {"count": number}, workDoneToken=f"w{number}")
        if number % 5 == 0:
            one.receive(method="$/cancelRequest", params={"id": number})
        if number % 100 == 99:
            await asyncio.sleep(0)
    await one.answer(1_999)
    assert len([message for message in one.sent if "method" not in message]) == 1_999
    assert one.retained() == 0
    gc.collect()
    assert len(seen) > 1_000
    assert not any(reference() for reference in seen)


async def test_nothing_is_kept_of_features_and_notifications() -> None:
    one = Peer()
    saved: list[str] = []

    @one.server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> None:
        await asyncio.sleep(0)

    @one.server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    async def will_save(params: types.WillSaveTextDocumentParams) -> None:
        saved.append(params.text_document.uri)

    one.initialize()
    for number in range(100):
        place = {"textDocument": {"uri": f"file:///{number}"}}
        one.receive(method="textDocument/willSave", params=place | {"reason": 1})
        position = {"position": {"line": 0, "character": 0}}
        one.receive(id=number, method="textDocument/hover", params=place | position)
    assert (await one.answer(99))["result"] is None
    assert len(saved) == 100
    assert one.retained() == 0


# What a client may send


async def test_a_request_before_initialize_is_refused() -> None:
    one = Peer("echo")
    one.execute(1, "echo")
    one.receive(id=2, method="shutdown")
    one.receive(method="initialized", params={})
    assert [message["error"]["code"] for message in one.sent] == [-32002, -32002]
    assert one.initialize()["serverInfo"]["name"] == "aish-lsp"


@pytest.mark.parametrize("process_id", [None, 0, 1, -1, 2**31 - 1, 2**70])
async def test_odd_process_ids_are_taken(process_id: int | None) -> None:
    one = Peer()
    one.server.lifecycle.watches_parent = True
    params: dict[str, Any] = {"capabilities": {}, "processId": process_id}
    one.receive(id=1, method="initialize", params=params)
    assert "result" in await one.answer(1)


async def test_a_second_initialize_is_refused() -> None:
    one = peer()
    one.receive(id=5, method="initialize", params={"capabilities": {}})
    assert (await one.answer(5))["error"]["code"] == -32600


async def test_after_shutdown_requests_are_refused() -> None:
    one = peer(echo=echo)
    one.receive(id=1, method="shutdown")
    assert (await one.answer(1))["result"] is None
    one.execute(2, "echo")
    assert (await one.answer(2))["error"]["code"] == -32600
    assert one.server.exit_code == 0


async def test_a_request_id_that_is_in_use_is_refused() -> None:
    async def slow(*_: Any) -> object:
        await asyncio.sleep(0.02)
        return {}

    one = peer(slow=slow)
    one.execute(1, "slow")
    one.execute(1, "slow")
    assert (await one.answer(1))["error"]["code"] == -32600
    assert (await one.answer(1))["result"] == {}


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"arguments": []}, "command"),
        ({"command": "echo", "arguments": 5}, "arguments"),
        (None, "command"),
        ([], ""),
        ("x", ""),
    ],
)
async def test_malformed_params_are_answered_with_the_path(params: Any, path: str) -> None:
    one = peer(echo=echo)
    one.receive(id=1, method="workspace/executeCommand", params=params)
    error = (await one.answer(1))["error"]
    assert error["code"] == -32602
    assert error["data"]["path"].startswith(path)
    assert "workspace/executeCommand" in error["message"]


async def test_a_deep_path_is_named_as_on_the_wire() -> None:
    one = Peer()
    one.server.feature(types.TEXT_DOCUMENT_HOVER)(lambda params: None)
    one.initialize()
    place = {"textDocument": {"uri": "file:///x"}, "position": {"line": 0, "character": "y"}}
    one.receive(id=1, method="textDocument/hover", params=place)
    assert (await one.answer(1))["error"]["data"]["path"] == "position.character"
    one.receive(id=2, method="textDocument/hover", params={"textDocument": {}, "position": {}})
    assert (await one.answer(2))["error"]["data"]["path"].startswith("textDocument")


async def test_a_nested_key_jsonrpc_does_not_lose_the_message() -> None:
    one = peer(echo=echo)
    nested = {"jsonrpc": "2.0", "id": 5, "method": "initialize"}
    one.execute(1, "echo", {"someName": "x", "data": nested})
    assert (await one.answer(1))["result"]["path"] == "x"
    one.execute(2, "echo", nested)
    assert (await one.answer(2))["error"]["data"]["path"] in {"id", "jsonrpc", "method"}


async def test_unknown_methods() -> None:
    one = peer()
    one.receive(id=1, method="textDocument/nothing", params={"x": 1})
    assert (await one.answer(1))["error"]["code"] == -32601
    one.receive(id=2, method="$/nothing")
    assert (await one.answer(2))["error"]["code"] == -32601
    one.receive(method="textDocument/nothing", params={"x": 1})
    one.receive(method="$/nothing")
    assert one.sent == []


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', b"5", b'{"jsonrpc":"2.0"}'],
)
async def test_what_is_no_message_is_answered_without_id(body: bytes) -> None:
    one = peer(echo=echo)
    one.server.protocol.receive(body)
    (answer,) = one.sent
    assert answer["id"] is None
    assert answer["error"]["code"] in {-32700, -32600}


async def test_a_bad_frame_is_answered() -> None:
    one = peer()
    one.server.protocol.receive(BadFrame("no length"))
    assert one.sent[0]["error"] == {"code": -32700, "message": "no length"}


async def test_responses_to_nothing_are_ignored() -> None:
    one = peer(echo=echo)
    one.receive(id="never", result=1)
    one.receive(id=12, error={"code": 1, "message": "x"})
    assert one.sent == []
    one.execute(1, "echo")
    await one.answer(1)


async def test_custom_methods_get_plain_data_quickly() -> None:
    one = Peer()
    got: list[Any] = []

    @one.server.feature("aish/custom")
    def custom(params: Any) -> None:
        got.append(params)

    one.initialize()
    large = {"rows": [{"a": number, "jsonrpc": "x"} for number in range(50_000)]}
    # As namedtuples, pygls' way, this takes several seconds.
    loop = asyncio.get_running_loop()
    began = loop.time()
    one.receive(method="aish/custom", params=large)
    assert loop.time() - began < 2
    assert got == [large]


async def test_a_failing_feature_is_answered_without_a_traceback() -> None:
    one = Peer()

    @one.server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> None:
        raise ValueError(SECRET)

    @one.server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    async def lens(params: types.CodeLensParams) -> None:
        raise OverBudget("Too large.")

    one.initialize()
    uri = {"textDocument": {"uri": "file:///x"}}
    position = {"position": {"line": 0, "character": 0}}
    one.receive(id=1, method="textDocument/hover", params=uri | position)
    error = (await one.answer(1))["error"]
    assert error["code"] == -32603
    assert SECRET not in json.dumps(error)
    one.receive(id=2, method="textDocument/codeLens", params=uri)
    assert (await one.answer(2))["error"]["data"] == {"kind": "overBudget"}


async def test_a_failing_notification_handler_shows_the_user_nothing() -> None:
    one = Peer()

    @one.server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    def will_save(params: types.WillSaveTextDocumentParams) -> None:
        raise ValueError(SECRET)

    one.initialize()
    saved = {"textDocument": {"uri": "file:///x"}, "reason": 1}
    one.receive(method="textDocument/willSave", params=saved)
    one.receive(method="textDocument/willSave", params={"textDocument": None})
    assert one.sent == []


# Documents


def open_document(one: Peer, uri: str = "file:///a%20b", text: str = "one\ntwo\n") -> None:
    item = {"uri": uri, "languageId": "x", "version": 1, "text": text}
    one.receive(method="textDocument/didOpen", params={"textDocument": item})


def change(one: Peer, uri: Any, version: Any, *changes: Any) -> None:
    identifier = {"uri": uri, "version": version}
    params = {"textDocument": identifier, "contentChanges": list(changes)}
    one.receive(method="textDocument/didChange", params=params)


def at(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


async def test_a_change_reaches_the_document() -> None:
    one = peer()
    open_document(one)
    change(one, "file:///a%20b", 2, {"range": {"start": at(1, 0), "end": at(1, 3)}, "text": "2"})
    document = one.server.workspace.get_text_document("file:///a%20b")
    assert (document.source, document.version) == ("one\n2\n", 2)


@pytest.mark.parametrize(
    ("uri", "version", "changes"),
    [
        ("file:///never-opened", 2, [{"text": "x"}]),
        ("file://[bad", 2, [{"text": "x"}]),
        (None, 2, [{"text": "x"}]),
        ("file:///a%20b", None, [{"text": "x"}]),
        ("file:///a%20b", 2, [{}]),
        ("file:///a%20b", 2, [{"range": {"start": at(-1, 0), "end": at(0, 0)}, "text": "x"}]),
        ("file:///a%20b", 2, [{"range": {"start": "x", "end": at(0, 0)}, "text": "x"}]),
        ("file:///a%20b", 2, [{"range": {"start": at(0, 0), "end": at(0, 10**30)}, "text": ""}]),
    ],
)
async def test_a_bad_change_does_no_harm(uri: Any, version: Any, changes: list[Any]) -> None:
    one = peer(echo=echo)
    open_document(one)
    change(one, uri, version, *changes)
    assert one.server.workspace.get_text_document("file:///a%20b").source == "one\ntwo\n"
    change(one, "file:///a%20b", 3, {"text": "new"})
    assert one.server.workspace.get_text_document("file:///a%20b").source == "new"
    assert one.sent == []


@pytest.mark.parametrize(
    "ends",
    [(at(9, 9), at(10, 10)), (at(1, 2), at(0, 1)), (at(0, 99), at(1, 99)), (at(2, 0), at(2, 0))],
)
async def test_an_odd_range_does_not_break_the_document(ends: tuple[Any, Any]) -> None:
    one = peer()
    open_document(one)
    change(one, "file:///a%20b", 2, {"range": {"start": ends[0], "end": ends[1]}, "text": "x"})
    change(one, "file:///a%20b", 3, {"text": "whole"})
    assert one.server.workspace.get_text_document("file:///a%20b").source == "whole"


@pytest.mark.parametrize(
    "uri", ["untitled:Untitled-1", "file://[bad", "", "x:\x00", "vscode-x://a"]
)
async def test_odd_uris_may_be_opened_and_closed(uri: str) -> None:
    one = peer(echo=echo)
    open_document(one, uri)
    change(one, uri, 2, {"text": "x"})
    one.receive(method="textDocument/didClose", params={"textDocument": {"uri": uri}})
    one.execute(1, "echo")
    assert "result" in await one.answer(1)
    assert one.sent == []


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8", "utf-16"], "utf-8"),
        (["utf-32", "utf-8"], "utf-32"),
        (["utf-16"], "utf-16"),
        (["utf-7"], "utf-16"),
        ([], "utf-16"),
        (None, "utf-16"),
    ],
)
def test_positions_are_counted_as_the_client_likes(offered: Any, chosen: str) -> None:
    one = Peer()
    general = {} if offered is None else {"positionEncodings": offered}
    assert one.initialize(general=general)["capabilities"]["positionEncoding"] == chosen


# Asking the client, and progress

SHOWN = types.ShowDocumentParams("file:///x")


async def test_a_request_returns_the_structured_answer() -> None:
    one = peer()
    asking = asyncio.create_task(one.server.window_show_document_async(SHOWN))
    await asyncio.sleep(0)
    (question,) = one.sent
    assert question["params"] == {"uri": "file:///x"}
    one.receive(id=question["id"], result={"success": True})
    answer = await asking
    assert isinstance(answer, types.ShowDocumentResult)
    assert answer.success
    assert one.retained() == 0


async def test_a_request_that_is_never_answered_ends_and_is_forgotten() -> None:
    one = peer()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(one.server.window_show_document_async(SHOWN), 0.01)
    (question,) = one.sent
    assert one.retained() == 0
    one.receive(id=question["id"], result={"success": True})  # too late


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"error": {"code": -32803, "message": "not now"}}, "not now"),
        ({"error": "what?"}, "malformed error"),
        ({"error": {}}, "error"),
        ({"result": {"success": []}}, None),
        ({"result": "what?"}, "malformed"),
        ({"result": [1]}, "malformed"),
    ],
)
async def test_an_error_of_the_client_is_raised(answer: Any, says: str | None) -> None:
    from pygls.exceptions import JsonRpcException

    one = peer()
    asking = asyncio.create_task(one.server.window_show_document_async(SHOWN))
    await asyncio.sleep(0)
    one.receive(id=one.sent[0]["id"], **answer)
    if says is None:  # lsprotocol makes a truth value of anything
        await asking
    else:
        with pytest.raises(JsonRpcException, match=says):
            await asking
    assert one.retained() == 0


async def test_kate_answers_a_dismissed_question_with_an_empty_object() -> None:
    one = peer()
    params = types.ShowMessageRequestParams(types.MessageType.Info, "Run it?")
    asking = asyncio.create_task(one.server.window_show_message_request_async(params))
    await asyncio.sleep(0)
    assert one.sent[0]["params"] == {"type": 3, "message": "Run it?"}
    one.receive(id=one.sent[0]["id"], result={})
    assert await asking is None


async def test_progress_under_the_clients_token() -> None:
    async def work(call: Call, _: Params) -> object:
        progress = call.progress("Asking")
        progress.report("first")
        progress.end("done")
        progress.end("twice")
        progress.report("late")
        return {}

    one = peer(work=work)
    one.execute(1, "work", workDoneToken=7)
    await one.answer(1)
    assert [message["params"]["token"] for message in one.sent] == [7, 7, 7]
    assert [message["params"]["value"] for message in one.sent] == [
        {"kind": "begin", "title": "Asking", "cancellable": True},
        {"kind": "report", "message": "first"},
        {"kind": "end", "message": "done"},
    ]
    one.sent.clear()
    one.execute(2, "work")
    await one.answer(2)
    assert one.sent == []


async def test_progress_of_our_own_begins_when_the_client_is_ready() -> None:
    one = Peer()
    one.initialize(window={"workDoneProgress": True})
    cancelled: list[int] = []
    progress = one.server.begin_progress("Running", on_cancel=lambda: cancelled.append(1))
    progress.report("early")
    await asyncio.sleep(0)
    (create,) = one.sent
    assert create["method"] == "window/workDoneProgress/create"
    token = create["params"]["token"]
    one.sent.clear()
    one.receive(id=create["id"], result=None)
    await asyncio.sleep(0.01)
    one.receive(method="window/workDoneProgress/cancel", params={"token": token})
    progress.end()
    one.receive(method="window/workDoneProgress/cancel", params={"token": token})
    assert cancelled == [1]
    assert [message["params"]["value"] for message in one.sent] == [
        {"kind": "begin", "title": "Running", "cancellable": True, "message": "early"},
        {"kind": "end"},
    ]
    assert one.retained() == 0
    other = one.server.begin_progress("Again", on_cancel=lambda: None)
    await asyncio.sleep(0)
    assert one.sent[-1]["params"]["token"] != token
    other.end()


async def test_progress_that_is_over_before_the_client_answers_leaves_nothing_behind() -> None:
    one = Peer()
    one.initialize(window={"workDoneProgress": True})
    progress = one.server.begin_progress("Quick", on_cancel=lambda: None)
    await asyncio.sleep(0)
    progress.end()
    one.receive(id=one.sent.pop()["id"], result=None)
    await asyncio.sleep(0.01)
    assert [message["params"]["value"]["kind"] for message in one.sent] == ["begin", "end"]
    assert one.retained() == 0


async def test_progress_that_the_client_refuses_stays_silent() -> None:
    one = Peer()
    one.initialize(window={"workDoneProgress": True})
    progress = one.server.begin_progress("Unwanted", on_cancel=lambda: None)
    await asyncio.sleep(0)
    one.receive(id=one.sent.pop()["id"], error={"code": -32601, "message": "no"})
    await asyncio.sleep(0.01)
    progress.report("x")
    progress.end()
    assert one.sent == []
    assert one.retained() == 0


async def test_progress_that_the_client_never_answers_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aish_lsp.lsp.base_server.CREATE_PROGRESS", 0.02)
    one = Peer()
    one.initialize(window={"workDoneProgress": True})
    progress = one.server.begin_progress("Unheard", on_cancel=lambda: None)
    (opening,) = one.server._tasks
    await asyncio.wait_for(opening, 10)
    progress.end()
    await asyncio.sleep(0)
    assert one.retained() == 0
    assert len(one.sent) == 1


async def test_a_client_without_progress_is_not_asked() -> None:
    one = Peer()
    one.initialize(window={"workDoneProgress": False})
    progress = one.server.begin_progress("Silent", on_cancel=lambda: None)
    progress.report("x")
    progress.end()
    assert one.sent == []
    assert one.retained() == 0


# Stopping


async def test_stopping_lets_commands_record_and_then_runs_the_hooks() -> None:
    order: list[str] = []

    async def partial(call: Call, _: Params) -> object:
        stop = asyncio.Event()
        call.on_cancel(stop.set)
        await stop.wait()
        await asyncio.sleep(0.02)
        order.append("recorded")
        return {}

    async def hook() -> None:
        order.append("hook")

    async def bad_hook() -> None:
        raise ValueError(SECRET)

    one = peer(partial=partial)
    one.server.on_shutdown(bad_hook)
    one.server.on_shutdown(hook)
    background = one.server.spawn(asyncio.sleep(30), "background")
    one.execute(1, "partial")
    await asyncio.sleep(0.01)
    one.receive(id=2, method="shutdown")
    assert (await one.answer(2))["result"] is None
    assert (await one.answer(1))["result"] == {}
    await one.server.stop_work()
    assert order == ["recorded", "hook"]
    assert background.cancelled()
    assert one.retained() == 0


async def test_a_command_that_does_not_end_holds_the_shutdown_up_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aish_lsp.lsp.base_server.GRACE", 0.15)
    hooked: list[int] = []

    async def stubborn(call: Call, _: Params) -> object:
        call.on_cancel(lambda: None)
        await asyncio.sleep(30)
        return {}

    async def hook() -> None:
        hooked.append(1)
        await asyncio.sleep(30)

    one = peer(stubborn=stubborn)
    one.server.on_shutdown(hook)
    one.execute(1, "stubborn")
    await asyncio.sleep(0.01)
    one.receive(id=2, method="shutdown")
    assert (await one.answer(2))["result"] is None
    assert hooked == [1]


async def test_a_background_task_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    one = peer()

    async def fail() -> None:
        raise ValueError(SECRET)

    task = one.server.spawn(fail(), "indexing")
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert "indexing failed" in caplog.messages
    assert one.retained() == 0


def test_a_method_has_one_handler() -> None:
    server = AishServer({})
    with pytest.raises(FeatureAlreadyRegisteredError):
        server.feature(types.TEXT_DOCUMENT_DID_OPEN)(lambda _: None)
