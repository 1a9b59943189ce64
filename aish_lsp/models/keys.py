"""API keys: looked up when a request needs one; never shown or logged."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from aish_lsp.foundation.errors import AishError, BackendRejected, StoreUnavailable
from aish_lsp.foundation.files import keys_file, store_errors, write_atomic
from aish_lsp.foundation.locks import locked
from aish_lsp.foundation.text import shown_path
from aish_lsp.models.faults import is_bad_key

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset

#: Seconds for a key command: a password manager may ask its user first.
COMMAND_TIMEOUT = 60.0

#: Seconds before a failed command is run again: a question needs the key several times.
FAILURE_BELIEVED = 2.0

#: The name under which keys are in the system's keyring.
_SERVICE: Final = "aish-lsp"

#: The header of a key that is a bearer token.
BEARER: Final = "Authorization"

# The key that each command printed, for the life of the process: a password manager must not ask
# its user at every question.
_printed: dict[tuple[str, ...], str] = {}

# The error of each command that failed, and the time (monotonic) before which it is not run again.
_failed: dict[tuple[str, ...], tuple[str, float]] = {}

# A lock for each command that is running, so that questions asked at the same time run it once.
_locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()


async def resolve_key(
    preset: Preset, environ: Mapping[str, str], *, timeout_s: float = COMMAND_TIMEOUT
) -> str | None:
    """Return the key of ``preset``, or None if it has no setting for one.

    The variable of ``api_key_env`` is looked up in ``environ``, and then in the system's keyring.
    ``api_key_command`` is run without a shell. The first line that it prints is the key, which is
    remembered until a server refuses it (``key_of``). ``timeout_s`` is in seconds.

    Raises:
        BackendRejected: the variable is not set, the command failed, or the value is not a key.
    """
    source = f"The environment variable {preset.api_key_env}"
    if preset.api_key_env and (key := environ.get(preset.api_key_env, "").strip()):
        return checked(key, source)
    command = _command_of(preset)
    if command:
        async with _locks.setdefault(command, asyncio.Lock()):
            if command not in _printed:
                with suppress(BackendRejected) if preset.api_key_env else nullcontext():
                    await _print(command, timeout_s)
            if command in _printed:
                return _printed[command]
    if not preset.api_key_env:
        return None
    raise BackendRejected(
        f"{source} is not set, and the key was not stored. Model {preset.name!r} needs it: export"
        " the variable, or paste the key into `aish-lsp setup`."
    )


def keyring_command(verb: str, variable: str) -> tuple[str, ...]:
    """Return the command to get, set or delete a key in the system's keyring.

    It is empty if the package ``keyring`` is missing. The keyring is asked in a process of its own:
    it may wait for its user, or for ever.
    """
    if find_spec("keyring") is None:
        return ()
    # -P: nothing of that name in the current folder is run.
    return sys.executable, "-P", "-m", "keyring", verb, _SERVICE, variable


def _command_of(preset: Preset) -> tuple[str, ...]:
    """Return the command that prints the key of ``preset``, or nothing."""
    if preset.api_key_env:
        return keyring_command("get", preset.api_key_env)
    return tuple(preset.api_key_command or ())


def printed_keys() -> tuple[str, ...]:
    """Return the remembered keys that commands have printed."""
    return tuple(_printed.values())


async def _print(command: tuple[str, ...], timeout_s: float) -> None:
    """Run a key command and remember its key; raise BackendRejected if it prints none."""
    message, until = _failed.get(command, ("", 0.0))
    if time.monotonic() < until:
        raise BackendRejected(message)
    source = f"The key command {command[0]!r}"
    try:
        output = await run_key_command(command, source, timeout_s)
        key = output.decode("utf-8", "replace").strip().partition("\n")[0]
        _printed[command] = checked(key.strip(), source)
    except BackendRejected as error:
        _failed[command] = (error.message, time.monotonic() + FAILURE_BELIEVED)
        raise


@contextmanager
def key_of(preset: Preset) -> Iterator[None]:
    """Forget the key that a command printed if the server refuses it within this context.

    A different key that the command has printed since then is kept: only the old one was refused.
    """
    command = _command_of(preset)
    key = _printed.get(command)
    try:
        yield
    except BackendRejected as error:
        if is_bad_key(error.data) and _printed.get(command) == key:
            _printed.pop(command, None)
        raise


async def headers_for(
    preset: Preset,
    environ: Mapping[str, str],
    key_header: str = BEARER,
    fixed: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the headers of a request to the server of ``preset``.

    These are the key in ``key_header``, the protocol's ``fixed`` headers, and ``extra_headers``. No
    key is looked up if ``extra_headers`` contain it, or contain an ``Authorization`` for a proxy.

    Raises:
        BackendRejected: as ``resolve_key``.
    """
    headers = dict(fixed)
    names = {name.lower() for name in preset.extra_headers}
    if names.isdisjoint({BEARER.lower(), key_header}):
        key = await resolve_key(preset, environ)
        if key:
            headers = {key_header: f"Bearer {key}" if key_header == BEARER else key, **headers}
    own = {name: value for name, value in headers.items() if name.lower() not in names}
    return own | preset.extra_headers


async def run_key_command(
    command: tuple[str, ...], source: str, timeout_s: float, given: bytes | None = None
) -> bytes:
    """Run a command with ``given`` on stdin and return what it prints; ``source`` is its name.

    Raises:
        BackendRejected: it cannot be run, fails, or does not end within ``timeout_s`` seconds.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL, or half a surrogate pair
        msg = f"{source} cannot be run: {getattr(error, 'strerror', error)}."
        raise BackendRejected(msg) from error
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate(given)
    except TimeoutError:
        msg = f"{source} did not end within {timeout_s:g} s."
        raise BackendRejected(msg) from None
    finally:
        if process.returncode is None:
            # Its children too: they hold the pipe open, which the wait below is also for.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        msg = f"{source} failed with exit code {process.returncode}. Try it in a terminal."
        raise BackendRejected(msg)
    return output


def checked(key: str, source: str) -> str:
    """Return ``key`` if it is valid in a header.

    Raises:
        BackendRejected: it is not; the message names ``source``, and does not show the key.
    """
    if not key:
        raise BackendRejected(f"{source} gave nothing.")
    if not (key.isascii() and key.isprintable()) or " " in key:
        msg = f"{source} holds something that is not a key."
        raise BackendRejected(msg)
    return key


# Keys that ``aish-lsp setup`` was given: in the system's keyring, or else in ``keys.env``.
#
# ``keys.env`` has a line ``NAME=KEY`` for each, and only its owner can read it. Anything else in
# the file is kept.

#: Seconds for the keyring to store a key and to give it back.
KEYRING_TIMEOUT = 5.0

_LINE: Final = re.compile(r"\s*(?:export\s+)?(\w+)\s*=(.*)")


class Keys(Mapping[str, str]):
    """The environment, and for the variables that it lacks, the keys in ``keys.env``.

    The file is read again when it has changed.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._given: dict[str, str] = {}
        self._read: dict[str, str] = {}
        self._read_at: tuple[int, ...] | None = None
        self._warnings: list[str] = []

    def __getitem__(self, name: str) -> str:
        value = self._environ.get(name)
        if value is not None and value.strip():
            return value
        return self._all_stored().get(name, "") or self._environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._environ, **self._all_stored()})

    def __len__(self) -> int:
        return len({**self._environ, **self._all_stored()})

    @property
    def stored(self) -> frozenset[str]:
        """The keys that are not from the environment."""
        return frozenset(self._all_stored().values())

    def is_given(self, name: str) -> bool:
        """Return whether the key of this variable was given to this process."""
        return name in self._given

    def give(self, name: str, text: str) -> None:
        """Use the key that the user typed or pasted, until it is stored.

        White space around it is left out, and so are the name of the variable and quotes.

        Raises:
            BackendRejected: it is not a key.
        """
        line = _LINE.fullmatch(text.strip())
        value = line[2] if line and line[1] == name else text
        self._given[name] = checked(_unquoted(value), "What you typed")

    def drain_warnings(self) -> tuple[str, ...]:
        """Return and clear the warnings about ``keys.env``."""
        warnings = tuple(self._warnings)
        self._warnings.clear()
        return warnings

    async def store(self, name: str) -> str:
        """Store the given key; return where it is now, in words.

        Raises:
            StoreUnavailable, Busy: there is no keyring, and ``keys.env`` cannot be written.
        """
        key = self._given[name]
        in_keyring = await _put_in_keyring(name, key)
        await asyncio.to_thread(_write, name, None if in_keyring else key)
        return "the system's keyring" if in_keyring else shown_path(keys_file())

    def _all_stored(self) -> dict[str, str]:
        stamp: tuple[int, ...] = ()
        try:
            status = os.stat(keys_file())  # noqa: PTH116 - asked for each output
            stamp = status.st_mtime_ns, status.st_ino, status.st_size
        except OSError:
            pass  # There is none.
        if stamp != self._read_at:
            self._read_at, self._read = stamp, {}
            try:
                for number, line in enumerate(_lines(), 1):
                    self._take(number, line)
            except AishError as error:
                self._warnings.append(error.message)
        return self._read | self._given

    def _take(self, number: int, line: str) -> None:
        """Read a line; a bad one is not shown, as it may hold a key."""
        if not line.strip() or line.lstrip().startswith("#"):
            return
        with suppress(BackendRejected):
            if found := _LINE.fullmatch(line):
                self._read[found[1]] = checked(_unquoted(found[2]), "it")
                return
        self._warnings.append(
            f"Line {number} of {shown_path(keys_file())} is ignored: it is not NAME=KEY."
        )


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] in "'\"" else text


def _lines() -> list[str]:
    """Return the lines of ``keys.env``, none if it is missing; raise StoreUnavailable."""
    path = keys_file()
    with store_errors(path, "read"):
        try:
            return path.read_text("utf-8-sig").splitlines()
        except FileNotFoundError:
            return []
        except UnicodeDecodeError as error:
            raise StoreUnavailable(f"{shown_path(path)} is not UTF-8.") from error


def _write(name: str, key: str | None) -> None:
    """Replace the key of a variable in ``keys.env``, or remove it. Blocks."""
    with locked(keys_file()):
        lines = _lines()
        kept = [one for one in lines if not (m := _LINE.fullmatch(one)) or m[1] != name]
        if key is not None:
            kept.append(f"{name}={key}")
        if kept != lines:
            write_atomic(keys_file(), "".join(f"{line}\n" for line in kept))


async def _put_in_keyring(name: str, key: str) -> bool:
    """Return whether the system's keyring took the key, and gives it back."""
    if not keyring_command("set", name):
        return False
    try:
        async with asyncio.timeout(KEYRING_TIMEOUT):
            for verb, given in (("set", key.encode()), ("get", None)):
                command = keyring_command(verb, name)
                output = await run_key_command(command, "The keyring", KEYRING_TIMEOUT, given)
    except (TimeoutError, BackendRejected):
        return False
    return output.decode("utf-8", "replace").strip() == key
