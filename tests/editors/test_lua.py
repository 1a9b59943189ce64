"""The Lua of the Neovim plugin, by luacheck and StyLua."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_lua"


def test_luacheck_and_stylua_are_content() -> None:
    done = subprocess.run(
        [sys.executable, TOOL], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if skipped := [line for line in done.stderr.splitlines() if line.startswith("SKIPPED: ")]:
        pytest.skip("; ".join(line.removeprefix("SKIPPED: ") for line in skipped))
