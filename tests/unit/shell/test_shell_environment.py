from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aish_lsp.shell.environment import command_environment, secret_values


def test_our_keys_are_withheld_and_the_rest_is_kept() -> None:
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/x",
        "LANG": "C.UTF-8",
        "MY_KEY": "mine",
        "OPENAI_API_KEY": "o",
        "ANTHROPIC_API_KEY": "",
        "MY_OTHER": "kept",
    }
    env = command_environment(environ, {"MY_KEY", "NOT_SET"})
    assert {name: env.get(name) for name in environ} == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/x",
        "LANG": "C.UTF-8",
        "MY_KEY": None,
        "OPENAI_API_KEY": None,
        "ANTHROPIC_API_KEY": None,
        "MY_OTHER": "kept",
    }
    assert sorted(secret_values(environ, {"MY_KEY", "NOT_SET"})) == ["mine", "o"]


def test_nothing_waits_for_a_terminal_or_prints_colors() -> None:
    env = command_environment({"TERM": "xterm", "PAGER": "less", "FORCE_COLOR": "1"}, ())
    assert env["TERM"] == "dumb"
    assert env["PAGER"] == env["GIT_PAGER"] == "cat"
    assert env["GIT_TERMINAL_PROMPT"] == "0"
    assert env["NO_COLOR"] == "1"
    assert "FORCE_COLOR" not in env


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A virtual environment that we seem to run from."""
    folder = tmp_path / "own"
    (folder / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    return folder


def test_an_active_virtual_environment_is_kept(own: Path) -> None:
    environ = {"PATH": f"{own}/bin:/bin", "VIRTUAL_ENV": str(own)}
    assert command_environment(environ, ()).items() >= environ.items()


def test_our_own_virtual_environment_is_not_passed_off_as_the_users(own: Path) -> None:
    link = own.parent / "link"
    link.symlink_to(own)
    environ = {"PATH": f"{own}/bin:/theirs/bin:{link}/bin:/bin:", "VIRTUAL_ENV": "/theirs"}
    env = command_environment(environ, ())
    assert env["PATH"] == "/theirs/bin:/bin:"
    assert env["VIRTUAL_ENV"] == "/theirs"


def test_without_a_path_there_is_none(own: Path) -> None:
    assert "PATH" not in command_environment({}, ())


def test_outside_of_a_virtual_environment_the_path_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert command_environment({"PATH": "/usr/bin:/bin"}, ())["PATH"] == "/usr/bin:/bin"
