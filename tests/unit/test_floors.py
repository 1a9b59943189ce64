"""The architecture: who may import whom, where libraries are known, and what a start loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import aish_lsp

PACKAGE = Path(aish_lsp.__file__).parent

#: From the top. What stands on no floor, the modules at the package's root, lies below all.
FLOORS = (
    {"__main__"},
    {"cli"},
    {"server"},
    {"lsp"},
    {"chat"},
    {"turn", "compaction", "execution", "extractor", "model_setup"},
    {"turn_request"},
    {"summarizer"},
    {"side_request"},
    {"agent"},
    {"accounting", "attached", "composition", "endings", "fallback", "job_table", "model_choice"}
    | {"resumption"},
    {"services"},
    {"conversation", "undo"},
    {"models", "memory", "sessions", "project", "shell", "config"},
)

#: What is not strictly downward: who imports, what, and why it may.
EXCEPTIONS = {
    # Run time
    ("lsp.reference", "server"): "a script: it asks a whole server what it says of itself",
    ("models.catalog", "config.schema"): "a preset is what a model is asked for by",
    ("models.discovery", "config.schema"): "as above: what is found becomes a preset",
    ("models.prices", "config.schema"): "as above: the table has what a preset may have",
    ("models.listed_prices", "config.schema"): "as above, of a server's own list",
    ("models.offline", "project"): "its answers are the project's own tasks and words",
    ("models.offline", "shell.risk"): "it explains a command by what aish says of it too",
    # Types only
    ("lsp", "server"): "each feature is handed the server that it is set up in",
    ("sessions.recorder", "conversation.turns"): "it writes turns down; it makes none",
}

#: Libraries and the modules that may import them; nothing else need know that they exist.
LIBRARIES = {
    "lsprotocol": ("lsp", "server"),
    "pygls": ("lsp", "server"),
    "attrs": ("lsp",),
    "cattrs": ("lsp", "strict", "validate"),
    "websockets": ("lsp.sockets",),
    "httpx": ("models.http",),
    "httpx_sse": ("models.sse",),
    "platformdirs": ("paths",),
    "rich": ("cli",),
    "tree_sitter": ("shell.risk.syntax",),
    "tree_sitter_bash": ("shell.risk.syntax",),
}

#: What a server that is told ``initialize`` needs nothing of. They come when they are first used.
NOT_AT_START = {
    *("httpx", "httpx_sse", "httpcore", "rich", "websockets", "platformdirs", "numpy"),
    *("argparse", "email", "html", "http", "multiprocessing", "sqlite3", "xml", "zipfile"),
    *("aish_lsp.cli", "aish_lsp.config.reference", "aish_lsp.config.trust"),
    *("aish_lsp.lsp.reference", "aish_lsp.lsp.sockets"),
    *("aish_lsp.models.discovery", "aish_lsp.models.endpoint", "aish_lsp.models.http"),
    *("aish_lsp.models.keys", "aish_lsp.models.offline", "aish_lsp.models.adapters"),
    "aish_lsp.models.routing",
    *("aish_lsp.models.gemini_api", "aish_lsp.models.request_counter"),
    *("aish_lsp.project.manifests", "aish_lsp.shell.supervisor"),
    *("tree_sitter", "tree_sitter_bash", "aish_lsp.shell.risk.whole", "aish_lsp.shell.risk.rules"),
}


class Import(NamedTuple):
    """An import: of what, by whom (below ``aish_lsp``), and whether for the type checker alone."""

    by: str
    of: str
    for_types: bool


def imports_of(path: Path) -> Iterator[Import]:
    by = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while waiting:
        node, for_types = waiting.pop()
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                waiting += [(inner, True) for inner in node.body]
                waiting += [(inner, for_types) for inner in node.orelse]
            case ast.Import():
                yield from (Import(by, alias.name, for_types) for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (Import(by, f"{module}.{alias.name}", for_types) for alias in node.names)
            case ast.ImportFrom():
                pytest.fail(f"{path} imports by a relative name")
            case _:
                waiting += [(inner, for_types) for inner in ast.iter_child_nodes(node)]


ALL = [found for path in sorted(PACKAGE.rglob("*.py")) for found in imports_of(path)]
INTERNAL = [found for found in ALL if found.of.startswith("aish_lsp.")]
EXTERNAL = [found for found in ALL if found not in INTERNAL]


def is_in(module: str, place: str) -> bool:
    """Return whether ``module`` is ``place`` or lies in it."""
    return f"{module}.".startswith(f"{place}.")


def floor(module: str) -> int:
    """Return the floor of a module, counted from the top."""
    room = module.partition(".")[0]
    return next((at for at, rooms in enumerate(FLOORS) if room in rooms), len(FLOORS))


def not_downward() -> Iterator[tuple[str, str]]:
    """Yield the imports from one room to another that do not go down."""
    for by, name, for_types in INTERNAL:
        of = name.removeprefix("aish_lsp.")
        same_room = by.partition(".")[0] == of.partition(".")[0]
        below_all = floor(by) == floor(of) == len(FLOORS)
        beside = floor(of) == floor(by)
        if (
            not same_room
            and not below_all
            and (floor(of) < floor(by) or (beside and not for_types))
        ):
            yield by, of


def allowed_by(by: str, of: str) -> list[tuple[str, str]]:
    return [(who, what) for who, what in EXCEPTIONS if is_in(by, who) and is_in(of, what)]


def test_an_import_goes_down_or_is_a_named_exception() -> None:
    assert [pair for pair in not_downward() if not allowed_by(*pair)] == []


def test_no_exception_is_left_over() -> None:
    used = {rule for pair in not_downward() for rule in allowed_by(*pair)}
    assert set(EXCEPTIONS) - used == set()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_known_where_it_is_used_alone(library: str) -> None:
    who = {found.by for found in EXTERNAL if is_in(found.of, library) and not found.for_types}
    assert [by for by in who if not any(is_in(by, place) for place in LIBRARIES[library])] == []
    assert who


def test_every_library_is_on_the_list() -> None:
    libraries = {found.of.partition(".")[0] for found in EXTERNAL} - sys.stdlib_module_names
    assert libraries == set(LIBRARIES)


def test_a_start_loads_nothing_that_it_does_not_need() -> None:
    script = (
        "import sys, aish_lsp.__main__, aish_lsp.server, aish_lsp.lsp.transport\n"
        "print(*sys.modules, sep='\\n')"
    )
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "aish_lsp.server" in loaded
    assert [name for name in loaded if any(is_in(name, heavy) for heavy in NOT_AT_START)] == []
