"""The tables of commands, and the rules of the user's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aish_lsp.shell.risk.data import (
    SAFE,
    UNKNOWN,
    rows_by_name,
    table,
)
from aish_lsp.shell.risk.matching import NO_VALUES, Arguments, Rule, Values

if TYPE_CHECKING:
    from aish_lsp.config.schema import RiskRule


class Wrapper(NamedTuple):
    """A command that runs another, which follows its options.

    Attributes:
        words: its subcommands, such as ``exec`` of docker.
        values: options that take the next word.
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

    words: Sequence[str]
    values: Values
    operands: int = 0
    assignments: bool = False
    shell: bool = False
    here: bool = False
    text: Sequence[str] = ()
    appends: bool = False
    stop: Sequence[str] = ()
    after: Sequence[str] = ()
    only_text: bool = False
    writes: Sequence[str] = ()
    enters: Sequence[str] = ()
    safe: bool = False
    reason: str = ""


class ProgramRule(NamedTuple):
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


class Program(NamedTuple):
    """How a command is given a program in its own language, and what is looked for in it.

    Attributes:
        rules: what is looked for.
        without: an expression for what does not count in it, such as comments; empty if all does.
        script: whether the first operand, or else the input, is a program.
        input: whether the input is a program, too.
        every: whether even a plain word, which could be a name, can be a program.
    """

    rules: Sequence[ProgramRule]
    without: str = ""
    script: bool = False
    input: bool = False
    every: bool = False


class Writer(NamedTuple):
    """How a command names the files that it writes.

    Attributes:
        operands: whether operands say what it writes.
        last: whether the last operand is what it writes; else all are.
        outputs: options whose value it writes.
        folders: options whose value is the folder that it writes into.
        own_values: the options of these that take the next word, if those of the rules do not hold
            for each of its subcommands.
        needs: an expression for the words without one of which it writes nothing.
        keeps: options with which existing files are kept.
        sources: whether its sources are gone afterwards.
        copies: whether it writes what it reads, so that the text is known.
        only: the options without one of which it writes nothing.
        program: options that hold its program; without one, the first operand is the program.
        runs: options that hold a command line.
    """

    operands: bool = True
    last: bool = True
    outputs: Sequence[str] = ()
    folders: Sequence[str] = ()
    keeps: Sequence[str] = ()
    sources: bool = False
    copies: bool = False
    only: Sequence[str] = ()
    program: Sequence[str] = ()
    runs: Sequence[str] = ()
    own_values: Values | None = None
    needs: str = ""


class CommandRules:
    """What the tables say about one command name.

    Attributes:
        values: options that take the next word.
        before: options of a safe command that may come before its subcommands.
        rules: those for any subcommand.
        by_word: those for a subcommand, by its name.
        globs: those for a pattern of names.
        wrappers, program: how it runs others, or a program in its own language.
        writer: how it names the files that it writes; None if it writes none that it names.
    """

    def __init__(self, values: Values = NO_VALUES, before: str = "none") -> None:
        self.values = values
        self.before = before
        self.rules: list[Rule] = []
        self.by_word: dict[str, list[Rule]] = {}
        self.globs: list[Rule] = []
        self.wrappers: list[Wrapper] = []
        self.program: Program | None = None
        self.writer: Writer | None = None
        self._sorted: dict[tuple[str, ...], list[Rule]] = {}

    def add(self, rule: Rule) -> None:
        """Add a rule under the first words that it needs."""
        firsts = rule.first_words
        if firsts is None:
            self.rules.append(rule)
        for word in firsts or ():
            self.by_word.setdefault(word, []).append(rule)

    def about(self, arguments: Arguments) -> Sequence[Rule]:
        """Return the rules that may match these arguments, the worst first.

        Of one level, those for a subcommand come later, and those for a pattern of names last.
        """
        words: tuple[str, ...] = ()
        if self.by_word:
            words = tuple([word for word in arguments.operands[:2] if word in self.by_word])
        rules = self._sorted.get(words)
        if rules is None:
            of_words = [rule for word in words for rule in self.by_word[word]]
            rules = [*self.rules, *of_words, *self.globs]
            rules.sort(key=lambda rule: -rule.level)
            self._sorted[words] = rules
        return rules


class Tables:
    """All that the tables say, by the name of the command; of each only what is asked for is read.

    ``data`` is what ``rows_by_name`` returns, perhaps with more for some names.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        # Names may be anything, so that there may be any number of them.
        self.entry = lru_cache(maxsize=1024)(self._entry)

    def _entry(self, name: str) -> CommandRules | None:
        """Return the entry of a name in lower case; None if there is none."""
        data = self._data
        row = data["names"].get(name, {})
        globs = [number for glob, number in data["globs"] if fnmatchcase(name, glob)]
        if not (row or globs):
            return None
        entry = CommandRules(frozenset(row.get("values", ())), row.get("before", "none"))
        for number in row.get("rows", ()):
            entry.add(self._rule(number))
        entry.globs = [*map(self._rule, globs)]
        for number, words in row.get("wrappers", ()):
            fields = data["wrappers"][number]
            values = frozenset(fields["values"])
            entry.wrappers.append(Wrapper(**{**fields, "words": words, "values": values}))
        if "program" in row:
            fields = data["programs"][row["program"]]
            rules = tuple(ProgramRule(**rule) for rule in fields["rules"])
            entry.program = Program(**{**fields, "rules": rules})
        if "writer" in row:
            fields = data["writers"][row["writer"]]
            own = frozenset(fields["own_values"]) if "own_values" in fields else None
            entry.writer = Writer(**{**fields, "own_values": own})
        return entry

    def _rule(self, number: int) -> Rule:
        match, level, fields = self._data["rows"][number]
        return Rule(match, level, **fields)


@lru_cache(maxsize=8)
def own_tables(rules: tuple[RiskRule, ...]) -> tuple[Tables, Tables]:
    """Return the user's rules, and those that may only make a verdict stricter, as tables."""
    return _tables_of(rules, only_stricter=False), _tables_of(rules, only_stricter=True)


def _tables_of(rules: tuple[RiskRule, ...], *, only_stricter: bool) -> Tables:
    return Tables(
        rows_by_name(
            {"match": rule.match, "risk": rule.risk, "reason": rule.reason, "confine": rule.confine}
            for rule in rules
            if rule.only_stricter is only_stricter
        )
    )


@cache
def tables() -> Tables:
    """Return the tables that come with the package."""
    return Tables(table("commands"))


#: Options that load settings or code, or run a program, in every tool that has them.
_LOADS: Final = frozenset(table("names")["loading_options"])


def _in_doubt(rule: Rule, arguments: Arguments) -> bool:
    """Return whether a command that seems only to read may do something else."""
    return (
        any(word.partition("=")[0] in _LOADS for word in arguments.words)
        or (not rule.is_open and any(word[:1] == UNKNOWN for word in arguments.words))
        or arguments.doubtful < len(rule.words)
    )


def verdict(entry: CommandRules, arguments: Arguments) -> Rule | None:
    """Return the rule of ``entry`` that decides about a command; None if none matches.

    The worst one counts. A rule for a command that only reads does not count if a word may be any
    option.
    """
    for rule in entry.about(arguments):
        if rule.level == SAFE and rule.only is None and _in_doubt(rule, arguments):
            continue
        if rule.matches(arguments, entry.before):
            return rule
    return None
