"""``aish-lsp tokens|risk|project|models|cost``: what is, told and not changed."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request

from aish_lsp.cli import main
from aish_lsp.context.usage import UsageRecord
from aish_lsp.foundation.files import workspace_dir
from aish_lsp.sessions.recorder import append_usage


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AISH_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("AISH_DISCOVERY", "off")
    root = tmp_path / "project"
    root.mkdir()
    return root


def run(
    root: Path, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> tuple[str, str]:
    assert main([*arguments, "--workspace", str(root)]) == code
    return capsys.readouterr()


def read(root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(run(root, capsys, *arguments, "--json")[0])


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# --- tokens ---------------------------------------------------------------------------------------


def test_tokens_of_files_and_of_stdin(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("How do I run the tests of the parser here?\n" * 100)
    (root / "b").write_bytes(b"\xff\x00 no UTF-8")
    rows = read(root, capsys, "tokens", str(root / "a"), str(root / "b"))
    assert [row["file"] for row in rows] == [str(root / "a"), str(root / "b")]
    assert 900 < rows[0]["tokens"] < 1300
    assert {row["method"] for row in rows} == {"heuristic"}
    typed(monkeypatch, b"hello world")
    [row] = read(root, capsys, "tokens")
    assert (row["file"], 1 < row["tokens"] < 5) == ("-", True)


def test_tokens_go_by_the_models_family(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "a").write_text("def main() -> None:\n    return 1 + 2\n" * 50)
    counts = {
        model: read(root, capsys, "tokens", "--model", model, str(root / "a"))[0]["tokens"]
        for model in ("gpt-4o", "claude-sonnet-4-5", "gemma-3-4b")
    }
    assert len(set(counts.values())) > 1


def test_tokens_of_a_missing_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(root, capsys, "tokens", str(root / "none"), code=1)
    assert out == ""
    assert "No such file" in err


# --- risk -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "reason"), [(".", "Is a directory"), ("nosuch", "No such file or directory")]
)
def test_no_advice_about_our_files_is_given_for_the_users(
    root: Path, capsys: pytest.CaptureFixture[str], file: str, reason: str
) -> None:
    _, err = run(root, capsys, "tokens", file, code=1)
    assert err == f"aish-lsp: cannot read {file}: {reason}\n"


def test_the_risk_of_one_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(root, capsys, "risk", "ls -la") == {"risk": "safe", "reasons": []}
    found = read(root, capsys, "risk", "rm -rf /")
    assert found["risk"] == "destructive"
    assert found["reasons"]
    assert run(root, capsys, "risk", "ls")[0] == "safe         ls\n"


def test_a_command_a_line(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"ls -la\nrm -rf \x1b[2J\r\n")
    first, second = run(root, capsys, "risk", "--lines")[0].splitlines()
    assert first.split() == ["safe", "ls", "-la"]
    assert second.startswith("destructive  rm -rf \\x1b[2J  (")
    typed(monkeypatch, b'"ls"\n\n"echo a\\nrm -rf x"\n')
    out = run(root, capsys, "risk", "--lines", "--json")[0]
    assert [json.loads(line)["risk"] for line in out.splitlines()] == ["safe", "destructive"]
    for bad in (b"ls\n", b"3\n", b'["ls"]\n', b"[" * 100_000):
        typed(monkeypatch, b'"ls"\n' + bad)
        out, err = run(root, capsys, "risk", "--lines", "--json", code=1)
        assert "Line 2 of stdin is not a JSON string." in err


# --- project --------------------------------------------------------------------------------------


def test_the_project_and_its_files(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / ".gitignore").write_text("*.log\n")
    for name in ("src/b.py", "src/a.py", "x.log", "z", "odd\nname"):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    files = [".gitignore", "odd\nname", "src/a.py", "src/b.py", "z"]
    assert read(root, capsys, "project", "--files") == {"files": files}
    assert run(root, capsys, "project", "--files")[0].splitlines()[1] == r'"odd\nname"'
    shown = read(root, capsys, "project")
    assert (shown["files"], shown["truncated"]) == (5, False)
    out, err = run(root, capsys, "project")
    assert out == shown["block"]
    assert "b.py" in out
    assert err == "aish-lsp: 5 files\n"


# --- models ---------------------------------------------------------------------------------------


async def test_each_model_and_what_its_server_tells(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def script(request: Request, peer: Peer) -> None:
        entry = {"id": "served", "owned_by": "vllm", "max_model_len": 16384}
        await peer.reply({"data": [entry]})

    async with FaultServer(script) as server:
        config = f'[models.mine]\nendpoint = "{server.url}"\n[models.down]\n'
        config += 'endpoint = "http://127.0.0.1:1"\nmodel = "m"\ncontext_window = 4096\n'
        (root.parent / "config.toml").write_text(config)
        found = await asyncio.to_thread(read, root, capsys, "models")
        plain, _ = await asyncio.to_thread(run, root, capsys, "models")
    found = {row["name"]: row for row in found["models"]}
    assert list(found) == ["mine", "down", "offline"]
    assert found["mine"]["server"] == "vllm"
    assert found["mine"]["contextWindow"] == 16384
    assert found["mine"]["serves"] == ["served"]
    assert (found["down"]["server"], found["down"]["contextWindow"]) == (None, 4096)
    assert plain.splitlines()[0].startswith("* mine (configured, openai): its only model")


# --- cost -----------------------------------------------------------------------------------------


def test_the_last_sessions_cost_and_that_of_all(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Nothing has been asked" in run(root, capsys, "cost")[0]
    for session, cost in (("s1", 0.5), ("s2", 0.25)):
        record = UsageRecord(
            ts="t", session=session, model="mine", provider="p", category="main",
            input=10, output=5, cost=cost,
        )  # fmt: skip
        append_usage(workspace_dir(root) / "usage.jsonl", record)
    assert read(root, capsys, "cost")["total"]["cost"] == 0.25
    everything = read(root, capsys, "cost", "--all")
    assert everything["total"]["cost"] == 0.75
    assert everything["models"]["mine"]["main"]["calls"] == 2
    assert "mine  main  2 calls, 20 in, 10 out, $0.750000" in run(root, capsys, "cost", "--all")[0]


async def test_the_budget_is_that_of_the_window_that_the_server_tells_or_unknown(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def script(_: Request, peer: Peer) -> None:
        entry = {"id": "served", "owned_by": "vllm", "max_model_len": 16384}
        await peer.reply({"data": [entry]})

    async def line() -> str:
        found: str = (await asyncio.to_thread(read, root, capsys, "cost"))["line"]
        return found.partition("; ")[2]

    config = root.parent / "config.toml"
    async with FaultServer(script) as server:
        config.write_text(f'[models.mine]\nendpoint = "{server.url}"\n')
        assert (await line()).startswith("token_budget=15360 (")
    assert await line() == "token_budget unknown]"
    config.write_text('[models.down]\nendpoint = "http://127.0.0.1:1"\ntoken_budget = 6000\n')
    assert await line() == "token_budget unknown]", "no more than the window may be sent"
    config.write_text('default_model = "offline"\n')
    assert (await line()).startswith("token_budget=4096 (")
