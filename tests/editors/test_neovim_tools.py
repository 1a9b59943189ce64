"""A model that calls tools, seen in Neovim with our plugin: the screen of docs/tools.md."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import llama_server
import pytest
import tiny_model
from calling_proxy import Caller
from editor_parts import Place
from fault_server import served
from test_neovim import SCREEN, opened, place
from test_neovim_plugin import FLOAT, fixture_profile, opened_chat

__all__ = ["fixture_profile", "place"]

pytestmark = [pytest.mark.editor, pytest.mark.llama]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tools.md"

#: The rows of the screen, each with its blanks.
ROWS = """
local rows = {}
for row = 1, vim.o.lines do
  local cells = {}
  for column = 1, vim.o.columns do
    table.insert(cells, vim.fn.screenstring(row, column))
  end
  table.insert(rows, table.concat(cells))
end
return rows
"""

CALC = "def double(x):\n    return x + 1\n"
CHECK = "import calc\nassert calc.double(4) == 8\nprint('all is well')\n"
EDIT = {"path": "calc.py", "old": "    return x + 1\n", "new": "    return 2 * x\n"}


def blanks(match: re.Match[str]) -> str:
    """Return as many blanks as were matched."""
    return " " * len(match[0])


@pytest.fixture(scope="module")
def calling() -> Iterator[llama_server.LlamaServer]:
    """A server whose template knows of tools."""
    if (reason := llama_server.missing_part()) is not None:
        pytest.skip(reason)
    with llama_server.LlamaServer(model=tiny_model.calling_model_path(), context=32768) as running:
        yield running


def test_each_change_is_asked_about_with_its_diff(
    place: Place, profile: Path, calling: llama_server.LlamaServer
) -> None:
    (place.folder / "calc.py").write_text(CALC)
    (place.folder / "check.py").write_text(CHECK)
    # The server of the editor looks for a real one.
    (place.folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    caller = Caller(
        calling,
        [
            ("Let me look.", [("read_file", {"path": "calc.py"})]),
            ("", [("edit_file", EDIT)]),
            ("", [("run_command", {"command": "python3 check.py"})]),
            ("Done.", ()),
        ],
    )
    model = 'endpoint = "URL"\ncontext_window = 32768\nmax_output_tokens = 512'
    with (
        served(caller) as url,
        opened(place, profile, model.replace("URL", url)) as neovim,
    ):
        neovim.lua("vim.o.columns, vim.o.lines = 80, 30")
        opened_chat(neovim, place)
        neovim.keys("GiRepair calc.py.<Esc><CR>")
        neovim.until(
            "the question", lambda: any("Change calc.py" in row for row in neovim.lua(FLOAT))
        )
        neovim.until("the call", lambda: "Now (" in neovim.lua(SCREEN))
        screen = neovim.lua(ROWS)
        neovim.keys("2")
        neovim.until(
            "the next", lambda: any("python3 check.py" in row for row in neovim.lua(FLOAT))
        )
        neovim.keys("2")
        neovim.until(
            "the end", lambda: neovim.lines.count("## You") == 2 and "Done." in neovim.lines
        )
        assert (place.folder / "calc.py").read_text() == CALC.replace("x + 1", "2 * x")
        neovim.keys("Gi:undo<Esc><CR>")
        neovim.until("the undo", lambda: (place.folder / "calc.py").read_text() == CALC)
    # What differs each time: the job's number, and the line that tells what goes on.
    rows = [re.sub(r"\([0-9a-f]{8}\)", "(5d0c2f1e)", row) for row in screen]
    rows = [re.sub(r"^\S aish answers(?: \(\d+ s\))?", blanks, row).rstrip() for row in rows]
    end = next(number for number, row in enumerate(rows) if "╯" in row)
    seen = "\n".join(rows[: end + 1]) + "\n"
    assert f"```text\n{seen}```\n" in PAGE.read_text(encoding="utf-8"), seen
