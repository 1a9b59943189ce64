"""A real llama.cpp server for the tests of this folder, one a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import llama_server
import pytest
from conversing import Place, forward_to
from fault_server import FaultServer

from aish_lsp.models.http import HttpClient


@pytest.fixture(scope="session")
def parts() -> None:
    """Skip, saying so, where llama.cpp's server is not installed."""
    reason = llama_server.missing_part()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def llama(parts: None) -> Iterator[llama_server.LlamaServer]:
    """A server without a grammar of its own: each request brings one."""
    with llama_server.LlamaServer(context=8192) as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    """A client that is closed at the end."""
    client = HttpClient()
    yield client
    await client.aclose()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace with a server's configuration and data of its own."""
    return Place.make(tmp_path)


@pytest.fixture
async def recorded(llama: llama_server.LlamaServer) -> AsyncIterator[FaultServer]:
    """A proxy before llama.cpp that keeps each request."""
    async with FaultServer(forward_to(llama.port)) as proxy:
        yield proxy
