"""A reply in Neovim whose buffer is discarded, reverted and undone while it comes."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_neovim import Neovim, init, opened, place

__all__ = ["init", "place"]

pytestmark = pytest.mark.editor

WORDS = [f"run it so{number} " for number in range(24)]
OLDER = "## You\n\nhow do I run it?\n\n## aish\n\nrun it so0 run it so1 \n\n" * 200
END = "".join(WORDS) + "\n\n## You\n\n"
NOTE = "its place in it could not be found again"


async def script(request: Request, peer: Peer) -> None:
    if request.method != "POST":
        await peer.reply({"data": [{"id": "slow"}]})
        return
    await peer.head()
    for word in WORDS:
        await peer.event(chunk_of(word))
        await asyncio.sleep(0.12)
    await peer.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    await peer.event("[DONE]")
    await peer.chunk(b"")


def shows(neovim: Neovim, place: Place, text: str) -> bool:
    """Return whether the end of the chat, or of its file, has a text."""
    return text in "".join(neovim.lines[-8:]) or text in place.chat.read_text()[-600:]


def ask(neovim: Neovim, place: Place, *, saves: bool) -> None:
    """Ask in the chat, where 200 exchanges stand that look like the one that comes."""
    place.chat.parent.mkdir()
    place.chat.write_text(f"{OLDER}## You\n\n")
    neovim.keys(" ao")
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("a lens to send by", lambda: ("## You", "Send") in neovim.lenses())
    neovim.keys("Gihow do I run it?<Esc>" + (":w<CR>" if saves else "") + " as")


@pytest.mark.parametrize(
    ("gone", "saves"),
    [
        (":e!<CR>", True),
        (":e!<CR>", False),
        (":bd!<CR>", False),
        ("u", True),
        (":w<CR>:e!<CR>", True),
    ],
)
def test_whatever_becomes_of_the_buffer_the_reply_comes_whole(
    place: Place, init: Path, gone: str, saves: bool
) -> None:
    with served(script) as url, opened(place, init, f'endpoint = "{url}"') as neovim:
        ask(neovim, place, saves=saves)
        for number in (2, 9, 16):
            neovim.until(f"word {number}", partial(shows, neovim, place, f"so{number} "))
            neovim.keys(gone)
        if gone == ":bd!<CR>":
            neovim.until("no chat", lambda: neovim.name != str(place.chat))
            neovim.until("the end", lambda: place.chat.read_text().endswith(END))
            neovim.keys(f":edit {place.chat}<CR>")
        neovim.until("the end", lambda: "\n".join(neovim.lines).rstrip("\n").endswith(END.rstrip()))
        text = "\n".join(neovim.lines)
        assert text.startswith(OLDER)
        more = text.removeprefix(OLDER)
        assert "".join(WORDS) in more
        if gone != ":w<CR>:e!<CR>":
            assert NOTE in more
        # Each line is the user's, an exchange's, or this reply's from its start.
        for line in more.split("\n"):
            mine = line.startswith("run it so0 ") and "".join(WORDS).startswith(line.rstrip())
            assert mine or line in ("## You", "## aish", "how do I run it?", "") or NOTE in line
