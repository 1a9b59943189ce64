"""Task runners that serve any language: make, just, Task, and plain scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from aish_lsp.project.manifests.reading import Manifests
from aish_lsp.project.task import Intent, Rank, Task, named_tasks

#: In the order in which GNU make looks for them.
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile", "JUSTFILE")
_TASKFILES = (
    "Taskfile.yml",
    "taskfile.yml",
    "Taskfile.yaml",
    "taskfile.yaml",
    "Taskfile.dist.yml",
    "taskfile.dist.yml",
    "Taskfile.dist.yaml",
    "taskfile.dist.yaml",
)
_SCRIPTS: dict[Intent, tuple[str, ...]] = {
    "test": (
        *("script/test", "scripts/test", "scripts/test.sh", "bin/test"),
        *("test.sh", "run_tests.sh", "run-tests.sh", "runtests.sh"),
    ),
    "build": ("script/build", "scripts/build", "scripts/build.sh", "build.sh"),
    "install": (
        *("script/bootstrap", "script/setup", "scripts/bootstrap", "scripts/setup"),
        *("bin/setup", "setup.sh", "install.sh"),
    ),
    "lint": ("script/lint", "scripts/lint", "scripts/lint.sh", "lint.sh"),
    "format": ("script/format", "scripts/format", "scripts/format.sh", "format.sh"),
    "start": ("script/server", "scripts/dev", "scripts/dev.sh", "bin/dev", "start.sh", "dev.sh"),
    "run": ("run.sh",),
}

_JUST_STRING = re.compile(r"\"[^\"]*\"|'[^']*'|`[^`]*`|\([^()]*\)")
_TASK_KEY = re.compile(r"( +)(?:([\w:.-]+)|\"([\w:.-]+)\"|'([\w:.-]+)'):(?:\s|$)")


def make(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the makefile that make would read."""
    return _entries(manifests, _MAKEFILES, make_targets, "make ")


def make_targets(text: str) -> set[str]:
    """Return the targets that a makefile names: no patterns, no variables, no special ones."""
    targets: set[str] = set()
    continued = defining = False
    for line in text.split("\n"):
        inside = continued
        continued = line.endswith("\\")
        if defining or line.startswith("define "):
            defining = not line.startswith("endef")
            continue
        if inside or line.startswith("\t"):
            continue
        head, colon, rest = line.partition(":")
        is_rule = colon and not rest.removeprefix(":").startswith((":", "="))
        if is_rule and not re.search("[=#]", head):
            targets.update(head.split())
    return {target for target in targets if not re.search("[%$]", target)}


def just(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a justfile: recipes that need no argument."""
    return _entries(manifests, _JUSTFILES, just_recipes, "just ")


def just_recipes(text: str) -> set[str]:
    """Return the recipes of a justfile that can be called without arguments."""
    recipes = set()
    for line in text.split("\n"):
        if line[:1].isspace():
            continue
        head, colon, rest = _JUST_STRING.sub("x", line).partition(":")
        name, *parameters = head.removeprefix("@").split() or [""]
        if not colon or rest.startswith("="):
            continue
        if all("=" in parameter or parameter.startswith("*") for parameter in parameters):
            recipes.add(name)
    return recipes


def taskfile(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Taskfile."""
    return _entries(manifests, _TASKFILES, taskfile_tasks, "task ")


def taskfile_tasks(text: str) -> set[str]:
    """Return the names under ``tasks:`` that are not internal, by their indentation."""
    tasks: set[str] = set()
    within, indent, current = False, "", ""
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line.startswith(" "):
            within, indent = line.rstrip() == "tasks:", ""
            continue
        key = _TASK_KEY.match(line)
        if not within or key is None:
            continue
        indent = indent or key[1]
        if key[1] == indent:
            current = key[2] or key[3] or key[4]
            tasks.add(current)
        elif re.match(r"\s+internal:\s*true\b", line):
            tasks.discard(current)
    return tasks


def _entries(
    manifests: Manifests, files: tuple[str, ...], read: Callable[[str], set[str]], runner: str
) -> Iterator[Task]:
    """Yield the tasks among the entries that ``read`` finds in the first of ``files``."""
    name = manifests.first(*files)
    if name is not None:
        yield from named_tasks(read(manifests.text(name)), runner, name)


def scripts(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks that are scripts at one of the usual places."""
    for intent, candidates in _SCRIPTS.items():
        name = next((path for path in candidates if manifests.executable(path)), None)
        if name is not None:
            yield Task(intent, f"./{name}", name, Rank.OWN)
