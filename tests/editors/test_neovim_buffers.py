"""In Neovim with our plugin, buffer, disk and what the model was told are the same at each step."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_neovim import Neovim, opened, place
from test_neovim_plugin import FLOAT, fixture_profile, opened_chat

__all__ = ["fixture_profile", "place"]

pytestmark = pytest.mark.editor

ONE = "def double(x):\n    return x + 1\n"
TWO = "def double(x):\n    return x * 2\n"
EDIT = {"path": "calc.py", "old": "x + 1", "new": "x * 2"}
CHECK = "python3 -B -c 'import calc; print(calc.double(4))'"
BUFFER = """
local buffer = vim.fn.bufnr("calc.py")
local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
return { table.concat(lines, "\\n") .. "\\n", vim.bo[buffer].modified }
"""


class Model:
    """Edits the file and then has it checked, by calls of tools; keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.calls = [("edit_file", EDIT), ("run_command", {"command": CHECK})]

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        last = request.json["messages"][-1]
        if last["role"] == "tool":
            self.told.append(last["content"])
        await peer.head()
        if self.calls:
            name, arguments = self.calls.pop(0)
            function = {"name": name, "arguments": json.dumps(arguments)}
            call: dict[str, Any] = {"index": 0, "id": f"c{len(self.calls)}", "type": "function"}
            delta = {"tool_calls": [call | {"function": function}]}
            await peer.event({"choices": [{"index": 0, "delta": delta}]})
            await peer.event(chunk_of("", finish_reason="tool_calls"))
        else:
            await peer.event(chunk_of("Done."))
            await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")


def test_buffer_and_disk_are_one(place: Place, profile: Path) -> None:
    path = place.folder / "calc.py"
    path.write_text(ONE)
    # The server of the editor looks for a real one.
    (place.folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    model = Model()
    config = 'endpoint = "URL"\ncontext_window = 32768'

    def are_both(text: str) -> bool:
        return neovim.lua(BUFFER) == [text, False] and path.read_text() == text

    def answer(neovim: Neovim, what: str) -> None:
        neovim.until(what, lambda: any(what in row for row in neovim.lua(FLOAT)))
        neovim.keys("2")

    with (
        served(model) as url,
        opened(place, profile, config.replace("URL", url)) as neovim,
    ):
        neovim.lua("vim.o.columns, vim.o.lines = 80, 30; vim.cmd.edit('calc.py')")
        opened_chat(neovim, place)
        neovim.keys("GiRepair calc.py.<Esc><CR>")
        answer(neovim, "Change calc.py")
        answer(neovim, "python3")
        neovim.until("the reply", lambda: neovim.lines.count("## You") == 2)
        assert are_both(TWO)
        assert model.told[0].startswith("Changed calc.py: 1 line added, 1 removed.")
        assert "8" in model.told[1]
        neovim.keys("Gi:undo<Esc><CR>")
        neovim.until("the undo", lambda: are_both(ONE) and neovim.lines.count("## You") == 3)
        neovim.keys("Gi:redo<Esc><CR>")
        neovim.until("the redo", lambda: are_both(TWO) and neovim.lines.count("## You") == 4)
        # What a command changes is read again, too; the user's own changes are left.
        neovim.keys("Gi:run echo '# more' >> calc.py<Esc><CR>")
        neovim.until("the command", lambda: are_both(f"{TWO}# more\n"))
