"""Keys that ``aish-lsp setup`` was given: in the system's keyring, or else in ``keys.env``.

``keys.env`` has a line ``NAME=KEY`` for each, and only its owner can read it. Anything else in the
file is kept.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from aish_lsp.foundation.errors import AishError, BackendRejected, StoreUnavailable
from aish_lsp.foundation.files import keys_file, store_errors, write_atomic
from aish_lsp.foundation.locks import locked
from aish_lsp.foundation.text import shown_path
from aish_lsp.models.keys import checked, keyring_command, run_key_command

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
