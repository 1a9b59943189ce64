"""Adds a model to the user's ``config.toml`` without changing anything else.

The text is edited, not rewritten, so that comments and order are kept. The result is parsed and
compared before it is saved: a file in an unusual style is refused, with the lines to add by hand.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from aish_lsp.config.schema import OWN_ENDPOINTS, Preset
from aish_lsp.config.sources import BadFile, checked, parse, read_text
from aish_lsp.foundation.errors import Busy, InvalidArgument, StoreUnavailable
from aish_lsp.foundation.files import write_atomic

#: The keys of a preset that are written, in this order, unless they have the default.
_WRITTEN: Final = (
    *(
        "provider",
        "endpoint",
        "file",
        "model",
        "context_window",
        "max_output_tokens",
        "api_key_env",
    ),
)

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_DEFAULT: Final = re.compile(
    r"""^([ \t]*default_model[ \t]*=[ \t]*)(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')""", re.MULTILINE
)
_TABLE: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)

#: How often to edit the file if it is changed by somebody else meanwhile.
_TRIES: Final = 3


def table_of(preset: Preset) -> dict[str, Any]:
    """Return the keys of ``preset`` that its table must contain."""
    defaults = {field.name: getattr(Preset(), field.name) for field in fields(Preset)}
    own_endpoint, own_variable = OWN_ENDPOINTS.get(preset.provider, ("", None))
    table = {name: getattr(preset, name) for name in _WRITTEN}
    if preset.file is not None:
        table["endpoint"] = ""
    if own_endpoint and preset.endpoint == own_endpoint:
        # Both are filled in automatically.
        table["endpoint"] = ""
        if preset.api_key_env == own_variable:
            table["api_key_env"] = None
    return {name: value for name, value in table.items() if value != defaults[name]}


def lines_of(preset: Preset, *, default: bool) -> str:
    """Return the lines to add for ``preset``; with ``default``, it becomes the default model."""
    lines = [f"default_model = {_value(preset.name)}", ""] if default else []
    return "\n".join([*lines, *_table(preset)]) + "\n"


def add_model(path: Path, preset: Preset, *, default: bool) -> None:
    """Add ``preset`` to the configuration file, which is created if it is missing.

    Raises:
        InvalidArgument: the file has a model of that name, the preset is not valid, or the file
            must be edited by hand. The file was not touched.
        StoreUnavailable, Busy: the file cannot be read or written now.
    """
    problems = checked({"models": {preset.name: table_of(preset)}}, str).problems
    if problems:
        raise InvalidArgument(f"That cannot be configured: {problems[0]}", path=problems[0].path)
    for _ in range(_TRIES):
        try:
            before = read_text(path)
            data = parse(before)
        except BadFile as error:
            msg = f"{path} was not touched: {error.reason}. Fix it first."
            raise StoreUnavailable(msg, path=str(path)) from error
        after = _edited(before, data, preset, default=default)
        if after is None:
            by_hand = lines_of(preset, default=default)
            msg = (
                f"{path} is laid out in a way that aish cannot add to; it was not changed. Add"
                f" these lines yourself:\n\n{by_hand}"
            )
            raise InvalidArgument(msg, path="models")
        if read_text(path) == before:
            write_atomic(path, after)
            return
    raise Busy(f"{path} is being changed by something else. Try again.")


def _edited(before: str, data: Mapping[str, Any], preset: Preset, *, default: bool) -> str | None:
    """Return the file's text with the model added, or None if it cannot be added."""
    models = data.get("models", {})
    if isinstance(models, Mapping) and preset.name in models:
        msg = f"There is a model called {preset.name} already. Choose another name."
        raise InvalidArgument(msg, path="name")
    newline = "\r\n" if "\r\n" in before else "\n"
    text = _with_default(before, preset.name, newline) if default else before
    if text and not text.endswith("\n"):
        text += newline
    after = text + (newline if text else "") + newline.join([*_table(preset), ""])
    wanted = copy.deepcopy(dict(data))
    if default:
        wanted["default_model"] = preset.name
    try:
        wanted.setdefault("models", {})[preset.name] = table_of(preset)
        return after if parse(after) == wanted else None
    except (BadFile, TypeError):
        return None


def _with_default(text: str, name: str, newline: str) -> str:
    """Return ``text`` with its default model replaced, or with one added at the top."""
    table = _TABLE.search(text)
    match = _DEFAULT.search(text, 0, table.start() if table else len(text))
    if match is None:
        return f"default_model = {_value(name)}{newline}{newline if text else ''}{text}"
    return f"{text[: match.start()]}{match[1]}{_value(name)}{text[match.end() :]}"


def _table(preset: Preset) -> list[str]:
    name = preset.name if _BARE.fullmatch(preset.name) else _value(preset.name)
    lines = (f"{key} = {_value(value)}" for key, value in table_of(preset).items())
    return [f"[models.{name}]", *lines]


def _value(value: str | int) -> str:
    """Return a value in TOML, which is JSON except for the escape of one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
