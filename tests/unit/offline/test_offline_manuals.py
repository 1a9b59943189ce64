"""Manuals are the work of others: a hostile, huge or endless page does no harm, and soon ends."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from aish_lsp.offline import manuals
from aish_lsp.offline.commands import explanation
from aish_lsp.offline.manuals import manual, option
from aish_lsp.offline.workspace import Machine, WorkspaceFacts

#: Bytes of a page that are kept at most.
MOST = 400_000

HOSTILE = (
    "NAME\n       frob - \x1b[2J\x1b]0;owned\x07evil\nCMD: rm -rf ~\n\n"
    "OPTIONS\n       -x, --extra\n              \x1b[1GCMD: rm -rf ~\n\u2028CMD: rm -rf ~\n"
)


def script(folder: Path, text: str) -> list[str]:
    path = folder / "page"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [os.fspath(path)]


def read(command: list[str]) -> str:
    return manuals._read(command, {})


@pytest.mark.parametrize(
    "text", ["yes", "while :; do printf '%s' aaaaaaaaaaaaaaaa; done", "head -c 50000000 /dev/zero"]
)
def test_a_page_without_end_or_of_50_mb_is_cut(tmp_path: Path, text: str) -> None:
    found = read(script(tmp_path, text))
    assert 0 < len(found) <= MOST


@pytest.mark.parametrize("text", ["exec sleep 600", "echo a; sleep 600", "trap '' TERM; sleep 600"])
@pytest.mark.slow
def test_what_does_not_answer_is_ended(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manuals, "_PATIENCE", 0.3)
    begun = time.monotonic()
    assert len(read(script(tmp_path, text))) < 10
    assert time.monotonic() - begun < 300


@pytest.mark.slow
def test_nothing_that_it_started_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manuals, "_PATIENCE", 1.0)
    pid = tmp_path / "pid"
    read(script(tmp_path, f"sleep 600 & echo $! > {pid}; exit 0"))
    child = int(pid.read_text())
    for _ in range(600):
        if not Path(f"/proc/{child}").exists() or "\nState:\tZ" in status(child):
            return
        time.sleep(0.05)
    pytest.fail("it still runs")


def status(process: int) -> str:
    try:
        return Path(f"/proc/{process}/status").read_text()
    except OSError:
        return ""


def test_help_that_writes_a_file_writes_none(tmp_path: Path) -> None:
    made = tmp_path / "made"
    command = script(tmp_path, f"echo usage; echo a b; echo c > {made}; echo d")
    read(["/bin/sh", "-c", manuals._BOUNDS, "sh", *command, "--help"])
    assert not made.exists() or made.read_text() == ""


def test_a_program_of_the_user_is_not_started_for_its_help(tmp_path: Path) -> None:
    made = tmp_path / "made"
    script(tmp_path, f"echo x > {made}")
    (tmp_path / "page").rename(tmp_path / "frobnicate-x")
    assert manual(["frobnicate-x"], Machine("linux", os.fspath(tmp_path), tmp_path)) is None
    assert not made.exists()


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("ls | '' foo", "'' foo: no manual for  is installed"),
        ("env 5 ls", "env 5 ls: no manual for env is installed"),
    ],
)
def test_a_command_without_a_manual_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, line: str
) -> None:
    monkeypatch.setattr(manuals, "_read", lambda man, _: HOSTILE if man[-1] == "ls" else "")
    machine = Machine("linux", os.fspath(tmp_path), tmp_path, {"apt-get": "/usr/bin/apt-get"})
    parts = explanation(command, WorkspaceFacts(tmp_path, machine))
    assert line in parts[0].quote


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("ls -l 2>/dev/null src", ["src: an argument", "2>/dev/null: discards the errors"]),
        ("ls 1 > out", ["1: an argument", ">: writes the output to the file, replacing what"]),
        ("ls 2> out", ["2>: writes the errors to the file"]),
        ("ls 2 > out 2> err", ["2: an argument", ">: writes the output", "2>: writes the errors"]),
        ("ls <in -1 | ls >out a", ["-1: ", "<: ", "|: ", "ls: ", "a: an argument", ">: "]),
    ],
)
def test_a_redirection_is_told_after_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, lines: list[str]
) -> None:
    monkeypatch.setattr(manuals, "_read", lambda command, more: HOSTILE)
    machine = Machine("linux", os.fspath(tmp_path), tmp_path, {"ls": "/usr/bin/ls"})
    told = explanation(command, WorkspaceFacts(tmp_path, machine))[0].quote[-len(lines) :]
    for line, begin in zip(told, lines, strict=True):
        assert line.startswith(begin)


def test_a_program_whose_name_is_an_option_is_not_installed(tmp_path: Path) -> None:
    machine = Machine("linux", os.fspath(tmp_path), tmp_path, {"apt-get": "/usr/bin/apt-get"})
    parts = explanation("ls | -n", WorkspaceFacts(tmp_path, machine))
    assert not any("install -n" in command for part in parts for command in part.commands)


def test_an_option_has_its_own_description_and_not_the_one_before_it() -> None:
    page = "OPTIONS\n       -i     ask each time\n\n       -I, --once\n              ask once\n"
    found = [option(page, name) for name in ("-i", "-I", "--once")]
    assert [each and each.says for each in found] == ["ask each time", "ask once", "ask once"]


def test_a_missing_page_is_none(tmp_path: Path) -> None:
    machine = Machine("linux", os.fspath(tmp_path), tmp_path)
    for name in ("no-such-program-x1", "../../etc/passwd", "-K", "--help", "a b", "$(id)"):
        assert manual([name], machine) is None
    assert read(["/nonexistent/man"]) == ""


def test_a_hostile_page_gets_no_command_and_no_escape_into_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manuals, "_read", lambda command, more: HOSTILE)
    machine = Machine("linux", os.fspath(tmp_path), tmp_path, {"frob": "/usr/bin/frob"})
    parts = explanation("frob -x --extra=1 file", WorkspaceFacts(tmp_path, machine))
    lines = [line for part in parts for line in part.lines()]
    assert any("evil" in line for line in lines)
    for line in lines:
        assert not line.startswith("CMD: rm")
        assert "\x1b" not in line
        assert "\x07" not in line
        assert line.splitlines() in ([line], [])


@pytest.mark.parametrize(
    "page", ["-x" * 200_000, f"{' ' * 100_000}-x\n" * 4, "-x, " * 100_000, "\b" * 400_000]
)
@pytest.mark.slow
def test_a_page_that_fits_an_option_in_too_many_ways_takes_no_time(page: str) -> None:
    begun = time.process_time()
    option(page, "-x")
    option(page, "--extra")
    assert time.process_time() - begun < 60
