"""Make the VS Code extension's types, ``editors/vscode/src/protocol.ts``, and its settings.

The types are made from the schema that ``aish-lsp protocol --json`` prints; the settings in
``editors/vscode/package.json`` from that of ``aish-lsp config schema``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aish_lsp.config.keys import json_schema
from aish_lsp.lsp.reference import schema

_HEAD = """\
// Made from `aish-lsp protocol --json` by `./dev docs`. Do not edit.
"""

_PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "object": "Record<string, unknown>",
    "array": "unknown[]",
    "null": "null",
}

#: The sections of the settings after the extension's own, with the tables and keys in each.
_SECTIONS = {
    "Models": "default_model routing tokenize",
    "Cost": "cost",
    "Context": "context project",
    "Memory and Chats": "memory sessions",
    "Commands": "safety shell suggestions",
    "Tools": "tools",
    "Goals": "norris",
}

_EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"


def types(found: Mapping[str, Any]) -> str:
    """Return the module for a schema."""
    lines = [_HEAD]
    for name, definition in found["$defs"].items():
        lines += _type_of(name, definition)
    lines += ["/** The parameters and the result of each command of the server. */"]
    lines += ["export interface ServerCommands {"]
    for name, command in found["commands"].items():
        params, result = _type(command["params"]), _type(command["result"])
        lines.append(f'  "{name}": {{ params: {params}; result: {result} }};')
    return "\n".join([*lines, "}", ""])


def _type_of(name: str, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield what declares a definition, and a blank line."""
    if not definition.get("properties"):
        empty = definition.get("type") == "object"
        yield f"export type {name} = {'Record<string, never>' if empty else _type(definition)};"
        yield ""
        return
    yield f"export interface {name} {{"
    required = definition.get("required", ())
    for field, kind in definition["properties"].items():
        yield f"  {field}{'' if field in required else '?'}: {_type(kind)};"
    yield "}"
    yield ""


def _type(kind: Mapping[str, Any]) -> str:  # noqa: PLR0911 - one for each kind of type
    """Return a type in TypeScript."""
    match kind:
        case {"$ref": reference}:
            return str(reference.rpartition("/")[2])
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(json.dumps(value) for value in values)
        case {"anyOf": kinds} | {"oneOf": kinds}:
            return " | ".join(dict.fromkeys(_type(one) for one in kinds))
        case {"type": "array", "items": dict(items)}:
            inner = _type(items)
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case {"type": list(names)}:
            return " | ".join(_PLAIN[name] for name in names)
        case {"type": name}:
            return _PLAIN[name]
    return "unknown"


def sections(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return VS Code's settings for the keys of the configuration, a section for each table."""
    properties = dict(found["properties"])
    # Models are edited in config.toml or connected by a form: as a setting they would be raw JSON.
    del properties["models"]
    made = []
    for title, names in _SECTIONS.items():
        flat: dict[str, Any] = {}
        for name in names.split():
            flat |= _settings(f"aish.{name}", properties.pop(name))
        made.append({"title": title, "properties": flat})
    assert not properties, f"in no section: {', '.join(properties)}"
    return made


def _settings(name: str, kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a key, or of each key in a table."""
    if "properties" not in kind:
        return {_camel(name): _setting(kind)}
    flat: dict[str, Any] = {}
    for key, inner in kind["properties"].items():
        flat |= _settings(f"{name}.{key}", inner)
    return flat


def _camel(name: str) -> str:
    """Return a name as VS Code shows it in words: ``maxTurns`` is *Max Turns* there."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _setting(kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return one setting; its default is shown, but only what is set is sent to the server."""
    made = dict(kind)
    text = made.pop("description")
    # The pages that the links lead to are not part of the extension.
    text = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", text)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
    made.setdefault("default", {"array": [], "object": {}}.get(str(made["type"])))
    return {**made, "markdownDescription": text, "scope": "resource"}


def main() -> None:
    """Print the types or, with ``manifest``, the extension's package.json with the settings."""
    if sys.argv[1:] != ["manifest"]:
        sys.stdout.write(types(schema()))
        return
    package = json.loads((_EXTENSION / "package.json").read_text())
    contributes = package["contributes"]
    own = [one for one in contributes["configuration"] if one["title"] not in _SECTIONS]
    contributes["configuration"] = own + sections(json_schema())
    sys.stdout.write(json.dumps(package, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
