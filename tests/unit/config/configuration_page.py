"""docs/configuration.md: the keys of the schema as a page.

``./dev docs`` rewrites it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

from aish_lsp.config.keys import NAME, Key, all_keys, first_line
from aish_lsp.config.schema import Config
from aish_lsp.foundation.text import accepted, arms

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"

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

<!-- Made by `./dev docs`. Do not edit. -->

aish-lsp runs without any configuration. To change something, write a file `config.toml`:

```toml
{example}```

It belongs in the platform's configuration folder (`~/.config/aish/config.toml` on Linux,
`~/Library/Application Support/aish/config.toml` on macOS), or at the path in `AISH_CONFIG`.

    aish-lsp config show      what is in force, and where each value came from
    aish-lsp config check     what is wrong; exits 1 if anything is
    aish-lsp config schema    the keys as a JSON schema, for completion in an editor

## Where values come from

From the weakest to the strongest:

1. the defaults below;
2. the workspace's own `.aish.toml` (see [Trust](#trust));
3. your `config.toml`;
4. environment variables: `AISH_` and the key in capitals, with `__` for each dot, such as
   `AISH_DEFAULT_MODEL`, `AISH_CONTEXT__MAX_TURNS` or `AISH_MODELS__LOCAL__ENDPOINT`. Text needs
   no quotes; numbers, `true`, `false`, lists and tables are written as in JSON. A preset's name is
   read as lower case. An empty variable counts as not set;
5. the editor's `initializationOptions`, under the name `aish`;
6. the editor's settings (`workspace/configuration`, section `aish`; see [Trust](#trust)).

Keys are spelled the same everywhere, even in an editor's JSON: `max_turns`, not `maxTurns`. In that
JSON, `null` leaves a key unset. Tables are merged key by key; a list is replaced as a whole.

A change takes effect at the next question, without a restart. A source that contains a mistake
changes nothing: its last valid version stays in force, and a message says which key is wrong, what
was found, what is accepted, and where.

`AISH_CONFIG` (the file), `AISH_DATA_DIR` (the folder for memory, sessions and grants),
`AISH_DISCOVERY`, `AISH_LANDLOCK_ABI` ([Safety](safety.md#confinement)) and variables that begin
with `AISH_LOG` are not keys.

## Keys of providers

Never write an API key itself into the configuration: it is refused there. Name the environment
variable that holds it with `api_key_env`, or a command that prints it with `api_key_command`.

## Trust

A workspace, and the settings that an editor finds in it, may come from a stranger. Without your
grant, only the harmless parts of `.aish.toml` and of the editor's settings take effect: all of
`project`, `memory.inject_max_chars`, and `context.max_turns` if it lowers the value in force.
Nothing else takes effect until you grant it. A grant covers exactly the keys and values that were
shown; if they change, you are asked again. A value that is in force anyway needs no grant. `:trust`
in the chat shows everything, `:trust grant` asks you, `:trust revoke` withdraws the grant
(`aish.trust.show`, `.grant`, `.revoke`).

A workspace's preset or tool server is never mixed with one of yours of the same name: yours
replaces one from `.aish.toml` as a whole, and settings that you granted replace yours as a whole.
Tool servers are also granted one by one.
"""


def markdown() -> str:
    """Return docs/configuration.md."""
    return _BEFORE.format(example=EXAMPLE) + "".join(_sections())


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
    """Return what a table's class says about it."""
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
    return f"{first_line(cls)}{chosen}\n\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
