"""Python: pyproject.toml and similar files, with the tool that manages the environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

from aish_lsp.project.manifests.reading import (
    Manifests,
    Table,
    is_plain,
    is_plain_path,
    strings,
    table,
    walk,
)
from aish_lsp.project.manifests.rules import (
    COMMANDS,
    RULES,
    Rank,
    Row,
    Substitutions,
    Task,
    named_tasks,
    rule_tasks,
)

#: The usual names of extras with what a developer needs, the fullest first; of files that list
#: requirements; and of folders that setuptools does not take for packages of the project.
_EXTRAS, _REQUIREMENTS, _NO_PACKAGES = (
    tuple[str, ...](COMMANDS["python_names"][key])
    for key in ("extras", "requirements", "no_packages")
)

#: The most dependency groups, and the most environments of Hatch, that are read.
_GROUPS = 100


def python(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Python project."""
    project = Project(manifests)
    words = Substitutions(
        manifests,
        python=project.python,
        prefix=project.prefix,
        pre_commit=project.call_if_required("pre-commit"),
        tox=project.call_if_required("tox"),
        **{name: project.call(name) for name in ("uvicorn", "flask", "streamlit")},
    )
    yield from rule_tasks(manifests, "python_scripts", words)
    hatch = manifests.first("hatch.toml") or "pyproject.toml"
    for environment, settings in project.hatch_environments.items():
        if is_plain(environment):
            runner = "hatch run " if environment == "default" else f"hatch run {environment}:"
            yield from named_tasks(table(settings, "scripts"), runner, hatch)
    yield from _tools(project, words)
    if "hatch-test" in project.hatch_environments:
        yield Task("test", "hatch test", project.requiring)
    yield from rule_tasks(manifests, "python_runners", words)
    yield from _tests_without_configuration(project)
    yield from _entry_points(project)
    yield from rule_tasks(manifests, "python_programs", words)
    # A package below src/ is found only if it is installed.
    is_installed = project.is_package and (project.environment or project.manager != "pip")
    for above in ("", "src/") if is_installed else ("",):
        for package in manifests.inside(above or "."):
            main = f"{above}{package}/__main__.py"
            if re.fullmatch(r"[A-Za-z_]\w*", package) and manifests.has(main):
                yield Task("run", f"{project.python} -m {package}", main, Rank.GUESS)
    yield from _installation(project)


def _tools(project: Project, words: Substitutions) -> Iterator[Task]:
    """Yield the tasks of the tools that are set up."""
    for tool in COMMANDS["python_tools"]:
        name = tool["name"]
        source = _set_up_in(project, tool)
        if source is not None:
            command = f"{project.call(name)}{tool.get('arguments', '').format_map(words)}"
            if project.manager == "hatch" and name not in project.dependencies:
                command = tool.get("hatch", command)
            yield Task(tool["intent"], command, source)


def _set_up_in(project: Project, tool: Row) -> str | None:
    """Return the file that shows that ``tool`` is used, or None."""
    name, section = tool["name"], tool.get("section")
    file = project.manifests.first(*tool.get("files", ()))
    if name in project.tool or file is not None:
        return "pyproject.toml" if name in project.tool else file
    sections = {"setup.cfg": f"[{section}]", "tox.ini": f"[{name}]"} if section else {}
    for file, header in sections.items():
        if header in project.manifests.text(file).split("\n"):
            return file
    return project.requiring if name in project.dependencies else None


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
        is_package = folder == "." or manifests.has(f"{folder}/__init__.py")
        command = f"{project.python} -m unittest discover{'' if is_package else f' -s {folder}'}"
    elif project.manager == "hatch" and "pytest" not in project.dependencies:
        command = "hatch test"
    else:
        command = project.call("pytest")
    yield Task("test", command, source, Rank.GUESS)


def _first_tests(manifests: Manifests) -> tuple[str, list[str]] | None:
    """Return the first folder with Python tests, and their names; None if there are none."""
    inner = [f"{t}/{n}" for t in ("tests", "test") for n in manifests.inside(t) if "." not in n]
    packages = [f"{n}/tests" for n in manifests.folders if manifests.has(f"{n}/__init__.py")]
    for folder in ("tests", "test", *inner, ".", *packages):
        names = manifests.inside(folder) if folder == "." or is_plain_path(folder) else []
        tests = [name for name in names if re.fullmatch(r"(test_\w+|\w+_test)\.py", name)]
        if tests or "conftest.py" in names:
            return folder, tests
    return None


def _entry_points(project: Project) -> Iterator[Task]:
    """Yield the programs that the project installs."""
    for scripts in (project.metadata, table(project.tool, "poetry")):
        for name, entry in table(scripts, "scripts").items():
            package = str(entry).partition(":")[0].partition(".")[0]
            main = f"{package}/__main__.py"
            command, source = f"{project.prefix}{name}", "pyproject.toml"
            if project.manager == "pip" and project.environment:
                command = f"{project.environment}/bin/{name}"
            elif project.manager == "pip" and is_plain(package) and project.manifests.has(main):
                # This also works if nothing is installed yet.
                command, source = f"python3 -m {package}", main
            if is_plain(name):
                yield Task("run", command, source)


def _installation(project: Project) -> Iterator[Task]:
    """Yield how the dependencies are installed and how the package is built."""
    source, tool, manager = project.requiring, project.tool, project.manager
    extras = table(project.metadata, "optional-dependencies") or table(tool, "poetry", "extras")
    extra = next((name for name in _EXTRAS if name in extras), "")
    if manager != "pip":
        command, option = COMMANDS["python_installs"][manager]
        every = " --all-packages" if project.is_uv_workspace else ""
        yield Task("install", f"{command}{every}{option.format(extra) if extra else ''}", source)
        if manager not in ("pipenv", "pixi") and project.is_package:
            yield Task("build", f"{manager} build", source)
        return
    file = project.manifests.first(*_REQUIREMENTS)
    wanted = [f"-r {file}"] if file is not None else []
    if project.is_installable:
        wanted.append("-e " + (shlex.quote(f".[{extra}]") if extra else "."))
        source = "pyproject.toml" if project.pyproject else "setup.py"
    if project.is_package:
        wheel = f"{project.python} -m pip wheel --no-deps --wheel-dir dist ."
        yield Task("build", wheel, source)
    if wanted:
        # Most systems refuse to install outside a virtual environment.
        created = "" if project.environment else "python3 -m venv .venv && "
        pip = f"{project.environment or '.venv'}/bin/python -m pip install"
        yield Task("install", f"{created}{pip} {' '.join(wanted)}", source)


class Project:
    """What the manifests say about a Python project, and how its tools are called."""

    def __init__(self, manifests: Manifests) -> None:
        self.manifests = manifests
        self.pyproject = manifests.data("pyproject.toml")
        self.tool = table(self.pyproject, "tool")
        self.metadata = table(self.pyproject, "project")

    @cached_property
    def manager(self) -> str:
        """The tool that manages the environment; a lock file is the best evidence."""
        manager = Substitutions(self.manifests)["python_manager"]
        above = self.manifests.above
        # uv is the only one with workspaces.
        is_part = manager == "pip" and above is not None and Project(above).manager == "uv"
        return "uv" if is_part else manager

    @cached_property
    def hatch_environments(self) -> Table:
        """Hatch's environments by name."""
        own = table(self.manifests.data("hatch.toml"), "envs")
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

    @property
    def is_uv_workspace(self) -> bool:
        """Whether uv manages several packages, whose tests need the members' requirements."""
        return self.manager == "uv" and bool(table(self.tool, "uv", "workspace"))

    @property
    def prefix(self) -> str:
        """What precedes a program of the project's environment, with a blank at the end."""
        every = "--all-packages " if self.is_uv_workspace else ""
        return "" if self.manager == "pip" else f"{self.manager} run {every}"

    def call(self, program: str) -> str:
        """Return how a program that is also a module is called, whichever extra provides it."""
        if self.manager == "pip":
            return f"{self.python} -m {program}"
        groups = self.dependencies.get(program, set())
        if self.manager == "hatch" and groups and not groups & {"", "env:default"}:
            names = sorted(one.removeprefix("env:") for one in groups if one.startswith("env:"))
            plain = [f"{name}:" for name in names if is_plain(name)]
            return f"hatch run {(plain or [''])[0]}{program}"
        if self.manager != "uv" or groups & self._always_there:
            return f"{self.prefix}{program}"
        if not groups:
            return f"{self.prefix}--with {program} {program}"
        kind, _, name = min(groups).partition(":")
        option = f"--{kind} {name} " if is_plain(name.replace("/", "")) else ""
        return f"{self.prefix}{option}{program}"

    def call_if_required(self, program: str) -> str:
        """Return how a program is called that is often installed for the user, not the project."""
        is_required = self.manager != "pip" and program in self.dependencies
        return self.call(program) if is_required else program

    @cached_property
    def _always_there(self) -> set[str]:
        """The groups whose requirements uv installs by default."""
        groups = table(self.tool, "uv").get("default-groups", ["dev"])
        if groups == "all":
            groups = list(table(self.pyproject, "dependency-groups"))
        return {"", *(f"group:{group}" for group in strings(groups))}

    @cached_property
    def dependencies(self) -> dict[str, set[str]]:
        """The names of the requirements, each with the groups that require it.

        A group is ``extra:NAME``, ``group:NAME``, ``env:NAME`` (of Hatch),
        ``with-requirements:FILE``, or empty for what is always there.
        """
        groups: dict[str, set[str]] = {}
        for group, requirements in self._requirements():
            for requirement in requirements:
                name = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
                if name:
                    groups.setdefault(name[0].lower().replace("_", "-"), set()).add(group)
        return groups

    def _requirements(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield the lists of requirements, each with its group."""
        for row in RULES["python_requirements"]:
            for name, listed in walk(self.manifests.data(row["file"]), row["key"], _GROUPS):
                group = row.get("group", "").format(name)
                yield group, listed if isinstance(listed, dict) else strings(listed)
        for file in _REQUIREMENTS:
            yield f"with-requirements:{file}", self.manifests.text(file).split("\n")
        extras = table(self.metadata, "optional-dependencies")
        for name, environment in islice(self.hatch_environments.items(), _GROUPS):
            for feature in dict.fromkeys(strings(table(environment).get("features"))):
                yield f"env:{name}", strings(extras.get(feature))
        groups = table(self.pyproject, "dependency-groups")
        for name in islice(groups, _GROUPS):
            names = [name]
            for included in names:
                listed = groups.get(included)
                yield f"group:{name}", strings(listed)
                items = map(table, listed if isinstance(listed, list) else [])
                inner = (item.get("include-group") for item in items)
                news = dict.fromkeys(one for one in inner if isinstance(one, str))
                names += [one for one in news if one not in names][: _GROUPS - len(names)]

    @property
    def requiring(self) -> str:
        """The file that is most likely to list the requirements."""
        return self.manifests.first("pyproject.toml", "Pipfile", *_REQUIREMENTS) or "setup.py"

    @property
    def is_package(self) -> bool:
        """Whether the folder says how it is built as a package."""
        if table(self.tool, "poetry").get("package-mode") is False:
            return False
        return self.manifests.has("setup.py") or "build-system" in self.pyproject

    @property
    def is_installable(self) -> bool:
        """Whether pip can install the folder itself, perhaps because setuptools finds out how."""
        if self.is_package or "name" not in self.metadata or self.manifests.has("src"):
            return self.is_package or "name" in self.metadata
        folders = [name for name in self.manifests.folders if name.isidentifier()]
        packages = [name for name in folders if name not in _NO_PACKAGES]
        return len(packages) == 1 or (not packages and len(self.manifests.matching("*.py")) <= 1)
