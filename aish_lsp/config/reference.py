"""The schema for machines (JSON Schema) and for people (docs/configuration.md).

``python -m aish_lsp.config.reference > docs/configuration.md`` writes the page anew; a test holds
that it is current.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from aish_lsp.config.keys import NAME, Key, all_keys
from aish_lsp.config.schema import Config
from aish_lsp.foundation.text import accepted, arms

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}

EXAMPLE: Final = """\
default_model = "local"

[models.local]
endpoint = "http://127.0.0.1:8080"
temperature = 0.2

[models.cloud]
endpoint = "https://api.openai.com/v1"
model = "gpt-4.1-mini"
api_key_env = "OPENAI_API_KEY"
price = {input = 0.40, output = 1.60, cache_read = 0.10}

[routing]
classes = {code = "cloud"}
fallback = ["local", "offline"]

[cost]
cap_at_dollars = 5.0
"""

_BEFORE: Final = """\
# Configuration

<!-- Generated from the schema: python -m aish_lsp.config.reference > docs/configuration.md -->

aish-lsp runs without any configuration. To change something, write a file `config.toml`:

```toml
{example}```

It lies in the platform's folder for configuration (`~/.config/aish/config.toml` on Linux,
`~/Library/Application Support/aish/config.toml` on macOS), or where `AISH_CONFIG` says.

    aish-lsp config show      what is in force, and where each value came from
    aish-lsp config check     what is wrong; exits 1 where something is
    aish-lsp config schema    the keys as a JSON schema, for an editor's completion

## Where values come from

From the weakest to the strongest:

1. the defaults below;
2. the workspace's own `.aish.toml` (see [Trust](#trust));
3. your `config.toml`;
4. environment variables: `AISH_` and the key in capitals, with `__` for each dot, such as
   `AISH_DEFAULT_MODEL`, `AISH_CONTEXT__MAX_TURNS` or `AISH_MODELS__LOCAL__ENDPOINT`. Texts stand as
   they are; numbers, `true`, `false`, lists and tables are written as in JSON. A preset's name is
   taken in small letters. An empty variable counts as not set;
5. `initializationOptions` of the editor, under the name `aish`;
6. the editor's settings (`workspace/configuration`, section `aish`; see [Trust](#trust)).

Keys are spelled the same everywhere, also in an editor's JSON: `max_turns`, not `maxTurns`. There,
`null` leaves a key unset. Tables are merged key by key; a list is replaced as a whole.

A change counts at the next question, without a restart. A source with a mistake in it changes
nothing: what it said when it was last good stays in force, and a message says which key is wrong,
what was found, what is accepted, and where.

`AISH_CONFIG` (the file), `AISH_DATA_DIR` (the folder for memory, sessions and grants),
`AISH_DISCOVERY`, `AISH_LANDLOCK_ABI` ([Safety](safety.md#confinement)) and those that begin
with `AISH_LOG` are not keys.

## Keys of providers

A key itself is never written into the configuration and is refused there. Name the environment
variable that holds it with `api_key_env`, or a command that prints it with `api_key_command`.

## Trust

A workspace can be a stranger's, and so can be the settings that an editor finds in it. Without your
grant, only what is harmless counts of `.aish.toml` and of the editor's settings: all of `project`,
`memory.inject_max_chars`, and `context.max_turns` where it lowers what is in force. All else has no
effect until you grant it. A grant is for exactly the keys and values that were shown; a change of
them asks again. What repeats a value that is in force anyway needs no grant. `:trust` in the chat
shows all of it, `:trust grant` asks you, `:trust revoke` takes it back (`aish.trust.show`,
`.grant`, `.revoke`).

A preset or a tool server of a workspace is never mixed with one of yours of the same name: over
`.aish.toml` yours wins as a whole, and settings that you granted replace yours as a whole. Tool
servers are granted one by one in addition.
"""


def json_schema() -> dict[str, Any]:
    """Return the configuration's JSON schema (draft 2020-12)."""
    return {"$schema": _DIALECT, "title": "aish-lsp", **_table_schema(Config)}


def markdown() -> str:
    """Return docs/configuration.md."""
    return _BEFORE.format(example=EXAMPLE) + "".join(_sections())


def _table_schema(cls: type) -> dict[str, Any]:
    kinds = get_type_hints(cls)
    return {
        "type": "object",
        "description": _first_line(cls),
        "properties": {
            field.name: _field_schema(field, kinds[field.name])
            for field in dataclasses.fields(cls)
            if _is_key(field, kinds[field.name])
        },
        "additionalProperties": False,
    }


def _is_key(field: dataclasses.Field[Any], kind: Any) -> bool:
    """Return whether a field is the user's to set; a preset's ``name`` is not."""
    return "doc" in field.metadata or dataclasses.is_dataclass(kind)


def _field_schema(field: dataclasses.Field[Any], kind: Any) -> dict[str, Any]:
    schema = _kind_schema(kind)
    if "doc" not in field.metadata:
        return schema
    schema["description"] = field.metadata["doc"]
    if field.default is not dataclasses.MISSING:
        schema["default"] = field.default
    for bound in ("minimum", "maximum"):
        if field.metadata[bound] is not None:
            schema[bound] = field.metadata[bound]
    return schema


def _kind_schema(kind: Any) -> dict[str, Any]:
    if alternatives := arms(kind):
        schema = _kind_schema(alternatives[0])
        return {**schema, "type": [schema["type"], "null"]}
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        return _table_schema(kind)
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": list(arguments)}
    if get_origin(kind) is list:
        return {"type": "array", "items": _kind_schema(arguments[0])}
    if get_origin(kind) is dict:
        entry = arguments[1]
        values = True if entry is Any else _kind_schema(entry)
        return {"type": "object", "additionalProperties": values}
    return {"type": _SIMPLE[kind]}


def _sections() -> Iterator[str]:
    """Yield a section for each table, in the order of the schema."""
    tables: dict[tuple[str, ...], list[Key]] = {}
    for key in all_keys():
        tables.setdefault(key.path[:-1], []).append(key)
    for path, keys in tables.items():
        title = f"`[{'.'.join(path)}]`" if path else "At the top"
        yield f"\n## {title}\n\n{_about(path)}| key | takes | default | |\n|---|---|---|---|\n"
        for key in keys:
            takes = accepted(key.kind, key.minimum, key.maximum)
            default = "" if key.default is None else f"`{json.dumps(key.default)}`"
            yield f"| `{key.path[-1]}` | {takes} | {default} | {key.doc} |\n"


def _about(path: tuple[str, ...]) -> str:
    """Return what a table's class says of it."""
    if not path:
        return ""
    cls: Any = Config
    for name in path:
        if name == NAME:
            continue
        kind = get_type_hints(cls)[name]
        kind = (arms(kind) or [kind])[0]
        cls = get_args(kind)[1] if get_origin(kind) is dict else kind
    chosen = f" `{NAME}` is a name that you choose." if path[-1] == NAME else ""
    return f"{_first_line(cls)}{chosen}\n\n"


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0].replace("``", "`")


if __name__ == "__main__":
    sys.stdout.write(markdown())
