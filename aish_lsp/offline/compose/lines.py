"""The lines of a text: which of them, in what order, and what to make of them; one pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import field
from functools import cache
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.choosing import overwrites_its_input, quoted
from aish_lsp.offline.compose.grammar import (
    Clause,
    Composed,
    Misfit,
    Toolset,
    Value,
    clauses,
    put,
    spoken,
    understand,
    values_of,
)
from aish_lsp.offline.words import data

#: The order of the stages, whatever the order of the clauses.
_SKIP, FILTER, LIMIT, _COLUMN, _CHANGE, _UNIQUE, _SORT, TOP, _SHAPE, _SUM = range(10)

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
        case: options of grep: ``-i`` if the case of letters does not matter, ``-A 2``.
        header: whether the first line stays at the top.
        numbered: whether the numbers of the lines are shown.
        key: the column that is shown or sorted by.
        words, count: whether words are meant instead of lines, and whether they are counted.
        delete, edit: whether the lines are deleted from the files; what sed does to each line.
        save: the file for the output.
        shown: whether the lines are to be shown, and not changed in the files.
        said: the sentences for the explanation, as the user said them.
    """

    target: Toolset
    files: list[str] = field(default_factory=list)
    stages: list[tuple[int, str]] = field(default_factory=list)
    address: str = ""
    sorting: str | None = None
    key: str = ""
    delimiter: str = ""
    case: str = ""
    header: str = ""
    numbered: str = ""
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
        if text.target.world.is_folder(one.text):
            raise Misfit("a folder has no lines")
        if one.kind == "glob" or (
            one.kind == "extension" and not text.target.world.exists(one.text)
        ):
            raise Misfit("not one file")
        text.files += [one.path] if one.path not in text.files else []
        if not text.delimiter:  # What is said comes first, whatever its place.
            text.delimiter = {".csv": ",", ".tsv": "\t"}.get(one.text[-4:].lower(), "")


def _grep(shape: str, option: str = "", *, both: bool = False) -> Effect:
    """Return what adds a filter for texts in a line, at the place that ``shape`` says.

    One of several texts is enough, unless ``both`` have to be there.
    """

    def add(text: LinesRequest, *found: list[Value]) -> None:
        texts = [one[0].text for one in found if one]
        if any(re.search(r"[\^$*\[\]\\|+?\n]", one) for one in texts):
            raise Misfit("this may be an expression")
        patterns = [shape.format(re.sub(r"[.]", r"\\.", one)) for one in texts]
        text.address = f"/{patterns[0].replace('/', chr(92) + '/')}/{'!' * (option == '-v ')}"
        if len(patterns) > 1 or FILTER in dict(text.stages):
            text.address = ""
        for some in [[one] for one in patterns] if both else [patterns]:
            dash = "-e " if len(some) > 1 or some[0].startswith("-") else ""
            said = " ".join(f"{dash}{quoted(one)}" for one in some)
            text.stages.append((FILTER, f"grep \0i{option}{said}"))

    return add


def _context(option: str) -> Effect:
    """Return what shows lines beside those that are found."""

    def add(text: LinesRequest, number: list[Value], found: list[Value] | None = None) -> None:
        put(text, "case", f"{text.case}-{option} {number[0].number if number else 1} ")
        if found:
            _grep("{}")(text, found)

    return add


def _where(test: str) -> Effect:
    """Return what compares a column with a number or a text."""

    def add(text: LinesRequest, *found: list[Value]) -> None:
        column, one = (values[0] for values in found if values)
        is_number = one.kind == "number"
        if not is_number and (test != "==" or re.search(r'["\\]', one.text)):
            raise Misfit("no number")
        value = str(one.number) if is_number else f'"{one.text}"'
        script = f"${column.number} {test} {value}"
        text.stages.append((FILTER, f"{_AWK} {quoted(script)}"))

    return add


def _between(text: LinesRequest, first: list[Value], last: list[Value]) -> None:
    ends = [re.sub(r"[][\\.*^$/]", r"\\\g<0>", one[0].text) for one in (first, last)]
    text.address = f"/{ends[0]}/,/{ends[1]}/"
    text.stages.append((LIMIT, f"sed -n {quoted(f'{text.address}p')}"))


def _empty(pattern: str, *, no: bool) -> Effect:
    def add(text: LinesRequest) -> None:
        text.stages.append((FILTER, f"grep \0i{'-v ' * no}'{pattern}'"))
        text.address = f"/{pattern}/{'!' * no}"

    return add


def _range(text: LinesRequest, first: list[Value], last: list[Value] | None = None) -> None:
    where = ",".join(str(one[0].number) for one in (first, last) if one)
    text.address = where
    text.stages.append((LIMIT, f"sed -n '{where}p'"))


def _several(text: LinesRequest, numbers: list[Value]) -> None:
    text.address = "d;".join(str(one.number) for one in numbers)
    text.stages.append((LIMIT, f"sed -n '{text.address.replace('d', 'p')}p'"))


def _end(program: str) -> Effect:
    """Return what adds the first or last lines: of the sorted ones if sorting was said before."""

    def add(text: LinesRequest, number: list[Value] | None = None) -> None:
        count = number[0].number if number else 1
        place = LIMIT if text.sorting is None else TOP
        text.stages.append((place, f"{program} -n {count}"))
        if program == "head" or count == 1:
            text.address = "$" if program == "tail" else "1" if count == 1 else f"1,{count}"

    return add


def _column(text: LinesRequest, *found: list[Value]) -> None:
    number = next((one for one in found if one), None)
    put(text, "key", str(number[0].number) if number else "NF")
    text.stages.append((_COLUMN, f"{_AWK} '{{print ${text.key}}}'"))


def _columns(text: LinesRequest, numbers: list[Value]) -> None:
    wanted = [one.number for one in numbers]
    put(text, "key", str(wanted[0]))
    text.stages.append((_COLUMN, "\0C" + ",".join(map(str, wanted))))


def _first_columns(text: LinesRequest, number: list[Value]) -> None:
    _columns(text, [Value(str(one + 1), "number") for one in range(min(number[0].number, 20))])


def _sort(options: str = "") -> Effect:
    def add(text: LinesRequest, *found: list[Value]) -> None:
        known = text.sorting or ""
        text.sorting = "".join(sorted({*known, *options}))
        for number in filter(None, found):
            put(text, "key", str(number[0].number))

    return add


def _ranked(options: str) -> Effect:
    def add(text: LinesRequest, count: list[Value], *column: list[Value]) -> None:
        _sort(options)(text, *column)
        text.stages.append((TOP, f"head -n {count[0].number if count else 1}"))

    return add


def _times(text: LinesRequest, number: list[Value] | None = None) -> None:
    count = number[0].number if number else 2
    text.stages.append((_UNIQUE, f"sort | uniq -c | sed -n 's/^ *{count} //p'"))


def _each(text: LinesRequest, *column: list[Value]) -> None:
    if any(column):
        _column(text, *column)
    text.stages.append((_SORT, "sort | uniq -c"))


def _occurrences(text: LinesRequest, found: list[Value]) -> None:
    put(text, "count", "all")
    _grep("{}", "-o ")(text, found)


def _edit(script: str) -> Effect:
    """Return what changes each line: NUMBER and TEXT are those of the clause."""

    def add(text: LinesRequest, *found: list[Value]) -> None:
        one = next((values[0] for values in found if values), Value("1", "number"))
        given = re.sub(r"[\\/&\n]", r"\\\g<0>", one.text)
        number = str(one.number) if one.kind == "number" else "1"
        put(text, "edit", script.replace("NUMBER", number).replace("TEXT", given))

    return add


def _named(name: str) -> str:
    """Return the character that ``name`` names, or else ``name`` itself."""
    return str(data("effects")["delimiters"].get(name.lower().removesuffix("s"), name))


def _delimited(text: LinesRequest, found: list[Value]) -> None:
    bare = found[0].text
    one = _named(bare)
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


def _in_order(text: LinesRequest) -> None:
    text.stages = [stage for stage in text.stages if stage[0] != _UNIQUE]
    text.stages.append((_UNIQUE, "awk '!seen[$0]++'"))


def _frequent(text: LinesRequest, number: list[Value] | None = None) -> None:
    text.stages.append((_SORT, "sort | uniq -c | sort -rn"))
    text.stages.append((TOP, f"head -n {number[0].number if number else 1}"))


def _replaced(text: LinesRequest, old: list[Value], new: list[Value]) -> None:
    was, becomes = _only(old), _only(new)
    _put_replacement(
        text, *(_named(one.text) if one.kind == "word" else one.text for one in (was, becomes))
    )


def _replaced_text(text: LinesRequest, old: list[Value], new: list[Value]) -> None:
    """Replace a word that is called one: "the word comma" is no comma."""
    _put_replacement(text, _only(old).text, _only(new).text)


def _only(values: list[Value]) -> Value:
    if len(values) != 1:
        raise Misfit("several texts")
    return values[0]


def _put_replacement(text: LinesRequest, old_text: str, new_text: str) -> None:
    if "\n" in old_text + new_text:
        raise Misfit("not one line")
    was = re.sub(r"[][\\.*^$/]", r"\\\g<0>", old_text).replace("\t", r"\t")
    becomes = re.sub(r"[\\/&]", r"\\\g<0>", new_text).replace("\t", r"\t")
    put(text, "edit", f"s/{was}/{becomes}/g")


#: What the clauses add that effects.toml does not say.
_OWN: Final[dict[str, Effect]] = {
    "source": _sources,
    "contain": _grep("{}"),
    "contain_both": _grep("{}", both=True),
    "not_contain": _grep("{}", "-v "),
    "before": _context("B"),
    "after": _context("A"),
    "around": _context("C"),
    "between": _between,
    "more": _where(">"),
    "less": _where("<"),
    "at_least": _where(">="),
    "at_most": _where("<="),
    "equal": _where("=="),
    "top_by": _ranked("nr"),
    "bottom_by": _ranked("n"),
    "in_order": _in_order,
    "starting": _grep("^{}"),
    "not_starting": _grep("^{}", "-v "),
    "ending": _grep("{}$"),
    "blank": _empty("^[[:space:]]*$", no=False),
    "empty": _empty("^$", no=False),
    "not_blank": _empty("^[[:space:]]*$", no=True),
    "not_empty": _empty("^$", no=True),
    "not_comments": _stage(FILTER, "grep -v '^[[:space:]]*\0K'"),
    "any_case": lambda text: put(text, "case", "-i "),
    "range": _range,
    "one": _range,
    "several": _several,
    "first": _end("head"),
    "last": _end("tail"),
    "column": _column,
    "columns": _columns,
    "first_columns": _first_columns,
    "delimiter": _delimited,
    "twice": _times,
    "times": _times,
    "unique_words": _unique_words,
    "sort": _sort(),
    "numeric": _sort("n"),
    "reverse": _sort("r"),
    "by_column": _sort(),
    "frequent": _frequent,
    "each": _each,
    "occurrences": _occurrences,
    "joined": _joined,
    "replaced": _replaced,
    "replaced_text": _replaced_text,
    "save": lambda text, found: put(text, "save", found[0].path),
}


@cache
def effects() -> dict[str, Effect]:
    """Return what each clause adds to a request."""
    known = data("effects")
    stages = {name: _stage(at, does) for name, (at, does) in known["stages"].items()}
    edits = {name: _edit(script) for name, script in known["edits"].items()}
    return stages | edits | {name: _set(**given) for name, given in known["lines"].items()} | _OWN


@cache
def _rules() -> list[Clause]:
    return [Clause(ways, effects()[name]) for name, ways in clauses("lines").items()]


_NTH: Final = r"((?:\d+(?:st|nd|rd|th)|first|second|third|fourth|fifth|last) (?:column|field))"
#: What tells the name of a column: ", the city is the third column", "age (2nd column)".
_CALLED_COLUMN: Final = re.compile(
    rf"[,;.(]\s*(?:and |where )?(?:the )?(\w+) is (?:in )?(?:the )?{_NTH}\b\)?"
    rf"|\s(\w+) \((?:the )?{_NTH}\)",
    re.IGNORECASE,
)


#: How a request begins that tells to do something, and is no question.
_DOES: Final = re.compile(
    r"(?:print|show|display|output|list|count|sort|order|find|search|get|see|read|remove|delete|drop"
    r"|replace|substitute|change|convert|turn|sum|add|number(?! of)|reverse|extract|skip|exclude"
    r"|join|keep|take|calculate|compute|save|write|filter|grep|put|append|prepend|insert|strip"
    r"|cut) ",
    re.IGNORECASE,
)
_OF_LINES: Final = re.compile(r"\b(?:lines?|rows?|records?|headers?|duplicate\w*|comments?)\b")
_SHOWS: Final = re.compile(r"(?:print|show|display|output|list)", re.IGNORECASE)
_THEN_SHOWS: Final = re.compile(rf"\b(?:and|then)\s+{_SHOWS.pattern}\b", re.IGNORECASE)


def read_lines(sentence: str, target: Toolset, also: Collection[str] = ()) -> LinesRequest:
    """Return what ``sentence`` says of lines; the words of ``also`` may be passed over, too.

    Raises:
        Misfit: some of it is not understood.
    """
    wanted = LinesRequest(target)
    if found := _CALLED_COLUMN.search(sentence):
        name, column = (found[1], found[2]) if found[1] else (found[3], found[4])
        rest = f"{sentence[: found.start()]}{f' {name}' * bool(found[3])}{sentence[found.end() :]}"
        sentence = re.sub(rf"\b(?:the )?{name}s?\b", f"the {column}", rest)
    text = understand(sentence, "lines", _rules(), wanted, also)
    if wanted.delete and not _OF_LINES.search(text):
        raise Misfit("it does not say that lines are to be deleted, and not the file")
    wanted.said = [spoken(*values_of(sentence, target.world))]
    wanted.shown = _SHOWS.match(text) is not None or " replaced " in text
    if wanted.edit and not wanted.shown and _THEN_SHOWS.search(text):
        raise Misfit("a change of the file, and what to show of it then")
    return wanted


#: A file that is no text: an archive, a picture, a program.
_NO_TEXT: Final = re.compile(
    r"\.(?:tar|t?gz|zip|bz2|xz|zst|7z|rar|png|jpe?g|gif|webp|pdf|mp[34]|iso|bin|so|exe)'?$",
    re.IGNORECASE,
)


def composed_lines(wanted: LinesRequest) -> Composed:
    """Return the command for the lines that are wanted.

    Raises:
        Misfit: it names no file, or its parts do not go together.
    """
    if not wanted.files:
        raise Misfit("no file is named")
    if any(map(_NO_TEXT.search, wanted.files)):
        raise Misfit("a file without lines")
    if wanted.delete or (wanted.edit and not wanted.shown and not wanted.save):
        return _edited(wanted)
    return _shown(wanted)


def _edited(text: LinesRequest) -> Composed:
    """Return the command that changes the files themselves."""
    script = f"{text.address}{text.edit or 'd'}"
    alone = len(text.stages) == bool(text.address) and not (text.edit and text.delete)
    alone = alone and not (text.edit and ";" in text.address)
    if not alone or not (text.edit or text.address) or text.case or text.count or text.save:
        raise Misfit("this cannot be done in the file")
    if text.header or text.numbered or text.sorting is not None or text.words or text.key:
        raise Misfit("this cannot be done in the file")
    flag = "-i" if text.target.gnu else "-i ''"
    names = " ".join(text.files)
    itself = "the file itself" if len(text.files) == 1 else "the files themselves"
    return Composed(f"sed {flag} {quoted(script)} {names}", f"{_asked(text)[:-1]}, in {itself}:")


def _shown(text: LinesRequest) -> Composed:
    """Return the pipeline that shows what is wanted, and leaves the files as they are."""
    stages = _stages(text)
    if not stages:
        raise Misfit("nothing is wanted of the lines")
    if text.case and not any("\0i" in command for _, command in stages):
        raise Misfit("nothing to ignore the case of")
    places = [place for place, _ in stages if place in (LIMIT, _COLUMN, _UNIQUE, _SORT, _SUM)]
    if len(set(places)) < len(places):
        raise Misfit("two of a kind")
    commands = [_with_options(command, text) for _, command in sorted(stages, key=lambda s: s[0])]
    if len(commands) == 2 and re.match("grep (?!-o)", commands[0]) and commands[1] == "wc -l":
        commands = [commands[0].replace("grep ", "grep -c ", 1)]
    shown = _fed(commands, text.files)
    if text.header:
        if len(text.files) > 1 or text.numbered or text.count:
            raise Misfit("no header to keep")
        below = _fed(["tail -n +2", *commands], text.files)
        shown = f"{{ head -n 1 {text.files[0]}; {below}; }}"
    save = f" > {text.save}" if text.save else ""
    command = f"{shown}{save}"
    if overwrites_its_input(command):
        raise Misfit("the output would overwrite its input")
    return Composed(command, _asked(text))


def _asked(text: LinesRequest) -> str:
    """Return what introduces the command: what was asked for, never at the start of a line."""
    said = "; ".join(text.said)
    return f"To {said[0].lower()}{said[1:]}:" if _DOES.match(said) else f"For “{said}”:"


def _stages(text: LinesRequest) -> list[tuple[int, str]]:
    """Return the commands, each with its place: those of the clauses, and what they need."""
    stages = list(text.stages)
    if text.numbered:
        _number(text, stages)
    if text.edit:
        stages.append((_CHANGE, f"sed {quoted(text.edit)}"))
    if text.words and not (text.count and not stages):
        stages.append((_COLUMN, r"tr -cs '[:alnum:]' '\n'"))
    is_sorted = text.sorting == text.key == "" and (_UNIQUE, "sort -u") in stages
    if text.sorting is not None and not is_sorted:
        stages.append((_SORT, _sorted(text)))
    if text.count:
        stages.append((_SUM, "wc -w" if text.words and not stages else "wc -l"))
    return stages


def _number(text: LinesRequest, stages: list[tuple[int, str]]) -> None:
    """Let the lines be shown with their numbers in the file."""
    if [place for place, _ in stages] == [FILTER] and stages[0][1].startswith("grep"):
        text.case += "-n "
    elif stages and all(command.startswith("sed -n") for _, command in stages):
        stages.append((_SKIP, "nl -ba"))
    elif all(command.startswith("head") for _, command in stages):
        stages.append((_SHAPE, "nl -ba"))
    else:
        raise Misfit("numbers of other lines")


def _sorted(text: LinesRequest) -> str:
    """Return the command that sorts, by a column if one is named."""
    if text.key and any(place == _COLUMN for place, _ in text.stages):
        text.key = ""
    options = f" -{text.sorting}" if text.sorting else ""
    key = f" -k {text.key},{text.key}" if text.key else ""
    return f"sort{options}" + (f"\0T{key}" if key else "")


def _with_options(command: str, text: LinesRequest) -> str:
    delimiter = quoted(text.delimiter)
    awk, sort = (f" -F {delimiter}", f" -t {delimiter}") if text.delimiter else ("", "")
    if command.startswith("\0C"):
        numbers = command[2:].split(",")
        if text.delimiter and numbers == sorted(set(numbers), key=int):
            return f"cut -d {delimiter} -f {','.join(numbers)}"
        out = f" -v OFS={delimiter}" if text.delimiter else ""
        return f"awk{awk}{out} '{{print {', '.join(f'${one}' for one in numbers)}}}'"
    mark = data("effects")["comments"].get(text.files[0].rpartition(".")[2], "#")
    command = command.replace("\0K", mark)
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
