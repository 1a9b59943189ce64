"""If this is there, then that runs: the table of it, and how a row of the table becomes tasks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.project.manifests.entries import READERS
from aish_lsp.project.manifests.reading import Manifests, is_plain, is_plain_path, table, walk

Intent: TypeAlias = Literal[
    "test", "build", "run", "start", "lint", "format", "check", "clean", "install"
]


class Rank(IntEnum):
    """How sure it is that the project's developers use a task; the lowest is the surest."""

    OWN = 0
    """An entry that the project itself names: a make target, a package script."""
    CONFIGURED = 1
    """A tool whose configuration, or whose manifest, is there."""
    GUESS = 2
    """What such projects usually use."""
    PART = 3
    """A task of a folder that is a project itself."""
    HINT = 4
    """Seen elsewhere, as in a CI file."""


@dataclass(frozen=True, slots=True)
class Task:
    """A command of one line, with the file that it comes from as its ``source``.

    ``folder`` is the folder that the command is for and changes to, if that is a project itself.
    """

    intent: Intent
    command: str
    source: str
    rank: Rank = Rank.CONFIGURED
    folder: str = ""


#: A row of rules.toml, whose head says what it may hold.
Row: TypeAlias = Mapping[str, Any]


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


#: What is known about the commands of all kinds of projects.
COMMANDS: Final = _toml("commands.toml")
RULES: Final[Mapping[str, Any]] = _toml("rules.toml")

#: The names that people give to entries of their task runners, the most usual first.
ENTRY_NAMES: Final[Mapping[Intent, Sequence[str]]] = COMMANDS["entries"]

_INTENTS: Final[tuple[Intent, ...]] = get_args(Intent)


def named_tasks(
    names: Collection[str], runner: str, source: str, rank: Rank = Rank.OWN
) -> Iterator[Task]:
    """Yield a task for each intent that has its usual name among ``names``.

    The command is ``runner`` with {} for that name or, without {}, the name right after it. Only
    names in ENTRY_NAMES ever get into a command, whatever else ``names`` contains.
    """
    for intent, candidates in ENTRY_NAMES.items():
        name = next((candidate for candidate in candidates if candidate in names), None)
        if name is not None:
            command = runner.replace("{}", name) if "{}" in runner else f"{runner}{name}"
            yield Task(intent, command, source, rank)


class Substitutions(dict[str, str]):
    """What the braces in commands stand for: the first row of each word that holds."""

    def __init__(self, manifests: Manifests, **words: str) -> None:
        super().__init__(words)
        self._manifests = manifests

    def __missing__(self, name: str) -> str:
        """Return the word ``name``, looked up in the table once."""
        for row in RULES["words"][name]:
            source = _source(self._manifests, row, "")
            if source is not None and _holds(self._manifests, row, source):
                self[name] = row["is"].format(file=source)
                return self[name]
        raise KeyError(name)


def rule_tasks(
    manifests: Manifests,
    group: str | Sequence[Row],
    words: Substitutions | None = None,
    source: str = "",
) -> Iterator[Task]:
    """Yield the tasks of a group of rules; ``source`` is the file of the rules that name none."""
    words = words if words is not None else Substitutions(manifests)
    has_tasks = False
    for row in RULES[group] if isinstance(group, str) else group:
        if row.get("otherwise") and has_tasks:
            continue
        file = _source(manifests, row, source)
        tasks = list(_tasks(manifests, row, file, words)) if file is not None else []
        has_tasks = bool(tasks)
        yield from tasks


def _source(manifests: Manifests, row: Row, source: str) -> str | None:
    return manifests.first(*row["files"].split()) if "files" in row else source


def _holds(manifests: Manifests, row: Row, source: str) -> bool:
    """Return whether the conditions of a row hold."""
    text = manifests.code(source) if "word" in row or "without" in row else ""
    if "also" in row:
        folder, _, name = row["also"].rpartition("/")
        others = (f"{path}/{name}" for path in manifests.members([folder]))
        text = "\n".join((text, *map(manifests.code, others)))
    return (
        ("word" not in row or re.search(row["word"], text) is not None)
        and ("without" not in row or not re.search(row["without"], text))
        and ("file" not in row or manifests.first(*row["file"].split()) is not None)
        and ("unless" not in row or manifests.first(*row["unless"].split()) is None)
        and ("executable" not in row or manifests.executable(row["executable"]))
        and ("key" not in row or any(True for _ in walk(manifests.data(source), row["key"], 1)))
    )


def _tasks(manifests: Manifests, row: Row, file: str, words: Substitutions) -> Iterator[Task]:
    rank = Rank[row.get("rank", "OWN" if "runner" in row else "CONFIGURED")]
    names: Iterable[str] = ()
    if "reader" in row:
        file, names = READERS[row["reader"]](manifests)
    elif "names" in row:
        code = manifests.code(file)
        names = (name or row["unnamed"] for one in row["names"] for name in re.findall(one, code))
    elif "key" in row:
        names = table(manifests.data(file), *row["key"].split("."))
    if not _holds(manifests, row, file):
        return
    if "runner" in row:
        runner = row["runner"].format_map(words)
        yield from named_tasks(set(names) - set(row.get("but", ())), runner, file, rank)
    for name in _captured(row, manifests.code(file)) if "captures" in row else ("",):
        if "exists" in row and not manifests.has(row["exists"].format(name=name)):
            continue
        source = row["source"].format(name=name) if "source" in row else file
        for intent in _INTENTS:
            entry = row.get(intent, "")
            conditions = entry if isinstance(entry, dict) else {"command": entry}
            command = conditions["command"]
            is_safe = command and ("{file}" not in command or is_plain_path(file))
            if is_safe and _holds(manifests, conditions, file):
                values = Substitutions(manifests, **words, file=file, name=name)
                yield Task(intent, command.format_map(values), source, rank)


def _captured(row: Row, code: str) -> list[str]:
    """Return the plain names that a row captures; none if there must be one and there are more."""
    names = [name for name in re.findall(row["captures"], code) if is_plain(name)]
    return [] if row.get("only") and len(names) != 1 else names
