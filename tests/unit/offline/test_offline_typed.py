"""What is typed as a command is told as it stands, and a question in English is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline.choosing import render
from aish_lsp.offline.commands import typed_command
from aish_lsp.offline.table import table
from aish_lsp.offline.workspace import Machine, WorkspaceFacts

COMMANDS = [
    "ls -la",
    "git rebase -i HEAD~4",
    "git commit -m 'fix typo'",
    "rm -rf build",
    "ps aux | grep python",
    "find . -name '*.py'",
    "grep -c 'the' notes.txt",
    "sort -rn notes.txt | head -3",
    "cat notes.txt > out.txt 2>&1",
    "alias ll='ls -la'",
    "FOO=1 python3 main.py &",
    "watch -n 5 df -h",
    "sudo -- rm -rf build",
    "curl -X POST http://localhost:3000/api -d '{\"a\": 1}'",
    "echo $PATH",
    "which python",
    f"grep -r {'a' * 300}",
]
QUESTIONS = [
    "git branch off to hotfix",
    "git log explained",
    "sort notes.txt",
    "find main.py",
    "make script.sh executable",
    "ls -l vs ls -a",
    "grep -c meaning",
    "run df -h each 10 seconds",
    "kill -9 pid 4312",
    "lsof -i port 80",
    "kill it -9",
    "don't use git -f",
    "8080 -> 9090",
    "which file",
    "find files -name x",
    "a command\nrm -rf build",
    "rm -rf build\x1b[2K",
]


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").touch()
    return tmp_path


def asked(text: str, root: Path) -> str | None:
    return typed_command(text, WorkspaceFacts(root, Machine.here()), surely=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_told_as_it_stands(command: str, typed: Path) -> None:
    assert asked(command, typed) == command
    assert asked(f"please run {command}", typed) == command


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_no_command(question: str, typed: Path) -> None:
    assert asked(question, typed) is None


def test_no_phrasing_of_the_table_is_a_command_but_where_it_has_options(tmp_path: Path) -> None:
    for phrasing in table().phrasings:
        if phrasing.slots or any(word.startswith("-") for word in phrasing.wording):
            continue
        text = " ".join(phrasing.wording)
        assert phrasing.wording[0] == "which" or asked(text, tmp_path) in (None, text)


@pytest.mark.parametrize(
    ("file", "started"),
    [
        ("main.py", "nohup python3 main.py &"),
        ("deploy.sh", "nohup bash deploy.sh &"),
        ("./deploy.sh", "nohup ./deploy.sh &"),
        ("server", "nohup ./server &"),
        ("a; touch b.sh", "nohup bash 'a; touch b.sh' &"),
        ("-rf.py", "nohup python3 ./-rf.py &"),
    ],
)
def test_a_file_is_started_by_what_it_is(file: str, started: str) -> None:
    assert render("nohup {file|start} &", {"file": file}) == started


def test_a_file_that_cron_starts_is_quoted_for_its_shell_too() -> None:
    template = "printf '@reboot cd %q && %s\\n' \"$PWD\" '{file|start}'"
    rendered = render(template, {"file": "a; touch b.sh"})
    assert rendered.endswith("""'bash '"'"'a; touch b.sh'"'"''""")


@pytest.mark.parametrize("text", ["| wc", "&& ls", "ls | | wc", "ls -l ; ; pwd", "cat <<EOF"])
def test_a_command_that_a_shell_would_refuse_or_wait_for_is_not_one(
    text: str, tmp_path: Path
) -> None:
    assert typed_command(text, WorkspaceFacts(tmp_path), surely=True) is None
