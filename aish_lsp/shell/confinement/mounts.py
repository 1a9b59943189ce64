"""By which other names the same folder can be reached, since it is mounted twice (Linux)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple


class Mount(NamedTuple):
    """One mount: the file system's device, which folder of it is seen, and where."""

    device: str
    root: str
    point: str


def mountinfo() -> bytes:
    """Return what is mounted where, as the kernel tells it; nothing where there is no such file."""
    try:
        return Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return b""


def mounts() -> list[Mount]:
    """Return what is mounted where, in the order in which it was."""
    found = []
    for line in mountinfo().decode("utf-8", "surrogateescape").splitlines():
        device, root, point = line.split(" ")[2:5]
        found.append(Mount(device, _unescaped(root), _unescaped(point)))
    return found


def other_names(path: str, known: list[Mount]) -> Iterator[str]:
    """Yield the other paths of a real path that mounts make, below each other mount of the same."""
    own, inner = _seen_in(path, known)
    for mount in known:
        if mount.device == own.device and mount.point != own.point and is_within(inner, mount.root):
            yield _joined(mount.point, inner[len(mount.root.rstrip("/")) :])


def points_within(path: str, known: list[Mount], holds: Callable[[str], bool]) -> Iterator[str]:
    """Yield where a part of the folder ``path`` is mounted on its own, if ``holds`` says so.

    That is told the name of the entry of ``path`` that the part is, or lies in.
    """
    own, inner = _seen_in(path, known)
    for mount in known:
        if mount.device == own.device and mount.root != inner and is_within(mount.root, inner):
            name = mount.root[len(inner.rstrip("/")) + 1 :].partition("/")[0]
            if mount.point != own.point and holds(name):
                yield mount.point


def mounted_twice(known: list[Mount]) -> list[Mount]:
    """Return the mounts of the devices that are seen at more than one place."""
    points: dict[str, set[str]] = defaultdict(set)
    for mount in known:
        points[mount.device].add(mount.point)
    return [mount for mount in known if len(points[mount.device]) > 1]


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or lies in it, by their names."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _seen_in(path: str, known: list[Mount]) -> tuple[Mount, str]:
    """Return the mount that a real path is seen in, and its path in that file system."""
    none = Mount("", "/", "/")
    # Of several on one folder the last hides the others.
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
