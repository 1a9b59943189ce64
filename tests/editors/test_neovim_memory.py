"""Memory and sessions in Neovim and in a terminal at once, on one workspace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from editor_parts import QUESTION, Place
from fault_server import Peer, Request, chunk_of, served
from test_neovim import Neovim, init, opened, place

__all__ = ["init", "place"]

pytestmark = pytest.mark.editor

FOUND = "- fact: We ship with `make ship`.\n- pref: terse answers\n"


def terminal(*arguments: str) -> Any:
    """Run ``aish-lsp`` as the user of the editor would, in the same folder; return its JSON."""
    command = [sys.executable, "-m", "aish_lsp", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def remembered() -> list[str]:
    return sorted(item["content"] for item in terminal("memory", "list")["items"])


def say(neovim: Neovim, place: Place, line: str) -> None:
    """Type a line under the last heading of the chat, and send it; wait for the next heading."""
    if neovim.name != str(place.chat):
        neovim.keys(" ao")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        neovim.until("a lens to send by", lambda: ("## You", "Send") in neovim.lenses())
    headings = neovim.lines.count("## You")
    neovim.keys(f"Gi{line}<Esc> as")
    neovim.until(f"an answer to {line}", lambda: neovim.lines.count("## You") == headings + 1)


@pytest.fixture
def neovim(place: Place, init: Path) -> Iterator[Neovim]:
    with opened(place, init) as started:
        yield started


def test_the_editor_and_the_terminal_share_a_memory(neovim: Neovim, place: Place) -> None:
    say(neovim, place, ":remember we deploy with `make ship`")
    assert "Remembered as item 1" in "\n".join(neovim.lines)
    assert remembered() == ["we deploy with `make ship`"]

    assert terminal("memory", "add", "the tests need a database")["id"] == 2
    assert terminal("memory", "add", "WE deploy with `make ship`.")["duplicate"]
    say(neovim, place, ":memory list")
    reply = "\n".join(neovim.lines).rpartition("## aish")[2]
    assert "- 1 " in reply
    assert "- 2 " in reply
    say(neovim, place, ":prompt")
    assert "- (fact) the tests need a database" in neovim.lines

    say(neovim, place, ":memory edit 2 the tests need no database")
    terminal("memory", "forget", "1")
    assert remembered() == ["the tests need no database"]
    # What a compaction leaves is the same file to the server that has it open.
    terminal("memory", "compact")
    say(neovim, place, ":remember one more")
    assert "Remembered as item 6" in "\n".join(neovim.lines)
    assert remembered() == ["one more", "the tests need no database"]


def test_a_session_goes_on_in_the_next_editor(place: Place, init: Path) -> None:
    with opened(place, init) as neovim:
        say(neovim, place, QUESTION)
        say(neovim, place, ":save the tests")
        [session] = terminal("sessions", "list")["sessions"]
        assert (session["name"], session["turns"]) == ("the tests", 2)
        # Ended by a signal it leaves a swap file, which the next one asks about.
        neovim.keys(":wqa<CR>")
        neovim.ended()
    with opened(place, init) as neovim:
        say(neovim, place, ":resume the tests")
        say(neovim, place, ":history")
        shown = "\n".join(neovim.lines).partition(":history")[2]
        assert QUESTION in shown
        assert "make test" in shown
        say(neovim, place, "and once more")
        [session] = terminal("sessions", "list")["sessions"]
        assert session["turns"] == 4


def test_a_checklist_is_kept_line_by_line(place: Place, init: Path) -> None:
    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        asked = request.json["messages"][-1]["content"]
        await peer.head()
        await peer.event(chunk_of(FOUND if "worth remembering" in asked else "All right."))
        await peer.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    with served(script) as url, opened(place, init, f'endpoint = "{url}"') as neovim:
        say(neovim, place, "We ship with make ship.")
        say(neovim, place, ":memory summarize")
        first = "- [ ] 1. (fact) We ship with `make ship`."
        assert first in neovim.lines
        assert remembered() == []
        # The user puts it into other words, then keeps it.
        neovim.keys("gg/^- .* 1. (fact)<CR>$i only<Esc>gra")
        neovim.choose(1, "1: Remember: We ship with `make ship` only.")
        ticked = "- [x] 1. (fact) We ship with `make ship` only."
        neovim.until("a tick", lambda: ticked in neovim.lines)
        neovim.until("the item", lambda: remembered() == ["We ship with `make ship` only."])
        neovim.keys("gg/^- .* 2. (pref)<CR>gra")
        neovim.choose(2, "2: Drop: terse answers")
        neovim.until("a line less", lambda: not any("terse" in line for line in neovim.lines))
        [item] = terminal("memory", "list")["items"]
        assert item["source"]["how"] == "accepted"
