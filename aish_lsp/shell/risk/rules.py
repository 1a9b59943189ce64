"""The tables of commands, and the rules of the user's configuration."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.events import Risk
from aish_lsp.shell.risk.matching import Arguments, Pattern, first_words, names_of, parse
from aish_lsp.shell.risk.words import UNKNOWN, table

if TYPE_CHECKING:
    from aish_lsp.config.schema import RiskRule

FOLDER: Final = Path(__file__).parent / "tables"

SAFE: Final = 0
CAUTION: Final = 1
DESTRUCTIVE: Final = 2

#: The words for the levels, by level.
LEVELS: Final[tuple[Risk, ...]] = ("safe", "caution", "destructive")


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of a table: which commands it matches, how risky they are, and why."""

    pattern: Pattern
    level: int
    reason: str = ""
    #: In a rule of the user's: whether a safe command runs confined.
    confine: bool = True
    #: Whether it is safe without the rights that the program's file gives it (setuid).
    rights: bool = False


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that runs another, which follows its options.

    Attributes:
        words: its subcommands, such as ``exec`` of docker.
        values: options that take the next word.
        flags: long options that take no value; whether others do is not known.
        operands: how many words of its own come between its options and the command.
        assignments: whether assignments may precede the command.
        shell: whether the rest, joined by blanks, goes to a shell.
        here: whether that is this shell, so that it may change the folder.
        text: options whose value is a command line.
        appends: whether it adds unknown words.
        stop: options with which it runs nothing.
        after: words one of which must precede the command.
        only_text: whether it runs only ``text``: its operands are not a command.
        writes: options whose value is a file that it writes to.
        enters: options whose value is the folder that it changes to.
        safe: whether it is safe if what it runs is.
        reason: why the wrapper itself is not safe; empty if it is.
    """

    words: tuple[str, ...]
    values: frozenset[str]
    flags: tuple[str, ...] = ()
    operands: int = 0
    assignments: bool = False
    shell: bool = False
    here: bool = False
    text: tuple[str, ...] = ()
    appends: bool = False
    stop: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    only_text: bool = False
    writes: tuple[str, ...] = ()
    enters: tuple[str, ...] = ()
    safe: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProgramRule:
    """What is looked for in a program, and how risky it is.

    ``expression`` finds it; ``secrets`` says that it reveals secrets. If it ``runs`` a command or
    ``writes`` to a file, that is the expression's first group.
    """

    expression: str
    level: int
    reason: str
    secrets: bool = False
    runs: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """How a command is given a program in its own language, and what is looked for in it.

    Attributes:
        rules: what is looked for.
        without: an expression for what does not count in it, such as comments; empty if all does.
        script: whether the first operand, or else the input, is a program.
        input: whether the input is a program, too.
        every: whether even a plain word, which could be a name, can be a program.
    """

    rules: tuple[ProgramRule, ...]
    without: str = ""
    script: bool = False
    input: bool = False
    every: bool = False


@dataclass(slots=True)
class CommandRules:
    """What the tables say about one command name.

    ``rows`` become its rules when it is first asked for: the tables have thousands.
    """

    values: frozenset[str] = frozenset()
    before: str = "none"
    rules: list[Rule] = field(default_factory=list)
    by_word: dict[str, list[Rule]] = field(default_factory=dict)
    globs: list[Rule] = field(default_factory=list)
    wrappers: list[Wrapper] = field(default_factory=list)
    program: Program | None = None
    rows: list[Callable[[], Rule]] = field(default_factory=list)

    def parsed(self) -> CommandRules:
        """Return the same with the rules of all rows; this one stays as it is."""
        done = replace(self, rules=[], by_word={})
        for row in self.rows:
            done.add(row())
        return done

    def add(self, rule: Rule) -> None:
        """Add a rule under the first words that it needs."""
        firsts = first_words(rule.pattern)
        if firsts is None:
            self.rules.append(rule)
        for word in firsts or ():
            self.by_word.setdefault(word, []).append(rule)

    def about(self, arguments: Arguments) -> Iterable[Rule]:
        """Return the rules that may match these arguments: those for a pattern of names last."""
        if not self.by_word and not self.globs:
            return self.rules
        rules = self.rules[:]
        for word in dict.fromkeys(arguments.operands[:2]):
            rules += self.by_word.get(word, ())
        return rules + self.globs


#: The fields that a row may have besides its ``match`` and its level.
_RULE_FIELDS: Final = ("reason", "confine", "rights")
#: The fields of a wrapper's row that hold words separated by blanks.
_LIST_FIELDS: Final = ("flags", "text", "stop", "after", "writes", "enters")


class Tables:
    """All tables, by the name of the command."""

    def __init__(self) -> None:
        self._entries: defaultdict[str, CommandRules] = defaultdict(CommandRules)
        self._parsed: dict[str, CommandRules] = {}
        self._globs: list[tuple[str, Rule]] = []

    def entry(self, name: str) -> CommandRules | None:
        """Return the entry of a name in lower case; None if there is none."""
        entry = self._parsed.get(name)
        if entry is None and name in self._entries:
            # Other threads see either nothing or all of its rules.
            entry = self._parsed[name] = self._entries[name].parsed()
        globs = [rule for glob, rule in self._globs if fnmatchcase(name, glob)]
        return replace(entry or CommandRules(), globs=globs) if globs else entry

    def add_rules(
        self, groups: Iterable[Mapping[str, Any]], sets: Mapping[str, str] | None = None
    ) -> None:
        """Add groups of rows: a level, a reason, and one ``match`` or several.

        ``sets`` are the options that a row can name as one, by their name.
        """
        for group in groups:
            matches = group["match"]
            level = LEVELS.index(group["risk"])
            fields = {key: group[key] for key in _RULE_FIELDS if key in group}
            for match in [matches] if isinstance(matches, str) else matches:
                row = partial(_rule, match, sets, level, fields)
                for name in names_of(match):
                    if "*" in name:
                        self._globs.append((name, row()))
                    else:
                        self._entries[name].rows.append(row)

    def add_values(self, values: Mapping[str, str]) -> None:
        """Add which options of a command take the next word for their value."""
        for names, options in values.items():
            for name in names.split("|"):
                self._entries[name].values |= frozenset(options.split())

    def add_before(self, options: Mapping[str, str]) -> None:
        """Add which options of a safe command may precede its subcommands."""
        for names, text in options.items():
            for name in names.split("|"):
                self._entries[name].before = "|".join(text.split())

    def add_wrappers(self, wrappers: Iterable[Mapping[str, Any]]) -> None:
        """Add commands that run others."""
        for row in wrappers:
            fields = {key: row[key] for key in row if key != "match"}
            fields |= {key: tuple(row[key].split()) for key in _LIST_FIELDS if key in row}
            values = f"{row.get('values', '')} {row.get('writes', '')}"
            fields["values"] = frozenset(values.split())
            for match in row["match"]:
                name, *words = match.split()
                self._entries[name].wrappers.append(Wrapper(tuple(words), **fields))

    def add_programs(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add commands that are given programs; the row of ``*`` comes first."""
        of_all: tuple[ProgramRule, ...] = ()
        for row in rows:
            rules = (*of_all, *(_program_rule(group, row) for group in row.get("rules", ())))
            if row["names"] == "*":
                of_all = rules
                continue
            without = f"(?s){row['without']}" if "without" in row else ""
            kinds = {key: True for key in ("script", "input", "every") if key in row}
            for name in row["names"].split():
                self._entries[name].program = Program(rules, without, **kinds)


def _rule(
    match: str, sets: Mapping[str, str] | None, level: int, fields: Mapping[str, Any]
) -> Rule:
    return Rule(parse(match, sets), level, **fields)


def _program_rule(group: Mapping[str, Any], row: Mapping[str, Any]) -> ProgramRule:
    text = f"{row.get('before', '')}(?:{'|'.join(group['patterns'])}){row.get('after', '')}"
    flags = f"(?{row['flags']})" if "flags" in row else ""
    kinds = {key: True for key in ("secrets", "runs", "writes") if key in group}
    level = LEVELS.index(group["risk"])
    return ProgramRule(flags + text, level, group.get("reason", ""), **kinds)


@lru_cache(maxsize=8)
def own_tables(rules: tuple[RiskRule, ...]) -> tuple[Tables, Tables]:
    """Return the user's rules, and those that may only make a verdict stricter, as tables."""
    both = (Tables(), Tables())
    for rule in rules:
        tables = both[rule.only_stricter]
        row = {"match": rule.match, "risk": rule.risk, "reason": rule.reason}
        tables.add_rules([{**row, "confine": rule.confine}])
    return both


@cache
def tables() -> Tables:
    """Return the tables that come with the package."""
    bundled = Tables()
    for path in sorted(FOLDER.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        bundled.add_values(data.get("values", {}))
        bundled.add_before(data.get("before", {}))
        bundled.add_rules(data.get("rules", ()), data.get("options"))
        bundled.add_wrappers(data.get("wrappers", ()))
        bundled.add_programs(data.get("programs", ()))
    return bundled


#: Options that load settings or code, or run a program, in every tool that has them.
_LOADS: Final = frozenset(table("names")["loading_options"])


def _in_doubt(pattern: Pattern, arguments: Arguments) -> bool:
    """Return whether a command that seems only to read may do something else."""
    return (
        any(word.partition("=")[0] in _LOADS for word in arguments.words)
        or (not pattern.is_open and any(word[:1] == UNKNOWN for word in arguments.words))
        or arguments.doubtful < len(pattern.words)
    )


def verdict(entry: CommandRules, arguments: Arguments) -> Rule | None:
    """Return the rule of ``entry`` that decides about a command; None if none matches.

    The worst one counts. A rule for a command that only reads does not count if a word may be any
    option.
    """
    best: Rule | None = None
    for rule in entry.about(arguments):
        if best is not None and rule.level <= best.level:
            continue
        if rule.level == SAFE and rule.pattern.only is None and _in_doubt(rule.pattern, arguments):
            continue
        if rule.pattern.matches(arguments, entry.before):
            best = rule
            if rule.level == DESTRUCTIVE:
                break
    return best
