"""What belongs to the project is answered from its files, and never by the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import Machine

_MAKEFILE = """\
deploy: test
\trsync -a build/ web:/srv
\tssh web restart
test:
\tpytest
"""
_PYPROJECT = """\
[project]
name = "app"
dependencies = ["requests>=2", "typing_extensions"]
[tool.pytest.ini_options]
markers = ["slow: takes long"]
"""
_PACKAGE = """\
{"scripts": {"dev": "vite --port 3000", "build": "vite build", "test:slow": "jest slow"},
 "dependencies": {"express": "^4"}, "devDependencies": {"jest": "1"}}
"""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "package.json").write_text(_PACKAGE)
    return tmp_path


@pytest.fixture
def python(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(_MAKEFILE)
    (tmp_path / "pyproject.toml").write_text(_PYPROJECT)
    return tmp_path


def told(root: Path, question: str) -> str:
    # There is a package manager, which could install anything.
    tools = root / "bin"
    if not tools.exists():
        tools.mkdir()
        for name in ("apt-get", "npm", "make", "python3", "sudo"):
            (tools / name).write_text("#!/bin/sh\n")
            (tools / name).chmod(0o755)
    return reply(TypedQuestion(question), root, Machine("linux", str(tools), root))


@pytest.mark.parametrize(
    "question",
    ["what does make deploy do", "What does `make deploy` do?", "explain the deploy target"],
)
def test_the_recipe_of_a_target_is_read_when_asked_what_it_does(
    python: Path, question: str
) -> None:
    text = told(python, question)
    assert "> first: test\n> rsync -a build/ web:/srv\n> ssh web restart\n" in text
    assert text.endswith("CMD: make -n deploy")


@pytest.mark.parametrize(
    ("question", "script"),
    [
        ("what does npm run dev do", "> vite --port 3000"),
        ("what does the build script do?", "> vite build"),
    ],
)
def test_the_script_of_a_package_is_read_when_asked_what_it_does(
    node: Path, question: str, script: str
) -> None:
    assert script in told(node, question)


def test_a_dependency_of_a_node_project_is_asked_of_npm_and_not_of_the_system(node: Path) -> None:
    for question in ("is express up to date", "is jest outdated?"):
        text = told(node, question)
        assert "CMD: npm outdated " in text
        assert "apt-get" not in text
    assert "CMD: npm ls express" in told(node, "which version of express do we use")


def test_a_dependency_of_a_python_project_is_asked_of_pip_in_either_spelling(python: Path) -> None:
    assert "CMD: python3 -m pip list --outdated" in told(python, "is requests up to date?")
    text = told(python, "which version of typing-extensions is installed")
    assert "CMD: python3 -m pip show typing-extensions" in text


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("run the slow tests", "python3 -m pytest -m slow"),
        ("run all tests except the slow ones", "python3 -m pytest -m 'not slow'"),
        ("skip the slow tests", "python3 -m pytest -m 'not slow'"),
    ],
)
def test_tests_that_the_project_marks_are_run_by_their_mark(
    python: Path, question: str, command: str
) -> None:
    assert told(python, question).split("CMD: ")[1] == command


def test_a_script_for_some_of_the_tests_is_run_where_the_project_has_one(node: Path) -> None:
    assert "CMD: npm run test:slow" in told(node, "run the slow tests")


def test_nothing_is_run_for_tests_that_the_project_does_not_know(python: Path) -> None:
    text = told(python, "run the flaky tests")
    assert "nothing here that says which tests are flaky" in text
    assert "durations" not in text


def test_the_version_of_the_language_is_asked_of_the_project(python: Path) -> None:
    (python / ".python-version").write_text("3.12\n")
    assert "CMD: cat .python-version" in told(python, "which python does this use")
