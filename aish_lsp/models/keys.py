"""API keys: looked up when a request needs one; never stored on disk, shown or logged."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.models.faults import is_bad_key

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset

#: Seconds for a key command: a password manager may ask its user first.
COMMAND_TIMEOUT = 60.0

#: Seconds before a failed command is run again: a question needs the key several times.
FAILURE_BELIEVED = 2.0

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

    ``api_key_command`` is run without a shell. The first line that it prints is the key, which is
    remembered until a server refuses it (``key_of``). ``timeout_s`` is in seconds.

    Raises:
        BackendRejected: the variable is not set, the command failed, or the value is not a key.
    """
    if preset.api_key_env:
        source = f"The environment variable {preset.api_key_env}"
        key = environ.get(preset.api_key_env, "").strip()
        if not key:
            msg = f"{source} is not set. Model {preset.name!r} takes its key from there: export it."
            raise BackendRejected(msg)
        return _checked(key, source)
    if preset.api_key_command:
        command = tuple(preset.api_key_command)
        async with _locks.setdefault(command, asyncio.Lock()):
            if command not in _printed:
                await _print(command, timeout_s)
            return _printed[command]
    return None


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
        _printed[command] = _checked(await _run(command, source, timeout_s), source)
    except BackendRejected as error:
        _failed[command] = (error.message, time.monotonic() + FAILURE_BELIEVED)
        raise


@contextmanager
def key_of(preset: Preset) -> Iterator[None]:
    """Forget the key that a command printed if the server refuses it within this context.

    A different key that the command has printed since then is kept: only the old one was refused.
    """
    command = tuple(preset.api_key_command or ())
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
    given = {name.lower() for name in preset.extra_headers}
    if given.isdisjoint({BEARER.lower(), key_header}):
        key = await resolve_key(preset, environ)
        if key:
            headers = {key_header: f"Bearer {key}" if key_header == BEARER else key, **headers}
    own = {name: value for name, value in headers.items() if name.lower() not in given}
    return own | preset.extra_headers


async def _run(command: tuple[str, ...], source: str, timeout_s: float) -> str:
    """Run a key command and return the first line that it prints."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL, or half a surrogate pair
        msg = f"{source} cannot be run: {getattr(error, 'strerror', error)}."
        raise BackendRejected(msg) from error
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
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
    key = output.decode("utf-8", "replace").strip().partition("\n")[0].strip()
    if not key:
        msg = f"{source} printed nothing."
        raise BackendRejected(msg)
    return key


def _checked(key: str, source: str) -> str:
    """Return ``key`` if it is valid in a header; otherwise the error does not show it."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        msg = f"{source} holds something that is not a key."
        raise BackendRejected(msg)
    return key
