"""docs/tasks.md: what is told of each kind of project, from the layouts that the tests answer.

``python tests/unit/project/tasks_page.py > docs/tasks.md`` writes it anew.
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
<!-- Made by `python tests/unit/project/tasks_page.py > docs/tasks.md`. Do not edit. -->
# What can be run here

aish reads from a project's own files how it is tested, built, run, started, linted, formatted,
checked, installed and cleaned. Nothing is executed for that: manifests are read as text, bounded,
and never from outside of the workspace. Only plain names get from them into a command.

- The **offline model** answers from it: *How do I run the tests?* gets the command of this project,
  and the file that it is from.
- The **prompt** gets one short line of it, behind the [file tree](project.md), so that a real model
  need not guess either:

      Tasks: test: uv run pytest; build: uv build; lint: uv run ruff check .; install: uv sync

  It has 400 characters at most: the surest command for each of these ends. A command with words
  from a file's name that are more than plain ones is not in it. It counts as a part of the tree,
  and goes with that.

## Which command goes first

1. What the project names itself: a make target, a package script, a recipe of just, Task, mise or
   poe, an executable script at a usual place (`scripts/test`, `bin/setup`).
2. A tool that is set up, or that the manifest speaks for: `[tool.pytest]`, `Cargo.toml`, `pom.xml`.
3. What such projects mostly use: tests that no configuration speaks of, a `Dockerfile`.
4. Folders that are projects of their own (`frontend/package.json`), each command run there.
5. What CI files run, where every word of the command is known.

Where the project sets up two ways, the answer has both. Where nothing tells, it says so, or tells
what comes nearest: how it is checked where there are no tests, how it is started where nothing is
run.

A Python tool is called by what looks after the environment (uv, Poetry, PDM, pixi, Pipenv, Hatch),
and else by the folder's `.venv`, or by `python3`. A package script is run by npm, pnpm, Yarn or
Bun, as `packageManager` or the lock file says. A wrapper (`gradlew`, `mvnw`) goes before the
program that it wraps.

## Instruction files

{instructions}
The first of them that says something goes into the prompt, behind the tree and the tasks:
8,000 characters of it at most. So do those in the folders on the way to the file that a question
is about (its `uri`, what is selected, the first `@path`): the nearest last, 4,000 characters
together, which the nearest have first. These stay until a question names another file.

They are fenced as data. Invisible characters are taken out; binary files, and links that lead out
of the workspace, are passed over. `:tree off` leaves tree, tasks and instructions out.

## What is answered

Each table is what came of a small project of that kind: what is asked for, the command, and the
file that it is from. The tests ask the offline model each of these questions; `./dev full` also
runs the commands, where the tools are installed.
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
        yield "Nothing tells, and nothing is suggested but a look around."
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
