"""What the manifests say of a Python project's environment, and how its tools are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from aish_lsp.project.manifests.reading import Manifests, Table, is_plain, strings, table

REQUIREMENTS = (
    *("requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt"),
    *("requirements/dev.txt", "requirements-test.txt", "test-requirements.txt"),
    *("requirements.txt", "requirements/base.txt"),
)

#: Build backends that tell of the tool that looks after the environment.
_BACKENDS = {"uv_build": "uv", "poetry.core.masonry.api": "poetry", "pdm.backend": "pdm"}

#: Folders that setuptools takes for no package of the project.
_NO_PACKAGES = frozenset(
    (
        *("bin", "ci", "debian", "doc", "docs", "documentation", "example", "examples", "scripts"),
        *("tools", "test", "tests", "unit_test", "unit_tests", "util", "utils", "build", "dist"),
        *("benchmark", "benchmarks", "exercise", "exercises", "htmlcov", "tasks", "venv", "env"),
    )
)


class Project:
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
        """The folder of a virtual environment, or nothing."""
        names = (".venv", "venv", "env")
        return next((n for n in names if self.manifests.exists(f"{n}/bin/python")), "")

    @property
    def python(self) -> str:
        """How Python is called within the project's environment."""
        if self.manager == "pip":
            return f"{self.environment}/bin/python" if self.environment else "python3"
        return f"{self.prefix}python"

    @cached_property
    def prefix(self) -> str:
        """What stands before a program of the project's environment, a blank included."""
        if self.manager == "pip":
            return ""
        # The tests of a workspace's members need what those require.
        members = self.manager == "uv" and table(self.tool, "uv", "workspace")
        return f"{self.manager} run {'--all-packages ' if members else ''}"

    def call(self, program: str) -> str:
        """Return how a program that is also a module is called, whichever extra brings it."""
        if self.manager == "pip":
            return f"{self.python} -m {program}"
        places = self.dependencies.get(program)
        if self.manager == "hatch" and places and not places & {"", "env:default"}:
            names = sorted(p.removeprefix("env:") for p in places if p.startswith("env:"))
            names = [name for name in names if is_plain(name)]
            return f"hatch run {names[0]}:{program}" if names else f"hatch run {program}"
        if self.manager != "uv" or (places and places & self._always_there):
            return f"{self.prefix}{program}"
        if not places:
            return f"{self.prefix}--with {program} {program}"
        kind, _, name = min(places).partition(":")
        option = f"--{kind} {name} " if is_plain(name.replace("/", "")) else ""
        return f"{self.prefix}{option}{program}"

    @cached_property
    def _always_there(self) -> set[str]:
        """The places whose requirements uv installs without being told."""
        groups = table(self.tool, "uv").get("default-groups", ["dev"])
        if groups == "all":
            groups = list(table(self.pyproject, "dependency-groups"))
        return {"", *(f"group:{group}" for group in strings(groups))}

    @cached_property
    def dependencies(self) -> dict[str, set[str]]:
        """The names of what is required, each with where.

        That is ``extra:NAME``, ``group:NAME``, ``env:NAME`` (of Hatch), ``with-requirements:FILE``,
        or nothing: it is always there.
        """
        found: dict[str, set[str]] = {}
        for place, requirements in (*self._standard(), *self._of_managers()):
            for requirement in requirements:
                name = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
                if name:
                    found.setdefault(name[0].lower().replace("_", "-"), set()).add(place)
        return found

    def _standard(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield the requirements that every tool reads, and where."""
        yield "", strings(self.metadata.get("dependencies"))
        for name, extra in table(self.metadata, "optional-dependencies").items():
            yield f"extra:{name}", strings(extra)
        for name in table(self.pyproject, "dependency-groups"):
            yield f"group:{name}", self._group(name)
        for name in REQUIREMENTS:
            yield f"with-requirements:{name}", self.manifests.text(name).split("\n")

    def _of_managers(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield the requirements that only one tool reads, and where."""
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
        extras = table(self.metadata, "optional-dependencies")
        for name, environment in self.hatch_environments.items():
            settings = table(environment)
            for key in ("dependencies", "extra-dependencies"):
                yield f"env:{name}", strings(settings.get(key))
            for feature in strings(settings.get("features")):
                yield f"env:{name}", strings(extras.get(feature))

    def _group(self, name: str, seen: tuple[str, ...] = ()) -> list[str]:
        """Return the requirements of a group, those of the groups that it includes too."""
        listed = table(self.pyproject, "dependency-groups").get(name)
        found = strings(listed)
        for item in listed if isinstance(listed, list) else []:
            included = table(item).get("include-group")
            if isinstance(included, str) and included not in seen and len(seen) < 10:
                found += self._group(included, (*seen, name))
        return found

    @property
    def requiring(self) -> str:
        """The file that is most likely to list the requirements."""
        return self.manifests.first("pyproject.toml", "Pipfile", *REQUIREMENTS) or "setup.py"

    @property
    def is_package(self) -> bool:
        """Whether the folder says how it is built."""
        if table(self.tool, "poetry").get("package-mode") is False:
            return False
        return self.manifests.has("setup.py") or "build-system" in self.pyproject

    @property
    def is_installable(self) -> bool:
        """Whether pip can install the folder itself: also where setuptools finds out how."""
        if self.is_package or "name" not in self.metadata:
            return self.is_package
        if self.manifests.has("src"):
            return True
        folders = [name for name in self.manifests.folders if name.isidentifier()]
        modules = [name for name in self.manifests.names if name.endswith(".py")]
        packages = [name for name in folders if name not in _NO_PACKAGES]
        return len(packages) == 1 or (not packages and len(modules) <= 1)
