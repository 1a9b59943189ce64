"""The walk of ``walking`` in Vim with ALE and our plugin, as its page says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from editor_parts import Place, blocks
from fault_server import served
from test_vim import TIMEOUT, Vim, configure, needs_ale, place
from walking import NAME, Hands, Model, Walk, prepare

__all__ = ["place"]

pytestmark = pytest.mark.editor

#: Has Vim write what the buffers of the file and the chat hold to a file, whenever that is taken
#: away, and whether vim-lsp lists what can be done.
SHOW = f"""
function! Show(timer) abort
  if filereadable($SHOWN)
    return
  endif
  let l:state = [getbufline('{NAME}', 1, '$'), getbufvar('{NAME}', '&modified')]
  let l:state += [getbufline('chat.md', 1, '$'), bufwinnr('lsp-quickpick')]
  call writefile([json_encode(l:state)], $SHOWN . '.new')
  call rename($SHOWN . '.new', $SHOWN)
endfunction
call timer_start(100, 'Show', {{'repeat': -1}})
set noswapfile
"""


class InVim:
    """The keys of a user of Vim that are the same with each client."""

    def __init__(self, vim: Vim, place: Place, shown: Path) -> None:
        self._vim = vim
        self._place = place
        self._shown = shown

    def look(self) -> None:
        self._vim.keys(f":buffer {NAME}\r")

    def buffer(self) -> tuple[str, bool]:
        lines, is_unsaved, *_ = self._state()
        return "".join(f"{line}\n" for line in lines), bool(is_unsaved)

    def put_above(self, line: str) -> None:
        self._vim.keys(f":buffer {NAME}\rggO{line}\x1b")

    def _state(self) -> Any:
        """Return what Vim shows from now on, not a moment ago."""
        self._shown.unlink()
        self._vim.until("its state", self._shown.exists)
        return json.loads(self._shown.read_text())


def walk(place: Place, monkeypatch: pytest.MonkeyPatch, hands: Callable[..., Hands]) -> None:
    """Walk in one Vim, with another one beside it, each by such hands."""
    model = Model()
    made, vims = [], []
    with served(model) as url:
        prepare(place, url)
        try:
            for name in ("one", "two"):
                shown = Path(os.environ["HOME"], name)
                monkeypatch.setenv("SHOWN", str(shown))
                vims.append(Vim(place.folder / NAME))
                made.append(hands(vims[-1], place, shown))
                vims[-1].until("its buffer", shown.exists)
            Walk(place, model, *made).take()
        finally:
            for vim in vims:
                vim.close()


class WithAle(InVim):
    """The keys of a user of Vim with ALE, whom the server cannot ask anything."""

    can_agree = False

    @property
    def _chat(self) -> str:
        path = self._place.chat
        return path.read_text() if path.exists() else ""

    def ask(self, text: str, agreed: int = 0) -> None:
        assert agreed == 0
        self._to_chat()
        before = self._chat.count("## You")
        self._vim.keys(f":checktime\rG:execute 'normal! A{text}'\r\\as")
        end = time.monotonic() + TIMEOUT
        while self._chat.count("## You") != before + 1:
            assert time.monotonic() < end, f"waited for the end of {text}:\n{self._chat[-3000:]}"
            time.sleep(0.1)
            if text.startswith(":norris"):
                # It waits for an answer until the next command comes.
                self._vim.keys("\\ac")

    def run(self, command: str) -> None:
        self._to_chat()
        before = self._chat.count("> exit 0")
        self._vim.keys(":checktime\rG?^CMD: \r\\aa")
        self._vim.until_shown("Type number")
        self._vim.keys("1\r")
        self._vim.until("the output", lambda: self._chat.count("> exit 0") == before + 1)

    def _to_chat(self) -> None:
        self._vim.keys(f":buffer {NAME}\r\\ao")
        if not self._chat:
            self._vim.until_shown("## You")
            self._vim.keys(":update\r")
            self._vim.until("a heading", lambda: "## You" in self._chat)


def test_a_walk(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_ale()
    [page] = blocks("vim.md", "vim")
    configure(page + SHOW)
    walk(place, monkeypatch, WithAle)
