"""What direnv and mise add to the environment in a folder, where the user allowed them to.

They run files of the project, of which ``direnv allow`` has seen only the first, and ``mise trust``
only the name. So they run as a safe command does: confined, and without secrets.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shlex
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.masking import MASK
from aish_lsp.foundation.text import escaped
from aish_lsp.shell.environment import command_environment, reading_environment
from aish_lsp.shell.output import clean_output
from aish_lsp.shell.risk.data import DESTRUCTIVE
from aish_lsp.shell.risk.wrappers import assignment_risk
from aish_lsp.shell.runner import run_quietly

if TYPE_CHECKING:
    from aish_lsp.shell.confinement.support import Confinement

#: Variables and their values; None for those that are unset.
Changes: TypeAlias = Mapping[str, str | None]

_SECONDS: Final = 10.0
#: The most characters that are read of what direnv watches, and shown of errors.
_LONGEST: Final = 1 << 20
_LONGEST_QUOTE: Final = 400
#: What the hooks of both in a shell keep for themselves.
_STATE: Final = re.compile(r"DIRENV_\w+|__MISE_\w+")
#: The loader obeys them in every program, even in the one that confines a command.
_LOADER: Final = re.compile(r"LD_\w+|DYLD_\w+")
_ERROR: Final = re.compile(r"(?i)(?!.* Version: |.*--verbose).*(?:error|trust|not found|denied)")


@dataclass(frozen=True, slots=True)
class _Tool:
    """A program that sets a folder's environment.

    Attributes:
        files: what it reads in the folder and in those above it.
        arguments: how it prints the variables as JSON.
        added: variables that it gets besides the user's.
        removed: variables of the user's that it does not get.
        read: returns the variables in that JSON, and what else they depend on.
    """

    name: str
    files: tuple[str, ...]
    arguments: str
    added: Mapping[str, str]
    removed: frozenset[str]
    read: Callable[[dict[str, Any], Mapping[str, str]], tuple[Changes, Iterable[Path]]]


def _read_direnv(
    printed: dict[str, Any], _environ: Mapping[str, str]
) -> tuple[Changes, Iterable[Path]]:
    packed = base64.urlsafe_b64decode(printed.get("DIRENV_WATCHES") or "")
    watched = json.loads(zlib.decompressobj().decompress(packed, _LONGEST)) if packed else []
    # Newer ones write the names of the fields in lower case.
    return printed, [Path(one.get("path") or one["Path"]) for one in watched]


def _read_mise(
    printed: dict[str, Any], environ: Mapping[str, str]
) -> tuple[Changes, Iterable[Path]]:
    home = Path(environ.get("HOME", "/"))
    trusted = Path(environ.get("XDG_STATE_HOME") or home / ".local/state", "mise/trusted-configs")
    installed = Path(environ.get("XDG_DATA_HOME") or home / ".local/share", "mise/installs")
    sources = [Path(one["source"]) for one in printed.values() if "source" in one]
    changes = {name: one["value"] for name, one in printed.items()}
    return changes, [trusted, installed, *installed.glob("*"), *sources]


_TOOLS: Final = (
    _Tool(
        "direnv",
        (".envrc",),
        "export json",
        {},
        # With them it prints only what has changed since an editor's terminal entered the folder.
        frozenset({"DIRENV_DIR", "DIRENV_FILE", "DIRENV_WATCHES"}),
        _read_direnv,
    ),
    _Tool(
        "mise",
        (
            *("mise.toml", "mise.local.toml", ".mise.toml", ".mise.local.toml", ".tool-versions"),
            *("mise/config.toml", ".mise/config.toml"),
            *(".config/mise.toml", ".config/mise/config.toml"),
        ),
        "env --json-extended",
        {"MISE_OFFLINE": "1"},
        # With one of them it trusts whatever is there.
        frozenset({"CI", "MISE_YES"}),
        _read_mise,
    ),
)


class FolderEnvironment:
    """The environment in a folder; it is read again when what it depends on has changed."""

    def __init__(self, folder: Path, confinement: Callable[[], Confinement]) -> None:
        self._folder = folder
        self._confinement = confinement
        self._reading = asyncio.Lock()
        self._base: Mapping[str, str] | None = None
        self._environ: Mapping[str, str] = {}
        self._stamps: dict[Path, tuple[int, ...]] = {}

    async def over(
        self, base: Mapping[str, str], secret_names: Collection[str]
    ) -> tuple[Mapping[str, str], list[str]]:
        """Return ``base`` with the folder's variables, and what the user should know, once."""
        async with self._reading:
            is_read = base is self._base and self._stamps == _stamps(self._stamps)
            changes = [] if is_read else await self._read(base, secret_names)
            return self._environ, changes

    async def _read(self, base: Mapping[str, str], secret_names: Collection[str]) -> list[str]:
        environ, notices = dict(base), []
        places = (self._folder, *self._folder.parents)
        # What a confined `.envrc` could not make, one that is run in a terminal makes there.
        watched = {folder / ".direnv" for folder in places}
        for tool in _TOOLS:
            files = [folder / name for folder in places for name in tool.files]
            watched.update(files)
            program = shutil.which(tool.name, path=environ.get("PATH"))
            if program is None or not any(map(os.path.exists, files)):
                continue
            own = reading_environment(command_environment(environ, secret_names))
            own = {name: value for name, value in own.items() if name not in tool.removed}
            try:
                stdout, trouble = await self._run(
                    f"{shlex.quote(program)} {tool.arguments}", {**own, **tool.added}
                )
                changes, others = tool.read(json.loads(stdout or "{}"), environ)
            except AishError as error:
                trouble, changes, others = error.message, {}, []
            except (ValueError, LookupError, TypeError, AttributeError, zlib.error):
                trouble, changes, others = "what it printed is not understood.", {}, []
            watched.update(others)
            if trouble:
                notices.append(f"What {tool.name} sets in this folder is not used: {trouble}")
            elif refused := _take(environ, changes):
                names = ", ".join(f"`{escaped(name)}`" for name in refused)
                notices.append(
                    f"Not taken from {tool.name}, since it affects every program: {names}."
                )
        self._base, self._environ, self._stamps = base, environ, _stamps(watched)
        return notices

    async def _run(self, text: str, environ: Mapping[str, str]) -> tuple[str, str]:
        """Run a command confined; return what it printed, and why it failed, if it did.

        Raises:
            AishError: it could not be confined or started.
        """
        confinement = self._confinement()
        support = await confinement.support()
        if not support.available:
            return "", f"commands cannot be confined here ({support.detail})."
        sandbox = await confinement.sandbox(self._folder)
        result, printed = await run_quietly(
            text, cwd=self._folder, env=environ, seconds=_SECONDS, sandbox=sandbox
        )
        if result.finish_reason == "timeout":
            why = f"it took longer than {_SECONDS:.0f} s. Enter the folder in a terminal first."
            return "", why
        if result.exit_code == 0:
            return printed["stdout"], ""
        lines = clean_output(printed["stderr"]).strip().splitlines()
        message = " ".join([line for line in lines if _ERROR.match(line)] or lines[-1:])
        return printed["stdout"], (
            f"{escaped(message)[:_LONGEST_QUOTE]} (It runs confined here: it cannot write or"
            " connect.)"
        )


def _take(environ: dict[str, str], changes: Changes) -> list[str]:
    """Change an environment; return the variables that were not taken."""
    refused = []
    for name, value in changes.items():
        # It was not given what is masked.
        if _STATE.fullmatch(name) or (value is not None and MASK in value):
            continue
        if value is None:
            environ.pop(name, None)
        elif (
            _LOADER.fullmatch(name) or assignment_risk(name, before_command=True)[0] == DESTRUCTIVE
        ):
            refused.append(name)
        else:
            environ[name] = value
    return refused


def _stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, ...]]:
    """Return what differs once a file or a folder has been changed or replaced."""
    stamps: dict[Path, tuple[int, ...]] = {}
    for path in paths:
        try:
            status = path.stat()
            stamps[path] = status.st_ino, status.st_size, status.st_mtime_ns
        except (OSError, ValueError):
            stamps[path] = ()
    return stamps
