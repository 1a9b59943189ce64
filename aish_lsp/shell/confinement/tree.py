"""What a command of the profile ``work`` must neither change nor leave in a work tree.

The supervisor imports this module without the package, so it imports nothing of ours, and little
else. The table of protected names comes as data (``Table``) from ``protected.py``.
"""

# pathlib and contextlib would double the supervisor's start-up time.
# ruff: noqa: SIM105, PTH101, PTH102, PTH103, PTH104, PTH106, PTH108, PTH112, PTH114, PTH118, PTH120

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeAlias

    #: The names that are protected, in types that ``marshal`` can write: by the last part of a
    #: name, the parts before it, of which "" is the root of the work tree, and the number of its
    #: row; the same for what such a last part begins and ends with; the folders of dependencies;
    #: the numbers of the rows that count in these, too, of which the first is git's; the names of
    #: manifests.
    Table: TypeAlias = tuple[
        dict[str, list[tuple[tuple[str, ...], int]]],
        list[tuple[str, str, tuple[str, ...], int]],
        tuple[str, ...],
        tuple[int, ...],
        tuple[str, ...],
    ]
    #: Device, inode and, except for a folder, the time of the last change of a file or its status.
    Identity: TypeAlias = tuple[int, int, int]

#: The end of the name of what can only be renamed.
_RENAMED = ".put-aside"
#: What a folder holds, beside ``HEAD``, that git takes for a repository: the rest may be elsewhere.
_REPOSITORY = (frozenset(("objects", "refs")), frozenset(("commondir",)))


def folded(name: str) -> str:
    """Return a part of a path as a file system sees it that ignores what nobody sees."""
    if name.isascii():
        return name.lower().rstrip(". ")
    import unicodedata  # noqa: PLC0415 - few names need it

    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", seen.casefold()).rstrip(". ")


def row_of(table: Table, last: str, above: Sequence[str]) -> int:
    """Return the number of the row that protects a name, all of its parts folded; -1 if none."""
    plain, patterns, *_ = table
    rows = list(plain.get(last, ()))
    for begin, end, before, row in patterns:
        if last.startswith(begin) and last.endswith(end) and len(last) >= len(begin) + len(end):
            rows.append((before, row))
    for before, row in rows:
        if not before or tuple(above[-len(before) :]) == tuple(before):
            return row
    return -1


def find(
    root: str, table: Table, known: frozenset[Identity] | None = None
) -> tuple[list[tuple[str, int, Identity]], list[str]]:
    """Return what is protected in a work tree: its path below ``root``, its row and identity.

    Nothing below one of them is listed. A folder that git takes for a bare repository counts as
    one of git's, and so does a folder of ours that cannot be listed, since anything may be in it:
    if ``known`` is given, it is made accessible, unless it is one of these. Those of others are
    left out: a command cannot make them accessible, either. Also returned are the folders that hold
    a manifest, and are not dependencies.
    """
    _, _, dependencies, everywhere, manifests = table
    matches: list[tuple[str, int, Identity]] = []
    projects = []
    waiting: list[tuple[str, tuple[str, ...], bool]] = [("", ("",), False)]
    while waiting:
        folder, above, is_dependency = waiting.pop()
        path = os.path.join(root, folder[:-1])
        entries = _listed(path)
        if entries is None and known is not None and identity_of(path) not in known:
            make_accessible(path)
            entries = _listed(path)
        is_hidden = entries is None and _is_ours(path)
        if folder and (is_hidden or _is_repository(entries or ())):
            matches.append((folder[:-1], everywhere[0], identity_of(path)))
            continue
        if not is_dependency and any(entry.name in manifests for entry in entries or ()):
            projects.append(folder[:-1])
        for entry in entries or ():
            part = folded(entry.name)
            row = row_of(table, part, above)
            if row >= 0 and (not is_dependency or row in everywhere):
                matches.append((folder + entry.name, row, identity_of(entry.path)))
            elif entry.is_dir(follow_symlinks=False):
                inside = is_dependency or part in dependencies
                waiting.append((f"{folder}{entry.name}/", (*above, part), inside))
    return matches, projects


def _listed(folder: str) -> list[os.DirEntry[str]] | None:
    """Return what a folder holds; None if that, or what is in its folders, cannot be told."""
    try:
        with os.scandir(folder) as entries:
            return list(entries) if os.access(folder, os.X_OK) else None
    except OSError:
        return None


def make_accessible(folder: str) -> None:
    """Let the owner of a folder do everything with it, as far as possible."""
    try:
        os.close(__import__("child").open_folder(folder, None))
    except OSError:
        pass  # It belongs to somebody else, or is gone.


def _is_ours(folder: str) -> bool:
    """Return whether it is a folder of the user's, who could thus make it accessible."""
    try:
        return os.lstat(folder).st_uid == os.geteuid()
    except OSError:
        return False


def _is_repository(entries: Iterable[os.DirEntry[str]]) -> bool:
    """Return whether git takes a folder that holds these for a repository."""
    names = {entry.name.lower() for entry in entries}
    return "head" in names and any(map(names.issuperset, _REPOSITORY))


def identity_of(path: str | bytes | os.PathLike[str]) -> Identity:
    """Return what tells a file from another that takes its place; zeros if it is gone."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0, 0, 0
    is_folder = status.st_mode & 0o170000 == 0o040000
    return status.st_dev, status.st_ino, 0 if is_folder else status.st_ctime_ns


def make_placeholders(plan: dict[str, Any]) -> None:
    """Make the protected names that are missing, since only what exists can be protected.

    Each becomes an empty folder, which git does not list. ``plan["known"]`` gets their identities,
    and ``plan["made"]`` their paths and inodes, for ``remove_placeholders``.

    Raises:
        OSError: one of the work tree itself cannot be made; those that were made are removed again.
    """
    made = plan["made"] = []
    for path in plan["missing"]:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if path not in plan["left"]:
                continue  # Another process has just made it: it is protected like the others.
        except OSError:
            if os.path.dirname(path) != plan["root"]:
                continue  # Who cannot make it in there protects it; else it is found later.
            remove_placeholders(made, plan["root"])
            raise
        identity = identity_of(path)
        made.append((path, identity))
        plan["known"].append(identity)


def remove_placeholders(made: list[tuple[bytes, Identity]], root: bytes) -> None:
    """Remove what ``make_placeholders`` made, unless it was filled, replaced or moved.

    A folder that held nothing else any more goes with them: all that it held was removed by a
    command, which could not remove the folder.
    """
    for path, identity in reversed(made):
        folder = path if identity_of(path) == identity else root
        try:
            while folder != root:
                os.rmdir(folder)
                folder = os.path.dirname(folder)
        except OSError:
            pass  # It holds something, like most folders.


def put_aside(plan: dict[str, Any]) -> list[str]:
    """Move what is protected and was not there before out of the work tree; remove placeholders.

    No process of the command may be left.

    Args:
        plan: ``root``; ``table``; ``known``, the identities of what was there before; ``aside``,
            the folder to which the rest is moved, each with its path in the tree.

    Returns:
        What could not be moved: its names now, by which nobody reads it, if it could be renamed.
    """
    os.umask(0o077)
    remove_placeholders(plan["made"], plan["root"])
    identities = frozenset(plan["known"])
    root, aside = os.fsdecode(plan["root"]), os.fsdecode(plan["aside"])
    placeholders = {identity for _, identity in plan["made"]}
    left: list[str] = []
    for name, _, identity in find(root, plan["table"], identities)[0]:
        path = os.path.join(root, name)
        if identity in placeholders:
            # Its folder was moved.
            remove_placeholders([(os.fsencode(path), identity)], plan["root"])
        elif identity not in identities:
            above = os.path.dirname(path)
            mode = os.lstat(above).st_mode & 0o7777
            make_accessible(above)
            if not _is_moved(path, os.path.join(aside, name)):
                left.append(name + _renamed(path))
            _restore_mode(above, mode)
    return left


def _restore_mode(folder: str, mode: int) -> None:
    try:
        if os.lstat(folder).st_mode & 0o7777 != mode:
            os.chmod(folder, mode)
    except OSError:
        pass  # It belongs to somebody else.


def _renamed(path: str) -> str:
    """Rename what cannot be moved, so that nobody reads it; return what its name now ends with."""
    try:
        os.rename(path, path + _RENAMED)
    except OSError:
        return ""
    return _RENAMED


def _is_moved(path: str, to: str) -> bool:
    """Move a file or folder to another place; return whether it is gone from the first."""
    try:
        os.makedirs(os.path.dirname(to), exist_ok=True)
        os.rename(path, to)
    except OSError:
        # To another disk; ``cp`` copies trees of any depth, and links as links. The command's PATH
        # may lead into the work tree.
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        try:
            copy = os.posix_spawn("/bin/cp", ["cp", "-a", "--", path, to], {}, file_actions=quiet)
        except OSError:
            return False
        if os.waitpid(copy, 0)[1] != 0:
            return False
        if os.path.isdir(path) and not os.path.islink(path):
            __import__("child").remove(path)
        else:
            try:
                os.unlink(path)
            except OSError:
                return False
    return not os.path.lexists(path)
