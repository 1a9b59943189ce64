"""The picture that the README opens with is what the plugin shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from test_neovim import find

pytestmark = pytest.mark.editor

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_of_the_readme_is_current() -> None:
    find()
    pytest.importorskip("pynvim", reason="pynvim is not installed: pip install pynvim")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "capture_neovim"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    picture = (ROOT / "docs" / "images" / "neovim.svg").read_text(encoding="utf-8")
    assert "docs/images/neovim.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert texts(done.stdout) == texts(picture)


def texts(picture: str) -> list[str]:
    """Return the texts of a picture, less what differs each time.

    These are times, the ids of commits, and the share of the window, which moves a moment after the
    output of a command is there.
    """
    found = ("".join(text.itertext()) for text in ET.fromstring(picture).iter("{*}text"))
    moving = {r"\d+\.\d s": "0.0 s", r"\b[0-9a-f]{7}\b": "1a2b3c4", r"\b\d+%": "0%"}
    shown = "\n".join(filter(None, found))
    for pattern, fixed in moving.items():
        shown = re.sub(pattern, fixed, shown)
    return shown.split("\n")
