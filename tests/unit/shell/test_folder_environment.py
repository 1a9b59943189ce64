"""The environment of a folder, from the real direnv and mise."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from machine import needs, without_landlock, without_programs

from aish_lsp.shell.confinement.support import Confinement, Support
from aish_lsp.shell.folder_environment import FolderEnvironment

with_direnv = needs(without_programs("direnv") or without_landlock())
with_mise = needs(without_programs("mise") or without_landlock())
pytestmark = pytest.mark.slow


class Place:
    """A folder of a user's, and the environment that its tools are given."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "project"
        self.folder.mkdir(parents=True)
        (home / ".ssh").mkdir()
        (home / ".ssh" / "id_rsa").write_text("kept by the user\n")
        self.environ = {"HOME": str(home), "PATH": os.environ["PATH"], "DB_PASSWORD": "Hunter-2222"}
        self.confinement = Confinement(self.environ)
        self.environment = FolderEnvironment(self.folder, lambda: self.confinement)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def allow(self, *command: str) -> None:
        subprocess.run(command, cwd=self.folder, env=self.environ, check=True, capture_output=True)

    async def read(self) -> tuple[dict[str, str | None], list[str]]:
        """Return what differs from the environment around, and what the user is told."""
        environ, told = await self.environment.over(self.environ, [])
        both = {**self.environ, **environ}
        return {n: environ.get(n) for n in both if environ.get(n) != self.environ.get(n)}, told


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path / "home")
    yield made
    await made.confinement.aclose()


async def test_a_folder_without_files_of_either_changes_nothing(place: Place) -> None:
    assert await place.read() == ({}, [])


@with_direnv
async def test_an_allowed_envrc_sets_and_unsets_variables_and_extends_path(place: Place) -> None:
    place.environ["GONE"] = "soon"
    place.write(".envrc", "export STAGE='a b'\nPATH_add bin\nunset GONE\n")
    place.allow("direnv", "allow")
    path = f"{place.folder}/bin:{place.environ['PATH']}"
    assert await place.read() == ({"STAGE": "a b", "PATH": path, "GONE": None}, [])


@with_direnv
async def test_an_envrc_that_is_not_allowed_is_not_run_and_said_once(place: Place) -> None:
    place.write(".envrc", "export STAGE=test\n")
    changed, [told] = await place.read()
    assert not changed
    assert "direnv allow" in told
    assert await place.read() == ({}, [])
    place.allow("direnv", "allow")
    assert await place.read() == ({"STAGE": "test"}, [])
    # Whatever is in it now, nobody has allowed it.
    place.write(".envrc", "export STAGE=other\n")
    changed, [told] = await place.read()
    assert not changed
    assert "direnv allow" in told


@with_direnv
async def test_what_an_envrc_runs_is_confined(place: Place) -> None:
    place.write(".envrc", "touch made; export KEY=$(cat ~/.ssh/id_rsa); export STAGE=test\n")
    place.allow("direnv", "allow")
    changed, _ = await place.read()
    assert changed == {"KEY": "", "STAGE": "test"}
    assert not (place.folder / "made").exists()


@with_direnv
async def test_a_file_that_an_envrc_reads_is_read_again_when_it_changes(place: Place) -> None:
    place.write(".envrc", "dotenv stage.env\n")
    place.write("stage.env", "STAGE=one\n")
    place.allow("direnv", "allow")
    assert await place.read() == ({"STAGE": "one"}, [])
    place.write("stage.env", "STAGE=second\n")
    assert await place.read() == ({"STAGE": "second"}, [])


@with_direnv
async def test_the_environment_is_kept_while_nothing_changes(place: Place) -> None:
    place.write(".envrc", "export STAGE=$RANDOM$RANDOM$RANDOM\n")
    place.allow("direnv", "allow")
    first, second = await place.read(), await place.read()
    assert first == second


@with_direnv
async def test_what_affects_every_program_is_not_taken_and_said(place: Place) -> None:
    place.write(".envrc", "export LD_PRELOAD= LD_LIBRARY_PATH=/x BASH_ENV=./x STAGE=test\n")
    place.allow("direnv", "allow")
    changed, [told] = await place.read()
    assert changed == {"STAGE": "test"}
    assert "`BASH_ENV`, `LD_LIBRARY_PATH`" in told


@with_direnv
async def test_a_secret_of_the_user_is_not_given_to_an_envrc(place: Place) -> None:
    code = '$(printf %s "$DB_PASSWORD" | tr a-z b-za)'
    place.write(".envrc", f"export URL=db://u:$DB_PASSWORD@host HIDDEN={code}\n")
    place.allow("direnv", "allow")
    changed, _ = await place.read()
    assert "URL" not in changed
    assert changed["HIDDEN"] == "[tfdsfu]"


@with_direnv
async def test_an_editor_from_a_direnv_terminal_gets_what_the_envrc_says_now(place: Place) -> None:
    place.write(".envrc", "export STAGE=one ONLY_ONE=1\n")
    place.allow("direnv", "allow")
    shown = subprocess.run(
        ["direnv", "exec", ".", "env", "-0"],
        cwd=place.folder,
        env=place.environ,
        check=True,
        capture_output=True,
        text=True,
    )
    inherited = dict(pair.split("=", 1) for pair in shown.stdout.split("\0") if pair)
    assert inherited["STAGE"] == "one"
    place.environ.update(inherited)
    place.write(".envrc", "export STAGE=second\n")
    place.allow("direnv", "allow")
    assert await place.read() == ({"STAGE": "second", "ONLY_ONE": None}, [])


@with_direnv
async def test_an_envrc_that_takes_too_long_is_ended_and_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aish_lsp.shell.folder_environment._SECONDS", 1.0)
    place.write(".envrc", "sleep 600\n")
    place.allow("direnv", "allow")
    changed, [told] = await place.read()
    assert not changed
    assert "longer than 1 s" in told


@with_direnv
async def test_what_an_envrc_makes_is_there_once_the_user_has_entered_the_folder(
    place: Place,
) -> None:
    place.write(".envrc", "mkdir -p .direnv/python || exit 1\nexport STAGE=test\n")
    place.allow("direnv", "allow")
    changed, [told] = await place.read()
    assert not changed
    assert "cannot write" in told
    place.allow("direnv", "exec", ".", "true")
    assert await place.read() == ({"STAGE": "test"}, [])


@with_direnv
async def test_an_envrc_is_not_run_where_nothing_can_be_confined(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def support() -> Support:
        return Support(False, "the kernel has no Landlock")

    monkeypatch.setattr(place.confinement, "support", support)
    place.write(".envrc", "export STAGE=test\n")
    place.allow("direnv", "allow")
    changed, [told] = await place.read()
    assert not changed
    assert "cannot be confined here (the kernel has no Landlock)" in told


@with_mise
async def test_a_trusted_mise_file_sets_variables_confined(place: Place) -> None:
    place.write("mise.toml", '[env]\nSTAGE = "test"\n_.path = ["bin"]\n')
    changed, [told] = await place.read()
    assert not changed
    assert "mise trust" in told
    place.allow("mise", "trust", "-q")
    changed, told_after = await place.read()
    assert (changed["STAGE"], told_after) == ("test", [])
    assert str(changed["PATH"]).startswith(f"{place.folder}/bin:")
    place.write("mise.toml", "[env]\nSTAGE = \"{{ exec(command='touch made; echo x') }}\"\n")
    changed, [told] = await place.read()
    assert not changed
    assert "made" in told
    assert not (place.folder / "made").exists()


@with_mise
async def test_mise_trusts_nothing_by_itself_in_ci(place: Place) -> None:
    place.environ |= {"CI": "true", "MISE_YES": "1"}
    place.write("mise.toml", '[env]\nSTAGE = "test"\n')
    changed, [told] = await place.read()
    assert not changed
    assert "mise trust" in told
