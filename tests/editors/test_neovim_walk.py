"""The walk of ``walking`` in Neovim, with our plugin and with only the lines of its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from editor_parts import Place
from fault_server import served
from test_neovim import Neovim, init, place
from test_neovim_plugin import BELOW, FLOAT, VIRTUAL, fixture_profile
from walking import NAME, Model, Walk, prepare

__all__ = ["fixture_profile", "init", "place"]

pytestmark = pytest.mark.editor

BUFFER = f"""
local buffer = vim.fn.bufnr("{NAME}")
local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
return {{ table.concat(lines, "\\n") .. "\\n", vim.bo[buffer].modified }}
"""


class Hands:
    """The keys of a user of Neovim, with the plugin or without."""

    can_agree = True

    def __init__(self, neovim: Neovim, place: Place, *, has_plugin: bool) -> None:
        self._neovim = neovim
        self._place = place
        self._has_plugin = has_plugin

    def ask(self, text: str, agreed: int = 0) -> None:
        neovim = self._neovim
        self._to_chat()
        headings = neovim.lines.count("## You")
        neovim.keys(f"Gi{text}<Esc>{'<CR>' if self._has_plugin else ' as'}")
        for _ in range(agreed):
            self._agree()
        neovim.until(f"the end of {text}", lambda: neovim.lines.count("## You") == headings + 1)

    def _agree(self) -> None:
        neovim = self._neovim
        if not self._has_plugin:
            neovim.choose(2, "1: Cancel")
            return
        neovim.until("a question", lambda: any("Cancel" in row for row in neovim.lua(FLOAT)))
        neovim.keys("2")
        neovim.until("no question", lambda: not neovim.lua(FLOAT))

    def run(self, command: str) -> None:
        self._to_chat()
        neovim = self._neovim
        before = sum("exit 0" in line for line in neovim.lines)
        if self._has_plugin:
            suggestions = sum(line.startswith("CMD: ") for line in neovim.lines)
            neovim.until("what it could do", lambda: self._offers() == suggestions)
        neovim.keys("G:call search('^CMD: ', 'bc')<CR>" + ("gx" if self._has_plugin else "gra"))
        if not self._has_plugin:
            neovim.choose_titled(f"Run: {command}")
        neovim.until(
            "the output", lambda: sum("exit 0" in line for line in neovim.lines) == before + 1
        )

    def _offers(self) -> int:
        shown = [*self._neovim.lua(VIRTUAL), *self._neovim.lua(BELOW)]
        return sum("caution" in row for row in shown)

    def _to_chat(self) -> None:
        neovim = self._neovim
        if neovim.name == str(self._place.chat):
            return
        neovim.keys(":Aish<CR>" if self._has_plugin else " ao")
        neovim.until("the chat", lambda: neovim.name == str(self._place.chat))
        neovim.until("a heading", lambda: "## You" in neovim.lines)

    def look(self) -> None:
        self._neovim.keys(f":buffer {NAME}<CR>")
        # What a terminal tells once its window is the one with the keys.
        self._neovim.lua("vim.cmd('doautocmd FocusGained') vim.cmd('checktime')")

    def buffer(self) -> tuple[str, bool]:
        text, is_unsaved = self._neovim.lua(BUFFER)
        return text, is_unsaved

    def put_above(self, line: str) -> None:
        self._neovim.keys(f":buffer {NAME}<CR>ggO{line}<Esc>")


@pytest.mark.parametrize("name", ["profile", "init"], ids=["plugin", "page"])
def test_a_walk(place: Place, request: pytest.FixtureRequest, name: str) -> None:
    model = Model()
    chosen: Path = request.getfixturevalue(name)
    with served(model) as url:
        prepare(place, url)
        editors = []
        try:
            for which in ("one", "two"):
                home = chosen.with_name(which)
                home.mkdir()
                # Each has its own socket beside its configuration.
                own = home / "init.lua"
                own.write_text(chosen.read_text())
                neovim = Neovim(own, place.folder / NAME)
                editors.append(neovim)
            hands: list[Any] = [Hands(one, place, has_plugin=name == "profile") for one in editors]
            Walk(place, model, *hands).take()
        finally:
            for neovim in editors:
                neovim.close()
