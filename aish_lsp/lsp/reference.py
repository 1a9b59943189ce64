"""What is made from the registries of the code: docs/protocol.md and capabilities.json.

``./dev docs`` runs this as a module.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from aish_lsp.agent import events
from aish_lsp.chat.colon import COLON_COMMANDS
from aish_lsp.foundation import errors
from aish_lsp.foundation.events import camel_case
from aish_lsp.lsp.early_initialize import CAPABILITIES
from aish_lsp.lsp.protocol import COMMANDS
from aish_lsp.lsp.registry import CommandSpec
from aish_lsp.lsp.schema import (
    EVENTS,
    first_line,
    is_required,
    kinds_of,
    names_for_types,
    results_of,
)
from aish_lsp.operations.operation import Target
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

    protocol = create_server().protocol
    found = protocol.capabilities_for(ClientCapabilities())
    return json.dumps(without_noes(protocol.plain(found)), indent=1) + "\n"


def without_noes(value: Any) -> Any:
    """Drop what is said to be impossible: to a client that is the same as not being said."""
    if not isinstance(value, dict):
        return value
    return {key: without_noes(item) for key, item in value.items() if item is not False}


if __name__ == "__main__":
    CAPABILITIES.write_text(capabilities())
    sys.stdout.write(render())
