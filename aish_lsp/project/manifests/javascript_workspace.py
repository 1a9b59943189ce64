"""Several JavaScript packages in one repository: workspaces, Turborepo, Nx, Lerna."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from aish_lsp.project.manifests.reading import Manifests, Table, strings, table
from aish_lsp.project.task import Intent, Rank, Task, named_tasks

_PNPM_PACKAGES = re.compile(r"^packages:[ \t]*(?:#.*)?\n((?:[ \t]*(?:-.*|#.*)?\n)*)", re.MULTILINE)
_PNPM_ENTRY = re.compile(r"^[ \t]*-[ \t]*['\"]?([^'\"#\s]+)", re.MULTILINE)

#: How each manager runs a script of every package that has one of that name.
_EVERYWHERE = {
    "npm": "npm run {} --workspaces --if-present",
    "pnpm": "pnpm --recursive run {}",
    "yarn": "yarn workspaces foreach --all run {}",
    "bun": "bun run --filter '*' {}",
}

#: What comes to an end, so that one package after the other can do it.
_ENDS: AbstractSet[Intent] = frozenset({"test", "build", "lint", "format", "check", "clean"})


def scripts_of(package: Table) -> set[str]:
    """Return the names of a package's scripts, npm's placeholder for tests left out."""
    return {
        name
        for name, script in table(package, "scripts").items()
        if isinstance(script, str) and script.strip() and "no test specified" not in script
    }


def members(manifests: Manifests, package: Table) -> list[str]:
    """Return the folders of a workspace's packages; none where it is no workspace."""
    pnpm = _PNPM_PACKAGES.search(manifests.text("pnpm-workspace.yaml") + "\n")
    listed = _PNPM_ENTRY.findall(pnpm[1]) if pnpm else []
    workspaces = package.get("workspaces")
    listed += strings(workspaces) or strings(table(workspaces).get("packages"))
    listed += strings(manifests.json("lerna.json").get("packages"))
    folders = manifests.members(listed)
    return [folder for folder in folders if manifests.has(f"{folder}/package.json")]


def workspace(manifests: Manifests, package: Table, manager: str, runs: str) -> Iterator[Task]:
    """Yield the tasks of a workspace as a whole, by the tool that looks after it.

    Args:
        manifests: the root's.
        package: its package.json.
        manager: the package manager.
        runs: how that starts a program of the dependencies.
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
    form, names = _EVERYWHERE[manager], anywhere
    if manager == "yarn" and _is_first_yarn(manifests, package):
        # The first Yarn stops at a package that has no such script.
        form = "yarn workspaces run {}"
        names = set.intersection(*scripts) if scripts else set()
    source = manifests.first("pnpm-workspace.yaml") or "package.json"
    for task in _configured(names, form, source):
        if task.intent in _ENDS:
            yield task


def _is_first_yarn(manifests: Manifests, package: Table) -> bool:
    """Return whether Yarn is the first one, which is called by the same name."""
    named = package.get("packageManager")
    if isinstance(named, str) and named.startswith("yarn@"):
        return named.startswith("yarn@1.")
    return not manifests.has(".yarnrc.yml") and "__metadata:" not in manifests.text("yarn.lock")


def _configured(names: Iterable[str], form: str, source: str) -> Iterator[Task]:
    """Yield the tasks among ``names``, as what a tool is set up for; ``form`` has a place."""
    for task in named_tasks(set(names), "", source):
        yield Task(task.intent, form.format(task.command), source, Rank.CONFIGURED)


def _nx_targets(manifests: Manifests) -> set[str]:
    """Return the targets that some project of an Nx workspace names in a file of its own."""
    targets: set[str] = set()
    for folder in manifests.members(["apps/*", "libs/*", "packages/*"]):
        targets |= table(manifests.json(f"{folder}/project.json"), "targets").keys()
    return targets
