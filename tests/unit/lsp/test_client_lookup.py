"""What the client is asked about the code: a place in a file, in the client's units."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aish_lsp.foundation.ports import Lookup
from aish_lsp.lsp.questions import ClientLookUp


@pytest.mark.timeout(10)
async def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "main.py")
    asked: list[Any] = []

    async def nothing(*_: object) -> None:
        return None

    protocol = SimpleNamespace(send_request_async=lambda *request: asked.append(request))
    server: Any = SimpleNamespace(protocol=protocol, answer_of=nothing)
    documents: Any = SimpleNamespace(
        document=lambda _path: None,
        position=lambda lines, _point: SimpleNamespace(line=len(lines) - 1, character=0),
    )
    lookup = Lookup("definition", tmp_path / "main.py", line=3, character=1)
    assert await asyncio.wait_for(ClientLookUp(server, documents)(lookup), 5) is None
    [(_, params)] = asked
    assert params.position.line == 0
