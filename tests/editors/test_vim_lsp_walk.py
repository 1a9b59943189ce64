"""The walk of ``walking`` in Vim with vim-lsp and our plugin, as its page says.

No package has vim-lsp: ``VIM_LSP`` names a copy of its repository.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from editor_parts import Place
from fault_server import served
from test_vim import Vim, configure, place
from walking import NAME, Model, Walk, prepare

__all__ = ["place"]

pytestmark = pytest.mark.editor

#: Has Vim write what the buffers of the file and the chat hold to a file, again and again, and
#: whether vim-lsp lists what can be done.
SHOW = f"""
function! Show(timer) abort
  let l:state = [getbufline('{NAME}', 1, '$'), getbufvar('{NAME}', '&modified')]
  let l:state += [getbufline('chat.md', 1, '$'), bufwinnr('lsp-quickpick')]
  call writefile([json_encode(l:state)], $SHOWN . '.new')
  call rename($SHOWN . '.new', $SHOWN)
endfunction
call timer_start(100, 'Show', {{'repeat': -1}})
set noswapfile
"""


class Hands:
    """The keys of a user of Vim, whom the server asks."""

    can_agree = True

    def __init__(self, vim: Vim, shown: Path) -> None:
        self._vim = vim
        self._shown = shown

    def _state(self) -> Any:
        """Return what Vim shows from now on, not a moment ago."""
        self._shown.unlink()
        self._vim.until("its state", self._shown.exists)
        return json.loads(self._shown.read_text())

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
            for key in "2\r":
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

    def look(self) -> None:
        self._vim.keys(f":buffer {NAME}\r")

    def buffer(self) -> tuple[str, bool]:
        lines, is_unsaved, *_ = self._state()
        return "".join(f"{line}\n" for line in lines), bool(is_unsaved)

    def put_above(self, line: str) -> None:
        self._vim.keys(f":buffer {NAME}\rggO{line}\x1b")


def test_a_walk(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = os.environ.get("VIM_LSP")
    if copy is None:
        pytest.skip("VIM_LSP names no copy of vim-lsp's repository")
    model = Model()
    configure(SHOW)
    home = Path(os.environ["HOME"])
    shutil.copytree(copy, home / ".vim" / "pack" / "lsp" / "start" / "vim-lsp")
    hands, vims = [], []
    with served(model) as url:
        prepare(place, url)
        try:
            for name in ("one", "two"):
                shown = Path(os.environ["HOME"], name)
                monkeypatch.setenv("SHOWN", str(shown))
                vims.append(Vim(place.folder / NAME))
                hands.append(Hands(vims[-1], shown))
                vims[-1].until("its buffer", shown.exists)
            Walk(place, model, *hands).take()
        finally:
            for vim in vims:
                vim.close()
