"""Elixir: Mix and Phoenix."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests
from aish_lsp.project.task import Task, named_tasks

#: A project's own names for tasks; where one is the name of Mix's own, it is run in its place.
_ALIASES = re.compile(r"defp?\s+aliases\b.*?\bdo\b(.*?)^\s*end\b", re.DOTALL | re.MULTILINE)
_ALIAS = re.compile(r"^\s*(?:\[\s*)?(?:\"([\w.-]+)\"|(\w+)):\s", re.MULTILINE)


def mix(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of an Elixir project, also of an umbrella."""
    if not manifests.has("mix.exs"):
        return
    text = re.sub(r"^\s*#.*", "", manifests.text("mix.exs"), flags=re.MULTILINE)
    aliases = _ALIASES.search(text)
    if aliases is not None:
        names = {quoted or bare for quoted, bare in _ALIAS.findall(aliases[1])}
        yield from named_tasks(names - {"run"}, "mix ", "mix.exs")
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
