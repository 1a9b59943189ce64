"""The lines of a text: which of them, in what order, and what to make of them; one pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from aish_lsp.offline.choosing import quoted
from aish_lsp.offline.compose.grammar import (
    Clause,
    Composed,
    Misfit,
    Toolset,
    Value,
    clauses,
    put,
    understand,
)

#: The order of the stages, whatever the order of the clauses.
FILTER, LIMIT, _COLUMN, _CHANGE, _UNIQUE, _SORT, TOP, _SHAPE, _SUM = range(9)

#: Where a column's delimiter goes: into a command of awk, and of sort.
_AWK: Final = "awk\0F"


@dataclass(slots=True)
class LinesRequest:
    """What is wanted of the lines of some files.

    Attributes:
        files: the files, quoted.
        stages: the commands of the pipeline, each with its place in the order.
        address: the lines that sed means by its first argument, if it can say it.
        sorting: the options of sort; None if nothing is sorted.
        delimiter: what separates columns; empty for blanks.
        case: ``-i`` if the case of letters does not matter.
        key: the column that is shown or sorted by.
        words, count: whether words are meant instead of lines, and whether they are counted.
        delete, edit: whether the lines are deleted from the files; what sed does to each line.
        save: the file for the output.
        shown: whether the lines are to be shown, and not changed in the files.
        said: the clauses for the explanation, as the user said them.
    """

    target: Toolset
    files: list[str] = field(default_factory=list)
    stages: list[tuple[int, str]] = field(default_factory=list)
    address: str = ""
    sorting: str | None = None
    key: str = ""
    delimiter: str = ""
    case: str = ""
    words: str = ""
    count: str = ""
    delete: str = ""
    save: str = ""
    edit: str = ""
    shown: bool = False
    said: list[str] = field(default_factory=list)


Effect = Callable[..., None]


def _stage(place: int, command: str) -> Effect:
    """Return what adds a stage, with a number of the clause in it."""

    def add(text: LinesRequest, number: list[Value] | None = None) -> None:
        given = str(number[0].number) if number else "1"
        text.stages.append((place, command.replace("NUMBER", given)))

    return add


def _set(**given: str) -> Effect:
    def add(text: LinesRequest, *_: object) -> None:
        for name, value in given.items():
            put(text, name, value)

    return add


def _sources(text: LinesRequest, found: list[Value]) -> None:
    if text.files:
        raise Misfit("another text, for another clause")
    for one in found:
        if one.kind == "glob" or (
            one.kind == "extension" and not text.target.world.exists(one.text)
        ):
            raise Misfit("not one file")
        text.files += [one.path] if one.path not in text.files else []
        if not text.delimiter:  # What is said comes first, whatever its place.
            text.delimiter = {".csv": ",", ".tsv": "\t"}.get(one.text[-4:].lower(), "")


def _grep(shape: str, *, no: bool = False) -> Effect:
    """Return what adds a filter for a text in a line, at the place that ``shape`` says."""

    def add(text: LinesRequest, found: list[Value]) -> None:
        if len(found) > 1 or re.search(r"[\^$*\[\]\\|+?\n]", found[0].text):
            raise Misfit("this may be an expression")
        pattern = shape.format(re.sub(r"[.]", r"\\.", found[0].text))
        option = "-v " if no else ""
        dash = "-e " if pattern.startswith("-") else ""
        text.stages.append((FILTER, f"grep \0i{option}{dash}{quoted(pattern)}"))
        text.address = f"/{pattern.replace('/', chr(92) + '/')}/{'!' * no}"

    return add


def _empty(pattern: str, *, no: bool) -> Effect:
    def add(text: LinesRequest) -> None:
        text.stages.append((FILTER, f"grep {'-v ' * no}'{pattern}'"))
        text.address = f"/{pattern}/{'!' * no}"

    return add


def _range(text: LinesRequest, first: list[Value], last: list[Value] | None = None) -> None:
    where = ",".join(str(one[0].number) for one in (first, last) if one)
    text.address = where
    text.stages.append((LIMIT, f"sed -n '{where}p'"))


def _end(program: str) -> Effect:
    """Return what adds the first or last lines: of the sorted ones if sorting was said before."""

    def add(text: LinesRequest, number: list[Value] | None = None) -> None:
        count = number[0].number if number else 1
        place = LIMIT if text.sorting is None else TOP
        text.stages.append((place, f"{program} -n {count}"))
        if program == "head" or count == 1:
            text.address = "$" if program == "tail" else "1" if count == 1 else f"1,{count}"

    return add


def _column(text: LinesRequest, number: list[Value] | None = None) -> None:
    put(text, "key", str(number[0].number) if number else "NF")
    text.stages.append((_COLUMN, f"{_AWK} '{{print ${text.key}}}'"))


def _sort(options: str = "", key: str = "") -> Effect:
    def add(text: LinesRequest, number: list[Value] | None = None) -> None:
        known = text.sorting or ""
        text.sorting = "".join(sorted({*known, *options}))
        if number:
            put(text, "key", str(number[0].number))

    return add


_NAMED_DELIMITERS: Final = {
    "comma": ",",
    "colon": ":",
    "semicolon": ";",
    "tab": "\t",
    "space": " ",
    "pipe": "|",
    "dash": "-",
}


def _delimited(text: LinesRequest, found: list[Value]) -> None:
    bare = found[0].text
    one = _NAMED_DELIMITERS.get(bare.lower().removesuffix("s"), bare)
    if len(one) != 1 or one in "\\\n":
        raise Misfit("not one character")
    text.delimiter = one


def _joined(text: LinesRequest, found: list[Value]) -> None:
    other = LinesRequest(text.target)
    _delimited(other, found)
    text.stages.append((_SHAPE, f"paste -s -d {quoted(other.delimiter)} -"))


def _unique_words(text: LinesRequest) -> None:
    put(text, "words", "all")
    text.stages.append((_UNIQUE, "sort -u"))


def _frequent(text: LinesRequest, number: list[Value] | None = None) -> None:
    text.stages.append((_SORT, "sort | uniq -c | sort -rn"))
    text.stages += [(TOP, f"head -n {number[0].number}")] if number else []


def _replaced(text: LinesRequest, old: list[Value], new: list[Value]) -> None:
    if "\n" in old[0].text + new[0].text or len(old) + len(new) > 2:
        raise Misfit("not one line")
    was = re.sub(r"[][\\.*^$/]", r"\\\g<0>", old[0].text)
    becomes = re.sub(r"[\\/&]", r"\\\g<0>", new[0].text)
    put(text, "edit", f"s/{was}/{becomes}/g")


#: What the clauses add; $1 stands for the only column that is left.
EFFECTS: Final[Mapping[str, Effect]] = {
    "source": _sources,
    "contain": _grep("{}"),
    "not_contain": _grep("{}", no=True),
    "starting": _grep("^{}"),
    "not_starting": _grep("^{}", no=True),
    "ending": _grep("{}$"),
    "blank": _empty("^[[:space:]]*$", no=False),
    "empty": _empty("^$", no=False),
    "not_blank": _empty("^[[:space:]]*$", no=True),
    "not_empty": _empty("^$", no=True),
    "any_case": _set(case="-i "),
    "range": _range,
    "one": _range,
    "first": _end("head"),
    "last": _end("tail"),
    "even": _stage(LIMIT, "awk 'NR % 2 == 0'"),
    "odd": _stage(LIMIT, "awk 'NR % 2 == 1'"),
    "every": _stage(LIMIT, "awk 'NR % NUMBER == 0'"),
    "longer": _stage(FILTER, "awk 'length > NUMBER'"),
    "shorter": _stage(FILTER, "awk 'length < NUMBER'"),
    "column": _column,
    "delimiter": _delimited,
    "csv": _set(delimiter=","),
    "unique": _stage(_UNIQUE, "sort -u"),
    "duplicated": _stage(_UNIQUE, "sort | uniq -d"),
    "words": _set(words="all"),
    "unique_words": _unique_words,
    "sort": _sort(),
    "numeric": _sort("n"),
    "reverse": _sort("r"),
    "by_column": _sort(),
    "frequent": _frequent,
    "each": _stage(_SORT, "sort | uniq -c"),
    "count": _set(count="all"),
    "number": _stage(_SHAPE, "nl -ba"),
    "longest": _stage(TOP, "awk 'length > n {n = length; l = $0} END {print l}'"),
    "sum": _stage(_SUM, "awk '{n += $1} END {print n + 0}'"),
    "average": _stage(_SUM, "awk '{n += $1} END {if (NR) print n / NR}'"),
    "maximum": _stage(_SUM, "awk 'NR == 1 || $1 > n {n = $1} END {print n}'"),
    "minimum": _stage(_SUM, "awk 'NR == 1 || $1 < n {n = $1} END {print n}'"),
    "upper": _stage(_CHANGE, "tr '[:lower:]' '[:upper:]'"),
    "lower": _stage(_CHANGE, "tr '[:upper:]' '[:lower:]'"),
    "mirrored": _stage(_SHAPE, "rev"),
    "joined": _joined,
    "replaced": _replaced,
    "deleted": _set(delete="all"),
    "save": lambda text, found: put(text, "save", found[0].path),
}


@cache
def _rules() -> list[Clause]:
    return [
        Clause(ways, EFFECTS[name], tells=name != "source")
        for name, ways in clauses("lines").items()
    ]


def read_lines(sentence: str, target: Toolset, also: Collection[str] = ()) -> LinesRequest:
    """Return what ``sentence`` says of lines; the words of ``also`` may be passed over, too.

    Raises:
        Misfit: some of it is not understood.
    """
    wanted = LinesRequest(target)
    text = understand(sentence, "lines", _rules(), wanted, also)
    wanted.shown = re.match(r"(?:print|show|display|output|list)", text, re.IGNORECASE) is not None
    return wanted


def composed_lines(wanted: LinesRequest) -> Composed:
    """Return the command for the lines that are wanted.

    Raises:
        Misfit: it names no file, or its parts do not go together.
    """
    if not wanted.files:
        raise Misfit("no file is named")
    if wanted.delete or (wanted.edit and not wanted.shown and not wanted.save):
        return _edited(wanted)
    return _shown(wanted)


def _edited(text: LinesRequest) -> Composed:
    """Return the command that changes the files themselves."""
    script = text.edit or f"{text.address}d"
    alone = len(text.stages) == bool(text.delete) and not (text.edit and text.delete)
    if not alone or (text.delete and not text.address) or text.case or text.count or text.save:
        raise Misfit("this cannot be done in the file")
    if text.sorting is not None or text.words or text.key:
        raise Misfit("this cannot be done in the file")
    flag = "-i" if text.target.gnu else "-i ''"
    names = " ".join(text.files)
    does = "Replaces the text" if text.edit else "Deletes these lines"
    return Composed(f"sed {flag} {quoted(script)} {names}", f"{does} in {names} itself.")


def _shown(text: LinesRequest) -> Composed:
    """Return the pipeline that shows what is wanted, and leaves the files as they are."""
    stages = list(text.stages)
    if text.edit:
        stages.append((_CHANGE, f"sed {quoted(text.edit)}"))
    if text.words and not (text.count and not stages):
        stages.append((_COLUMN, r"tr -cs '[:alnum:]' '\n'"))
    is_sorted = text.sorting == text.key == "" and (_UNIQUE, "sort -u") in stages
    if text.sorting is not None and not is_sorted:
        stages.append((_SORT, _sorted(text)))
    if text.count:
        stages.append((_SUM, "wc -w" if text.words and not stages else "wc -l"))
    if not stages:
        raise Misfit("nothing is wanted of the lines")
    if text.case and not any("\0i" in command for _, command in stages):
        raise Misfit("nothing to ignore the case of")
    places = [place for place, _ in stages if place in (LIMIT, _COLUMN, _UNIQUE, _SORT, _SUM)]
    if len(set(places)) < len(places):
        raise Misfit("two of a kind")
    commands = [_with_options(command, text) for _, command in sorted(stages, key=lambda s: s[0])]
    if len(commands) == 2 and commands[0].startswith("grep ") and commands[1] == "wc -l":
        commands = [commands[0].replace("grep ", "grep -c ", 1)]
    save = f" > {text.save}" if text.save else ""
    if text.save in text.files:
        raise Misfit("the output would overwrite its input")
    return Composed(
        f"{_fed(commands, text.files)}{save}",
        f"Of {', '.join(text.files)}: {'; '.join(text.said)}.",
    )


def _sorted(text: LinesRequest) -> str:
    """Return the command that sorts, by a column if one is named."""
    if text.key and any(place == _COLUMN for place, _ in text.stages):
        text.key = ""
    options = f" -{text.sorting}" if text.sorting else ""
    key = f" -k {text.key},{text.key}" if text.key else ""
    return f"sort{options}" + (f"\0T{key}" if key else "")


def _with_options(command: str, text: LinesRequest) -> str:
    awk = f" -F {quoted(text.delimiter)}" if text.delimiter else ""
    sort = f" -t {quoted(text.delimiter)}" if text.delimiter else ""
    return command.replace("\0i", text.case).replace("\0F", awk).replace("\0T", sort)


def _fed(commands: list[str], files: list[str]) -> str:
    """Return the pipeline with the files for its first command."""
    first, *others = commands
    names = " ".join(files)
    program, bar, rest = first.partition(" | ")
    if len(files) > 1:  # Some programs would name the files in their output.
        started = f"cat {names} | {program}"
    elif program.split()[0] in ("tr", "wc", "paste"):
        started = f"{program} < {names}"
    else:
        started = f"{program} {names}"
    return " | ".join([f"{started}{bar}{rest}", *others])
