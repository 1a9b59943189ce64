"""Endpoints as users write them."""

from __future__ import annotations

import pytest

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.models.address import (
    api_url,
    host,
    is_loopback,
    origin,
    server_name,
    server_url,
    without_secrets,
)


@pytest.mark.parametrize(
    ("endpoint", "chat"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/chat/completions"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/chat/completions"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/chat/completions"),
        ("  http://127.0.0.1:8080/v1/ ", "http://127.0.0.1:8080/v1/chat/completions"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1/chat/completions"),
        ("https://api.z.ai/api/paas/v4", "https://api.z.ai/api/paas/v4/chat/completions"),
        ("https://g.example/v1beta/openai/", "https://g.example/v1beta/openai/chat/completions"),
        ("https://a.example/chat/completions", "https://a.example/chat/completions"),
        ("https://a.example/x/v1/chat/completions", "https://a.example/x/v1/chat/completions"),
        ("https://a.example/v1/responses", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1/messages/", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1beta/models", "https://a.example/v1beta/chat/completions"),
        ("https://a.example/v1?version=2", "https://a.example/v1/chat/completions?version=2"),
        ("http://[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_the_api_with_or_without_a_version(endpoint: str, chat: str) -> None:
    assert api_url(endpoint, "chat/completions") == chat


def test_an_api_whose_usual_version_is_another() -> None:
    assert api_url("https://g.example", "m", version="v1beta") == "https://g.example/v1beta/m"
    assert api_url("https://g.example/v1", "m", version="v1beta") == "https://g.example/v1/m"


@pytest.mark.parametrize(
    ("endpoint", "props"),
    [
        ("http://h:8080", "http://h:8080/props"),
        ("http://h:8080/v1/", "http://h:8080/props"),
        ("http://h:8080/proxy/v1/chat/completions", "http://h:8080/proxy/props"),
    ],
)
def test_what_lies_beside_the_api(endpoint: str, props: str) -> None:
    assert server_url(endpoint, "props") == props


@pytest.mark.parametrize(
    "endpoint",
    ["", "  ", "127.0.0.1:8080", "localhost", "ftp://h", "http://", "http://h:port", "http://[::1"],
)
def test_what_is_no_address_is_refused_with_an_example(endpoint: str) -> None:
    with pytest.raises(InvalidArgument, match=r"http://127\.0\.0\.1:8080") as caught:
        api_url(endpoint, "models")
    assert caught.value.data == {"path": "endpoint"}


def test_a_refused_endpoint_does_not_show_its_password() -> None:
    with pytest.raises(InvalidArgument) as caught:
        api_url("ftp://me:hunter2@h/?key=hunter3", "models")
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["http://localhost:1", "http://LOCALHOST", "http://a.localhost", "http://127.8.9.1/x",
     "http://[::1]:80", "http://0.0.0.0:8080"],
)  # fmt: skip
def test_loopback(url: str) -> None:
    assert is_loopback(url)


@pytest.mark.parametrize("url", ["http://example.com", "http://10.0.0.1", "http://localhost.evil"])
def test_not_loopback(url: str) -> None:
    assert not is_loopback(url)


def test_what_messages_show_has_no_secrets() -> None:
    url = "https://me:secret@Api.Example:8443/v1/models?key=secret"
    assert origin(url) == "https://Api.Example:8443"
    assert without_secrets(url) == "https://Api.Example:8443/v1/models"
    assert host(url) == "api.example"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://Api.Example/v1", "api.example"),
        ("https://api.example:443", "api.example"),
        ("http://api.example:443", "api.example:443"),
        ("http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("http://127.0.0.1:8081", "127.0.0.1:8081"),
        ("http://127.0.0.1:80", "127.0.0.1"),
    ],
)
def test_a_server_is_a_host_and_a_port(url: str, name: str) -> None:
    assert server_name(url) == name
