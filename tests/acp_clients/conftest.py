"""A place of its own for each test: the agent runs in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from conversing import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a place whose configuration and data are the agent's."""
    made = Place.make(tmp_path)
    monkeypatch.setenv("AISH_CONFIG", str(made.config))
    monkeypatch.setenv("AISH_DATA_DIR", str(made.data))
    return made
