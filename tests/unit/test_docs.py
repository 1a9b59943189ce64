"""The references in docs/ are those that the code makes today."""

from __future__ import annotations

import inspect
import re
import runpy
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
CHANGES = ROOT / "CHANGELOG.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.slow
def test_pages_that_are_made_from_the_code_are_current() -> None:
    command = [sys.executable, "tools/docs", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), "run ./dev docs"


def test_a_page_that_is_not_current_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "docs"))
    names = tool["main"].__globals__
    names["ROOT"] = tmp_path
    names["PAGES"] = {"docs/protocol.md": ("-S", "-c", "print('new')")}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "protocol.md").write_text("old")
    assert tool["main"](["--check", "protocol.md"]) == 1
    assert "not current: docs/protocol.md" in capsys.readouterr().err
    assert tool["main"](["protocol.md"]) == 0
    assert (tmp_path / "docs" / "protocol.md").read_text() == "new\n"


def test_every_command_is_bound() -> None:
    assert set(create_server().protocol.fm.commands) == set(COMMANDS)


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in links to them."""
    headings = re.findall(r"^#+ (.*)", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere() -> None:
    for page in (*PAGES, CHANGES):
        for name, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", prose(page)):
            target = page.parent / name if name else page
            assert target.exists(), (page.name, name)
            assert not anchor or anchor in anchors(target), f"{page.name}: {name}#{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        linked = re.findall(r"\]\((?!https?://|#)([^)#]+\.md)", page.read_text())
        waiting += {(page.parent / target).resolve() for target in linked} - reached
    assert set(PAGES) <= reached


def test_a_page_that_is_too_long_to_be_read_says_that_it_is_a_reference() -> None:
    for page in PAGES:
        text = page.read_text()
        assert len(text.split()) <= 3200 or "reference" in text[:500], page.name


def test_every_source_that_the_readme_cites_is_given() -> None:
    text = (ROOT / "README.md").read_text()
    given = re.findall(r"^\[(\w+)\]: https://", text, re.MULTILINE)
    assert sorted(set(re.findall(r"\]\[(\w+)\]", text))) == sorted(given)


def test_what_contributing_shows_is_there_as_it_is_shown() -> None:
    shown, protocol = re.findall(
        r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL
    )
    assert shown in inspect.getsource(context)
    assert protocol in inspect.getsource(ollama)
    assert "aish.context.reset" in create_server().protocol.fm.commands
    assert "aish.context.reset" in reference.render()
    assert "`:reset`" in help_text(COLON_COMMANDS)
