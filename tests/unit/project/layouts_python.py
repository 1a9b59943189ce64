"""Python projects, with each of the tools that look after their environments."""

from __future__ import annotations

from task_layouts import Layout

_PACKAGE = "def greet() -> str:\n    return 'hello'\n"
_MAIN = "from greeter import greet\n\nprint(greet())\n"
_TEST = "from greeter import greet\n\n\ndef test_greet() -> None:\n    assert greet() == 'hello'\n"
_UNITTEST = """
    import unittest

    import greeter


    class GreeterTest(unittest.TestCase):
        def test_greet(self) -> None:
            self.assertEqual(greeter.greet(), "hello")
    """

PYTHON = (
    Layout(
        "uv",
        {
            "pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                requires-python = ">=3.11"
                [project.scripts]
                greet = "greeter.__main__:main"
                [dependency-groups]
                dev = ["pytest", {include-group = "style"}]
                style = ["ruff"]
                [build-system]
                requires = ["uv_build"]
                build-backend = "uv_build"
                """,
            "src/greeter/__init__.py": _PACKAGE,
            "src/greeter/__main__.py": """
                from greeter import greet


                def main() -> None:
                    print(greet())
                """,
            "tests/test_greeter.py": _TEST,
        },
        {
            "test": "pyproject.toml: uv run pytest",
            "build": "pyproject.toml: uv build",
            "run": "pyproject.toml: uv run greet",
            "start": "pyproject.toml: uv run greet",
            "lint": "pyproject.toml: uv run ruff check .",
            "format": "pyproject.toml: uv run ruff format .",
            "install": "pyproject.toml: uv sync",
        },
        needs=("uv",),
        runs=("install", "test", "lint", "format", "run", "build"),
    ),
    Layout(
        "uv, with tools that are not dependencies",
        {
            "pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                requires-python = ">=3.11"
                [tool.ruff]
                line-length = 100
                [tool.uv]
                package = false
                """,
            "greeter.py": _PACKAGE,
            "tests/test_greeter.py": _UNITTEST,
        },
        {
            "test": "tests/: uv run python -m unittest discover -s tests",
            "lint": "pyproject.toml: uv run --with ruff ruff check .",
            "format": "pyproject.toml: uv run --with ruff ruff format .",
            "install": "pyproject.toml: uv sync",
        },
        needs=("uv",),
        runs=("install", "test", "lint", "format"),
    ),
    Layout(
        "a uv workspace",
        {
            "pyproject.toml": """
                [dependency-groups]
                dev = ["pytest"]
                [tool.uv.workspace]
                members = ["packages/*"]
                """,
            "packages/greeter/pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                requires-python = ">=3.11"
                [build-system]
                requires = ["uv_build"]
                build-backend = "uv_build"
                """,
            "packages/greeter/src/greeter/__init__.py": _PACKAGE,
            "packages/greeter/tests/test_greeter.py": _TEST,
        },
        {
            "test": "pyproject.toml: uv run --all-packages pytest",
            "build": "packages/greeter/pyproject.toml: (cd packages/greeter && uv build)",
            "install": "pyproject.toml: uv sync --all-packages",
        },
        needs=("uv",),
        runs=("install", "test", "build"),
    ),
    Layout(
        "Poetry",
        {
            "pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                description = ""
                authors = []
                requires-python = ">=3.11,<4"
                [project.scripts]
                greet = "greeter:greet"
                [tool.poetry.group.dev.dependencies]
                pytest = "*"
                [build-system]
                requires = ["poetry-core"]
                build-backend = "poetry.core.masonry.api"
                """,
            "greeter/__init__.py": _PACKAGE,
            "tests/test_greeter.py": _TEST,
        },
        {
            "test": "pyproject.toml: poetry run pytest",
            "build": "pyproject.toml: poetry build",
            "run": "pyproject.toml: poetry run greet",
            "start": "pyproject.toml: poetry run greet",
            "install": "pyproject.toml: poetry install",
        },
        needs=("poetry",),
        runs=("build",),
    ),
    Layout(
        "Poetry, with scripts only",
        {
            "pyproject.toml": """
                [tool.poetry]
                package-mode = false
                [tool.poetry.dependencies]
                python = ">=3.11,<4"
                [build-system]
                requires = ["poetry-core"]
                build-backend = "poetry.core.masonry.api"
                """,
            "main.py": "print('hello')\n",
            "test_main.py": "import unittest\n\n\nclass T(unittest.TestCase):\n"
            "    def test_it(self) -> None: ...\n",
        },
        {
            "test": "test_main.py: poetry run python -m unittest discover",
            "run": "main.py: poetry run python main.py",
            "start": "main.py: poetry run python main.py",
            "install": "pyproject.toml: poetry install",
        },
        needs=("poetry",),
        runs=("install", "test", "run"),
    ),
    Layout(
        "PDM",
        {
            "pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                requires-python = ">=3.11"
                [dependency-groups]
                test = ["pytest"]
                [tool.pdm]
                distribution = true
                [tool.pdm.scripts]
                lint = "python -m compileall src"
                [build-system]
                requires = ["pdm-backend"]
                build-backend = "pdm.backend"
                """,
            "src/greeter/__init__.py": _PACKAGE,
            "src/greeter/__main__.py": _MAIN,
            "tests/test_greeter.py": _TEST,
        },
        {
            "test": "pyproject.toml: pdm run pytest",
            "build": "pyproject.toml: pdm build",
            "run": "src/greeter/__main__.py: pdm run python -m greeter",
            "start": "src/greeter/__main__.py: pdm run python -m greeter",
            "lint": "pyproject.toml: pdm run lint",
            "install": "pyproject.toml: pdm install",
        },
        needs=("pdm",),
        runs=("lint",),
    ),
    Layout(
        "Hatch",
        {
            "pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                [build-system]
                requires = ["hatchling"]
                build-backend = "hatchling.build"
                [tool.hatch.envs.default.scripts]
                serve = "python -m greeter"
                [tool.hatch.envs.types]
                extra-dependencies = ["mypy"]
                [tool.hatch.envs.types.scripts]
                check = "mypy greeter"
                """,
            "greeter/__init__.py": _PACKAGE,
            "greeter/__main__.py": _MAIN,
            "tests/test_greeter.py": _TEST,
        },
        {
            "test": "tests/: hatch test",
            "build": "pyproject.toml: hatch build",
            "run": "greeter/__main__.py: hatch run python -m greeter",
            "start": "pyproject.toml: hatch run serve",
            "lint": "pyproject.toml: hatch run types:check",
            "install": "pyproject.toml: hatch env create",
        },
        needs=("hatch",),
        runs=("install", "start", "test", "build"),
    ),
    Layout(
        "pip, with a package below src",
        {
            "pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                [project.optional-dependencies]
                dev = ["pytest", "ruff"]
                [build-system]
                requires = ["setuptools"]
                build-backend = "setuptools.build_meta"
                """,
            "src/greeter/__init__.py": _PACKAGE,
            "tests/unit/test_greeter.py": _TEST,
        },
        {
            "test": "pyproject.toml: python3 -m pytest",
            "build": "pyproject.toml: python3 -m pip wheel --no-deps --wheel-dir dist .",
            "lint": "pyproject.toml: python3 -m ruff check .",
            "format": "pyproject.toml: python3 -m ruff format .",
            "install": "pyproject.toml: python3 -m venv .venv"
            " && .venv/bin/python -m pip install -e '.[dev]'",
        },
        runs=("install", "build"),
    ),
    Layout(
        "pip, with a virtual environment",
        {
            "requirements.txt": "",
            "requirements-dev.txt": "-r requirements.txt\npytest\n",
            "greeter/__init__.py": _PACKAGE,
            "greeter/__main__.py": _MAIN,
            "greeter/tests/test_greeter.py": _TEST,
            ".venv/bin/python": '#!/bin/sh\nexec python3 "$@"\n',
        },
        {
            "test": "requirements-dev.txt: .venv/bin/python -m pytest",
            "run": "greeter/__main__.py: .venv/bin/python -m greeter",
            "start": "greeter/__main__.py: .venv/bin/python -m greeter",
            "install": "requirements-dev.txt: "
            ".venv/bin/python -m pip install -r requirements-dev.txt",
        },
        programs=(".venv/bin/python",),
        runs=("run",),
    ),
    Layout(
        "pip, with a program that is not installed",
        {
            "pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                [project.scripts]
                greet = "greeter.cli:main"
                [build-system]
                requires = ["setuptools"]
                """,
            "greeter/__init__.py": _PACKAGE,
            "greeter/__main__.py": _MAIN,
        },
        {
            "build": "pyproject.toml: python3 -m pip wheel --no-deps --wheel-dir dist .",
            "run": "greeter/__main__.py: python3 -m greeter",
            "start": "greeter/__main__.py: python3 -m greeter",
            "install": "pyproject.toml: python3 -m venv .venv"
            " && .venv/bin/python -m pip install -e .",
        },
        runs=("run",),
    ),
    Layout(
        "a pyproject.toml without a build system",
        {
            "pyproject.toml": """
                [project]
                name = "greeter"
                version = "1"
                """,
            "greeter/__init__.py": _PACKAGE,
            "tests/__init__.py": "",
            "tests/test_greeter.py": _UNITTEST,
        },
        {
            "test": "tests/: python3 -m unittest discover",
            "install": "pyproject.toml: python3 -m venv .venv"
            " && .venv/bin/python -m pip install -e .",
        },
        runs=("test", "install"),
    ),
    Layout(
        "configured tools, but no Python project",
        {
            "pyproject.toml": "[tool.ruff]\nline-length = 100\n",
            "mypy.ini": "[mypy]\nfiles = greeter.py\n",
            ".pre-commit-config.yaml": "repos: []\n",
            "greeter.py": _PACKAGE,
        },
        {
            "test": "mypy.ini: python3 -m mypy",
            "lint": "pyproject.toml: python3 -m ruff check .\n"
            ".pre-commit-config.yaml: pre-commit run --all-files",
            "format": "pyproject.toml: python3 -m ruff format .",
        },
    ),
    Layout(
        "tox and Nox",
        {
            "tox.ini": """
                [tox]
                envlist = py3
                no_package = true
                [testenv]
                commands = python -m unittest discover
                [testenv:lint]
                commands = python -m compileall greeter.py
                """,
            "noxfile.py": """
                import nox


                def install(session):
                    session.install(".")


                @nox.session(
                    name="format",
                )
                def tidy(session):
                    session.run("python", "--version")
                """,
            "greeter.py": _PACKAGE,
            "test_greeter.py": _UNITTEST,
        },
        {
            "test": "tox.ini: tox",
            "lint": "tox.ini: tox -e lint",
            "format": "noxfile.py: nox -s format",
        },
        needs=("tox", "nox"),
        runs=("test", "lint", "format"),
    ),
    Layout(
        "Django",
        {
            "manage.py": """
                import sys

                from django.conf import settings
                from django.core.management import execute_from_command_line

                if __name__ == "__main__":
                    settings.configure(INSTALLED_APPS=[], DATABASES={})
                    execute_from_command_line(sys.argv)
                """,
            "requirements.txt": "django\n",
        },
        {
            "test": "manage.py: python3 manage.py test",
            "run": "manage.py: python3 manage.py runserver",
            "start": "manage.py: python3 manage.py runserver",
            "install": "requirements.txt: python3 -m venv .venv"
            " && .venv/bin/python -m pip install -r requirements.txt",
        },
        runs=("install",),
    ),
)
