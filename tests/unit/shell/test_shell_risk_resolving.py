"""A command's first word on the PATH that it will run with."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from aish_lsp.shell.risk import classify

SYSTEM = "/usr/local/bin:/usr/bin:/bin"


def program(place: Path, mode: int = 0o755) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(mode)
    return place


def risk(text: str, path: str, folder: Path | None = None, *, confined: bool = True) -> str:
    return classify(text, "bash", path=path, folder=folder, confined=confined).risk


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / ".git").mkdir()
    return work


@pytest.mark.parametrize("text", ["ls", "timeout 5 ls", "find . -exec ls {} +", "command ls"])
def test_a_program_in_the_workspace_is_not_the_one_that_is_known(work: Path, text: str) -> None:
    program(work / "bin" / "ls")
    for path in (f"{work}/bin:{SYSTEM}", f"bin:{SYSTEM}", f":{SYSTEM}"):
        assert risk(text, path, work) == "caution"
    assert risk(text, f"{work}/bin:{SYSTEM}", work / "sub") == "caution"
    assert risk(text, f"{SYSTEM}:{work}/bin", work) == "safe"


@pytest.mark.parametrize("text", ["find .", "bash -c ls", "timeout 5 ls", "xargs ls", "git status"])
def test_what_runs_another_is_looked_up_as_well(work: Path, text: str) -> None:
    program(work / "bin" / text.split(maxsplit=1)[0])
    assert risk(text, f"{work}/bin:{SYSTEM}", work) == "caution"


def test_a_program_that_leads_into_the_workspace_is_of_it(work: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "wc").symlink_to(program(work / "wc"))
    assert risk("wc f", f"{tmp_path}/bin", work) == "caution"


@pytest.mark.parametrize("mode", [stat.S_ISUID, stat.S_ISGID])
def test_a_program_with_rights_of_its_own_is_not_safe(tmp_path: Path, mode: int) -> None:
    program(tmp_path / "bin" / "wc", 0o755 | mode)
    program(tmp_path / "bin" / "mount", 0o755 | mode)
    assert risk("wc f", f"{tmp_path}/bin") == "caution"
    assert risk("mount", f"{tmp_path}/bin") == "safe", "it needs none of them to list"
    assert risk("mount /x", f"{tmp_path}/bin") != "safe"


def test_a_builtin_and_what_is_not_there_are_not_looked_for(work: Path) -> None:
    program(work / "echo")
    assert risk("echo a; [ -f x ]; cd sub", str(work), work) == "safe"
    assert risk("wc f", "/nowhere", work) == "safe"


def test_only_the_systems_own_folders_are_known_by_path(tmp_path: Path) -> None:
    program(tmp_path / "ls")
    assert risk("/bin/ls", SYSTEM) == "safe"
    for text in (f"{tmp_path}/ls", "./ls", "/tmp/find .", "../bash -c ls", "LS"):
        assert risk(text, SYSTEM) == "caution"


def test_our_own_path_counts_where_none_is_given(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = Path(shutil.which("wc") or "/usr/bin/wc").name
    program(work / name)
    assert classify(f"{name} f", "bash", folder=work, confined=True).risk == "safe"
    monkeypatch.setenv("PATH", f"{work}{os.pathsep}{SYSTEM}")
    assert classify(f"{name} f", "bash", folder=work, confined=True).risk == "caution"
