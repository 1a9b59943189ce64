"""Two Neovims on one folder, and what the chat says after a Neovim or a server was killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import served
from test_neovim import Neovim, opened, place
from test_neovim_faults import Model, kill, talking
from test_neovim_plugin import ask, fixture_profile, opened_chat

__all__ = ["fixture_profile", "place"]

pytestmark = pytest.mark.editor

CUT_OFF = (
    "> aish-lsp ended while writing this; what you had typed without sending it is kept above."
)


def told(neovim: Neovim) -> list[str]:
    """Return what the chat says by itself."""
    return [line for line in neovim.lines if line.startswith("> ")]


@contextmanager
def in_mid_reply(place: Place, profile: Path) -> Iterator[tuple[Neovim, Model]]:
    """Start Neovim and ask, until half of the reply is in the chat; yield the model, too."""
    model = Model("Half of a reply", " and the rest.\n")
    with talking(place, profile, model) as neovim:
        neovim.keys("Giwhat?<Esc><CR>")
        neovim.until("half of it", lambda: neovim.lines[-1] == "Half of a reply")
        yield neovim, model


def test_second_neovim_on_a_folder_has_a_chat_of_its_own(place: Place, profile: Path) -> None:
    other_profile = profile.parent / "other" / "init.lua"
    other_profile.parent.mkdir()
    other_profile.write_text(profile.read_text())
    second = place.chat.with_name("chat-2.md")
    model = Model("Yes.\n")
    with (
        talking(place, profile, model) as one,
        served(model) as url,
        opened(place, other_profile, f'endpoint = "{url}"') as other,
    ):
        other.keys(":Aish<CR>")
        other.until("its chat", lambda: other.name == str(second))
        other.until("a heading", lambda: "## You" in other.lines)
        for number in range(2):
            one.keys(f"Giof one {number}?<Esc><CR>")
            other.keys(f"Giof the other {number}?<Esc><CR>")
            for neovim in (one, other):
                neovim.until(
                    "a reply",
                    lambda it=neovim, n=number: it.lines.count("## You") == n + 2,  # type: ignore[misc]
                )
        for neovim, own, others in ((one, "one", "the other"), (other, "the other", "one")):
            neovim.until("it is saved", lambda it=neovim: it.is_saved)  # type: ignore[misc]
            text = Path(neovim.name).read_text()
            assert [f"of {own} {n}?" in text for n in range(2)] == [True, True]
            assert f"of {others}" not in text
            assert "has changed" not in neovim.messages
        # The other's chat is nothing to write in.
        other.keys(":edit .aish/chat.md<CR>")
        other.until("that chat", lambda: other.name == str(place.chat))
        other.keys("<CR>")
        other.until("its own again", lambda: other.name == str(second))
        assert "another editor's chat; yours is .aish/chat-2.md" in other.messages


def test_reply_cut_off_by_a_kill_of_neovim_is_said_in_one_sentence(
    place: Place, profile: Path
) -> None:
    with in_mid_reply(place, profile) as (neovim, model):
        neovim.until("it is saved", lambda: neovim.is_saved)
        neovim.kill()
        model.goes_on.set()
    with opened(place, profile) as neovim:
        opened_chat(neovim, place)
        neovim.until("a new heading", lambda: neovim.lines.count("## You") == 2)
        assert len(told(neovim)) == 1, neovim.lines


def test_reply_cut_off_by_a_kill_of_the_server_is_said_in_one_sentence(
    place: Place, profile: Path
) -> None:
    with in_mid_reply(place, profile) as (neovim, model):
        kill(neovim)
        neovim.until("a new heading", lambda: neovim.lines.count("## You") == 2)
        assert told(neovim) == [CUT_OFF]
        model.goes_on.set()
        ask(neovim, "and now?", 3)
        assert told(neovim) == [CUT_OFF]
