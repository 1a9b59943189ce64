"""What holds for every command: a current folder that is gone, a stdout that takes nothing."""

from __future__ import annotations

import argparse
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from aish_lsp.cli import _COMMANDS, main, parser


def start(
    tmp_path: Path, script: str, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line as ``"$@"`` of a shell script."""
    environment = {**os.environ, "HOME": str(tmp_path), "AISH_DATA_DIR": str(tmp_path / "data")}
    return subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "aish_lsp", *arguments],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def gone(tmp_path: Path) -> Path:
    """A folder for a script that deletes it before anything else."""
    folder = tmp_path / "gone"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_from_a_deleted_folder_a_named_workspace_is_used(tmp_path: Path, gone: Path) -> None:
    arguments = ("ask", "help", "--workspace", str(tmp_path))
    done = start(tmp_path, 'rmdir "$PWD"; exec "$@"', *arguments, cwd=gone)
    assert done.returncode == 0, done.stderr
    assert "Ask me" in done.stdout


@pytest.mark.parametrize("arguments", [("ask", "help"), ("doctor",), ("config", "show")])
@pytest.mark.slow
def test_a_deleted_folder_is_told_in_a_line(
    tmp_path: Path, gone: Path, arguments: tuple[str, ...]
) -> None:
    done = start(tmp_path, 'rmdir "$PWD"; exec "$@"', *arguments, cwd=gone)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "aish-lsp: The current folder was deleted. Change to another, or use --workspace."
    ]


@pytest.mark.slow
def test_a_deleted_folder_cannot_be_named(tmp_path: Path, gone: Path) -> None:
    arguments = ("config", "show", "--workspace", ".")
    done = start(tmp_path, 'rmdir "$PWD"; exec "$@"', *arguments, cwd=gone)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_what_needs_no_folder_runs_in_a_deleted_one(tmp_path: Path, gone: Path) -> None:
    done = start(tmp_path, 'rmdir "$PWD"; exec "$@"', "config", "schema", cwd=gone)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "help"),
        ("ask", "help", "--json"),
        ("ask", "x", "--model", "nosuch", "--json"),
        ("doctor",),
        ("config", "schema"),
    ],
)
@pytest.mark.slow
def test_a_full_stdout_is_told_in_a_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = start(tmp_path, 'exec "$@" >/dev/full', *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert done.stderr.count("No space left on device") == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.slow
def test_a_closed_pipe_is_no_trouble(tmp_path: Path) -> None:
    script = '{ "$@"; echo "exit $?" >&2; } | true'
    done = start(tmp_path, script, "config", "schema", cwd=tmp_path)
    assert done.stderr == "exit 1\n"


@pytest.mark.slow
def test_on_a_terminal_it_says_what_to_start_instead_of_waiting(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "aish_lsp"],
        env={**os.environ, "HOME": str(tmp_path)},
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    os.close(ours)
    os.close(theirs)
    assert "is a language server" in done.stdout
    assert "aish-lsp chat" in done.stdout


@pytest.mark.parametrize(
    ("command", "same_as"),
    [
        (["sessions"], ["sessions", "list"]),
        (["memory"], ["memory", "list"]),
        (["memory", "--json"], ["memory", "list", "--json"]),
        (["config"], ["config", "show"]),
        (["sessions", "--help"], ["sessions", "-h"]),
    ],
)
def test_a_command_without_an_action_shows_what_there_is(
    command: list[str],
    same_as: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = []
    for arguments in (command, same_as):
        with suppress(SystemExit):
            assert main(arguments) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("script", "arguments", "stdin", "shown"),
    [
        ('exec "$@"', ("ask", "list", "the", "files", "here"), b"", b"ls -la"),
        ('exec "$@"', ("ask", "-"), b"help \xff\n", b"Ask me"),
        ('exec "$@"', ("chat",), b"\xff\n:help\n", b":help"),
        ('PYTHONIOENCODING=ascii exec "$@"', ("doctor",), b"", b"\\u2713 aish-lsp"),
        ('exec "$@" <&-', ("tokens",), b"", b" 0  -"),
        ('exec "$@" >&-', ("config", "show"), b"", b""),
        ('exec "$@" >&-', ("--version",), b"", b""),
        ('exec "$@" 2>&-', ("config", "show"), b"", b"default_model"),
    ],
)
@pytest.mark.slow
def test_no_stream_is_too_odd(
    tmp_path: Path, script: str, arguments: tuple[str, ...], stdin: bytes, shown: bytes
) -> None:
    environment = {"HOME": str(tmp_path), "AISH_DATA_DIR": str(tmp_path / "data")}
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "aish_lsp", *arguments],
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict", **environment},
        cwd=tmp_path,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
    assert b"Traceback" not in done.stderr


def _help(parser: argparse.ArgumentParser) -> dict[str, str]:
    [commands] = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    return {name: command.format_help() for name, command in commands.choices.items()}


def test_the_parser_for_one_command_has_what_it_has_in_the_parser_for_all() -> None:
    whole = _help(parser())
    assert list(whole) == ["serve", *_COMMANDS]
    for name in _COMMANDS:
        assert _help(parser(name))[name] == whole[name]


@pytest.mark.slow
def test_a_question_loads_no_other_command(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom aish_lsp.__main__ import main\nmain(sys.argv[1:])\n"
        "print('loaded:', *sys.modules)"
    )
    done = start(tmp_path, 'exec "$1" -c "$4" ask list files by size', script, cwd=tmp_path)
    loaded = done.stdout.partition("loaded:")[2].split()
    assert "aish_lsp.cli.ask" in loaded, done
    others = {"aish_lsp.cli.setup", "aish_lsp.cli.chat", "aish_lsp.cli.doctor", "aish_lsp.lsp"}
    assert {*others, "rich"}.isdisjoint(loaded)
