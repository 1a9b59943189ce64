"""The references in docs/ are those that the code makes today."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aish_lsp.chat.colon import COLON_COMMANDS, help_text
from aish_lsp.lsp import reference
from aish_lsp.lsp.protocol import COMMANDS
from aish_lsp.lsp.server import create_server
from aish_lsp.models.providers import ollama
from aish_lsp.operations import context

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_protocols_page_is_current() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text()
    assert page == reference.render(), "run ./dev docs"


def test_the_types_of_the_neovim_plugin_are_current() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "lua_types"], capture_output=True, text=True, check=True
    )
    path = ROOT / "editors" / "nvim" / "lua" / "aish" / "protocol.lua"
    assert path.read_text() == made.stdout, "run ./dev docs"


def test_every_command_is_bound() -> None:
    assert set(create_server().protocol.fm.commands) == set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", text):
        assert (page.parent / target).exists(), target


def test_what_contributing_shows_is_there_as_it_is_shown() -> None:
    shown, protocol = re.findall(
        r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL
    )
    assert shown in inspect.getsource(context)
    assert protocol in inspect.getsource(ollama)
    assert "aish.context.reset" in create_server().protocol.fm.commands
    assert "aish.context.reset" in reference.render()
    assert "`:reset`" in help_text(COLON_COMMANDS)
