"""Files and folders: which of them, what to show of them or do with them, by ``find``.

The tables below are the grammar: a row is a clause, and what it adds to the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Final

from aish_lsp.offline.choosing import quoted
from aish_lsp.offline.compose.grammar import (
    ANYBODY,
    MODE,
    Clause,
    Composed,
    Misfit,
    Toolset,
    Value,
    clauses,
    put,
    understand,
)
from aish_lsp.offline.compose.predicates import Make, Things, called, extensions, named, predicates
from aish_lsp.offline.compose.rendering import LIMITED, explained, folders_by_size, rendered
from aish_lsp.offline.words import data

_LEAD: Final = (
    "(?:(?:that|which|who|whose|and|but|if they|they|are|is|were|was|have|has|had|been|be) )*"
)
_NOT: Final = (
    rf"(or )?{_LEAD}(?:(?:do |does )?"
    rf"(not |no |non-|(?:do|does|are|is|have|has|were|was)n't |without ))?{_LEAD}"
)


#: How an explanation repeats a predicate, and those that it tells in the words of ``find`` instead.
_ONLY: Final = "only those {}"
_OF_NAMES: Final = frozenset({"name", "begins", "ends", "contains", "contains_but", "extension"})


def _predicate(name: str, make: Make) -> Clause:
    """Return the rule of a predicate, which may be negated."""

    def add(things: Things, either: list[Value], no: list[Value], *found: list[Value]) -> None:
        tests = make(things, *(one for one in found if one))
        if no:
            tests = [f"-not {tests[0]}"] if len(tests) == 1 else [rf"-not \( {' '.join(tests)} \)"]
        if either:
            other = _alone(things)
            if (tells == "") != (" -name " in f" {other} "):
                raise Misfit("a name, or something else")
            tests = [rf"\( {other} -o {' '.join(tests)} \)"]
        things.tests += tests

    tells = "" if name in _OF_NAMES else _ONLY
    return Clause(clauses("predicates", _NOT)[name], add, tells)


def _alone(things: Things) -> str:
    """Return the only test so far, besides that of what the things are called, and take it away."""
    said = [test for test in things.tests if test != things.these]
    if len(said) != 1 or "-exec" in said[0]:
        raise Misfit("both, or one of them")
    things.tests.remove(said[0])
    return said[0]


def _set(**given: str) -> Callable[..., None]:
    """Return what sets attributes of the request to fixed values."""

    def add(things: Things, *_: object) -> None:
        for name, value in given.items():
            put(things, name, value)

    return add


#: What files are in is a folder; only these cannot be one.
_ARCHIVE: Final = re.compile(r"\.(?:zip|tar|tgz|gz|bz2|xz|7z|rar|jar|deb|iso)$", re.IGNORECASE)


def _roots(things: Things, *found: list[Value]) -> None:
    for one in (one for many in found for one in many):
        world = things.target.world
        is_file = world.exists(one.text) and not world.is_folder(one.text)
        if is_file or any(mark in one.text for mark in "$\\\n*?[") or _ARCHIVE.search(one.text):
            raise Misfit(one.text)
        if one.path not in things.roots:
            things.roots.append(one.path)


def _root(path: str) -> Callable[..., None]:
    return lambda things, *_: _roots(things, [Value(path)])


def _of_format(things: Things, found: list[Value]) -> None:
    put(things, "kind", "f")
    _put_these(things, extensions(things, found))


def _put_these(things: Things, tests: list[str]) -> None:
    """Add what the things are called; other names elsewhere would be of other things."""
    if not things.these:
        things.tests += tests
    put(things, "these", " ".join(tests))


def _these(kind: str) -> Callable[..., None]:
    def add(things: Things, found: list[Value]) -> None:
        put(things, "kind", kind)
        if kind == "any" and any(one.text[:1] == "." for one in found):
            raise Misfit("the end of a name, or a name")
        if kind == "f" and any(one.text.isupper() and one.text.isalnum() for one in found):
            raise Misfit("a format that is not known, or a name")
        _put_these(things, (called if kind == "d" else named)(things, found))

    return add


def _excluded(things: Things, found: list[Value]) -> None:
    """Leave out what has one of these names, and what is in such a folder."""
    for one in found:
        bare = one.text.strip("/").removeprefix("./")
        if one.kind in ("extension", "format"):
            bare = f"*.{one.extension}"
        elif not re.search(r"[*?[]", bare):
            things.spared.append(one.text)
        if "/" in bare:
            # A path from a root has to be written in full: ./src/x is not */src/x alone.
            things.tests.append(
                f"-not -path {quoted(f'*{bare}' if one.text[0] == '/' else f'*/{bare}')}"
            )
        else:
            things.tests.append(f"-not -name {quoted(bare)}")
        if not re.search(r"[*?]|\w\.\w", bare):
            things.tests.append(f"-not -path {quoted(f'*/{bare}/*')}")


def _excluded_folder(things: Things, found: list[Value], *_: list[Value]) -> None:
    """Leave out these folders and what is in them."""
    for one in found:
        bare = one.text.strip("/").removeprefix("./")
        things.tests += [f"-not -name {quoted(bare)}"] if "/" not in bare else []
        things.tests.append(f"-not -path {quoted(f'*/{bare}/*')}")


def _excluded_path(things: Things, found: list[Value], *_: list[Value]) -> None:
    """Leave out each whose path contains one of the texts."""
    for one in found:
        if one.text.startswith("./") or re.search(r"[][\\]", one.text):
            raise Misfit(one.text)
        text = one.text.strip("*")
        things.tests.append(f"-not -path {quoted(f'*{text}*')}")


def _least(things: Things, number: list[Value]) -> None:
    put(things, "least", str(number[0].number))


def _deepest(things: Things, number: list[Value]) -> None:
    put(things, "depth", str(number[0].number))


def _content(option: str) -> Callable[..., None]:
    def add(things: Things, found: list[Value], *_: object) -> None:
        if len(found) > 1:
            raise Misfit("two texts")
        text = found[0]
        pattern = f"-e {text.quoted}" if text.text.startswith("-") else text.quoted
        plain = re.fullmatch(r"[\w\s:;,@%/='\"!#&<>-]*", text.text)
        put(things, "content", f"{option}{'' if plain else 'F'} {pattern}")

    return add


def _limited(want: str) -> Callable[..., None]:
    def add(things: Things, number: Sequence[Value] = ()) -> None:
        put(things, "want", want)
        things.number = str(number[0].number) if number else things.number

    return add


def _sized(things: Things) -> None:
    """Want the sizes as well, if some or an order are wanted already."""
    if things.want in ("largest", "smallest"):
        put(things, "lists", "numbers")
    elif things.want not in ("by_size", "by_size_up"):
        put(things, "want", "sizes")


def _ordered(want: str, of: str) -> Callable[..., None]:
    """Return what sorts, if what is limited is not in that order anyway."""

    def add(things: Things) -> None:
        if things.want in ("sizes", of):
            things.want = want if things.want == "sizes" else of
        else:
            put(things, "want", want)

    return add


def _by_count(things: Things) -> None:
    if things.sort not in data("effects")["per"]:
        raise Misfit("nothing is counted by groups")


def _end(program: str) -> Callable[..., None]:
    return lambda things, number: put(things, "end", f"{program} -n {number[0].number}")


def _level_down(things: Things, *found: list[Value]) -> None:
    number, roots = (many for many in found if many)
    put(things, "depth", str(number[0].number))
    _roots(things, roots)


def _fields(things: Things, said: list[Value]) -> None:
    if not things.target.gnu:
        raise Misfit("-printf is GNU's")
    known = data("effects")["fields"]
    words = re.findall(rf"\b({'|'.join(known)})", " ".join(one.text for one in said))
    put(things, "lists", " ".join(known[word] for word in words))


def _search_files(things: Things, found: list[Value]) -> None:
    """Take what is searched for in files, of which nothing else is said to be wanted."""
    if things.kind != "f" or things.these or things.tests:
        raise Misfit("a name or a text")
    _content("-H")(things, found)


def _content_shown(option: str) -> Callable[..., None]:
    """Return what asks for the lines with the text, or for the names of the files with it."""

    def add(things: Things) -> None:
        if not things.content.startswith(("-l", "-H")):
            raise Misfit("no text is looked for")
        things.content = option + things.content[2:]

    return add


def _line_numbers(things: Things) -> None:
    if not things.content.startswith(("-H", "-l")):
        raise Misfit("no lines are shown")
    things.content = f"-Hn{things.content[2:]}"


def _only_with_act(*acts: str) -> Callable[..., None]:
    def add(things: Things) -> None:
        if not things.act.startswith(acts):
            raise Misfit("not of this action")

    return add


def _count_matches(things: Things, found: list[Value]) -> None:
    put(things, "want", "count")
    _content("-H")(things, found)


def _to(act: str) -> Callable[..., None]:
    def add(things: Things, found: list[Value]) -> None:
        put(things, "act", act)
        put(things, "to", found[0].path if len(found) == 1 else _misfit())

    return add


#: What the value of an action has to look like.
_SHAPES: Final = {
    "chmod": MODE,
    "extension": re.compile(r"\.?\w[\w.]*"),
    "prefix": re.compile(r"[^-/\0\n][^/\0\n]*"),
}


def _act(act: str) -> Callable[..., None]:
    """Return what sets an action and its value, which is no option."""

    def add(things: Things, *found: list[Value]) -> None:
        put(things, "act", act)
        one = next(many for many in found if many)
        if len(one) > 1 or not _SHAPES.get(act, ANYBODY).fullmatch(one[0].text):
            raise Misfit(one[0].text)
        if act == "extension" and (one[0].kind != "extension" or things.kind in ("d", "l", "any")):
            raise Misfit("no extension")
        put(things, "to", one[0].extension if act == "extension" else one[0].quoted)

    return add


def _run(things: Things, found: list[Value]) -> None:
    words = shlex.split(found[0].text)
    if not words or any(not re.fullmatch(r"[\w/][\w./=-]*|-[\w=./-]+", word) for word in words):
        raise Misfit(found[0].text)
    put(things, "act", f"-exec {' '.join(words)} {{}} \\;")


def _misfit() -> str:
    raise Misfit


def _replace(things: Things, old: list[Value], new: list[Value]) -> None:
    def escaped(one: Value, characters: str) -> str:
        if "\n" in one.text:
            raise Misfit("a line break")
        return re.sub(characters, r"\\\g<0>", one.text)

    was, becomes = escaped(old[0], r"[][\\.*^$/]"), escaped(new[0], r"[\\/&]")
    script = f"s/{was}/{becomes}/g"
    flag = "-i" if things.target.gnu else "-i ''"
    put(things, "act", f"-exec sed {flag} {quoted(script)} {{}} +")


def _holds(things: Things, either: list[Value], no: list[Value], *found: list[Value]) -> None:
    if either:
        raise Misfit("a text, or something else")
    _content("-L" if no else "-l")(things, next(one for one in found if one))


def _moved(things: Things, found: list[Value]) -> None:
    """Take what something already named is copied, moved or changed to."""
    if things.act in ("copy", "move", "archive"):
        _to(things.act)(things, found)
    elif things.act in ("chmod", "chown", "chown_both", "chgrp", "extension"):
        _act(things.act)(things, found)
    elif things.lists == "saved" or things.want == "cat":
        put(things, "save", found[0].path if len(found) == 1 else _misfit())
    else:
        raise Misfit("nothing goes there")


def _matching_files(things: Things, found: list[Value]) -> None:
    put(things, "kind", "f")
    _content("-H")(things, found)


def _broken(things: Things) -> None:
    put(things, "kind", "l")
    things.tests.append("-xtype l" if things.target.gnu else r"\! -exec test -e {} \;")


def _matches_at(things: Things, text: list[Value], places: list[Value]) -> None:
    _matching_files(things, text)
    _roots(things, places)


def _matches_in(things: Things, text: list[Value], names: list[Value]) -> None:
    _content("-H")(things, text)
    (_of_format if names[0].kind == "format" else _these("f"))(things, names)


#: What the other clauses add to a request, besides what effects.toml has.
_OWN: Final[dict[str, Callable[..., None]]] = {
    **{name: _limited(name) for name in (*LIMITED, "head", "tail")},
    **{f"{act}_to": _to(act) for act in ("copy", "move", "archive")},
    **{f"{act}_to": _act(act) for act in ("chmod", "chown", "chgrp", "prefix")},
    **{name: _root(path) for name, path in (("here", "."), ("whole", "/"), ("home", "~"))},
    **{name: _content("-H") for name in ("search_text", "matches")},
    "broken": _broken,
    "sizes": _sized,
    "by_count": _by_count,
    "by_size": _ordered("by_size", "largest"),
    "by_time": _ordered("by_time", "newest"),
    "count_each": _content("-Hc"),
    "formats": _of_format,
    "these": _these("f"),
    "these_any": _these("any"),
    "these_d": _these("d"),
    "root": lambda things, *found: (
        _level_down(things, *found)
        if found[0] and found[0][0].kind == "number"
        else _roots(things, *found)
    ),
    "deepest": _deepest,
    "least": _least,
    "excluded": _excluded,
    "excluded_d": _excluded_folder,
    "excluded_path": _excluded_path,
    "search_files": _search_files,
    "matches_in": _matches_in,
    "matches_at": _matches_at,
    "matching_files": _content_shown("-l"),
    "matching_lines": _content_shown("-H"),
    "line_numbers": _line_numbers,
    "count_matches": _count_matches,
    "names": lambda things: put(things, "lists", things.lists or "names"),
    "first_few": _end("head"),
    "last_few": _end("tail"),
    "fields": _fields,
    "base_names": lambda things: put(things, "lists", "%f" if things.target.gnu else _misfit()),
    "unasked": _only_with_act("delete", "copy", "move"),
    "arguments": _only_with_act("-exec"),
    "no_hidden": lambda things: things.tests.append("-not -path '*/.*'"),
    "matches_f": _matching_files,
    "to": _moved,
    "save": lambda things, found: put(things, "save", found[0].path),
    "extension_to": lambda things, *found: _act("extension")(things, found[-1]),
    "replace": _replace,
    "run": _run,
}


#: The clauses besides the predicates that an explanation repeats.
_TOLD: Final = (
    "excluded",
    "broken",
    "no_hidden",
    "deepest",
    "least",
    "follow",
    "one_device",
    "fields",
    "null",
    "first_few",
    "last_few",
    "replace",
    "run",
    "gzip",
    "bzip2",
    "touch",
    "save",
    "cat",
)


def effects() -> dict[str, Callable[..., None]]:
    """Return what each clause adds to a request, but for those that say what is wanted."""
    return {name: _set(**given) for name, given in data("effects")["files"].items()} | _OWN


@cache
def _rules() -> list[Clause]:
    """Return the grammar of files; a clause without an effect of its own says what is wanted."""
    tested = [_predicate(name, make) for name, make in predicates().items()]
    known = effects()
    others = [
        Clause(ways, known.get(name) or _set(want=name), "{}" * name.startswith(_TOLD))
        for name, ways in clauses("files").items()
    ]
    return [*tested, Clause(clauses("predicates", _NOT)["holds"], _holds, _ONLY), *others]


def read_files(sentence: str, target: Toolset, also: Collection[str] = ()) -> Things:
    """Return which files ``sentence`` means; the words of ``also`` may be passed over, too.

    Raises:
        Misfit: some of it is not understood.
    """
    things = Things(target)
    if " full of " in sentence:
        raise Misfit("what is in a folder is meant, and not the folder")
    text = understand(sentence, "files", _rules(), things, also)
    if things.act:
        _check_change(things, text)
    if not things.number:
        is_one = re.search(r"\b(?:file|(?<!home )directory|folder|one)\b", text)
        several = re.search(r"\bfiles\b", text)
        things.number = "1" if (is_one and not several) or (also and " ones " not in text) else "10"
    return things


def _check_change(things: Things, text: str) -> None:
    """Check that it is clear what a change is to be made to.

    Raises:
        Misfit: it is not.
    """
    deletes = things.act == "delete"
    if deletes and re.match(r"\w+ (?:(?!with|having)\w+ ){1,4}permissions?\b", text):
        raise Misfit("what may be done with them is to be taken away")
    if "/" in things.roots and len(things.roots) > 1:
        raise Misfit("a folder, and all there is")
    if re.search(r"\bsome\b", text):
        raise Misfit("it is not said which of them")
    is_here = not any(root[0] in "/~" for root in things.roots)
    is_all = deletes and all(test.startswith("-not ") for test in things.tests)
    if is_all and is_here and any(map(things.target.world.lacks, things.spared)):
        raise Misfit("what is to be spared is not there: its name may be misspelled")


def composed_files(things: Things) -> Composed:
    """Return the command for the files that are meant.

    Raises:
        Misfit: none are, or what is said of them does not go together.
    """
    if not things.kind:
        raise Misfit("no files are meant")
    things = replace(things, kind=things.kind.replace("any", ""))
    return Composed(folders_by_size(things) or rendered(things), explained(things))


def says_which_files(sentence: str, target: Toolset) -> bool:
    """Return whether ``sentence`` says which files by clauses, even if some are not understood."""
    things = Things(target)
    with suppress(Misfit):
        understand(sentence, "files", _rules(), things)
    return bool(things.roots or things.content or (things.kind and things.tests))
