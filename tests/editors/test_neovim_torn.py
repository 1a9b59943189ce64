"""A reply in Neovim whose buffer is discarded, reverted and undone while it comes."""

from __future__ import annotations

import asyncio
import re
import time
from functools import partial
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_neovim import Neovim, init, opened, place

__all__ = ["init", "place"]

pytestmark = pytest.mark.editor

WORDS = [f"run it so{number} " for number in range(36)]
OLDER = "## You\n\nwhat then of it?\n\n## aish\n\nrun it so0 run it so1 \n\n" * 200
END = "".join(WORDS) + "\n\n## You\n\n"
#: The words after which the buffer goes. Each time two more are to come: a reply that is there as a
#: whole goes with its buffer, and does not come again.
GOES_AFTER = range(2, len(WORDS) - 2, 2)
NOTES = "notes of another\n\n"
NOTE = "its place could not be found again"


class Model:
    """A model that says each word when it is asked for it."""

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "slow"}]})
            return
        await peer.head()
        for number, word in enumerate(WORDS):
            while number > self.asked:
                await asyncio.sleep(0.01)
            await peer.event(chunk_of(word))
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
    neovim.keys("Giwhat then of it?<Esc>" + (":w<CR>" if saves else "") + " as")


def another_writes(place: Place) -> None:
    """Shift all that stands in the file."""
    place.chat.write_text(f"{NOTES}{place.chat.read_text()}")


def make_bare(init: Path) -> None:
    """Leave out what the page has to keep an edit from coming too late."""
    text = init.read_text()
    for part in (
        r"^  flags = .*?\n",
        r"^      workspaceEdit = .*?\n",
        r'^    \["workspace/applyEdit"\] = .*?^    end,\n',
    ):
        text, count = re.subn(part, "", text, flags=re.MULTILINE | re.DOTALL)
        assert count == 1
    # It prints each edit that came too late, and waits for Enter where the line is too long.
    init.write_text(f"{text}\nvim.o.cmdheight = 5\n")


@pytest.mark.parametrize(
    ("gone", "saves", "is_bare"),
    [
        (":e!<CR>", True, False),
        (":e!<CR>", False, False),
        (":bd!<CR>", False, False),
        (":bd!<CR>:edit {chat}<CR>", False, False),
        ("u", True, False),
        ("uuu<C-r>", False, False),
        (":w<CR>:e!<CR>", True, False),
        ("another writes, :e!<CR>", True, False),
        (":e!<CR>", False, True),
        ("uuu<C-r>", False, True),
        (":w<CR>:e!<CR>", True, True),
    ],
)
def test_whatever_becomes_of_the_buffer_the_reply_comes_whole(
    place: Place, init: Path, gone: str, saves: bool, is_bare: bool
) -> None:
    if is_bare:
        make_bare(init)
    keys = gone.removeprefix("another writes, ").format(chat=place.chat)
    model = Model()
    with served(model.answer) as url, opened(place, init, f'endpoint = "{url}"') as neovim:
        ask(neovim, place, saves=saves)
        for number in GOES_AFTER:
            model.asked = number
            neovim.until(f"word {number}", partial(shows, neovim, place, f"so{number} "))
            # A word comes before the buffer goes, or meanwhile; the next one, after it has gone.
            model.asked = number + 1
            time.sleep(number % 8 * 0.02)
            if gone != keys:
                another_writes(place)
            if gone != ":bd!<CR>" or number == 2:
                neovim.keys(keys)
        # They are only queued so far, and the rest of the reply is not to come before them.
        neovim.keys(":let g:has_gone = 1<CR>")
        neovim.until("the last keys", lambda: neovim.lua("return vim.g.has_gone == 1"))
        model.asked = len(WORDS)
        if gone == ":bd!<CR>":
            neovim.until("no chat", lambda: neovim.name != str(place.chat))
            neovim.until("the end", lambda: place.chat.read_text().endswith(END))
            neovim.keys(f":edit {place.chat}<CR>")
        neovim.until("the end", lambda: "\n".join(neovim.lines).rstrip("\n").endswith(END.rstrip()))
        text = "\n".join(neovim.lines)
        older = (NOTES * len(GOES_AFTER) if gone != keys else "") + OLDER
        assert text.startswith(older)
        more = text.removeprefix(older)
        assert "".join(WORDS) in more
        if gone != ":w<CR>:e!<CR>":
            assert NOTE in more
        # Each line is the user's, an exchange's, or this reply's from its start.
        for line in more.split("\n"):
            mine = line.startswith("run it so0 ") and "".join(WORDS).startswith(line.rstrip())
            assert mine or line in ("## You", "## aish", "what then of it?", "") or NOTE in line
