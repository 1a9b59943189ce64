"""What is made from the registries of the code: docs/protocol.md, capabilities.json and the schema.

``./dev docs`` runs this as a module. The schema (``aish-lsp protocol --json``) is what a client and
we send each other, as JSON Schema. It is made from the table of commands and the types of their
parameters and results, so that the types of a client can be made from it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from aish_lsp import __version__
from aish_lsp.agent import events
from aish_lsp.agent.session import Status
from aish_lsp.chat.colon import COLON_COMMANDS
from aish_lsp.foundation import errors
from aish_lsp.foundation.events import camel_case
from aish_lsp.foundation.job import Job
from aish_lsp.lsp.client import CommandSpec
from aish_lsp.lsp.protocol import (
    COMMANDS,
    ApprovalRequest,
    Approved,
    Begun,
    BegunCommand,
    LastInTerminal,
    LookedUp,
    LookupRequest,
    TerminalRequest,
)
from aish_lsp.lsp.stream import CAPABILITIES
from aish_lsp.operations.operation import Answer, Operation, Target
from aish_lsp.shell.blocks import SHELL_TAGS

_HEAD = """\
<!-- Made from the code by `./dev docs`. Do not edit. -->
# Protocol

aish-lsp speaks LSP 3.17. Everything below goes through standard methods: commands through
`workspace/executeCommand`, events through `$/progress`, suggestions through code actions, code
lenses and diagnostics.

## Two ways to receive a reply

**With a token.** `aish.ask` and `aish.run` take `partialResultToken`, a progress token that the
client chose (a fresh one each time). Each event is sent as `$/progress {token, value}`, and the
request is answered when the turn or the command is over. `$/cancelRequest`, `aish.cancel`, and
`window/workDoneProgress/cancel` (where a `workDoneToken` was given) stop it: what arrived is
kept, marked as cut off, and the request is answered with it and `finishReason: "cancelled"`.

**Without one.** The request is answered at once with `{turnId}` or `{commandId}`, and the rest is
written into the chat document, `.aish/chat.md` in the workspace, behind a cancellable
`window/workDoneProgress` of the server's.

A client that has a chat of its own takes the first way: a question goes by `aish.ask`, a message
that begins with `:` by `aish.chat.line`, and `aish.chat.complete` tells what may stand at the
cursor.

Some other commands ask the user (`aish.memory.clear`, `aish.trust.grant`, ...). A client that
declares `window.showMessage.messageActionItem` has the result once they have answered. Any other
may read no question until its command is answered, or give that up: it has the error `busy` at
once, then the question, and what came of it in a `window/showMessage`.

## The chat document

The user writes under the last `## You` and sends it with the code lens or the code action *Send*,
or with `aish.chat.send`. The reply comes under `## aish`, then a new `## You`. Only what follows
that last heading is read. A tool's call has a line there while it runs, and one on how it ended
once it has. What was not seen being typed there asks before it changes anything
([safety](safety.md)). A message that is a single line beginning with `:` is a command, and so is
`:run` with a fenced block below it. While something is answered or runs, the code action *Stop*
ends it (`aish.cancel`). The commands:
"""

_SUGGESTIONS = """
A suggestion is a line of the reply's text that begins in column 0 with exactly `CMD: `; or
(`suggestions.fences`) a fenced block that names a shell ({tags}), once it
is closed: all of its lines are one command, for that shell. Of a console, and of a block that
begins with a prompt, it is what stands behind `$ `, `% ` or `> `, also behind `(venv) $ ` or
`user@host:~$ `; what stands behind `PS ...> ` is for PowerShell, whatever the tag. The
`command` of the event is `{{id, text, line, endLine, source, placeholders[], risk, reasons[]}}`:
`line` and `endLine` are the first and last line in the reply, from 0, the fence's own included;
`source` is `cmd` or `fence`. With `placeholders` (`<name>`, `YOUR_KEY`, `...`) it runs with
`edited` alone; where the last of the `reasons` says that its shell is not there, it can be copied
and not run. What `CMD: ` lines have said is not suggested by a fence once more; a line that repeats
a fence takes its place, and the event has the same `id`. `finishReason` is one of {reasons}.
"""


def render() -> str:
    """Return the whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    yield from _table(
        ("command", "what it does"),
        (
            (f"`:{row.name} {row.usage}`".replace(" `", "`"), row.help)
            for row in COLON_COMMANDS.rows.values()
        ),
    )
    yield "\n## Events\n"
    yield "The deltas of a turn's `text` events, joined, are exactly the reply's text.\n"
    yield from _table(("kind", "fields", "meaning"), (_event_row(event) for event in EVENTS))
    tags, reasons = (
        ", ".join(f"`{name}`" for name in names)
        for names in (SHELL_TAGS, get_args(events.FinishReason))
    )
    yield _SUGGESTIONS.format(tags=tags, reasons=reasons)
    yield "## Commands\n"
    yield (
        "One JSON object as the only argument, or none; unknown fields are refused. `workspace`\n"
        "(a folder's URI) and `uri` (a document's) are taken by all; without them the only folder\n"
        "is meant, or the one last used. Of the sessions that are open there it is the one that\n"
        "the chat shows, or the one whose id is `session`: several answer at the same time. One\n"
        "that the chat does not show needs a token for what comes in pieces.\n"
    )
    for spec in COMMANDS.values():
        yield f"### `{spec.name}`\n\n{spec.operation.doc if spec.operation else spec.doc}\n"
        yield from _refusals(spec)
        rows = list(_fields(spec.params))
        if rows:
            yield from _table(("field", "type", "default"), rows)
            yield ""
        yield f"Result: {', or '.join(f'`{_shape(kind)}`' for kind in results_of(spec))}\n"
    yield "## Errors\n"
    yield "JSON-RPC errors with `data: {kind, ...}` and a message that says what to do.\n"
    yield from _table(
        ("code", "kind", "meaning"),
        ((str(error.code), f"`{error.kind}`", first_line(error)) for error in _errors()),
    )


def _event_row(event: type) -> tuple[str, str, str]:
    fields = ", ".join(f"`{camel_case(field.name)}`" for field in dataclasses.fields(event))
    return f"`{event.__dict__['kind']}`", fields, first_line(event)


def _fields(params: type) -> Iterator[tuple[str, str, str]]:
    common = {field.name for field in dataclasses.fields(Target)}
    hints = get_type_hints(params)
    for field in dataclasses.fields(params):
        if field.name not in common:
            named = f"`{camel_case(field.name)}`"
            yield named, _type(hints[field.name]), _default(field, is_required(field))


def _default(field: dataclasses.Field[Any], required: bool) -> str:
    if required:
        return "required"
    return "" if field.default in (None, dataclasses.MISSING) else f"`{field.default!r}`".lower()


def _type(hint: Any) -> str:
    """Return a type in the words of JSON."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_type(arg) for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is Literal:
        return ", ".join(f"`{arg}`" for arg in get_args(hint))
    if get_origin(hint) is list:
        return f"array of {_type(get_args(hint)[0])}"
    return {str: "string", int: "integer", float: "number", bool: "boolean"}.get(hint, "object")


def _errors() -> Iterator[type[errors.AishError]]:
    yield from errors.AishError.__subclasses__()


def _refusals(spec: CommandSpec) -> Iterator[str]:
    """Yield how a command refuses, an error a line."""
    told = spec.operation.refusals if spec.operation else []
    for names, when in told:
        kinds = ", ".join(f"`{kind}`" for kind in kinds_of(names))
        yield f"- {kinds}: {when}"
    if told:
        yield ""


def _shape(kind: Any) -> str:
    """Return a result's fields in short: those of what it lists, too, and no deeper."""
    hints = get_type_hints(kind, localns=names_for_types(kind.__module__))
    fields = (_field_shape(camel_case(name), hint) for name, hint in hints.items())
    return f"{{{', '.join(fields)}}}"


def _field_shape(name: str, hint: Any) -> str:
    if get_origin(hint) not in (list, tuple):
        return name
    items = get_args(hint)[0]
    # Of several kinds the last has all fields.
    kind = get_args(items)[-1] if get_origin(items) in (Union, types.UnionType) else items
    if not dataclasses.is_dataclass(kind):
        return f"{name}[]"
    names = (field.name for field in dataclasses.fields(kind))
    return f"{name}: [{{{', '.join(map(camel_case, names))}}}]"


def _table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        cells = (cell.replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"


def capabilities() -> str:
    """Return capabilities.json: what the server says that it can do, whoever asks."""
    from lsprotocol.types import ClientCapabilities  # noqa: PLC0415 - only to write the references

    from aish_lsp.lsp.server import create_server  # noqa: PLC0415 - as above

    server = create_server()
    found = server.capabilities_for(ClientCapabilities())
    return json.dumps(without_noes(server.plain(found)), indent=1) + "\n"


def without_noes(value: Any) -> Any:
    """Drop what is said to be impossible: to a client that is the same as not being said."""
    if not isinstance(value, dict):
        return value
    return {key: without_noes(item) for key, item in value.items() if item is not False}


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
    """Return the schema of commands, events, errors, notifications, requests, in ``$defs``.

    ``lines`` are the ``:`` commands of the chat: their arguments for people, and the words that may
    come first.
    """
    definitions = _Definitions()
    commands = {name: _command(spec, definitions) for name, spec in COMMANDS.items()}
    told = {event.__dict__["kind"]: definitions.event(event) for event in EVENTS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://aish-lsp.invalid/protocol/{__version__}",
        "title": "What an editor and aish-lsp send each other beside LSP",
        "commands": commands,
        "lines": {
            row.name: {"usage": row.usage, "help": row.help, "verbs": list(row.verbs)}
            for row in COLON_COMMANDS.rows.values()
        },
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
            "aish/terminal": {
                "params": definitions.of(TerminalRequest),
                "result": definitions.of(LastInTerminal | None),
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


if __name__ == "__main__":
    CAPABILITIES.write_text(capabilities())
    sys.stdout.write(render())
