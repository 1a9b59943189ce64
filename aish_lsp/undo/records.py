"""What undo knows after a restart: commits under ``refs/aish/undo/``, one ref for each command.

The first commit is the work tree before the command, its child the work tree after it. The message
of the last of them holds all that there is to know, as JSON behind its first line.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal

from aish_lsp.errors import InvalidArgument
from aish_lsp.text import escaped
from aish_lsp.undo.git import Git, GitFailed
from aish_lsp.undo.snapshots import Snapshot
from aish_lsp.validate import structure

_REFS: Final = "refs/aish/undo"
#: Not even where the user has all refs logged.
_UPDATE: Final = ("-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref")

#: Commands of a workspace that are kept, and the days for which any is.
KEPT: Final = 50
KEPT_DAYS: Final = 14

_VERSION: Final = 1
_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD stood: the branch, empty where none; the commit, empty where there is none."""

    branch: str = ""
    commit: str = ""

    def __str__(self) -> str:
        commit = self.commit[:10] or "no commit yet"
        return f"{escaped(self.branch)} ({commit})" if self.branch else commit


@dataclass(frozen=True, slots=True)
class Record:
    """A command that can be undone, or an undo.

    Attributes:
        group: what is undone in one go: a command's id, a run's, an undo's.
        label: the command, on one line and without secrets.
        head: where HEAD stood before it.
        before, after: the work tree; ``after`` is None until it has ended, and where the end was
            not seen.
        saved: names of files that the user saved while it ran.
    """

    group: str
    label: str
    head: Head
    before: Snapshot
    after: Snapshot | None = None
    kind: Literal["command", "undo"] = "command"
    saved: list[str] = field(default_factory=list)
    version: int = _VERSION


@dataclass(frozen=True, slots=True)
class Ref:
    """A ref of ours, the commit that it names, and when that was made (seconds since 1970)."""

    name: str
    commit: str
    seconds: int


class Records:
    """The records of one workspace, whose ``key`` is that of its folder in our data."""

    def __init__(self, git: Git, key: str) -> None:
        self._git = git
        self._own = f"{_REFS}/{key}/"

    def last_group(self) -> list[tuple[Ref, Record]]:
        """Return what is undone next, the oldest first; empty where there is nothing.

        What is no record of this version is passed over.
        """
        group: list[tuple[Ref, Record]] = []
        for ref in reversed(self._numbered(self._refs(self._own))):
            record = self._read(ref)
            if record is None:
                continue
            if group and record.group != group[0][1].group:
                break
            group.insert(0, (ref, record))
        return group

    def begin(self, record: Record) -> Ref:
        """Write down what was before a command."""
        last = self._numbered(self._refs(self._own))[-1:]
        number = max((int(ref.name.rpartition("/")[2]) for ref in last), default=0) + 1
        return self._write(f"{self._own}{number:08d}", record, record.before, "before")

    def finish(self, ref: Ref, record: Record, after: Snapshot) -> Ref:
        """Write down what was after it."""
        return self._write(ref.name, replace(record, after=after), after, "after", ref.commit)

    def drop(self, refs: list[Ref]) -> None:
        """Forget records. What only they held is left to git's own collection of garbage."""
        if refs:
            feed = "".join(f"delete {ref.name} {ref.commit}\n" for ref in refs)
            self._git.ask(*_UPDATE, "--stdin", feed=feed.encode())

    def drop_old(self, now: float | None = None) -> None:
        """Forget what is too many here, and what is too old in any workspace of the repository."""
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
        """Return those of this workspace, the oldest first."""
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
            # The head of a commit, its first line, and then ours.
            record = structure(json.loads(commit.split("\n\n", 2)[2]), Record, camel_case=False)
        except (GitFailed, InvalidArgument, IndexError, ValueError, RecursionError):
            return None
        snapshots = (record.before, record.after or record.before)
        whole = all(_ID.fullmatch(snapshot.tree) for snapshot in snapshots)
        return record if whole and record.version == _VERSION else None
