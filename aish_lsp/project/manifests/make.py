"""Makefiles: the targets that make would know, without asking make."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from aish_lsp.project.manifests.reading import Manifests
from aish_lsp.project.task import Rank, Task, named_tasks

#: In the order in which GNU make looks for them.
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")

#: Makefiles that are read for one, what they include and that itself.
_INCLUDES = 20
#: Characters of an included file's name.
_LONGEST_NAME = 100

_INCLUDE = re.compile(r"-?s?include[ \t]+(.+)")
#: What may stand behind a target and its colon where it sets a variable and is no rule.
_SETS = re.compile(r"\s*(?:(?:export|override|private)\s+)*[\w.-]+\s*(?:[:+?!]{0,3}=)")


@dataclass(slots=True)
class Rules:
    """What a makefile names.

    Attributes:
        targets: whether each one needs others; no patterns, no variables, no special ones.
        phony: those that are no files.
        default: what plain ``make`` makes, as it is written there.
        includes: what it includes, as it is written there.
    """

    targets: dict[str, bool] = field(default_factory=dict)
    phony: set[str] = field(default_factory=set)
    default: str = ""
    includes: list[str] = field(default_factory=list)


def make(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the makefile that make would read, and of what that includes."""
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
    """Return the makefile and its targets; no file where there is none."""
    name = manifests.first(*_MAKEFILES)
    return (name, _made(_read(manifests, name), manifests)) if name is not None else ("", set())


def _made(rules: Rules, manifests: Manifests) -> set[str]:
    """Return the targets that make would make.

    It takes a target that is a file, needs nothing, and is not declared phony, for made.
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
        # make looks for them from where it was started.
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
    """Return what a makefile names. Nothing is expanded, and no condition is looked at."""
    rules = Rules()
    continued = defining = False
    for line in text.split("\n"):
        inside = continued
        continued = line.endswith("\\")
        if defining or line.startswith("define "):
            defining = not line.startswith("endef")
            continue
        if inside or line.startswith("\t"):
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
