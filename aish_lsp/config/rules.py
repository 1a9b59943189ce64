"""What the types of the schema cannot say: no keys in files, addresses, names that must exist."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args
from urllib.parse import parse_qsl, urlsplit

from aish_lsp.config.schema import OWN_TOOLS, Preset, QuestionClass
from aish_lsp.foundation.redaction import is_secret, is_secret_name
from aish_lsp.foundation.strict import DEEPEST
from aish_lsp.foundation.validate import without
from aish_lsp.foundation.wording import KeyPath, nearest, shown

#: The model that is always there; a preset may be left out where this is meant.
OFFLINE: Final = "offline"

_NO_KEYS: Final = (
    "a key itself is not kept here; name the environment variable that holds it with api_key_env, "
    "or a command that prints it with api_key_command"
)
_CLASSES: Final = get_args(QuestionClass)
_PRESET_KEYS: Final = frozenset(field.name for field in dataclasses.fields(Preset)) - {"name"}


def refused(data: object) -> Iterator[tuple[KeyPath, str]]:
    """Yield the keys of one source that are refused whatever their type, each with the reason."""
    for name, preset in _tables(data, "models"):
        place = ("models", name)
        if name == OFFLINE and preset.get("provider") != "offline":
            yield place, "the name belongs to the model that is built in; choose another"
            continue
        for key, value in preset.items():
            yield from _refused_of_preset((*place, key), key, value)
    for name, server in _tables(_table(data, "tools"), "servers"):
        url = server.get("url")
        if isinstance(url, str) and (reason := _address_problem(url)):
            yield ("tools", "servers", name, "url"), reason
    for key in ("classes", "system_prompts"):
        for name in _table(_table(data, "routing"), key):
            if name not in _CLASSES:
                yield (
                    ("routing", key, name),
                    f"not a class of question; accepted: {', '.join(_CLASSES)}",
                )


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
            # It may well be the key itself.
            yield (
                path,
                "found a value that is not shown; accepted: the name of an environment variable",
            )
    else:
        for place, name, text in _texts(value, path):
            if is_secret(text) or (key == "extra_headers" and is_secret_name(name)):
                yield place, _NO_KEYS


def _texts(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield each text in ``value`` with its path and the name that it stands under."""
    waiting: list[tuple[KeyPath, str, object]] = [(path, str(path[-1]), value)]
    while waiting:
        place, name, item = waiting.pop()
        if isinstance(item, str):
            yield place, name, item
        elif len(place) > DEEPEST:
            continue  # refused for its depth anyway
        elif isinstance(item, Mapping):
            waiting += [((*place, str(key)), str(key), part) for key, part in item.items()]
        elif isinstance(item, list):
            waiting += [((*place, index), name, part) for index, part in enumerate(item)]


def _address_problem(text: str) -> str | None:
    """Return what is wrong with an address, or None. Its secrets are not repeated."""
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
        return _NO_KEYS
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        return f"found {shown(text)}; {accepted}"
    return None


def consistent(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[tuple[KeyPath, str]]]:
    """Return merged data without what names a preset that is not there, and what that was.

    A tool server that has not exactly one of ``command`` and ``url`` goes as well.
    """
    known = [*_table(data, "models"), OFFLINE]
    wrong = [
        (path, f"found {shown(name)}; there is no such preset, {nearest(name, known)}")
        for path, name in _references(data)
        if name and name not in known
    ]
    for name, server in _tables(_table(data, "tools"), "servers"):
        given = [key for key in ("command", "url") if server.get(key)]
        if name == OWN_TOOLS:
            if given:
                wrong.append((("tools", "servers", name), "accepted: `enabled` and `off` alone"))
        elif len(given) != 1:
            wrong.append((("tools", "servers", name), "accepted: either a command or a url"))
    good: Any = without(data, [path for path, _ in wrong])
    fallback = _table(data, "routing").get("fallback")
    if fallback:
        there = [name for name in fallback if name in known]
        good = {**good, "routing": {**good["routing"], "fallback": there}}
    return good, wrong


def _references(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield each place that names a preset, with the name."""
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
