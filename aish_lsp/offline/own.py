"""What is the project's own, and not the system's to answer.

Its targets and what they run, its dependencies, the marks of its tests, its language's version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

from aish_lsp.foundation.text import without_hidden
from aish_lsp.offline.choosing import Part, chosen
from aish_lsp.offline.spelling import corrected
from aish_lsp.offline.table import ways_of
from aish_lsp.offline.words import data, group, words
from aish_lsp.offline.workspace import WorkspaceFacts, steps
from aish_lsp.project.manifests import NamedTask
from aish_lsp.project.manifests.reading import Manifests, is_plain, strings, table
from aish_lsp.project.manifests.rules import ENTRY_NAMES

#: The most lines of a recipe that are shown.
_RECIPE_LINES: Final = 12


def own_parts(text: str, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return the answer to a question about something of the project; nothing if it is not one."""
    asked = words().bare(corrected(text, workspace)).strip(" ?.!")
    for shape, answer in _questions():
        match = shape.fullmatch(asked)
        parts = answer(match, workspace) if match else ()
        if parts:
            return parts
    return ()


def _recipe(asked: re.Match[str], workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return what a target, recipe or script runs."""
    said = [word.strip(".:").lower() for word in _WORD.findall(asked["what"])]
    entry = _named_entry(said, workspace)
    if entry is None:
        return ()
    lines = _recipe_lines(entry, Manifests(workspace.root).text(entry.source))
    is_make = entry.runner == "make"
    look = f"make -n {entry.name}" if is_make else f"cat {entry.source}"
    if not lines:
        return [Part(f"`{entry.name}` is defined in {entry.source}:", (look,))]
    more = [f"... and {len(lines) - _RECIPE_LINES} more lines"] * (len(lines) > _RECIPE_LINES)
    quote = (*lines[:_RECIPE_LINES], *more)
    return [
        Part(f"`{entry.command}` runs (from {entry.source}):", quote=quote),
        Part("What it would run:" if is_make else "The whole file:", (look,)),
    ]


def _named_entry(said: Sequence[str], workspace: WorkspaceFacts) -> NamedTask | None:
    """Return the entry that one of the words names, if the others say nothing more."""
    runners = {word for word in said if word in _RUNNERS}
    for name in reversed(said):
        if not all(word == name or _says_nothing(word) for word in said):
            continue
        if len(said) == 1 and workspace.machine.has(name):
            continue  # A program may be meant.
        found = [entry for entry in workspace.entries if entry.name.lower() == name]
        entry = next((one for one in found if not runners or one.runner in runners), None)
        if entry is not None:
            return entry
    return None


def _recipe_lines(entry: NamedTask, text: str) -> list[str]:
    """Return the lines that an entry of a makefile, justfile or package.json runs, as written."""
    if entry.source.endswith(".json"):
        try:
            script = table(json.loads(text), "scripts").get(entry.name)
        except ValueError:
            return []
        return without_hidden(script).split("\n") if isinstance(script, str) else []
    if entry.runner not in ("make", "just"):
        return []
    lines = iter(without_hidden(text).split("\n"))
    head = re.compile(rf"@?{re.escape(entry.name)}\b[^:=]*:(?!=)(?P<needs>.*)")
    found: list[str] = []
    for line in lines:
        if (match := head.match(line)) is None:
            continue
        needs = match["needs"].partition("#")[0].strip()
        found += [f"first: {needs}"] if needs else []
        for body in lines:
            if body.strip() and not body[0].isspace():
                return found
            found += [body.strip()] if body.strip() else []
    return found


def _dependency(kind: str) -> Callable[[re.Match[str], WorkspaceFacts], Sequence[Part]]:
    """Return what answers a question about a dependency that a manifest of the project names."""

    def answer(asked: re.Match[str], workspace: WorkspaceFacts) -> Sequence[Part]:
        name = asked["name"].strip("`'\"")
        source = _named_in(name, Manifests(workspace.root))
        if not source or not re.fullmatch(r"@?\w[\w./-]*", name):
            return ()
        own = data("tasks")["dependencies"]
        ways = ways_of(own[kind].get(source, own[kind]["pyproject.toml"]))
        way = chosen(ways, {"package": name}, {}, workspace)
        does = str(own["says"][kind]).format(name=name, source=source)
        return [Part(does, way.commands, note=way.note)] if way else ()

    return answer


def _named_in(name: str, manifests: Manifests) -> str:
    """Return the manifest that names a dependency; empty if none does."""
    plain = re.sub(r"[-_.]+", "-", name.lower())
    for source, named in _dependencies(manifests):
        if plain == re.sub(r"[-_.]+", "-", named.lower()):
            return source
    return ""


_REQUIREMENT: Final = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)")


def _dependencies(manifests: Manifests) -> Iterator[tuple[str, str]]:
    """Yield the dependencies that the manifests name, each after its manifest."""
    node = manifests.data("package.json")
    for key in ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies"):
        yield from (("package.json", name) for name in table(node, key))
    rust = manifests.data("Cargo.toml")
    for key in ("dependencies", "dev-dependencies", "build-dependencies"):
        yield from (("Cargo.toml", name) for name in table(rust, key))
    python = manifests.data("pyproject.toml")
    project = table(python, "project")
    needs = strings(project.get("dependencies"))
    for group_of in (table(project, "optional-dependencies"), table(python, "dependency-groups")):
        needs += [one for listed in group_of.values() for one in strings(listed)]
    needs += manifests.text("requirements.txt").split("\n")
    names = [match[1] for match in map(_REQUIREMENT.match, needs) if match]
    names += table(python, "tool", "poetry", "dependencies")
    yield from (("pyproject.toml", name) for name in names)
    for line in manifests.text("go.mod").split("\n"):
        if (parts := line.removeprefix("require").split()) and "/" in parts[0]:
            yield "go.mod", parts[0]


def _marked_tests(asked: re.Match[str], workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return how to run the tests of a kind that the project knows, or all the others."""
    name, others = asked["kind"].lower(), bool(asked["others"])
    if not others:
        names = {f"{a}{by}{b}" for a, b in _with_tests(name) for by in ":-_"}
        entry = next((one for one in workspace.entries if one.name.lower() in names), None)
        if entry is not None:
            return [Part(f"Runs `{entry.name}` (from {entry.source}):", (entry.command,))]
    manifests = Manifests(workspace.root)
    options = table(manifests.data("pyproject.toml"), "tool", "pytest", "ini_options")
    marks = strings(options.get("markers"))
    for file in ("pytest.ini", "tox.ini", "setup.cfg"):
        marks += manifests.text(file).split("\n")
    declared = {re.split(r"[:(]", one)[0].split("=")[-1].strip() for one in marks}
    commands = [one for task in workspace.best("test") for one in steps(task)]
    run = next((one for one in commands if "pytest" in one), "")
    if name in declared and run and is_plain(name):
        which = f"'not {name}'" if others else name
        said = f"Runs the tests that are {'not ' * others}marked `{name}`:"
        return [Part(said, (f"{run} -m {which}",))]
    if name not in ("slow", "fast", "flaky"):
        return ()
    how = f"I found nothing here that says which tests are {name}."
    return [Part(how, (f"{run} --markers",) if run else ())]


def _with_tests(name: str) -> list[tuple[str, str]]:
    return [pair for test in ("test", "tests") for pair in ((test, name), (name, test))]


def _language(asked: re.Match[str], workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return where the project says which version of its language it uses."""
    name = asked["language"].lower().removesuffix(".js").removesuffix("js")
    found = data("tasks")["language"].get(name)
    way = chosen(ways_of(found), {}, {}, workspace) if found else None
    if way is None:
        return ()
    return [Part(f"What this project says of {name}:", way.commands, note=way.note)]


Answer: TypeAlias = Callable[[re.Match[str], WorkspaceFacts], Sequence[Part]]

#: What answers the questions that tasks.toml describes; the first that does.
_ANSWERS: Final[Mapping[str, Answer]] = {
    "recipe": _recipe,
    "outdated": _dependency("outdated"),
    "newer": _dependency("outdated"),
    "version": _dependency("version"),
    "tests": _marked_tests,
    "other_tests": _marked_tests,
    "language": _language,
}


@cache
def _questions() -> tuple[tuple[re.Pattern[str], Answer], ...]:
    shapes = data("tasks")["asked"]
    flags = re.IGNORECASE | re.VERBOSE
    return tuple((re.compile(shapes[name], flags), answer) for name, answer in _ANSWERS.items())


#: The most words that a question about an entry may have.
_MOST_WORDS: Final = 16
_WORD: Final = re.compile(r"[\w.:@+/=-]+")

_RUNNERS: Final = frozenset(("make", "just", "task", "npm", "pnpm", "yarn", "bun"))
#: Verbs that may precede the name of an entry: "build the docs".
_MAKES: Final = frozenset(["build", "make", "generate", "create", "produce"])
_STANDARD_ENTRIES: Final = frozenset(name for names in ENTRY_NAMES.values() for name in names)
_SETTING: Final = re.compile(r"[A-Za-z_]\w*=[\w./:@+-]*")


def entry_parts(text: str, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return how to run the target, recipe or script that ``text`` asks for by name; else nothing.

    The names are the project's own: "deploy" may be a target in one project and unknown in another.
    So a question counts as such a request only if its other words say no more than "run this".
    """
    said = [word.strip(".:") for word in _WORD.findall(words().bare(text).lower())]
    if not 0 < len(said) <= _MOST_WORDS or not _may_name_an_entry(said):
        return ()
    found = _asked_entry(said, workspace.entries)
    if found is None:
        return ()
    settings = "".join(f" {word}" for word in _WORD.findall(text) if _SETTING.fullmatch(word))
    command = f"{found.command}{settings}"
    return [Part(f"Runs `{found.name}` (from {found.source}):", (command,))]


def _may_name_an_entry(said: Sequence[str]) -> bool:
    """Return whether all words but one say only that something is to be run."""
    others = [word for word in said if not _says_nothing(word)]
    return len(set(others)) <= 1


def _says_nothing(word: str) -> bool:
    ours = (_RUNNERS, group("entries"), group("runs"), _MAKES, group("says_nothing"))
    return any(word in listed for listed in ours) or _SETTING.fullmatch(word) is not None


def _asked_entry(said: Sequence[str], entries: Sequence[NamedTask]) -> NamedTask | None:
    """Return the entry that is named among the words, or None."""
    runner = next((word for at, word in enumerate(said) if _is_runner(said, at, entries)), "")
    of_runner = [entry for entry in entries if not runner or entry.runner == runner]
    named = {entry.name.lower(): entry for entry in reversed(of_runner)}
    others = [word for word in said if not _says_nothing(word)]
    name = others[0] if others else said[-1]
    entry = named.get(name)
    if entry is None:
        return None
    rest = [word for word in said if word != name]
    told = bool(runner) or any(word in group("entries") for word in rest)
    if entry.name.lower() in _STANDARD_ENTRIES and not told:
        return None
    if any(_SETTING.fullmatch(word) for word in rest) and entry.runner not in ("make", "just"):
        return None
    asks = told or not rest or any(word in group("runs") | _MAKES for word in rest)
    return entry if asks or said[0] == name or "how" in rest else None


def _is_runner(said: Sequence[str], at: int, entries: Sequence[NamedTask]) -> bool:
    """Return whether a word names a runner that this project has: "just" usually does not."""
    word = said[at]
    if word not in _RUNNERS or not any(entry.runner == word for entry in entries):
        return False
    return (
        word not in ("just", "task") or at == 0 or said[at - 1] in ("with", "using", "run", "via")
    )
