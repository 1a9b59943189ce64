"""Which names a server that listens answers to."""

from __future__ import annotations

import socket

import pytest

from aish_lsp.lsp.websocket import is_our_name


@pytest.mark.parametrize(
    "header",
    ["127.0.0.1:80", "127.0.0.1", "127.9.9.9", "[::1]:8080", "[::1]", "localhost", "LocalHost:1"],
)
@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "0.0.0.0", "box.lan"])
def test_loopback_always_is(header: str, bound: str) -> None:
    assert is_our_name(header, bound)


@pytest.mark.parametrize(
    ("header", "bound", "ours"),
    [
        ("evil.example", "127.0.0.1", False),
        ("evil.example:80", "0.0.0.0", False),
        ("evil.example", "::", False),
        ("localhost.evil.example", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "0.0.0.0", False),
        ("[evil.example]", "0.0.0.0", False),
        ("", "127.0.0.1", False),
        ("", "0.0.0.0", False),
        ("192.168.1.5:80", "127.0.0.1", False),
        ("192.168.1.5:80", "192.168.1.5", True),
        ("192.168.1.5:80", "0.0.0.0", True),
        ("[fe80::1]:80", "::", True),
        ("Box.lan:80", "box.lan", True),
        ("box.lan", "192.168.1.5", False),
        (f"{socket.gethostname()}:80", "0.0.0.0", True),
        (f"{socket.gethostname()}:80", "127.0.0.1", socket.gethostname() == "localhost"),
    ],
)
def test_other_names_are_where_they_were_bound(header: str, bound: str, ours: bool) -> None:
    assert is_our_name(header, bound) is ours
