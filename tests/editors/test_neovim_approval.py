"""A dangerous command in Neovim: the question accepted, refused and ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_neovim import Neovim, init, opened, place

__all__ = ["init", "place"]

pytestmark = pytest.mark.editor

FOLDERS = ("one", "two", "three")
REPLY = "\n".join(f"CMD: rm -r {folder}" for folder in FOLDERS)


@pytest.fixture
def neovim(place: Place, init: Path) -> Iterator[Neovim]:
    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        await peer.head()
        await peer.event(chunk_of(REPLY))
        await peer.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    for folder in FOLDERS:
        (place.folder / folder).mkdir()
    with served(script) as url, opened(place, init, f'endpoint = "{url}"') as started:
        yield started


def click(neovim: Neovim, place: Place, folder: str, answer: int) -> None:
    """Run the command on its line, and answer the question: 1 is Cancel, 2 is Run, 0 is neither."""
    neovim.keys(f"gg/^CMD: rm -r {folder}<CR>gra")
    neovim.choose_titled(f"Run: rm -r {folder} (destructive)")
    screen = neovim.choose(answer, "1: Cancel\n2: Run")
    # All of it is on the screen when the user decides.
    assert "Run this command (destructive)?" in screen
    assert f"rm -r {folder}" in screen
    assert place.folder.name in screen
    assert "- deletes files" in screen


def waiting(neovim: Neovim) -> str:
    """Return the id of the command that the chat says how to approve; empty where of none."""
    found = re.search(r":approve (\w+)", "\n".join(neovim.lines))
    return found[1] if found else ""


def left(place: Place) -> list[str]:
    return [folder for folder in FOLDERS if (place.folder / folder).exists()]


def test_accepted_refused_and_ignored(neovim: Neovim, place: Place) -> None:
    neovim.keys(" aahow do I clean up?<CR>")
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("a reply", lambda: neovim.lines.count("## You") == 2)
    neovim.until("lenses", lambda: len(neovim.lenses()) == 2 * len(FOLDERS) + 1)

    click(neovim, place, "one", 2)
    neovim.until("the end", lambda: any("exit 0" in line for line in neovim.lines))
    assert left(place) == ["two", "three"]

    click(neovim, place, "two", 1)
    neovim.until("a word", lambda: "> Not run: rm -r two" in neovim.lines)
    assert left(place) == ["two", "three"]

    click(neovim, place, "three", 0)
    command_id = neovim.until("how to go on", lambda: waiting(neovim))
    assert ">     rm -r three" in neovim.lines
    assert left(place) == ["two", "three"]

    for headings in (3, 4):
        neovim.keys(f"Gi:approve {command_id}<Esc> as")
        neovim.until("an answer", lambda number=headings: neovim.lines.count("## You") == number)  # type: ignore[misc]
        assert left(place) == ["two"]
    assert any("waits for approval" in line for line in neovim.lines)
