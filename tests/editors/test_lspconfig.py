"""What nvim-lspconfig would take: that Neovim takes it, and that it is enough for a chat."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import QUESTION, Place
from test_neovim import Neovim, find, opened, place

__all__ = ["place"]

pytestmark = pytest.mark.editor

EDITORS = Path(__file__).resolve().parents[2] / "editors"
CONFIG = EDITORS / "nvim-lspconfig" / "aish.lua"


@pytest.fixture(name="collection")
def fixture_collection(tmp_path: Path) -> Path:
    """A plugin that has the file where nvim-lspconfig has its own."""
    folder = tmp_path / "nvim-lspconfig"
    (folder / "lsp").mkdir(parents=True)
    shutil.copy(CONFIG, folder / "lsp")
    return folder


@pytest.fixture(name="neovim")
def fixture_neovim(place: Place, tmp_path: Path, collection: Path) -> Iterator[Neovim]:
    """Neovim of somebody who has this, does what its description says, and nothing else."""
    [snippet] = re.findall(r"^```lua\n(.*?)^```$", brief(), re.MULTILINE | re.DOTALL)
    init = tmp_path / "init.lua"
    init.write_text(
        f"vim.g.mapleader = ' '\nvim.opt.rtp:prepend({str(collection)!r})\n"
        f"vim.lsp.enable('aish')\n{snippet}"
    )
    with opened(place, init) as started:
        yield started


def brief() -> str:
    """Return the description, as nvim-lspconfig takes it out of the file."""
    first, *lines = CONFIG.read_text().splitlines()
    assert first == "---@brief"
    end = next(number for number, line in enumerate(lines) if not line.startswith("---"))
    return "\n".join(line.removeprefix("---").removeprefix(" ") for line in lines[:end])


def test_the_table_has_what_is_known_and_nothing_else() -> None:
    assert "---@type vim.lsp.Config\nreturn {" in CONFIG.read_text()
    print_it = f"io.stdout:write(vim.json.encode(dofile({str(CONFIG)!r})))"
    done = subprocess.run(
        [find(), "--clean", "--headless", "+lua " + print_it, "+qa!"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"cmd": ["aish-lsp"], "root_markers": [".git"]}


def test_a_conversation(neovim: Neovim, place: Place) -> None:
    neovim.keys(" ao")
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("a heading", lambda: "## You" in neovim.lines)
    neovim.keys(f"Gi{QUESTION}<Esc>gra")
    neovim.choose_titled("Send")
    neovim.until("a reply", lambda: neovim.lines.count("## You") == 2)
    neovim.keys("gg/^CMD: make<CR>gra")
    neovim.choose_titled("Run: make test")
    neovim.until("the output", lambda: any("exit 0" in line for line in neovim.lines))


@pytest.mark.parametrize("first", [True, False])
def test_it_takes_nothing_from_the_plugin(
    place: Place, tmp_path: Path, collection: Path, first: bool
) -> None:
    plugin = EDITORS / "nvim"
    order = [collection, plugin] if first else [plugin, collection]
    init = tmp_path / "init.lua"
    init.write_text(
        "".join(f"vim.opt.rtp:append({str(path)!r})\n" for path in order)
        + "require('aish').setup{}\n"
    )
    with opened(place, init) as neovim:
        config = "vim.lsp.config.aish"
        assert neovim.lua(f"return type({config}.cmd)") == "function"
        assert neovim.lua(f"return {config}.filetypes") is None
        assert neovim.lua(f"return {config}.root_markers") == [".git"]
        assert neovim.lua(f"return type({config}.handlers['aish/approve'])") == "function"
