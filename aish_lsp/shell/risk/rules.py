"""The tables of commands, and the rules of the user's configuration beside them.

``python -m aish_lsp.shell.risk.rules > docs/risk.md`` writes the tables anew as a page; a test
holds that it is current.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from aish_lsp.shell.risk.levels import CAUTION, DESTRUCTIVE, LEVELS, SAFE
from aish_lsp.shell.risk.matching import Arguments, Options, Pattern, first_words, parse

FOLDER: Final = Path(__file__).parent / "tables"


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of a table: what it speaks of, how bad that is, and why."""

    pattern: Pattern
    level: int
    reason: str
    #: Where the user says so: whether what is safe runs confined.
    confine: bool = True
    #: Whether it is safe only where it runs confined, and without the rights of its file.
    confined: bool = False
    rights: bool = False


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that runs another, which stands behind its options.

    Attributes:
        words: its subcommands, such as ``exec`` of docker.
        values: options that take the next word.
        flags: long options that take none; of others that is not known.
        operands: words of its own between its options and the command.
        assignments: whether assignments may stand in front of the command.
        shell: whether the rest, joined by blanks, goes to a shell.
        text: options whose value is a command line.
        appends: whether it adds words that are not known.
        stop: options with which it runs nothing.
        after: the command stands behind one of these words only.
        only_text: whether its own words are no command.
        writes: options whose value is a file that it writes.
        enters: options whose value is the folder that it changes to.
        options: those that it may have where what it runs is safe; None says that it never is.
        level, reason: what running something so is by itself.
    """

    words: tuple[str, ...]
    values: frozenset[str]
    flags: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    shell: bool = False
    text: tuple[str, ...] = ()
    appends: bool = False
    stop: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    only_text: bool = False
    writes: tuple[str, ...] = ()
    enters: tuple[str, ...] = ()
    options: Options | None = None
    level: int = SAFE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What is looked for in a program, and what it is where it is found.

    ``secrets`` says that it tells them; where it ``runs`` a command or ``writes`` a file, the first
    group of the pattern is that.
    """

    pattern: re.Pattern[str]
    level: int
    reason: str
    secrets: bool = False
    runs: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """How a command is given a program in its own language, and what is looked for in that.

    Attributes:
        found: what is looked for.
        without: what in it does not count, such as comments.
        script: whether the first operand, or else the input, is a program.
        input: whether what is read is one, too.
        every: whether a word can be one that holds no sign but those of a name.
    """

    found: tuple[Found, ...]
    without: re.Pattern[str] | None = None
    script: bool = False
    input: bool = False
    every: bool = False


@dataclass(slots=True)
class CommandRules:
    """What the tables say of one command name."""

    values: frozenset[str] = frozenset()
    before: Options = Options()  # noqa: RUF009 - it is frozen
    rules: list[Rule] = field(default_factory=list)
    by_word: dict[str, list[Rule]] = field(default_factory=dict)
    wrappers: list[Wrapper] = field(default_factory=list)
    program: Program | None = None

    def add(self, rule: Rule) -> None:
        """File a rule under the first words that it wants."""
        firsts = first_words(rule.pattern)
        if firsts is None:
            self.rules.append(rule)
        for word in firsts or ():
            self.by_word.setdefault(word, []).append(rule)

    def about(self, given: Arguments) -> Iterable[Rule]:
        """Return the rules that may speak of these arguments."""
        if not self.by_word:
            return self.rules
        found = self.rules[:]
        for word in dict.fromkeys(given.operands[:2]):
            found += self.by_word.get(word, ())
        return found


class Tables:
    """All tables, by the name of the command."""

    def __init__(self) -> None:
        self._entries: dict[str, CommandRules] = {}
        self._globs: list[tuple[str, Rule]] = []

    def entry(self, name: str) -> CommandRules | None:
        """Return what is said of a name in small letters; None where nothing is."""
        entry = self._entries.get(name)
        if entry is None and self._globs:
            entry = self._matched(name)
        return entry

    def _matched(self, name: str) -> CommandRules | None:
        """Return what rules with a ``*`` in their names say of ``name``."""
        rules = [rule for glob, rule in self._globs if fnmatchcase(name, glob)]
        if not rules:
            return None
        entry = CommandRules()
        for rule in rules:
            entry.add(rule)
        return entry

    def add_rules(
        self, groups: Iterable[Mapping[str, Any]], sets: Mapping[str, str] | None = None
    ) -> None:
        """Add groups of rows: a level, a reason, and one ``match`` or several.

        ``sets`` are the options that a row can name as one, by their name.

        Raises:
            ValueError: a row cannot be read.
        """
        for group in groups:
            matches = group["match"]
            for match in [matches] if isinstance(matches, str) else matches:
                pattern = parse(match, sets)
                rule = Rule(
                    pattern,
                    LEVELS.index(group["risk"]),
                    group.get("reason", ""),
                    group.get("confine", True),
                    group.get("confined", False),
                    group.get("rights", False),
                )
                for name in pattern.names:
                    if "*" in name:
                        self._globs.append((name, rule))
                    else:
                        self._entries.setdefault(name, CommandRules()).add(rule)

    def add_values(self, values: Mapping[str, str]) -> None:
        """Add which options of a command take the next word for their value."""
        for names, options in values.items():
            for name in names.split("|"):
                entry = self._entries.setdefault(name, CommandRules())
                entry.values |= frozenset(options.split())

    def add_before(self, options: Mapping[str, str]) -> None:
        """Add which options of a command may stand in front of its subcommands, if it is safe."""
        for names, text in options.items():
            for name in names.split("|"):
                entry = self._entries.setdefault(name, CommandRules())
                entry.before = Options.parse("|".join(text.split()))

    def add_wrappers(self, wrappers: Iterable[Mapping[str, Any]]) -> None:
        """Add commands that run others."""
        for row in wrappers:
            for match in row["match"]:
                name, *words = match.split()
                wrapper = Wrapper(
                    tuple(words),
                    frozenset(f"{row.get('values', '')} {row.get('writes', '')}".split()),
                    frozenset(row.get("flags", "").split()),
                    row.get("operands", 0),
                    row.get("assignments", False),
                    row.get("shell", False),
                    tuple(row.get("text", "").split()),
                    row.get("appends", False),
                    tuple(row.get("stop", "").split()),
                    tuple(row.get("after", "").split()),
                    row.get("only_text", False),
                    tuple(row.get("writes", "").split()),
                    tuple(row.get("enters", "").split()),
                    Options.parse("|".join(row["options"].split())) if "options" in row else None,
                    CAUTION if "reason" in row else SAFE,
                    row.get("reason", ""),
                )
                self._entries.setdefault(name, CommandRules()).wrappers.append(wrapper)

    def add_programs(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add commands that are given programs; the row of ``*`` comes first."""
        of_all: tuple[Found, ...] = ()
        for row in rows:
            found = (*of_all, *(_found(group, row) for group in row.get("found", ())))
            if row["names"] == "*":
                of_all = found
                continue
            without = re.compile(row["without"], re.DOTALL) if "without" in row else None
            kinds = {key: True for key in ("script", "input", "every") if key in row}
            for name in row["names"].split():
                entry = self._entries.setdefault(name, CommandRules())
                entry.program = Program(found, without, **kinds)


def _found(group: Mapping[str, Any], row: Mapping[str, Any]) -> Found:
    text = f"{row.get('before', '')}(?:{'|'.join(group['patterns'])}){row.get('after', '')}"
    flags = f"(?{row['flags']})" if "flags" in row else ""
    kinds = {key: True for key in ("secrets", "runs", "writes") if key in group}
    level = LEVELS.index(group["risk"])
    return Found(re.compile(flags + text), level, group.get("reason", ""), **kinds)


@dataclass(frozen=True, slots=True)
class OwnTables:
    """The rows of the configuration: the user's, and a workspace's, which only make stricter."""

    own: Tables
    stricter: Tables


@cache
def tables() -> Tables:
    """Return the tables that come with the package."""
    found = Tables()
    for path in sorted(FOLDER.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        found.add_values(data.get("values", {}))
        found.add_before(data.get("before", {}))
        found.add_rules(data.get("rules", ()), data.get("options"))
        found.add_wrappers(data.get("wrappers", ()))
        found.add_programs(data.get("programs", ()))
    return found


#: Options that load settings or code, or run a program, in every tool that has them.
_LOADS: Final = frozenset(
    {
        *("--kubeconfig", "--config", "--userconfig", "--globalconfig", "--rcfile", "--init-file"),
        *("--plugin", "--plugin-dir", "--load", "--require", "--script", "--post-renderer"),
        *("--exec", "--command", "--shell", "--pager", "--editor"),
    }
)


def _in_doubt(pattern: Pattern, given: Arguments) -> bool:
    """Return whether what looks as if it only read may be something else."""
    if any(word.partition("=")[0] in _LOADS for word in given.dashed):
        return True
    if given.unknown and not pattern.is_open:
        return True
    return bool(given.doubtful) and given.doubtful[0] < len(pattern.words)


def verdict(entry: CommandRules, given: Arguments) -> Rule | None:
    """Return the rule of ``entry`` that decides about a command; None where none speaks of it.

    The worst counts. What is known to only read is so only where no word may be any option.
    """
    best: Rule | None = None
    for rule in entry.about(given):
        if best is not None and rule.level <= best.level:
            continue
        if rule.level == SAFE and rule.pattern.only is None and _in_doubt(rule.pattern, given):
            continue
        if rule.pattern.matches(given, entry.before):
            best = rule
            if rule.level == DESTRUCTIVE:
                break
    return best


_PAGE_HEAD: Final = """\
# Which commands are what

<!-- Generated from the tables: python -m aish_lsp.shell.risk.rules > docs/risk.md -->

What is known of commands, as [Safety](safety.md#what-runs) uses it. How a row is read, and how to
add your own, [stands there too](safety.md#rules-of-your-own). The worst row that matches counts; a
command without a row is *caution*, but for one whose subcommand or option says that it deletes. A
row that is *safe* names every option that the command may have: with any other it does not match.
Besides these rows, it counts what a command writes to, which variables it sets, and what the
scripts do that stand in it (`sh -c`, `find -exec`, here-documents). Programs in other languages
(`python -c`, `psql -c`, `sed`, `awk`) are only searched for what stands under
[Programs that stand in a command](#programs-that-stand-in-a-command), as regular expressions.
"""


def markdown() -> str:
    """Return docs/risk.md."""
    return _PAGE_HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for path in sorted(FOLDER.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        yield f"\n## {table['title']}\n"
        for name, options in table.get("options", {}).items():
            yield from _rows(f"The options @{name}", options.splitlines())
        for group in table.get("rules", ()):
            where = " where it runs confined, else caution" if group.get("confined") else ""
            title = f"{group['risk'].capitalize()}{where}{_because(group)}"
            yield from _rows(title, group["match"])
        for group in table.get("wrappers", ()):
            yield from _rows(f"Opened{_because(group)}", group["match"])
        for row in table.get("programs", ()):
            names = "all of these" if row["names"] == "*" else " ".join(row["names"].split())
            yield f"\nIn the programs of {names}:\n"
            for group in row.get("found", ()):
                if group["risk"] != "safe":
                    yield from _rows(
                        f"{group['risk'].capitalize()}{_because(group)}", group["patterns"]
                    )


def _because(group: dict[str, Any]) -> str:
    return f": {group['reason']}" if "reason" in group else ""


def _rows(title: str, rows: list[str]) -> Iterator[str]:
    yield f"\n**{title}**\n\n"
    for row in rows:
        yield f"    {row.strip()}\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
