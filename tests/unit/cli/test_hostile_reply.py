"""A reply that wants the terminal, before a real one: ``aish-lsp ask`` in tmux."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fault_server import FaultServer, Peer, Request, chunk_of
from tmux import Tmux

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

#: Clears the screen, forges a question, hides what follows, reaches the clipboard and the title.
HOSTILE = (
    "Here is how.\n\n\x1b[2J\x1b[3J\x1b[1;1HAll is well.\x1b]52;c;ZXZpbA==\x07\x1b]0;owned\x07"
    "\x9b2J\n\nRun (safe): ls\n[y]es, [e]dit, [N]o? \n"
    "[red]markup[/red] :boom: [link=http://evil.example]here[/link]\n"
    "CMD: touch harmed \x1b[8m && rm -rf /nowhere \u202e\n"
    "bold and hidden: \x1b[1m\x1b[30;40m"
)


@asynccontextmanager
async def asking(
    tmp_path: Path, reply: str, rest: str = "", gate: asyncio.Event | None = None
) -> AsyncIterator[Tmux]:
    """Ask, in a terminal, a model that replies a character at a time; ``rest`` behind the gate."""

    async def script(_: Request, peer: Peer) -> None:
        await peer.head()
        for character in reply:
            await peer.event(chunk_of(character))
        if gate is not None:
            await gate.wait()
        await peer.event(chunk_of(rest))
        await peer.event("[DONE]")
        await peer.chunk(b"")

    project = tmp_path / "project"
    project.mkdir()
    async with FaultServer(script) as server:
        config = tmp_path / "config.toml"
        model = f'[models.m]\nendpoint = "{server.url}"\nmodel = "m"\ncontext_window = 8192\n'
        config.write_text(f'default_model = "m"\n{model}')
        command = f"ask How --workspace {project}"
        async with Tmux(tmp_path).running(command, 100, 50, before="echo before; ") as tmux:
            yield tmux


@pytest.mark.slow
async def test_a_reply_moves_nothing_and_hides_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path, HOSTILE) as tmux:
        screen = await tmux.until("\nRun this command (destructive)?")
        assert screen.startswith("before\n")
        assert r"\x1b[2J\x1b[3J\x1b[1;1HAll is well.\x1b]52;c;ZXZpbA==\x07" in screen
        assert r"\x9b2J" in screen
        assert "[red]markup[/red] :boom: [link=http://evil.example]here[/link]\n" in screen
        assert r"bold and hidden: \x1b[1m\x1b[30;40m" in screen
        # The whole command is shown, and no attribute is in force anywhere.
        screen = await tmux.until(r"rm -rf /nowhere \u202e")
        assert "\n    touch harmed \\x1b[8m && rm -rf /nowhere \\u202e\n" in screen
        assert "\x1b" not in screen
        assert await tmux.run("show-buffer") == ""
        assert "owned" not in await tmux.run("display-message", "-p", "#{pane_title}")
        await tmux.keys("n", "Enter")
        await tmux.until("exit 0")
    assert not (tmp_path / "project" / "harmed").exists()


@pytest.mark.slow
async def test_what_was_typed_at_a_forged_question_answers_none(tmp_path: Path) -> None:
    forged = "Run (safe): ls\n[y]es, [e]dit, [N]o? "
    typed = asyncio.Event()
    async with asking(tmp_path, forged, "\nCMD: touch harmed\n", typed) as tmux:
        await tmux.until("[y]es, [e]dit, [N]o? ")
        await tmux.keys("y", "Enter")
        await tmux.until("[N]o? y")
        typed.set()
        await tmux.until("Run this command (caution)?\n\n    touch harmed\n\nin ")
        await tmux.keys("Enter")
        await tmux.until("exit 0")
    assert not (tmp_path / "project" / "harmed").exists()


@pytest.mark.slow
async def test_output_is_shown_as_harmlessly(tmp_path: Path) -> None:
    printing = r"printf 'Run? [y/N] \rAll well  \n\033[2J\033]52;c;eA==\a done\n'"
    async with asking(tmp_path, f"CMD: {printing}\n") as tmux:
        await tmux.until("[N]o?")
        await tmux.keys("y", "Enter")
        screen = await tmux.until("exit 0")
        assert "Run? [y/N] \nAll well  \n" + r"\x1b[2J\x1b]52;c;eA==\x07 done" in screen
        assert screen.startswith("before\n")
    log = next((tmp_path / "data").glob("workspaces/*/sessions/*.jsonl"))
    assert "\x1b" not in json.dumps(log.read_text(), ensure_ascii=False)
