"""``aish-lsp doctor --report``: what a bug report needs, without secrets and without your name."""

from __future__ import annotations

import getpass
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from aish_lsp import __version__
from aish_lsp.cli.config import values_in_force
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.files import read_file
from aish_lsp.foundation.paths import recent_log
from aish_lsp.foundation.text import escaped

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace

#: Libraries whose versions tell something.
_LIBRARIES: Final = ("pygls", "lsprotocol", "httpx", "tree-sitter", "tree-sitter-bash")

#: Programs whose versions tell something, each with how it tells it.
_PROGRAMS: Final = (("git", "--version"), ("bash", "--version"))

#: Lines of the log that are shown, and clients.
_LINES: Final = 40
_CLIENTS: Final = 3

#: ``ok``; ``missing``: something works less well; ``broken``: something does not work.
State: TypeAlias = Literal["ok", "missing", "broken"]

#: User names that say nothing of anybody.
_COMMON_NAMES: Final = frozenset({"root", "user", "home", "users", "admin", "nobody"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; ``advice`` says what to do about it."""

    what: str
    state: State
    found: str
    advice: str = ""


def report(workspace: Workspace, findings: Sequence[Finding]) -> str:
    """Return the report, Markdown that can be pasted into an issue. Blocks."""
    log = _log()
    clients = [line for line in log if " client: " in line][-_CLIENTS:]
    errors = [line for line in log if " client: " not in line][-_LINES:]
    sections: Mapping[str, Iterable[str]] = {
        "Versions": _versions(),
        "Editors seen lately": clients or ["none yet"],
        "What the doctor found": (f"{one.what}: {one.state}, {one.found}" for one in findings),
        "Configuration (what is not as by default)": _configured(workspace) or ["nothing"],
        "Warnings and errors of late": errors or ["none"],
    }
    parts = ["# aish-lsp report\n"]
    for title, lines in sections.items():
        body = "\n".join(escaped(line) for line in lines)
        parts.append(f"## {title}\n\n```text\n{body}\n```\n")
    return without_name(workspace.without_secrets("\n".join(parts)))


def without_name(text: str) -> str:
    """Return ``text`` with ``~`` in place of the user's home folder, and of their name."""
    homes = {os.path.expanduser("~"), os.path.realpath(os.path.expanduser("~"))}  # noqa: PTH111
    for home in sorted(homes - {"/", "~"}, key=len, reverse=True):
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    names = {Path(home).name for home in homes} | {_user()}
    for name in sorted(names, key=len, reverse=True):
        if len(name) > 2 and name.lower() not in _COMMON_NAMES:
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "~", text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _versions() -> Iterator[str]:
    yield f"aish-lsp {__version__}"
    yield f"Python {platform.python_version()} ({sys.implementation.name})"
    yield f"{_system()}, {platform.machine()}"
    for library in _LIBRARIES:
        yield f"{library} {_or_nothing(partial(importlib.metadata.version, library))}"
    for command in _PROGRAMS:
        yield _or_nothing(partial(_first_line, command)) or f"{command[0]}: not found"


def _system() -> str:
    """Return the name of the operating system, as a person calls it."""
    pretty = ""
    if platform.system() == "Linux":
        pretty = _or_nothing(lambda: platform.freedesktop_os_release().get("PRETTY_NAME", ""))
    return f"{pretty or platform.system()}, kernel {platform.release()}"


def _first_line(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    told = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True, timeout=5)
    return told.partition("\n")[0]


def _or_nothing(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except (OSError, subprocess.SubprocessError, importlib.metadata.PackageNotFoundError):
        return ""


def _configured(workspace: Workspace) -> list[str]:
    """Return what is set, each with where; and what is wrong."""
    loaded = workspace.configuration.loaded
    values = [
        f"{path} = {json.dumps(value, ensure_ascii=False)}  # {origin}"
        for path, value, origin in values_in_force(loaded)
        if origin != "default"
    ]
    return [*values, *(f"problem: {problem}" for problem in loaded.problems)]


def _log() -> list[str]:
    """Return the lines of the log of late, the oldest first; none where it cannot be read."""
    path = recent_log()
    try:
        data = read_file(path.with_name(f"{path.name}.1")) + read_file(path)
    except AishError as error:
        return [error.message]
    return data.decode(errors="replace").splitlines()
