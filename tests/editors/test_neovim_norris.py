"""A goal pursued in Neovim, as docs/norris.md shows it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import llama_server
import pytest
import tiny_model
from calling_proxy import Caller
from editor_parts import Place
from fault_server import served
from machine import needs, without_namespaces
from test_neovim import opened, place
from test_neovim_plugin import FLOAT, fixture_profile, opened_chat

__all__ = ["fixture_profile", "place"]

pytestmark = [
    pytest.mark.editor,
    pytest.mark.llama,
    needs(without_namespaces()),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "norris.md"

CALC = "def double(x):\n    return x + 1\n"
TEST = """\
got=$(python3 -c 'import calc; print(calc.double(4))')
[ "$got" = 8 ] && echo "1 passed" && exit
echo "1 failed: double(4) is $got, not 8"
exit 1
"""
REPLIES = [
    ("I run the test to see how it fails.\nCMD: sh test.sh\n", ()),
    (
        """\
double adds instead of doubling. I repair it, and run the test again.
CMD: sed -i 's/x + 1/2 * x/' calc.py
CMD: sh test.sh
""",
        (),
    ),
    ("GOAL: complete\nThe test passes: double returns twice its argument.\n", ()),
]


@pytest.fixture(scope="module")
def calling() -> Iterator[llama_server.LlamaServer]:
    """A server whose template knows of tools."""
    if (reason := llama_server.missing_part()) is not None:
        pytest.skip(reason)
    with llama_server.LlamaServer(model=tiny_model.calling_model_path(), context=32768) as running:
        yield running


def test_a_goal_is_pursued_in_the_chat(
    place: Place, profile: Path, calling: llama_server.LlamaServer
) -> None:
    (place.folder / "calc.py").write_text(CALC)
    (place.folder / "test.sh").write_text(TEST)
    (place.folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    model = 'endpoint = "URL"\ncontext_window = 32768\nmax_output_tokens = 512'
    with (
        served(Caller(calling, REPLIES)) as url,
        opened(place, profile, model.replace("URL", url)) as neovim,
    ):
        opened_chat(neovim, place)
        neovim.keys("Gi:norris --allow-caution Make the test pass.<Esc><CR>")
        neovim.until(
            "the question", lambda: any("a goal by itself" in row for row in neovim.lua(FLOAT))
        )
        neovim.keys("2")
        neovim.until("the end", lambda: neovim.lines.count("## You") == 2)
        lines = [line.rstrip() for line in neovim.lines]
        assert (place.folder / "calc.py").read_text() == CALC.replace("x + 1", "2 * x")
        neovim.keys("Gi:undo<Esc><CR>")
        neovim.until("the undo", lambda: (place.folder / "calc.py").read_text() == CALC)
    first, last = (number for number, line in enumerate(lines) if line == "## You")
    seen = "\n".join(lines[first:last]).rstrip() + "\n"
    assert f"```text\n{seen}```\n" in PAGE.read_text(encoding="utf-8"), seen
