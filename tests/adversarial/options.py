"""Commands derived from the classifier's tables: what one calls safe, with each option.

The options are those that the table names and those that the installed tool names itself, in its
help and its manual. They are cut short and joined with what could do harm as a value.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final

from derive import Case
from sandbox import PATH, Sandbox, run_all

from aish_lsp.shell import risk

#: A command's name and the words that a table wants behind it: ``("git", "log")``.
Base = tuple[str, ...]

_TABLES: Final = Path(risk.__file__).parent / "tables"
_OPTION: Final = re.compile(r"(?<![\w/.=<-])--?[A-Za-z0-9][\w-]{0,30}")
_MOST_BASES: Final = 80

#: What harms as a value: a new file, one with content, and commands in the ways that tools know.
VALUES: Final = ("mark", "victim.txt", "touch mark", "|touch mark", "!touch mark", "./evil.sh")

#: What a tool reads; the others read a text file.
_OPERANDS: Final = {
    "tar": ("a.tar",),
    **dict.fromkeys(("zip", "unzip", "zipinfo"), ("a.zip",)),
    **dict.fromkeys(("gzip", "gunzip", "zcat", "zless", "xz", "zstd", "zstdcat"), ("a.gz",)),
    "jq": (".", "data.json"),
    "yq": (".", "config.yml"),
    "sqlite3": ("a.db", "select 1"),
    "find": (".",),
    "git": (),
    "awk": ("1", "keep.txt"),
    "sed": ("p", "keep.txt"),
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "look"), ("first", "keep.txt")),
    **dict.fromkeys(("diff", "sdiff", "cmp", "comm", "join", "zdiff"), ("a.txt", "b.txt")),
    "diff3": ("a.txt", "b.txt", "keep.txt"),
    **dict.fromkeys(("python3", "python"), ("-c", "1")),
    **dict.fromkeys(("man", "whatis", "apropos"), ("ls",)),
    "tr": ("a", "b"),
    **dict.fromkeys(("date", "df", "ps", "id", "pip", "npm", "lsblk", "top"), ()),
}


def from_options(sample: Sequence[Base] | None = None) -> Iterator[Case]:
    """Yield the commands of all bases, or of those in ``sample``, without one twice."""
    chosen = sorted(bases() if sample is None else sample)
    options = _options(chosen)
    seen: set[str] = set()
    for base in chosen:
        for case in _of_base(base, sorted(options[base])):
            if case.command not in seen:
                seen.add(case.command)
                yield case


def bases() -> set[Base]:
    """Return what the tables call safe in some form, as far as it is installed."""
    return {base for base, _ in _rows() if _is_here(base[0])}


# --- one base ------------------------------------------------------------------------------------


def _of_base(base: Base, options: Sequence[str]) -> Iterator[Case]:
    kind = " ".join(base)
    operands = _OPERANDS.get(base[0], ("keep.txt",))
    for value in VALUES:
        for words in ((value,), ("keep.txt", value), (*operands, value), (value, "keep.txt", "x")):
            yield Case(f"{kind}: operands", _line(base, words))
    flags = [option for option in options if len(option) == 2]
    for at, option in enumerate(options):
        flag = flags[at % len(flags)] if flags else "-a"
        for number, shape in enumerate(_shapes(option, flag), at):
            value = VALUES[number % len(VALUES)]
            written = [word.replace("<V>", value) for word in shape]
            # Some tools want their options first, and some last.
            order = (*written, *operands) if number % 3 else (*operands, *written)
            yield Case(f"{kind}: {option}", _line(base, order))


def _shapes(option: str, flag: str) -> Iterator[tuple[str, ...]]:
    """Yield the ways to write an option; ``<V>`` is its value."""
    yield (option,)
    yield (option, "<V>")
    if option.startswith("--"):
        yield (f"{option}=<V>",)
        cuts = {3, 4, 2 + len(option) // 2, len(option) - 1}
        for length in sorted(cut for cut in cuts if 2 < cut < len(option)):
            yield (f"{option[:length]}=<V>",)
            yield (option[:length], "<V>")
    elif len(option) == 2:
        yield (f"{option}<V>",)
        yield (f"{flag}{option[1]}<V>",)
        yield (f"{flag}{option[1]}", "<V>")
        yield (f"{option}=<V>",)
    else:
        yield (f"{option}=<V>",)


def _line(base: Base, words: Sequence[str]) -> str:
    return shlex.join([*base, *words])


# --- what the tables say -------------------------------------------------------------------------


@cache
def _rows() -> tuple[tuple[Base, frozenset[str]], ...]:
    """Return what the tables call safe, with the options that stand beside it.

    All that is known here of how a row is written stands in this function.
    """
    found: dict[Base, set[str]] = defaultdict(set)
    values: dict[str, set[str]] = defaultdict(set)
    for path in sorted(_TABLES.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        for names, options in table.get("values", {}).items():
            for name in names.split("|"):
                values[name] |= set(options.split())
        for group in table.get("rules", ()):
            matches = group["match"] if isinstance(group["match"], list) else [group["match"]]
            for match in matches if group["risk"] == "safe" else ():
                for base in _bases_of(match):
                    found[base] |= set(_OPTION.findall(match.replace("|", " ").replace(":", " ")))
    return tuple((base, frozenset(told | values[base[0]])) for base, told in found.items())


def _bases_of(match: str) -> Iterator[Base]:
    """Yield the commands that a row speaks of: its first words, with each of their alternatives."""
    words: list[list[str]] = []
    for token in re.split(r"(?<!\\) +", match):
        if token.startswith(("!", "{", "options:", "operands:", "values:")) or "*" in token:
            break
        words.append(token.split("|") if token != "[" else [token])
    for number, base in enumerate(product(*words)):
        if number == _MOST_BASES * len(words[0]):
            return
        yield base


# --- what the tools say --------------------------------------------------------------------------


def _options(chosen: Sequence[Base]) -> dict[Base, set[str]]:
    """Return the options of each base: its tables' own, and what its help and manual name."""
    told = dict(_rows())
    questions = {base: _question(base) for base in chosen if base not in _asides(chosen)}
    asked = sorted(set(questions.values()))
    said = {
        outcome.command: set(_OPTION.findall(outcome.output))
        for outcome in run_all([(question, {}) for question in asked], timeout=5)
    }
    return {base: set(told[base]) | said.get(questions.get(base, ""), set()) for base in chosen}


def _asides(chosen: Sequence[Base]) -> set[Base]:
    """Return the bases that differ from another in an option alone: one of them is enough."""
    plain = {base[: _subcommands(base)]: base for base in reversed(chosen)}
    return set(chosen) - set(plain.values())


def _subcommands(base: Base) -> int:
    return next((at for at, word in enumerate(base) if word.startswith("-")), len(base))


def _question(base: Base) -> str:
    """Return the command that makes a tool name its options."""
    name = base[0]
    if name == "git" and len(base) > 1 and not base[1].startswith("-"):
        helper = f"git {base[1]} --git-completion-helper-all"
        asked = f"{helper}; git {base[1]} -h; man git-{base[1]} | col -b"
    elif shutil.which(name, path=PATH) is None:
        asked = f"help {name}"
    else:
        asked = f"{name} --help; man {name} | col -b"
    return f"{{ {asked}; }} 2>&1 | grep -oE -- '[^ ]*--?[[:alnum:]][[:alnum:]_-]*' | sort -u"


def _is_here(name: str) -> bool:
    return shutil.which(name, path=PATH) is not None or name in _builtins()


@cache
def _builtins() -> frozenset[str]:
    with Sandbox() as sandbox:
        outcome = sandbox.run("compgen -b")
    return frozenset(outcome.output.split())
