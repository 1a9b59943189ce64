"""``aish-lsp ask`` in a terminal that is none, and in a real one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, at_terminal, run_main
from fault_server import Peer, Request, chunk_of, served
from machine import needs, without_landlock, without_namespaces

from aish_lsp.cli.terminal import edit_command

COMMAND = [sys.executable, "-m", "aish_lsp"]

#: What a terminal makes an interrupt of.
CTRL_C = "\x03"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(tmp_path), "AISH_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Makefile").write_text("test:\n\t@echo tests ran\n")
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_main(capsys, *arguments, environment=environment)

    return run


def test_the_reply_is_on_stdout_and_nothing_runs_unasked(
    run: CommandLine, environment: dict[str, str], project: Path
) -> None:
    done = run(environment, "ask", "How do I run the tests?", "--workspace", str(project))
    assert done.returncode == 0
    assert "\nCMD: make test\n" in done.stdout
    assert "tests ran" not in done.stdout
    assert "offline model" in done.stderr


def test_that_only_the_offline_model_answers_is_told_once_a_day(
    run: CommandLine, environment: dict[str, str], project: Path
) -> None:
    told = "no model server was found"
    question = ("ask", "How do I run the tests?", "--workspace", str(project))
    first, second = (run(environment, *question) for _ in range(2))
    assert "`aish-lsp setup` connects one" in first.stderr
    assert second.stderr == ""
    assert first.stdout == second.stdout
    assert first.stdout.count("\n") == 2
    assert told in first.stderr
    # It may not be true any more, and the doctor looks for itself.
    assert told not in run(environment, "doctor", "--workspace", str(project)).stdout


def test_json_is_one_event_a_line_and_then_the_result(
    run: CommandLine, environment: dict[str, str], project: Path
) -> None:
    done = run(environment, "ask", "How do I test?", "--json", "--workspace", str(project))
    *events, result = [json.loads(line) for line in done.stdout.splitlines()]
    assert "".join(e["delta"] for e in events if e["kind"] == "text") == result["text"]
    assert events[-1]["kind"] == "end"
    assert result["commands"][0]["text"] == "make test"


@pytest.mark.parametrize("by_name", [True, False])
def test_a_question_of_an_earlier_session_goes_on_from_there(
    run: CommandLine, environment: dict[str, str], project: Path, *, by_name: bool
) -> None:
    (project / "src").mkdir()
    there = ("--json", "--workspace", str(project))
    run(environment, "ask", "find all python files", *there)
    listed = json.loads(run(environment, "sessions", "list", *there).stdout)
    which = ("--session", listed["sessions"][0]["id"]) if by_name else ("--continue",)
    done = run(environment, "ask", "only in src", *which, *there)
    assert done.returncode == 0, done.stderr
    (command,) = json.loads(done.stdout.splitlines()[-1])["commands"]
    assert command["text"].startswith("find src -type f -name '*.py'")
    assert "continues, with 2 messages." in done.stderr
    # It went on in its own file.
    listed = json.loads(run(environment, "sessions", "list", *there).stdout)
    assert len(listed["sessions"]) == 1


def test_no_question_is_asked_in_a_session_that_does_not_exist(
    run: CommandLine, environment: dict[str, str], project: Path
) -> None:
    for which in (["--continue"], ["--session", "nosuch"]):
        done = run(environment, "ask", "list the files", *which, "--workspace", str(project))
        assert (done.returncode, done.stdout) == (1, "")
        assert "session" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["ask"], 2),
        (["ask", "x", "--workspace", "/nowhere/at/all"], 2),
        (["frobnicate"], 2),
        (["ask", "x", "--model", "nosuch"], 1),
        (["ask", "   "], 1),
    ],
)
def test_exit_codes_tell_misuse_from_failure(
    run: CommandLine, environment: dict[str, str], arguments: list[str], code: int
) -> None:
    done = run(environment, *arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr
    assert "Traceback" not in done.stderr


def shell(environment: dict[str, str], script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which ``$ASK`` is the command."""
    ask = f"{sys.executable} -m aish_lsp ask"
    return subprocess.run(
        ["bash", "-c", script],
        env={**environment, "ASK": ask, "AISH_DISCOVERY": "off"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def test_without_a_question_what_is_piped_in_is_the_question(environment: dict[str, str]) -> None:
    done = shell(environment, "echo how do I list files | $ASK")
    assert "\nCMD: ls" in done.stdout
    assert "Sent along" not in done.stderr


def test_without_a_question_and_a_pipe_it_says_how_to_ask(
    run: CommandLine, environment: dict[str, str]
) -> None:
    done = run(environment, "ask", "--no-stdin")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`aish-lsp ask how do I run the tests`" in done.stderr


def test_with_a_model_that_there_is_not_no_session_begins(
    run: CommandLine, environment: dict[str, str], project: Path
) -> None:
    here = ("--workspace", str(project))
    assert run(environment, "ask", "How do I run the tests?", *here).returncode == 0
    assert "no model 'nosuch'" in run(environment, "ask", "x", "--model", "nosuch", *here).stderr
    done = run(environment, "ask", "--continue", "Thanks.", *here)
    assert "“How do I run the tests?” continues" in done.stderr


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        (":undo", "`:undo` in `aish-lsp chat`"),
        (":model", "`aish-lsp models`"),
        (":remember we use tabs", "`aish-lsp memory add we use tabs`"),
    ],
)
def test_a_command_of_the_chat_is_no_question(
    run: CommandLine, environment: dict[str, str], command: str, meant: str
) -> None:
    done = run(environment, "ask", command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"aish-lsp: This is a command, not a question: use {meant}.\n"


@pytest.mark.slow
def test_what_is_piped_in_goes_along_as_data(environment: dict[str, str], tmp_path: Path) -> None:
    asked: list[str] = []

    async def script(request: Request, peer: Peer) -> None:
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        asked.append(request.json["messages"][-1]["content"])
        await peer.head()
        await peer.event(chunk_of("Because."))
        await peer.event("[DONE]")

    with served(script) as url:
        config = tmp_path / "config.toml"
        config.write_text(
            f'default_model = "m"\n[models.m]\nmodel = "m"\nendpoint = "{url}"\n'
            "context_window = 32768\n"
        )
        environment |= {"AISH_CONFIG": str(config), "SHOP_TOKEN": "known-by-its-value-1"}
        done = shell(environment, "(echo $SHOP_TOKEN; seq 1 300000; echo LAST) | $ASK 'why?'")
        assert done.returncode == 0, done.stderr
        assert "Sent along: what was piped in, cut to its head and tail." in done.stderr
        [question] = asked
        assert "why?" in question
        assert "[piped] what was piped in" in question
        assert "\n1\n2\n3\n" in question
        assert "\nLAST\n" in question
        assert "left out ...]" in question
        assert "known-by-its-value" not in question
        assert len(question) < 60_000
        # Not with the option, nor if it is the question itself.
        shell(environment, "echo DATA | $ASK --no-stdin 'why?'")
        shell(environment, "echo DATA | $ASK -")
        assert "DATA" not in asked[1]
        assert asked[2].startswith("DATA")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["printf 'a\\nb\\n' | while read -r f", "while read -r f"])
def test_a_loop_keeps_its_lines(
    environment: dict[str, str], project: Path, source: str, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    after = "" if source.startswith("printf") else f"<{lines}"
    done = shell(
        environment, f"cd {project}; {source}; do echo got $f; $ASK 'list files'; done {after}"
    )
    assert "got a\n" in done.stdout
    assert "got b\n" in done.stdout
    assert "Sent along" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "told", "is_sent"),
    [
        (r"caf\351\n", "bytes that could not be read are sent as \ufffd", True),
        (r"\377\376a\000b\000\n\000", "not text in UTF-8: the question goes without it", False),
        (r"caf\303\251 \357\277\275\n", "", True),
    ],
    ids=["latin-1", "utf-16", "utf-8"],
)
def test_piped_bytes_that_are_not_utf_8_are_told(
    environment: dict[str, str], project: Path, data: str, told: str, is_sent: bool
) -> None:
    done = shell(environment, f"cd {project}; printf '{data}' | $ASK 'list files'")
    assert ("What is piped in" in done.stderr) == bool(told)
    assert told in done.stderr
    assert ("Sent along" in done.stderr) == is_sent


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("timeout") is None, reason="there is no timeout here")
def test_behind_a_program_that_only_runs_it_what_is_piped_in_goes_along(
    environment: dict[str, str], project: Path
) -> None:
    done = shell(environment, f"cd {project}; echo x | timeout 60 nice $ASK 'list files'")
    assert "Sent along: what was piped in" in done.stderr
    loop = "printf 'a\\nb\\n' | while read -r f; do echo got $f; timeout 60 $ASK 'list files'; done"
    done = shell(environment, f"cd {project}; {loop}")
    assert "got b\n" in done.stdout
    assert "Sent along" not in done.stderr


@pytest.mark.slow
def test_a_pipe_from_which_nothing_comes_is_not_waited_for(
    environment: dict[str, str], project: Path
) -> None:
    done = shell(
        environment, f"cd {project}; (sleep 60 & echo $! >pid) | $ASK 'list files'; kill $(cat pid)"
    )
    assert "ls -la" in done.stdout
    assert "Nothing came from the pipe for 1 s" in done.stderr


@pytest.mark.slow
def test_at_a_terminal_each_command_is_offered(environment: dict[str, str], project: Path) -> None:
    said = at_terminal(
        environment,
        ["ask", "How do I run the tests?", "--workspace", str(project)],
        {"[N]o?": "y\n"},
    )
    assert "make test" in said
    assert "tests ran" in said


@pytest.mark.slow
def test_at_a_terminal_no_is_the_default(environment: dict[str, str], project: Path) -> None:
    said = at_terminal(
        environment,
        ["ask", "How do I run the tests?", "--workspace", str(project)],
        {"[N]o?": "\n"},
    )
    assert "tests ran" not in said


@pytest.mark.slow
def test_at_a_terminal_the_end_of_the_input_is_a_no(
    environment: dict[str, str], project: Path
) -> None:
    question = ["ask", "How do I run the tests?", "--workspace", str(project)]
    said = at_terminal(environment, question, {"[N]o?": "\x04"})
    assert "tests ran" not in said
    assert ":approve" not in said


@pytest.mark.slow
def test_at_a_terminal_a_command_can_be_edited(environment: dict[str, str], project: Path) -> None:
    said = at_terminal(
        environment,
        ["ask", "How do I run the tests?", "--workspace", str(project)],
        {"[N]o?": "e\n", "Run instead: make test": "\x01echo $((40 + 2)) things \n"},
    )
    assert "42 things make test" in said
    assert "tests ran" not in said


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines for certain")
@pytest.mark.slow
def test_what_was_in_the_way_of_a_command_can_be_left_out(
    environment: dict[str, str], project: Path
) -> None:
    config = project.parent / "config.toml"
    config.write_text('[[safety.rules]]\nmatch = "make"\nrisk = "safe"\n')
    (project / "Makefile").write_text("test:\n\t@touch made && echo tests ran\n")
    said = at_terminal(
        {**environment, "AISH_CONFIG": str(config)},
        ["ask", "How do I run the tests?", "--workspace", str(project)],
        {"command (safe)?": "", "[N]o?": "y\n", "- it would run without confinement.": "y\n"},
    )
    assert "Permission denied" in said
    assert "tests ran" in said
    assert (project / "made").exists()


@pytest.fixture
def fences(environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment, with a model that answers with a line and with fences."""
    reply = "CMD: echo li''ne\n\n```sh\necho fen''ce\n```\n\n```sh\ncd .\necho <name>\n```\n"

    async def script(request: Request, peer: Peer) -> None:
        if request.method == "POST":
            await peer.head()
            await peer.event(chunk_of(reply))
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


def test_yes_safe_leaves_fences_alone(
    run: CommandLine, fences: dict[str, str], project: Path
) -> None:
    done = run(fences, "ask", "How?", "--yes-safe", "--workspace", str(project))
    assert "\nline\n" in done.stdout
    assert "fence\n" not in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines for certain")
def test_what_a_tool_prints_is_beside_the_reply(
    run: CommandLine, environment: dict[str, str], project: Path, tmp_path: Path
) -> None:
    arguments = json.dumps({"command": "cat Makefile"})
    function = {"name": "run_command", "arguments": arguments}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}

    async def script(request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        await peer.head()
        if request.json["messages"][-1]["role"] == "tool":
            await peer.event(chunk_of("I see."))
        else:
            await peer.event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    config = tmp_path / "config.toml"
    with served(script) as url:
        config.write_text(
            f'default_model = "m"\n[models.m]\nendpoint = "{url}"\nmodel = "m"\n'
            "context_window = 16384\n"
        )
        told = {**environment, "AISH_CONFIG": str(config)}
        done = run(told, "ask", "What is in it?", "--workspace", str(project))
    assert done.stdout == "I see.\n"
    assert "test:\n\t@echo tests ran\n" in done.stderr
    assert "Ran cat Makefile: exit 0" in done.stderr


@pytest.mark.slow
def test_at_a_terminal_fences_are_offered_whole(fences: dict[str, str], project: Path) -> None:
    editor = project.parent / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/<name>/fil\'\'led/; s/cd ./cd \\//" "$1"; pwd\n')
    editor.chmod(0o755)
    said = at_terminal(
        {**fences, "EDITOR": str(editor), "COLUMNS": "300"},
        ["ask", "How?", "--workspace", str(project)],
        {
            f"    echo li''ne\r\n\r\nin {project}\r\n\r\n[y]es, [e]dit, [N]o?": "n\n",
            f"    echo fen''ce\r\n\r\nin {project}, by sh\r\n\r\n[y]es, [e]dit, [N]o?": "y\n",
            "    cd .\r\n    echo <name>\r\n\r\nin ": "e\n",
        },
    )
    assert "fence\r\n" in said
    assert "filled\r\n" in said
    assert "line\r\n" not in said


@pytest.mark.parametrize(
    "answers",
    # Python sees a signal that comes right after its prompt only at the next key.
    [{"[N]o?": CTRL_C}, {"[N]o?": "e\n", "Run instead:": f"{CTRL_C}\n"}],
    ids=["offer", "edit"],
)
@pytest.mark.slow
def test_ctrl_c_at_a_prompt_ends_the_program(
    environment: dict[str, str], project: Path, answers: dict[str, str]
) -> None:
    arguments = ["ask", "How do I run the tests?", "--workspace", str(project)]
    said = at_terminal(environment, arguments, answers, code=130)
    assert "tests ran" not in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_ctrl_c_at_a_question_of_a_job_ends_the_program(
    environment: dict[str, str], project: Path
) -> None:
    # Whether a key that was merely found may be used is asked while the job waits.
    asking = {**environment, "OPENAI_API_KEY": "sk-test-0123456789abcdef", "AISH_DISCOVERY": "on"}
    arguments = ["ask", "How?", "--model", "openai", "--workspace", str(project)]
    said = at_terminal(asking, arguments, {"[y/N]": CTRL_C}, code=130)
    assert "Traceback" not in said


@pytest.mark.slow
def test_ctrl_c_while_a_command_runs_stops_the_command_alone(
    environment: dict[str, str], project: Path
) -> None:
    (project / "Makefile").write_text("test:\n\t@echo star''ted; sleep 50; echo en''ded\n")
    arguments = ["ask", "How do I run the tests?", "--workspace", str(project)]
    said = at_terminal(environment, arguments, {"[N]o?": "y\n", "started": CTRL_C}, code=0)
    assert "ended" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("editor", "told"),
    [
        ("nosuch", "nosuch: No such file or directory. Set EDITOR to your editor."),
        ("vi 'x", "No closing quotation"),
        ("rm", "rm: No such file or directory"),
        ("cp {latin}", "can't decode byte"),
    ],
)
def test_an_editor_that_fails_is_told(
    editor: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    latin = tmp_path / "latin"
    latin.write_bytes(b"echo \xe4\n")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor.format(latin=latin))
    assert edit_command("ls\npwd") == ""
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("editor", ["", " "])
def test_an_editor_of_blanks_is_none(
    editor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vi = tmp_path / "vi"
    vi.write_text('#!/bin/sh\necho edited >"$1"\n')
    vi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VISUAL", editor)
    monkeypatch.setenv("EDITOR", editor)
    assert edit_command("ls\npwd") == "edited"


@needs(without_landlock() or without_namespaces())
@pytest.mark.slow
def test_a_command_that_is_allowed_in_its_folder_runs_without_a_question_until_that_is_revoked(
    run: CommandLine, environment: dict[str, str], project: Path
) -> None:
    here = ("--workspace", str(project))
    question = ["ask", "How do I run the tests?", *here]
    said = at_terminal(
        environment, question, {"[f]rom now on in this folder, [e]dit, [N]o?": "f\n"}
    )
    assert "tests ran" in said
    assert "1. `make test` in this folder" in run(environment, "approvals", *here).stdout
    said = at_terminal(environment, question, {})
    assert "tests ran" in said
    assert "as you allowed. `aish-lsp approvals` lists" in " ".join(said.split())
    assert "asked again" in run(environment, "approvals", "revoke", "1", *here).stdout
    assert "No approval" in run(environment, "approvals", *here).stdout
    assert "tests ran" not in at_terminal(environment, question, {"[N]o?": "n\n"})
