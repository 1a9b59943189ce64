"""JavaScript and TypeScript: package.json with npm, pnpm, yarn or bun, and Deno."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from aish_lsp.project.manifests.reading import (
    COMMANDS,
    Intent,
    Manifests,
    Rank,
    Table,
    Task,
    is_plain_path,
    named_tasks,
    strings,
    table,
    table_tasks,
)

#: The package managers, each with how it starts a program of the dependencies.
_EXECUTES: Mapping[str, str] = COMMANDS["javascript_executes"]
#: Commands that have a usual short form; not for bun, whose ``bun test`` is its own test runner.
_SHORT = {
    f"{manager} run {name}": f"{manager} {name}"
    for manager in ("npm", "pnpm", "yarn")
    for name in ("test", "start")
}

#: Tools among the dependencies, with the commands that are suggested if no script has them.
_TOOLS: Mapping[str, Mapping[Intent, str]] = COMMANDS["javascript_tools"]
_TEST_TOOLS = {"jasmine", "ava", "tap", "karma", "cypress"} | {
    tool for tool, commands in _TOOLS.items() if "test" in commands
}
_NODE_TEST = re.compile(r"(?:[._-]test|(?:^|/)test(?:-[^/]*)?)\.[cm]?js$|^test/.*js$")
_BUN_TEST = re.compile(r"[._](?:test|spec)\.[cm]?[jt]sx?$")


def package_json(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a package: its scripts, then the tools among its dependencies."""
    package = manifests.json("package.json")
    if not package:
        return
    manager = _manager(manifests, package)
    # npm install runs the script of that name itself, after its own work.
    scripts = scripts_of(package) - {"install"}
    for task in named_tasks(scripts, f"{manager} run ", "package.json"):
        yield replace(task, command=_SHORT.get(task.command, task.command))
    if "start" in scripts:
        command = f"{manager} run start"
        yield Task("run", _SHORT.get(command, command), "package.json", Rank.OWN)
    yield Task("install", f"{manager} install", "package.json")
    dependencies = table(package, "devDependencies").keys() | table(package, "dependencies").keys()
    for tool, commands in _TOOLS.items():
        if tool in dependencies:
            yield from table_tasks(manifests, commands, "package.json", executes=_EXECUTES[manager])
    if "typescript" in dependencies and manifests.has("tsconfig.json"):
        yield Task("check", f"{_EXECUTES[manager]} tsc --noEmit", "tsconfig.json")
    yield from workspace(manifests, package, manager, _EXECUTES[manager])
    if not dependencies & _TEST_TOOLS:
        yield from _tests(manifests, manager)
    yield from _program(manifests, package)


def package_scripts(manifests: Manifests) -> tuple[str, set[str]]:
    """Return how the package's scripts are run, and their names."""
    package = manifests.json("package.json")
    return (f"{_manager(manifests, package)} run ", scripts_of(package)) if package else ("", set())


def _tests(manifests: Manifests, manager: str) -> Iterator[Task]:
    """Yield a guess if nothing mentions tests: Bun and Node find files with these names."""
    is_test, command = (_BUN_TEST, "bun test") if manager == "bun" else (_NODE_TEST, "node --test")
    for folder in ("test", ".", "src", "tests", "lib"):
        for name in manifests.matching(folder, "*"):
            if is_test.search(name):
                yield Task("test", command, name, Rank.GUESS)
                return


def _manager(manifests: Manifests, package: Table) -> str:
    """Return the package manager that the package names, or else the one that has a lock file.

    If there is neither, a part of a project uses that of the whole.
    """
    named = package.get("packageManager")
    manager = named.partition("@")[0] if isinstance(named, str) else ""
    if manager in _EXECUTES:
        return manager
    lock_files: Mapping[str, str] = COMMANDS["javascript_locks"]
    lock_file = manifests.first(*lock_files)
    if lock_file is not None:
        return lock_files[lock_file]
    above = manifests.above
    return _manager(above, above.json("package.json")) if above is not None else "npm"


def _program(manifests: Manifests, package: Table) -> Iterator[Task]:
    """Yield how the package's main file is run."""
    main = package.get("main")
    candidates = [main.removeprefix("./")] if isinstance(main, str) else []
    for name in (*candidates, "index.js", "server.js", "main.js"):
        if is_plain_path(name) and name.endswith("js") and manifests.has(name):
            yield Task("run", f"node {name}", "package.json", Rank.GUESS)
            return


def deno(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Deno project; test, lint and format come with Deno itself."""
    source = manifests.first("deno.json", "deno.jsonc")
    if source is None:
        return
    tasks = table(manifests.json(source), "tasks")
    yield from named_tasks(tasks, "deno task ", source)
    yield from table_tasks(manifests, COMMANDS["deno"], source)
    main = manifests.first("main.ts", "main.js", "mod.ts")
    if main is not None:
        yield Task("check", f"deno check {main}", source)
        if main != "mod.ts":
            yield Task("run", f"deno run {main}", source)


# Several JavaScript packages in one repository: workspaces, Turborepo, Nx, Lerna.

_PNPM_PACKAGES = re.compile(r"^packages:[ \t]*(?:#.*)?\n((?:[ \t]*(?:-.*|#.*)?\n)*)", re.MULTILINE)
_PNPM_ENTRY = re.compile(r"^[ \t]*-[ \t]*['\"]?([^'\"#\s]+)", re.MULTILINE)

#: What ends by itself, so that it can be done for one package after another.
_ENDS: AbstractSet[Intent] = frozenset({"test", "build", "lint", "format", "check", "clean"})


def scripts_of(package: Table) -> set[str]:
    """Return the names of a package's scripts, without npm's placeholder for tests."""
    return {
        name
        for name, script in table(package, "scripts").items()
        if isinstance(script, str) and script.strip() and "no test specified" not in script
    }


def members(manifests: Manifests, package: Table) -> list[str]:
    """Return the folders of a workspace's packages; none if it is not a workspace."""
    pnpm = _PNPM_PACKAGES.search(manifests.text("pnpm-workspace.yaml") + "\n")
    listed = _PNPM_ENTRY.findall(pnpm[1]) if pnpm else []
    workspaces = package.get("workspaces")
    listed += strings(workspaces) or strings(table(workspaces).get("packages"))
    listed += strings(manifests.json("lerna.json").get("packages"))
    folders = manifests.members(listed)
    return [folder for folder in folders if manifests.has(f"{folder}/package.json")]


def workspace(manifests: Manifests, package: Table, manager: str, runs: str) -> Iterator[Task]:
    """Yield the tasks of a workspace as a whole, by the tool that manages it.

    Args:
        manifests: the root's manifests.
        package: its package.json.
        manager: the package manager.
        runs: how the manager starts a program of the dependencies.
    """
    required = table(package, "devDependencies").keys() | table(package, "dependencies").keys()
    folders = members(manifests, package)
    scripts = [scripts_of(manifests.json(f"{folder}/package.json")) for folder in folders]
    anywhere = set[str]().union(*scripts)
    if "turbo" in required:
        turbo = manifests.json("turbo.json")
        pipeline = table(turbo, "tasks") or table(turbo, "pipeline")
        yield from _configured(pipeline, f"{runs} turbo run {{}}", "turbo.json")
    if "nx" in required and manifests.has("nx.json"):
        targets = anywhere | _nx_targets(manifests)
        yield from _configured(targets, f"{runs} nx run-many -t {{}}", "nx.json")
    if "lerna" in required and manifests.has("lerna.json"):
        yield from _configured(anywhere, f"{runs} lerna run {{}}", "lerna.json")
    form, names = COMMANDS["javascript_everywhere"][manager], anywhere
    if manager == "yarn" and _is_first_yarn(manifests, package):
        # Yarn 1 stops at a package that has no such script.
        form = "yarn workspaces run {}"
        names = set.intersection(*scripts) if scripts else set()
    source = manifests.first("pnpm-workspace.yaml") or "package.json"
    for task in _configured(names, form, source):
        if task.intent in _ENDS:
            yield task


def _is_first_yarn(manifests: Manifests, package: Table) -> bool:
    """Return whether the Yarn in use is Yarn 1, whose program has the same name."""
    named = package.get("packageManager")
    if isinstance(named, str) and named.startswith("yarn@"):
        return named.startswith("yarn@1.")
    return not manifests.has(".yarnrc.yml") and "__metadata:" not in manifests.text("yarn.lock")


def _configured(names: Iterable[str], form: str, source: str) -> Iterator[Task]:
    """Yield the tasks among ``names`` that a tool is set up for; ``form`` has {} for the name."""
    for task in named_tasks(set(names), "", source):
        yield Task(task.intent, form.format(task.command), source, Rank.CONFIGURED)


def _nx_targets(manifests: Manifests) -> set[str]:
    """Return the targets in the projects' own files of an Nx workspace."""
    targets: set[str] = set()
    for folder in manifests.members(["apps/*", "libs/*", "packages/*"]):
        targets |= table(manifests.json(f"{folder}/project.json"), "targets").keys()
    return targets
