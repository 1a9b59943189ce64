from __future__ import annotations

import json
from pathlib import Path

import pytest

from aish_lsp.cli import main
from aish_lsp.config.loading import Configuration
from aish_lsp.config.trust import TrustStore


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("AISH_DISCOVERY", raising=False)
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AISH_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "config.toml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def run(*arguments: str, root: Path) -> int:
    return main(["config", *arguments, "--workspace", str(root)])


def test_check_without_a_file(file: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", root=root) == 0
    assert f"Your file is {file} (it does not exist" in capsys.readouterr().out


def test_check_tells_every_problem_and_fails(
    file: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("[context]\nmax_turns = 0\nlow_water = 2\n")
    assert run("check", root=root) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{file}:2: context.max_turns: found 0; accepted: a whole number of at least 1",
        f"{file}:3: context.low_water: found 2; accepted: a number from 0 to 1",
    ]


def test_check_for_machines(file: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("[context\n")
    assert run("check", "--json", root=root) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["file"]) == (False, str(file))
    assert told["problems"][0]["where"] == f"{file}:1"


def test_show_tells_values_and_origins(
    file: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("context.max_turns = 7\n")
    assert run("show", root=root) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"context.max_turns = 7 # {file}:1" in lines
    assert 'safety.shell = "bash" # default' in lines
    assert "context.token_budget = (not set) # default" in lines


def test_show_hides_what_may_be_a_secret(
    file: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        '[models.a]\nextra_headers = {X-Tenant = "hunter2"}\n'
        '[tools.servers.git]\ncommand = ["x", "ghp_0123456789abcdefghij"]\n'
        'env = {TOKEN = "hunter2"}\n'
    )
    (root / ".aish.toml").write_text('[tools.servers.t]\ncommand=["x"]\nenv = {A = "hunter2"}\n')
    for arguments in (["show"], ["show", "--json"]):
        assert run(*arguments, root=root) == 0
        told = capsys.readouterr()
        assert "hunter2" not in told.out + told.err
        assert "ghp_" not in told.out + told.err
        assert "X-Tenant" in told.out


def test_show_for_machines_tells_what_the_workspace_asks_for(
    file: Path, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / ".aish.toml").write_text('[safety]\nshell = "zsh"\n[project]\ndepth = 1\n')
    assert run("show", "--json", root=root) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["values"]["safety.shell"] == {"value": "bash", "origin": "default"}
    assert told["values"]["project.depth"]["value"] == 1
    assert told["asked"] == [
        {
            "what": "overlay",
            "name": ".aish.toml",
            "granted": False,
            "keys": {"safety.shell": "zsh"},
        }
    ]
    configuration = Configuration(root, TrustStore(tmp_path / "data" / "trust.json"), {})
    configuration.grant(configuration.loaded.requests)
    run("show", "--json", root=root)
    told = json.loads(capsys.readouterr().out)
    assert told["values"]["safety.shell"]["value"] == "zsh"
    assert told["asked"][0]["granted"] is True


def test_what_waits_for_a_grant_is_told_on_stderr(
    file: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / ".aish.toml").write_text('[safety]\nshell = "zsh"\n')
    assert run("show", root=root) == 0
    told = capsys.readouterr()
    assert '"safety.shell": "zsh"' in told.err
    assert "zsh" not in told.out
    assert run("check", root=root) == 0, "asking is no mistake"


def test_schema(file: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("schema", root=root) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["models"]["type"] == "object"


def test_wrong_use(file: Path, root: Path) -> None:
    for arguments in (["shwo"], ["show", "--what"]):
        with pytest.raises(SystemExit) as caught:
            run(*arguments, root=root)
        assert caught.value.code == 2
