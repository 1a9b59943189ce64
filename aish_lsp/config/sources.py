"""The places that configuration comes from, each read into a checked layer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_origin

from aish_lsp.config.keys import NAME, all_keys, key_at, nested
from aish_lsp.config.rules import refused
from aish_lsp.config.schema import Config
from aish_lsp.config.toml import BadFile, Lines, parse, read_text
from aish_lsp.foundation.text import shown_path
from aish_lsp.foundation.validate import PROBLEMS, Problem, sift, without
from aish_lsp.foundation.wording import arms, dotted, nearest

#: Variables that are no keys: where our files lie, what is looked for, what is logged.
SPECIAL: Final = frozenset({"AISH_CONFIG", "AISH_DATA_DIR", "AISH_DISCOVERY", "AISH_LANDLOCK_ABI"})
PREFIX: Final = "AISH_"

#: Tables of the schema lie no deeper than this; below it, null is a value (in ``extra_body``).
_DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says: valid data, what was wrong, and where its keys stand.

    Attributes:
        data: the good part, ready to be merged.
        problems: what was left out, and why.
        locate: the place of a key (by its dotted path) for a person.
    """

    data: Mapping[str, Any]
    problems: tuple[Problem, ...]
    locate: Callable[[str], str]


def checked(data: object, locate: Callable[[str], str]) -> Layer:
    """Return the layer of plain ``data``, its bad keys left out."""
    bad = list(refused(data))
    good, problems = sift(without(data, [path for path, _ in bad]), Config)
    told = [Problem(dotted(path), reason) for path, reason in bad[:PROBLEMS]] + problems
    return Layer(
        good, tuple(replace(problem, where=locate(problem.path)) for problem in told), locate
    )


def from_file(path: Path) -> Layer:
    """Return the layer of a TOML file; a missing file says nothing."""
    try:
        text = read_text(path)
        data = parse(text)
    except BadFile as error:
        where = _place(path, error.line)
        problem = Problem("", error.reason, where)
        return Layer({}, (problem,), lambda _: shown_path(path))
    lines = Lines(text)

    def locate(key: str) -> str:
        line = lines.find(key)
        return _place(path, line)

    return checked(data, locate)


def from_workspace(root: Path) -> Layer:
    """Return the layer of a workspace's ``.aish.toml``; it is not followed out of ``root``."""
    path = root / ".aish.toml"
    real = os.path.realpath(path)
    if Path(os.path.realpath(root)) not in Path(real).parents:
        problem = Problem("", "it is outside the workspace and is not read", str(path))
        return Layer({}, (problem,), lambda _: str(path))
    return from_file(path)


def from_client(data: object, source: str) -> Layer:
    """Return the layer of an object that the editor sent; its nulls are keys left unset."""
    return checked(_without_nulls(data, _DEPTH), lambda _: source)


def from_environment(environ: Mapping[str, str]) -> Layer:
    """Return the layer of the ``AISH_`` variables; an empty one is not set.

    A variable is named ``AISH_`` and its key in capitals with ``__`` for each dot. Texts stand as
    they are, all else as in JSON.
    """
    values: dict[tuple[str, ...], Any] = {}
    unknown: list[Problem] = []
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(PREFIX) or not text or _special(variable):
            continue
        path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        key = key_at(path)
        if key is None:
            known = [variable_of(key.path) for key in all_keys() if NAME not in key.path]
            hint = nearest(variable, known)
            unknown.append(Problem("", f"unknown variable; {hint}", variable))
        else:
            values[path] = _value(text, key.kind)
    layer = checked(nested(values), lambda key: _variable_at(key, environ))
    return replace(layer, problems=(*layer.problems, *unknown))


def variable_of(path: tuple[str, ...]) -> str:
    """Return the environment variable of a key."""
    return PREFIX + "__".join(path).upper()


def _special(variable: str) -> bool:
    return variable in SPECIAL or variable == "AISH_LOG" or variable.startswith("AISH_LOG_")


def _value(text: str, kind: Any) -> object:
    """Return what a variable says: JSON, unless a text is wanted."""
    wanted = (arms(kind) or [kind])[0]
    if wanted not in (bool, int, float) and get_origin(wanted) not in (list, dict):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # which validation then refuses, and shows


def _variable_at(key: str, environ: Mapping[str, str]) -> str:
    """Return the variable that set ``key`` or what is around it."""
    while key:
        variable = variable_of(tuple(key.split(".")))
        if variable in environ:
            return variable
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return "environment"


def _without_nulls(data: object, depth: int) -> object:
    if not isinstance(data, Mapping) or depth == 0:
        return data
    return {
        key: _without_nulls(value, depth - 1) for key, value in data.items() if value is not None
    }


def _place(path: Path, line: int | None) -> str:
    """Return a line of a file for a person."""
    return shown_path(path) if line is None else f"{shown_path(path)}:{line}"
