"""What is done with files and folders that the sentence names: "rename a.txt to b.txt".

A row of named.toml is a command with slots; the manners that may be said of it add its options.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.choosing import overwrites_its_input, quoted
from aish_lsp.offline.compose.grammar import (
    ANYBODY,
    MODE,
    Clause,
    Composed,
    Misfit,
    Phrase,
    Toolset,
    Value,
    clauses,
    put,
    understand,
)
from aish_lsp.offline.words import data

_SLOT: Final = re.compile(r"\{(\d)(\w?)\}")
#: Names that bash makes of braces: "part{1..3}", "{src,tests}/data".
_BRACES: Final = re.compile(r"[\w./]*(?:\{(?:\w+\.\.\w+|[\w.]+(?:,[\w.]+)+)\}[\w./-]*)+")
#: A folder is copied without some of it into a folder that is there, or becomes the new one.
_INTO: Final = "tar -c{3x} {1} | tar -x -C {2}"
_AS: Final = "mkdir -p {2} && tar -c -C {1}{3x} . | tar -x -C {2}"
_INTERPRETER: Final = re.compile(
    r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|bash|zsh|dash|ksh|sh)[\d.]*"
)
_TAR: Final = re.compile(r".*\.(?:tar(?:\.\w+)?|t[gbx]z2?)", re.IGNORECASE)


@dataclass(slots=True)
class NamedRequest:
    """What is to be done: the command with its slots filled, and the manners that are said."""

    target: Toolset
    command: str = ""
    manners: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def _filled(template: str) -> Callable[..., None]:
    """Return what puts the values of the clause into the slots of a command."""

    def add(request: NamedRequest, *found: list[Value]) -> None:
        given = [values for values in found if values]
        shape = template
        if template == _INTO and not request.target.world.is_folder(given[1][0].text):
            shape = _AS
        filled = _SLOT.sub(lambda slot: _slot(given[int(slot[1]) - 1], slot[2]), shape)
        if not request.target.gnu:  # BSD's tar takes patterns without being told.
            filled = filled.replace(" --wildcards", "")
        if overwrites_its_input(filled):
            raise Misfit("the output would overwrite its input")
        put(request, "command", filled)

    return add


def _slot(values: list[Value], form: str) -> str:
    """Return the values as words of the shell, if they are what the slot takes."""
    first = values[0]
    if form == "x":
        return "".join(f" --exclude={_spared(one)}" for one in values)
    if not form:
        if any(
            one.kind in ("glob", "extension", "format") or re.search(r"[$\\\n]", one.text)
            for one in values
        ):
            raise Misfit("not a name")
        if (
            len(values) > 1
            and re.fullmatch(r"[^{}]*\{[^{}]+", first.text)
            and re.match(r"[^{}]+\}", values[-1].text)
        ):
            raise Misfit("braces that were taken apart at their comma")
        return " ".join(map(_name, values))
    if len(values) > 1:
        raise Misfit("one is needed")
    if form == "g":
        return quoted(f"*.{first.extension}")
    if form == "n":
        return str(first.bytes if first.kind == "size" else first.number)
    if form == "t":
        return f"{'-e ' * first.text.startswith('-')}{first.quoted}"
    shape = {"u": ANYBODY, "m": MODE, "a": _TAR, "p": _INTERPRETER}[form]
    if not shape.fullmatch(first.text):
        raise Misfit(first.text)
    return first.path


def _spared(value: Value) -> str:
    """Return the pattern of what is left out, without the slash that would end it."""
    if value.kind in ("extension", "format"):
        return quoted(f"*.{value.extension}")
    return quoted(value.text.rstrip("/"))


def _name(value: Value) -> str:
    """Return a name as a word of the shell; only in braces nothing is quoted."""
    return value.text if _BRACES.fullmatch(value.text) else value.path


def _manner(name: str) -> Callable[..., None]:
    return lambda request, *_: request.manners.append(name)


@cache
def _rules() -> list[Clause]:
    rules = [Clause(ways, _filled(template), "{}") for template, ways in clauses("named").items()]
    for name, manner in data("named")["manners"].items():
        rules.append(Clause(tuple(map(Phrase, manner["ways"])), _manner(name), "{}"))
    return rules


def compose_named(sentence: str, target: Toolset) -> Composed:
    """Return the command for what ``sentence`` wants done with the things that it names.

    Raises:
        Misfit: some of it is not understood.
    """
    request = NamedRequest(target)
    understand(sentence, "named", _rules(), request)
    program, _, rest = request.command.partition(" ")
    if not program:
        raise Misfit("nothing is done")
    options = []
    for name in request.manners:
        option = data("named")["manners"][name].get(program)
        if option is None:
            raise Misfit(f"{program} does nothing {name}")
        options += [option] if option and option not in options else []
    said = " ".join(request.said)
    return Composed(" ".join([program, *options, rest]), f"{said[0].upper()}{said[1:]}.")
