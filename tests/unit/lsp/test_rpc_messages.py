from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.lsp.messages import Malformed, encode, parse


def message(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def malformed(body: bytes) -> Malformed:
    with pytest.raises(Malformed) as caught:
        parse(body)
    return caught.value


@pytest.mark.parametrize(
    "fields",
    [
        {"id": 1, "method": "m", "params": {"a": 1}},
        {"id": "x", "method": "m"},
        {"method": "m", "params": [1]},
        {"id": 1, "result": None},
        {"id": 1, "error": {"code": 1}},
        # A client in JavaScript leaves an undefined result out.
        {"id": 1},
        {"id": 1, "method": "m", "params": {"jsonrpc": "2.0", "inner": {"jsonrpc": "1.0"}}},
    ],
)
def test_a_message_is_its_json(fields: dict[str, Any]) -> None:
    assert parse(message(**fields)) == {"jsonrpc": "2.0", **fields}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe\xfd", b"nothing", b'{"a": 1} x', b"[" * 100_000, b'"\xc3"'],
)
def test_what_is_no_json_is_a_parse_error_without_id(body: bytes) -> None:
    error = malformed(body)
    assert (error.code, error.id) == (-32700, None)


@pytest.mark.parametrize(
    ("body", "message_id"),
    [
        (b"[]", None),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "m"}]', None),
        (b"null", None),
        (b"5", None),
        (b"{}", None),
        (b'{"id": 3, "method": "m"}', 3),
        (b'{"jsonrpc": 2.0, "id": 3, "method": "m"}', 3),
        (b'{"jsonrpc": "1.0", "id": "y", "method": "m"}', "y"),
        (b'{"jsonrpc": "2.0", "id": 3, "method": 5}', 3),
        (b'{"jsonrpc": "2.0", "id": 3, "method": null}', 3),
        (b'{"jsonrpc": "2.0", "id": null, "method": "m"}', None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "m"}', None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "m"}', None),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "m"}', None),
        (b'{"jsonrpc": "2.0", "result": 1}', None),
    ],
)
def test_what_is_no_request_is_invalid(body: bytes, message_id: object) -> None:
    error = malformed(body)
    assert (error.code, error.id) == (-32600, message_id)


def test_errors_do_not_quote_the_payload() -> None:
    assert "secret" not in malformed(b'{"key": "secret"').message
    assert "secret" not in malformed(b'{"method": "secret"}').message


@given(
    st.binary()
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_any_body_is_a_message_or_malformed(body: bytes) -> None:
    with suppress(Malformed):
        assert {"method", "id"} & parse(body).keys()
        return
    assert malformed(body).code in {-32700, -32600}


@given(st.text())
def test_text_goes_through_unchanged(text: str) -> None:
    body = encode({"jsonrpc": "2.0", "method": "m", "params": [text]}, str)
    assert parse(body)["params"] == [text]


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    body = encode({"params": ["a\ud83d", "\ud83d\ude00", "ok"]}, str)
    assert json.loads(body.decode()) == {"params": ["a\ufffd", "\U0001f600", "ok"]}


def test_what_json_does_not_have_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode({"params": [float("nan")]}, str)
