from __future__ import annotations

import argparse

import pytest

from aish_lsp.__main__ import parse_address, serve


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9000", ("127.0.0.1", 9000)),
        ("localhost:0", ("127.0.0.1", 0)),
        (":9000", ("127.0.0.1", 9000)),
        ("9000", ("127.0.0.1", 9000)),
        ("[::1]:9000", ("::1", 9000)),
        ("0.0.0.0:9000", ("0.0.0.0", 9000)),
        ("example.org:65535", ("example.org", 65535)),
    ],
)
def test_an_address_without_a_host_is_the_loopback(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", ":", "nonsense", "127.0.0.1:", "x:65536", "x:-1", "x:1.5", "x:\u0665", "x:+1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--ws", "nonsense"],
        ["--tcp", ":0"],
        ["--log-level", "loud"],
        ["--unknown"],
        ["extra"],
    ],
)
def test_wrong_use_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        serve(arguments)
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert "usage: aish-lsp serve" in told
    assert ("argument --ws: 'nonsense' is not HOST:PORT" in told) == ("nonsense" in arguments)
