"""A workspace to undo things in, with a data folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is not there yet."""
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    return tmp_path.resolve() / "work"
