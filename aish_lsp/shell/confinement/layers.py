"""Git folders as layers: git's own commands write to a layer, of which some is taken over.

In the profile ``work`` git folders are read-only, since their settings and hooks are run by git.
Where every command of a line is git's, each is covered by an overlay. What was written to it is in
a folder of ours when the command has ended, and may be a program's, since git runs hooks and
filters. Of that, only commits, refs, the index and the like are taken over: checked, under git's
locks, and all of it or nothing. Settings, hooks and all else are left.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.git import git_command, git_environment, top_above
from aish_lsp.foundation.text import escaped, shown_path
from aish_lsp.shell.confinement.tree import folded, identity_of
from aish_lsp.shell.confinement.written import (
    ID,
    LOOSE,
    NOT_MISSED,
    PACK,
    SHARED,
    STAYS,
    TAKEN,
    UNFINISHED,
    NotTaken,
    Written,
    check,
    copy_object,
    folders_above,
)

if TYPE_CHECKING:
    from aish_lsp.shell.confinement.tree import Identity

#: Seconds for git to check or to write; for a lock that another git process holds.
_GIT_SECONDS: Final = 600.0
_LOCK_SECONDS: Final = 2.0
#: How many names of what was not taken over are told.
_MOST_TOLD: Final = 5


@dataclass(slots=True)
class Layer:
    """The layer of one git folder for one command.

    Attributes:
        root: the work tree that the command works in.
        git: the git folder, a real path.
        folder: where the layer is, with its folders ``upper``, ``work`` and ``lower``.
        homes: the folders in ``git`` that have refs and an index of their own, relative to it: its
            own, those of submodules, and those of linked work trees which are worked in.
        is_anothers: whether the work tree of ``git`` itself is another than that worked in.
        itself: what tells ``git`` from another folder in its place.
        before: the files of ``homes`` that may be taken over, with their identities.
    """

    root: Path
    git: Path
    folder: Path
    homes: tuple[str, ...]
    is_anothers: bool = False
    itself: Identity = (0, 0, 0)
    before: dict[str, Identity] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make the folders, and note what is in the git folder now.

        Raises:
            ValueError: git keeps its refs in a form of which nothing could be taken over.
            OSError: they cannot be made.
        """
        if (self.git / "reftable").exists():
            msg = f"the refs of {self.git} are stored in a form that cannot be taken over"
            raise ValueError(msg)
        self.itself = identity_of(self.git)
        for name in ("upper", "work", "lower", "before"):
            (self.folder / name).mkdir(parents=True, mode=0o700)
        for home in self.homes:
            for name in _files_in(self.git, home):
                if self._is_taken(name):
                    self.before[name] = identity_of(self.git / name)
            with suppress(FileNotFoundError):
                copy = self.folder / "before" / home / "index"
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.git / home / "index", copy)

    def take_over(self) -> Iterator[str]:
        """Take over what the command wrote, as far as may be; yield what the user should know."""
        left: list[str] = []
        try:
            self._check_place()
            written = Written(self.folder / "upper")
            left = [name for name in written.names() if self._is_missed(name, written)]
            changes = self._changes(written)
            if changes:
                for home in self.homes:
                    self._take_objects(written, home)
                    self._check_whole(home, changes)
                self._check_index(changes)
                self._write(changes)
        except NotTaken as reason:
            why = escaped(str(reason))
            yield f"nothing that git did in {shown_path(self.git)} was kept, since {why}"
        except (OSError, subprocess.SubprocessError) as error:
            yield f"nothing that git did in {shown_path(self.git)} was kept: {escaped(str(error))}"
        if left:
            names = ", ".join(map(escaped, left[:_MOST_TOLD]))
            more = f" and {len(left) - _MOST_TOLD} more" if len(left) > _MOST_TOLD else ""
            where = shown_path(self.git)
            yield f"git also changed this in {where}, which is not kept: {names}{more}"

    def _check_place(self) -> None:
        """Check that the git folder is where it was: a folder that it is in can be moved.

        Raises:
            NotTaken: it is not, and something else, or a link to anywhere, may be in its place.
        """
        if os.path.realpath(self.git) != str(self.git) or identity_of(self.git) != self.itself:
            raise NotTaken("it has been moved")

    def _is_taken(self, name: str) -> bool:
        """Return whether a file is one of those that are taken over."""
        home = self._home_of(name)
        names = SHARED if self.is_anothers and not home else TAKEN
        inner = name.removeprefix(home)
        return names.fullmatch(inner) is not None and not NOT_MISSED.fullmatch(inner)

    def _is_missed(self, name: str, written: Written) -> bool:
        """Return whether a file of the layer that is not taken over differs from the real one."""
        if self._is_taken(name) or NOT_MISSED.fullmatch(name.removeprefix(self._home_of(name))):
            return False
        try:
            return written.read(name) != (self.git / name).read_bytes()
        except (NotTaken, OSError):
            return True  # There was none, or it is none any more.

    def _home_of(self, name: str) -> str:
        return max((home for home in self.homes if name.startswith(home)), key=len, default="")

    def _changes(self, written: Written) -> dict[str, bytes | None]:
        """Return the new contents of the files to be taken over; None for those that are gone.

        Raises:
            NotTaken: they cannot be.
        """
        if any(written.holds(home + name) for home in self.homes for name in UNFINISHED):
            raise NotTaken("an operation of several steps, like a rebase, is not finished")
        changes: dict[str, bytes | None] = dict.fromkeys(
            name for name in self.before if written.hides(name)
        )
        for name in changes:
            if STAYS.fullmatch(name.removeprefix(self._home_of(name))):
                raise NotTaken(f"{name} is gone")
        for name in filter(self._is_taken, written.names()):
            content = written.read(name)
            path = self.git / name
            before = path.read_bytes() if path.is_file() else None
            if content != before:
                check(name.removeprefix(self._home_of(name)), content, before)
                changes[name] = content
        return changes

    def _take_objects(self, written: Written, home: str) -> None:
        """Copy new objects, each of which is what its name says.

        Raises:
            NotTaken: one is not.
        """
        objects = self.git / home / "objects"
        for name in written.names(f"{home}objects/"):
            inner = name.removeprefix(f"{home}objects/")
            if (objects / inner).exists():
                continue
            if LOOSE.fullmatch(inner):
                with written.open(name) as file:
                    copy_object(file, inner, objects)
            elif PACK.fullmatch(inner):
                with written.open(name) as file:
                    # It makes the index of a pack anew, and finds what is damaged.
                    if self._git(home, "index-pack", "--stdin", given=file).returncode:
                        raise NotTaken(f"{inner} is damaged")

    def _check_whole(self, home: str, changes: Mapping[str, bytes | None]) -> None:
        """Check that all is there that the new refs lead to.

        Raises:
            NotTaken: something is missing.
        """
        flaws: dict[bytes, None] = {}
        for name, content in changes.items():
            inner = name.removeprefix(home)
            is_ref = inner.startswith("refs/") or inner in ("HEAD", "packed-refs", "MERGE_HEAD")
            if content is not None and is_ref and self._home_of(name) == home:
                flaws |= dict.fromkeys(re.findall(rb"(?m)^" + ID + rb"(?=\s|\Z)", content))
        if flaws:
            with tempfile.TemporaryFile() as file:
                file.write(b"".join(one + b"\n" for one in flaws))
                file.seek(0)
                options = ("--objects", "--quiet", "--stdin", "--not", "--all")
                shallow = f"{home}shallow" in changes and self.folder / "upper" / home / "shallow"
                environ = {"GIT_SHALLOW_FILE": os.fspath(shallow)} if shallow else {}
                if self._git(home, "rev-list", *options, given=file, **environ).returncode:
                    raise NotTaken("a commit is incomplete")

    def _check_index(self, changes: Mapping[str, bytes | None]) -> None:
        """Check that git can read a new index, and that no name in it leads elsewhere.

        Raises:
            NotTaken: that is not so.
        """
        for name, content in changes.items():
            if content is not None and name.removeprefix(self._home_of(name)) == "index":
                for listed in self._names_in_index(content, self._home_of(name)):
                    parts = [folded(part) for part in listed.split("/")]
                    if "" in parts or ".git" in parts:
                        raise NotTaken(f"the index names {escaped(listed)}")

    def _names_in_index(self, content: bytes, home: str, *options: str) -> list[str]:
        """Return the names in an index; with ``--stage``, each with its mode and object.

        Raises:
            NotTaken: git cannot read it.
        """
        with tempfile.NamedTemporaryFile(prefix="aish-index-") as file:
            file.write(content)
            file.flush()
            done = self._git(home, "ls-files", "-z", *options, GIT_INDEX_FILE=file.name)
        if done.returncode:
            raise NotTaken("git cannot read the index")
        return os.fsdecode(done.stdout).split("\0")[:-1]

    def _git(
        self, home: str, *arguments: str, given: IO[bytes] | None = None, **more: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git on a home, whose settings are those of the user: nothing changed them.

        ``more`` are further variables of its environment.

        Raises:
            NotTaken: there is no git.
            OSError, subprocess.SubprocessError: it cannot be started, or takes too long.
        """
        command = git_command(self.root, *arguments)
        if command is None:
            raise NotTaken("there is no git outside the work tree")
        folder = self.git / home
        return subprocess.run(
            command,
            cwd=folder,
            env=git_environment() | {"GIT_DIR": os.fspath(folder), "LC_ALL": "C"} | more,
            stdin=given or subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )

    def _write(self, changes: Mapping[str, bytes | None]) -> None:
        """Write the new contents under git's locks, if nobody else has changed these files.

        Raises:
            NotTaken: somebody has.
        """
        locks: dict[str, Path] = {}
        try:
            for name in sorted(changes):
                # In a file's place there is no folder yet.
                if not any(changes.get(above, b"") is None for above in folders_above(name)):
                    locks[name] = _locked(self.git / name)
            for name in changes:
                self._check_unchanged(name, changes)
            for name, content in changes.items():
                if content is None:
                    (self.git / name).unlink(missing_ok=True)
                    locks.pop(name).unlink()
                    _remove_empty(self.git / name, self._home_of(name), self.git)
            for name, content in changes.items():
                if content is not None:
                    lock = locks[name] if name in locks else _locked(self.git / name)
                    locks[name] = lock
                    lock.write_bytes(content)
                    _remove_folders(self.git / name)
                    lock.rename(self.git / name)
                    del locks[name]
        finally:
            for lock in locks.values():
                lock.unlink(missing_ok=True)

    def _check_unchanged(self, name: str, changes: Mapping[str, bytes | None]) -> None:
        """Check that a file is the one that was there before.

        Folders of refs that are gone, or are going, may be in the place of a new one.

        Raises:
            NotTaken: it is not.
        """
        path = self.git / name
        if identity_of(path) == self.before.get(name, (0, 0, 0)):
            return
        if name not in self.before and path.is_dir() and not path.is_symlink():
            inside = (os.path.relpath(one, self.git) for one in path.rglob("*") if not one.is_dir())
            if all(changes.get(one, b"") is None for one in inside if not one.endswith(".lock")):
                return
        copy = self.folder / "before" / name
        if name.endswith("index") and copy.exists():
            # Who looks at the status writes the index, too.
            home = self._home_of(name)
            before, now = (
                self._names_in_index(one.read_bytes(), home, "--stage") for one in (copy, path)
            )
            if before == now:
                return
        raise NotTaken(f"{name} has been changed by somebody else in the meantime")


def layers_for(root: Path, nested: Iterable[Path], at: Path) -> list[Layer]:
    """Return a layer for each git folder of the work tree ``root``, made in the folder ``at``.

    ``nested`` are the git folders of repositories in it. Blocks.

    Raises:
        ValueError: one of them cannot have one.
        OSError: it cannot be made.
    """
    folders = {git: False for git in nested if os.path.isfile(git / "HEAD")}  # noqa: PTH113 - or an error
    top = top_above(root)
    own = top / ".git" if top else None
    if own is not None and own.is_dir():
        folders[own.resolve()] = False
    elif own is not None:
        folder = _named_in(own, "gitdir: ")
        common = _named_in(folder / "commondir") if (folder / "commondir").exists() else folder
        folders[common] = common != folder
    layers = [
        Layer(root, git, at / str(number), tuple(_homes(git, root)), is_anothers)
        for number, (git, is_anothers) in enumerate(folders.items())
    ]
    for layer in layers:
        layer.prepare()
    return layers


def _named_in(file: Path, begin: str = "") -> Path:
    """Return the real path that a file of git's names, relative to the folder that it is in.

    Raises:
        ValueError: it names none.
    """
    text = os.fsdecode(file.read_bytes()).removeprefix(begin).rstrip("\r\n")
    path = Path(os.path.realpath(file.parent / text))
    if not path.is_dir():
        msg = f"{file} names no folder"
        raise ValueError(msg)
    return path


def _homes(git: Path, root: Path) -> Iterator[str]:
    """Yield the homes in a git folder, each with a slash at its end."""
    yield ""
    for folder, names, _ in os.walk(git / "modules"):
        if "objects" in names:
            yield f"{Path(folder).relative_to(git)}/"
            # A module's own modules are in it, among many other folders.
            names[:] = [name for name in names if name == "modules"]
    for linked in (git / "worktrees").glob("*/gitdir"):
        # It names the file ``.git`` of the work tree.
        if Path(linked.read_text("utf-8", "surrogateescape").rstrip("\n")).is_relative_to(root):
            yield f"{linked.parent.relative_to(git)}/"


def _files_in(git: Path, home: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(git / home) as entries:
        yield from (home + entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    for top in ("refs", "logs"):
        for folder, _, files in os.walk(git / home / top):
            yield from (os.path.relpath(f"{folder}/{name}", git) for name in files)


def _locked(path: Path) -> Path:
    """Lock a file of a git folder as git does; return the lock, in which its new content goes.

    Raises:
        NotTaken: another process has locked it.
    """
    lock = path.with_name(f"{path.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            lock.touch(mode=0o666, exist_ok=False)
        except FileExistsError:
            if time.monotonic() > deadline:
                raise NotTaken(f"another git process has locked {path.name}") from None
            time.sleep(0.05)
        else:
            return lock


def _remove_folders(path: Path) -> None:
    """Remove a folder that holds nothing but folders; leave all else."""
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path, topdown=False):
            Path(folder).rmdir()


def _remove_empty(path: Path, home: str, git: Path) -> None:
    """Remove the folders that a ref or its log was in, if they are empty, as git does."""
    for folder in path.parents:
        inner = os.path.relpath(folder, git / home)
        # `refs/heads` stays, and so does `logs/refs/heads`.
        if inner.removeprefix("logs/").count("/") < 2:
            return
        try:
            folder.rmdir()
        except OSError:
            return
