"""The architecture: who may import whom, where libraries are known, and what a start loads."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from rooms import FLOORS, PACKAGE, WAY, Import, imports_of, room

#: Libraries and the modules that may import them; nothing else need know that they exist.
LIBRARIES = {
    "acp": ("acp",),
    "lsprotocol": ("lsp",),
    "pygls": ("lsp",),
    "attrs": ("lsp",),
    "cattrs": ("lsp",),
    "websockets": ("lsp.websocket",),
    "httpx": ("models.http", "models.network"),
    "httpx_sse": ("models.http",),
    "huggingface_hub": ("models.fetching",),
    "xllamacpp": ("models.local_server",),
    "platformdirs": ("foundation.files",),
    "prompt_toolkit": ("cli.chat_input",),
    "rich": ("cli.rendering",),
    "markdown_it": ("cli.rendering",),
    "mcp": (
        *("tools.connection", "tools.protocol", "tools.remote", "tools.sign_in"),
        *("tools.transports", "tools.wire"),
    ),
    "mcp_types": ("tools.asking", "tools.protocol", "tools.remote", "tools.wire"),
    "anyio": ("tools.transports",),
    "httpx2": ("tools.protocol", "tools.remote"),
    "jsonschema": ("tools.listing",),
    "pydantic": ("tools.protocol", "tools.sign_in"),
    "tree_sitter": ("shell.risk.words",),
    "tree_sitter_bash": ("shell.risk.words",),
}

#: What a server that is told ``initialize`` needs nothing of. They come when they are first used.
NOT_AT_START = {
    *(
        "httpx",
        "httpx_sse",
        "httpcore",
        "rich",
        "markdown_it",
        "prompt_toolkit",
        "websockets",
        "platformdirs",
        "numpy",
        "mcp",
        "pydantic",
    ),
    *("argparse", "email", "html", "http", "multiprocessing", "sqlite3", "xml", "zipfile"),
    *("aish_lsp.cli", "aish_lsp.config.trust"),
    *("aish_lsp.lsp.reference", "aish_lsp.lsp.websocket"),
    *("aish_lsp.models.endpoint", "aish_lsp.models.endpoint", "aish_lsp.models.http"),
    *("aish_lsp.models.keys", "aish_lsp.offline", "aish_lsp.models.providers.base"),
    "aish_lsp.models.tokenizer",
    *("aish_lsp.project.manifests", "aish_lsp.shell.supervisor", "aish_lsp.undo"),
    *("tree_sitter", "tree_sitter_bash", "aish_lsp.shell.risk.walk", "aish_lsp.shell.risk.rules"),
}


@cache
def all_imports() -> tuple[Import, ...]:
    """Return all imports of all modules."""
    return tuple(found for path in sorted(PACKAGE.rglob("*.py")) for found in imports_of(path))


def internal() -> list[Import]:
    """Return the imports of modules of ours."""
    ours = (found for found in all_imports() if found.of.startswith("aish_lsp."))
    return [found for found in ours if found.of != "aish_lsp.__version__"]


def external() -> list[Import]:
    """Return the imports of others' modules."""
    return [found for found in all_imports() if not found.of.startswith("aish_lsp.")]


def is_in(module: str, place: str) -> bool:
    """Return whether ``module`` is ``place`` or lies in it."""
    return f"{module}.".startswith(f"{place}.")


def floor(module: str) -> int:
    """Return the floor of a module, counted from the top."""
    return next(at for at, rooms in enumerate(FLOORS) if room(module) in rooms)


def not_downward() -> set[tuple[str, str]]:
    """Return the imports from one room to another that do not go down: who, and of which room."""
    return {
        (found.by, room(of))
        for found in internal()
        if room(of := found.of.removeprefix("aish_lsp.")) != room(found.by)
        and floor(of) <= floor(found.by)
    }


def test_the_root_holds_the_way_in_alone() -> None:
    modules = {path.name for path in PACKAGE.iterdir() if path.suffix in (".py", ".typed")}
    assert modules == {"__init__.py", "__main__.py", "py.typed"}


def test_an_import_goes_down() -> None:
    assert not_downward() == set()


def modules() -> set[str]:
    """Return all modules, without the package's name before them."""
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return {".".join(path.parts).removesuffix(".__init__") for path in paths}


def circles() -> set[frozenset[str]]:
    """Return the modules that import each other, over others or not."""
    known = modules()
    wanted: dict[str, set[str]] = {module: set() for module in known}
    for found in internal():
        of = found.of.removeprefix("aish_lsp.")
        # What is imported may be a name in a module, or the module itself.
        of = of if of in known else of.rpartition(".")[0]
        if of in known and of != found.by:
            wanted[found.by].add(of)

    def reached(module: str) -> set[str]:
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            new = wanted[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    reach = {module: reached(module) for module in known}
    return {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in known
        if module in reach[module]
    }


def test_a_library_that_is_imported_is_declared() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["acp"], *extras["tools"], *extras["local"]]
    names = {re.split(r"[\[<>=]", one)[0].replace("-", "_") for one in declared}
    # The name of a package is not always that of its module; pygls' extra brings websockets.
    assert LIBRARIES.keys() - names == {"acp", "markdown_it", "websockets"}
    assert {"agent_client_protocol", "markdown_it_py"} <= names


def test_no_modules_import_each_other() -> None:
    assert circles() == set()


def test_the_way_of_a_question_is_one_of_imports() -> None:
    way = [name.removesuffix(".py").replace("/", ".") for name in WAY]
    assert len(way) <= 10
    wants = {
        (found.by, found.of.removeprefix("aish_lsp.").rpartition(".")[0]) for found in internal()
    }
    modules = {(found.by, found.of.removeprefix("aish_lsp.")) for found in internal()} | wants
    down = way[: way.index("agent.call") + 1]
    # An operation is found in the table of all.
    by_table = ("operations.dispatch", "operations.ask")
    assert {("operations.dispatch", "operations"), ("operations", "operations.ask")} <= modules
    assert set(pairwise(down)) - {by_table} <= wants
    # A call is given its model, and a job its events.
    assert ("models.providers.base", "models.http") in wants
    assert ("lsp.chat_jobs", "foundation.job") in wants


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_known_where_it_is_used_alone(library: str) -> None:
    who = {found.by for found in external() if is_in(found.of, library) and not found.for_types}
    assert [by for by in who if not any(is_in(by, place) for place in LIBRARIES[library])] == []
    assert who


def test_every_library_is_on_the_list() -> None:
    libraries = {found.of.partition(".")[0] for found in external()} - sys.stdlib_module_names
    assert libraries == set(LIBRARIES)


@pytest.mark.slow
def test_the_early_answer_loads_next_to_nothing() -> None:
    script = "import sys, aish_lsp.__main__, aish_lsp.lsp.stream\nprint(*sys.modules, sep='\\n')"
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if name.startswith("aish_lsp.")} == {
        "aish_lsp.__main__",
        *("aish_lsp.lsp", "aish_lsp.lsp.stream"),
    }
    assert {"asyncio", "logging", "threading"}.isdisjoint(loaded)


@pytest.mark.slow
def test_a_start_loads_nothing_that_it_does_not_need() -> None:
    script = "import sys, aish_lsp.__main__, aish_lsp.lsp.server\nprint(*sys.modules, sep='\\n')"
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "aish_lsp.lsp.server" in loaded
    assert [name for name in loaded if any(is_in(name, heavy) for heavy in NOT_AT_START)] == []


@pytest.mark.slow
def test_a_start_reads_no_table() -> None:
    script = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda what, said: what == 'open' and opened.append(str(said[0])))\n"
        "import aish_lsp.__main__, aish_lsp.lsp.server\n"
        "print(*opened, sep='\\n')"
    )
    command = [sys.executable, "-c", script]
    opened = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    # Those for questions, risks, keys and manifests are read when they are first needed.
    assert [name for name in opened if Path(name).suffix == ".toml"] == []
    assert any("aish_lsp" in name for name in opened)
