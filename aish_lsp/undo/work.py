"""What undo does in a work tree: before a command, after it, and to revert it.

Everything here blocks, and only one task runs at a time, since it locks our private git folder.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.files import locked, private_dir, workspace_dir, workspace_key
from aish_lsp.undo.git import Git, GitFailed
from aish_lsp.undo.listing import Listing, is_editors_own, is_plain, left_out, list_work_tree
from aish_lsp.undo.records import Edit, Head, Record, Records, Ref, backwards, keep, read
from aish_lsp.undo.snapshots import Change, Snapshot, WorkFolder, as_name, as_text, difference, take


def plan(
    git: Git, group: Sequence[Record], now: Snapshot
) -> tuple[dict[bytes, Change], frozenset[bytes]]:
    """Return how to revert what the commands of ``group``, oldest first, did.

    The first part is what differs between the files before the group and now, as far as the
    commands changed it. The second is the names in it that somebody else has changed as well.

    What the commands did not touch stays as it is now. If the end of a command was not seen, its
    changes cannot be told from those of others, so all of them are conflicts. So are the files that
    the user saved while a command ran.

    Raises:
        NoUndo: a snapshot is gone.
    """
    touched: set[bytes] = set()
    disputed: set[bytes] = set()
    for record, following in zip(group, [*(other.before for other in group[1:]), now], strict=True):
        # A file that existed but was not covered may look as if the command had created it.
        uncovered = record.before.left_out
        names = {
            name
            for name, change in difference(git, record.before, record.after or following).items()
            if change.old is not None or not left_out(name, uncovered)
        }
        touched |= names
        if record.after is None:
            disputed |= names
        else:
            disputed.update(map(as_name, record.saved))
            disputed |= difference(git, record.after, following).keys()
    steps = {
        name: change
        for name, change in difference(git, group[0].before, now).items()
        if name in touched and not is_editors_own(name)
    }
    hidden = now.left_out
    disputed |= {
        name for name, step in steps.items() if step.new is None and left_out(name, hidden)
    }
    return steps, frozenset(steps.keys() & disputed)


#: Creates a Git that the caller can stop.
MakeGit: TypeAlias = Callable[[Path, Path], Git]


_NOTHING: Final = {
    "undo": "There is nothing to undo: no command has changed a file here.",
    "redo": "There is nothing to redo: nothing was undone in this session, or a command ran since.",
}


@dataclass(frozen=True, slots=True)
class Begun:
    """A running command and the work tree before it; ``names`` are the names of the files."""

    top: Path
    ref: Ref
    record: Record
    names: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Reverted:
    """What an undo did; names are relative to the work tree ``top``.

    Attributes:
        label: the command that was undone or redone.
        group: the command's group.
        restored, removed: the files that were put back, and those that were removed again.
        conflicts: the files that were left, since somebody else has changed them.
        failed: the files that could not be put back, with the reasons.
        asks: nothing was done, since the user must first decide about the conflicts.
        earlier: nothing was done, since the command was run in another session, at this time
            (seconds since 1970), and the user must first be asked whether it is meant.
        edits: what to revert in the editor.
        moved: where HEAD was before the command and where it is now, if it has moved.
    """

    top: Path
    label: str
    group: str
    restored: tuple[bytes, ...] = ()
    removed: tuple[bytes, ...] = ()
    conflicts: frozenset[bytes] = frozenset()
    failed: Mapping[bytes, str] = field(default_factory=dict)
    asks: bool = False
    earlier: int | None = None
    edits: Sequence[Edit] = ()
    moved: tuple[Head, Head] | None = None


class Worker:
    """Works for one workspace, whose folder is somewhere in a work tree."""

    def __init__(self, folder: Path, make_git: MakeGit) -> None:
        self._folder = folder
        self._make_git = make_git

    def look(self) -> None:
        """Check that there can be snapshots.

        Raises:
            NoUndo: there cannot.
        """
        with self._git():
            pass

    def begin(self, group: str, label: str, session: str = "") -> Begun:
        """Record the work tree before a command that is run in ``session``.

        Raises:
            NoUndo, AishError, OSError: it cannot be recorded.
        """
        with self._git() as git:
            listing = list_work_tree(git)
            record = Record(group, label, _head(git), take(git, listing), session=session)
            ref = self._records(git).begin(record)
            return Begun(git.top, ref, record, frozenset(listing.files))

    def last_group(self) -> str:
        """Return the group that was begun last; empty if there is none.

        Raises:
            NoUndo, AishError, OSError: as for ``begin``.
        """
        with self._git() as git:
            group = self._records(git).last_group()
            return group[-1][1].group if group else ""

    def forget(self, group: str) -> None:
        """Drop what ``begin`` may have recorded for a command that does not run after all.

        Raises:
            NoUndo, AishError, OSError: as for ``begin``.
        """
        with self._git() as git:
            records = self._records(git)
            for ref, record in records.last_group()[-1:]:
                if record.group == group and record.after is None:
                    records.drop([ref])

    def finish(
        self,
        begun: Begun,
        saved: Iterable[Path] = (),
        edited: Iterable[tuple[Path, str, str]] = (),
    ) -> list[bytes]:
        """Record the work tree after a command; return the uncovered files that are now gone.

        ``saved`` are files anywhere that the user saved meanwhile; ``edited`` are files of the work
        tree that the command changed in the editor, each with its text before and after.

        Raises:
            NoUndo, AishError, OSError: as for ``begin``.
        """
        with self._git() as git:
            names = sorted({as_text(_name_in(git.top, path)) for path in saved})
            edits = [Edit(_name_in(git.top, path), old, new) for path, old, new in edited]
            record = replace(begun.record, saved=names, edits=keep(git, edits))
            self._end(git, replace(begun, record=record))
            self._records(git).drop_old()
            top = os.fsencode(git.top) + b"/"
            return sorted(
                name for name in begun.record.before.left_out if not os.path.lexists(top + name)
            )

    def revert(
        self,
        overwrite: frozenset[bytes] | None,
        *,
        decided: bool,
        kind: Literal["undo", "redo"] = "undo",
        session: str = "",
        earlier: str = "",
    ) -> Reverted:
        """Revert the last command, or the last undo.

        Args:
            overwrite: the conflicts that are put back anyway; None for all.
            decided: leave the other conflicts alone, instead of doing nothing if there are any.
            kind: whether to undo a command or to redo it.
            session: the session whose last one is meant.
            earlier: the ``Reverted.group`` of another session's command that may be reverted;
                "*" for any.

        Raises:
            NotFound: there is nothing to revert.
            NoUndo, AishError, OSError: it cannot be done. Another undo restores what was
                overwritten by then.
        """
        with self._git() as git:
            records = self._records(git)
            group = records.next_group(kind, session)
            if not group:
                raise NotFound(_NOTHING[kind])
            ref, last = group[-1]
            if last.session != session and earlier not in ("*", last.group):
                return Reverted(git.top, last.label, last.group, earlier=ref.seconds)
            done = [record for _, record in group]
            first, label = done[0], last.label
            names = _names(git, done)
            listing = list_work_tree(git, names)
            now = take(git, listing)
            steps, conflicts = plan(git, done, now)
            left = frozenset() if overwrite is None else conflicts - overwrite
            if left and not decided:
                return Reverted(git.top, label, last.group, conflicts=conflicts, asks=True)
            head = _head(git)
            steps = {name: step for name, step in steps.items() if name not in left}
            back = backwards([edit for record in done for edit in record.edits])
            edits = read(git, back) if back else []
            failed: dict[bytes, str] = {}
            if steps or back:
                record = Record(
                    f"{kind}-{secrets.token_hex(4)}",
                    label,
                    head,
                    now,
                    kind=kind,
                    session=session,
                    edits=back,
                    of=last.group,
                )
                begun = Begun(
                    git.top, records.begin(record), record, frozenset(names | listing.files.keys())
                )
                failed = _put_back(git, self._work_folder(git, listing, first.before), steps)
                self._end(git, begun)
                records.drop_old()
            elif not left:
                records.drop([ref for ref, _ in group])
            put_back = sorted(steps.keys() - failed.keys())
            return Reverted(
                top=git.top,
                label=label,
                group=last.group,
                restored=tuple(name for name in put_back if steps[name].old is not None),
                removed=tuple(name for name in put_back if steps[name].old is None),
                conflicts=left,
                failed=failed,
                edits=edits,
                moved=None if first.head == head else (first.head, head),
            )

    def _end(self, git: Git, begun: Begun) -> None:
        """Record the work tree after a command or an undo; drop one that did nothing."""
        before = begun.record.before
        repositories = list(map(as_name, before.repositories))
        after = take(git, list_work_tree(git, begun.names, repositories))
        permissions = (before.umask, before.modes)
        is_same = after.tree == before.tree and (after.umask, after.modes) == permissions
        if is_same and not begun.record.edits:
            self._records(git).drop([begun.ref])
        else:
            self._records(git).finish(begun.ref, begun.record, after)

    def _work_folder(self, git: Git, listing: Listing, before: Snapshot) -> WorkFolder:
        own = os.path.relpath(os.path.realpath(self._folder), git.top)
        return WorkFolder(git.top, listing.files, before, os.fsencode(own))

    @contextmanager
    def _git(self) -> Iterator[Git]:
        private = workspace_dir(self._folder) / "undo"
        git = self._make_git(self._folder, private)
        private_dir(private)
        with locked(private / "work"):
            git.settle()
            yield git

    def _records(self, git: Git) -> Records:
        return Records(git, workspace_key(self._folder))


def _head(git: Git) -> Head:
    def answer(*arguments: str) -> str:
        try:
            return git.ask(*arguments).decode("utf-8", "replace").strip()
        except GitFailed:
            return ""

    branch = answer("symbolic-ref", "-q", "--short", "HEAD")
    return Head(branch, answer("rev-parse", "-q", "--verify", "HEAD"))


def _name_in(top: Path, path: Path) -> bytes:
    """Return a file's name in the work tree. If the file is a link, the link itself is meant."""
    real = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118 - as is
    return os.fsencode(os.path.relpath(real, top))


def _names(git: Git, records: Sequence[Record]) -> set[bytes]:
    """Return all names in the snapshots of ``records``."""
    trees = {shot.tree for record in records for shot in (record.before, record.after) if shot}
    answers = (git.own("ls-tree", "-r", "-z", "--name-only", tree) for tree in trees)
    return {name for answer in answers for name in answer.split(b"\0")[:-1] if is_plain(name)}


def _put_back(git: Git, folder: WorkFolder, steps: Mapping[bytes, Change]) -> dict[bytes, str]:
    """Put everything back; return the files that could not be, with the reasons."""
    failed: dict[bytes, str] = {}
    back = [(name, step.old) for name, step in sorted(steps.items()) if step.old is not None]
    ids = [wanted.content for _, wanted in back if wanted.content]
    git.check_contents(ids)
    # First remove what may be in the way of a folder or file that is put back.
    gone = [name for name, step in steps.items() if step.old is None]
    for name in gone:
        with _collecting_errors(name, failed):
            folder.remove(name)
    folder.tidy(gone)
    contents = git.contents(ids)
    for name, wanted in back:
        with _collecting_errors(name, failed):
            if wanted.content:
                folder.write(name, wanted, next(contents))
            else:
                folder.set_permission(name, wanted.permission)
    return failed


@contextmanager
def _collecting_errors(name: bytes, failed: dict[bytes, str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        failed[name] = error.strerror or str(error)
