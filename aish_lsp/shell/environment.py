"""The environment of a command (the user's, without our keys and a terminal), and its shell."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.masking import MASK
from aish_lsp.foundation.redaction import is_secret_name, is_secret_variable, is_telling, secrets_in

#: Variables that by convention hold the keys of known model servers.
KNOWN_SECRETS: Final = frozenset(
    Path(__file__).with_name("secret_variables.txt").read_text("utf-8").split()
)

# Nothing may wait for keys or print for a terminal: there is none.
_PAGERS = ("PAGER", "GIT_PAGER", "MANPAGER", "GH_PAGER", "SYSTEMD_PAGER")
_WITHOUT_TERMINAL = {
    **dict.fromkeys(_PAGERS, "cat"),
    "TERM": "dumb",
    "AWS_PAGER": "",
    "GIT_TERMINAL_PROMPT": "0",
    "NO_COLOR": "1",
    "CLICOLOR": "0",
}
#: Keeps tools that only read from writing or connecting.
_ONLY_READING = {"GIT_OPTIONAL_LOCKS": "0", "npm_config_update_notifier": "false"}
#: Settings of git for such a run only: its file monitor is a program or a daemon, and a diff would
#: write the index.
_GIT_SETTINGS = {"core.fsmonitor": "false", "diff.autoRefreshIndex": "false"}
#: Kept even if a folder in them looks like a secret: programs must be found.
_PATHS = frozenset({"PATH", "HOME", "PWD", "SHELL"})
_FORCES_COLOR = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "COLORTERM")


def command_environment(
    environ: Mapping[str, str], secret_names: Collection[str]
) -> dict[str, str]:
    """Return the environment that a command gets, made from ours.

    The variables of ``secret_names`` and of KNOWN_SECRETS are gone, pagers, prompts and colors are
    off. The rest is kept: PATH, and a virtual environment that is active. One that is not
    active although we run from it (pipx, uvx, a plugin's own) is removed from PATH: the user never
    asked for its Python.
    """
    dropped = {*secret_names, *KNOWN_SECRETS, *_FORCES_COLOR}
    environment = {name: value for name, value in environ.items() if name not in dropped}
    if "PATH" in environment:
        environment["PATH"] = _without_own_folder(
            environment["PATH"], environment.get("VIRTUAL_ENV")
        )
    return environment | _WITHOUT_TERMINAL


def secret_values(environ: Mapping[str, str], secret_names: Collection[str]) -> frozenset[str]:
    """Return the secrets in an environment, which are masked in what goes to a model or a log.

    They are the values of ``secret_names`` and of KNOWN_SECRETS, those of variables named like a
    secret, and in all others what looks like one, such as the password in an address. Values that
    are short or occur in many texts are left out, since they would be masked everywhere.
    """
    names = {*secret_names, *KNOWN_SECRETS}
    values: set[str] = set()
    for name, value in environ.items():
        values.update(secrets_in(value))
        if "@" in value and "://" in value:
            with suppress(ValueError):
                values.add(urlsplit(value).password or "")
        if name in names or (is_secret_variable(name) and not _is_path(value)):
            values.update(_of_secret(value))
    return frozenset(filter(is_telling, values | {unquote(secret) for secret in values}))


def _of_secret(value: str) -> Iterator[str]:
    """Yield the secrets in a variable named like one, which may hold a document or an address."""
    credentials, at, _ = value.partition("://")[2].rpartition("@")
    if at:
        user, _, password = credentials.partition(":")
        yield password or user
        return
    yield value.strip()
    if value.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            fields = json.loads(value).items()
            yield from (v for k, v in fields if isinstance(v, str) and is_secret_name(k))


def _is_path(value: str) -> bool:
    """Return whether a value names a file or folder that exists."""
    try:
        return value.startswith(("/", "~")) and Path(value).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def reading_environment(
    environ: Mapping[str, str], *, with_secrets: bool = False
) -> dict[str, str]:
    """Return the environment of a safe command, given that of any command.

    It gets no secrets, unless one of the user's rules lets it run unconfined: if it printed one in
    another form, no mask would recognize it.
    """
    given_count = environ.get("GIT_CONFIG_COUNT", "0")
    count = int(given_count) if given_count.isdecimal() else 0
    added = {"GIT_CONFIG_COUNT": str(count + len(_GIT_SETTINGS))}
    for number, (name, value) in enumerate(_GIT_SETTINGS.items(), count):
        added |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    if not with_secrets:
        environ = {name: _without_secrets(name, value) for name, value in environ.items()}
    return {**environ, **_ONLY_READING, **added}


@lru_cache(maxsize=1024)
def _without_secrets(name: str, value: str) -> str:
    if name in _PATHS:
        return value
    for secret in sorted(secret_values({name: value}, ()), key=len, reverse=True):
        value = value.replace(secret, MASK)
    return value


def _without_own_folder(path: str, active: str | None) -> str:
    own = os.path.realpath(sys.prefix)
    in_virtual_environment = sys.prefix != sys.base_prefix
    if not in_virtual_environment or (active is not None and os.path.realpath(active) == own):
        return path
    scripts = os.path.realpath(Path(own, "bin"))
    folders = path.split(os.pathsep)
    return os.pathsep.join(f for f in folders if not f or os.path.realpath(f) != scripts)


# The environment of the user's login shell: an editor that was started from a desktop lacks it.

#: Seconds within which a login shell must have started.
_LOGIN_SECONDS: Final = 10.0
#: Variables that are about the shell itself.
_OF_THE_SHELL: Final = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})


async def login_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that the user's login shell has once it has started.

    It is started as a terminal would start it, interactive, but without a terminal.

    Raises:
        StoreUnavailable: it cannot be started, takes longer than ten seconds, or says nothing.
    """
    shell = environ.get("SHELL") or pwd.getpwuid(os.geteuid()).pw_shell
    # What start-up files print comes before the mark.
    mark = secrets.token_hex(16)
    process = None
    try:
        process = await asyncio.create_subprocess_exec(
            *(shell, "-ilc", f"echo {mark}; env -0"),
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        printed, _ = await asyncio.wait_for(process.communicate(), _LOGIN_SECONDS)
    except TimeoutError as error:
        msg = f"{shell} had not started after {_LOGIN_SECONDS:.0f} s"
        raise StoreUnavailable(msg, path=shell) from error
    except OSError as error:
        raise StoreUnavailable(f"{shell}: {error.strerror}", path=shell) from error
    finally:
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    _, separator, entries = printed.partition(f"{mark}\n".encode())
    if not separator:
        raise StoreUnavailable(f"{shell} did not report its environment", path=shell)
    pairs = (os.fsdecode(entry).partition("=") for entry in entries.split(b"\0") if entry)
    return {name: value for name, _, value in pairs if name not in _OF_THE_SHELL}


#: How shells, and programs that run another, say that they did not find it. With the number of a
#: line it may be in any language.
_NOT_FOUND: Final = re.compile(
    r"""
      (?: command[ ]not[ ]found | Unknown[ ]command ):[ ](?P<zsh>\S+)
    | :[ ](?:line[ ])?\d*:?[ ]?(?P<sh>\S+):[ ](?:command[ ])?not[ ]found
    | ^(?:\S*/)?(?:env|xargs|nohup|time):[^\n:]*?[ ]\W?(?P<by>[\w.+-]+)\W?:[ ]No[ ]such
    | ^\S+?:[ ][^\n:]{0,20}\d[ ]?:[ ](?P<any>[^\s:/]+)[ ]?:[ ]
    """,
    re.MULTILINE | re.VERBOSE,
)


def program_not_found(output: str) -> str:
    """Return the program that a shell says it did not find; empty if it says nothing of one."""
    match = _NOT_FOUND.search(output)
    return (match[match.lastgroup or 0] or "") if match else ""


_POWERSHELLS: Final = frozenset({"pwsh", "powershell"})


def shell_for(named: str, own: str, path: str | None) -> tuple[str, str]:
    """Return the shell that runs commands for the shell ``named``, and why it cannot be used.

    Args:
        named: the name in a suggestion; empty for the user's own.
        own: the user's own (``safety.shell``), a name or a path.
        path: the folders to look in.

    The reason is empty if it can be used. PowerShell is used only if it is the user's own: what is
    written for it does something else in any other shell.
    """
    name = Path(own).name.removesuffix(".exe")
    if not named or name == named or {name, named} <= _POWERSHELLS:
        return own, ""
    if named in _POWERSHELLS:
        return named, f"it is for PowerShell, and your shell (`safety.shell`) is {name}"
    if shutil.which(named, path=path) is None:
        return named, f"it is for {named}, which is not installed here"
    return named, ""
