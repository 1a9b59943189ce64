"""What the server says beside the protocol: nothing on stderr, a line on the client for later."""

from __future__ import annotations

from pathlib import Path

import pytest
from client import Client
from conversing import ask

pytestmark = pytest.mark.real_start


async def test_an_ordinary_session_leaves_stderr_empty_and_one_line_about_the_client(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "Makefile").write_text("test:\n\ttrue\n")
    async with Client() as client:
        await client.initialize(folder, clientInfo={"name": "Neovim", "version": "0.11.4"})
        assert not (tmp_path / "data" / "recent.log").exists()
        await ask(client, "How do I run the tests?", "a")
    assert client.stderr == ""
    [line] = (tmp_path / "data" / "recent.log").read_text().splitlines()
    assert " client: Neovim 0.11.4 (aish-lsp " in line
    assert str(folder) not in line
