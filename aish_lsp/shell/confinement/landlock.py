"""Landlock rulesets: which files a confined command may read, and where it may write (Linux).

A ruleset can only add rights, to a folder and everything in it. To keep a file closed, the folders
above it are *split*: their other entries get the rights one by one, and an entry that is added
later has none until the ruleset is refreshed or remade.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.shell.confinement.child import syscall
from aish_lsp.shell.confinement.places import Closed, links_in, mountinfo

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_VERSION: Final = ctypes.c_uint32(1)
_PATH_BENEATH: Final = 1

#: The rights over files that need a name here; the others come with the writable folder.
_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_MAKE_CHAR: Final = 1 << 6
_MAKE_SOCK: Final = 1 << 9
_MAKE_BLOCK: Final = 1 << 11
#: How many rights each version has, in the order of their bits: version 2 added moving a file to
#: another folder, version 3 truncating one.
_COUNTS: Final = {1: 13, 2: 14}
_COUNT_SINCE_3: Final = 15
#: Binding and connecting TCP sockets, since version 4.
_NETWORK: Final = 0b11
#: Abstract sockets, and signals, to processes outside; since version 6.
_SCOPES: Final = 0b11
#: Versions, each with the size in bytes that the structure describing a ruleset has since then.
_SIZES: Final = ((6, 24), (4, 16), (1, 8))

_READ: Final = _READ_FILE | _EXECUTE
_LIST: Final = _READ_DIR
#: Devices can be read and written, but neither made nor run.
_DEVICE: Final = _READ_FILE | _WRITE_FILE
_NEVER: Final = _MAKE_CHAR | _MAKE_BLOCK | _MAKE_SOCK

_DEVICES: Final = "/dev"
_READ_DEVICES: Final = ("/dev/random", "/dev/urandom")
_WRITTEN_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full")


def kernel_version() -> int:
    """Return the kernel's version of Landlock; 0 if it has none.

    ``AISH_LANDLOCK_ABI`` lowers it, to see what an older kernel would do.
    """
    try:
        version = syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    except OSError:
        return 0
    wanted = os.environ.get("AISH_LANDLOCK_ABI", "")
    return min(version, int(wanted)) if wanted.isdecimal() else version


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen in a folder that is split, or in a closed one.

    Attributes:
        stamp: a value that changes with its entries.
        entries: for a split folder, the inodes of the entries that may be read, by name.
        links: the symbolic links that closed places depend on, each with its target.
    """

    stamp: tuple[int, int]
    entries: dict[str, int] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


def writing_only(abi: int, folder: Path) -> int:
    """Return a ruleset, as a descriptor, that allows all reading, but writing only to ``folder``.

    Raises:
        OSError: the kernel refused.
    """
    handled = _handled(abi) & ~(_READ | _LIST)
    descriptor = _create(abi, handled, 0, 0)
    _allow(descriptor, os.fspath(folder), handled & ~_NEVER)
    for path in _WRITTEN_DEVICES:
        _allow(descriptor, path, _WRITE_FILE)
    return descriptor


class Ruleset:
    """A ruleset in the kernel, with what is needed to see that it is out of date.

    ``descriptor`` refers to the kernel's ruleset; ``close`` releases it.
    """

    def __init__(
        self,
        abi: int,
        closed: Closed,
        writable: Iterable[Path],
        readable: Path | None = None,
        *,
        network: bool = False,
    ) -> None:
        """Make one that allows reading all but what is ``closed``, and writing to ``writable``.

        ``readable`` may be read even if it is in a closed place; ``network`` leaves TCP
        unrestricted. Blocks.

        Raises:
            OSError: the kernel refused.
        """
        self._handled = _handled(abi)
        self._closed = closed
        self._split: dict[str, _Seen] = {}
        self._inside: dict[str, _Seen] = {}
        self._readable = readable
        self._mounts = mountinfo()
        self.descriptor = _create(abi, self._handled, 0 if network else _NETWORK, _SCOPES)
        try:
            self._fill(writable)
        except BaseException:
            self.close()
            raise

    def _fill(self, writable: Iterable[Path]) -> None:
        self._allow("/", _LIST)
        for path in self._open_paths("/"):
            self._allow(path, _READ)
        for path in _READ_DEVICES:
            self._allow(path, _READ_FILE)
        for path in _WRITTEN_DEVICES:
            self._allow(path, _DEVICE)
        readable = self._readable
        if readable is not None and self._closed.contains(readable):
            for path in self._open_paths(os.fspath(readable)):
                self._allow(path, _READ)
        for folder in writable:
            self._allow(os.fspath(folder), self.all_rights)

    @property
    def all_rights(self) -> int:
        """The rights over a writable folder."""
        return self._handled & ~_NEVER

    def refresh(self) -> bool:
        """Add rules for what is new in the split folders; return whether that is enough.

        An entry that is gone may have been moved into a closed place, a changed link may lead to
        another one, and a new mount hides what a rule names: each of these needs a new ruleset.
        """
        if mountinfo() != self._mounts:
            return False
        inside = dict(self._inside)
        for folder, seen in inside.items():
            if _stamp(folder) != seen.stamp:
                self._inside[folder] = _seen_inside(folder)
        for folder, before in list(self._split.items()):
            if _stamp(folder) == before.stamp:
                continue
            added = self._look_at(folder, before.entries)
            if added is None or before.links != self._split[folder].links:
                return False
            for path in added:
                for below in self._open_paths(path):
                    self._allow(below, _READ)
        return all(
            now.links == (inside[folder].links if folder in inside else {})
            for folder, now in self._inside.items()
        )

    def close(self) -> None:
        """Release the kernel's ruleset; commands that are running stay confined by it."""
        os.close(self.descriptor)

    def _open_paths(self, folder: str) -> Iterator[str]:
        """Yield what may be read in ``folder``, as the topmost possible paths."""
        waiting = [folder]
        while waiting:
            path = waiting.pop()
            if path in self._closed.parents:
                waiting += self._look_at(path, {}) or ()
            else:
                yield path

    def _look_at(self, folder: str, known: Mapping[str, int]) -> list[str] | None:
        """Record the entries of a folder that has to be split; return the new paths to be read.

        New are those that are not in ``known``, which has the inodes of the others: these are not
        reused while the ruleset names them. None says that a known entry is gone.
        """
        split = self._split[folder] = _Seen(_stamp(folder), dict(known))
        closed = self._closed.names_in(folder)
        left = len(known)
        added: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = entry.name
                    # Most entries are known already, and there may be thousands.
                    if known and known.get(name) == entry.inode():
                        left -= 1
                        continue
                    is_closed = closed.match(name) is not None
                    if entry.is_symlink():
                        if is_closed or entry.path in self._closed.parents:
                            split.links[entry.path] = os.readlink(entry.path)  # noqa: PTH115
                    elif is_closed:
                        self._inside[entry.path] = _seen_inside(entry.path)
                    elif entry.path != _DEVICES:
                        split.entries[name] = entry.inode()
                        added.append(entry.path)
        except OSError:
            paths = {path.rpartition("/")[2]: path for path in self._known_in(folder, closed)}
            split.entries.update(dict.fromkeys(paths, 0))
            added += paths.values()
        return None if left else added

    def _known_in(self, folder: str, closed: re.Pattern[str]) -> Iterator[str]:
        """Yield the entries that matter of a folder that can be entered but not listed.

        On many machines, the home folders are in such a folder.
        """
        readable = self._readable
        above = (readable, *readable.parents) if readable else ()
        for path in (*self._closed.parents, *map(os.fspath, above)):
            parent, _, name = path.rpartition("/")
            if (parent or "/") == folder and name and not closed.match(name):
                yield path

    def _allow(self, path: str, rights: int) -> None:
        _allow(self.descriptor, path, rights & self._handled)


def _handled(abi: int) -> int:
    """Return the rights that the kernel knows."""
    return (1 << _COUNTS.get(abi, _COUNT_SINCE_3)) - 1


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # Gone meanwhile, or not ours to look at: it stays closed.
    try:
        rule = struct.pack("=Qi", rights, descriptor)
        # Anything but a file or folder can have no rule, and needs none.
        with suppress(OSError):
            syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


def _create(abi: int, handled: int, network: int, scopes: int) -> int:
    attributes = struct.pack("=QQQ", handled, network, scopes)
    size = next(size for version, size in _SIZES if abi >= version)
    descriptor = syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    os.set_inheritable(descriptor, False)
    return descriptor


def _seen_inside(folder: str) -> _Seen:
    return _Seen(_stamp(folder), links=links_in(folder))


def _stamp(folder: str) -> tuple[int, int]:
    """Return a value that changes with a folder's entries."""
    try:
        status = Path(folder).stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_ino
