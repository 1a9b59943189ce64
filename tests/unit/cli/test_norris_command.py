"""``aish-lsp norris`` at a terminal, without one, and with nobody who could pursue a goal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, at_terminal
from fault_server import Peer, Request, chunk_of, served
from test_ask_command import environment, project, run

__all__ = ["environment", "project", "run"]

STEPS = (
    "I look.\nCMD: cat Makefile\n",
    "CMD: touch new.txt\n",
    "GOAL: complete\nAll is there.\n",
)


@pytest.fixture
def model(environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment, with a model that makes three steps."""

    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        asked = [one for one in request.json["messages"] if one["role"] == "user"]
        await peer.head()
        await peer.event(chunk_of(STEPS[len(asked) - 1]))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")
        await peer.chunk(b"")

    with served(script) as url:
        config = tmp_path / "config.toml"
        config.write_text(
            f'default_model = "m"\n[models.m]\nendpoint = "{url}"\nmodel = "m"\n'
            "context_window = 8192\n"
        )
        yield {**environment, "AISH_CONFIG": str(config)}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines for certain")
def test_at_a_terminal_it_asks_what_it_has_to(
    run: CommandLine, model: dict[str, str], project: Path
) -> None:
    arguments = ["norris", "Look around.", "--workspace", str(project)]
    answers = {"Allow it? [y/N]": "y\n", "[y/s/f/N]": "y\n"}
    said = at_terminal(model, arguments, answers)
    assert "pursues a goal by itself" in said
    assert "test:\r\n\t@echo tests ran" in said
    assert "Step 1: done, exit 0." in said
    assert "The goal was reached in 3 steps.\r\n" in said
    assert (project / "new.txt").exists()

    # The chat tells its steps, too.
    (project / "new.txt").unlink()
    arguments[:2] = ["chat"]
    answers = {"aish>": ":norris Look around.\n", "[y/s/f/N]": "y\n", "in 3 steps": ":quit\n"}
    assert "Step 1: done, exit 0." in at_terminal(model, arguments, answers)

    # It was agreed to. What changes something is refused where nobody is there.
    (project / "new.txt").unlink()
    done = run(model, "norris", "Look around.", *arguments[1:], "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1] == {"outcome": "complete", "steps": 3, "summary": "All is there."}
    steps = [one for one in events if one.get("kind") == "step"]
    assert [one["status"] for one in steps if one["status"] != "planned"] == [
        *("running", "done", "running", "denied", "done"),
    ]
    assert not (project / "new.txt").exists()


def test_nobody_to_ask_begins_nothing(
    run: CommandLine, model: dict[str, str], project: Path
) -> None:
    done = run(model, "norris", "Look around.", "--workspace", str(project))
    assert done.returncode == 1
    assert "nobody could be asked whether goals may be pursued here" in done.stderr


def test_the_offline_model_pursues_nothing(
    run: CommandLine, environment: dict[str, str], project: Path
) -> None:
    offline = {**environment, "AISH_DISCOVERY": "off"}
    done = run(offline, "norris", "Look", "around.", "--workspace", str(project))
    assert done.returncode == 1
    assert "The offline model cannot pursue a goal: `aish-lsp setup`" in done.stderr


@pytest.mark.parametrize("steps", ["0", "-3", "x"])
def test_a_number_of_steps_is_one(
    run: CommandLine, model: dict[str, str], project: Path, steps: str
) -> None:
    done = run(model, "norris", "Look.", "--max-steps", steps, "--workspace", str(project))
    assert done.returncode == 2
    assert "--max-steps" in done.stderr
