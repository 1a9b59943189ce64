"""CodeCompanion in Neovim; ``TESTS_CODECOMPANION`` and ``TESTS_PLENARY`` name copies of both."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Final

import acpx
import pytest
from conversing import Place
from test_acp_real_clients import both, llama, model

__all__ = ["llama", "model"]

ROOT: Final = Path(__file__).resolve().parents[2]
PLUGINS: Final = [os.environ.get(f"TESTS_{name}", "") for name in ("CODECOMPANION", "PLENARY")]

pytestmark = [pytest.mark.slow, pytest.mark.editor, pytest.mark.timeout(300)]


@both
@pytest.mark.skipif(not all(PLUGINS), reason="needs copies of CodeCompanion and plenary")
async def test_codecompanion_goes_through_a_permission_prompt_and_resumes_the_session(
    place: Place, model: str
) -> None:
    (place.folder / "notes.txt").write_text("bread\n")
    page = (ROOT / "docs" / "acp.md").read_text().partition("CodeCompanion**")[2]
    found = re.search(r"```lua\n(.*?)```", page, re.DOTALL)
    assert found is not None
    command = ", ".join(json.dumps(part) for part in acpx.AGENT)
    init = place.root / "init.lua"
    paths = "".join(f"vim.opt.rtp:append({json.dumps(path)})\n" for path in PLUGINS)
    init.write_text(paths + found[1].replace('"aish-lsp", "acp"', command))
    neovim = Path(acpx.AGENT[0]).with_name("nvim")
    driver = Path(__file__).with_name("codecompanion.lua")
    for phase in ("talk", "resume"):
        process = await asyncio.create_subprocess_exec(
            *(neovim, "--headless", "--clean", "-n", "-u", init, "-c", f"luafile {driver}"),
            cwd=place.folder,
            env=acpx.environment(place) | {"PHASE": phase},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, (phase, said.decode())
    assert not (place.folder / "notes.txt").exists()
