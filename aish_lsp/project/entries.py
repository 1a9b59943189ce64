"""What a project's own task runners can be told to do, by the names that the project gave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aish_lsp.project.manifests import javascript, make, runners
from aish_lsp.project.manifests.reading import Manifests, is_plain


@dataclass(frozen=True, slots=True)
class Entry:
    """A make target, a recipe, a task or a package's script.

    Attributes:
        name: as the project calls it.
        runner: the program that runs it: ``make``, ``just``, ``task``, ``npm``.
        command: how it is run.
        source: the file that tells of it.
    """

    name: str
    runner: str
    command: str
    source: str


def find_entries(root: Path) -> tuple[Entry, ...]:
    """Return what the task runners at ``root`` know; names with other than plain signs are not.

    Reads manifests as text and runs nothing. What is missing or broken is passed over.
    """
    return tuple(_entries(Manifests(root)))


def _entries(manifests: Manifests) -> Iterator[Entry]:
    for runner, (source, names) in (
        ("just", runners.justfile_recipes(manifests)),
        ("task", runners.taskfile_entries(manifests)),
        ("make", make.make_targets(manifests)),
    ):
        for name in sorted(filter(is_plain, names)):
            yield Entry(name, runner, f"{runner} {name}", source)
    begins, names = javascript.package_scripts(manifests)
    for name in sorted(filter(is_plain, names)):
        yield Entry(name, begins.split()[0], f"{begins}{name}", "package.json")
