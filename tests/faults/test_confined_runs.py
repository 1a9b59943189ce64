"""What runs confined and what does not, through the server as an editor drives it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conversing import Place
from safety_scene import Scene, acted, folder_of, git

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines for certain")

#: The user says that it is safe: whatever it is, what is safe cannot write.
CALLED_SAFE = '[[safety.rules]]\nmatch = "touch|chmod|cat"\nrisk = "safe"\n'


def prompt_of(scene: Scene) -> str:
    """Return what the model was sent last."""
    return json.dumps(scene.model.requests[-1].json["messages"][-1])


def command_line(place: Place, *arguments: str, abi: str) -> subprocess.CompletedProcess[str]:
    """Run ``aish-lsp`` in a place, without a terminal."""
    environ = {
        **os.environ,
        "HOME": str(place.root / "home"),
        "AISH_DATA_DIR": str(place.data),
        "AISH_CONFIG": str(place.config),
        "AISH_DISCOVERY": "off",
        "AISH_LANDLOCK_ABI": abi,
    }
    return subprocess.run(
        [sys.executable, "-m", "aish_lsp", *arguments],
        cwd=place.folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


async def test_what_is_safe_cannot_write_whatever_it_is(tmp_path: Path) -> None:
    place = folder_of(tmp_path)
    async with acted(place, config=CALLED_SAFE) as scene:
        result = await scene.run_suggested("touch src/made")
        assert (result["exitCode"], scene.asked) == (1, [])
        assert not (scene.folder / "src" / "made").exists()
        # It is offered once more, and the model knows why it failed.
        [offered] = (await scene.client.command_result("aish.commands.list"))["commands"]
        assert (offered["text"], offered["risk"]) == ("touch src/made", "caution")
        chat = await scene.open(scene.folder / "list")
        titles = [action["title"] for action in await scene.actions(chat, 0)]
        assert "Run without confinement: touch src/made" in titles
        await scene.reply("I see.", "why did it fail?")
        assert "[aish: confined]" in prompt_of(scene)
        result = await scene.run(commandId=offered["id"])
        assert result["exitCode"] == 0
        assert (scene.folder / "src" / "made").exists()


async def test_secrets_stay_closed_and_are_listed(tmp_path: Path) -> None:
    place = folder_of(tmp_path)
    async with acted(place, config=CALLED_SAFE) as scene:
        listed = await scene.run_suggested(f"ls {place.data}")
        assert listed["exitCode"] == 0
        [log] = (place.data / "workspaces").rglob("sessions/*.jsonl")
        read = await scene.run_suggested(f"cat {log}")
        assert read["exitCode"] == 1
        assert "Permission denied" in read["output"]


async def test_what_only_reads_gets_no_secrets(tmp_path: Path) -> None:
    """No mask knows each form that a program can give to what it reads of its environment."""
    rule = '[[safety.rules]]\nmatch = "printenv"\nrisk = "safe"\nconfine = false\n'
    secret = "tr0ub4dor-and-more"
    async with acted(folder_of(tmp_path), config=rule, env={"DB_PASSWORD": secret}) as scene:
        program = "open('/pr' + 'oc/self/en' + 'viron').read().encode('utf-16-be').hex('.')"
        shown = (await scene.run_suggested(f'python3 -c "print({program})"'))["output"]
        assert "DB_PASSWORD=[secret]".encode("utf-16-be").hex(".") in shown
        assert secret.encode("utf-16-be").hex(".") not in shown
        # A command of the user's own that reaches more than what is confined may need it.
        assert (await scene.run_suggested("printenv DB_PASSWORD"))["output"] == f"{secret}\n"


async def test_what_the_user_typed_is_their_own(tmp_path: Path) -> None:
    place = folder_of(tmp_path)
    async with acted(place, config=CALLED_SAFE) as scene:
        assert (await scene.run(text="touch typed"))["exitCode"] == 0
        assert "$ touch said" in await scene.say(":run touch said")
        assert (scene.folder / "typed").exists()
        assert (scene.folder / "said").exists()
        # A suggestion that was edited is judged, and confined where it is safe.
        [suggested] = (await scene.reply("CMD: ls\n"))["commands"]
        result = await scene.run(commandId=suggested["id"], edited="touch edited")
        assert result["exitCode"] == 1


async def test_the_user_can_turn_it_off(tmp_path: Path) -> None:
    for name in ("rule", "off"):
        (tmp_path / name).mkdir()
    rule = CALLED_SAFE + "confine = false\n"
    async with acted(folder_of(tmp_path / "rule"), config=rule) as scene:
        assert (await scene.run_suggested("touch made"))["exitCode"] == 0
        # What stands beside it must be safe unconfined, too.
        assert (await scene.run_suggested("touch more; ls > /dev/null"))["exitCode"] == 0
    off = "[safety]\nconfine = false\n" + CALLED_SAFE
    async with acted(folder_of(tmp_path / "off"), config=off) as scene:
        assert (await scene.run_suggested("touch made"))["exitCode"] == 0


async def test_a_workspace_cannot(tmp_path: Path) -> None:
    place = folder_of(tmp_path)
    (place.folder / ".aish.toml").write_text("[safety]\nconfine = false\nsnapshot = false\n")
    settings = {"safety": {"confine": False}}
    async with acted(place, config=CALLED_SAFE, settings=settings) as scene:
        scene.answer = "Grant"
        await scene.client.command_result("aish.trust.grant")
        assert (await scene.run_suggested("touch made"))["exitCode"] == 1
    assert not (place.folder / "made").exists()


@pytest.mark.parametrize("abi", ["0", "1", "3", "7"])
async def test_doctor_and_behavior_agree(tmp_path: Path, abi: str) -> None:
    place = folder_of(tmp_path)
    variables = {"AISH_LANDLOCK_ABI": abi}
    async with acted(place, config=CALLED_SAFE, env=variables) as scene:
        result = await scene.run_suggested("touch made")
    done = command_line(place, "doctor", "--json", abi=abi)
    [finding] = [one for one in json.loads(done.stdout) if one["what"] == "confinement"]
    assert finding["state"] == ("missing" if abi == "0" else "ok")
    assert result["exitCode"] == (0 if abi == "0" else 1)


@pytest.mark.parametrize(("abi", "runs"), [("0", False), ("7", True)])
def test_unseen_it_runs_only_confined(tmp_path: Path, abi: str, runs: bool) -> None:
    """Headless, nobody answers: what cannot be confined is not run."""
    place = folder_of(tmp_path)
    place.config.write_text("")
    git(place.folder, "init", "-q")
    question = "what changed since the last commit?"
    done = command_line(place, "ask", "--yes-safe", question, abi=abi)
    assert "CMD: git " in done.stdout
    assert ("aish-lsp: exit 0" in done.stderr) == runs, done.stderr
    assert ("it cannot be confined here" in done.stderr) != runs, done.stderr
