"""Hold a conversation in Neovim with the plugin and write its screens as one animated SVG.

    .venv/bin/python tools/capture_neovim >docs/images/neovim.svg

The editor, the plugin and the server are the real ones; the offline model answers. It runs in a
folder and a home of its own, and needs Neovim and pynvim (`./dev test` installs them).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pynvim

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "kit"))

from picture import Cell, picture  # noqa: E402 - it is found from here on

PLUGIN = ROOT / "editors" / "nvim"
COLUMNS, ROWS = 96, 36

CODE = """\
def total(prices):
    result = 0
    for price in prices:
        result += price
    return result
"""

PATIENCE = 30.0


def main() -> None:
    """Write the picture to standard output."""
    # The server may write a last line while it ends.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder).resolve()
        project = prepare(root)
        init = root / "init.lua"
        init.write_text(
            f"vim.opt.rtp:prepend({str(PLUGIN)!r})\nvim.opt.laststatus = 3\nvim.opt.ruler = false\n"
            "vim.opt.termguicolors = true\nvim.opt.showcmd = false\nvim.opt.swapfile = false\n"
            f"require('aish').setup{{ cmd = {{ {sys.executable!r}, '-m', 'aish_lsp' }} }}\n"
            "vim.opt.statusline = ' %t  %=%{%v:lua.require\\'aish\\'.statusline()%} '\n"
        )
        os.chdir(project)
        command = [str(Path(sys.executable).with_name("nvim")), "--embed", "--headless", "--clean"]
        nvim = pynvim.attach("child", argv=[*command, "-u", str(init), "prices.py"])
        nvim.ui_attach(COLUMNS, ROWS, rgb=True, ext_linegrid=True)
        screen = Screen()
        frames = []
        try:
            for seconds in converse(nvim):
                nvim.command("redraw!")
                screen.follow(nvim)
                frames.append((seconds, [list(row) for row in screen.cells]))
            sys.stdout.write(picture(frames))
        finally:
            nvim.command("qa!", async_=True)
            nvim.close()


def prepare(root: Path) -> Path:
    """Return a small repository; the home, the settings and the data lie beside it."""
    project = root / "home" / "shop"
    (project / "tests").mkdir(parents=True)
    (project / "prices.py").write_text(CODE)
    (project / "tests" / "test_prices.py").write_text("from prices import total\n")
    os.environ.update(
        HOME=str(project.parent),
        AISH_CONFIG=str(root / "config.toml"),
        AISH_DATA_DIR=str(root / "data"),
        AISH_DISCOVERY="off",
    )
    git = ["git", "-C", str(project), "-c", "user.name=You", "-c", "user.email=you@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "Add up prices"],
    ):
        subprocess.run([*git, *words], check=True)
    for number, message in enumerate(["Say what it costs in euros", "Round down, as shops do"]):
        (project / "README").write_text(f"{number}\n")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", message], check=True)
    return project


def converse(nvim: Any) -> Iterator[float]:
    """Ask, run what is suggested, ask again; yield for each screen to show how many seconds."""

    def until(condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("\n".join(nvim.current.buffer[:]))
            time.sleep(0.05)

    def headings(count: int) -> Callable[[], bool]:
        return lambda: list(nvim.current.buffer[:]).count("## You") == count

    def settle(keys: str) -> None:
        time.sleep(1)
        nvim.command(f"nohlsearch | vertical resize 60 | normal! {keys}")
        nvim.command("mode")
        time.sleep(1)

    nvim.input(":Aish<CR>")
    until(headings(1))
    nvim.input("GiShow the last 3 commits.<Esc>")
    settle("G$")
    yield 2.5
    nvim.input("<CR>")
    until(headings(2))
    settle("Gzb")
    yield 2.5
    nvim.input("gg/^CMD: <CR>gx")
    until(lambda: any("exit 0" in line for line in nvim.current.buffer[:]))
    settle("Gzb")
    yield 3.5
    nvim.input("GiUndo the last commit, but keep the changes.<Esc>")
    settle("Gzb$")
    yield 2.5
    nvim.input("<CR>")
    until(headings(3))
    settle("Gzb")
    yield 5


class Screen:
    """What Neovim has drawn, by its UI's events.

    Attributes:
        cells: by row, each cell's text and its attributes.
    """

    def __init__(self) -> None:
        self.cells: list[list[Cell]] = [[(" ", {})] * COLUMNS for _ in range(ROWS)]
        self._looks: dict[int, Mapping[str, Any]] = {}

    def follow(self, nvim: Any) -> None:
        """Take in all that was drawn until now."""
        nvim.exec_lua(f"vim.rpcnotify({nvim.channel_id}, 'drawn')")
        while (message := nvim.next_message())[1] != "drawn":
            if message[1] == "redraw":
                for name, *calls in message[2]:
                    for call in calls:
                        getattr(self, f"_{name}", lambda *_: None)(*call)

    def _hl_attr_define(self, number: int, rgb: Mapping[str, Any], *_: object) -> None:
        self._looks[number] = rgb

    def _grid_line(self, _grid: int, row: int, column: int, cells: list[Any], *_: object) -> None:
        number = 0
        for text, *rest in cells:
            number = rest[0] if rest else number
            for _ in range(rest[1] if len(rest) > 1 else 1):
                self.cells[row][column] = text, self._looks.get(number, {})
                column += 1

    def _grid_clear(self, _grid: int) -> None:
        self.cells = [[(" ", {})] * COLUMNS for _ in range(ROWS)]

    def _grid_scroll(
        self, _grid: int, top: int, bottom: int, left: int, right: int, rows: int, _columns: int
    ) -> None:
        order = range(top, bottom - rows) if rows > 0 else range(bottom - 1, top - rows - 1, -1)
        for row in order:
            self.cells[row][left:right] = self.cells[row + rows][left:right]


if __name__ == "__main__":
    main()
