"""What aish-lsp has on the disk, for ``aish-lsp purge``.

Only what is recognised as ours counts: other programs may be called aish too, and a folder may have
been chosen that holds other files. What is a symbolic link stays, and so does what it leads to.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from aish_lsp.chat.file import OWN_NAME
from aish_lsp.config.trust import TrustStore, trust_file
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.files import (
    config_file,
    data_dir,
    keys_file,
    store_errors,
    workspace_dir,
    workspace_key,
)
from aish_lsp.foundation.git import run_git
from aish_lsp.foundation.opening import IGNORES_ALL
from aish_lsp.foundation.text import count_of, escaped, shown_path
from aish_lsp.foundation.uris import path_of
from aish_lsp.sessions.records import SUFFIX

#: The files in DATA. Each may have a lock, damaged copies, and a temporary file of its own.
_FILES: Final = {
    "memory.jsonl": "memory, for all workspaces",
    "trust.json": "what you have allowed",
    "calibration.json": "how the models count tokens",
    "told.json": "which notices you have seen",
    "recent.log": "recent warnings, for bug reports",
    "recent.log.1": "older warnings",
    "chat_history": "what you typed in `aish-lsp chat`",
    "chat_history.txt": "what you typed in `aish-lsp chat`",
}
_COPIES: Final = ("{}", "{}.lock", "{}.torn-*", "{}.damaged-*", ".{}.*.tmp")

#: The folders in DATA, with the names of what is ours in them.
_FOLDERS: Final = {
    "asked": (r"[0-9a-f]{16}\.txt", "questions too long to be shown"),
    "layers": (r"tmp\w+", "left by commands that were stopped"),
    "oauth": (r"[0-9a-f]{32}\.json(\.lock)?|\.[0-9a-f]{32}\..*\.tmp", "sign-ins of tool servers"),
    "servers": (r"\.?[0-9a-f]{16}\.(json(\..*)?|keeper|log|users)", "servers of local models"),
    "tool-servers": (r"[\w.-]+\.log(\.\d)?", "what tool servers reported"),
}
_WORKSPACE: Final = re.compile(r"[a-z0-9-]+-[0-9a-f]{12}|user")

#: What a workspace's folder in DATA may hold, as told to the user.
_PARTS: Final = {
    "memory.jsonl": "memory",
    "sessions": "sessions",
    "usage.jsonl": "costs",
    "undo": "undo",
    "aside": "files that were put aside",
}

#: What is ours in ``.aish/output``.
_OUTPUT: Final = re.compile(r"[0-9a-f]{8}\.txt")

#: Seconds that git may take in a workspace.
_GIT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Belonging:
    """Something that can be removed.

    Attributes:
        paths: where it is, the main file or folder first.
        what: what it is, for a person.
        bytes: how much space it takes.
        remove: removes it.
    """

    paths: Sequence[Path]
    what: str
    bytes: int
    remove: Callable[[], object]

    def __str__(self) -> str:
        return f"{_size_text(self.bytes):>9}  {shown_path(self.paths[0])}: {self.what}"

    def locks(self) -> Iterator[Path]:
        """Yield the files that another process may have locked."""
        for path in self.paths:
            if path.is_dir():
                yield from chain(path.rglob("*.lock"), path.glob(f"sessions/*{SUFFIX}"))
            elif path.suffix == ".lock":
                yield path


@dataclass(slots=True)
class Inventory:
    """What was found.

    Attributes:
        items: what can be removed.
        kept: what stays, each with the reason.
        folders: folders of ours, which go once they are empty.
    """

    items: list[Belonging] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    @property
    def size(self) -> str:
        """How much space all that can be removed takes, for a person."""
        return _size_text(sum(item.bytes for item in self.items))

    def add(self, what: str, *paths: Path) -> None:
        """Add the files and folders among ``paths``, the first of which names them."""
        own = []
        for path in paths:
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                    own.append(path)
                else:
                    self.keep(path, "is a link" if stat.S_ISLNK(mode) else "is not a regular file")
        if own:
            self.items.append(Belonging(own, what, sum(map(_bytes, own)), partial(_remove, own)))

    def keep(self, path: Path, reason: str) -> None:
        """Say that ``path`` stays, and why."""
        self.kept.append(f"{shown_path(path)} {reason}: left")

    def keep_others(self, paths: Iterable[Path]) -> None:
        """Say that files and folders stay since they are not ours, in a line for each folder."""
        for folder, group in groupby(paths, lambda path: path.parent):
            first, *others = (escaped(path.name) for path in group)
            more = f" and {len(others)} more" if others else ""
            self.kept.append(
                f"{shown_path(folder)} also holds {first}{more}, not of aish-lsp: left"
            )

    def enter(self, folder: Path) -> list[Path]:
        """Return what is in a folder of ours, by name; nothing if it cannot be entered.

        One that cannot be entered must not keep the rest from being found.
        """
        if folder.is_symlink():
            self.keep(folder, "is a link")
            return []
        try:
            children = sorted(folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            self.keep(folder, f"cannot be read ({error.strerror})")
            return []
        self.folders.append(folder)
        return children


def inventory(one: Path | None) -> Inventory:
    """Return what there is: all of it, or what belongs to the workspace ``one``. Blocks."""
    from aish_lsp.offline.ranking import index_file  # noqa: PLC0415 - large, and for this alone

    listing = Inventory()
    if one is not None:
        folder = workspace_dir(one)
        if not any(map(Path.is_symlink, (folder.parents[1], folder.parent))):
            _add_data_of(listing, folder, one)
        trust = TrustStore(trust_file())
        if count := trust.workspaces()[Path(os.path.realpath(one)).as_uri()]:
            what = f"{count_of(count, 'grant')} for {shown_path(one)}"
            listing.items.append(Belonging([trust_file()], what, 0, partial(trust.revoke, one)))
        _add_project(listing, one)
        return listing
    _add_configuration(listing)
    roots = _add_data(listing)
    for root in sorted(roots):
        _add_project(listing, root)
    index = index_file()
    # Installed by another user, it goes with the program.
    if os.access(index.parent, os.W_OK):
        listing.add("the offline model's index", index)
    return listing


def _add_configuration(found: Inventory) -> None:
    file = config_file()
    is_usual = not os.environ.get("AISH_CONFIG")
    names = {path.name for path in found.enter(file.parent)} if is_usual else {file.name}
    keys = keys_file()
    of_keys = [keys, keys.with_name(f"{keys.name}.lock")]
    for what, paths in {"the configuration": [file], "keys": of_keys}.items():
        found.add(what, *(path for path in paths if path.name in names))
        names.difference_update(path.name for path in paths)
    if is_usual:
        found.keep_others(map(file.with_name, sorted(names)))


def _add_data(found: Inventory) -> set[Path]:
    """Add what is in DATA; return the folders of the workspaces that are known."""
    names = set(found.enter(data_dir()))
    if data_dir().is_symlink():
        return set()
    for name, what in _FILES.items():
        first, *others = (set(data_dir().glob(copy.format(name))) for copy in _COPIES)
        own = [*sorted(first), *sorted(chain(*others))]
        found.add(what, *own)
        names.difference_update(own)
    for name, (pattern, what) in _FOLDERS.items():
        folder = data_dir() / name
        names.discard(folder)
        ours, foreign = _split(found.enter(folder), re.compile(pattern))
        found.add(f"{what} ({count_of(len(ours), 'file')})", *ours)
        found.keep_others(foreign)
    folder = data_dir() / "workspaces"
    names.discard(folder)
    ours, foreign = _split(found.enter(folder), _WORKSPACE)
    roots = {workspace_key(root): root for root in _granted_roots()}
    for path in ours:
        root = roots.get(path.name) or _root_of(path)
        if root is not None:
            roots[path.name] = root
        _add_data_of(found, path, root)
    found.keep_others([*foreign, *sorted(names)])
    return set(roots.values())


def _add_data_of(found: Inventory, folder: Path, root: Path | None) -> None:
    """Add what DATA holds for the workspace ``root``."""
    parts = [what for name, what in _PARTS.items() if (folder / name).exists()]
    where = f"{shown_path(root)}: " if root else ""
    found.add(f"{where}{', '.join(parts) or 'nothing of use'}", folder)


def _add_project(found: Inventory, root: Path) -> None:
    """Add what is in the workspace ``root`` itself, which is ``.aish``."""
    folder = root / ".aish"
    inside = found.enter(folder)
    tracked = _tracked(root) if inside else set()
    chats, others = _split(inside, OWN_NAME, files=True)
    outputs: list[Path] = []
    if (folder / "output") in others:
        others.remove(folder / "output")
        outputs, more = _split(found.enter(folder / "output"), _OUTPUT, files=True)
        others += more
    for path in [one for one in (*chats, *outputs) if one in tracked]:
        found.keep(path, "is tracked by git")
    ours = [one for one in (*chats, *outputs) if one not in tracked]
    ours.sort(key=lambda path: path.name != "chat.md")  # It names them all.
    ignore = folder / ".gitignore"
    if ignore in others and ignore not in tracked and _text(ignore) == IGNORES_ALL:
        others.remove(ignore)
        # It hides whatever else is there.
        if not others:
            ours.append(ignore)
    parts = {
        "the chat": any(path in chats for path in ours),
        "long outputs of commands": any(path in outputs for path in ours),
    }
    what = ", and ".join(part for part, is_there in parts.items() if is_there)
    found.add(what or "the file that hides this folder from git", *ours)
    found.keep_others(others)


def _split(
    paths: Iterable[Path], ours: re.Pattern[str], *, files: bool = False
) -> tuple[list[Path], list[Path]]:
    """Return those of ``paths`` whose name is one of ``ours``, and the others.

    With ``files``, folders are among the others.
    """
    parts: tuple[list[Path], list[Path]] = [], []
    for path in paths:
        is_ours = ours.fullmatch(path.name) and not (files and path.is_dir())
        parts[not is_ours].append(path)
    return parts


def _tracked(root: Path) -> set[Path]:
    """Return the files in ``.aish`` that git tracks, so that others may have written them."""
    done = run_git(root, "ls-files", "-z", "--", ".aish", seconds=_GIT_SECONDS)
    match done:
        case CompletedProcess(returncode=0, stdout=names):
            return {root / os.fsdecode(name) for name in names.split(b"\0") if name}
    return set()


def _granted_roots() -> set[Path]:
    """Return the workspaces that something was allowed for."""
    places = TrustStore(trust_file()).workspaces()
    return {root for path in places if (root := _folder_at(path)) is not None}


def _root_of(folder: Path) -> Path | None:
    """Return the workspace that a folder in DATA belongs to, if one of its sessions says so."""
    for path in sorted(folder.glob(f"sessions/*{SUFFIX}")):
        with suppress(OSError, ValueError, AttributeError, KeyError), path.open("rb") as file:
            workspace = json.loads(file.readline(1 << 16))["meta"]["workspace"]
            root = _folder_at(workspace)
            if root is not None and workspace_key(root) == folder.name:
                return root
    return None


def _folder_at(uri: object) -> Path | None:
    """Return the existing folder with a ``file:`` URI."""
    folder = path_of(uri) if isinstance(uri, str) and uri.startswith("file:///") else None
    with suppress(OSError):
        return folder if folder is not None and folder.is_dir() else None
    return None


def _remove(paths: Iterable[Path]) -> None:
    """Remove files, and folders with all in them; never follow a link.

    Raises:
        StoreUnavailable: one cannot be removed.
    """
    for path in paths:
        with store_errors(path, "remove"), suppress(FileNotFoundError):
            if stat.S_ISDIR(path.lstat().st_mode):
                shutil.rmtree(path)
            else:
                path.unlink()


def _bytes(path: Path) -> int:
    """Return how many bytes a file takes, or all files in a folder."""
    return sum(_entries(path))


def _entries(path: Path) -> Iterator[int]:
    with suppress(OSError):
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            yield status.st_size
            return
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                yield Path(folder, name).lstat().st_size


def _size_text(size: int) -> str:
    """Return a number of bytes for a person."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= length:
            return f"{size / length:,.1f} {unit}"
    return f"{size} B"


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, ValueError):
        return None
