"""The tasks of a project, from every manifest in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from aish_lsp.project.manifests import compiled, javascript, others, python, runners
from aish_lsp.project.manifests.reading import Manifests
from aish_lsp.project.task import Intent, Rank, Task

__all__ = ["Intent", "Rank", "Task", "find_tasks"]

#: One function per kind of manifest. Of tasks of one rank, those that stand first here come first.
_FINDERS: tuple[Callable[[Manifests], Iterator[Task]], ...] = (
    runners.just,
    runners.taskfile,
    runners.make,
    javascript.package_json,
    javascript.deno,
    python.python,
    compiled.cargo,
    compiled.go,
    compiled.gradle,
    compiled.maven,
    compiled.dotnet,
    compiled.cmake,
    compiled.meson,
    others.composer,
    others.ruby,
    others.mix,
    others.dart,
    others.simple,
    runners.scripts,
    others.containers,
    others.continuous_integration,
)


def find_tasks(root: Path) -> tuple[Task, ...]:
    """Return what can be done in the project at ``root``, the surest first.

    Reads manifests as text and runs nothing. What is missing or broken is passed over; a folder
    that is gone has no tasks.
    """
    manifests = Manifests(root)
    found: dict[tuple[Intent, str], Task] = {}
    for finder in _FINDERS:
        for task in finder(manifests):
            found.setdefault((task.intent, task.command), task)
    return tuple(sorted(found.values(), key=lambda task: task.rank))
