"""A calibration.json that cannot be used: the conversation goes on, and the user is told once."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client import Client
from context_parts import (
    Json,
    configure,
    learned,
    notices,
    ratios,
    says,
    shown,
    story,
)
from conversing import SHOWS_NOTHING, Place, ask
from fault_server import FaultServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

NEWER = json.dumps({"version": 2, "models": {}, "more": "than we know"})

#: What lies where the file should, and whether it is put aside.
FAULTS: dict[str, tuple[Callable[[Path], object], bool]] = {
    "half of it": (lambda path: path.write_text('{"version": 1, "models": {"a/b": {"ra'), True),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe\0" * 99), True),
    "nothing": (lambda path: path.write_text(""), True),
    "another kind": (lambda path: path.write_text("[1, 2]"), True),
    "deeply nested": (lambda path: path.write_text("[" * 100_000), True),
    "huge": (lambda path: path.write_text(" " * (2 << 20)), True),
    "a newer version": (lambda path: path.write_text(NEWER), False),
    "a folder": (lambda path: path.mkdir(), False),
    "a pipe": (os.mkfifo, False),
    "a link to itself": (lambda path: path.symlink_to(path), False),
}


def remove(path: Path) -> None:
    """Remove whatever it is."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


async def talks_on(client: Client, place: Place, url: str, *, times: int) -> tuple[str, list[str]]:
    """Ask a few times, all of which works; return the model's name and what was told."""
    name = configure(place, {"endpoint": url})
    told: list[str] = []
    for number in range(times):
        result = await ask(client, story(number, 600), f"{name} {number}")
        assert (result["text"], result["error"]) == ("All is well.", None)
        report = await shown(client)
        assert report["basis"] == "actual"
        told += notices(client, f"{name} {number}")
        # What it took is written down meanwhile, or not.
        await asyncio.sleep(0.05)
    return name, told


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_file_that_turns_bad(served: Any, fault: str) -> None:
    client, place = served.client, served.place
    path = place.data / "calibration.json"
    served.script = says()
    name, told = await talks_on(client, place, served.model.url, times=1)
    assert told == []
    before = await learned(place, name)
    spoil, put_aside = FAULTS[fault]
    remove(path)
    spoil(path)
    try:
        other, told = await talks_on(client, place, served.model.url, times=3)
        assert len(told) == 1
        assert "about token counts is not being saved" in told[0]
        if put_aside:
            # With all that was known before.
            assert 0.5 <= await learned(place, other) <= 3
            assert ratios(place)[name] == before
            assert list(place.data.glob("calibration.json.damaged-*"))
        elif fault == "a newer version":
            assert path.read_text() == NEWER
    finally:
        for damaged in place.data.glob("calibration.json.damaged-*"):
            damaged.unlink()
        remove(path)
    # Away again, nothing is left of it.
    name, told = await talks_on(client, place, served.model.url, times=1)
    assert told == []
    assert 0.5 <= await learned(place, name) <= 3


async def test_ratios_that_make_no_sense_do_not_count(served: Any) -> None:
    client, place = served.client, served.place
    served.script = says()
    name, _ = await talks_on(client, place, served.model.url, times=1)
    await learned(place, name)
    path = place.data / "calibration.json"
    document = json.loads(path.read_text())
    [key] = (key for key in document["models"] if key.endswith(f"/{name}"))
    for nonsense in (1e6, -1, 0, True, "1", None, [1], {"ratio": 1}):
        document["models"][key]["ratio"] = nonsense
        path.write_text(json.dumps(document))
        await client.command_result("aish.context.reset")
        report = await shown(client)
        assert report["basis"] == "estimated"
        assert 100 < report["total"] < 600
    result = await ask(client, story(1), "t")
    assert (result["error"], notices(client, "t")) == (None, [])


def without_privileges(client: Client) -> bool:
    """Have the server start with no right to write where the permissions say no."""
    if os.geteuid() != 0:
        return True
    setpriv = shutil.which("setpriv")
    if setpriv:
        client.command = [setpriv, "--bounding-set=-all", "--inh-caps=-all", *client.command]
    return setpriv is not None


async def test_a_folder_that_may_only_be_read(place: Place) -> None:
    # The sessions are kept elsewhere: of the rest, only this file is written here.
    (place.data / "workspaces").mkdir(parents=True)
    (place.data / "calibration.json").write_text(json.dumps({"version": 1, "models": {}}))
    client = place.client()
    if not without_privileges(client):
        pytest.skip("root may write everywhere, and there is no setpriv")
    place.data.chmod(0o555)
    try:
        async with FaultServer(says()) as model:
            configure(place, {"endpoint": model.url})
            async with client:
                await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
                name, told = await talks_on(client, place, model.url, times=4)
                assert len(told) == 1, told
                assert "about token counts is not being saved" in told[0]
                report: Json = await shown(client)
                assert abs(report["accuracy"]["errorPercent"]) < 15
        assert name not in ratios(place)
    finally:
        place.data.chmod(0o755)
