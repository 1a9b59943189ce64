"""Task runners that serve any language: just, Task, make, mise, Earthly, Mage, plain scripts.

Also hints from CI files: the commands in them of which every word is known.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aish_lsp.project.manifests.reading import (
    COMMANDS,
    Intent,
    Manifests,
    Rank,
    Task,
    named_tasks,
    table,
)

#: Files that are read for one justfile, including itself.
_IMPORTS = 20
_JUST_STRING = re.compile(r"\"[^\"]*\"|'[^']*'|`[^`]*`|\([^()]*\)")
_JUST_IMPORT = re.compile(r"^import\??[ \t]+(['\"])(?:\./)?([^'\"\n]+)\1", re.MULTILINE)
_EARTHLY_TARGET = re.compile(r"^([a-z][\w.-]*):[ \t]*(?:#.*)?$", re.MULTILINE)
_MAGE_TARGET = re.compile(r"^func ([A-Z]\w*)\((?:ctx context\.Context)?\)", re.MULTILINE)
_TASK_KEY = re.compile(r"( +)(?:([\w:.-]+)|\"([\w:.-]+)\"|'([\w:.-]+)'):(?:\s|$)")


def just(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a justfile: recipes that need no argument, including imported ones."""
    name, recipes = justfile_recipes(manifests)
    yield from named_tasks(recipes, "just ", name)


def justfile_recipes(manifests: Manifests) -> tuple[str, set[str]]:
    """Return the justfile and its recipes, including imported ones; empty if there is no file."""
    candidates = (n for n in sorted(manifests.names) if n.lower() in ("justfile", ".justfile"))
    name = next(candidates, "")
    recipes: set[str] = set()
    waiting, read = [name] if name else [], set[str]()
    while waiting and len(read) < _IMPORTS:
        path = waiting.pop(0)
        if path not in read:
            read.add(path)
            text = manifests.text(path)
            recipes |= just_recipes(text)
            waiting += (imported[2] for imported in _JUST_IMPORT.finditer(text))
    return name, recipes


def just_recipes(text: str) -> set[str]:
    """Return the recipes of a justfile that need no arguments, and their aliases."""
    recipes: set[str] = set()
    aliases: dict[str, str] = {}
    for line in text.split("\n"):
        if line[:1].isspace():
            continue
        head, colon, rest = _JUST_STRING.sub("x", line).partition(":")
        name, *parameters = head.removeprefix("@").split() or [""]
        if not colon:
            continue
        if rest.startswith("="):
            if name == "alias" and len(parameters) == 1:
                aliases[parameters[0]] = rest[1:].strip()
        elif all("=" in parameter or parameter.startswith("*") for parameter in parameters):
            recipes.add(name)
    return recipes | {alias for alias, recipe in aliases.items() if recipe in recipes}


def taskfile(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Taskfile."""
    name, tasks = taskfile_entries(manifests)
    yield from named_tasks(tasks, "task ", name)


def taskfile_entries(manifests: Manifests) -> tuple[str, set[str]]:
    """Return the Taskfile and all its tasks; empty if there is no file."""
    name = manifests.first(*COMMANDS["taskfiles"]["names"])
    return (name, taskfile_tasks(manifests.text(name))) if name is not None else ("", set())


def taskfile_tasks(text: str) -> set[str]:
    """Return the names of the tasks under ``tasks:`` that are not internal."""
    tasks: set[str] = set()
    within, indent, current = False, "", ""
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line.startswith(" "):
            within, indent = line.partition(" #")[0].rstrip() == "tasks:", ""
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


def mise(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of mise, and how it or asdf installs the tools that the project pins."""
    source = manifests.first("mise.toml", ".mise.toml", ".config/mise.toml", "mise/config.toml")
    data = manifests.toml(source) if source is not None else {}
    tasks = set(table(data, "tasks"))
    for folder in ("mise-tasks", ".mise-tasks", ".mise/tasks", ".config/mise/tasks"):
        names = manifests.inside(folder)
        tasks.update(name for name in names if manifests.executable(f"{folder}/{name}"))
        source = source or (folder if names else None)
    if source is not None:
        yield from named_tasks(tasks, "mise run ", source)
    if source is not None and table(data, "tools"):
        yield Task("install", "mise install", source)
    elif manifests.has(".tool-versions"):
        yield Task("install", "asdf install", ".tool-versions", Rank.GUESS)


def cargo_make(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of cargo-make."""
    tasks = table(manifests.toml("Makefile.toml"), "tasks")
    yield from named_tasks(tasks, "cargo make ", "Makefile.toml")


def earthly(manifests: Manifests) -> Iterator[Task]:
    """Yield the targets of an Earthfile."""
    targets = _EARTHLY_TARGET.findall(manifests.text("Earthfile"))
    yield from named_tasks(targets, "earthly +", "Earthfile")


def mage(manifests: Manifests) -> Iterator[Task]:
    """Yield the targets of a magefile that need no argument."""
    names = ["magefile.go", *manifests.matching("magefiles", "*.go")]
    for name in names:
        targets = _MAGE_TARGET.findall(manifests.text(name))
        yield from named_tasks({target.lower() for target in targets}, "mage ", name)


def scripts(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks that are scripts in one of the usual places; a binary there is not one."""
    for intent, candidates in COMMANDS["scripts"].items():
        startable = (path for path in candidates if manifests.executable(path))
        name = next((path for path in startable if manifests.text(path).startswith("#!")), None)
        if name is not None:
            yield Task(intent, f"./{name}", name, Rank.OWN)


# Makefiles: the targets that make would find, without running make.

#: In the order in which GNU make looks for them.
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")

#: Makefiles that are read for one, including itself.
_INCLUDES = 20
#: The longest name of an included file, in characters.
_LONGEST_NAME = 100

#: A function on a separate line: it prints something, or expands to what is not known.
_CALL = re.compile(r"\$[({](?:info|warning|error|eval)[ \t]")
_INCLUDE = re.compile(r"-?s?include[ \t]+(.+)")
#: What follows a target and its colon if the line sets a variable and is not a rule.
_SETS = re.compile(r"\s*(?:(?:export|override|private)\s+)*[\w.-]+\s*(?:[:+?!]{0,3}=)")


@dataclass(slots=True)
class Rules:
    """What a makefile names.

    Attributes:
        targets: the targets and whether each needs others; no patterns, variables or special ones.
        phony: the targets that are not files.
        default: what plain ``make`` makes, as the makefile spells it.
        includes: what the makefile includes, as it spells it.
    """

    targets: dict[str, bool] = field(default_factory=dict)
    phony: set[str] = field(default_factory=set)
    default: str = ""
    includes: list[str] = field(default_factory=list)


def make(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the makefile that make would read and of those that it includes."""
    name = manifests.first(*_MAKEFILES)
    if name is None:
        return
    rules = _read(manifests, name)
    tasks = list(named_tasks(_made(rules, manifests), "make ", name))
    yield from tasks
    makes_a_file = rules.default.startswith(("$(", "${")) or rules.default == "default"
    if makes_a_file and not any(task.intent == "build" for task in tasks):
        yield Task("build", "make", name, Rank.OWN)


def make_targets(manifests: Manifests) -> tuple[str, set[str]]:
    """Return the makefile and its targets; empty if there is no file."""
    name = manifests.first(*_MAKEFILES)
    return (name, _made(_read(manifests, name), manifests)) if name is not None else ("", set())


def _made(rules: Rules, manifests: Manifests) -> set[str]:
    """Return the targets that make would make.

    It regards a target as made if it is a file, needs nothing, and is not declared phony.
    """
    return {
        target
        for target, needs in rules.targets.items()
        if needs or target in rules.phony or not manifests.has(target)
    }


def _read(manifests: Manifests, name: str) -> Rules:
    """Return the rules of ``name`` and of what it includes."""
    rules = read_rules(manifests.text(name))
    waiting, read = rules.includes[:_INCLUDES], {name}
    while waiting and len(read) < _INCLUDES:
        included = waiting.pop(0)
        # make looks for them in the folder where it was started.
        folder, pattern = posixpath.split(posixpath.normpath(included))
        for path in manifests.matching(folder or ".", pattern):
            if path not in read and len(read) < _INCLUDES:
                read.add(path)
                more = read_rules(manifests.text(path))
                rules.targets |= more.targets
                rules.phony |= more.phony
                waiting += more.includes[:_INCLUDES]
    return rules


def read_rules(text: str) -> Rules:
    """Return what a makefile names, without expanding anything or checking conditions."""
    rules = Rules()
    continued = defining = False
    for line in text.split("\n"):
        inside = continued
        continued = line.endswith("\\")
        if defining or line.startswith("define "):
            defining = not line.startswith("endef")
            continue
        if inside or line.startswith("\t") or _CALL.match(line):
            continue
        include = _INCLUDE.match(line)
        if include is not None:
            named = include[1].partition("#")[0].split()
            rules.includes += (name for name in named[:_INCLUDES] if len(name) <= _LONGEST_NAME)
            continue
        head, colon, rest = line.partition(":")
        rest = rest.removeprefix(":")
        if not colon or rest.startswith((":", "=")) or re.search("[=#]", head):
            continue
        if not _SETS.match(rest):
            _add_rule(rules, head.split(), rest.partition("#")[0].partition(";")[0].split())
    return rules


def _add_rule(rules: Rules, names: list[str], needs: list[str]) -> None:
    if names == [".PHONY"]:
        rules.phony.update(needs)
    for name in names:
        if not rules.default and not name.startswith(".") and "%" not in name:
            rules.default = name
        if not re.search("[%$]", name):
            rules.targets[name] = rules.targets.get(name, False) or bool(needs)


_BEFORE_COMMAND = re.compile(r"^(- )?((run|script|command):\s+|sh\s+)?")

_CI = COMMANDS["continuous_integration"]

#: Commands that count as hints if a line of a CI file is one of them, apart from harmless options.
_HINTS: Mapping[str, Intent] = {
    command: intent for intent, commands in _CI["commands"].items() for command in commands
}
_MOST_WORDS = max(len(command.split(" ")) for command in _HINTS)

#: What may follow such a command: it changes what is shown or covered, never what is run.
_HARMLESS = frozenset(_CI["harmless"])


def continuous_integration(manifests: Manifests) -> Iterator[Task]:
    """Yield the commands in the CI files of which every word is known."""
    workflows = [path for folder in _CI["folders"] for path in manifests.matching(folder, "*.y*ml")]
    for source in (*workflows, *_CI["files"]):
        for line in manifests.text(source).split("\n"):
            command = _BEFORE_COMMAND.sub("", line.strip())
            if command[:1] in ("'", '"') and command[-1] == command[0]:
                command = command[1:-1]
            intent = _hinted(command)
            if intent is not None:
                yield Task(intent, command, source, Rank.HINT)


def _hinted(command: str) -> Intent | None:
    """Return what a CI file runs ``command`` for, or None if one of its words is not known."""
    words = command.split(" ")
    for count in range(1, min(len(words), _MOST_WORDS) + 1):
        if not _HARMLESS.issuperset(words[count:]):
            continue
        intent = _HINTS.get(" ".join(words[:count]))
        if intent is not None:
            return intent
    return None
