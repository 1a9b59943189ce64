"""``aish-lsp demo`` holds its conversation; ``aish-lsp doctor`` tells what is broken."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command_line import CommandLine, run_main

from aish_lsp.agent.services import ToldFacts


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    def run(*arguments: str, home: Path = tmp_path, **variables: str) -> CompletedProcess[str]:
        environment = {
            **os.environ,
            "HOME": str(home),
            "AISH_DATA_DIR": str(home / "data"),
            "AISH_CONFIG": str(home / "config.toml"),
            **variables,
        }
        return run_main(capsys, *arguments, environment=environment)

    return run


@pytest.mark.slow
def test_the_demo_shows_a_whole_conversation(run: CommandLine, tmp_path: Path) -> None:
    done = run("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    for part in (
        "CMD: python3 -m unittest",
        "Run: python3",
        "Your editor asks",
        "exit 0",
        "tokens",
    ):
        assert part in done.stdout
    assert not re.search(r"aish\.[a-z]|textDocument", done.stdout), "a name of the protocol"
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists(), "the demo leaves nothing behind"


@pytest.mark.slow
def test_demo_with_protocol_names_the_requests(run: CommandLine) -> None:
    done = run("demo", "--protocol")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("(aish.ask)", "(textDocument/codeAction)", "(aish.run)", "(aish.context.show)"):
        assert name in done.stdout


def test_the_demo_ends_with_its_server(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\nread line\n")
    dying.chmod(0o755)
    for program in ("/bin/false", str(dying)):
        monkeypatch.setattr(sys, "executable", program)
        done = run("demo")
        assert done.returncode == 1
        assert done.stderr.startswith("aish-lsp: The server ended unexpectedly.")


def findings(done: CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {finding["what"]: finding for finding in json.loads(done.stdout)}


def test_the_doctor_finds_nothing_broken_on_a_plain_machine(run: CommandLine) -> None:
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stdout
    found = findings(done)
    assert found["configuration"]["state"] == "ok"
    assert found["model"]["state"] == "missing"
    assert "llama-server" in found["model"]["advice"]


@pytest.mark.parametrize(
    ("configuration", "what"),
    [
        ("default_model = 5\n", "configuration"),
        ("[models.local]\nendpoint = 'http://127.0.0.1:9'\n", "model local"),
        ("[models.local]\nendpoint = 'https://x.invalid'\napi_key_env = 'NOPE'\n", "model local"),
        ("[safety]\nshell = 'nosuchshell'\n", "shell"),
    ],
)
def test_the_doctor_names_what_is_broken(
    run: CommandLine, tmp_path: Path, configuration: str, what: str
) -> None:
    (tmp_path / "config.toml").write_text(configuration)
    done = run("doctor", "--json")
    assert done.returncode == 1
    assert findings(done)[what]["state"] == "broken"
    assert findings(done)[what]["advice"]


@pytest.mark.parametrize("line", ["model = 'x'", "endpoint = 'nowhere'"])
def test_the_doctor_says_that_a_model_has_no_address(
    run: CommandLine, tmp_path: Path, line: str
) -> None:
    (tmp_path / "config.toml").write_text(f"[models.local]\n{line}\n")
    assert findings(run("doctor", "--json"))["model local"]["found"] == "it has no valid endpoint"


def test_the_doctor_of_a_model_whose_file_is_missing_says_so(
    run: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text('[models.local]\nfile = "gone.gguf"\n')
    found = findings(run("doctor", "--json"))["model local"]["found"]
    assert "No such file" in found or "There is no llama.cpp" in found


def test_the_doctor_names_what_is_wrong_in_the_environment(run: CommandLine) -> None:
    variables = {"SSL_CERT_FILE": "/nowhere.pem", "NO_PROXY": "<local>", "no_proxy": "<local>"}
    done = run("doctor", "--json", **variables)
    assert done.returncode == 0, done.stdout
    said = [one["found"] for one in json.loads(done.stdout) if one["what"] == "network"]
    assert [text.split()[0] for text in said] == ["SSL_CERT_FILE", "NO_PROXY"]


@pytest.mark.slow
def test_the_doctor_does_not_wait_for_a_key_command(run: CommandLine, tmp_path: Path) -> None:
    command = "['sleep', '80']"
    (tmp_path / "config.toml").write_text(
        f"[models.slow]\nendpoint = 'https://x.invalid'\napi_key_command = {command}\n"
    )
    done = run("doctor", "--json")
    assert done.returncode == 1
    finding = findings(done)["model slow"]
    assert finding["state"] == "broken"
    assert "did not end within" in finding["found"]
    assert finding["advice"]
    assert "Traceback" not in done.stderr


def test_the_doctor_never_shows_a_key(run: CommandLine) -> None:
    key = "sk-test-0123456789abcdef"
    done = run("doctor", OPENAI_API_KEY=key, AISH_DISCOVERY="on")
    assert "openai" in done.stdout
    assert key not in done.stdout + done.stderr


def test_a_report_has_what_a_bug_report_needs_and_no_secret_and_no_name(
    run: CommandLine, tmp_path: Path
) -> None:
    home = tmp_path / "ada.lovelace"
    data = home / "data"
    data.mkdir(parents=True)
    (data / "recent.log").write_text(
        "2026-01-01 10:00:00 client: Neovim 0.11.4 (aish-lsp 0.1); can applyEdit\n"
        f"2026-01-01 10:00:01,000 WARNING aish_lsp.x: cannot read {home}/notes of ada.lovelace\n"
        "2026-01-01 10:00:02,000 ERROR aish_lsp.x: the key sk-ant-" + "a1" * 20 + " was refused\n"
    )
    config = home / "config.toml"
    config.write_text(
        '[models.mine]\nendpoint = "http://ada.lovelace:hunter2@127.0.0.1:1"\nmodel = "m"\n'
        '[models.mine.extra_headers]\nx-team = "blue"\n[nonsense]\n'
    )
    done = run("doctor", "--report", "--workspace", str(home), home=home, AISH_DISCOVERY="off")
    told = done.stdout
    for wanted in (
        f"Python {platform.python_version()}", "pygls ", "Neovim 0.11.4",
        "models.mine.model", "# ~/config.toml:3", "cannot read ~/notes of ~",
        "the key [redacted] was refused", "nonsense", "git version",
    ):  # fmt: skip
        assert wanted in told, (wanted, told)
    for hidden in ("ada.lovelace", str(tmp_path), "hunter2", "sk-ant", "blue"):
        assert hidden not in told
    assert done.returncode == 1, "the model does not answer"


def test_the_doctor_says_what_was_noticed_of_a_model_as_a_shell_spells_it(
    run: CommandLine, tmp_path: Path
) -> None:
    fact = "smol cannot use tools (its chat template leaves them out). `:model add` adds another."
    assert ToldFacts(tmp_path / "data" / "told.json").is_news(fact)
    [noticed] = [line for line in run("doctor").stdout.splitlines() if "smol" in line]
    assert noticed.startswith("- noticed: smol cannot use tools")
    assert "`aish-lsp setup` adds another" in noticed
