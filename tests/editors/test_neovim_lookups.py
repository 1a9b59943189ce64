"""What a model asks about the code, answered by the language servers that Neovim has beside us."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_neovim import opened, place
from test_neovim_plugin import ask, fixture_profile, opened_chat

__all__ = ["fixture_profile", "place"]

pytestmark = pytest.mark.editor

MAIN = "import os\nfrom greeting import greet\n\nprint(greet('you'))\n"
GREETING = (
    "class Greeter:\n    def hello(self):\n        pass\n\n\ndef greet(name):\n    return name\n"
)

#: One reply: all are asked at the same time, about files of which one alone is open.
CALLS = [
    ("diagnostics", {"path": "main.py"}),
    ("symbols", {"path": "greeting.py"}),
    ("symbols", {"path": "greeting.py", "query": "hell"}),
    ("definition", {"path": "main.py", "line": 4, "character": 9}),
    ("definition", {"path": "main.py", "line": 1, "character": 8}),
    ("symbols", {"path": "ignored.py"}),
    ("symbols", {"path": "notes.txt"}),
]


class Model:
    """Looks the code up, and answers."""

    def __init__(self) -> None:
        self.offered: list[str] = []
        self.told: list[str] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        sent = request.json
        self.offered = [tool["function"]["name"] for tool in sent.get("tools") or ()]
        self.told = [one["content"] for one in sent["messages"] if one["role"] == "tool"]
        await peer.head()
        if self.told:
            await peer.event(chunk_of("I see."))
            await peer.event(chunk_of("", finish_reason="stop"))
        else:
            calls = [
                {
                    "index": index,
                    "id": f"c{index}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for index, (name, arguments) in enumerate(CALLS)
            ]
            await peer.event({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
            await peer.event(chunk_of("", finish_reason="tool_calls"))
        await peer.event("[DONE]")
        await peer.chunk(b"")


@pytest.fixture(name="with_servers")
def fixture_with_servers(profile: Path) -> Path:
    """The plugin beside two language servers: one that knows names, and one that finds problems."""
    if importlib.util.find_spec("pylsp") is None:
        pytest.skip("there is no language server: pip install python-lsp-server")
    ruff = Path(sys.executable).with_name("ruff")
    commands: dict[str, list[Any]] = {
        "pylsp": [sys.executable, "-m", "pylsp"],
        "ruff": [str(ruff), "server"],
    }
    with profile.open("a") as file:
        for name, command in commands.items():
            words = ", ".join(json.dumps(word) for word in command)
            file.write(
                f"vim.lsp.config('{name}', {{ cmd = {{ {words} }}, filetypes = {{ 'python' }},"
                f" root_markers = {{ '.git' }} }})\nvim.lsp.enable('{name}')\n"
            )
    return profile


def test_language_servers_answer_a_model(place: Place, with_servers: Path) -> None:
    (place.folder / "main.py").write_text(MAIN)
    (place.folder / "greeting.py").write_text(GREETING)
    (place.folder / "ignored.py").write_text(GREETING)
    (place.folder / "notes.txt").write_text("greet\n")
    (place.folder / ".gitignore").write_text("ignored.py\n")
    model = Model()
    with (
        served(model) as url,
        opened(place, with_servers, f'endpoint = "{url}"\ncontext_window = 32768') as neovim,
    ):
        opened_chat(neovim, place)
        ask(neovim, "where is it?", 2)
        assert "I see." in neovim.lines
        assert neovim.messages == ""
    assert {"diagnostics", "symbols", "definition"} <= set(model.offered)
    problems, names, named, ours, elsewhere, ignored, plain = model.told
    assert problems.startswith("main.py:1: warning: `os` imported but unused")
    assert names.splitlines()[0] == "greeting.py:1: class Greeter"
    assert "greeting.py:6: function greet" in names
    assert "greeting.py:2:" in named
    assert "greet" not in named.partition(":")[2].replace("Greeter", "")
    assert ours == "greeting.py:6: def greet(name):\n"
    assert elsewhere.endswith("os.py:1 (outside of the project)\n")
    assert "is ignored" in ignored
    assert plain.startswith("The editor cannot tell")
