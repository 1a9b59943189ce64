"""What was written to the layer of a git folder: read without following a link, and checked.

It may be a program's, since git runs hooks and filters.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from aish_lsp.foundation.text import escaped

#: What is taken over of a git folder, beside its objects.
TAKEN: Final = re.compile(
    r"(?:packed-refs|shallow|index|HEAD|ORIG_HEAD|FETCH_HEAD|COMMIT_EDITMSG)"
    r"|MERGE_(?:HEAD|MSG|MODE)|(?:logs/)?refs/(?!replace/).+|logs/HEAD",
    re.DOTALL,
)
#: The same of what several work trees share.
SHARED: Final = re.compile(r"packed-refs|shallow|(?:logs/)?refs/(?!replace/).+", re.DOTALL)
#: What git itself never removes.
STAYS: Final = re.compile(r"HEAD|index|packed-refs|logs/HEAD")
#: What git keeps while an operation of several steps is not finished, in a form that has commands,
#: or files that the user's next ``git commit`` would write to the work tree.
UNFINISHED: Final = ("rebase-merge", "rebase-apply", "sequencer", "MERGE_AUTOSTASH")
#: What git makes again when it needs it, and locks of git processes that were killed.
NOT_MISSED: Final = re.compile(
    r"(?:.*/)?(?:[^/]*\.lock|tmp_[^/]*|AUTO_MERGE|MERGE_RR|REBASE_HEAD|gc\.(?:log|pid)|info/refs)"
    r"|objects/.*",
    re.DOTALL,
)
LOOSE: Final = re.compile(r"[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})")
PACK: Final = re.compile(r"pack/pack-[0-9a-f]+\.pack")
ID: Final = rb"(?:[0-9a-f]{64}|[0-9a-f]{40})"
#: As ``git check-ref-format`` has it, but without what shells, options or prompts may take for
#: theirs, and without what stands for other objects.
_REF: Final = (
    rb"refs(?!/replace/)(?:/(?![.-])"
    rb"(?:(?!\.\.|@\{|\.lock(?:/|\s|\Z))[^\x00-\x20\x7f~^:?*\[\\/$`;|&<>\"'])+(?<!\.))+"
)
_VALUE: Final = re.compile(rb"(?:" + ID + rb"|ref: " + _REF + rb")\n?")
#: What a line of some files may hold. Others hold text for people, or are checked by git.
_LINES: Final = {
    "shallow": re.compile(ID),
    "packed-refs": re.compile(rb"#.*|\^" + ID + rb"|" + ID + rb" " + _REF),
}
_NAME_OF_REF: Final = re.compile(rb"(?:logs/)?" + _REF + rb"|logs/HEAD")
_LARGEST: Final = 1 << 28


class NotTaken(Exception):
    """Why nothing of a layer is taken over, as the rest of a sentence."""


class Written:
    """What a command wrote to a layer. It may be anything: no link is followed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kinds: dict[str, int] = {}
        self._opaque: set[str] = set()
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            with os.scandir(folder / inner) as entries:
                for entry in entries:
                    mode = entry.stat(follow_symlinks=False).st_mode
                    self._kinds[inner + entry.name] = stat.S_IFMT(mode)
                    if stat.S_ISDIR(mode):
                        waiting.append(f"{inner}{entry.name}/")
                        if self._is_opaque(entry.path):
                            self._opaque.add(inner + entry.name)

    @staticmethod
    def _is_opaque(path: str) -> bool:
        try:
            return os.getxattr(path, "user.overlay.opaque", follow_symlinks=False) == b"y"
        except OSError:
            return False

    def names(self, begin: str = "") -> list[str]:
        """Return the names of all that is neither a folder nor gone, sorted."""
        no_file = (stat.S_IFDIR, stat.S_IFCHR)
        names = (name for name, kind in self._kinds.items() if kind not in no_file)
        return sorted(name for name in names if name.startswith(begin))

    def holds(self, name: str) -> bool:
        """Return whether anything was written there, or is gone from there."""
        return name in self._kinds

    def hides(self, name: str) -> bool:
        """Return whether a file that was there before is gone."""
        kind = self._kinds.get(name)
        if kind is not None:
            return kind in (stat.S_IFDIR, stat.S_IFCHR)
        # The first folder above it that was written to decides.
        for above in folders_above(name):
            kind = self._kinds.get(above)
            if kind is not None and (kind != stat.S_IFDIR or above in self._opaque):
                return True
        return False

    def open(self, name: str) -> IO[bytes]:
        """Open a regular file.

        Raises:
            NotTaken: it is none, or too large.
        """
        if self._kinds[name] != stat.S_IFREG:
            raise NotTaken(f"{escaped(name)} is not a regular file")
        return os.fdopen(os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW), "rb")

    def read(self, name: str) -> bytes:
        """Return the content of a regular file.

        Raises:
            NotTaken: it is none, or too large.
        """
        with self.open(name) as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise NotTaken(f"{escaped(name)} is too large")
        return content


def check(name: str, content: bytes, before: bytes | None) -> None:
    """Check the name of a new file that is to be taken over, and the lines that are new in it.

    Raises:
        NotTaken: git would not have written it, or it is better not kept.
    """
    if "/" in name and before is None and not _NAME_OF_REF.fullmatch(os.fsencode(name)):
        raise NotTaken(f"{escaped(name)} is no good name for a ref")
    new = dict.fromkeys(content.splitlines())
    for line in (before or b"").splitlines():
        new.pop(line, None)
    lines = _LINES.get(name)
    is_ref = name.startswith("refs/") or name in ("HEAD", "ORIG_HEAD")
    if (is_ref and not _VALUE.fullmatch(content)) or (lines and not all(map(lines.fullmatch, new))):
        raise NotTaken(f"{escaped(name)} holds what it should not")


def copy_object(file: IO[bytes], name: str, objects: Path) -> None:
    """Copy a loose object, if its name is the hash of its content.

    Raises:
        NotTaken: it is not.
    """
    to = objects / name
    to.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=to.parent, prefix="tmp_obj_") as copy:
        shutil.copyfileobj(file, copy)
        copy.flush()
        copy.seek(0)
        wanted = name.replace("/", "")
        if _hash_of(copy, len(wanted)) != wanted:
            raise NotTaken(f"the object {wanted} is damaged")
        os.fchmod(copy.fileno(), 0o444)
        with suppress(FileExistsError):
            os.link(copy.name, to)


def _hash_of(file: IO[bytes], digits: int) -> str:
    """Return the hash of a loose object, which is compressed; empty if it is damaged."""
    digest = hashlib.sha1(usedforsecurity=False) if digits == 40 else hashlib.sha256()
    unpack = zlib.decompressobj()
    try:
        while data := file.read(1 << 16):
            while data:
                digest.update(unpack.decompress(data, 1 << 20))
                data = unpack.unconsumed_tail
        digest.update(unpack.flush())
    except zlib.error:
        return ""
    return digest.hexdigest() if unpack.eof and not unpack.unused_data else ""


def folders_above(name: str) -> Iterator[str]:
    """Yield the folders that a name is in, the innermost first."""
    while name := name.rpartition("/")[0]:
        yield name
