"""The project's tree in Neovim, which tells of files that come and go outside of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import Place, messages
from test_neovim import Neovim, init, opened, place

__all__ = ["init", "place"]

pytestmark = pytest.mark.editor

#: What docs/editors/neovim.md says for those who want Neovim to watch on Linux, too.
WATCHES = """
vim.lsp.config("aish", {
  capabilities = { workspace = { didChangeWatchedFiles = { dynamicRegistration = true } } },
})
"""
ASK = """
local client = vim.lsp.get_clients({ name = "aish" })[1]
local params = { command = "aish.project.show", arguments = { { depth = 1 } } }
return client:request_sync("workspace/executeCommand", params, 60000, 0).result.block
"""


@pytest.fixture
def neovim(place: Place, init: Path) -> Iterator[Neovim]:
    init.write_text(init.read_text() + WATCHES)
    (place.folder / "src").mkdir()
    (place.folder / "src" / "one.py").touch()
    with opened(place, init) as started:
        yield started


def told(place: Place) -> list[str]:
    """Return the files that Neovim has told of, by its watch alone."""
    return [
        Path(change["uri"]).name
        for message in messages(place.sent.read_bytes())
        if message.get("method") == "workspace/didChangeWatchedFiles"
        for change in message["params"]["changes"]
    ]


def test_files_that_come_and_go_outside(neovim: Neovim, place: Place) -> None:
    assert "src/ … 1 file" in neovim.lua(ASK)
    # The folder is not open in the tree, so that only the watch can tell. Nobody says when that
    # has begun, and it says nothing while there is something new every moment.
    made: list[Path] = []

    def noticed() -> bool:
        if time.monotonic() > 5 * len(made) + begun:
            made.append(place.folder / "src" / f"new_{len(made)}.py")
            made[-1].touch()
        return made[-1].name in told(place) and "src/ … 1 file" not in neovim.lua(ASK)

    begun = time.monotonic()
    neovim.until("a file that came", noticed)
    for path in made:
        path.unlink()
    neovim.until("files that went", lambda: "src/ … 1 file" in neovim.lua(ASK))
