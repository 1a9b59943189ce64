"""JavaScript and TypeScript: package.json with npm, pnpm, yarn or bun, alone and in workspaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from aish_lsp.project.manifests.reading import Manifests, Table, is_plain_path, strings, table
from aish_lsp.project.manifests.rules import COMMANDS, Intent, Rank, Task, named_tasks

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

_PNPM_PACKAGES = re.compile(r"^packages:[ \t]*(?:#.*)?\n((?:[ \t]*(?:-.*|#.*)?\n)*)", re.MULTILINE)
_PNPM_ENTRY = re.compile(r"^[ \t]*-[ \t]*['\"]?([^'\"#\s]+)", re.MULTILINE)

#: What ends by itself, so that it can be done for one package after another.
_ENDS: AbstractSet[Intent] = frozenset({"test", "build", "lint", "format", "check", "clean"})


def package_json(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a package: its scripts, then the tools among its dependencies."""
    package = manifests.data("package.json")
    if not package:
        return
    manager = _manager(manifests, package)
    executes = _EXECUTES[manager]
    # npm install runs the script of that name itself, after its own work.
    scripts = _scripts(package) - {"install"}
    own = [*named_tasks(scripts, f"{manager} run ", "package.json")]
    if "start" in scripts:
        own.append(Task("run", f"{manager} run start", "package.json", Rank.OWN))
    for task in own:
        yield replace(task, command=_SHORT.get(task.command, task.command))
    yield Task("install", f"{manager} install", "package.json")
    dependencies = table(package, "devDependencies").keys() | table(package, "dependencies").keys()
    for tool, commands in _TOOLS.items():
        for intent, command in commands.items() if tool in dependencies else ():
            yield Task(intent, command.format(executes=executes), "package.json")
    if "typescript" in dependencies and manifests.has("tsconfig.json"):
        yield Task("check", f"{executes} tsc --noEmit", "tsconfig.json")
    yield from _workspace(manifests, package, manager, dependencies)
    if not dependencies & _TEST_TOOLS:
        yield from _tests(manifests, manager)
    main = package.get("main")
    candidates = [main.removeprefix("./")] if isinstance(main, str) else []
    for name in (*candidates, "index.js", "server.js", "main.js"):
        if is_plain_path(name) and name.endswith("js") and manifests.has(name):
            yield Task("run", f"node {name}", "package.json", Rank.GUESS)
            return


def package_scripts(manifests: Manifests) -> tuple[str, set[str]]:
    """Return how the package's scripts are run, and their names."""
    package = manifests.data("package.json")
    return (f"{_manager(manifests, package)} run ", _scripts(package)) if package else ("", set())


def _scripts(package: Table) -> set[str]:
    """Return the names of a package's scripts, without npm's placeholder for tests."""
    return {
        name
        for name, script in table(package, "scripts").items()
        if isinstance(script, str) and script.strip() and "no test specified" not in script
    }


def _tests(manifests: Manifests, manager: str) -> Iterator[Task]:
    """Yield a guess if nothing mentions tests: Bun and Node find files with these names."""
    is_test, command = (_BUN_TEST, "bun test") if manager == "bun" else (_NODE_TEST, "node --test")
    for folder in ("test/*", "*", "src/*", "tests/*", "lib/*"):
        name = next(filter(is_test.search, manifests.matching(folder)), None)
        if name is not None:
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
    return _manager(above, above.data("package.json")) if above is not None else "npm"


def _workspace(
    manifests: Manifests, package: Table, manager: str, dependencies: AbstractSet[str]
) -> Iterator[Task]:
    """Yield the tasks of a workspace as a whole, by the tool that manages it."""
    folders = _members(manifests, package)
    scripts = [_scripts(manifests.data(f"{folder}/package.json")) for folder in folders]
    anywhere = set[str]().union(*scripts)
    executes = _EXECUTES[manager]
    turbo = manifests.data("turbo.json")
    projects = manifests.members(["apps/*", "libs/*", "packages/*"])
    targets = (table(manifests.data(f"{folder}/project.json"), "targets") for folder in projects)
    for tool, names, command in (
        ("turbo", table(turbo, "tasks") or table(turbo, "pipeline"), "turbo run {}"),
        ("nx", anywhere.union(*targets), "nx run-many -t {}"),
        ("lerna", anywhere, "lerna run {}"),
    ):
        if tool in dependencies and manifests.has(f"{tool}.json"):
            form = f"{executes} {command}"
            yield from named_tasks(names, form, f"{tool}.json", Rank.CONFIGURED)
    form, common = COMMANDS["javascript_everywhere"][manager], anywhere
    if manager == "yarn" and _is_first_yarn(manifests, package):
        # Yarn 1 stops at a package that has no such script.
        form = "yarn workspaces run {}"
        common = set.intersection(*scripts) if scripts else set()
    source = manifests.first("pnpm-workspace.yaml") or "package.json"
    for task in named_tasks(common, form, source, Rank.CONFIGURED):
        if task.intent in _ENDS:
            yield task


def _members(manifests: Manifests, package: Table) -> list[str]:
    """Return the folders of a workspace's packages; none if it is not a workspace."""
    pnpm = _PNPM_PACKAGES.search(manifests.text("pnpm-workspace.yaml") + "\n")
    listed = _PNPM_ENTRY.findall(pnpm[1]) if pnpm else []
    workspaces = package.get("workspaces")
    listed += strings(workspaces) or strings(table(workspaces).get("packages"))
    listed += strings(manifests.data("lerna.json").get("packages"))
    folders = manifests.members(listed)
    return [folder for folder in folders if manifests.has(f"{folder}/package.json")]


def _is_first_yarn(manifests: Manifests, package: Table) -> bool:
    """Return whether the Yarn in use is Yarn 1, whose program has the same name."""
    named = package.get("packageManager")
    if isinstance(named, str) and named.startswith("yarn@"):
        return named.startswith("yarn@1.")
    return not manifests.has(".yarnrc.yml") and "__metadata:" not in manifests.text("yarn.lock")
