"""The records of undo, which survive a restart: commits under ``refs/aish/undo/``, one per command.

The first commit is the work tree before the command, and its child the work tree after it. The
message of the last commit holds the record as JSON after its first line. Changes to texts that an
editor has open, which no snapshot of the files holds, are stored as further objects of git.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.files import put_in_place
from aish_lsp.foundation.opening import read_regular
from aish_lsp.foundation.ports import EditOpen
from aish_lsp.foundation.text import escaped, with_line_feeds
from aish_lsp.foundation.validate import structure
from aish_lsp.undo.git import Git, GitFailed
from aish_lsp.undo.snapshots import Snapshot, as_name, as_text

_REFS: Final = "refs/aish/undo"
#: Writes no reflog, even if the user has configured one for all refs.
_UPDATE: Final = ("-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref")

#: The most commands that are kept for a workspace, and the days for which a command is kept.
KEPT: Final = 50
KEPT_DAYS: Final = 14

_VERSION: Final = 1
_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


Kind: TypeAlias = Literal["command", "undo", "redo"]


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD was: its branch and its commit, each empty if there was none."""

    branch: str = ""
    commit: str = ""

    def __str__(self) -> str:
        commit = self.commit[:10] or "no commit yet"
        return f"{escaped(self.branch)} ({commit})" if self.branch else commit


@dataclass(frozen=True, slots=True)
class KeptEdit:
    """A change to a text that an editor had open; ``old`` and ``new`` are objects of git."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Record:
    """A command that can be undone, or an undo or redo.

    Attributes:
        group: what is undone together: the id of a command, a run, an undo or a redo.
        label: the command, on one line and without secrets.
        session: the session in which it was run.
        of: the group that an undo or redo reverted.
        head: where HEAD was before it.
        before, after: the work tree; ``after`` is None until it has ended, or if its end was not
            seen.
        saved: names of files that the user saved while it ran.
        edits: what it changed in the editor, in order.
    """

    group: str
    label: str
    head: Head
    before: Snapshot
    after: Snapshot | None = None
    kind: Kind = "command"
    saved: list[str] = field(default_factory=list)
    edits: list[KeptEdit] = field(default_factory=list)
    session: str = ""
    of: str = ""
    version: int = _VERSION


@dataclass(frozen=True, slots=True)
class Ref:
    """One of our refs, its commit, and the time of that commit (seconds since 1970)."""

    name: str
    commit: str
    seconds: int


#: What is undone together, the oldest first.
Group: TypeAlias = list[tuple[Ref, Record]]


class Records:
    """The records of one workspace; ``key`` is the name of its folder in our data."""

    def __init__(self, git: Git, key: str) -> None:
        self._git = git
        self._own = f"{_REFS}/{key}/"

    def last_group(self) -> Group:
        """Return the group that was begun last; empty if there is none."""
        return next(reversed(self._groups()), [])

    def next_group(self, kind: Literal["undo", "redo"], session: str) -> Group:
        """Return the group that the next undo or redo reverts; empty if there is none.

        It is the last one of ``session``. If that has none left, an undo reverts the last one of
        any session.
        """
        undoable: list[Group] = []
        redoable: list[Group] = []
        for group in self._groups():
            record = group[-1][1]
            match record.kind:
                case "command":
                    # No redo goes past a command: it would conflict with what the command did.
                    redoable = [one for one in redoable if one[-1][1].session != record.session]
                    undoable.append(group)
                case "undo":
                    _take(undoable, record.of)
                    redoable.append(group)
                case "redo":
                    _take(redoable, record.of)
                    undoable.append(group)
        stack = undoable if kind == "undo" else redoable
        own = [group for group in stack if group[-1][1].session == session]
        others = stack if kind == "undo" else []
        return next(reversed(own or others), [])

    def _groups(self) -> list[Group]:
        """Return all groups, the oldest first, without records of other versions."""
        groups: list[Group] = []
        for ref in self._numbered(self._refs(self._own)):
            record = self._read(ref)
            if record is None:
                continue
            if groups and groups[-1][-1][1].group == record.group:
                groups[-1].append((ref, record))
            else:
                groups.append([(ref, record)])
        return groups

    def begin(self, record: Record) -> Ref:
        """Record the state before a command."""
        last = self._numbered(self._refs(self._own))[-1:]
        number = max((int(ref.name.rpartition("/")[2]) for ref in last), default=0) + 1
        return self._write(f"{self._own}{number:08d}", record, record.before, "before")

    def finish(self, ref: Ref, record: Record, after: Snapshot) -> Ref:
        """Record the state after a command."""
        return self._write(ref.name, replace(record, after=after), after, "after", ref.commit)

    def drop(self, refs: list[Ref]) -> None:
        """Delete records. git's garbage collection later removes what only they referred to."""
        if refs:
            feed = "".join(f"delete {ref.name} {ref.commit}\n" for ref in refs)
            self._git.ask(*_UPDATE, "--stdin", feed=feed.encode())

    def drop_old(self, now: float | None = None) -> None:
        """Delete what exceeds KEPT here, and what is too old in any workspace of the repository."""
        oldest = (time.time() if now is None else now) - KEPT_DAYS * 86_400
        refs = self._refs(_REFS)
        too_many = set(self._numbered(refs)[:-KEPT])
        self.drop([ref for ref in refs if ref.seconds < oldest or ref in too_many])

    def _refs(self, below: str) -> list[Ref]:
        form = "--format=%(refname) %(objectname) %(committerdate:unix)"
        answer = self._git.ask("for-each-ref", form, below)
        rows = (line.split(" ") for line in answer.decode("utf-8", "replace").splitlines())
        return [Ref(name, commit, int(at or 0)) for name, commit, at in rows]

    def _numbered(self, refs: list[Ref]) -> list[Ref]:
        """Return the refs of this workspace, the oldest first."""
        own = len(self._own)
        return [
            ref for ref in refs if ref.name.startswith(self._own) and ref.name[own:].isdecimal()
        ]

    def _write(
        self, name: str, record: Record, snapshot: Snapshot, when: str, parent: str = ""
    ) -> Ref:
        message = f"{when}: {record.label}\n\n{json.dumps(asdict(record))}\n".encode()
        parents = ("-p", parent) if parent else ()
        made = self._git.own("commit-tree", snapshot.tree, *parents, feed=message)
        commit = made.decode().strip()
        none = "0" * len(commit)
        self._git.ask(*_UPDATE, name, commit, parent or none)
        return Ref(name, commit, int(time.time()))

    def _read(self, ref: Ref) -> Record | None:
        try:
            commit = self._git.ask("cat-file", "commit", ref.commit).decode()
            # The headers of the commit, the first line of its message, and then the record.
            record = structure(json.loads(commit.split("\n\n", 2)[2]), Record, camel_case=False)
        except (GitFailed, InvalidArgument, IndexError, ValueError, RecursionError):
            return None
        snapshots = (record.before, record.after or record.before)
        ids = [snapshot.tree for snapshot in snapshots]
        ids += [text for edit in record.edits for text in (edit.old, edit.new)]
        whole = all(map(_ID.fullmatch, ids))
        return record if whole and record.version == _VERSION else None


def _take(stack: list[Group], of: str) -> None:
    """Remove the group called ``of`` from ``stack``, or the last one if ``of`` is empty."""
    found = [number for number, group in enumerate(stack) if of in ("", group[-1][1].group)]
    if found:
        del stack[found[-1]]


_BOM: Final = "\ufeff"

#: The largest file that is changed on disk, in bytes.
_LARGEST: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Edit:
    """A text that replaced another, both with LF line ends.

    ``name`` is the file's name, relative to the work tree.
    """

    name: bytes
    old: str
    new: str


def keep(git: Git, edits: Iterable[Edit]) -> list[KeptEdit]:
    """Store edits, with their texts as objects of git.

    Raises:
        NoUndo: they cannot be written.
    """

    def kept(text: str) -> str:
        made = git.own("hash-object", "-w", "--stdin", feed=text.encode("utf-8", "surrogatepass"))
        return made.decode().strip()

    return [KeptEdit(as_text(edit.name), kept(edit.old), kept(edit.new)) for edit in edits]


def backwards(edits: Sequence[KeptEdit]) -> list[KeptEdit]:
    """Return the edits that revert ``edits``."""
    return [KeptEdit(edit.name, old=edit.new, new=edit.old) for edit in reversed(edits)]


def read(git: Git, edits: Sequence[KeptEdit]) -> list[Edit]:
    """Return the stored ``edits`` with their texts.

    Raises:
        NoUndo: one of the texts is gone.
    """
    ids = [text for edit in edits for text in (edit.old, edit.new)]
    git.check_contents(ids)
    texts = [found.decode("utf-8", "surrogatepass") for found in git.contents(ids)]
    return [
        Edit(as_name(edit.name), old, new)
        for edit, old, new in zip(edits, texts[::2], texts[1::2], strict=True)
    ]


async def make(edits: Iterable[Edit], top: Path, edit_open: EditOpen) -> dict[bytes, bool]:
    """Make edits in the work tree ``top``; return for each file whether they could be made.

    A file that is no longer open is changed on disk if it has the text that the editor had.
    """
    made: dict[bytes, bool] = {}
    for edit in edits:
        path = top / os.fsdecode(edit.name)
        is_done = await edit_open(path, edit.old, edit.new)
        if is_done is None:
            is_done = await asyncio.to_thread(_rewrite, path, edit.old, edit.new)
        made[edit.name] = is_done and made.get(edit.name, True)
    return made


def _rewrite(path: Path, old: str, new: str) -> bool:
    """Write ``new`` to a file that holds ``old``; False if it does not, or cannot be written."""
    try:
        content = read_regular(path, _LARGEST)
        text = (content or b"").decode("utf-8")
        bare = text.removeprefix(_BOM)
        if content is None or with_line_feeds(bare) != old:
            return False
        if "\r\n" in text:
            new = new.replace("\n", "\r\n")
        data = (_BOM + new if text != bare else new).encode()
        put_in_place(path, data, prefix=".aish-", before=path.lstat())
    except (OSError, ValueError):
        return False
    return True
