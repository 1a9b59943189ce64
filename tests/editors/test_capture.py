"""The picture that the README opens with is what the plugin shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from picture import texts
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
