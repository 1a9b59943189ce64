"""What a client and we send each other, as JSON Schema: ``aish-lsp protocol --json``.

It is made from the table of commands and the types of their parameters and results, so that the
types of a client can be made from it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from aish_lsp import __version__
from aish_lsp.agent import events
from aish_lsp.agent.session import Status
from aish_lsp.foundation import errors
from aish_lsp.foundation.events import camel_case
from aish_lsp.foundation.job import Job
from aish_lsp.lsp.protocol import (
    COMMANDS,
    ApprovalRequest,
    Approved,
    Begun,
    BegunCommand,
    LookedUp,
    LookupRequest,
)
from aish_lsp.lsp.registry import CommandSpec
from aish_lsp.operations.operation import Answer, Operation

EVENTS = get_args(events.Event)

_PLAIN: dict[Any, dict[str, str]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    types.NoneType: {"type": "null"},
    Any: {},
}


def schema() -> dict[str, Any]:
    """Return the schema of commands, events, errors, notifications, requests, in ``$defs``."""
    definitions = _Definitions()
    commands = {name: _command(spec, definitions) for name, spec in COMMANDS.items()}
    told = {event.__dict__["kind"]: definitions.event(event) for event in EVENTS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://aish-lsp.invalid/protocol/{__version__}",
        "title": "What an editor and aish-lsp send each other beside LSP",
        "commands": commands,
        "events": told,
        "notifications": {"aish/status": {"params": definitions.of(Status)}},
        "requests": {
            "aish/approve": {
                "params": definitions.of(ApprovalRequest),
                "result": definitions.of(Approved),
            },
            "aish/lookup": {
                "params": definitions.of(LookupRequest),
                "result": definitions.of(LookedUp | None),
            },
        },
        "errors": {
            error.kind: {"code": error.code, "description": first_line(error)}
            for error in errors.AishError.__subclasses__()
        },
        "$defs": {
            "Event": {"oneOf": list(told.values())},
            **dict(sorted(definitions.made.items())),
        },
    }


def results_of(spec: CommandSpec) -> tuple[Any, ...]:
    """Return the types that a command's result may have."""
    if spec.operation is None:
        return (spec.result,)
    found = []
    for kind in _union(hints_of(spec.operation)["return"]):
        assert get_origin(kind) in (Answer, Job), f"{spec.name} returns neither of them"
        found.append(get_args(kind)[0])
    if spec.operation.comes_in_pieces:
        found.append(BegunCommand if spec.operation.comes == "output" else Begun)
    return tuple(found)


def hints_of(operation: Operation) -> dict[str, Any]:
    """Return the annotations of an operation's function, whatever they need being imported."""
    return get_type_hints(operation.run, localns=names_for_types(operation.run.__module__))


@cache
def names_for_types(module: str) -> dict[str, Any]:
    """Return what a module imports for the type checker alone, imported."""
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
    """Return the kinds of errors, as the wire names them, of their classes' names."""
    return [vars(errors)[name.strip()].kind for name in names.split(",")]


def first_line(thing: type) -> str:
    """Return what a class's docstring says first."""
    return (thing.__doc__ or "").partition("\n")[0]


def _command(spec: CommandSpec, definitions: _Definitions) -> dict[str, Any]:
    results = [definitions.of(kind) for kind in results_of(spec)]
    refused = spec.operation.refusals if spec.operation else []
    return {
        "description": spec.operation.doc if spec.operation else spec.doc,
        "errors": sorted({kind for names, _ in refused for kind in kinds_of(names)}),
        "params": definitions.of(spec.params, taken=True),
        "result": results[0] if len(results) == 1 else {"anyOf": results},
    }


class _Definitions:
    """The schemas of the dataclasses, each made once."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self._of: dict[str, type] = {}

    def of(self, kind: Any, *, taken: bool = False) -> dict[str, Any]:
        """Return the schema of a type; ``taken``: of what a client sends us."""
        origin, inner = get_origin(kind), get_args(kind)
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one, taken=taken) for one in inner]}
        if origin in (list, tuple, Sequence):
            return {"type": "array", "items": self.of(inner[0], taken=taken)}
        if origin in (dict, Mapping) or kind is dict:
            values = self.of(inner[1], taken=taken) if inner else {}
            return {"type": "object", "additionalProperties": values}
        return self._reference(kind, taken=taken)

    def event(self, kind: Any) -> dict[str, Any]:
        """Return the schema of an event: what stands inside of another thing says no kind."""
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
            # What we send is always whole.
            if not taken or is_required(field):
                required.append(name)
        found = {"type": "object", "description": (kind.__doc__ or "").strip()}
        return found | {
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _bounds(field: dataclasses.Field[Any]) -> dict[str, Any]:
    return {name: field.metadata[name] for name in ("minimum", "maximum") if name in field.metadata}


def _union(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
