from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline import workspace
from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import Machine, WorkspaceFacts
from aish_lsp.project.manifests import find_entries

MAKEFILE = ".PHONY: all\nall: deploy docs\ndeploy:\n\techo d\ndocs:\n\techo o\ntest:\n\techo t\n"
PACKAGE = '{"name": "x", "scripts": {"test": "jest", "e2e": "x", "db:seed": "y", "a b": "z"}}'


def commands(root: Path, question: str) -> list[str]:
    machine = Machine("linux", "", root, {"apt-get": "/usr/bin/apt-get", "git": "/usr/bin/git"})
    lines = reply(TypedQuestion(question), root, machine).split("\n")
    return [line.removeprefix("CMD: ") for line in lines if line.startswith("CMD: ")]


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("make deploy", "make deploy"),
        ("run the deploy target", "make deploy"),
        ("how do i deploy this (theres a Makefile)", "make deploy"),
        ("Please deploy!", "make deploy"),
        ("deploy the app", "make deploy"),
        ("run the make target `deploy`", "make deploy"),
        ("build the docs", "make docs"),
        ("make deploy ENV=prod", "make deploy ENV=prod"),
        ("make test", "make test"),
    ],
)
def test_a_target_is_run_by_its_name(tmp_path: Path, question: str, command: str) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    assert commands(tmp_path, question)[0] == command


@pytest.mark.parametrize(
    ("lock", "question", "command"),
    [
        ("package-lock.json", "run the e2e script", "npm run e2e"),
        ("package-lock.json", "run the e2e tests", "npm run e2e"),
        ("package-lock.json", "npm run db:seed", "npm run db:seed"),
        ("pnpm-lock.yaml", "execute the script db:seed", "pnpm run db:seed"),
        ("yarn.lock", "start e2e", "yarn run e2e"),
    ],
)
def test_a_script_is_run_with_the_manager_of_the_project(
    tmp_path: Path, lock: str, question: str, command: str
) -> None:
    (tmp_path / "package.json").write_text(PACKAGE)
    (tmp_path / lock).touch()
    assert commands(tmp_path, question) == [command]


@pytest.mark.parametrize(
    ("name", "text", "question", "command"),
    [
        ("justfile", "bench:\n    x\n", "run the bench recipe", "just bench"),
        ("justfile", "bench:\n    x\n", "just bench", "just bench"),
        ("Taskfile.yml", "tasks:\n  gen:\n    cmd: x\n", "run the gen task", "task gen"),
    ],
)
def test_a_recipe_and_a_task_are_run_by_their_names(
    tmp_path: Path, name: str, text: str, question: str, command: str
) -> None:
    (tmp_path / name).write_text(text)
    assert commands(tmp_path, question) == [command]


@pytest.mark.parametrize(
    "question",
    [
        "what does the docs target do",
        "delete the docs",
        "delete deploy",
        "list the files in docs",
        "where is deploy",
        "edit the deploy target",
        "do not deploy",
        "deploy x to production",
    ],
)
def test_what_asks_for_something_else_runs_no_target(tmp_path: Path, question: str) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "docs").mkdir()
    assert not any(command.startswith("make ") for command in commands(tmp_path, question))


def test_the_usual_names_are_left_to_what_is_known_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "pyproject.toml").write_text("[dependency-groups]\ndev = ['pytest']\n")
    (tmp_path / "uv.lock").touch()
    assert commands(tmp_path, "run the tests") == ["make test", "uv run pytest"]


@pytest.mark.parametrize("question", ["make deploy", "run the deploy target", "just bench"])
def test_without_such_a_target_nothing_is_installed_or_run(tmp_path: Path, question: str) -> None:
    for name, text in (("", ""), ("Makefile", "other:\n\techo x\n")):
        if name:
            (tmp_path / name).write_text(text)
        assert not any(
            " install " in command or command == question
            for command in commands(tmp_path, question)
        )


def test_a_name_with_other_than_plain_signs_is_no_command(tmp_path: Path) -> None:
    scripts = '{"scripts": {"x; rm -rf ~": "y", "-h": "z", "$(a)": "b", "fine": "c"}}'
    (tmp_path / "package.json").write_text(scripts)
    assert [entry.name for entry in find_entries(tmp_path)] == ["fine"]
    for question in ("run x; rm -rf ~", "run the script -h", "npm run $(a)", "run `$(a)`"):
        assert not any(command.startswith("npm run x") for command in commands(tmp_path, question))


@pytest.mark.parametrize("name", ["Makefile", "justfile", "Taskfile.yml", "package.json"])
def test_what_is_broken_or_no_file_names_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert find_entries(tmp_path) == ()
    (tmp_path / name).rmdir()
    (tmp_path / name).write_bytes(b"\xff\x00{{{" * 1000)
    assert find_entries(tmp_path) == ()


def test_a_folder_with_too_many_files_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "_ENTRY_LIMIT", 10)
    (tmp_path / "src").mkdir()
    for number in range(50):
        (tmp_path / "src" / f"f{number}.py").touch()
    found = [WorkspaceFacts(tmp_path).find(f"f{number}.py") for number in range(50)]
    assert sum(name is not None for name in found) == 9


@pytest.mark.parametrize(
    ("command", "without"),
    [
        ("sudo systemctl restart nginx", "systemctl restart nginx"),
        ("a && sudo b | sudo c", "a && b | c"),
        ("sudo -u postgres psql", "sudo -u postgres psql"),
        ("grep sudo notes.txt", "grep sudo notes.txt"),
    ],
)
def test_a_command_has_no_sudo_for_root_or_where_there_is_none(
    tmp_path: Path, command: str, without: str
) -> None:
    (tmp_path / "sudo").touch(mode=0o755)
    bin_with_sudo = str(tmp_path)
    assert Machine("linux", bin_with_sudo, tmp_path).with_rights(command) == command
    assert Machine("linux", bin_with_sudo, tmp_path, is_root=True).with_rights(command) == without
    assert Machine("linux", "/nonexistent", tmp_path).with_rights(command) == without
