"""What the user looks at, in Neovim: a selection, a diagnostic, files named with ``@``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_neovim import Neovim, init, opened, place

__all__ = ["init", "place"]

pytestmark = pytest.mark.editor

CODE = "def f(x):\n    y = x\n    return y\n"
REPLY = "Shorter:\n\n```python\nreturn x\n```\n"


@pytest.fixture
def asked() -> list[str]:
    """What the model was asked."""
    return []


@pytest.fixture
def neovim(place: Place, init: Path, asked: list[str]) -> Iterator[Neovim]:
    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        asked.append(request.json["messages"][-1]["content"])
        await peer.head()
        await peer.event(chunk_of(REPLY))
        await peer.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    (place.folder / "main.py").write_text("saved = 1\n")
    # Before the server looks at the project: on a busy machine it does not look again at once.
    (place.folder / "notes.md").write_text("remember\n")
    with served(script) as url, opened(place, init, f'endpoint = "{url}"') as started:
        started.keys(":%delete<CR>i" + CODE.replace("\n    ", "\n").replace("\n", "<CR>") + "<Esc>")
        # Indented by whatever the editor does on its own.
        lua = "vim.api.nvim_buf_set_lines(0, 0, -1, true, vim.split(..., '\\n'))"
        started.lua(lua.replace("...", repr(CODE)))
        started.until("the text", lambda: "\n".join(started.lines) == CODE)
        yield started


def answered(neovim: Neovim, place: Place, times: int = 1) -> None:
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("a reply", lambda: neovim.lines.count("## You") == times + 1)


def test_explain_sends_what_is_not_saved_and_the_block_replaces_it(
    neovim: Neovim, place: Place, asked: list[str]
) -> None:
    neovim.keys("2GVjgra")
    offered = neovim.choose(1, "1: Explain")
    assert "2: Fix" in offered
    assert "3: Ask about this" in offered
    answered(neovim, place)
    assert "Explain lines 2-3 of main.py." in neovim.lines
    assert "> Sent along: main.py, lines 2-3; the definition around it (main.py, lines 1-3)." in (
        neovim.lines
    )
    assert "[selection] main.py, lines 2-3\n```python\n    y = x\n    return y\n```\n" in asked[0]
    assert (place.folder / "main.py").read_text() == "saved = 1\n"

    # In the chat, on the block; above the selection something was typed meanwhile.
    neovim.keys(":buffer main.py<CR>ggOimport os<Esc>:buffer chat.md<CR>")
    neovim.keys("gg/^return x<CR>gra")
    neovim.choose(1, "1: Replace selection")
    shown = neovim.choose(2, "1: Cancel\n2: Replace")
    assert "Replace lines 3-4 of main.py with this?" in shown
    assert "return x" in shown
    neovim.keys(":buffer main.py<CR>")
    new = ["import os", "def f(x):", "    return x", ""]
    neovim.until("the new text", lambda: neovim.lines == new)
    neovim.keys("u")
    neovim.until("the old text", lambda: "\n".join(neovim.lines) == f"import os\n{CODE}")


def test_a_diagnostic_of_another_server_is_explained(
    neovim: Neovim, place: Place, asked: list[str]
) -> None:
    neovim.lua(
        """
        local found = { lnum = 2, col = 11, end_lnum = 2, end_col = 12, message = "no y here",
          severity = 1, source = "checker",
          user_data = { lsp = { range = { start = { line = 2, character = 11 },
            ["end"] = { line = 2, character = 12 } }, message = "no y here", severity = 1,
            source = "checker" } } }
        vim.diagnostic.set(vim.api.nvim_create_namespace("checker"), 0, { found })
        """
    )
    neovim.keys("3G ad")
    neovim.choose(1, "1: Explain this problem")
    answered(neovim, place)
    assert "line 3: error: no y here (checker)\n" in asked[0]


def test_a_question_is_prepared_and_names_files_that_complete(
    neovim: Neovim, place: Place, asked: list[str]
) -> None:
    neovim.keys("1GVgra")
    neovim.choose(3, "3: Ask about this")
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("the question", lambda: "@main.py:1" in neovim.lines)
    # The server puts the cursor below it, and that must not come while we write.
    below = "return vim.fn.line('.') > vim.fn.search('^@main', 'nw')"
    neovim.until("the cursor below", lambda: neovim.lua(below))
    neovim.keys("gg/^@main<CR>A like @not<C-x><C-o>")
    # It is the only one: it comes without a menu.
    neovim.until("its name", lambda: "@main.py:1 like @notes.md" in neovim.lines)
    neovim.keys("?<Esc>")
    neovim.keys(" as")
    answered(neovim, place)
    assert "[selection] main.py, line 1\n```py\ndef f(x):\n```\n" in asked[0]
    assert "[file] notes.md\n```md\nremember\n```\n" in asked[0]
    assert asked[0].endswith("@main.py:1 like @notes.md?")
