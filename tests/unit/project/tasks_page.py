"""docs/tasks.md: what is answered for each kind of project, from the layouts that the tests use.

``./dev docs`` rewrites it.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from layouts_compiled import COMPILED
from layouts_javascript import JAVASCRIPT
from layouts_others import OTHERS
from layouts_python import PYTHON
from task_layouts import QUESTIONS, Layout

from aish_lsp.project.tree import INSTRUCTIONS

PAGE: Final = Path(__file__).resolve().parents[3] / "docs/tasks.md"

FAMILIES: Final = {
    "Python": PYTHON,
    "JavaScript and TypeScript": JAVASCRIPT,
    "Compiled languages": COMPILED,
    "Others, and what serves any language": OTHERS,
}
LAYOUTS: Final = tuple(layout for family in FAMILIES.values() for layout in family)

_HEAD: Final = """\
<!-- Made by `./dev docs`. Do not edit. -->
# What can be run here

A reference: what follows this page's first part is a list of sixty kinds of projects.

aish reads from a project's own files how it is tested, built, run, started, linted, formatted,
checked, installed and cleaned. It executes nothing to find out: it reads manifests as text, only up
to a limit, and never from outside the workspace. Only plain names from them get into a command.

- The **offline model** uses this for its answers: *How do I run the tests?* is answered with this
  project's command, and the file that it comes from.
- The **prompt** has one short line of it after the [file tree](project.md), so that a real model
  need not guess either:

      Tasks: test: uv run pytest; build: uv build; lint: uv run ruff check .; install: uv sync

  This line has at most 400 characters, with the most certain command for each purpose. A command
  with words from a file's name is left out if they are more than plain words. The line counts as
  part of the tree, and is left out together with it.

## Which command is preferred

1. What the project itself names: a make target, a package script, a recipe of just, Task, mise or
   poe, an executable script in a usual place (`scripts/test`, `bin/setup`).
2. A tool that is configured or that the manifest implies: `[tool.pytest]`, `Cargo.toml`, `pom.xml`.
3. What such projects usually use: tests without any configuration, a `Dockerfile`.
4. Folders that are projects of their own (`frontend/package.json`): each command is run there.
5. What CI files run, if every word of the command is known.

If the project is set up for two ways, the answer has both. If none of this gives a command, the
answer says so, or gives the closest thing: how to check the project if it has no tests, how to
start it if there is nothing to run.

A Python tool is called through whatever manages the environment (uv, Poetry, PDM, pixi, Pipenv,
Hatch), otherwise through the folder's `.venv` or `python3`. A package script is run with npm, pnpm,
Yarn or Bun, depending on `packageManager` or the lock file. A wrapper (`gradlew`, `mvnw`) is
preferred to the program that it wraps.

## Instruction files

{instructions}
The first of them that is not empty goes into the prompt, after the tree and the tasks, up to
8,000 characters. So do those in the folders on the path to the file that a question is about (its
`uri`, the selection, the first `@path`): the nearest comes last, and they share 4,000 characters,
the nearest first. They stay until a question names another file.

They are fenced as data. Invisible characters are removed; binary files, and links that lead out of
the workspace, are skipped. `:tree off` leaves out tree, tasks and instructions.

## What is answered

Each table shows the answers for a small project of that kind: what is asked for, the command, and
the file that it comes from. The tests ask the offline model each of these questions; `./dev full`
also runs the commands, if the tools are installed.
"""


def page() -> str:
    """Return the page."""
    names = ", ".join(f"`{name}`" for name in INSTRUCTIONS)
    instructions = textwrap.fill(f"{names} tell assistants how to work in a project.", 100)
    parts = [_HEAD.format(instructions=instructions)]
    for heading, layouts in FAMILIES.items():
        parts.append(f"### {heading}\n")
        parts += ["\n".join(_layout(layout)) + "\n" for layout in layouts]
    return "\n".join(parts)


def _layout(layout: Layout) -> Iterator[str]:
    """Yield the lines of one layout."""
    files = ", ".join(f"`{name}`" for name in layout.files)
    yield f"**{layout.name}** ({files})\n"
    if not layout.answers:
        yield "Nothing here gives a command, so the answer only suggests looking around."
        return
    yield "| | command | from |"
    yield "|---|---|---|"
    for intent in QUESTIONS:
        told = filter(None, layout.answers.get(intent, "").split("\n"))
        for number, line in enumerate(told):
            source, _, command = line.partition(": ")
            yield f"| {'' if number else intent} | `{command}` | `{source}` |"


if __name__ == "__main__":
    sys.stdout.write(page())
