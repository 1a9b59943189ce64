"""Make the VS Code extension's types, ``editors/vscode/src/protocol.ts``, and its settings.

The types are made from the schema that ``aish-lsp protocol --json`` prints; the settings in
``editors/vscode/package.json`` from that of ``aish-lsp config schema``.
"""

from __future__ import annotations

import json
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


def settings(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return VS Code's settings for the keys of the configuration: one each, tables of two deep.

    They have no defaults: what is not set there must not stand above the user's config.toml.
    """
    flat: dict[str, Any] = {}
    for name, kind in found["properties"].items():
        if "properties" in kind:
            for key, inner in kind["properties"].items():
                flat[f"aish.{name}.{key}"] = _setting(inner)
        else:
            flat[f"aish.{name}"] = _setting(kind)
    return flat


def _setting(kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return one setting: its default goes into its description."""
    made = {key: value for key, value in kind.items() if key not in ("default", "description")}
    text = kind.get("description", "")
    text = text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
    if kind.get("default") not in (None, {}, [], ""):
        text += f" Without it: `{json.dumps(kind['default'])}`."
    return {**made, "markdownDescription": text, "scope": "resource"}


def main() -> None:
    """Print the types or, with ``manifest``, the extension's package.json with the settings."""
    if sys.argv[1:] != ["manifest"]:
        sys.stdout.write(types(schema()))
        return
    package = json.loads((_EXTENSION / "package.json").read_text())
    package["contributes"]["configuration"][1]["properties"] = settings(json_schema())
    sys.stdout.write(json.dumps(package, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
