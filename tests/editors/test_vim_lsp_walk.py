"""The walk of ``walking`` in Vim with vim-lsp and our plugin, as its page says.

No package has vim-lsp: ``VIM_LSP`` names a copy of its repository.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from editor_parts import Place
from test_vim import configure, place
from test_vim_walk import SHOW, InVim, walk
from walking import NAME

__all__ = ["place"]

pytestmark = pytest.mark.editor


class WithVimLsp(InVim):
    """The keys of a user of Vim with vim-lsp, whom the server asks."""

    can_agree = True

    def _count(self, text: str) -> int:
        """Return how often a text is in the chat's buffer."""
        return "\n".join(self._state()[2]).count(text)

    def ask(self, text: str, agreed: int = 0) -> None:
        self._to_chat()
        before = self._count("## You")
        times = self._count(text)
        self._vim.keys(f"G:execute 'normal! A{text}'\r")
        self._vim.until("the text", lambda: self._count(text) == times + 1)
        self._vim.printed = b""
        self._vim.keys("\\as")
        for _ in range(agreed):
            self._vim.until_shown("cancels):")
            # Vim drops what is typed before it reads.
            for key in "1\r":
                self._state()
                self._vim.keys(key)
        self._vim.until(f"the end of {text}", lambda: self._count("## You") == before + 1)

    def run(self, command: str) -> None:
        self._to_chat()
        before = self._count("> exit 0")
        self._vim.keys("G?^CMD: \r\\aa")
        self._vim.until("the list", lambda: self._state()[3] > 0)
        self._vim.keys("\r")
        self._vim.until("the output", lambda: self._count("> exit 0") == before + 1)

    def _to_chat(self) -> None:
        self._vim.keys(f":buffer {NAME}\r\\ao")
        self._vim.until("a heading", lambda: self._count("## You") > 0)


def test_a_walk(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = os.environ.get("VIM_LSP")
    if copy is None:
        pytest.skip("VIM_LSP names no copy of vim-lsp's repository")
    configure(SHOW)
    home = Path(os.environ["HOME"])
    shutil.copytree(copy, home / ".vim" / "pack" / "lsp" / "start" / "vim-lsp")
    walk(place, monkeypatch, WithVimLsp)
