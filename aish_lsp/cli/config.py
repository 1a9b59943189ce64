"""``aish-lsp config``: what is in force and where it came from, what is wrong, and the schema."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from aish_lsp.cli import output
from aish_lsp.cli.terminal import workspace_folder
from aish_lsp.foundation.redaction import is_secret
from aish_lsp.foundation.text import dotted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from aish_lsp.config.loading import Loaded

#: Stands for what may be a secret: the values of headers and of tool servers' variables.
HIDDEN = "(hidden)"


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``config show|check|schema`` to the command line."""
    config = commands.add_parser("config", help="what is configured, and what is wrong with it")
    actions = config.add_subparsers(metavar="ACTION", required=True)
    for name, run, text in (
        ("show", _show, "what is in force, and where each value came from"),
        ("check", _check, "what is wrong; exits 1 where something is"),
        ("schema", _schema, "the keys as a JSON schema"),
    ):
        action = actions.add_parser(name, parents=[common], help=text)
        action.set_defaults(run=run)


def _show(arguments: argparse.Namespace) -> int:
    loaded = _load(workspace_folder(arguments))
    values = list(values_in_force(loaded))
    if arguments.json:
        output.out.as_json(
            {
                "values": {path: {"value": value, "origin": at} for path, value, at in values},
                "asked": _asked(loaded),
                "problems": [str(problem) for problem in loaded.problems],
            }
        )
        return 0
    for path, value, origin in values:
        text = "(not set)" if value is None else json.dumps(value, ensure_ascii=False)
        output.out.line(f"{f'{path} = {text}':<48}  # {origin}")
    for problem in loaded.problems:
        output.err.line(str(problem))
    for request in _asked(loaded):
        if not request["granted"]:
            output.err.line(f"Not granted to this workspace: {json.dumps(request['keys'])}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from aish_lsp.foundation.paths import config_file  # noqa: PLC0415 - only what this action needs

    problems = _load(workspace_folder(arguments)).problems
    if arguments.json:
        told = [dataclasses.asdict(problem) for problem in problems]
        output.out.as_json({"ok": not problems, "file": str(config_file()), "problems": told})
    else:
        for problem in problems:
            output.out.line(str(problem))
        if not problems:
            missing = "" if config_file().exists() else " (it does not exist: the defaults apply)"
            output.out.line(f"Nothing is wrong. Your file is {config_file()}{missing}.")
    return 1 if problems else 0


def _schema(_: argparse.Namespace) -> int:
    from aish_lsp.config.reference import json_schema  # noqa: PLC0415 - as above

    output.out.as_json(json_schema(), indent=2)
    return 0


def _load(workspace: Path) -> Loaded:
    """Return the configuration as a server that is started here, without an editor, would."""
    from aish_lsp.config.loading import Configuration  # noqa: PLC0415 - brings the validator
    from aish_lsp.config.trust import TrustStore  # noqa: PLC0415 - as above
    from aish_lsp.foundation.paths import data_dir  # noqa: PLC0415 - as above

    return Configuration(workspace, TrustStore(data_dir() / "trust.json")).loaded


def values_in_force(loaded: Loaded) -> Iterator[tuple[str, Any, str]]:
    """Yield (path, value, origin) of each key in force, without what may be a secret."""
    from aish_lsp.config.keys import leaves  # noqa: PLC0415 - as above

    for keys, value in leaves(dataclasses.asdict(loaded.config)):
        if keys[0] == "models" and keys[2:] == ("name",):
            continue  # its table's name
        path = dotted(keys)
        yield path, _without_secrets(keys, value), loaded.origins[path]


def _asked(loaded: Loaded) -> list[dict[str, Any]]:
    return [
        {
            "what": request.what,
            "name": request.name,
            "granted": request.granted,
            "keys": {
                key: _without_secrets(tuple(key.split(".")), value) for key, value in request.asked
            },
        }
        for request in loaded.requests
    ]


def _without_secrets(keys: tuple[str, ...], value: Any) -> Any:
    if {"env", "extra_headers"} & set(keys[:-1]):
        return HIDDEN
    if isinstance(value, list):
        return [_without_secrets(keys, item) for item in value]
    return HIDDEN if isinstance(value, str) and is_secret(value) else value
