"""The environment's proxies and certificates, whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_server import FaultServer, Peer, Request

from aish_lsp.foundation.errors import BackendUnavailable
from aish_lsp.models.http import HttpClient
from aish_lsp.models.network import Network, environment_proxies

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable is set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


async def through_the_proxy(request: Request, peer: Peer) -> None:
    await peer.reply({"path": request.path})


@pytest.mark.parametrize(
    ("no_proxy", "url", "is_direct"),
    [
        ("*", "http://model.invalid", True),
        ("model.invalid", "http://model.invalid:8080", True),
        ("model.invalid:80", "http://model.invalid", True),
        ("model.invalid:81", "http://model.invalid", False),
        ("http://model.invalid", "http://model.invalid", True),
        (".invalid", "http://a.model.invalid", True),
        ("*.model.invalid", "http://MODEL.invalid", True),
        ("del.invalid", "http://model.invalid", False),
        ("localhost,fd00::/8,[::1]", "http://model.invalid", False),
        ("localhost\nmodel.invalid", "http://model.invalid", True),
        ("fd00::/8", "http://[fd00:b51a::1]", True),
        ("fd00::/8", "http://[fe00:b51a::1]", False),
        ("10.0.0.0/8 model.invalid", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
    ],
)
def test_who_is_asked_without_the_proxy(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, url: str, *, is_direct: bool
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid:9")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    proxies = environment_proxies()
    assert (proxies.proxy_for(url) is None) == is_direct
    assert proxies.warnings == []


async def test_what_is_wrong_is_named_once_and_the_request_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("NO_PROXY", "<local>,other.invalid")
    client = HttpClient()
    async with FaultServer(through_the_proxy) as proxy:
        # The password has a character that begins a fragment.
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("://", "://user:p#ss@"))
        for _ in range(2):
            reply = await client.fetch_json("http://model.invalid/v1", timeout_s=9)
            assert reply == {"path": "http://model.invalid/v1"}
    certificates, password, exceptions = client.drain_warnings()
    assert certificates.startswith(f"SSL_CERT_FILE is '{tmp_path}/missing.pem', which cannot be")
    assert exceptions.startswith("NO_PROXY names something that is neither a host nor an address")
    assert "<local>" in exceptions
    assert password == "HTTP_PROXY has a `#` in its password: write it as `%23`."
    assert client.drain_warnings() == ()
    await client.aclose()


@pytest.mark.parametrize("made", ["a folder that is missing", "no certificates"])
def test_certificates_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: str
) -> None:
    path = tmp_path / "certificates"
    if made == "no certificates":
        path.write_text("no PEM")
    name = "SSL_CERT_FILE" if path.exists() else "SSL_CERT_DIR"
    monkeypatch.setenv(name, str(path))
    [warning] = Network().warnings
    assert warning.startswith(f"{name} is {str(path)!r}, which cannot be used")


async def test_a_proxy_that_cannot_be_used_stops_what_would_go_through_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://user:secret@proxy")
    client = HttpClient()
    with pytest.raises(BackendUnavailable, match="The proxy in HTTPS_PROXY") as caught:
        await client.fetch_json("https://model.invalid", timeout_s=5)
    assert "secret" not in str(caught.value)
    assert await client.examine() == ("The proxy in HTTPS_PROXY cannot be used. Correct it.",)
    with pytest.raises(BackendUnavailable, match=r"model\.invalid cannot be reached"):
        await client.fetch_json("http://model.invalid", timeout_s=5)
    await client.aclose()


async def test_a_desktops_proxies_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """They name a SOCKS proxy for all others, in a scheme of their own."""
    monkeypatch.setenv("ALL_PROXY", "socks://127.0.0.1:7890/")
    assert environment_proxies().proxy_for("https://model.invalid") == "socks5://127.0.0.1:7890/"
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1:7891")
    assert environment_proxies().proxy_for("https://model.invalid") == "http://127.0.0.1:7891"
    # Nothing goes through it any more, so what is wrong with it is not said.
    monkeypatch.setenv("ALL_PROXY", "socks://user:p#ss@127.0.0.1:7890/")
    network = Network()
    assert network.warnings == []
    await network.aclose()
