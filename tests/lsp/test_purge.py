"""``aish-lsp purge`` after a conversation with a real server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from command_line import run_main
from conversing import SHOWS_NOTHING, Place, chat_holds
from repository import git


async def test_nothing_that_a_server_wrote_is_left_and_all_else_is(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The offline model's index lies beside the bytecode; that of this run is not to be removed.
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path_factory.mktemp("bytecode")))
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "place/data"))
    (tmp_path / "place").mkdir()
    place = Place.make(tmp_path / "place")
    git(place.folder, "init", "-q")
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        await client.command_result("aish.memory.add", {"kind": "fact", "content": "make ship"})
        await client.command_result("aish.chat.send", {"prompt": ":run seq 300; echo a > made"})
        await chat_holds(client, place, "\n300\n")
        await client.command_result("aish.chat.send", {"prompt": "list files"})
        await chat_holds(client, place, "CMD: ")
        busy = await asyncio.to_thread(run_main, capsys, "purge", "--yes")
        assert busy.returncode == 1
        assert f"process {client.process.pid}" in busy.stderr
        assert place.chat.exists()
    done = await asyncio.to_thread(run_main, capsys, "purge", "--yes")
    assert done.returncode == 0, done.stderr
    assert "undo" in done.stdout
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {name for name in left if "/.git/" not in name} == {"place/workspace/made"}
