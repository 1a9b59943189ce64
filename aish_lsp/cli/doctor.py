"""``aish-lsp doctor``: what was found, what is missing, and what to do about it.

With ``--report``, it prints what a bug report needs, without secrets and without the user's name.
"""

from __future__ import annotations

import asyncio
import getpass
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from aish_lsp import __version__
from aish_lsp.cli.command import add_command, open_workspace, write_result
from aish_lsp.cli.inspecting import values_in_force
from aish_lsp.cli.spelling import for_shell
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.files import config_file, data_dir, private_dir, read_file, recent_log
from aish_lsp.foundation.text import count_of, escaped
from aish_lsp.models.address import origin, shows_key

if TYPE_CHECKING:
    import argparse

    from aish_lsp.agent import Workspace
    from aish_lsp.config.schema import Preset

#: Timeout in seconds for a command that prints a key; a request waits longer for it.
KEY_TIMEOUT = 10.0

#: Timeout in seconds for all questions to a model's server about itself.
SERVER_TIMEOUT = 10.0

_MARKS: dict[State, str] = {"ok": "✓", "missing": "-", "broken": "✗"}


def add_parser(commands: Any) -> None:
    """Add ``doctor`` to the command line."""
    help_ = "show what was found, what is missing and what to do"
    doctor = add_command(commands, "doctor", run, help_)
    doctor.add_argument(
        "--report",
        action="store_true",
        help="print what a bug report needs, without keys and without your name",
    )


async def run(arguments: argparse.Namespace) -> int:
    """Examine everything and show the findings; return 1 if something is broken."""
    async with open_workspace(arguments) as workspace:
        findings = [finding async for finding in _findings(workspace)]
        page = await asyncio.to_thread(report, workspace, findings) if arguments.report else ""
    if page:
        write_result(arguments, {"report": page}, page.rstrip(), indent=None)
    else:
        write_result(arguments, findings, "\n".join(map(str, findings)), listed=True)
    return int(any(finding.state == "broken" for finding in findings))


async def _findings(workspace: Workspace) -> AsyncIterator[Finding]:
    yield Finding("aish-lsp", "ok", f"{__version__}, Python {platform.python_version()}")
    yield _configuration(await workspace.refresh())
    yield _data_dir()
    yield _shell(workspace.config.safety.shell)
    yield _git()
    yield _undo(workspace.folder)
    confinement = await _confinement(workspace)
    yield confinement
    if confinement.state == "ok":
        yield await _work(workspace)
    for warning in await workspace.services.http.examine():
        yield Finding("network", "missing", warning)
    async for finding in _models(workspace):
        yield finding
    for day, fact in workspace.services.told.recent():
        yield Finding("noticed", "missing", f"{for_shell(fact)} ({day})")


def _configuration(problems: list[str]) -> Finding:
    path = config_file()
    if problems:
        advice = "`aish-lsp config check` says more; docs/configuration.md lists the keys."
        return Finding("configuration", "broken", "; ".join(problems), advice)
    return Finding("configuration", "ok", f"{path}{'' if path.exists() else ' (none: defaults)'}")


def _data_dir() -> Finding:
    path = data_dir()
    try:
        private_dir(path)
    except AishError as error:
        return Finding(
            "data", "broken", error.message, "Set AISH_DATA_DIR to a folder that you can write to."
        )
    if not os.access(path, os.W_OK):
        return Finding("data", "broken", f"{path} is read-only", "Set AISH_DATA_DIR to another.")
    return Finding("data", "ok", f"{path} (memory, sessions, usage)")


def _shell(shell: str) -> Finding:
    path = shutil.which(shell)
    if path is None:
        advice = "Install it, or set safety.shell to one that is installed."
        return Finding("shell", "broken", f"{shell} was not found", advice)
    return Finding("shell", "ok", path)


def _git() -> Finding:
    path = shutil.which("git")
    if path is None:
        advice = "Without git there is no undo, and files take longer to find."
        return Finding("git", "missing", "not found", advice)
    return Finding("git", "ok", path)


def _undo(folder: Path) -> Finding:
    from aish_lsp.undo.records import KEPT, KEPT_BYTES, KEPT_DAYS, usage  # noqa: PLC0415 - large

    count, size = usage(folder)
    amount = f"{count_of(count, 'command')} here can be undone, {size / (1 << 20):.1f} MiB"
    most = f"at most {KEPT}, {KEPT_DAYS} days and {KEPT_BYTES >> 20:,} MiB"
    return Finding("undo", "ok", f"{amount} ({most})")


async def _confinement(workspace: Workspace) -> Finding:
    """Return whether the kernel can confine safe commands."""
    if not workspace.config.safety.confine:
        return Finding("confinement", "missing", "safety.confine is off", _UNCONFINED)
    support = await workspace.services.confinement.support()
    if support.available:
        return Finding("confinement", "ok", f"{support.detail}: safe commands can only read")
    return Finding("confinement", "missing", support.detail, _UNCONFINED)


async def _work(workspace: Workspace) -> Finding:
    """Return whether commands of a goal can run without asking."""
    support = await workspace.services.confinement.work_support()
    if support.available:
        return Finding("goals", "ok", support.detail)
    advice = "In a goal, commands that may change something always ask. docs/norris.md says more."
    return Finding("goals", "missing", f"no profile `work`: {support.detail}", advice)


async def _models(workspace: Workspace) -> AsyncIterator[Finding]:
    """Yield a finding for each model; the servers of configured ones are asked."""
    services = workspace.services
    rows = await services.catalog.list(workspace.config)
    presets = workspace.config.models.values()
    for finding in await asyncio.gather(*(_configured(workspace, one) for one in presets)):
        yield finding
    for row in rows:
        if row.source == "found":
            yield Finding("model", "ok", f"{row.name} at {row.endpoint}: {row.model or 'any'}")
        elif row.source == "offered":
            advice = (
                f"`aish-lsp ask --model {row.name}` uses it, and asks before it sends anything."
            )
            yield Finding("model", "missing", f"a key for {row.name} is in the environment", advice)
    if all(row.source in ("built-in", "offered") for row in rows):
        yield Finding("model", "missing", "only the offline model answers", _CONNECT)


async def _configured(workspace: Workspace, preset: Preset) -> Finding:
    """Return whether a configured model's server answers, and the context window."""
    from aish_lsp.models.providers import describe  # noqa: PLC0415 - for a configured model alone

    what = f"model {preset.name}"
    if preset.provider == "offline":
        return Finding(what, "ok", "the offline model")
    if not preset.endpoint.strip():
        return Finding(what, "broken", "it has no valid endpoint", "Set `endpoint` in config.toml.")
    if problem := await _problem(workspace, preset):
        return Finding(what, "broken", *problem)
    try:
        async with asyncio.timeout(SERVER_TIMEOUT):
            info = await describe(workspace.services.http, preset, workspace.services.keys)
    except TimeoutError:
        failure = f"{preset.endpoint} did not answer within {SERVER_TIMEOUT:g} s"
        return Finding(what, "broken", failure, "Restart the server, or correct the endpoint.")
    if info.kind is None and not info.models:
        state = f"nothing answers at {preset.endpoint}"
        advice = "Start the server, or correct the endpoint in config.toml."
        if info.refuses_key:
            state = f"{preset.endpoint} refuses the key, or wants one"
            advice = f"Set {preset.api_key_env or '`api_key_env`'} to the right one."
        return Finding(what, "broken", state, advice)
    window = preset.context_window or info.context_window
    size = f"window {window:,} tokens" if window else "window unknown: set context_window"
    return Finding(what, "ok", f"{preset.endpoint}: {preset.model or 'its only model'}, {size}")


async def _problem(workspace: Workspace, preset: Preset) -> tuple[str, str] | None:
    """Return why the file or the key of ``preset`` cannot be used, and what to do, if so."""
    from aish_lsp.models.keys import resolve_key  # noqa: PLC0415 - only for a configured model
    from aish_lsp.models.local_server import model_file  # noqa: PLC0415 - as above

    keys = workspace.services.keys
    if preset.file is not None:
        try:
            model_file(preset)
        except AishError as error:
            return error.message, "`aish-lsp setup` sets another model up."
    try:
        await resolve_key(preset, keys, timeout_s=KEY_TIMEOUT)
    except AishError as error:
        if preset.api_key_env and not keys.get(preset.api_key_env, "").strip():
            return f"{preset.api_key_env} is not set", "Set it to the key, or run `aish-lsp setup`."
        advice = "Run the key command in a terminal: it must print the key and end quickly."
        return error.message, advice
    place = origin(preset.endpoint)
    if shows_key(preset) and not workspace.services.catalog.may_show_key(place):
        advice = f"Write https:// in its endpoint, or agree: `aish-lsp ask --model {preset.name}`."
        return f"its key would go to {place} unencrypted", advice
    return None


_UNCONFINED = (
    "Commands that only read still run when you choose them, but never without a question where"
    " nobody sees them (`ask --yes-safe`, goals). docs/confinement.md says what confinement needs."
)

_CONNECT = (
    "`aish-lsp setup` connects one: with a key that you paste or have in the environment, or a "
    "small one for this machine. A server (`llama-server -m MODEL.gguf`, `ollama serve`) is found "
    "automatically once it runs."
)


#: Libraries whose versions a report includes.
_LIBRARIES: Final = ("pygls", "lsprotocol", "httpx", "tree-sitter", "tree-sitter-bash")

#: Programs whose versions a report includes, each with the option that prints it.
_PROGRAMS: Final = (("git", "--version"), ("bash", "--version"))

#: How many lines of the log, and how many clients, a report includes.
_LINES: Final = 40
_CLIENTS: Final = 3

#: ``ok``; ``missing``: something works less well; ``broken``: something does not work.
State: TypeAlias = Literal["ok", "missing", "broken"]

#: User names that do not identify a person.
_COMMON_NAMES: Final = frozenset({"root", "user", "home", "users", "admin", "nobody"})


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``advice`` says what to do about it."""

    what: str
    state: State
    found: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f"\n    → {self.advice}" if self.advice else ""
        return f"{_MARKS[self.state]} {self.what}: {self.found}{advice}"


def report(workspace: Workspace, findings: Sequence[Finding]) -> str:
    """Return the report, as Markdown that can be pasted into an issue. Blocks."""
    log = _log()
    clients = [line for line in log if " client: " in line][-_CLIENTS:]
    errors = [line for line in log if " client: " not in line][-_LINES:]
    sections: Mapping[str, Iterable[str]] = {
        "Versions": _versions(),
        "Recent editors": clients or ["none yet"],
        "What the doctor found": (f"{one.what}: {one.state}, {one.found}" for one in findings),
        "Configuration (other than the defaults)": _settings(workspace) or ["nothing"],
        "Recent warnings and errors": errors or ["none"],
    }
    parts = ["# aish-lsp report\n"]
    for title, lines in sections.items():
        body = "\n".join(escaped(line) for line in lines)
        parts.append(f"## {title}\n\n```text\n{body}\n```\n")
    return without_name(workspace.without_secrets("\n".join(parts)))


def without_name(text: str) -> str:
    """Return ``text`` with ``~`` in place of the user's home folder and name."""
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
        yield f"{library} {_or_empty(partial(importlib.metadata.version, library))}"
    for command in _PROGRAMS:
        yield _or_empty(partial(_first_line, command)) or f"{command[0]}: not found"


def _system() -> str:
    """Return the name of the operating system for a person."""
    pretty = ""
    if platform.system() == "Linux":
        pretty = _or_empty(lambda: platform.freedesktop_os_release().get("PRETTY_NAME", ""))
    return f"{pretty or platform.system()}, kernel {platform.release()}"


def _first_line(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    output = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True, timeout=5)
    return output.partition("\n")[0]


def _or_empty(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except (OSError, subprocess.SubprocessError, importlib.metadata.PackageNotFoundError):
        return ""


def _settings(workspace: Workspace) -> list[str]:
    """Return the keys that are set, with their origins, and the problems."""
    loaded = workspace.configuration.loaded
    values = [
        f"{path} = {json.dumps(value, ensure_ascii=False)}  # {origin}"
        for path, value, origin in values_in_force(loaded)
        if origin != "default"
    ]
    return [*values, *(f"problem: {problem}" for problem in loaded.problems)]


def _log() -> list[str]:
    """Return the recent lines of the log, oldest first, or why it cannot be read."""
    path = recent_log()
    try:
        data = read_file(path.with_name(f"{path.name}.1")) + read_file(path)
    except AishError as error:
        return [error.message]
    return data.decode(errors="replace").splitlines()
