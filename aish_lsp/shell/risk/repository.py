"""Whether git may run programs that a repository chooses, even for a command that only reads.

A repository's settings, like its hooks, may come from a stranger. They are read as git reads them,
and compared with a list of harmless keys: any other key might make git run a program. The user's
own settings (``~/.gitconfig``) may name programs; since those work on what is in the repository,
they only run confined.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aish_lsp.foundation.files import open_to_read, stamp_of
from aish_lsp.shell.risk.words import table

#: Bytes of a file that are read: a larger one may hold anything.
_MOST: Final = 1 << 25
#: Seconds that git may take to read its settings.
_TIMEOUT: Final = 3.0
#: How many repositories within another are looked at.
_NESTED: Final = 50
#: How many folders are remembered with what was found for them.
_REMEMBERED: Final = 64

#: Keys that a repository may set to anything.
_SETTINGS: Final = table("git_settings")["repository"]
_HARMLESS: Final = re.compile("|".join(_SETTINGS["harmless"]), re.IGNORECASE)
#: The exceptions among them, which do name a program.
_NAMES_PROGRAM: Final = re.compile("|".join(_SETTINGS["names_program"]))
#: Keys whose value git runs even for commands that only read.
_RUNS: Final = re.compile("|".join(_SETTINGS["runs"]), re.IGNORECASE)
_OFF: Final = frozenset({"", "false", "no", "off", "0"})
_ON: Final = frozenset({"true", "yes", "on", "1"})

#: Git for a repository of any owner: the command itself may declare that another user's is safe,
#: or run under ``sudo``, where git checks the owner differently.
_FOR_ANY_OWNER: Final = ("git", "-c", "safe.directory=*")

#: The one hook that commands which only read can run: they update the index.
_HOOK: Final = "post-index-change"
#: The mode of an entry of the index that is another repository: 0o160000 in four bytes.
_LINK: Final = b"\x00\x00\xe0\x00"

SETTINGS: Final = "the repository's own settings or hooks have git run programs"
_UNREADABLE: Final = "the repository's settings cannot be read"
_USERS_OWN: Final = "your own settings have git run programs on what is in the repository"


@dataclass(frozen=True, slots=True)
class _Setting:
    own: bool  # of the repository, not of the user or the system
    origin: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found for a folder, and the stamps of the files that it was found in."""

    stamps: dict[str, object]
    reason: str | None
    confined: str | None


_known: dict[str, _Known] = {}


def why_not(folder: Path, *, confined: bool) -> str | None:
    """Return why git commands that only read may run programs in ``folder``; None if they don't."""
    place = os.path.realpath(folder)
    known = _known.get(place)
    if known is None or any(_stamp(path) != stamp for path, stamp in known.stamps.items()):
        known = _look(Path(place))
        while len(_known) >= _REMEMBERED:
            _known.pop(next(iter(_known)))
        _known[place] = known
    return known.confined if confined else known.reason


def _look(place: Path, depth: int = 0) -> _Known:
    """Return the verdict on a folder, and on the repositories within the one that it is in."""
    repository = _Repository.around(place)
    stamps: dict[str, object] = {}

    def depend_on(paths: Iterable[Path]) -> None:
        # The first stamp counts: it is taken before the file is read.
        for path in map(str, paths):
            stamps.setdefault(path, _stamp(path))

    depend_on(_users_files())
    depend_on(_nearer_repositories(place, repository))
    hooks: list[Path] = []
    nested: list[Path] = []
    try:
        if repository is not None:
            depend_on(repository.files())
        settings = _settings(place)
        origins = (s.origin[5:] for s in settings if s.origin.startswith("file:"))
        depend_on(place / origin for origin in origins)
        if repository is not None:
            hooks = repository.hooks(settings)
            depend_on(hooks)
            linked = list(repository.linked())
            depend_on(inner / ".git" for inner in linked)
            nested = [inner for inner in linked if os.path.lexists(inner / ".git")]
    except (OSError, ValueError, subprocess.SubprocessError):
        return _Known(stamps, _UNREADABLE, _UNREADABLE)
    if depth > 2 or len(nested) > _NESTED:
        return _Known(stamps, SETTINGS, SETTINGS)
    if any(os.access(hook, os.X_OK) for hook in hooks) or (repository and repository.is_hidden()):
        return _Known(stamps, SETTINGS, SETTINGS)
    reason, confined = _verdict(settings)
    for inner in nested:
        found = _look(inner, depth + 1)
        stamps = found.stamps | stamps
        reason, confined = reason or found.reason, confined or found.confined
    return _Known(stamps, reason, confined)


def _verdict(settings: list[_Setting]) -> tuple[str | None, str | None]:
    """Return why settings are not harmless, and why they are not even in a confined command."""
    reason = None
    for setting in settings:
        key, value = setting.key, setting.value.lower()
        runs = _RUNS.fullmatch(key) is not None
        harmless = _HARMLESS.fullmatch(key) and not _NAMES_PROGRAM.fullmatch(key)
        if key.lower() == "core.fsmonitor" and value in _ON:
            # Git's own daemon, which is switched off if a command runs confined.
            reason = SETTINGS if setting.own else _USERS_OWN
        elif runs and value in _OFF:
            continue
        elif setting.own and not harmless:
            return SETTINGS, SETTINGS
        elif runs and not setting.own:
            reason = reason or _USERS_OWN
    return reason, None


def _settings(place: Path) -> list[_Setting]:
    """Return all settings that apply in ``place``, as git reads them.

    Raises:
        OSError, ValueError, subprocess.SubprocessError: git cannot read them, or is missing.
    """
    listing = ["config", "--list", "--includes", "--show-scope", "--show-origin", "-z"]
    done = _git([*_FOR_ANY_OWNER, *listing], place)
    done.check_returncode()
    parts = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    if len(parts) % 3:
        msg = "git's answer was not understood"
        raise ValueError(msg)
    found = []
    for scope, origin, entry in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if scope == "command":
            continue  # Our own.
        key, equals, value = entry.partition("\n")
        own = scope not in {"system", "global"}
        found.append(_Setting(own, origin, key, value if equals else "true"))
    return found


def is_ignored(path: Path) -> bool:
    """Return whether git ignores a file: then it is generated, or not needed."""
    if not any((place / ".git").exists() for place in path.parents):
        return False
    command = ["git", "-c", "core.fsmonitor=false", "check-ignore", "-q", "--", str(path)]
    try:
        return _git(command, path.parent).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _git(command: list[str], place: Path) -> subprocess.CompletedProcess[bytes]:
    """Run git in a clean environment.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be started, or takes too long.
    """
    kept = ("PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMROOT", "USERPROFILE")
    environ = {name: os.environ[name] for name in kept if name in os.environ}
    return subprocess.run(
        command,
        cwd=place,
        env=environ | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT,
        check=False,
    )


def _users_files() -> Iterator[Path]:
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - it may be missing
    yield home / ".gitconfig"
    yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config"
    yield Path("/etc/gitconfig")


def _stamp(path: str) -> object:
    """Return a value that changes with a file; None if there is no such file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a text, and often
    except (OSError, ValueError):
        return None
    return (*stamp_of(found), found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class _Repository:
    """A repository: the top of its work tree, its own git folder, and the shared one."""

    top: Path
    folder: Path
    shared: Path

    @classmethod
    def around(cls, place: Path) -> _Repository | None:
        """Return the repository that ``place`` is in, if any."""
        for top in (place, *place.parents):
            try:
                folder = _git_folder(top)
                if folder is not None:
                    common = folder / "commondir"
                    shared = folder / _read(common).strip() if common.is_file() else folder
                    return cls(top, folder, shared)
            except (OSError, ValueError):
                return cls(top, top / ".git", top / ".git")
        return None

    def files(self) -> Iterator[Path]:
        """Yield the files on which the verdict depends."""
        if self.folder != self.top / ".git":
            yield self.top / ".git"
        yield self.shared / "config"
        names = ("config.worktree", "index", "HEAD", "commondir")
        yield from (self.folder / name for name in names)

    def is_hidden(self) -> bool:
        """Return whether it is a bare repository in another work tree, where nobody expects one."""
        return self.folder == self.top and any(
            (place / ".git").exists() for place in self.top.parents
        )

    def hooks(self, settings: list[_Setting]) -> list[Path]:
        """Return the files that, if executable, run when a command updates the index."""
        folders = [self.shared / "hooks"]
        folders += [
            self.top / os.path.expanduser(setting.value)  # noqa: PTH111 - or ~other
            for setting in settings
            if setting.key.lower() == "core.hookspath"
        ]
        return [folder / _HOOK for folder in folders]

    def linked(self) -> Iterator[Path]:
        """Yield the folders in the index that are repositories, whether or not they exist here.

        Raises:
            OSError, ValueError, subprocess.SubprocessError: the index cannot be read.
        """
        index = self.folder / "index"
        if not index.is_file():
            return
        if any(self.folder.glob("sharedindex.*")):
            msg = "the index is split"
            raise ValueError(msg)
        if _LINK not in _read_bytes(index):
            return
        listing = [*_FOR_ANY_OWNER, "-c", "core.fsmonitor=false", "ls-files", "--stage", "-z"]
        done = _git(listing, self.top)
        done.check_returncode()
        for entry in done.stdout.split(b"\0"):
            if entry.startswith(b"160000 "):
                yield self.top / os.fsdecode(entry.partition(b"\t")[2])


def _nearer_repositories(place: Path, repository: _Repository | None) -> Iterator[Path]:
    """Yield what would make ``place`` belong to another repository than ``repository``."""
    for folder in (place, *place.parents):
        if repository is not None and folder == repository.top:
            return
        yield from (folder / name for name in (".git", "HEAD", "objects"))


def _git_folder(place: Path) -> Path | None:
    """Return the git folder of a work tree, or ``place`` if it is one itself."""
    dot = place / ".git"
    if dot.is_file():
        return place / _read(dot).removeprefix("gitdir:").strip()
    if dot.is_dir():
        return dot
    return place if (place / "HEAD").is_file() and (place / "objects").is_dir() else None


def _read(path: Path) -> str:
    return _read_bytes(path).decode("utf-8", "surrogateescape")


def _read_bytes(path: Path) -> bytes:
    """Return the contents of a file.

    Raises:
        OSError, ValueError: it cannot be read, or is larger than any real one.
    """
    with os.fdopen(open_to_read(path), "rb") as file:
        data = file.read(_MOST + 1)
    if len(data) > _MOST:
        msg = "too long"
        raise ValueError(msg)
    return data
