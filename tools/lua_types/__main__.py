"""Write the Neovim plugin's types: LuaCATS classes, and the chat's commands for its completion.

They are made from the schema that ``aish-lsp protocol --json`` prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from aish_lsp.lsp.reference import schema

_HEAD = """\
--- Made from `aish-lsp protocol --json` by `./dev docs`. Do not edit.

local M = {}
"""

_PLAIN = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "table",
    "array": "any[]",
    "null": "nil",
}


def render(found: Mapping[str, Any]) -> str:
    """Return the module for a schema."""
    lines = [_HEAD]
    for name, definition in found["$defs"].items():
        lines += _class(name, definition)
    lines += ["--- The `:` commands of the chat, each with the words that may follow it."]
    lines += ["---@type table<string, { help: string, verbs: string[] }>", "M.lines = {"]
    for name, line in found["lines"].items():
        verbs = ", ".join(map(_quoted, line["verbs"]))
        lines += [
            f"  {_key(name)} = {{",
            f"    help = {_quoted(line['help'])},",
            f"    verbs = {{ {verbs} }}," if verbs else "    verbs = {},",
            "  },",
        ]
    return "\n".join([*lines, "}", "", "return M", ""])


def _class(name: str, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield what declares a definition, and a blank line."""
    if "properties" not in definition:
        yield f"---@alias aish.{name} {_type(definition)}"
        yield ""
        return
    yield f"---@class aish.{name}"
    required = definition.get("required", ())
    for field, kind in definition["properties"].items():
        yield f"---@field {field}{'' if field in required else '?'} {_type(kind)}"
    yield ""


def _type(kind: Mapping[str, Any]) -> str:  # noqa: PLR0911 - one for each kind of type
    """Return a type in the words of LuaCATS."""
    match kind:
        case {"$ref": reference}:
            return f"aish.{reference.rpartition('/')[2]}"
        case {"const": value}:
            return _quoted(value) if isinstance(value, str) else str(value).lower()
        case {"enum": values}:
            return "|".join(_quoted(value) for value in values)
        case {"anyOf": kinds} | {"oneOf": kinds}:
            return "|".join(dict.fromkeys(_type(one) for one in kinds))
        case {"type": "array", "items": dict(items)}:
            inner = _type(items)
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case {"type": list(names)}:
            return "|".join(_PLAIN[name] for name in names)
        case {"type": name}:
            return _PLAIN[name]
    return "any"


def _key(name: str) -> str:
    return name if name.isidentifier() else f"[{_quoted(name)}]"


def _quoted(text: object) -> str:
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


if __name__ == "__main__":
    sys.stdout.write(render(schema()))
