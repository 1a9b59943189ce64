"""Commands that want a terminal, where there is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from aish_lsp.shell import output, runner
from aish_lsp.shell.environment import command_environment
from aish_lsp.shell.output import (
    ends_in_question,
    gave_up_for_terminal,
    line_for_terminal,
    refusal_pattern,
)
from aish_lsp.shell.runner import RunResult, Stream, run_command


async def ignore(stream: Stream, delta: str) -> None:
    """A listener that takes whatever comes."""


async def run(text: str, cwd: Path) -> RunResult:
    env = command_environment(os.environ, [])
    return await run_command(text, cwd=cwd, shell="sh", timeout=60, env=env, on_output=ignore)


@pytest.mark.parametrize(
    "text",
    [
        "cat </dev/tty",
        "git -c user.name=n -c user.email=e@x.test commit --allow-empty",
        "top",
        "tmux",
        "python3 -c 'input()'",
        "gpg --gen-key",
    ],
)
async def test_a_command_that_gives_up_for_want_of_one(text: str, tmp_path: Path) -> None:
    program = text.partition(" ")[0]
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")
    os.mkdir(tmp_path / "home")  # noqa: PTH102 - gpg makes its own folder there
    made = await run(f"export HOME=$PWD/home; git init -q; {text}", tmp_path)
    assert made.exit_code != 0
    assert made.wants_terminal, made.output


@pytest.mark.parametrize(
    "text", ["echo 'top: failed tty get'", "ls nothing", "echo x", "cat", "sleep 0.1; exit 3"]
)
async def test_one_that_wants_none(text: str, tmp_path: Path) -> None:
    assert not (await run(text, tmp_path)).wants_terminal


@pytest.mark.parametrize(
    "text",
    [
        "touch x; rm -i x",
        "touch x y; cp -i x y",
        "echo a >x; git add x; echo b >>x; git add -p",
        "npm init",
        "ssh-keygen",
        "printf 'Continue? [Y/n] '; read -r x",
        "printf 'Do you want to continue? [Y/n] '; echo Abort.",
        "printf 'Password: '; read -r x; true",
        "printf 'Overwrite (yes/no)?'",
    ],
)
async def test_a_question_that_nobody_answers(text: str, tmp_path: Path) -> None:
    for program in ("npm", "ssh-keygen"):
        if text.startswith(program) and shutil.which(program) is None:
            pytest.skip(f"there is no {program} here")
    os.mkdir(tmp_path / "home")  # noqa: PTH102 - no program finds its files in ours
    result = await run(f"export HOME=$PWD/home; git init -q; {text}", tmp_path)
    assert result.wants_terminal, result.output


@pytest.mark.parametrize(
    "said",
    [
        "? What is your name? \u203a ",
        "? Select a framework: \u00bb - Use arrow-keys.\n\u276f  Vanilla\n    Vue\n",
        "\u25c6  Pick one\n\u2502  \u25cf a\n\u2502  \u25cb b\n\u2514\n",
        "\x1b[1m? \x1b[0mName: \x1b[0K",
        "Continue? [Y/n] \x1b[?25h",
        "Proceed? [y/N]: Aborted!\n",
        "Proceed? [y/N]: \nAborted!\n",
        "Press any key to continue . . . ",
        "Press Enter to continue...\n",
        "\u00cates-vous s\u00fbr ?\u00a0",
    ],
)
def test_an_output_with_an_open_question(said: str) -> None:
    assert ends_in_question(f"some lines\n{said}")


@pytest.mark.parametrize(
    "said",
    [
        "",
        "?   \texample.org/a\t[no test files]\n",
        "? a.txt\n? b.txt\n",
        "\u276f done\n",
        "Is it on?\n",
        "Total:\n",
        "Total: 3",
        "[y/n] was answered with yes.\n",
        "a: b (c)",
        "x [1]",
    ],
)
def test_an_output_without_an_open_question(said: str) -> None:
    assert not ends_in_question(said)


@pytest.mark.skipif(shutil.which("vim") is None, reason="there is no Vim here")
@pytest.mark.slow
async def test_an_editor_that_waits_for_keys_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(runner, "SILENCE_SECONDS", 0.5)
        result = await run("vim -u NONE file", tmp_path)
    assert result.finish_reason == "stop"
    assert result.wants_terminal
    assert "waiting for a terminal" in result.output.splitlines()[-1]
    # It is left alone where it goes on by itself.
    result = await run("vim -u NONE -c 'normal ix' -c wq other", tmp_path)
    assert (result.exit_code, result.wants_terminal) == (0, False)
    assert (tmp_path / "other").read_text() == "x\n"


@pytest.mark.parametrize(
    "said",
    [
        "sudo: a terminal is required to read the password; either use the -S option to read",
        "sudo: no tty present and no askpass program specified",
        "the input device is not a TTY",
        "open terminal failed: not a terminal",
        "Must be connected to a terminal.",
        "emacs: standard input is not a tty",
        "Error opening terminal: dumb.",
        "fatal: could not read Username for 'https://x.test': terminal prompts disabled",
        "bash: line 1: /dev/tty: No such device or address",
        "ssh: read_passphrase: can't open /dev/tty: No such device or address",
        "Host key verification failed.",
        "me@x.test: Permission denied (publickey,password).",
        "EOFError: EOF when reading a line",
        "  Enter a value: \n\nError: error asking for approval: EOF\n",
        '(EOF or read error, treating as "[N]one" ...)',
    ],
)
def test_what_is_said_where_one_is_missing(said: str) -> None:
    assert gave_up_for_terminal(f"some lines\n{said}\n")


@pytest.mark.parametrize(
    "said",
    ["", "rm: cannot remove 'x': Permission denied", "x: No such file or directory", "terminal"],
)
def test_what_is_said_where_none_is_missing(said: str) -> None:
    assert not gave_up_for_terminal(said)


def test_what_lies_far_back_does_not_count() -> None:
    assert not gave_up_for_terminal("top: failed tty get\n" + "x\n" * 4096)


def test_the_line_to_paste() -> None:
    assert line_for_terminal("sudo ls", Path("/my work")) == "cd '/my work' && sudo ls"


@pytest.mark.skipif(
    not Path("/usr/share/locale/fr/LC_MESSAGES/libc.mo").exists(), reason="no French here"
)
def test_a_refusal_in_the_language_of_the_command() -> None:
    said = "cat: /root/x: Permission non accordée"
    assert refusal_pattern({"LANG": "fr_FR.UTF-8"}).search(said)
    assert not refusal_pattern({"LANG": "fr_FR.UTF-8", "LC_ALL": "C"}).search(said)
    assert refusal_pattern({"LANG": "fr_FR.UTF-8"}).search("cat: /root/x: Permission denied")
    assert refusal_pattern({"LANG": "en_US.UTF-8", "LANGUAGE": "fr:en"}).search(said)


@pytest.mark.parametrize("catalog", [b"", b"no catalog", b"\xde\x12\x04\x95" + b"\xff" * 24])
def test_a_broken_catalog_is_passed_over(
    catalog: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "xx" / "LC_MESSAGES" / "libc.mo"
    path.parent.mkdir(parents=True)
    path.write_bytes(catalog)
    monkeypatch.setattr(output, "_CATALOGS", (str(tmp_path),))
    output._pattern_in.cache_clear()
    assert refusal_pattern({"LANG": "xx"}).search("Permission denied")
