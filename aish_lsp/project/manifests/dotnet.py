"""C#, F# and Visual Basic: .NET solutions and projects."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, is_plain_path
from aish_lsp.project.task import Task

_PROJECTS = (".csproj", ".fsproj", ".vbproj")

#: What shows that a project is run by ``dotnet test``.
_TESTS = re.compile(r"Microsoft\.NET\.Test\.Sdk|\bMSTest\.Sdk|\"(?:xunit\.v3|TUnit)\"")
_RUNS = re.compile(r"<OutputType>\s*(?:Win)?Exe|Sdk\.(?:Web|Worker)\"")
#: A project's path in a solution, old form and new.
_IN_SOLUTION = re.compile(r'"([^"\n]+\.(?:cs|fs|vb)proj)"')


def dotnet(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a .NET solution or project."""
    solutions = _ending(manifests, ".sln", ".slnx")
    projects = _ending(manifests, *_PROJECTS)
    if not solutions and not projects:
        return
    source = (solutions or projects)[0]
    if source.startswith("-") or not source.isprintable():
        return
    # With more than one of them dotnet wants to be told which.
    which = f" {shlex.quote(source)}" if len(solutions) + len(projects) > 1 else ""
    text = manifests.text(projects[0]) if projects else ""
    if solutions or _TESTS.search(text):
        yield Task("test", f"dotnet test{which}", source)
    yield Task("build", f"dotnet build{which}", source)
    yield Task("format", f"dotnet format{which}", source)
    yield Task("install", f"dotnet restore{which}", source)
    yield Task("clean", f"dotnet clean{which}", source)
    if len(projects) == 1 and _RUNS.search(text):
        yield Task("run", "dotnet run", projects[0])
    elif not projects:
        yield from _of_solution(manifests, source)


def _of_solution(manifests: Manifests, solution: str) -> Iterator[Task]:
    """Yield how the programs of a solution are run."""
    for path in _IN_SOLUTION.findall(manifests.text(solution)):
        project = path.replace("\\", "/")
        folder = project.rpartition("/")[0]
        if is_plain_path(folder) and _RUNS.search(manifests.text(project)):
            yield Task("run", f"dotnet run --project {folder}", project)


def _ending(manifests: Manifests, *suffixes: str) -> list[str]:
    """Return the names in the folder that end in one of ``suffixes``, sorted."""
    return sorted(name for name in manifests.names if name.endswith(suffixes))
