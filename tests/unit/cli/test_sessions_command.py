"""``aish-lsp sessions``: listed, shown and exported, and what is wrong on stderr."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from aish_lsp.cli import main
from aish_lsp.context.usage import UsageRecord
from aish_lsp.foundation.files import workspace_dir
from aish_lsp.sessions import records
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.recorder import append_usage


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    root = tmp_path / "project"
    root.mkdir()
    return root


def session(root: Path, question: str, name: str | None = None) -> SessionLog:
    log = SessionLog.create(workspace_dir(root) / "sessions", root.as_uri())
    log.append(records.user(question, [{"command": "ls", "exit": 0, "output": "\x1b[2Ja\tb\n"}]))
    log.append(records.assistant("Like this.\n\nCMD: make", "mine", finish="stop"))
    if name:
        log.set_name(name)
    log.close()
    return log


def run(
    root: Path, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> tuple[str, str]:
    assert main(["sessions", *arguments, "--workspace", str(root)]) == code
    return capsys.readouterr()


def test_the_list_says_what_each_session_was(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = session(root, "How do I\x1b build?", "plans")
    call = UsageRecord(
        ts="t", session=log.id, model="mine", provider="p", category="main",
        input=1, output=1, cost=0.125,
    )  # fmt: skip
    append_usage(workspace_dir(root) / "usage.jsonl", call)
    out, err = run(root, capsys, "list")
    head, row = out.splitlines()
    assert head.split() == ["N", "ID", "AGE", "QUESTIONS", "COST", "MODEL", "TITLE"]
    assert row.split(maxsplit=6) == [
        "1", log.id, "now", "1", "$0.1250", "mine", r"[plans] How do I\x1b build?",
    ]  # fmt: skip
    assert err == ""
    out, _ = run(root, capsys, "list", "--json")
    [listed] = json.loads(out)["sessions"]
    assert {name: listed[name] for name in ("id", "name", "questions", "model", "cost")} == {
        "id": log.id,
        "name": "plans",
        "questions": 1,
        "model": "mine",
        "cost": 0.125,
    }
    assert set(listed) == {
        *("id", "name", "title", "created", "updated", "questions", "turns", "model", "cost"),
    }


def test_the_list_can_be_searched(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = session(root, "How do I\x1b build?", "plans")
    session(root, "Something else")
    out, _ = run(root, capsys, "list", "HOW", "build")
    assert (
        out
        == f"{log.id}  now  1  mine  [plans] How do I\\x1b build?\n    How do I\\x1b build? plans\n"
    )
    [found] = json.loads(run(root, capsys, "list", "build", "--json")[0])["sessions"]
    assert (found["id"], found["snippet"]) == (log.id, "How do I\x1b build? plans")
    out, err = run(root, capsys, "list", "nowhere")
    assert (out, err) == ("", "aish-lsp: no session of this workspace mentions 'nowhere'\n")


def test_nothing_to_list_is_no_failure(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(root, capsys, "list")
    assert (out, "nothing has been asked" in err) == ("", True)
    assert json.loads(run(root, capsys, "list", "--json")[0]) == {"sessions": []}
    assert "Nothing has been asked" in run(root, capsys, "show", code=1)[1]


def test_an_age_in_its_largest_unit(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = session(root, "q")
    for ts, cell, after in (
        ("2020-01-01T00:00:00Z", 2, "d"),
        ("2999-01-01T00:00:00Z", 1, "now"),
        ("nonsense", 1, "1"),
    ):
        lines = [json.loads(line) for line in log.path.read_text().splitlines()]
        lines[-1]["ts"] = ts
        log.path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        row = run(root, capsys, "list")[0].splitlines()[1]
        assert row.split()[cell + 1] == after


@pytest.mark.parametrize("key", [[], ["plans"], ["1"]])
def test_a_session_as_a_page(
    root: Path, capsys: pytest.CaptureFixture[str], key: list[str]
) -> None:
    log = session(root, "How?", "plans")
    out, err = run(root, capsys, "show", *key)
    assert out.startswith(f"# How?\n\nSession {log.id}, saved as plans.\n\n### You (")
    assert out.endswith("Like this.\n\nCMD: make\n")
    assert "$ ls (exit 0)\n\\x1b[2Ja\tb\n" in out
    assert err == ""
    out, _ = run(root, capsys, "show", *key, "--json")
    shown = json.loads(out)
    assert (shown["id"], shown["name"]) == (log.id, "plans")
    assert [turn["content"] for turn in shown["turns"]] == ["How?", "Like this.\n\nCMD: make"]


def test_an_export_holds_all_that_is_sound(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = session(root, "How?")
    lines = log.path.read_text().splitlines()
    log.path.write_text("\n".join([*lines, "{broken", '{"n": 9, "ro']))
    out, err = run(root, capsys, "export", log.id, "--json")
    exported = [json.loads(line) for line in out.splitlines()]
    assert exported[0]["meta"]["title"] == "How?"
    assert exported[1:] == [json.loads(line) for line in lines[1:]]
    assert "line 4" in err
    assert "never finished" in err
    out, _ = run(root, capsys, "export")
    assert out.startswith("# How?\n")
    # Nobody knows where it will be shown; --json has every character.
    assert r"\x1b[2Ja" + "\tb" in out


def test_a_session_that_is_not_there_names_the_nearest(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session(root, "How?", "plans")
    out, err = run(root, capsys, "show", "plan", code=1)
    assert out == ""
    assert "Did you mean plans" in err
    out, _ = run(root, capsys, "export", "plan", "--json", code=1)
    assert json.loads(out)["error"]["kind"] == "notFound"


def test_wrong_use_exits_with_2() -> None:
    for arguments in (["sessions", "drop"], ["sessions", "list", "--all"]):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2


@pytest.mark.slow
def test_a_session_that_is_open_in_an_editor_can_be_read(root: Path) -> None:
    log = session(root, "How?")
    held, _ = SessionLog.resume(log.path)
    command = [sys.executable, "-m", "aish_lsp", "sessions", "show", "--workspace", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    held.close()
    assert io.StringIO(done.stdout).readline() == "# How?\n"
