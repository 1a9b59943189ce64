"""How long Neovim stands still while a reply of many deltas streams into the chat.

    python tests/bench/bench_neovim.py [DELTAS]

A timer in Neovim's own loop looks every millisecond; what lies between two looks is a frame, in
which nothing else could be typed or drawn. Printed are the longest, the 99th percentile, and how
many took over 50 ms: with nothing going on, by the lines of docs/editors/neovim.md for use without
the plugin, and by the plugin.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / part) for part in ("editors", "servers", "lsp")]

from editor_parts import Place, blocks  # noqa: E402 - the folders of the tests come first
from fault_server import Peer, Request, chunk_of, served  # noqa: E402 - the folders of the tests come first
from test_neovim import Neovim, opened  # noqa: E402 - the folders of the tests come first

PLUGIN = TESTS.parent / "editors" / "nvim"

WATCH = """
local last, gaps = vim.uv.hrtime(), {}
local timer = vim.uv.new_timer()
timer:start(1, 1, function()
  local now = vim.uv.hrtime()
  gaps[#gaps + 1] = (now - last) / 1e6
  last = now
end)
watched = function()
  timer:close()
  table.sort(gaps)
  local late = 0
  for _, gap in ipairs(gaps) do
    late = late + (gap > 50 and 1 or 0)
  end
  return { gaps[#gaps], gaps[math.ceil(#gaps * 0.99)], late }
end
"""


def reply(deltas: int) -> list[str]:
    """Return a reply in pieces: prose, lists, code and commands, as models write."""
    line = "Some words of an answer, as it *may* be, with `code`.\n"
    rows = [line, "- a point of a list, and another word\n", "\n", "CMD: ls -la src\n", "\n"]
    code = ["```python\n", "def f(x):\n", "    return x + 1\n", "```\n", "\n"]
    words = [word + " " for row in [*rows * 6, *code] for word in row.splitlines(keepends=True)]
    pieces = [part for row in words for part in (row[: len(row) // 2], row[len(row) // 2 :])]
    return [pieces[number % len(pieces)].replace("\n ", "\n") for number in range(deltas)]


@contextlib.contextmanager
def neovim(root: Path, url: str, *, by_plugin: bool) -> Iterator[tuple[Neovim, Place]]:
    """Start Neovim, with the plugin or by the page's lines."""
    place = Place.make(root)
    os.environ.update(place.environment)
    os.environ["PATH"] = f"{place.programs}:{os.environ['PATH']}"
    os.chdir(place.folder)
    init = root / "init.lua"
    if by_plugin:
        packages = root / "site" / "pack" / "here" / "start"
        packages.mkdir(parents=True)
        with tarfile.open(root / "plugin.tar", "w") as archive:
            archive.add(PLUGIN, "aish.nvim")
        subprocess.run(["tar", "-xf", root / "plugin.tar", "-C", packages], check=True)
        setup = "vim.cmd.packadd('aish.nvim')\nrequire('aish').setup{ window = 'current' }\n"
        init.write_text(f"vim.opt.packpath:prepend({str(root / 'site')!r})\n{setup}")
    else:
        lines = blocks("neovim.md", "lua", "## Without the plugin")
        init.write_text("\n".join(['vim.g.mapleader = " "', *lines]))
    with opened(place, init, f'endpoint = "{url}"\ncontext_window = 1000000') as started:
        yield started, place


def streamed(root: Path, url: str, *, by_plugin: bool) -> list[float]:
    """Return the longest frame, the 99th percentile, and how many are late, in one reply."""
    with neovim(root, url, by_plugin=by_plugin) as (editor, place):
        editor.keys(":Aish<CR>" if by_plugin else " ao")
        editor.until("the chat", lambda: editor.name == str(place.chat))
        editor.until("a heading", lambda: "## You" in editor.lines)
        editor.lua(WATCH)
        editor.keys("GiTell me much.<Esc>" + ("<CR>" if by_plugin else " as"))
        # Not to be in its way: the lines are asked for seldom.
        wait = "vim.wait(20000, function() return vim.fn.search('^## You$', 'nw') > 20 end, 500)"
        editor.lua(f"local _ = {wait}")
        editor.until("the end", lambda: editor.lines.count("## You") == 2)
        frames: list[float] = editor.lua("return watched()")
        return frames


def idle(root: Path, url: str) -> list[float]:
    """Return the same of a Neovim in which nothing goes on for five seconds."""
    with neovim(root, url, by_plugin=True) as (editor, _):
        editor.lua(WATCH)
        editor.lua("vim.wait(5000, function() return false end, 500)")
        frames: list[float] = editor.lua("return watched()")
        return frames


def main(deltas: int) -> None:
    """Measure and print."""
    pieces = reply(deltas)

    async def script(request: Request, peer: Peer) -> Any:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        await peer.head()
        for piece in pieces:
            await peer.event(chunk_of(piece))
        await peer.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    with served(script) as url, tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        told("idle", idle(root / "idle", url))
        for by_plugin in (False, True):
            name = "plugin" if by_plugin else "page"
            told(name, streamed(root / name, url, by_plugin=by_plugin))


def told(name: str, frames: list[float]) -> None:
    longest, most, late = frames
    rest = f"99 % below {most:.1f} ms, {late:.0f} over 50 ms"
    sys.stdout.write(f"{name:8} longest frame {longest:7.1f} ms, {rest}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
