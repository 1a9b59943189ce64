"""Fences that a model suggests, in Neovim: run by a code action, edited, never run by themselves.

With ``AISH_FULL=1`` a trained model of 135 million parameters writes them, which is fetched for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from llama_server import LlamaServer
from test_neovim import Neovim, init, opened, place
from trained_model import fetched

__all__ = ["init", "place"]

pytestmark = pytest.mark.editor

REPLY = """\
First make the folder:

```sh
mkdir -p build
touch build/made
echo "made by $0"
```

Then clone:

```bash
git clone <your repository>
```
"""


@pytest.fixture
def neovim(place: Place, init: Path) -> Iterator[Neovim]:
    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        await peer.head()
        for start in range(0, len(REPLY), 7):
            await peer.event(chunk_of(REPLY[start : start + 7]))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")
        await peer.chunk(b"")

    with served(script) as url, opened(place, init, f'endpoint = "{url}"') as started:
        yield started


def test_a_fence_runs_whole_by_an_action(neovim: Neovim, place: Place) -> None:
    neovim.keys(" aahow do I build?<CR>")
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("a reply", lambda: neovim.lines.count("## You") == 2)
    neovim.until(
        "lenses",
        lambda: (
            neovim.lenses()
            == [("```sh", "Run"), ("```sh", "Edit"), ("```bash", "Edit"), ("## You", "Send")]
        ),
    )
    # From any line of it. What is taken without looking is not what runs it.
    neovim.keys("gg/^touch build<CR>gra")
    offered = neovim.choose(2, "1: Edit and run: mkdir -p build")
    assert "2: Run: mkdir -p build" in offered
    asked = neovim.choose(2, "1: Cancel\n2: Run")
    shown = [line.strip() for line in asked.split("\n")]
    first = shown.index("mkdir -p build")
    assert shown[first : first + 3] == ["mkdir -p build", "touch build/made", 'echo "made by $0"']
    neovim.until("the output", lambda: any("exit 0" in line for line in neovim.lines))
    assert (place.folder / "build" / "made").exists()
    made = next(line for line in neovim.lines if line.startswith("made by"))
    assert made.endswith("sh")
    assert not made.endswith("bash")

    # What has gaps is put below the heading, to be filled in and sent.
    neovim.keys("gg/^git clone<CR>gra")
    neovim.choose(1, "1: Edit and run: git clone <your repository>")
    filled = [":run", "```bash", "git clone <your repository>", "```", ""]
    neovim.until("the command", lambda: neovim.lines[-5:] == filled)
    neovim.until("lenses", lambda: neovim.lenses() == [("```bash", "Edit"), ("## You", "Send")])
    assert neovim.lua(LENS_LINES)[0] == neovim.lines.index("```bash")
    neovim.keys("G?^git clone<CR>ccecho cloned by $0<Esc> as")
    ran = "cloned by"
    neovim.until("the output", lambda: any(line.startswith(ran) for line in neovim.lines))
    assert any(line.startswith(ran) and line.endswith("bash") for line in neovim.lines)


#: The lines of the lenses that are shown.
LENS_LINES = """
return vim.tbl_map(function(lens)
  return lens.range.start.line
end, vim.lsp.codelens.get(0))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of llama.cpp with a trained model."""
    model = fetched(tmp_path_factory.mktemp("trained"))
    with LlamaServer(model=model, context=4096) as server:
        yield server.url
    model.unlink()


def test_the_fence_of_a_trained_model_runs_by_an_action(
    trained: str, place: Place, init: Path
) -> None:
    preset = f'endpoint = "{trained}"\nmax_output_tokens = 300\nseed = 1\ntemperature = 0.0'
    with opened(place, init, preset) as neovim:
        neovim.keys(" aahow do I list all files in a directory using bash?<CR>")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        neovim.until("a reply", lambda: neovim.lines.count("## You") == 2)
        lenses = neovim.until("lenses", neovim.lenses)
        # What it writes is its own; that it can be run there is ours.
        fence, title = lenses[0]
        assert (fence, title) == ("```bash", "Run"), neovim.lines
        first = neovim.lines.index(fence)
        text = neovim.lines[first + 1]
        neovim.keys(f"gg{first + 2}Ggra")
        neovim.choose(2, f"1: Edit and run: {text}")
        neovim.until("the output", lambda: any("exit 0" in line for line in neovim.lines))
        begin = neovim.lines.index(f"$ {text}")
        assert "main.py" in "\n".join(neovim.lines[begin:])
