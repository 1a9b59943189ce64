"""Undo in Neovim: what a command of the chat did, taken back in the chat."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from editor_parts import Place
from test_neovim import init, opened, place
from test_neovim_memory import say

__all__ = ["init", "place"]

pytestmark = [
    pytest.mark.editor,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]


def test_a_command_is_undone_and_redone_in_the_chat(place: Place, init: Path) -> None:
    (place.folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q"], cwd=place.folder, check=True)
    with opened(place, init) as neovim:
        say(neovim, place, ":run mv main.py moved.py")
        assert not (place.folder / "main.py").exists()
        say(neovim, place, ":undo")
        assert "Put back: main.py" in neovim.lines
        assert "Removed: moved.py" in neovim.lines
        assert (place.folder / "main.py").read_text() == "print()\n"
        (place.folder / "main.py").write_text("print('mine')\n")
        say(neovim, place, ":redo keep")
        assert "Changed since, left alone: main.py" in neovim.lines
        assert (place.folder / "moved.py").exists()
