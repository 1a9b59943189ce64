"""Python: pyproject.toml and similar files, with the tool that manages the environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from aish_lsp.project.manifests.reading import (
    COMMANDS,
    Intent,
    Manifests,
    Rank,
    Table,
    Task,
    is_plain,
    named_tasks,
    strings,
    table,
)


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool that is set up by a file, a table of pyproject.toml or a section of setup.cfg.

    ``hatch`` is Hatch's own command, for projects with no environment that has the tool.
    """

    name: str
    intent: Intent
    arguments: str = ""
    files: Sequence[str] = ()
    section: str = ""
    hatch: str = ""


#: If a project has several for the same purpose, the first is suggested first.
_TOOLS = tuple(_Tool(**row) for row in COMMANDS["python_tools"])

#: The usual names of extras with what a developer needs, the fullest first; of files that list
#: requirements; and of folders that setuptools does not take for packages of the project.
_EXTRAS, REQUIREMENTS, _NO_PACKAGES = (
    tuple[str, ...](COMMANDS["python_names"][key])
    for key in ("extras", "requirements", "no_packages")
)

#: The most dependency groups, and the most environments of Hatch, that are read.
_GROUPS = 100


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
    tool, toml = project.tool, project.manifests.toml
    for entries, runner, source in (
        (table(tool, "pdm", "scripts"), "pdm run ", "pyproject.toml"),
        (table(tool, "pixi", "tasks"), "pixi run ", "pyproject.toml"),
        (table(tool, "poe", "tasks"), f"{project.prefix}poe ", "pyproject.toml"),
        (table(tool, "taskipy", "tasks"), f"{project.prefix}task ", "pyproject.toml"),
        (table(toml("pixi.toml"), "tasks"), "pixi run ", "pixi.toml"),
        (table(toml("Pipfile"), "scripts"), "pipenv run ", "Pipfile"),
    ):
        yield from named_tasks(entries, runner, source)
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
            command = tool.hatch or command
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
    """Return whether mypy's settings name files, so that its command line does not have to."""
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
    """Yield tox, and its environments that have usual names."""
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
    """Return the names of the functions that are sessions, leaving out helpers."""
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
    """Yield a guess at how tests are run if no configuration mentions them."""
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
    """Return the first folder with Python tests, and their names; None if there are none."""
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
    # A package below src/ is found only if it is installed.
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
                    # This also works if nothing is installed yet.
                    command, source = f"python3 -m {package}", main
            yield Task("run", command, source)


def _web_application(project: Project) -> Iterator[Task]:
    """Yield how a web framework's development server starts, if the module shows which it is."""
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
    metadata, tool = project.metadata, project.tool
    extras = table(metadata, "optional-dependencies") or table(tool, "poetry", "extras")
    extra = next((name for name in _EXTRAS if name in extras), None)
    if project.manager == "pip":
        yield from _installation_by_pip(project, extra)
        return
    options = {
        "uv": (" --all-packages" if table(tool, "uv", "workspace") else "")
        + (f" --extra {extra}" if extra else ""),
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
        # Most systems refuse to install outside a virtual environment.
        created = "" if project.environment else "python3 -m venv .venv && "
        python = f"{project.environment or '.venv'}/bin/python"
        yield Task("install", f"{created}{python} -m pip install {' '.join(wanted)}", source)


# The project: what its manifests say about the environment, and how its tools are called.

#: Build backends that reveal which tool manages the environment.
_BACKENDS = {"uv_build": "uv", "poetry.core.masonry.api": "poetry", "pdm.backend": "pdm"}


class Project:
    """What the manifests say about a Python project, and how its tools are called."""

    def __init__(self, manifests: Manifests) -> None:
        self.manifests = manifests
        self.pyproject = manifests.toml("pyproject.toml")
        self.tool = table(self.pyproject, "tool")
        self.metadata = table(self.pyproject, "project")

    @cached_property
    def manager(self) -> str:
        """The tool that manages the environment; a lock file is the best evidence."""
        has = self.manifests.has
        built_by = table(self.pyproject, "build-system").get("build-backend")
        backend = _BACKENDS.get(built_by) if isinstance(built_by, str) else None
        signs = {
            "uv": has("uv.lock") or "uv" in self.tool,
            "poetry": has("poetry.lock") or "poetry" in self.tool,
            "pdm": has("pdm.lock") or "pdm" in self.tool,
            "pixi": has("pixi.toml") or "pixi" in self.tool,
            "pipenv": has("Pipfile"),
            "hatch": bool(self.hatch_environments),
        }
        named = next((manager for manager, sign in signs.items() if sign), backend)
        above = self.manifests.above
        if named is None and above is not None and Project(above).manager == "uv":
            return "uv"  # the only one with workspaces
        return named or "pip"

    @cached_property
    def hatch_environments(self) -> Table:
        """Hatch's environments by name."""
        own = table(self.manifests.toml("hatch.toml"), "envs")
        return own or table(self.tool, "hatch", "envs")

    @cached_property
    def environment(self) -> str:
        """The folder of a virtual environment; empty if there is none."""
        names = (".venv", "venv", "env")
        return next((n for n in names if self.manifests.exists(f"{n}/bin/python")), "")

    @property
    def python(self) -> str:
        """How Python is called in the project's environment."""
        if self.manager == "pip":
            return f"{self.environment}/bin/python" if self.environment else "python3"
        return f"{self.prefix}python"

    @cached_property
    def prefix(self) -> str:
        """What precedes a program of the project's environment, with a blank at the end."""
        if self.manager == "pip":
            return ""
        # The tests of a workspace's members need the members' requirements.
        members = self.manager == "uv" and table(self.tool, "uv", "workspace")
        return f"{self.manager} run {'--all-packages ' if members else ''}"

    def call(self, program: str) -> str:
        """Return how a program that is also a module is called, whichever extra provides it."""
        if self.manager == "pip":
            return f"{self.python} -m {program}"
        places = self.dependencies.get(program, set())
        if self.manager == "hatch" and places and not places & {"", "env:default"}:
            names = sorted(p.removeprefix("env:") for p in places if p.startswith("env:"))
            names = [name for name in names if is_plain(name)]
            return f"hatch run {names[0]}:{program}" if names else f"hatch run {program}"
        if self.manager != "uv" or places & self._always_there:
            return f"{self.prefix}{program}"
        if not places:
            return f"{self.prefix}--with {program} {program}"
        kind, _, name = min(places).partition(":")
        option = f"--{kind} {name} " if is_plain(name.replace("/", "")) else ""
        return f"{self.prefix}{option}{program}"

    @cached_property
    def _always_there(self) -> set[str]:
        """The places whose requirements uv installs by default."""
        groups = table(self.tool, "uv").get("default-groups", ["dev"])
        if groups == "all":
            groups = list(table(self.pyproject, "dependency-groups"))
        return {"", *(f"group:{group}" for group in strings(groups))}

    @cached_property
    def dependencies(self) -> dict[str, set[str]]:
        """The names of the requirements, each with the places that require it.

        A place is ``extra:NAME``, ``group:NAME``, ``env:NAME`` (of Hatch),
        ``with-requirements:FILE``, or empty for what is always there.
        """
        found: dict[str, set[str]] = {}
        for place, requirements in self._requirements():
            for requirement in requirements:
                name = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
                if name:
                    found.setdefault(name[0].lower().replace("_", "-"), set()).add(place)
        return found

    def _requirements(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield the lists of requirements: those that every tool reads, then those of one tool."""
        yield "", strings(self.metadata.get("dependencies"))
        extras = table(self.metadata, "optional-dependencies")
        for name, extra in extras.items():
            yield f"extra:{name}", strings(extra)
        for name in islice(table(self.pyproject, "dependency-groups"), _GROUPS):
            yield f"group:{name}", self._group(name)
        for name in REQUIREMENTS:
            yield f"with-requirements:{name}", self.manifests.text(name).split("\n")
        yield "", strings(table(self.tool, "uv").get("dev-dependencies"))
        for group in table(self.tool, "pdm", "dev-dependencies").values():
            yield "", strings(group)
        poetry = table(self.tool, "poetry")
        for part in (poetry, *map(table, table(poetry, "group").values())):
            yield "", table(part, "dependencies")
        yield "", table(poetry, "dev-dependencies")
        pipfile = self.manifests.toml("Pipfile")
        yield "", table(pipfile, "packages")
        yield "", table(pipfile, "dev-packages")
        for name, environment in islice(self.hatch_environments.items(), _GROUPS):
            settings = table(environment)
            for key in ("dependencies", "extra-dependencies"):
                yield f"env:{name}", strings(settings.get(key))
            for feature in dict.fromkeys(strings(settings.get("features"))):
                yield f"env:{name}", strings(extras.get(feature))

    def _group(self, name: str) -> Iterator[str]:
        """Yield the requirements of a group and of the groups that it includes."""
        groups = table(self.pyproject, "dependency-groups")
        names = [name]
        for included in names:
            listed = groups.get(included)
            yield from strings(listed)
            for item in listed if isinstance(listed, list) else []:
                inner = table(item).get("include-group")
                if isinstance(inner, str) and inner not in names and len(names) < _GROUPS:
                    names.append(inner)

    @property
    def requiring(self) -> str:
        """The file that is most likely to list the requirements."""
        return self.manifests.first("pyproject.toml", "Pipfile", *REQUIREMENTS) or "setup.py"

    @property
    def is_package(self) -> bool:
        """Whether the folder says how it is built as a package."""
        if table(self.tool, "poetry").get("package-mode") is False:
            return False
        return self.manifests.has("setup.py") or "build-system" in self.pyproject

    @property
    def is_installable(self) -> bool:
        """Whether pip can install the folder itself, perhaps because setuptools finds out how."""
        if self.is_package or "name" not in self.metadata:
            return self.is_package
        if self.manifests.has("src"):
            return True
        folders = [name for name in self.manifests.folders if name.isidentifier()]
        modules = [name for name in self.manifests.names if name.endswith(".py")]
        packages = [name for name in folders if name not in _NO_PACKAGES]
        return len(packages) == 1 or (not packages and len(modules) <= 1)
