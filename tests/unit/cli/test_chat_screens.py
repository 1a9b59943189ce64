"""The terminal's chat as it looks, in tmux, at 80 and at 120 columns, and where it may break.

``SCREENS=write`` in the environment draws the pictures of the documentation anew.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fault_server import FaultServer, Peer, Request, chunk_of
from picture import BACK, TEXT, Cell, picture, texts
from rich.color import Color, blend_rgb
from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.text import Text
from test_hostile_reply import HOSTILE
from tmux import Tmux

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed"),
]

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"

#: The colours of a terminal, from black to bright white.
PALETTE = (
    *(0x45475A, 0xF38BA8, 0xA6E3A1, 0xF9E2AF, 0x89B4FA, 0xF5C2E7, 0x94E2D5, 0xBAC2DE),
    *(0x7F849C, 0xF38BA8, 0xA6E3A1, 0xF9E2AF, 0x89B4FA, 0xF5C2E7, 0x94E2D5, 0xCDD6F4),
)

REPLY = """\
The total is one too high, because `result` starts at **1** and not at 0. Everything that is added \
to it later is right.

## What to change

1. In `cart.py`, begin with zero:

   ```diff
   --- cart.py
   +++ cart.py
   @@ -1,4 +1,4 @@
    def total(prices):
   -    result = 1
   +    result = 0
   ```

2. Or let Python add:

   ```python
   def total(prices: list[float]) -> float:
       return sum(prices)  # 0 for an empty cart
   ```

| file       | tests | failing |
|------------|------:|--------:|
| `cart.py`  |    12 |       1 |
| `order.py` |     7 |       0 |

Then run the tests, and commit:

CMD: python3 -m unittest

```sh
git add cart.py
git commit -m "Begin with zero"
```
"""


@asynccontextmanager
async def chatting(
    folder: Path,
    reply: str,
    columns: int = 80,
    gate: asyncio.Event | None = None,
    env: dict[str, str] | None = None,
) -> AsyncIterator[Tmux]:
    """Chat, in a terminal, with a model that replies in small pieces; its end waits at the gate."""

    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        pieces = [reply[at : at + 500] for at in range(0, len(reply), 500)]
        for piece in pieces[:-1]:
            await peer.event(chunk_of(piece))
        if gate is not None:
            await gate.wait()
        await peer.event(chunk_of(pieces[-1]))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")
        await peer.chunk(b"")

    project = folder / "shop"
    project.mkdir(exist_ok=True)
    async with FaultServer(script) as server:
        config = folder / "config.toml"
        model = f'[models.big]\nendpoint = "{server.url}"\nmodel = "m"\ncontext_window = 16384\n'
        config.write_text(f'default_model = "big"\n{model}')
        more = {"AISH_DISCOVERY": "off", "PYTHONWARNINGS": "ignore", **(env or {})}
        async with Tmux(folder).running(f"chat --workspace {project}", columns, 56, **more) as tmux:
            yield tmux


def cells(screen: str, columns: int) -> list[list[Cell]]:
    """Return the cells of a screen that tmux captured."""
    console = Console(width=columns)
    rows: list[list[Cell]] = []
    for line in screen.rstrip("\n").split("\n"):
        row: list[Cell] = []
        for text, style, _ in Text.from_ansi(line).render(console):
            look: dict[str, object] = {"bold": bool(style and style.bold)}
            if style and isinstance(style.color, Color) and style.color.number is not None:
                look["foreground"] = PALETTE[style.color.number]
            elif style and style.dim:
                text_rgb, back_rgb = (ColorTriplet(*one.to_bytes(3)) for one in (TEXT, BACK))
                look["foreground"] = int(blend_rgb(text_rgb, back_rgb).hex[1:], 16)
            row += [(character, look) for character in text]
        rows.append((row + [(" ", {})] * columns)[:columns])
    return rows


@pytest.mark.parametrize("columns", [80, 120])
async def test_the_picture_of_a_chat_is_what_the_terminal_shows(
    tmp_path: Path, columns: int
) -> None:
    async with chatting(tmp_path, REPLY, columns) as tmux:
        await tmux.until("aish>")
        await tmux.keys("Why is the total one too high?", "Enter")
        await tmux.until("lets you change it first")
        await tmux.keys("and for")
        await tmux.until("and for")
        screen = await tmux.run("capture-pane", "-p", "-e", "-N")
    shown = picture([(0.0, cells(screen, columns))])
    file = IMAGES / f"chat-{columns}.svg"
    if os.environ.get("SCREENS") == "write":
        file.write_text(shown, encoding="utf-8")
    assert texts(shown) == texts(file.read_text(encoding="utf-8"))


async def test_a_notice_at_the_end_of_a_text_without_a_line_end_stands_below_it(
    tmp_path: Path,
) -> None:
    reply = "First.\n\n" + "It goes on and on without an end, the same again. " * 60
    async with chatting(tmp_path, reply) as tmux:
        await tmux.until("aish>")
        await tmux.keys("why?", "Enter")
        screen = await tmux.until("replies are stopped")
        _, notice = screen.split("aish-lsp: The reply from big was stopped")
        assert "It goes on" not in notice
        assert screen.index("First.") < screen.index("It goes on")


async def test_a_block_is_shown_and_a_message_typed_while_the_reply_arrives(tmp_path: Path) -> None:
    gate = asyncio.Event()
    reply = (
        "One **bold** paragraph." + " " * 477 + "\n\n```py\nx = 1\n" + "# " + "y" * 480 + "\n```\n"
    )
    async with chatting(tmp_path, reply, gate=gate) as tmux:
        await tmux.until("aish>")
        await tmux.keys("why?", "Enter")
        await tmux.until("paragraph.")
        await tmux.keys("and then?")
        screen = await tmux.until("aish> and then?")
        assert "**" not in screen
        await tmux.run("resize-window", "-x", "40", "-y", "30")
        gate.set()
        await tmux.until("yyy")
        await tmux.until("aish> and then?")
        await tmux.keys("Enter")
        await tmux.keys("exit", "Enter")
        await tmux.until("exit 0")
    [log] = (tmp_path / "data").glob("workspaces/*/sessions/*.jsonl")
    assert log.read_text().count('"and then?"') == 1


async def test_it_says_whom_it_waits_for_and_the_help_names_edit(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with chatting(tmp_path, "Yes.\n", gate=gate) as tmux:
        await tmux.until("aish>")
        await tmux.keys("why?", "Enter")
        await tmux.until("waiting for big ... Ctrl-C stops")
        gate.set()
        assert "waiting for" not in await tmux.until("Yes.")
        await tmux.keys(":help", "Enter")
        await tmux.until(":edit N")


async def test_a_hostile_reply_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    async with chatting(tmp_path, HOSTILE + "\n\x1b]8;;http://e.example\x1b\\x", 100) as tmux:
        await tmux.until("aish>")
        await tmux.keys("why?", "Enter")
        screen = await tmux.until("lets you change it first")
        assert r"\x1b[2J\x1b[3J\x1b[1;1HAll is well.\x1b]52;c;ZXZpbA==\x07" in screen
        assert r"\x1b]8;;http://e.example\x1b\x" in re.sub(r"\x1b\[[\d;]*m", "", screen)
        assert "\x1b]" not in screen
        assert r"rm -rf /nowhere \u202e" in screen
        assert await tmux.run("show-buffer") == ""
        assert "owned" not in await tmux.run("display-message", "-p", "#{pane_title}")
        await tmux.keys(":edit 1", "Enter")
        await tmux.until("It holds characters that are not seen")


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
async def test_without_colours_nothing_is_coloured(tmp_path: Path, env: dict[str, str]) -> None:
    async with chatting(tmp_path, REPLY, 40, env=env) as tmux:
        await tmux.until("aish>")
        await tmux.keys("why?", "Enter")
        screen = await tmux.until("runs one of them")
        assert "\x1b" not in screen.partition("why?")[2].partition("runs one of them")[0]
        await tmux.keys("exit", "Enter")
        await tmux.until("exit 0")


async def test_a_command_is_edited_with_what_is_suggested_before_it_runs(tmp_path: Path) -> None:
    async with chatting(tmp_path, "CMD: echo <word>\n") as tmux:
        await tmux.until("aish>")
        await tmux.keys("how?", "Enter")
        await tmux.until("fill in <word>")
        await tmux.keys(":run 1", "Enter")
        await tmux.until("Not run: fill in <word>")
        await tmux.keys(":edit 1", "Enter")
        await tmux.until("aish> :run echo <word>")
        await tmux.keys("Enter")
        await tmux.until("aish> :run echo <word>\naish-lsp: Not run: fill in <word>")
        await tmux.keys(":edit 1", "Enter")
        await tmux.until("aish> :run echo <word>\n\n")
        await tmux.keys(*["BSpace"] * len("<word>"), "hello", "Enter")
        await tmux.until("\nhello\n")


async def test_sessions_are_continued_by_their_numbers(tmp_path: Path) -> None:
    async with chatting(tmp_path, "Yes.\n") as tmux:
        await tmux.until("aish>")
        for question in ("the first?", "the second?"):
            await tmux.keys(question, "Enter")
            await tmux.until("Yes.")
            await tmux.keys(":session new", "Enter")
            await tmux.until("A new session")
            await tmux.run("clear-history")
            await tmux.keys("C-l")
        await tmux.keys(":sessions", "Enter")
        screen = re.sub(r"\x1b\[[\d;]*m", "", await tmux.until("continues the last one"))
        assert re.search(r"1. the second\? \(.*\n* *2. the first\? \(", screen, re.DOTALL)
        await tmux.keys(":resume 2", "Enter")
        await tmux.until("continues, with 2 messages")
        await tmux.keys(":history", "Enter")
        await tmux.until("the first?")


async def test_a_paste_of_10_mb_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    pasted = tmp_path / "pasted"
    pasted.write_text("line of text\n" * 800_000)
    async with chatting(tmp_path, "Yes.\n") as tmux:
        await tmux.until("aish>")
        await tmux.keys("before ")
        await tmux.run("load-buffer", str(pasted))
        await tmux.run("paste-buffer", "-p")
        await tmux.until("More was pasted than")
        await tmux.keys("after", "Enter")
        await tmux.until("Yes.")
    [log] = (tmp_path / "data").glob("workspaces/*/sessions/*.jsonl")
    assert '"before after"' in log.read_text()


async def test_a_table_of_5000_lines_can_be_stopped_and_is_not_in_the_way(tmp_path: Path) -> None:
    rows = "".join(f"| {number} | row |\n" for number in range(5000))
    async with chatting(tmp_path, f"| a | b |\n|---|---|\n{rows}\nThe end.\n") as tmux:
        await tmux.until("aish>")
        await tmux.keys("why?", "Enter")
        await tmux.keys("typed meanwhile")
        await tmux.until("The end.")
        await tmux.until("aish> typed meanwhile")
