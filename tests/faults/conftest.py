"""One server process for the tests of a module, and a model server that does what each wants."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from client import Client
from conversing import SHOWS_NOTHING, Place, fine
from fault_server import FaultServer, Peer, Request, Script

from aish_lsp.shell.confinement.support import Confinement


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace for a server process of the test's own."""
    return Place.make(tmp_path)


@pytest.fixture
async def confinement(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Confinement]:
    """What confines commands, with a folder for temporary files that is the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    made = Confinement(os.environ)
    yield made
    await made.aclose()


@dataclass
class Served:
    """A client that is connected and initialized, and the model server that it asks.

    ``script`` answers the model server's next requests.
    """

    client: Client
    place: Place
    model: FaultServer
    script: Script = fine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A server process, its client, and its model server."""
    place = Place.make(tmp_path_factory.mktemp("served"))

    async def script(request: Request, peer: Peer) -> None:
        await served.script(request, peer)

    async with FaultServer(script) as model:
        # The window is given, so that nothing but questions comes.
        place.configure(model.url, context_window=8192, timeout=5.0)
        async with place.client() as client:
            served = Served(client, place, model)
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            yield served


@pytest_asyncio.fixture(loop_scope="module")
async def served(process: Served) -> Served:
    """The process as at its start: no conversation, and a model server that answers."""
    await process.client.command_result("aish.context.reset")
    process.client.progress.clear()
    process.client.notifications.clear()
    process.client.answers["window/showMessageRequest"] = lambda _: None
    process.model.requests.clear()
    process.script = fine
    return process
