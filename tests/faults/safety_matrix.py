"""What asks before a command runs: every class, from every place, in two kinds of editor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from safety_scene import Scene, acted, folder_of

#: A safe command, one of caution, a destructive one.
COMMANDS: Final = ("cat list", "touch made", "rm -rf src")

PLACES: Final = (
    "a reply",
    "a reply, longer than 80 characters",
    "typed by you",
    "another document",
)


@dataclass(frozen=True, slots=True)
class Row:
    """A place that a command comes from, a setting, an editor; and what happens to each class."""

    stands: str
    confirm: str
    asks: bool
    fates: list[str]


async def rows(root: Path) -> AsyncIterator[Row]:
    """Yield every row, acted out in folders below ``root``."""
    for confirm in ("destructive", "always"):
        for asks in (True, False):
            for number, stands in enumerate(PLACES):
                folder = root / f"{confirm}-{asks}-{number}"
                folder.mkdir()
                place = folder_of(folder)
                config = f'[safety]\nconfirm = "{confirm}"\n'
                async with acted(place, asks=asks, config=config) as scene:
                    fates = [await fate(scene, stands, command, asks=asks) for command in COMMANDS]
                yield Row(stands, confirm, asks, fates)


async def fate(scene: Scene, stands: str, command: str, *, asks: bool) -> str:
    """Try to run a command from a place; return whether it ran, and what happened first."""
    if "longer" in stands:
        # Of the same class, and more than a menu shows.
        command = f"{command} {' '.join(f'./list{number}' for number in range(20))}"
    scene.asked.clear()
    scene.answer = "Cancel"
    outcome = await clicked(scene, stands, command)
    if outcome == "ran":
        assert scene.asked == []
        return "runs"
    assert len(scene.asked) == (1 if asks else 0)
    if not asks:
        return "waits for `:approve`"
    assert f"\n    {command}\n" in scene.asked[0]
    scene.answer = "Run"
    assert await clicked(scene, stands, command) == "ran"
    return "asks"


async def clicked(scene: Scene, stands: str, command: str) -> str:
    """Run a command as its user would from a place; return ``ran`` or ``denied``."""
    if stands == "typed by you":
        answer = await scene.say(f":run {command}")
        assert ("exit " in answer) != ("ot run" in answer), answer
        return "ran" if "exit " in answer else "denied"
    if stands == "another document":
        readme = scene.folder / f"README-{len(list(scene.folder.glob('README*')))}.md"
        readme.write_text(f"CMD: {command}\n")
        actions = await scene.actions(await scene.open(readme), 0)
        run = next(one for one in actions if one["command"]["command"] == "aish.run")
        result = await scene.run(**run["command"]["arguments"][0])
    else:
        result = await scene.run_suggested(command)
    return "denied" if result["finishReason"] == "denied" else "ran"
