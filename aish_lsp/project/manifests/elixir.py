"""Elixir: Mix and Phoenix."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests
from aish_lsp.project.task import Task, named_tasks

_ALIAS = re.compile(r"[ \t]*(?:\[[ \t]*)?(?:\"([\w.-]+)\"|(\w+)):(?:\s|$)")


def mix(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of an Elixir project, also of an umbrella."""
    if not manifests.has("mix.exs"):
        return
    text = re.sub(r"^[ \t]*#.*", "", manifests.text("mix.exs"), flags=re.MULTILINE)
    yield from named_tasks(_aliases(text) - {"run"}, "mix ", "mix.exs")
    yield Task("test", "mix test", "mix.exs")
    yield Task("build", "mix compile", "mix.exs")
    yield Task("install", "mix deps.get", "mix.exs")
    if ":credo" in text:
        yield Task("lint", "mix credo", "mix.exs")
    if ":dialyxir" in text:
        yield Task("check", "mix dialyzer", "mix.exs")
    yield Task("format", "mix format", "mix.exs")
    yield Task("clean", "mix clean", "mix.exs")
    parts = [manifests.text(f"{app}/mix.exs") for app in manifests.members(["apps/*"])]
    if any("{:phoenix," in part for part in (text, *parts)):
        yield Task("start", "mix phx.server", "mix.exs")
    elif any(re.search(r"\bmod:\s*\{", part) for part in (text, *parts)):
        yield Task("run", "mix run --no-halt", "mix.exs")


def _aliases(text: str) -> set[str]:
    """Return a project's own names for tasks; one that is Mix's own too is run in its place."""
    names = set()
    within = False
    for line in text.split("\n"):
        if re.match(r"[ \t]*defp?[ \t]+aliases\b", line):
            within = True
        elif within and line.strip() == "end":
            within = False
        alias = _ALIAS.match(line) if within else None
        if alias is not None:
            names.add(alias[1] or alias[2])
    return names
