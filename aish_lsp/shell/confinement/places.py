"""Where secrets are: a confined command can list these places by name, but not read them.

Those in a home folder are listed in ``places.toml``. On Linux a folder can be mounted twice, and
then has several names.
"""

from __future__ import annotations

import fnmatch
import os
import pwd
import re
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.files import data_dir, keys_file

_TABLE: Final = tomllib.loads(Path(__file__).with_name("places.toml").read_text("utf-8"))
#: Below a home; the last part of each may be a pattern.
_OF_A_HOME: Final[tuple[str, ...]] = tuple(_TABLE["home"])


def _below(folder: str) -> tuple[str, ...]:
    """Return the places of a home that are in ``folder``, relative to it."""
    return tuple(
        home_part.removeprefix(f"{folder}/")
        for home_part in _OF_A_HOME
        if home_part.startswith(f"{folder}/")
    )


#: Variables that move such a place, with what is closed in the folder that each names; if nothing
#: is listed, the whole file or folder is.
_MOVED_BY: Final[dict[str, tuple[str, ...]]] = {
    **{name: tuple(parts) for name, parts in _TABLE["moved_by"].items()},
    "XDG_CONFIG_HOME": _below(".config"),
    "XDG_DATA_HOME": _below(".local/share"),
}
#: These belong to the system, whatever a variable says.
_SYSTEM: Final[tuple[str, ...]] = tuple(_TABLE["never"])

_LEAST_UID_OF_PEOPLE: Final = 1000


@dataclass(frozen=True, slots=True)
class Closed:
    """The secret places, as real paths.

    Attributes:
        patterns: by folder, the names in it that are closed.
        parents: every folder above a closed place.
    """

    patterns: Mapping[str, tuple[str, ...]]
    parents: frozenset[str]

    def contains(self, path: Path) -> bool:
        """Return whether ``path`` is a closed place or is in one."""
        places = (path, *path.parents)
        return any(self.names_in(os.fspath(at.parent)).match(at.name) for at in places)

    def names_in(self, folder: str) -> re.Pattern[str]:
        """Return a pattern for the names of the closed places in ``folder``."""
        return _any_of(self.patterns.get(folder, ()))


#: Seconds for which it is remembered which files are in the secret places.
_FRESH: Final = 2.0


def is_linked_from_secret(status: os.stat_result, root: Path) -> bool:
    """Return whether a file of the workspace ``root`` is also, as a hard link, in a secret place.

    A secret place that contains the workspace does not count. Blocks: where the file has several
    names, the secret places are searched for its inode.
    """
    if status.st_nlink < 2:
        return False
    files = _secret_files(os.path.realpath(root), int(time.monotonic() / _FRESH))
    return (status.st_dev, status.st_ino) in files


@lru_cache(maxsize=4)
def _secret_files(root: str, _when: int) -> frozenset[tuple[int, int]]:
    """Return device and inode of each file in a secret place that does not contain ``root``."""
    closed = secret_places(os.environ)
    identities: set[tuple[int, int]] = set()
    waiting = [(folder, closed.names_in(folder)) for folder in closed.patterns]
    while waiting:
        folder, names = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            device = os.stat(folder).st_dev  # noqa: PTH116 - there are many
            for entry in entries:
                if not names.match(entry.name) or is_within(root, entry.path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, _any_of(("*",))))
                else:
                    identities.add((device, entry.inode()))
    return frozenset(identities)


@lru_cache(maxsize=256)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return one expression for several patterns, since a home may hold thousands of names."""
    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")


def secret_places(environ: Mapping[str, str]) -> Closed:
    """Return the secret places of this machine, of the user, and (for root) of every user.

    Places that do not exist yet are included.
    """
    homes = [os.path.realpath(home) for home in _homes(environ)]
    named = [
        *(f"{home}/{place}" for home in homes for place in _OF_A_HOME),
        *_TABLE["system"],
        *_moved(environ, homes),
        os.fspath(data_dir()),
        os.fspath(keys_file()),
    ]
    patterns: dict[str, set[str]] = {}
    real = lru_cache(maxsize=None)(os.path.realpath)
    for path in named:
        folder, _, name = path.rpartition("/")
        folder = real(folder or "/")
        patterns.setdefault(folder, set()).add(name)
        # A link is closed by its own name, and its target by another.
        for secret_path in _led_to(folder, name):
            if not any(
                is_within(own_home, secret_path) for own_home in homes
            ) and not _is_of_the_system(secret_path):
                _close(patterns, secret_path)
    _close_other_names(patterns)
    parents = {above for folder in patterns for above in _with_parents(folder)}
    return Closed(
        {folder: tuple(sorted(names)) for folder, names in patterns.items()}, frozenset(parents)
    )


def _close(patterns: dict[str, set[str]], place: str) -> None:
    folder, _, name = place.rpartition("/")
    patterns.setdefault(folder or "/", set()).add(re.sub(r"[][*?]", "?", name))


def _led_to(folder: str, pattern: str) -> Iterator[str]:
    """Yield the real paths that links lead to: a closed place itself, and the entries in it."""
    names = [pattern]
    if "*" in pattern:
        names = fnmatch.filter(_names_in(folder), pattern)
    for name in names:
        named_path = f"{folder.rstrip('/')}/{name}"
        if os.path.islink(named_path):  # noqa: PTH114 - there are many
            named_path = os.path.realpath(named_path)
            yield named_path
        for path in links_in(named_path):
            yield os.path.realpath(path)


def links_in(folder: str) -> dict[str, str]:
    """Return the links in a folder, and the target of each; none if it is not a folder."""
    links = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                links[entry.path] = os.readlink(entry.path)  # noqa: PTH115 - as above
    return links


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - as above
    except OSError:
        return []


def _close_other_names(patterns: dict[str, set[str]]) -> None:
    """Close the other places at which mounts show closed ones."""
    twice = mounted_twice(mounts())
    if not twice:
        return
    for folder, names in list(patterns.items()):
        for other in other_names(folder, twice):
            patterns.setdefault(other, set()).update(names)
        for point in points_within(folder, twice, _any_of(tuple(names))):
            _close(patterns, point)


def _homes(environ: Mapping[str, str]) -> Iterator[str]:
    if environ.get("HOME"):
        yield environ["HOME"]
    if os.geteuid() != 0:
        # In a container a user may have a number and no account.
        with suppress(KeyError):
            yield pwd.getpwuid(os.geteuid()).pw_dir
        return
    for user in pwd.getpwall():
        if user.pw_uid == 0 or user.pw_uid >= _LEAST_UID_OF_PEOPLE:
            yield user.pw_dir


def _moved(environ: Mapping[str, str], homes: Sequence[str]) -> Iterator[str]:
    """Yield the places to which variables move the usual ones."""
    for variable, parts in _MOVED_BY.items():
        # KUBECONFIG may name several files.
        for path in environ.get(variable, "").split(os.pathsep):
            real = os.path.realpath(path)
            if not path.startswith("/") or _is_of_the_system(real):
                continue
            if parts:
                yield from (f"{real}/{part}" for part in parts)
            elif not any(is_within(home, real) for home in homes):
                yield real


def _is_of_the_system(path: str) -> bool:
    return any(is_within(path, folder) for folder in _SYSTEM)


def _with_parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield "/"


class Mount(NamedTuple):
    """One mount: the file system's device, which folder of it is seen, and where."""

    device: str
    root: str
    point: str


def mountinfo() -> bytes:
    """Return the kernel's list of mounts; empty if there is no such file."""
    try:
        return Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return b""


def mounts() -> list[Mount]:
    """Return the mounts, oldest first."""
    rows = []
    for line in mountinfo().decode("utf-8", "surrogateescape").splitlines():
        device, root, point = line.split(" ")[2:5]
        rows.append(Mount(device, _unescaped(root), _unescaped(point)))
    return rows


def other_names(path: str, known: list[Mount]) -> Iterator[str]:
    """Yield the other paths of a real path that mounts make, below each other mount of the same."""
    own, inner = _seen_in(path, known)
    for mount in known:
        if mount.device == own.device and mount.point != own.point and is_within(inner, mount.root):
            yield _joined(mount.point, inner[len(mount.root.rstrip("/")) :])


def points_within(path: str, known: list[Mount], names: re.Pattern[str]) -> Iterator[str]:
    """Yield where a part of the folder ``path`` is mounted on its own, if ``names`` match it.

    They match the name of the entry of ``path`` that the part is, or is in.
    """
    own, inner = _seen_in(path, known)
    for mount in known:
        if mount.device == own.device and mount.root != inner and is_within(mount.root, inner):
            name = mount.root[len(inner.rstrip("/")) + 1 :].partition("/")[0]
            if mount.point != own.point and names.match(name):
                yield mount.point


def mounted_twice(known: list[Mount]) -> list[Mount]:
    """Return the mounts of devices that are mounted at more than one place."""
    points: dict[str, set[str]] = defaultdict(set)
    for mount in known:
        points[mount.device].add(mount.point)
    return [mount for mount in known if len(points[mount.device]) > 1]


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or is in it, by their names."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _seen_in(path: str, known: list[Mount]) -> tuple[Mount, str]:
    """Return the mount that a real path is seen in, and its path in that file system."""
    none = Mount("", "/", "/")
    # Of several mounts on one folder, the last hides the others.
    own = max(
        (mount for mount in known if is_within(path, mount.point)),
        key=lambda mount: len(mount.point.rstrip("/")),
        default=none,
    )
    own = next((mount for mount in reversed(known) if mount.point == own.point), own)
    return own, _joined(own.root, path[len(own.point.rstrip("/")) :])


def _joined(folder: str, rest: str) -> str:
    return (folder.rstrip("/") + rest) or "/"


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
