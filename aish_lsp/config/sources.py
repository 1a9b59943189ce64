"""The sources of configuration, each read into a checked layer.

The checks include what the schema's types cannot express: files must not hold keys, addresses are
valid, and presets that are referred to exist.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args, get_origin
from urllib.parse import parse_qsl, urlsplit

from aish_lsp.config.keys import NAME, all_keys, key_at, nested
from aish_lsp.config.schema import OWN_TOOLS, Config, Preset, QuestionClass
from aish_lsp.config.variables import VARIABLE
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.redaction import is_secret, is_secret_name
from aish_lsp.foundation.text import KeyPath, arms, dotted, nearest, shown, shown_path
from aish_lsp.foundation.validate import DEEPEST, PROBLEMS, FieldProblem, sift, without

#: Variables that are not keys. ``AISH_LOG`` and ``AISH_LOG_*`` are not keys either.
SPECIAL: Final = frozenset({"AISH_CONFIG", "AISH_DATA_DIR", "AISH_DISCOVERY", "AISH_LANDLOCK_ABI"})
PREFIX: Final = "AISH_"

#: The depth of the deepest table in the schema; below it, null is a value (in ``extra_body``).
_DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """The valid data of one source, its problems, and the places of its keys.

    Attributes:
        data: the valid part, ready to merge.
        problems: what was left out, and why.
        locate: returns the place of a key (a dotted path) for a person.
    """

    data: Mapping[str, Any]
    problems: tuple[FieldProblem, ...]
    locate: Callable[[str], str]


def checked(data: object, locate: Callable[[str], str]) -> SettingsLayer:
    """Return the layer of plain ``data`` without its bad keys."""
    bad = list(refused(data))
    good, problems = sift(without(data, [path for path, _ in bad]), Config)
    problems = [FieldProblem(dotted(path), reason) for path, reason in bad[:PROBLEMS]] + problems
    located = tuple(replace(problem, where=locate(problem.path)) for problem in problems)
    return SettingsLayer(_without_other_addresses(good, data), located, locate)


def from_file(path: Path) -> SettingsLayer:
    """Return the layer of a TOML file; that of a missing file is empty."""
    try:
        text = read_text(path)
        data = parse(text)
    except BadFile as error:
        where = _place(path, error.line)
        problem = FieldProblem("", error.reason, where)
        return SettingsLayer({}, (problem,), lambda _: shown_path(path))
    # Only on demand, as few files have problems.
    lines = cache(lambda: _lines_of_keys(text))

    def locate(key: str) -> str:
        while key and key not in lines():
            key = _around(key)
        return _place(path, lines().get(key))

    return checked(data, locate)


def from_workspace(root: Path) -> SettingsLayer:
    """Return the layer of a workspace's ``.aish.toml``; links out of ``root`` are not followed."""
    path = root / ".aish.toml"
    if Path(os.path.realpath(root)) not in Path(os.path.realpath(path)).parents:
        where = shown_path(path)
        problem = FieldProblem("", "it is outside the workspace and is not read", where)
        return SettingsLayer({}, (problem,), lambda _: where)
    return from_file(path)


def from_client(data: object, source: str) -> SettingsLayer:
    """Return the layer of an object from the editor, in which null leaves a key unset."""
    return checked(_without_nulls(data, _DEPTH), lambda _: source)


def from_environment(environ: Mapping[str, str]) -> SettingsLayer:
    """Return the layer of the ``AISH_`` variables; an empty one counts as not set.

    A variable's name is ``AISH_`` and the key in capitals, with ``__`` for each dot. Strings are
    used unchanged; other values are JSON.
    """
    values: dict[tuple[str, ...], Any] = {}
    unknown: list[FieldProblem] = []
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(PREFIX) or not text or _special(variable):
            continue
        path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        key = key_at(path)
        if key is None:
            variables = [variable_of(key.path) for key in all_keys() if NAME not in key.path]
            hint = nearest(variable, variables)
            unknown.append(FieldProblem("", f"unknown variable; {hint}", variable))
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
    """Return the value of a variable: its text or, if the key is not a string, its JSON value."""
    wanted = (arms(kind) or [kind])[0]
    if wanted not in (bool, int, float) and get_origin(wanted) not in (list, dict):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # Validation refuses and shows it.


def _variable_at(key: str, environ: Mapping[str, str]) -> str:
    """Return the variable that set ``key`` or a table around it."""
    while key:
        variable = variable_of(tuple(key.split(".")))
        if variable in environ:
            return variable
        key = _around(key)
    return "environment"


def _around(key: str) -> str:
    """Return the dotted path of the table or list around ``key``; empty at the top."""
    return key[: max(key.rfind("."), key.rfind("["), 0)]


def _without_nulls(data: object, depth: int) -> object:
    if not isinstance(data, Mapping) or depth == 0:
        return data
    return {
        key: _without_nulls(value, depth - 1) for key, value in data.items() if value is not None
    }


def _place(path: Path, line: int | None) -> str:
    """Return the path and the line of a place in a file, for a person."""
    return shown_path(path) if line is None else f"{shown_path(path)}:{line}"


# Configuration files: reading untrusted files, and the line of each key.

#: The maximum size in bytes of a configuration file.
LARGEST_FILE: Final = 1 << 18
#: The maximum characters of a key whose line is looked up.
LONGEST_KEY: Final = 200
#: A dotted key with more than 64 parts; tomllib takes quadratic time for one.
_LONG_KEY: Final = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}"""
)
_HEADER: Final = re.compile(r"\s*\[\[?(.+?)\]\]?\s*(#.*)?")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLACE: Final = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


class BadFile(Exception):
    """A configuration file cannot be used at all; ``line`` is the place, if known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def read_text(path: Path) -> str:
    """Return the text of a configuration file; a missing one is empty.

    Raises:
        BadFile: it is not a regular file, is too large, is not UTF-8, or cannot be read.
    """
    try:
        status = path.stat()
        # Checked before it is opened, since opening a FIFO waits for a writer.
        if not stat.S_ISREG(status.st_mode):
            raise BadFile("it is not a regular file; put a TOML file there or remove it")
        if status.st_size > LARGEST_FILE:
            raise BadFile(f"it holds more than {LARGEST_FILE} bytes, too many for a configuration")
        return path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError as error:
        raise BadFile(f"it is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadFile(f"it cannot be read: {reason}") from error


def parse(text: str) -> dict[str, Any]:
    """Return the data of a TOML text.

    Raises:
        BadFile: it is not TOML.
    """
    if long_key := _LONG_KEY.search(text):
        line = text.count("\n", 0, long_key.start()) + 1
        raise BadFile("it has a key with more than 64 parts", line)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise BadFile("it is nested too deeply") from error
    except ValueError as error:
        # A TOMLDecodeError, or a number with too many digits for Python.
        position = _PLACE.fullmatch(str(error))
        if position is None:
            raise BadFile(f"it is not TOML: {error}") from error
        last = text.count("\n") + 1
        line = int(position[2]) if position[2] else last
        column = f", column {position[3]}" if position[3] else ""
        raise BadFile(f"it is not TOML: {position[1]} (line {line}{column})", line) from error


def _lines_of_keys(text: str) -> dict[str, int]:
    """Return the line (from 1) of each key and table that can be found line by line."""
    lines: dict[str, int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), start=1):
        before, assigned, _ = line.partition("=")
        key = before.strip()
        if assigned and (parts := _parts(key)):
            lines.setdefault(dotted((*table, *parts)), number)
        elif key.startswith("[") and (header := _HEADER.fullmatch(line.strip())):
            table = _parts(header[1])
            lines.setdefault(dotted(table), number)
    return lines


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a dotted key; empty if it is not a key."""
    if _BARE_KEY.fullmatch(name):
        return (name,)
    if len(name) > LONGEST_KEY:
        return ()
    try:
        data: Any = tomllib.loads(f"{name} = 0")
    except ValueError:
        return ()
    parts: list[str] = []
    while isinstance(data, dict) and len(data) == 1:
        ((part, data),) = data.items()
        parts.append(part)
    return tuple(parts)


#: The name of the model that exists even without a preset.
OFFLINE: Final = "offline"

#: Replaces an endpoint that was refused. An empty one could mean the provider's own address.
NO_ADDRESS: Final = " "

_NO_KEYS_OF_SERVERS: Final = (
    "a key itself must not be written here; write ${NAME}, with the environment variable that"
    " holds it"
)
_NO_KEYS: Final = (
    "a key itself must not be written here; name the environment variable that holds it with"
    " api_key_env, or a command that prints it with api_key_command"
)
_CLASSES: Final = get_args(QuestionClass)
_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_PRESET_KEYS: Final = frozenset(field.name for field in dataclasses.fields(Preset)) - {"name"}


def refused(data: object) -> Iterator[tuple[KeyPath, str]]:
    """Yield the keys of one source that are refused regardless of their type, with the reason."""
    for name, preset in _tables(data, "models"):
        path = ("models", name)
        if not name:
            yield path, "found an empty name; accepted: a preset with a name"
            continue
        if name == OFFLINE and preset.get("provider") != "offline":
            yield path, "the name belongs to the built-in model; choose another"
            continue
        for key, value in preset.items():
            yield from _refused_of_preset((*path, key), key, value)
    for name, server in _tables(_table(data, "tools"), "servers"):
        yield from _refused_of_server(("tools", "servers", name), server)
    for key in ("classes", "system_prompts"):
        for name in _table(_table(data, "routing"), key):
            if name not in _CLASSES:
                yield (
                    ("routing", key, name),
                    f"not a class of question; accepted: {', '.join(_CLASSES)}",
                )


def _without_other_addresses(good: Mapping[str, Any], data: object) -> Mapping[str, Any]:
    """Return the ``good`` part of ``data``, with NO_ADDRESS for addresses that were left out.

    Nothing may be sent to another address instead: the provider's own, or a weaker source's.
    """
    models = dict(_tables(good, "models"))
    for name, preset in _tables(data, "models"):
        own = models.get(name, preset)
        lost = preset.keys() - own.keys()
        if "endpoint" in lost or (
            "endpoint" not in own and any(_is_address(preset[key]) for key in lost)
        ):
            models[name] = {**own, "endpoint": NO_ADDRESS}
    return {**good, "models": models} if models else good


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _refused_of_preset(path: KeyPath, key: str, value: object) -> Iterator[tuple[KeyPath, str]]:
    if key == "name":
        yield path, "unknown; a preset is named by its table"
    elif key not in _PRESET_KEYS and is_secret_name(key):
        yield path, _NO_KEYS
    elif key == "endpoint" and isinstance(value, str) and value:
        if reason := _address_problem(value):
            yield path, reason
    elif key == "api_key_env":
        if isinstance(value, str) and (
            is_secret(value) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value)
        ):
            # It may be the key itself.
            yield (
                path,
                "found a value that is not shown; accepted: the name of an environment variable",
            )
    else:
        for keys, name, text in _texts(value, path):
            if is_secret(text) or (key == "extra_headers" and is_secret_name(name)):
                yield keys, _NO_KEYS


def _refused_of_server(path: KeyPath, server: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    if not _SERVER_NAME.fullmatch(str(path[-1])):
        # A tool is offered as SERVER__NAME, and no two tools may have the same name.
        yield path, 'accepted: a name of letters, digits and "-", with single "_" between them'
    url = server.get("url")
    if isinstance(url, str):
        literal = VARIABLE.sub("", url)
        if literal == url:
            reason = _address_problem(url, _NO_KEYS_OF_SERVERS)
        else:
            # The rest is known only when its variables are replaced.
            reason = _NO_KEYS_OF_SERVERS if is_secret(literal) else None
        if reason:
            yield (*path, "url"), reason
    for name, value in _table(server, "headers").items():
        literal = VARIABLE.sub("", value) if isinstance(value, str) else ""
        if is_secret(literal) or (literal and literal == value and is_secret_name(name)):
            yield (*path, "headers", name), _NO_KEYS_OF_SERVERS


def _texts(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield each string in ``value`` with its path and the nearest key above it."""
    waiting: list[tuple[KeyPath, str, object]] = [(path, str(path[-1]), value)]
    while waiting:
        keys, name, item = waiting.pop()
        if isinstance(item, str):
            yield keys, name, item
        elif len(keys) > DEEPEST:
            continue  # Validation refuses it for its depth.
        elif isinstance(item, Mapping):
            waiting += [((*keys, str(key)), str(key), part) for key, part in item.items()]
        elif isinstance(item, list):
            waiting += [((*keys, index), name, part) for index, part in enumerate(item)]


def _address_problem(text: str, no_keys: str = _NO_KEYS) -> str | None:
    """Return what is wrong with an address, or None. The result repeats no secrets.

    ``no_keys`` says where a key belongs instead.
    """
    accepted = 'accepted: an http or https address such as "http://127.0.0.1:8080"'
    if not text.isprintable() or " " in text:
        return f"found {shown(text)}; {accepted}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return f"found {shown(text)}; {accepted}"
    secrets = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if parts.username or parts.password or is_secret(text) or any(map(is_secret_name, secrets)):
        return no_keys
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        return f"found {shown(text)}; {accepted}"
    return None


def consistent(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[tuple[KeyPath, str]]]:
    """Return merged data without references to missing presets, and what was removed.

    Tool servers without exactly one of ``command`` and ``url`` are removed too.
    """
    names = [*_table(data, "models"), OFFLINE]
    wrong = [
        (path, f"found {shown(name)}; there is no such preset, {nearest(name, names)}")
        for path, name in _references(data)
        if name and name not in names
    ]
    for name, server in _tables(_table(data, "tools"), "servers"):
        addresses = [key for key in ("command", "url") if server.get(key)]
        if name == OWN_TOOLS:
            if addresses:
                wrong.append((("tools", "servers", name), "accepted: `enabled` and `off` alone"))
        elif len(addresses) != 1:
            wrong.append((("tools", "servers", name), "accepted: either a command or a url"))
    good: Any = without(data, [path for path, _ in wrong])
    fallback = _table(data, "routing").get("fallback")
    if fallback:
        there = [name for name in fallback if name in names]
        good = {**good, "routing": {**good["routing"], "fallback": there}}
    return good, wrong


def _references(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path of each reference to a preset, with its name."""
    yield ("default_model",), data.get("default_model", "")
    for table, key in (("context", "summary_model"), ("memory", "summarizer_model")):
        yield (table, key), _table(data, table).get(key, "")
    routing = _table(data, "routing")
    for question, name in _table(routing, "classes").items():
        yield ("routing", "classes", question), name
    for index, name in enumerate(routing.get("fallback", [])):
        yield ("routing", "fallback", index), name


def _table(data: object, name: str) -> Mapping[str, Any]:
    table = data.get(name) if isinstance(data, Mapping) else None
    return table if isinstance(table, Mapping) else {}


def _tables(data: object, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entry, table in _table(data, name).items():
        if isinstance(entry, str) and isinstance(table, Mapping):
            yield entry, table
