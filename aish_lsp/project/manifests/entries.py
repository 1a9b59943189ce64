"""The entries of task runners: the targets, recipes and tasks that a file names.

A reader returns the file that is read first, and the names; empty if there is no such file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.project.manifests.reading import Manifests, table

Reader: TypeAlias = Callable[[Manifests], tuple[str, set[str]]]

#: Files that are read for one justfile or makefile, including itself.
_FILES: Final = 20

_JUST_STRING = re.compile(r"\"[^\"]*\"|'[^']*'|`[^`]*`|\([^()]*\)")
_JUST_IMPORT = re.compile(r"^import\??[ \t]+(['\"])(?:\./)?([^'\"\n]+)\1", re.MULTILINE)
_MAGE_TARGET = re.compile(r"^func ([A-Z]\w*)\((?:ctx context\.Context)?\)", re.MULTILINE)
_TASK_KEY = re.compile(r"( +)(?:([\w:.-]+)|\"([\w:.-]+)\"|'([\w:.-]+)'):(?:\s|$)")
#: The files that Task looks for, in its order.
_TASKFILES = [
    f"{name}{end}"
    for end in (".yml", ".yaml", ".dist.yml", ".dist.yaml")
    for name in ("Taskfile", "taskfile")
]
_MISE_FILES = ("mise.toml", ".mise.toml", ".config/mise.toml", "mise/config.toml")
_MISE_FOLDERS = ("mise-tasks", ".mise-tasks", ".mise/tasks", ".config/mise/tasks")
_MIX_ALIAS = re.compile(r"[ \t]*(?:\[[ \t]*)?(?:\"([\w.-]+)\"|(\w+)):(?:\s|$)")


def just(manifests: Manifests) -> tuple[str, set[str]]:
    """Read a justfile: recipes that need no argument, including imported ones."""
    candidates = (n for n in sorted(manifests.names) if n.lower() in ("justfile", ".justfile"))
    name = next(candidates, "")
    recipes: set[str] = set()
    waiting, read = [name] if name else [], set[str]()
    while waiting and len(read) < _FILES:
        path = waiting.pop(0)
        if path not in read:
            read.add(path)
            text = manifests.text(path)
            recipes |= _just_recipes(text)
            waiting += (imported[2] for imported in _JUST_IMPORT.finditer(text))
    return name, recipes


def _just_recipes(text: str) -> set[str]:
    """Return the recipes that need no arguments, and their aliases."""
    recipes: set[str] = set()
    aliases: dict[str, str] = {}
    for line in text.split("\n"):
        head, colon, rest = _JUST_STRING.sub("x", line).partition(":")
        name, *parameters = head.removeprefix("@").split() or [""]
        if not colon or line[:1].isspace():
            continue
        if rest.startswith("="):
            if name == "alias" and len(parameters) == 1:
                aliases[parameters[0]] = rest[1:].strip()
        elif all("=" in parameter or parameter.startswith("*") for parameter in parameters):
            recipes.add(name)
    return recipes | {alias for alias, recipe in aliases.items() if recipe in recipes}


def task(manifests: Manifests) -> tuple[str, set[str]]:
    """Read a Taskfile: the names under ``tasks:`` that are not internal."""
    name = manifests.first(*_TASKFILES)
    tasks: set[str] = set()
    within, indent, current = False, "", ""
    for line in manifests.text(name or "").split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line.startswith(" "):
            within, indent = line.partition(" #")[0].rstrip() == "tasks:", ""
        elif within and (key := _TASK_KEY.match(line)):
            indent = indent or key[1]
            if key[1] == indent:
                current = key[2] or key[3] or key[4]
                tasks.add(current)
            elif re.match(r"\s+internal:\s*true\b", line):
                tasks.discard(current)
    return name or "", tasks


def mise(manifests: Manifests) -> tuple[str, set[str]]:
    """Read mise's tasks: those of its file, and the executables in its folders."""
    source = manifests.first(*_MISE_FILES) or ""
    names = set(table(manifests.data(source), "tasks")) if source else set[str]()
    for folder in _MISE_FOLDERS:
        files = manifests.inside(folder)
        names.update(name for name in files if manifests.executable(f"{folder}/{name}"))
        source = source or (folder if files else "")
    return source, names


def mage(manifests: Manifests) -> tuple[str, set[str]]:
    """Read magefiles: the targets that need no argument."""
    files = [*manifests.matching("magefile.go"), *manifests.matching("magefiles/*.go")]
    targets = {
        name.lower() for path in files for name in _MAGE_TARGET.findall(manifests.text(path))
    }
    return next(iter(files), ""), targets


def nox(manifests: Manifests) -> tuple[str, set[str]]:
    """Read a noxfile: the functions that are sessions, leaving out helpers."""
    sessions = set()
    decorated = ""
    for line in manifests.text("noxfile.py").split("\n"):
        if re.match(r"@(nox\.)?session\b", line):
            decorated = line
            continue
        function = re.match(r"def (\w{1,64})\(", line)
        if decorated and function is not None:
            named = re.search(r"\bname\s*=\s*['\"]([\w.-]{1,64})['\"]", decorated)
            sessions.add(named[1] if named else function[1])
        decorated = "" if function or not line.strip() else decorated and decorated + line
    return "noxfile.py", sessions


def mix(manifests: Manifests) -> tuple[str, set[str]]:
    """Read the aliases of an Elixir project, which come before Mix's own tasks."""
    names = set()
    within = False
    for line in manifests.code("mix.exs").split("\n"):
        if re.match(r"[ \t]*defp?[ \t]+aliases\b", line):
            within = True
        elif within and line.strip() == "end":
            within = False
        if within and (alias := _MIX_ALIAS.match(line)):
            names.add(alias[1] or alias[2])
    return "mix.exs", names


# Makefiles: the targets that make would find, without running make.

#: In the order in which GNU make looks for them.
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
#: The longest name of an included file, in characters.
_LONGEST_NAME = 100
#: A function on a separate line: it prints something, or expands to what is not known.
_CALL = re.compile(r"\$[({](?:info|warning|error|eval)[ \t]")
_INCLUDE = re.compile(r"-?s?include[ \t]+(.+)")
#: What follows a target and its colon if the line sets a variable and is not a rule.
_SETS = re.compile(r"\s*(?:(?:export|override|private)\s+)*[\w.-]+\s*(?:[:+?!]{0,3}=)")


@dataclass(slots=True)
class Makefile:
    """What a makefile, and those that it includes, name.

    Attributes:
        name: the file that make reads first; empty if there is none.
        targets: the targets and whether each needs others; no patterns, variables or special ones.
        phony: the targets that are not files.
        default: what plain ``make`` makes, as the makefile spells it.
    """

    name: str = ""
    targets: dict[str, bool] = field(default_factory=dict)
    phony: set[str] = field(default_factory=set)
    default: str = ""

    def add(self, names: list[str], needs: list[str]) -> None:
        """Add a rule."""
        if names == [".PHONY"]:
            self.phony.update(needs)
        for name in names:
            if not self.default and not name.startswith(".") and "%" not in name:
                self.default = name
            if not re.search("[%$]", name):
                self.targets[name] = self.targets.get(name, False) or bool(needs)


def makefile(manifests: Manifests) -> Makefile:
    """Read the makefile that make would read, and those that it includes."""
    rules = Makefile(manifests.first(*_MAKEFILES) or "")
    waiting, read = [rules.name] if rules.name else [], set[str]()
    while waiting and len(read) < _FILES:
        # make looks for what is included in the folder where it was started.
        for path in manifests.matching(posixpath.normpath(waiting.pop(0))):
            if path not in read and len(read) < _FILES:
                read.add(path)
                waiting += _read_rules(manifests.text(path), rules)[:_FILES]
    return rules


def make(manifests: Manifests) -> tuple[str, set[str]]:
    """Read a makefile: the targets that make would make.

    It regards a target as made if it is a file, needs nothing, and is not declared phony.
    """
    rules = makefile(manifests)
    targets = {
        target
        for target, needs in rules.targets.items()
        if needs or target in rules.phony or not manifests.has(target)
    }
    return rules.name, targets


def _read_rules(text: str, rules: Makefile) -> list[str]:
    """Add what a makefile names, without expanding or checking anything; return its includes."""
    includes: list[str] = []
    continued = defining = False
    for line in text.split("\n"):
        inside, continued = continued, line.endswith("\\")
        if defining or line.startswith("define "):
            defining = not line.startswith("endef")
        elif inside or line.startswith("\t") or _CALL.match(line):
            continue
        elif (include := _INCLUDE.match(line)) is not None:
            named = include[1].partition("#")[0].split()[:_FILES]
            includes += (name for name in named if len(name) <= _LONGEST_NAME)
        else:
            head, colon, rest = line.partition(":")
            rest = rest.removeprefix(":")
            is_rule = colon and not rest.startswith((":", "=")) and not re.search("[=#]", head)
            if is_rule and not _SETS.match(rest):
                rules.add(head.split(), rest.partition("#")[0].partition(";")[0].split())
    return includes


#: By the runner's name.
READERS: Final[Mapping[str, Reader]] = {
    "just": just,
    "task": task,
    "mise": mise,
    "make": make,
    "mage": mage,
    "nox": nox,
    "mix": mix,
}
