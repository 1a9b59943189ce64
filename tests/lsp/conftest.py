"""Fixtures for tests that drive a real server process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from client import TRANSPORTS, Client, Transport
from conversing import Place

ECHO = (sys.executable, str(Path(__file__).with_name("echo_server.py")))


@pytest.fixture(autouse=True)
def clean_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the server a HOME and a data folder of its own, and nothing to find."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AISH_CONFIG", str(home / "config.toml"))
    monkeypatch.setenv("AISH_DISCOVERY", "off")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty workspace folder."""
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a workspace and files of ours that outlast a server."""
    return Place.make(tmp_path_factory.mktemp("place"))


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Transport:
    """Run the test once for each transport."""
    found: Transport = request.param
    return found


@pytest.fixture
async def client(transport: Transport, clean_home: Path) -> AsyncIterator[Client]:
    """Return a client of the real server, connected and not initialized, over each transport."""
    async with Client(transport) as started:
        yield started


@pytest.fixture
async def echo(clean_home: Path) -> AsyncIterator[Client]:
    """Return an initialized client of the test server over stdio."""
    async with Client("stdio", command=ECHO) as started:
        await started.initialize()
        yield started


@pytest.fixture
def echo_client(clean_home: Path) -> Callable[..., Client]:
    """Return what makes a client of the test server; it is not started yet."""

    def make(transport: Transport = "stdio", **options: object) -> Client:
        return Client(transport, command=ECHO, **options)  # type: ignore[arg-type]

    return make
