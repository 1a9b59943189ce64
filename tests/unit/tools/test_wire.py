"""What servers write on a line, taken as it is meant."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="the SDK of tool servers is not installed"
)

RESULT = {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}


def read(line: bytes) -> list[dict[str, Any]]:
    from aish_lsp.tools.wire import messages_in

    return [one.model_dump(by_alias=True, exclude_none=True) for one in messages_in(line)]


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (RESULT, [RESULT]),
        ([RESULT, RESULT], [RESULT, RESULT]),
        ({"id": 1, "result": {"a": 1}}, [RESULT]),
        ({**RESULT, "error": None}, [RESULT]),
        ({**RESULT, "result": "text"}, [{**RESULT, "result": {"content": "text"}}]),
        ({**RESULT, "result": None}, [{**RESULT, "result": {}}]),
        (
            {"jsonrpc": "2.0", "id": 1, "result": None, "error": "it broke"},
            [{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "it broke"}}],
        ),
        (
            {"jsonrpc": "2.0", "id": 1, "error": {"code": "E_FAIL", "message": {"a": 1}}},
            [{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": '{"a": 1}'}}],
        ),
        (
            {"jsonrpc": "2.0", "id": None, "method": "notifications/x", "params": None},
            [{"jsonrpc": "2.0", "method": "notifications/x"}],
        ),
        (
            {"jsonrpc": "2.0", "method": "notifications/x", "params": []},
            [{"jsonrpc": "2.0", "method": "notifications/x", "params": {}}],
        ),
        ({"level": "info", "msg": "a line of a log"}, []),
        ({"id": 7}, []),
        ([], []),
        ("text", []),
    ],
)
def test_a_message_is_read_as_it_is_meant(sent: Any, meant: list[Any]) -> None:
    assert read(json.dumps(sent).encode()) == meant


@pytest.mark.parametrize("around", [b"\xef\xbb\xbf%s", b"%s\r", b"  %s ", b"Loading ... %s"])
def test_what_stands_around_a_message_is_passed_over(around: bytes) -> None:
    assert read(around % json.dumps(RESULT).encode()) == [RESULT]


@pytest.mark.parametrize("line", [b"", b"Listening on stdio", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_message_is_none(line: bytes) -> None:
    assert read(line) == []
