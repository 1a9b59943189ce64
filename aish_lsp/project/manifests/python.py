"""Python: pyproject.toml and its kin, with the tool that looks after the environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from aish_lsp.project.manifests.reading import Manifests, Table, is_plain, strings, table
from aish_lsp.project.task import Intent, Rank, Task, named_tasks

_REQUIREMENTS = (
    *("requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt"),
    *("requirements/dev.txt", "requirements-test.txt", "test-requirements.txt"),
    *("requirements.txt", "requirements/base.txt"),
)
#: Extras that hold what a developer needs, the fullest first.
_EXTRAS = ("dev", "develop", "development", "all", "test", "tests", "testing")
#: Groups that uv installs, or that hold what belongs to none.
_ALWAYS_THERE = frozenset({"", "group:dev"})


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool that is set up by a file, a table of pyproject.toml or a section of setup.cfg."""

    name: str
    intent: Intent
    arguments: str = ""
    files: tuple[str, ...] = ()
    section: str = ""


#: Where one project has several for the same end, the first is suggested first.
_TOOLS = (
    _Tool("pytest", "test", "", ("pytest.ini", ".pytest.ini", "pytest.toml"), "tool:pytest"),
    _Tool("ruff", "lint", " check .", ("ruff.toml", ".ruff.toml")),
    _Tool("flake8", "lint", "", (".flake8",), "flake8"),
    _Tool("black", "format", " ."),
    _Tool("ruff", "format", " format .", ("ruff.toml", ".ruff.toml")),
    _Tool("isort", "format", " .", (".isort.cfg",), "isort"),
    _Tool("mypy", "check", " .", ("mypy.ini", ".mypy.ini"), "mypy"),
    _Tool("pyright", "check", "", ("pyrightconfig.json",)),
)


class _Project:
    """What the manifests say of a Python project, and how its tools are called."""

    def __init__(self, manifests: Manifests) -> None:
        self.manifests = manifests
        self.pyproject = manifests.toml("pyproject.toml")
        self.tool = table(self.pyproject, "tool")
        self.metadata = table(self.pyproject, "project")

    @cached_property
    def manager(self) -> str:
        """The tool that looks after the environment: a lock file is the best witness."""
        has = self.manifests.has
        build_backend = table(self.pyproject, "build-system").get("build-backend")
        signs = {
            "uv": has("uv.lock") or "uv" in self.tool,
            "poetry": has("poetry.lock")
            or "poetry" in self.tool
            or build_backend == "poetry.core.masonry.api",
            "pdm": has("pdm.lock") or "pdm" in self.tool,
            "pipenv": has("Pipfile"),
            "hatch": bool(self.hatch_environments),
        }
        return next((manager for manager, sign in signs.items() if sign), "pip")

    @cached_property
    def hatch_environments(self) -> Table:
        """Hatch's environments by name."""
        own = table(self.manifests.toml("hatch.toml"), "envs")
        return own or table(self.tool, "hatch", "envs")

    @cached_property
    def environment(self) -> str:
        """The folder of a virtual environment, or nothing."""
        names = (".venv", "venv")
        return next((n for n in names if self.manifests.has(f"{n}/bin/python")), "")

    @property
    def python(self) -> str:
        """How Python is called within the project's environment."""
        if self.manager == "pip":
            return f"{self.environment}/bin/python" if self.environment else "python3"
        return f"{self.prefix}python"

    @property
    def prefix(self) -> str:
        """What stands before a program of the project's environment, a blank included."""
        return "" if self.manager == "pip" else f"{self.manager} run "

    def call(self, program: str) -> str:
        """Return how a program that is also a module is called, whichever extra brings it."""
        if self.manager == "pip":
            return f"{self.python} -m {program}"
        places = self.dependencies.get(program, {""})
        if self.manager != "uv" or places & _ALWAYS_THERE:
            return f"{self.prefix}{program}"
        kind, _, name = min(places).partition(":")
        return f"uv run --{kind} {name} {program}" if is_plain(name) else f"uv run {program}"

    @cached_property
    def dependencies(self) -> dict[str, set[str]]:
        """The names of what is required, each with where: ``extra:NAME``, ``group:NAME``, or ''."""
        found: dict[str, set[str]] = {}

        def add(requirements: Iterable[str], place: str = "") -> None:
            for requirement in requirements:
                name = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
                if name:
                    found.setdefault(name[0].lower().replace("_", "-"), set()).add(place)

        add(strings(self.metadata.get("dependencies")))
        for name, extra in table(self.metadata, "optional-dependencies").items():
            add(strings(extra), f"extra:{name}")
        for name, group in table(self.pyproject, "dependency-groups").items():
            add(strings(group), f"group:{name}")
        add(strings(table(self.tool, "uv").get("dev-dependencies")))
        for group in table(self.tool, "pdm", "dev-dependencies").values():
            add(strings(group))
        poetry = table(self.tool, "poetry")
        add(table(poetry, "dependencies"))
        add(table(poetry, "dev-dependencies"))
        for group in table(poetry, "group").values():
            add(table(group, "dependencies"))
        for environment in self.hatch_environments.values():
            settings = table(environment)
            add(strings(settings.get("dependencies")))
            add(strings(settings.get("extra-dependencies")))
        pipfile = self.manifests.toml("Pipfile")
        add(table(pipfile, "packages"))
        add(table(pipfile, "dev-packages"))
        for name in _REQUIREMENTS:
            add(self.manifests.text(name).split("\n"))
        return found

    def sets_up(self, tool: _Tool) -> str | None:
        """Return the file that shows that ``tool`` is used, or None."""
        if tool.name in self.tool:
            return "pyproject.toml"
        name = self.manifests.first(*tool.files)
        if name is not None:
            return name
        if tool.section:
            sections = {"setup.cfg": f"[{tool.section}]", "tox.ini": f"[{tool.name}]"}
            for name, section in sections.items():
                if section in self.manifests.text(name).split("\n"):
                    return name
        return self.requiring if tool.name in self.dependencies else None

    @property
    def requiring(self) -> str:
        """The file that is most likely to list the requirements."""
        return self.manifests.first("pyproject.toml", "Pipfile", *_REQUIREMENTS) or "setup.py"

    @property
    def is_package(self) -> bool:
        """Whether pip can install the folder itself."""
        return self.manifests.has("setup.py") or "build-system" in self.pyproject


def python(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Python project."""
    project = _Project(manifests)
    yield from _scripts(project)
    yield from _tools(project)
    yield from _runners(project)
    yield from _tests_without_configuration(project)
    yield from _programs(project)
    yield from _installation(project)


def _scripts(project: _Project) -> Iterator[Task]:
    """Yield the entries that the project defines for a runner of pyproject.toml."""
    tool = project.tool
    runners = {
        "pdm run ": table(tool, "pdm", "scripts"),
        f"{project.prefix}poe ": table(tool, "poe", "tasks"),
        f"{project.prefix}task ": table(tool, "taskipy", "tasks"),
    }
    for runner, entries in runners.items():
        yield from named_tasks(entries, runner, "pyproject.toml")
    pipfile = project.manifests.toml("Pipfile")
    yield from named_tasks(table(pipfile, "scripts"), "pipenv run ", "Pipfile")
    for environment, settings in project.hatch_environments.items():
        if is_plain(environment):
            runner = "hatch run " if environment == "default" else f"hatch run {environment}:"
            yield from named_tasks(table(settings, "scripts"), runner, "pyproject.toml")


def _tools(project: _Project) -> Iterator[Task]:
    """Yield the tasks of the tools that are set up."""
    for tool in _TOOLS:
        source = project.sets_up(tool)
        if source is None:
            continue
        arguments = tool.arguments
        if tool.name == "mypy" and {"files", "packages"} & table(project.tool, "mypy").keys():
            arguments = ""
        yield Task(tool.intent, f"{project.call(tool.name)}{arguments}", source)
    if project.manifests.has(".pre-commit-config.yaml"):
        yield Task("lint", "pre-commit run --all-files", ".pre-commit-config.yaml")


def _runners(project: _Project) -> Iterator[Task]:
    """Yield tox and nox, and hatch's own test command."""
    manifests = project.manifests
    if "hatch-test" in project.hatch_environments:
        yield Task("test", "hatch test", "pyproject.toml")
    own = manifests.first("tox.toml", "tox.ini")
    if own == "tox.ini" and not re.search(r"^\[(tox|testenv)\b", manifests.text(own), re.MULTILINE):
        own = None
    if own is not None or "tox" in project.tool:
        yield Task("test", "tox", own or "pyproject.toml")
    sessions = re.findall(r"^def (\w{1,64})\(", manifests.text("noxfile.py"), re.MULTILINE)
    for task in named_tasks(sessions, "nox -s ", "noxfile.py"):
        yield replace(task, rank=Rank.CONFIGURED)


def _tests_without_configuration(project: _Project) -> Iterator[Task]:
    """Yield a guess at how tests run that no configuration speaks of."""
    manifests = project.manifests
    if manifests.has("manage.py"):
        yield Task("test", f"{project.python} manage.py test", "manage.py")
    for folder in ("tests", "test", "tests/unit", "."):
        names = manifests.inside(folder)
        tests = [name for name in names if re.fullmatch(r"(test_\w+|\w+_test)\.py", name)]
        if not tests and "conftest.py" not in names:
            continue
        source = f"{folder}/" if folder != "." else (tests or ["conftest.py"])[0]
        first = (
            manifests.text(f"{folder}/{tests[0]}" if folder != "." else tests[0]) if tests else ""
        )
        if re.search(r"^(import|from) unittest\b", first, re.MULTILINE) and "pytest" not in first:
            command = f"{project.python} -m unittest discover"
            place = "" if folder == "." or "__init__.py" in names else f" -s {folder}"
            yield Task("test", command + place, source, Rank.GUESS)
        else:
            yield Task("test", project.call("pytest"), source, Rank.GUESS)
        return


def _programs(project: _Project) -> Iterator[Task]:
    """Yield how the project's own program is run."""
    manifests = project.manifests
    for scripts in (project.metadata, table(project.tool, "poetry")):
        for name in table(scripts, "scripts"):
            if is_plain(name):
                local = project.environment and not project.prefix
                program = f"{project.environment}/bin/{name}" if local else project.prefix + name
                yield Task("run", program, "pyproject.toml")
    if manifests.has("manage.py"):
        yield Task("start", f"{project.python} manage.py runserver", "manage.py")
    yield from _web_application(project)
    for name in ("main.py", "app.py", "run.py", "__main__.py"):
        if manifests.has(name):
            yield Task("run", f"{project.python} {name}", name, Rank.GUESS)
            break
    for folder in sorted(manifests.names):
        if re.fullmatch(r"[A-Za-z_]\w*", folder) and manifests.has(f"{folder}/__main__.py"):
            yield Task("run", f"{project.python} -m {folder}", f"{folder}/__main__.py", Rank.GUESS)


def _web_application(project: _Project) -> Iterator[Task]:
    """Yield how the development server of a web framework starts, where the module shows it."""
    for module in ("main", "app"):
        text = project.manifests.text(f"{module}.py")
        if re.search(r"^app\s*=\s*FastAPI\(", text, re.MULTILINE):
            command = f"{project.call('uvicorn')} {module}:app --reload"
            yield Task("start", command, f"{module}.py")
        elif re.search(r"^app\s*=\s*Flask\(", text, re.MULTILINE):
            command = f"{project.call('flask')} --app {module} run --debug"
            yield Task("start", command, f"{module}.py")
        elif re.search(r"^import streamlit\b", text, re.MULTILINE):
            yield Task("start", f"{project.call('streamlit')} run {module}.py", f"{module}.py")


def _installation(project: _Project) -> Iterator[Task]:
    """Yield how the dependencies are installed and how the package is built."""
    source = project.requiring
    extras = table(project.metadata, "optional-dependencies")
    extra = next((name for name in _EXTRAS if name in extras), None)
    managed = {
        "uv": f"uv sync --extra {extra}" if extra else "uv sync",
        "poetry": "poetry install",
        "pdm": "pdm install",
        "pipenv": "pipenv install --dev",
        "hatch": "hatch env create",
    }
    if project.manager in managed:
        yield Task("install", managed[project.manager], source)
        if project.manager != "pipenv" and project.is_package:
            yield Task("build", f"{project.manager} build", source)
        return
    wanted = []
    requirements = project.manifests.first(*_REQUIREMENTS)
    if requirements is not None:
        wanted.append(f"-r {requirements}")
    if project.is_package:
        wanted.append("-e " + (shlex.quote(f".[{extra}]") if extra else "."))
        source = "pyproject.toml" if "build-system" in project.pyproject else "setup.py"
        wheel = f"{project.python} -m pip wheel --no-deps --wheel-dir dist ."
        yield Task("build", wheel, source)
    if wanted:
        # Most systems refuse to install outside of a virtual environment.
        created = "" if project.environment else "python3 -m venv .venv && "
        python = f"{project.environment or '.venv'}/bin/python"
        yield Task("install", f"{created}{python} -m pip install {' '.join(wanted)}", source)
