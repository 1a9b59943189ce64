"""Python: pyproject.toml and its kin, with the tool that looks after the environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from aish_lsp.project.manifests.python_project import REQUIREMENTS, Project
from aish_lsp.project.manifests.reading import (
    Intent,
    Manifests,
    Rank,
    Task,
    is_plain,
    named_tasks,
    table,
)

#: Extras that hold what a developer needs, the fullest first.
_EXTRAS = ("dev", "develop", "development", "all", "test", "tests", "testing")


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
    _Tool("pylint", "lint", " --recursive=y .", (".pylintrc", "pylintrc")),
    _Tool("black", "format", " ."),
    _Tool("ruff", "format", " format .", ("ruff.toml", ".ruff.toml")),
    _Tool("isort", "format", " .", (".isort.cfg",), "isort"),
    _Tool("mypy", "check", " .", ("mypy.ini", ".mypy.ini"), "mypy"),
    _Tool("pyright", "check", "", ("pyrightconfig.json",)),
    _Tool("basedpyright", "check"),
    _Tool("ty", "check", " check", ("ty.toml",)),
)

#: What Hatch brings itself, where no environment of the project has the tool.
_HATCH_OWN = {
    ("pytest", "test"): "hatch test",
    ("ruff", "lint"): "hatch fmt --check",
    ("ruff", "format"): "hatch fmt",
}


def python(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Python project."""
    project = Project(manifests)
    yield from _scripts(project)
    yield from _tools(project)
    yield from _runners(project)
    yield from _tests_without_configuration(project)
    yield from _programs(project)
    yield from _installation(project)


def _scripts(project: Project) -> Iterator[Task]:
    """Yield the entries that the project defines for a runner of pyproject.toml."""
    tool = project.tool
    runners = {
        "pdm run ": table(tool, "pdm", "scripts"),
        "pixi run ": table(tool, "pixi", "tasks"),
        f"{project.prefix}poe ": table(tool, "poe", "tasks"),
        f"{project.prefix}task ": table(tool, "taskipy", "tasks"),
    }
    for runner, entries in runners.items():
        yield from named_tasks(entries, runner, "pyproject.toml")
    pixi = table(project.manifests.toml("pixi.toml"), "tasks")
    yield from named_tasks(pixi, "pixi run ", "pixi.toml")
    pipfile = project.manifests.toml("Pipfile")
    yield from named_tasks(table(pipfile, "scripts"), "pipenv run ", "Pipfile")
    hatch = project.manifests.first("hatch.toml") or "pyproject.toml"
    for environment, settings in project.hatch_environments.items():
        if is_plain(environment):
            runner = "hatch run " if environment == "default" else f"hatch run {environment}:"
            yield from named_tasks(table(settings, "scripts"), runner, hatch)


def _tools(project: Project) -> Iterator[Task]:
    """Yield the tasks of the tools that are set up."""
    for tool in _TOOLS:
        source = _set_up_in(project, tool)
        if source is None:
            continue
        arguments = tool.arguments
        if tool.name == "mypy" and _tells_mypy_what_to_check(project):
            arguments = ""
        command = f"{project.call(tool.name)}{arguments}"
        if project.manager == "hatch" and tool.name not in project.dependencies:
            command = _HATCH_OWN.get((tool.name, tool.intent), command)
        yield Task(tool.intent, command, source)
    if project.manifests.has(".pre-commit-config.yaml"):
        is_required = "pre-commit" in project.dependencies and project.manager != "pip"
        program = project.call("pre-commit") if is_required else "pre-commit"
        yield Task("lint", f"{program} run --all-files", ".pre-commit-config.yaml")


def _set_up_in(project: Project, tool: _Tool) -> str | None:
    """Return the file that shows that ``tool`` is used, or None."""
    if tool.name in project.tool:
        return "pyproject.toml"
    name = project.manifests.first(*tool.files)
    if name is not None:
        return name
    if tool.section:
        sections = {"setup.cfg": f"[{tool.section}]", "tox.ini": f"[{tool.name}]"}
        for name, section in sections.items():
            if section in project.manifests.text(name).split("\n"):
                return name
    return project.requiring if tool.name in project.dependencies else None


def _tells_mypy_what_to_check(project: Project) -> bool:
    """Return whether mypy's settings name files, so that it wants none on its command line."""
    if {"files", "packages", "modules"} & table(project.tool, "mypy").keys():
        return True
    for name in ("mypy.ini", ".mypy.ini", "setup.cfg"):
        section = ""
        for line in project.manifests.text(name).split("\n"):
            section = line.strip() if line.startswith("[") else section
            if section == "[mypy]" and re.match(r"(files|packages|modules)\s*=", line):
                return True
    return False


def _runners(project: Project) -> Iterator[Task]:
    """Yield tox and nox, and hatch's own test command."""
    manifests = project.manifests
    if "hatch-test" in project.hatch_environments:
        yield Task("test", "hatch test", project.requiring)
    yield from _tox(project)
    for task in named_tasks(_nox_sessions(manifests.text("noxfile.py")), "nox -s ", "noxfile.py"):
        yield replace(task, rank=Rank.CONFIGURED)


def _tox(project: Project) -> Iterator[Task]:
    """Yield tox, and its environments of the usual names."""
    manifests = project.manifests
    names = {"tox.ini": r"^\[(?:tox|testenv)\b", "setup.cfg": r"^\[tox:tox\]"}
    own = next((n for n, s in names.items() if re.search(s, manifests.text(n), re.MULTILINE)), None)
    own = manifests.first("tox.toml") or own
    if own is None and "tox" not in project.tool:
        return
    source = own or "pyproject.toml"
    call = "tox"
    if project.manager != "pip" and "tox" in project.dependencies:
        call = project.call("tox")
    yield Task("test", call, source)
    settings = manifests.toml("tox.toml") or table(project.tool, "tox")
    text = manifests.text("tox.ini") or str(table(project.tool, "tox").get("legacy_tox_ini", ""))
    listed = re.findall(r"^\[testenv:([\w-]+)\]", text, re.MULTILINE)
    environments = {*table(settings, "env"), *listed} - {"test", "tests"}
    for task in named_tasks(environments, f"{call} -e ", source):
        yield replace(task, rank=Rank.CONFIGURED)


def _nox_sessions(noxfile: str) -> set[str]:
    """Return the names of the functions that are sessions; a helper beside them is none."""
    sessions = set()
    decorated = ""
    for line in noxfile.split("\n"):
        if re.match(r"@(nox\.)?session\b", line):
            decorated = line
            continue
        name = re.match(r"def (\w{1,64})\(", line)
        if decorated and name is not None:
            given = re.search(r"\bname\s*=\s*['\"]([\w.-]{1,64})['\"]", decorated)
            sessions.add(given[1] if given else name[1])
        if name is not None or not line.strip():
            decorated = ""
        elif decorated:
            decorated += line
    return sessions


def _tests_without_configuration(project: Project) -> Iterator[Task]:
    """Yield a guess at how tests run that no configuration speaks of."""
    manifests = project.manifests
    if manifests.has("manage.py"):
        yield Task("test", f"{project.python} manage.py test", "manage.py")
    tests = _first_tests(manifests)
    if tests is None:
        return
    folder, names = tests
    source = f"{folder}/" if folder != "." else (names or ["conftest.py"])[0]
    first = manifests.text(names[0] if folder == "." else f"{folder}/{names[0]}") if names else ""
    if re.search(r"^(import|from) unittest\b", first, re.MULTILINE) and "pytest" not in first:
        command = f"{project.python} -m unittest discover"
        is_package = folder == "." or manifests.has(f"{folder}/__init__.py")
        place = "" if is_package else f" -s {folder}"
        yield Task("test", command + place, source, Rank.GUESS)
        return
    command = project.call("pytest")
    if project.manager == "hatch" and "pytest" not in project.dependencies:
        command = "hatch test"
    yield Task("test", command, source, Rank.GUESS)


def _first_tests(manifests: Manifests) -> tuple[str, list[str]] | None:
    """Return the first folder with Python tests, and the names of these; None for no tests."""
    inner = [f"{t}/{n}" for t in ("tests", "test") for n in manifests.inside(t) if is_plain(n)]
    packages = [f"{n}/tests" for n in manifests.folders if manifests.has(f"{n}/__init__.py")]
    places = ("tests", "test", *(folder for folder in inner if "." not in folder), ".", *packages)
    for folder in (place for place in places if is_plain(place.replace("/", "")) or place == "."):
        names = manifests.inside(folder)
        tests = [name for name in names if re.fullmatch(r"(test_\w+|\w+_test)\.py", name)]
        if tests or "conftest.py" in names:
            return folder, tests
    return None


def _programs(project: Project) -> Iterator[Task]:
    """Yield how the project's own program is run."""
    manifests = project.manifests
    yield from _entry_points(project)
    if manifests.has("manage.py"):
        yield Task("start", f"{project.python} manage.py runserver", "manage.py")
    yield from _web_application(project)
    for name in ("main.py", "app.py", "run.py", "__main__.py"):
        if manifests.has(name):
            yield Task("run", f"{project.python} {name}", name, Rank.GUESS)
            break
    # A package below src/ is only found where it is installed.
    is_installed = project.is_package and (project.environment or project.manager != "pip")
    for place in ("", "src/") if is_installed else ("",):
        for folder in manifests.inside(place or "."):
            main = f"{place}{folder}/__main__.py"
            if re.fullmatch(r"[A-Za-z_]\w*", folder) and manifests.has(main):
                yield Task("run", f"{project.python} -m {folder}", main, Rank.GUESS)


def _entry_points(project: Project) -> Iterator[Task]:
    """Yield the programs that the project installs."""
    for scripts in (project.metadata, table(project.tool, "poetry")):
        for name, entry in table(scripts, "scripts").items():
            package = str(entry).partition(":")[0].partition(".")[0]
            if not is_plain(name):
                continue
            command, source = f"{project.prefix}{name}", "pyproject.toml"
            if project.manager == "pip":
                main = f"{package}/__main__.py"
                if project.environment:
                    command = f"{project.environment}/bin/{name}"
                elif is_plain(package) and project.manifests.has(main):
                    # Where nothing is installed yet, the program is there all the same.
                    command, source = f"python3 -m {package}", main
            yield Task("run", command, source)


def _web_application(project: Project) -> Iterator[Task]:
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


def _installation(project: Project) -> Iterator[Task]:
    """Yield how the dependencies are installed and how the package is built."""
    source = project.requiring
    extras = table(project.metadata, "optional-dependencies")
    extras = extras or table(project.tool, "poetry", "extras")
    extra = next((name for name in _EXTRAS if name in extras), None)
    if project.manager == "pip":
        yield from _installation_by_pip(project, extra)
        return
    options = {
        "uv": f"{' --all-packages' if table(project.tool, 'uv', 'workspace') else ''}"
        f"{f' --extra {extra}' if extra else ''}",
        "poetry": f" --extras {extra}" if extra else "",
        "pdm": f" -G {extra}" if extra else "",
    }
    install = {"uv": "uv sync", "pipenv": "pipenv install --dev", "hatch": "hatch env create"}
    command = install.get(project.manager, f"{project.manager} install")
    yield Task("install", f"{command}{options.get(project.manager, '')}", source)
    if project.manager not in ("pipenv", "pixi") and project.is_package:
        yield Task("build", f"{project.manager} build", source)


def _installation_by_pip(project: Project, extra: str | None) -> Iterator[Task]:
    wanted, source = [], project.requiring
    requirements = project.manifests.first(*REQUIREMENTS)
    if requirements is not None:
        wanted.append(f"-r {requirements}")
    if project.is_installable:
        wanted.append("-e " + (shlex.quote(f".[{extra}]") if extra else "."))
        source = "pyproject.toml" if project.pyproject else "setup.py"
    if project.is_package:
        wheel = f"{project.python} -m pip wheel --no-deps --wheel-dir dist ."
        yield Task("build", wheel, source)
    if wanted:
        # Most systems refuse to install outside of a virtual environment.
        created = "" if project.environment else "python3 -m venv .venv && "
        python = f"{project.environment or '.venv'}/bin/python"
        yield Task("install", f"{created}{python} -m pip install {' '.join(wanted)}", source)
