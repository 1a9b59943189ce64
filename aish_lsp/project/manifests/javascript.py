"""JavaScript and TypeScript: package.json under npm, pnpm, yarn or bun; Deno."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from aish_lsp.project.manifests.javascript_workspace import scripts_of, workspace
from aish_lsp.project.manifests.reading import Manifests, Table, is_plain_path, table
from aish_lsp.project.task import Intent, Rank, Task, named_tasks

_LOCK_FILES = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
    "npm-shrinkwrap.json": "npm",
}
#: How each manager starts a program of the dependencies.
_EXECUTES = {"npm": "npx", "pnpm": "pnpm exec", "yarn": "yarn run", "bun": "bunx"}
#: What is usually written shorter. Not with bun: ``bun test`` is its own test runner.
_SHORT = {
    f"{manager} run {name}": f"{manager} {name}"
    for manager in ("npm", "pnpm", "yarn")
    for name in ("test", "start")
}

#: A tool among the dependencies, and what it does when no script of the package says so.
_TOOLS: tuple[tuple[str, Intent, str], ...] = (
    ("vitest", "test", "vitest run"),
    ("jest", "test", "jest"),
    ("mocha", "test", "mocha"),
    ("@playwright/test", "test", "playwright test"),
    ("eslint", "lint", "eslint ."),
    ("@biomejs/biome", "lint", "biome lint ."),
    ("prettier", "format", "prettier --write ."),
    ("@biomejs/biome", "format", "biome format --write ."),
    ("vite", "start", "vite"),
    ("next", "start", "next dev"),
    ("vite", "build", "vite build"),
    ("next", "build", "next build"),
)
_TEST_TOOLS = {"jasmine", "ava", "tap", "karma", "cypress"} | {
    tool for tool, intent, _ in _TOOLS if intent == "test"
}
_NODE_TEST = re.compile(r"(?:[._-]test|(?:^|/)test(?:-[^/]*)?)\.[cm]?js$")
_BUN_TEST = re.compile(r"[._](?:test|spec)\.[cm]?[jt]sx?$")


def package_json(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a package: its scripts, then the tools among its dependencies."""
    package = manifests.json("package.json")
    if not package:
        return
    manager = _manager(manifests, package)
    # npm runs the script of that name itself, behind its own work.
    scripts = scripts_of(package) - {"install"}
    for task in named_tasks(scripts, f"{manager} run ", "package.json"):
        yield replace(task, command=_SHORT.get(task.command, task.command))
    if "start" in scripts:
        command = f"{manager} run start"
        yield Task("run", _SHORT.get(command, command), "package.json", Rank.OWN)
    yield Task("install", f"{manager} install", "package.json")
    dependencies = table(package, "devDependencies").keys() | table(package, "dependencies").keys()
    for tool, intent, command in _TOOLS:
        if tool in dependencies:
            yield Task(intent, f"{_EXECUTES[manager]} {command}", "package.json")
    if "typescript" in dependencies and manifests.has("tsconfig.json"):
        yield Task("check", f"{_EXECUTES[manager]} tsc --noEmit", "tsconfig.json")
    yield from workspace(manifests, package, manager, _EXECUTES[manager])
    if not dependencies & _TEST_TOOLS:
        yield from _bun_tests(manifests) if manager == "bun" else _node_tests(manifests)
    yield from _program(manifests, package)


def package_scripts(manifests: Manifests) -> tuple[str, set[str]]:
    """Return how the package's scripts are run, and their names."""
    package = manifests.json("package.json")
    return (f"{_manager(manifests, package)} run ", scripts_of(package)) if package else ("", set())


def _node_tests(manifests: Manifests) -> Iterator[Task]:
    """Yield a guess at tests that nothing speaks of: Node finds those of these names itself."""
    for folder in ("test", ".", "src", "tests", "lib"):
        for name in manifests.matching(folder, "*js"):
            if _NODE_TEST.search(name) or (folder == "test" and name.endswith("js")):
                yield Task("test", "node --test", name, Rank.GUESS)
                return


def _bun_tests(manifests: Manifests) -> Iterator[Task]:
    """Yield a guess at tests that nothing speaks of: so Bun finds those of these names."""
    for folder in ("test", ".", "src", "tests", "lib"):
        for name in manifests.matching(folder, "*.[cmjt]*"):
            if _BUN_TEST.search(name):
                yield Task("test", "bun test", name, Rank.GUESS)
                return


def _manager(manifests: Manifests, package: Table) -> str:
    """Return the package manager that the package names, else the one whose lock file is there.

    A part of a project has that of the whole.
    """
    named = package.get("packageManager")
    manager = named.partition("@")[0] if isinstance(named, str) else ""
    if manager in _EXECUTES:
        return manager
    lock_file = manifests.first(*_LOCK_FILES)
    if lock_file is not None:
        return _LOCK_FILES[lock_file]
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
    yield Task("test", "deno test", source)
    yield Task("lint", "deno lint", source)
    yield Task("format", "deno fmt", source)
    yield Task("install", "deno install", source)
    main = manifests.first("main.ts", "main.js", "mod.ts")
    if main is not None:
        yield Task("check", f"deno check {main}", source)
        if main != "mod.ts":
            yield Task("run", f"deno run {main}", source)
