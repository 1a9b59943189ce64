"""Everyday commands give confined what they give free: docs/confinement.md has each."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from confined_corpus import compare_all, corpus, make_scene
from safety_page import part

from aish_lsp.shell.risk import classify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines for certain")

#: One command in so many is run in the normal test run.
SLICE = 1 if os.environ.get("TESTS_FULL") else 8


async def test_everyday_commands_give_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "scene"
    make_scene(folder)
    commands = [command for _, group in corpus() for command in group]
    safe = [c for c in commands if classify(c, "bash", confined=True).risk == "safe"]
    found = await compare_all(safe[::SLICE], folder)
    page = part("confined")
    unknown = [one for one in found if one.outcome == "differs" and one.command not in page]
    assert unknown == []
    assert any(one.outcome == "same" for one in found)


def test_the_page_tells_of_every_safe_command() -> None:
    page = part("confined").replace("\\|", "|").replace("⏎", "\n")
    commands = [command for _, group in corpus() for command in group]
    safe = [c for c in commands if classify(c, "bash", confined=True).risk == "safe"]
    assert [command for command in safe if command not in page] == []
