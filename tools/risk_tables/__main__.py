"""Print the tables of ``aish_lsp/shell/risk`` as one JSON object: ``tables.json`` there.

``commands`` holds what the files in ``tables`` say, by the name of the command; each other key what
the file of that name says.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aish_lsp.shell.risk.data import LEVELS, rows_by_name

_FOLDER: Final = Path(__file__).resolve().parents[2] / "aish_lsp" / "shell" / "risk"
#: The fields of a wrapper's row that hold words separated by blanks.
_LISTS: Final = ("values", "text", "stop", "after", "writes", "enters")


def tables() -> dict[str, Any]:
    """Return the contents of all tables."""
    others = [path for path in _FOLDER.glob("*.toml") if path.name != "writers.toml"]
    files = [_read(path) for path in sorted((_FOLDER / "tables").glob("*.toml"))]
    commands = rows_by_name(group for data in files for group in _groups(data))
    commands |= {"wrappers": [], "programs": [], "writers": []}
    for data in files:
        _add_options(commands, data)
        _add_wrappers(commands, data.get("wrappers", ()))
        _add_programs(commands, data.get("programs", ()))
    _add_writers(commands, _read(_FOLDER / "writers.toml")["writers"])
    return {"commands": commands} | {path.stem: _read(path) for path in others}


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def _groups(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a file's groups of rows, with the options for which the names of sets stand."""
    sets = {name: "|".join(text.split()) for name, text in data.get("options", {}).items()}
    for group in data.get("rules", ()):
        yield group | {"match": [_filled(match, sets) for match in group["match"]]}


def _filled(match: str, sets: Mapping[str, str]) -> str:
    def options(found: re.Match[str]) -> str:
        return re.sub(r"(?<=[:|])@(\w+)", lambda name: sets[name[1]], found[0])

    return re.sub(r"options:\S+", options, match)


def _of(commands: Mapping[str, Any], name: str) -> dict[str, Any]:
    entry: dict[str, Any] = commands["names"].setdefault(name, {})
    return entry


def _add_options(commands: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    """Add which options take the next word, and which may precede a safe subcommand."""
    for names, options in data.get("values", {}).items():
        for name in names.split("|"):
            values = _of(commands, name).setdefault("values", [])
            values += sorted({*options.split()} - {*values})
    for names, options in data.get("before", {}).items():
        for name in names.split("|"):
            _of(commands, name)["before"] = "|".join(options.split())


def _add_writers(commands: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Add commands that write to a place which they name; its options take the next word."""
    for row in rows:
        kept = {key: row[key] for key in row if key == "needs" or not isinstance(row[key], str)}
        fields = kept | {key: row[key].split() for key in row if key not in kept}
        taking = fields.pop("values", [])
        for key in ("outputs", "folders", "runs"):
            taking += fields.get(key, ())
        for name in fields.pop("names"):
            _of(commands, name)["writer"] = len(commands["writers"])
            if "own_values" not in fields:
                values = [*_of(commands, name).get("values", ()), *taking]
                _of(commands, name)["values"] = [*dict.fromkeys(values)]
        if "own_values" in fields:
            fields["own_values"] = taking
        commands["writers"].append(fields)


def _add_wrappers(commands: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Add commands that run others."""
    for row in rows:
        fields = {key: row[key] for key in row if key != "match"}
        fields |= {key: row[key].split() for key in _LISTS if key in row}
        fields["values"] = [*fields.get("values", ()), *fields.get("writes", ())]
        for match in row["match"]:
            name, *words = match.split()
            number = len(commands["wrappers"])
            _of(commands, name).setdefault("wrappers", []).append((number, words))
        commands["wrappers"].append(fields)


def _add_programs(commands: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Add commands that are given programs; the row of ``*`` comes first."""
    of_all: list[dict[str, Any]] = []
    for row in rows:
        rules = of_all + [_program_rule(group, row) for group in row.get("rules", ())]
        if row["names"] == "*":
            of_all = rules
            continue
        for name in row["names"].split():
            _of(commands, name)["program"] = len(commands["programs"])
        without = f"(?s){row['without']}" if "without" in row else ""
        kinds = {key: True for key in ("script", "input", "every") if key in row}
        commands["programs"].append({"rules": rules, "without": without, **kinds})


def _program_rule(group: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    text = f"{row.get('before', '')}(?:{'|'.join(group['patterns'])}){row.get('after', '')}"
    flags = f"(?{row['flags']})" if "flags" in row else ""
    rule = {"expression": flags + text, "level": LEVELS.index(group["risk"])}
    kinds = {key: True for key in ("secrets", "runs", "writes") if key in group}
    return rule | {"reason": group.get("reason", "")} | kinds


def _lines(value: object, depth: int) -> str:
    """Return a value as JSON, down to ``depth`` with one line for each part."""
    if depth == 0 or not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, list):
        return "[\n" + ",\n".join(_lines(part, depth - 1) for part in value) + "]"
    parts = [f"{json.dumps(key)}:{_lines(value[key], depth - 1)}" for key in sorted(value)]
    return "{\n" + ",\n".join(parts) + "}"


if __name__ == "__main__":
    sys.stdout.write(_lines(tables(), 3) + "\n")
