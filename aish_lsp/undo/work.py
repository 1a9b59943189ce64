"""What undo does in a work tree: before a command, after it, and to revert it.

Everything here blocks, and only one task runs at a time, since it locks our folder.
"""

from __future__ import annotations

import logging
import os
import re
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.files import private_dir
from aish_lsp.foundation.locks import locked
from aish_lsp.undo.folder import WorkFolder
from aish_lsp.undo.git import Git, GitFailed, NoUndo, Nowhere, TooSlow, work_tree
from aish_lsp.undo.listing import Listing, is_editors_own, is_plain, left_out, list_work_tree
from aish_lsp.undo.records import Record, Records, ReplacedText, undo_folder
from aish_lsp.undo.reverting import Reverted, Reverting, folders_of, head_of, is_folder, is_git
from aish_lsp.undo.snapshots import FileChange, Snapshot, as_text, difference, take

logger = logging.getLogger(__name__)

#: Commands that may take a file and what git has of it at once. Where git's objects cannot be
#: linked to (they are on another disk), all files are copied before one.
_DESTROYS: Final = re.compile(
    r"\.git\b|\b(gc|prune|repack|reflog|maintenance|filter-\w+)\b|\brm\b.*\s-\w*[rR]"
)

_NOTHING: Final = {
    "undo": "There is nothing to undo: no command has changed a file here.",
    "redo": "There is nothing to redo: nothing was undone in this session, or a command ran since.",
}
_NOT_LAST: Final = (
    "These changes have already been undone, or others were made after them. `:undo` undoes the"
    " latest ones."
)


@dataclass(slots=True, weakref_slot=True)
class RunningCommand:
    """A running command and the work tree before it.

    Attributes:
        number: the number of its record.
        record: the record.
        before: the work tree.
        close: lets others know that the command no longer runs.
    """

    number: int
    record: Record
    before: Snapshot
    close: Callable[[], object] = lambda: None

    @property
    def top(self) -> Path:
        """The root of the work tree."""
        return Path(self.record.top)


@dataclass(frozen=True, slots=True)
class Ended:
    """What there is to tell of a command that has ended; names are relative to the work tree.

    Attributes:
        gone: files that no snapshot covers, and that are gone now.
        lost: files that it changed, and whose contents git no longer has.
        linked: files that it changed under all of their names, of which some are elsewhere.
        gits: the repositories that it made or changed: their ``.git``, or their gitlinks.
    """

    gone: list[bytes]
    lost: list[bytes]
    linked: list[bytes]
    gits: list[bytes]


#: Creates a Git for a work tree that the caller can stop.
MakeGit: TypeAlias = Callable[[Path], Git]


class Worker:
    """Works for one workspace, whose folder is somewhere in a work tree.

    Attributes:
        notices: what the user should be told about the records.
    """

    def __init__(self, folder: Path, make_git: MakeGit) -> None:
        self._folder = folder
        self._make_git = make_git
        self.notices: list[str] = []

    def look(self) -> None:
        """Check that there can be snapshots.

        Raises:
            NoUndo, AishError: there cannot.
        """
        self._git()
        with self._records():
            pass

    def begin(self, group: str, label: str, session: str = "", text: str = "") -> RunningCommand:
        """Record the work tree before a command, ``text``, that is run in ``session``.

        Raises:
            NoUndo, AishError, OSError: it cannot be recorded.
        """
        git = self._git()
        with self._records() as records:
            with ThreadPoolExecutor(1) as executor:
                head = executor.submit(head_of, git)
                self._settle(records)
                listing = list_work_tree(git)
                record = Record(group, label, session, str(git.top), git.kind, head.result())
            number = records.next_number()
            try:
                before = _before(git, records, listing, number, text)
                records.write_snapshot(records.path(number, "before"), before)
                records.write(number, record)
                begun = RunningCommand(number, record, before)
                lock = records.hold(number)
                assert lock is not None, "nobody else has seen it"
                begun.close = weakref.finalize(begun, os.close, lock)
            except BaseException:
                records.drop([number])
                raise
            return begun

    def last_group(self) -> str:
        """Return the group that was begun last; empty if there is none.

        Raises:
            AishError, OSError: the records cannot be read.
        """
        with self._records() as records:
            group = records.last_group()
            return group[-1][1].group if group else ""

    def forget(self, group: str) -> None:
        """Drop what ``begin`` may have recorded for a command that does not run after all.

        Raises:
            AishError, OSError: the records cannot be read.
        """
        with self._records() as records:
            for number, record in records.last_group()[-1:]:
                if record.group == group and not record.ended:
                    records.drop([number])

    def finish(
        self,
        begun: RunningCommand,
        saved: Iterable[Path] = (),
        edited: Iterable[tuple[Path, str, str]] = (),
    ) -> Ended:
        """Record what a command did.

        ``saved`` are files anywhere that the user saved meanwhile; ``edited`` are files of the work
        tree that the command changed in the editor, each with its text before and after.

        Raises:
            NoUndo, AishError, OSError: it cannot be recorded.
        """
        top = begun.top
        names = {as_text(name) for path in saved if is_plain(name := _name_in(top, path))}
        edits = [
            ReplacedText(as_text(name), old, new)
            for path, old, new in edited
            if is_plain(name := _name_in(top, path))
        ]
        record = replace(begun.record, saved=sorted(names), edits=edits)
        with self._records() as records:
            ended = self._end(records, begun.number, record, begun.before)
            records.drop_old()
            return ended

    def revert(
        self,
        overwrite: frozenset[bytes] | None,
        *,
        decided: bool,
        made: frozenset[bytes] | None = None,
        kind: Literal["undo", "redo"] = "undo",
        session: str = "",
        earlier: str = "",
        named: str = "",
    ) -> Reverted:
        """Revert the last command, or the last undo.

        Args:
            overwrite: the conflicts that are put back anyway; None for all.
            decided: leave the other conflicts alone, instead of doing nothing if there are any.
            made: the files that decide what runs and that may be made anew; None if the user has
                not been asked yet, so that nothing is done if there are any.
            kind: whether to undo a command or to redo it.
            session: the session whose last one is meant.
            earlier: the ``Reverted.group`` of another session's command that may be reverted;
                "*" for any.
            named: the group that must be the one that is reverted, and the last of all sessions;
                empty for whichever is next.

        Raises:
            NotFound: there is nothing to revert, or it is not what was named.
            NoUndo, AishError, OSError: it cannot be done. Another undo restores what was
                overwritten by then.
        """
        with self._records() as records:
            self._settle(records)
            group = records.next_group(kind, session)
            if named and not records.is_last(group, named):
                raise NotFound(_NOT_LAST)
            if not group:
                self._git()  # Where there can be no undo, that is why.
                raise NotFound(_NOTHING[kind])
            _, last = group[-1]
            top = Path(last.top)
            if last.session != session and earlier not in ("*", last.group):
                seconds = last.begun // 1_000_000_000
                return Reverted(top, last.label, last.group, earlier=seconds)
            if not top.is_dir():
                raise Nowhere("the folder is gone")
            reverting = Reverting(self._make_git(top), records, group, self._folder)
            return reverting.revert(overwrite, made, kind, session, decided=decided)

    def _git(self) -> Git:
        git = self._make_git(work_tree(self._folder))
        git.inspect()
        return git

    @contextmanager
    def _records(self) -> Iterator[Records]:
        folder = private_dir(undo_folder(self._folder))
        with locked(folder / "work"):
            records = Records(self._folder, folder)
            try:
                yield records
            finally:
                if records.dropped:
                    self.notices.append(
                        f"{records.dropped} of undo's records were damaged or not of this folder,"
                        " and were dropped."
                    )

    def _settle(self, records: Records) -> None:
        """End the records of commands whose end was not seen."""
        records.drop_unwritten()
        for number in records.unfinished():
            lock = records.hold(number)
            if lock is None:
                continue  # It is running.
            try:
                record = records.read(number)
                before = records.read_snapshot(records.path(number, "before"))
                if record is None:
                    records.drop([number])
                elif record.ended:
                    records.settled(number)
                elif before is None:
                    records.drop([number])
                    records.dropped += 1
                else:
                    self._end(records, number, replace(record, unseen=True), before)
            except TooSlow:
                raise
            except NoUndo as error:
                logger.info("a command's end could not be recorded: %s", error)
            finally:
                os.close(lock)

    def _end(
        self,
        records: Records,
        number: int,
        record: Record,
        before: Snapshot,
    ) -> Ended:
        """Record the work tree after a command; drop a command that did nothing."""
        git = self._make_git(Path(record.top))
        path = records.path(number, "git")
        listing = _after(git, before, path)
        after = take(WorkFolder(git.top), listing, before.kind, last=before, check=git.check)
        changes = difference(before, after)
        top = os.fsencode(git.top) + b"/"
        gone = [
            name
            for name in before.uncovered
            if not is_editors_own(name) and not os.path.lexists(top + name)
        ]
        for name, change in list(changes.items()):
            if is_folder(change.old):
                # A repository is not copied. What has replaced it can be put aside, though.
                gone.append(name)
                del changes[name]
                if is_folder(change.new):
                    changes[name] = FileChange(None, change.new)
        index = _gitlinks(before, after)
        gits = {name for name, change in changes.items() if is_git(name, change)}
        ended = Ended(sorted(gone), [], _linked(changes, listing), sorted(gits | index.keys()))
        if changes or index or record.edits:
            wanted = {change.old.content for change in changes.values() if change.old}
            pooled = {one for one in wanted if one in records.pool}
            borrowed = sorted(wanted - pooled)
            places = records.keep(
                number,
                ((one, None) for one in pooled),
                git.contents(borrowed, path) if borrowed else (),
            )
            ended.lost.extend(
                name
                for name, change in changes.items()
                if change.old and change.old.content in wanted - places.keys()
            )
            finished = replace(
                record,
                ended=time.time_ns(),
                changes={as_text(name): change for name, change in changes.items()},
                index={as_text(name): pair for name, pair in index.items()},
                folders=folders_of(changes, before.folders),
                contents=places,
            )
            records.write(number, finished)
            records.settled(number)
        else:
            records.drop([number])
        records.write_snapshot(records.last, after)
        return ended


def _before(git: Git, records: Records, listing: Listing, number: int, text: str) -> Snapshot:
    """Return the work tree before the command ``text``; see that what it holds stays available.

    What git holds is borrowed while the command runs; all else is copied to the pool.
    """
    pool, index = records.pool, listing.index

    def keep(name: bytes, content_id: str, content: bytes) -> None:
        if index.get(name, "")[7:] != content_id:
            pool.add(content_id, content)

    folder = WorkFolder(git.top)
    last = records.read_snapshot(records.last)
    before = take(folder, listing, git.kind, last=last, keep=keep, check=git.check)
    borrowed: set[str] = set()
    others: list[bytes] = []
    for name, row in before.files.items():
        if index.get(name, "")[7:] == row.content:
            borrowed.add(row.content)
        else:
            others.append(name)
    lost = git.missing(borrowed)
    path = records.path(number, "git")
    if not git.borrow(path, borrowed - lost) and _DESTROYS.search(text):
        lost = set(borrowed)
    if lost:
        borrowed -= lost
        others = list(before.files)
    others = [name for name in others if before.files[name].content not in borrowed]
    missing = [name for name in others if before.files[name].content not in pool]
    for name, found, content in folder.read(missing, git.kind):
        git.check()
        if found is not None:
            before.files[name] = found
            pool.add(found.content, content)
    if not records.unfinished():
        needed = {before.files[name].content for name in others}
        pool.keep_only(needed | {one.content for one in before.gits.values()})
    return before


def _after(git: Git, before: Snapshot, place: Path) -> Listing:
    """Return the listing after a command.

    If the repository is gone, git lists the files with what was borrowed at ``place`` instead.
    """
    if os.path.lexists(git.top / ".git"):
        with suppress(GitFailed):
            return list_work_tree(git, before.files, before.repositories)
    git.instead = place
    return replace(list_work_tree(git, before.files, before.repositories), index=before.index)


def _gitlinks(before: Snapshot, after: Snapshot) -> dict[bytes, list[str]]:
    """Return what the index held before and after, by name, where either is a gitlink."""
    if before.index == after.index:
        return {}
    names = {
        name
        for snapshot in (before, after)
        for name, about in snapshot.index.items()
        if about.startswith("160000") and not left_out(name, before.repositories)
    }
    pairs = {name: [before.index.get(name, ""), after.index.get(name, "")] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1] and is_plain(name)}


def _linked(changes: Mapping[bytes, FileChange], listing: Listing) -> list[bytes]:
    """Return the files that were changed under all of their names, and have some elsewhere."""
    names = {
        name: entry
        for name, change in changes.items()
        if change.old
        and change.new
        and change.old.inode == change.new.inode
        and (entry := listing.files.get(name))
        and entry.st_nlink > 1
    }
    counts = Counter(found.st_ino for found in listing.files.values()) if names else Counter()
    return sorted(name for name, found in names.items() if found.st_nlink > counts[found.st_ino])


def _name_in(top: Path, path: Path) -> bytes:
    """Return a file's name in the work tree. If the file is a link, the link itself is meant."""
    real = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118 - as is
    return os.fsencode(os.path.relpath(real, top))
