"""The reference of the protocol: docs/protocol.md and the schema, generated from the registries.

``./dev docs`` runs this module, which also updates the commands in capabilities.json. The schema
(``aish-lsp protocol --json``) describes, as JSON Schema, what a client and the server send each
other. It is generated from the table of commands and the types of their parameters and results, so
that a client can generate its own types from it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from aish_lsp import __version__
from aish_lsp.agent import events
from aish_lsp.agent.session import Status
from aish_lsp.chat.colon import COLON_COMMANDS
from aish_lsp.config.keys import first_line
from aish_lsp.foundation import errors
from aish_lsp.foundation.events import camel_case
from aish_lsp.foundation.job import Job
from aish_lsp.lsp.protocol import (
    COMMANDS,
    REQUESTS,
    Begun,
    BegunCommand,
    ChangedFiles,
    CommandSpec,
)
from aish_lsp.lsp.stream import CAPABILITIES
from aish_lsp.operations.operation import Answer, Target
from aish_lsp.shell.blocks import SHELL_TAGS

#: The template of docs/protocol.md, without the parts that are generated.
PAGE = CAPABILITIES.with_name("protocol_page.md")


def render() -> str:
    """Return the whole page."""
    definitions = _Definitions()
    lines = ((f"`:{row.name} {row.usage}`".replace(" `", "`"), row.help) for row in _ROWS)
    error_rows = (
        (str(error.code), f"`{error.kind}`", first_line(error))
        for error in errors.AishError.__subclasses__()
    )
    parts = {
        "lines": _table(("command", "what it does"), lines),
        "events": _table(("kind", "fields", "meaning"), map(_event_row, EVENTS)),
        "tags": ", ".join(f"`{tag}`" for tag in SHELL_TAGS),
        "reasons": ", ".join(f"`{reason}`" for reason in get_args(events.FinishReason)),
        "commands": "\n\n".join(_command_part(spec, definitions) for spec in COMMANDS.values()),
        "errors": _table(("code", "kind", "meaning"), error_rows),
    }
    page = PAGE.read_text("utf-8")
    for name, part in parts.items():
        page = page.replace(f"[[{name}]]", part)
    return page


def _command_part(spec: CommandSpec, definitions: _Definitions) -> str:
    refused = spec.operation.refusals if spec.operation else []
    refusals = "".join(
        f"- {', '.join(f'`{kind}`' for kind in kinds_of(names))}: {when}\n"
        for names, when in refused
    )
    rows = list(_fields(spec.params, definitions.properties(spec.params, taken=True)))
    fields = _table(("field", "type", "default"), rows) if rows else ""
    results = ", or ".join(f"`{_shape(kind, definitions)}`" for kind in results_of(spec))
    blocks = f"### `{spec.name}`", doc_of(spec), refusals.rstrip("\n"), fields, f"Result: {results}"
    return "\n\n".join(filter(None, blocks))


def doc_of(spec: CommandSpec) -> str:
    """Return the description of a command, in Markdown."""
    return spec.operation.doc if spec.operation else _editor_commands()[spec.name]


@cache
def _editor_commands() -> dict[str, str]:
    """Return the descriptions of the commands that only editors have, by name."""
    parts = CAPABILITIES.with_name("editor_commands.md").read_text("utf-8").split("### `")[1:]
    pairs = (part.split("`\n\n", 1) for part in parts)
    return {name: doc.strip() for name, doc in pairs}


def _event_row(event: type) -> tuple[str, str, str]:
    fields = ", ".join(f"`{camel_case(field.name)}`" for field in dataclasses.fields(event))
    return f"`{event.__dict__['kind']}`", fields, first_line(event)


def _fields(params: type, schemas: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    common = {field.name for field in dataclasses.fields(Target)}
    for field in dataclasses.fields(params):
        if field.name not in common:
            name = camel_case(field.name)
            yield f"`{name}`", _type(schemas[name]), _default(field)


def _default(field: dataclasses.Field[Any]) -> str:
    if is_required(field):
        return "required"
    return "" if field.default in (None, dataclasses.MISSING) else f"`{field.default!r}`".lower()


def _type(schema: Mapping[str, Any]) -> str:
    """Return the name of a schema's type, as the page shows it."""
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one != {"type": "null"})
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    return str(schema.get("type", "object"))


def _shape(kind: Any, definitions: _Definitions) -> str:
    """Return the names of a result's fields, and of the fields of the objects in its lists."""
    lines = []
    for name, schema in definitions.properties(kind).items():
        items = schema.get("items", {})
        # If there are several kinds, the last has all the fields.
        listed = items.get("anyOf", [items])[-1].get("$ref")
        if listed:
            fields = definitions.made[listed.rpartition("/")[2]]["properties"]
            lines.append(f"{name}: [{{{', '.join(fields)}}}]")
        else:
            lines.append(f"{name}[]" if "items" in schema else name)
    return f"{{{', '.join(lines)}}}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    first, *others = (f"| {' | '.join(line)} |" for line in (head, *cells))
    return "\n".join([first, f"|{'---|' * len(head)}", *others])


def capabilities() -> str:
    """Return capabilities.json: what the server answers to ``initialize``."""
    from aish_lsp.lsp.overrides import converter  # noqa: PLC0415 - only to write the references
    from aish_lsp.lsp.server import create_server  # noqa: PLC0415 - as above

    built = create_server().protocol.capabilities("utf-16")
    return json.dumps(converter().unstructure(built), indent=1) + "\n"


EVENTS = get_args(events.Event)

_ROWS = COLON_COMMANDS.rows.values()

_UNIONS = (Union, types.UnionType)

_PLAIN: dict[Any, dict[str, str]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    types.NoneType: {"type": "null"},
    Any: {},
}


def schema() -> dict[str, Any]:
    """Return the schema of commands, events, errors, notifications and requests.

    ``lines`` are the ``:`` commands of the chat: their usage, and the words that their arguments
    may begin with.
    """
    definitions = _Definitions()
    commands = {name: _command(spec, definitions) for name, spec in COMMANDS.items()}
    events_by_kind = {event.__dict__["kind"]: definitions.event(event) for event in EVENTS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://aish-lsp.invalid/protocol/{__version__}",
        "title": "What an editor and aish-lsp send each other beside LSP",
        "commands": commands,
        "lines": {
            row.name: {"usage": row.usage, "help": row.help, "verbs": list(row.verbs)}
            for row in _ROWS
        },
        "events": events_by_kind,
        "notifications": {
            "aish/changed": {"params": definitions.of(ChangedFiles)},
            "aish/status": {"params": definitions.of(Status)},
        },
        "requests": {
            method: {"params": definitions.of(params), "result": definitions.of(result)}
            for method, (params, result) in REQUESTS.items()
        },
        "errors": {
            error.kind: {"code": error.code, "description": first_line(error)}
            for error in errors.AishError.__subclasses__()
        },
        "$defs": {
            "Event": {"oneOf": list(events_by_kind.values())},
            **dict(sorted(definitions.made.items())),
        },
    }


def results_of(spec: CommandSpec) -> tuple[Any, ...]:
    """Return the types that a command's result can have."""
    if spec.operation is None:
        return (spec.result,)
    run = spec.operation.run
    returned = get_type_hints(run, localns=names_for_types(run.__module__))["return"]
    results = []
    for kind in get_args(returned) if get_origin(returned) in _UNIONS else [returned]:
        assert get_origin(kind) in (Answer, Job), f"{spec.name} returns neither of them"
        results.append(get_args(kind)[0])
    if spec.operation.comes_in_pieces:
        results.append(BegunCommand if spec.operation.comes == "output" else Begun)
    return tuple(results)


@cache
def names_for_types(module: str) -> dict[str, Any]:
    """Import what a module imports only for type checking; return the objects by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    blocks = (
        node.body
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    return {
        alias.asname or alias.name: getattr(importlib.import_module(str(line.module)), alias.name)
        for body in blocks
        for line in body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def kinds_of(names: str) -> list[str]:
    """Return the wire names of the errors whose class names are given."""
    return [vars(errors)[name.strip()].kind for name in names.split(",")]


def _command(spec: CommandSpec, definitions: _Definitions) -> dict[str, Any]:
    results = [definitions.of(kind) for kind in results_of(spec)]
    refused = spec.operation.refusals if spec.operation else []
    return {
        "description": doc_of(spec),
        "errors": sorted({kind for names, _ in refused for kind in kinds_of(names)}),
        "params": definitions.of(spec.params, taken=True),
        "result": results[0] if len(results) == 1 else {"anyOf": results},
    }


class _Definitions:
    """The schemas of the dataclasses, each generated once."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self._of: dict[str, type] = {}

    def of(self, kind: Any, *, taken: bool = False) -> dict[str, Any]:
        """Return the schema of a type; ``taken``: it is one that a client sends."""
        origin, inner = get_origin(kind), get_args(kind)
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in _UNIONS:
            return {"anyOf": [self.of(one, taken=taken) for one in inner]}
        if origin in (list, tuple, Sequence):
            return {"type": "array", "items": self.of(inner[0], taken=taken)}
        if origin in (dict, Mapping) or kind is dict:
            values = self.of(inner[1], taken=taken) if inner else {}
            return {"type": "object", "additionalProperties": values}
        return self._reference(kind, taken=taken)

    def properties(self, kind: type, *, taken: bool = False) -> dict[str, Any]:
        """Return the schemas of a dataclass's fields, by their names on the wire."""
        self.of(kind, taken=taken)
        properties: dict[str, Any] = self.made[kind.__name__]["properties"]
        return properties

    def event(self, kind: Any) -> dict[str, Any]:
        """Return the schema of an event: that of its dataclass, with its ``kind``."""
        name, tag = f"{kind.__name__}Event", kind.__dict__["kind"]
        made = self._object(kind, taken=False)
        made["properties"] = {"kind": {"const": tag}, **made["properties"]}
        made["required"].insert(0, "kind")
        self.made[name] = made
        return {"$ref": f"#/$defs/{name}"}

    def _reference(self, kind: Any, *, taken: bool) -> dict[str, Any]:
        name: str = kind.__name__
        assert self._of.setdefault(name, kind) is kind, f"there are two {name}"
        if name not in self.made:
            self.made[name] = {}
            self.made[name] = self._object(kind, taken=taken)
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, kind: Any, *, taken: bool) -> dict[str, Any]:
        hints = get_type_hints(kind, localns=names_for_types(kind.__module__))
        properties: dict[str, Any] = {}
        required: list[str] = []
        for field in dataclasses.fields(kind):
            name = camel_case(field.name)
            properties[name] = self.of(hints[field.name], taken=taken) | _bounds(field)
            # What we send always has all its fields.
            if not taken or is_required(field):
                required.append(name)
        object_schema = {"type": "object", "description": (kind.__doc__ or "").strip()}
        return object_schema | {
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _bounds(field: dataclasses.Field[Any]) -> dict[str, Any]:
    return {name: field.metadata[name] for name in ("minimum", "maximum") if name in field.metadata}


if __name__ == "__main__":
    CAPABILITIES.write_text(capabilities())
    sys.stdout.write(render())
