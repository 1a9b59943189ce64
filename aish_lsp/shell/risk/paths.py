"""Places in the file system that a command may not touch without asking, in every spelling.

No spelling hides a place: not ``~``, ``$HOME``, ``..``, a doubled slash, a capital letter or a
pattern. A place counts even before it exists.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final, Literal

from aish_lsp.foundation.redaction import KEY_ENDINGS, PRIVATE_NAMES
from aish_lsp.shell.risk.data import CAUTION, DESTRUCTIVE, SAFE, UNKNOWN, table

#: What a write does: a file is written anew, put there from elsewhere, or changed in part.
How = Literal["overwrites", "places", "adds"]

#: The most bytes of a file that a snapshot holds (docs/undo.md).
_LARGEST_KEPT: Final = 64 << 20

#: Seconds that git may take to say whether it ignores a file.
_GIT_SECONDS: Final = 3.0

#: Swap, lock and backup files of editors: no snapshot holds them, either (docs/undo.md).
_EDITORS_OWN: Final = re.compile(r"\..*\.sw.|#.*#|\.#.*|.*~", re.DOTALL)

#: Devices, and what describes processes, are not plain files.
_NO_FILE: Final = r"(?:/+|(?:\.\./)+)(?:dev|proc|sys)(?:/[^\n]*)?"
#: Secret places that are recognized by their folder.
_PRIVATE_PLACES: Final = r"\.config/(?:gh|rclone|containers)|\.m2/settings\.xml|\.terraform\.d"
#: Secret names, delimited by slashes, equals signs, colons and the like.
_PRIVATE: Final = re.compile(
    rf"(?:(?:^|[/:=@,{{])(?:{PRIVATE_NAMES}|{_PRIVATE_PLACES})|{KEY_ENDINGS})(?=$|[/:=,}}])"
    rf"|^(?:[^=\n]*=)?{_NO_FILE}$",
    re.MULTILINE | re.IGNORECASE,
)
_PUBLIC: Final = re.compile(
    r"/dev/(?:null|u?random|stdout|stderr|tty|fd/63)|/sys/class/[\w/]*"
    r"|/proc/(?:cpuinfo|meminfo|version|loadavg|uptime|mounts|filesystems|partitions|swaps|stat)"
)
_BRACKETS: Final = r"\[[!^]?\]?(?:\[[:.=]\w*[:.=]\]|[^\]])*\]"
_WILD: Final = re.compile(rf"[*?{UNKNOWN}]|{_BRACKETS}")
#: With more opening brackets, words count as secret: looking for the end of each takes too long.
_MOST_BRACKETS: Final = 200
#: Brackets that ``fnmatch`` does not know: those with classes, and those negated by ``^``.
_OF_A_SHELL: Final = re.compile(rf"(?=\[\^|\[[^\]]*\[[:.=]){_BRACKETS}")
#: What may precede a pattern in one word: an option's name, or git's prefixes of a path.
_BEFORE_PATTERN: Final = re.compile(r"--?[\w-]+=|:(?:\([^)]*\)|[/!^]+)")
#: The top folders of the places that are not plain files.
_NO_FILES: Final = ("dev", "proc", "sys")
_PLACES: Final = table("places")
#: One example of each kind, which everyday patterns such as ``*.json`` do not match.
_EXAMPLES: Final = tuple(_PLACES["examples"])
_WHERE_SYSTEM_IS: Final = re.compile(
    r"/(?:bin|boot|etc|lib(?:32|64)?|sbin|usr(?!/local)|System|var/lib)/.*", re.IGNORECASE
)
_KERNEL: Final = re.compile(r"/(?:proc|sys)/.*")
_WRITABLE_DEVICES: Final = re.compile(r"/dev/(?:null|stdin|stdout|stderr|fd/\d+|full)")
_TERMINALS: Final = re.compile(r"/dev/(?:tty|ptmx)")
_HOME: Final = re.compile(r"\A(?:/home/[^/]+|/Users/[^/]+|/root|~[\w-]*)(?=/|$)")


@cache
def _keys() -> re.Pattern[str]:
    """Return what finds a file whose contents are keys and passwords, whatever is configured."""
    return re.compile(rf"(?:^|/)(?:{'|'.join(_PLACES['keys'])})(?=$|/)", re.IGNORECASE)


@cache
def _mentioned() -> re.Pattern[str]:
    """Return what finds a secret name in a program's text."""
    return re.compile(
        rf"(?:(?<![\w.-])(?:{PRIVATE_NAMES})|{KEY_ENDINGS})(?![\w.-])", re.MULTILINE | re.IGNORECASE
    )


@cache
def _protected() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the ends of paths to files of the system and of a home that decide what runs."""
    flags = re.IGNORECASE | re.DOTALL
    return tuple(
        (re.compile(rf"(?:^|.*/)(?:{'|'.join(row['ends'])})", flags), row["reason"])
        for row in _PLACES["protected"]
    )


@cache
def _system() -> re.Pattern[str]:
    """Return the system's own folders, and the user's home: nobody means to overwrite them all."""
    return re.compile("|".join(_PLACES["system"]), re.IGNORECASE)


def normal(path: str) -> str:
    """Return ``path`` without ``.``, ``..`` and doubled slashes, and with ``~`` for the home."""
    plain = path.lstrip(UNKNOWN).replace("\\", "/") or UNKNOWN
    collapsed = posixpath.normpath(re.sub("/{2,}", "/", plain))
    return _HOME.sub("~", collapsed, count=1)


def names_secret(words: Sequence[str]) -> bool:
    """Return whether a word names a place where secrets are kept, or anything but a plain file."""
    joined = "\n".join(words)
    text = joined.replace(UNKNOWN, "") if UNKNOWN in joined else joined
    if "/." in text or ".." in text:
        text += "\n" + "\n".join(map(posixpath.normpath, text.split("\n")))
    for match in _PRIVATE.finditer(text):
        if _PUBLIC.fullmatch(match[0]) is None:
            return True
    if joined.count("[") > _MOST_BRACKETS:
        return True
    return _WILD.search(joined) is not None and any(map(_may_be_secret, words))


def _may_be_secret(word: str) -> bool:
    """Return whether a pattern, or a word that is partly unknown, may become a secret name."""
    word = _OF_A_SHELL.sub("?", word)
    before = _BEFORE_PATTERN.match(word)
    word = word[before.end() if before else 0 :]
    top = next(filter(None, word.split("/")), "") if word[:1] == "/" else ""
    # An unknown folder at the top is one of the user's.
    if UNKNOWN not in top and _WILD.search(top) and any(fnmatchcase(n, top) for n in _NO_FILES):
        return True
    parts = word.replace(UNKNOWN, "*").split("/")
    for part in parts:
        plain = _WILD.sub("", part)
        if (
            plain != part
            and (len(plain) > 1 or plain == ".")
            and any(
                fnmatchcase(name, part) and (name[0] != "." or part[0] == ".") for name in _EXAMPLES
            )
        ):
            return True
    return False


def is_unknown(word: str) -> bool:
    """Return whether a word may name any file; the files that ``find`` finds do not count."""
    return (
        UNKNOWN in word and word != f"./{UNKNOWN}" and word.rpartition("/")[2].strip(UNKNOWN) == ""
    )


def mentions_secret(text: str) -> bool:
    """Return whether a program's text names a place where secrets are kept."""
    return _mentioned().search(text) is not None


def names_keys(words: Iterable[str]) -> bool:
    """Return whether a word names a file of keys or passwords."""
    return any(_keys().search(word) for word in words)


def is_system(path: str) -> bool:
    """Return whether ``path`` is one of the system's own folders, or somebody's whole home."""
    return any(_system().fullmatch(form) for form in (path, normal(path)))


def is_of_system(path: str) -> bool:
    """Return whether ``path`` is a place of the system, or is in one."""
    return is_system(path) or _WHERE_SYSTEM_IS.fullmatch(normal(path)) is not None


def write_risk(  # noqa: PLR0911 - for each kind of place
    target: str,
    how: How,
    *,
    folders: Iterable[str],
    folder: Path | None,
    kept: Path | None = None,
    lost: bool = False,
) -> tuple[int, str]:
    """Return the level and the reason of writing to ``target``.

    ``folders`` are those that the command changes to, ``folder`` is where it runs, if known: what
    exists there already would be lost, unless it is in ``kept``, of which there is a snapshot.
    ``lost`` says that it may be in yet another folder. Only a file whose path is known counts as
    one that the snapshot holds.
    """
    is_unclear = UNKNOWN in target or (lost and not target.startswith("/"))
    if kept is not None and how == "overwrites" and is_unclear:
        return DESTRUCTIVE, "may overwrite a file that is only known when it runs"
    if UNKNOWN in target and target.strip(UNKNOWN) == "":
        return CAUTION, "writes to a file whose name is computed"
    if _WRITABLE_DEVICES.fullmatch(target):
        return SAFE, ""
    if _TERMINALS.fullmatch(target):
        return CAUTION, "writes to a terminal"
    places = [normal(target), *(normal(f"{start}/{target}") for start in folders)]
    reals: list[Path] = []
    if folder is not None and UNKNOWN not in target:
        reals = real_places(target, folder, folders)
        places += [normal(os.fspath(real)) for real in reals]
    reason = next(filter(None, (_why_not(path, how) for path in places)), None)
    if reason is None and kept is not None:
        reason = next(filter(None, (why_not_kept(real, kept) for real in reals)), None)
    # Unlike ``Path.is_file``, it takes a name that is too long, or in a closed folder, for absent.
    there = [] if how == "adds" else [real for real in reals if os.path.isfile(real)]  # noqa: PTH113
    if reason is None and there:
        if kept is not None:
            return CAUTION, f"overwrites {target[:60]}, which can be undone"
        if all(map(is_ignored, there)):
            return CAUTION, f"overwrites {target[:60]}, which git ignores"
        reason = f"overwrites {target[:60]}, which exists"
    return (DESTRUCTIVE, reason) if reason else (CAUTION, "writes to a file")


def real_places(target: str, folder: Path, folders: Iterable[str]) -> list[Path]:
    """Return the real paths that ``target`` may name, in ``folder`` or one that is changed to.

    A folder whose name is only partly known adds none.
    """
    known_folders = [start for start in folders if UNKNOWN not in start]
    starts = [folder, *(folder / os.path.expanduser(start) for start in known_folders)]  # noqa: PTH111
    paths = (os.path.realpath(start / os.path.expanduser(target)) for start in starts)  # noqa: PTH111
    return [Path(real) for real in dict.fromkeys(paths)]


def why_not_kept(path: Path, kept: Path) -> str | None:
    """Return why no snapshot of the folder ``kept`` holds a file; None if one does or will.

    ``path`` is real. Nobody watches a Norris run, so what it changes must be restorable.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    root = Path(os.path.realpath(kept))
    if not path.is_relative_to(root):
        why = "is outside the folder"
    elif status.st_size > _LARGEST_KEPT:
        why = "is too large to be kept"
    elif any(part.lower() == ".git" for part in path.relative_to(root).parts):
        why = "belongs to git"
    elif _EDITORS_OWN.fullmatch(path.name):
        why = "belongs to an editor"
    elif is_ignored(path):
        why = "git ignores"
    else:
        return None
    return f"changes {path.name[:60]}, which {why}: it cannot be undone"


def is_ignored(path: Path) -> bool:
    """Return whether git ignores a file: then it is generated, or not needed."""
    from aish_lsp.foundation.git import run_git, top_above  # noqa: PLC0415 - it imports subprocess

    root = top_above(path.parent)
    if root is None:
        return False
    arguments = ("check-ignore", "-q", "--", str(path))
    done = run_git(root, *arguments, seconds=_GIT_SECONDS, cwd=path.parent)
    return done is not None and done.returncode == 0


def why_protected(path: str, root: Path | None = None) -> str | None:
    """Return why only the user may change the file ``path``; None if others may.

    ``root`` is its work tree. If it is given, this blocks.
    """
    from aish_lsp.shell.protected import protected_by, protected_in  # noqa: PLC0415 - as above

    target = normal(path)
    row = protected_by(target) or (protected_in(Path(path), root) if root else None)
    return row.reason if row else _why_not(target, "overwrites")


def _why_not(place: str, how: How) -> str | None:
    """Return why ``place``, a normal path, should not be written to; None if it may be."""
    if place.startswith("/dev/"):
        return "writes to a device"
    if _KERNEL.fullmatch(place):
        return "writes to the kernel's settings"
    from aish_lsp.shell.protected import protected_by  # noqa: PLC0415 - not for what only reads

    row = protected_by(place)
    reason = next((reason for pattern, reason in _protected() if pattern.fullmatch(place)), None)
    if row is not None or reason is not None:
        return f"writes a file that {row.reason}" if row else reason
    if ("*" in place or "?" in place) and _could_be(place):
        return "may write a file that decides what runs"
    if _system().fullmatch(place) or (how == "overwrites" and _WHERE_SYSTEM_IS.fullmatch(place)):
        return "overwrites system files"
    return None


def _could_be(pattern: str) -> bool:
    """Return whether a pattern with wildcards may match a protected file."""
    last = posixpath.basename(pattern)
    folder = posixpath.basename(posixpath.dirname(pattern))
    return last.startswith(".") or folder.startswith((".s", ".g", ".?", ".*")) or "hook" in folder
