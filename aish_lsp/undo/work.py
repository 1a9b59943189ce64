"""What undo does in a work tree: before a command, after it, and to revert it.

Everything here blocks, and only one task runs at a time, since it locks our folder.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.files import locked, private_dir
from aish_lsp.foundation.text import escaped
from aish_lsp.shell.protected import Row, protected_by
from aish_lsp.undo.git import (
    HASHES,
    Git,
    GitFailed,
    NoUndo,
    Nowhere,
    TooSlow,
    drop_old_refs,
    work_tree,
)
from aish_lsp.undo.listing import (
    Listing,
    Scan,
    index_of,
    is_editors_own,
    is_plain,
    left_out,
    list_work_tree,
)
from aish_lsp.undo.records import (
    Edit,
    Group,
    Head,
    Record,
    Records,
    backwards,
    kept,
    remove,
    undo_folder,
)
from aish_lsp.undo.snapshots import (
    NOT_COVERED,
    Change,
    FileState,
    Snapshot,
    WorkFolder,
    as_name,
    as_text,
    difference,
    object_id,
    take,
)

logger = logging.getLogger(__name__)

#: Commands that may take a file and what git has of it at once. Where git's objects cannot be
#: linked to (they are on another disk), all files are copied before one.
_DESTROYS: Final = re.compile(
    r"\.git\b|\b(gc|prune|repack|reflog|maintenance|filter-\w+)\b|\brm\b.*\s-\w*[rR]"
)
#: What earlier versions had in our folder.
_OLD_FILES: Final = ("HEAD", "config", "index", "info", "refs", "objects")

_NOTHING: Final = {
    "undo": "There is nothing to undo: no command has changed a file here.",
    "redo": "There is nothing to redo: nothing was undone in this session, or a command ran since.",
}


@dataclass(slots=True)
class Plan:
    """How to revert what the commands of a group did.

    ``old`` is what the files were before the group, and ``last`` what its commands left, as far as
    they changed them. ``disputed`` are the names that somebody else has changed as well.
    """

    old: dict[bytes, FileState | None] = field(default_factory=dict)
    last: dict[bytes, FileState | None] = field(default_factory=dict)
    disputed: set[bytes] = field(default_factory=set)
    #: The numbers of the records that have the contents of ``old``.
    kept_by: dict[bytes, int] = field(default_factory=dict)
    index: dict[bytes, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, group: Group) -> Plan:
        """Return the plan for a group.

        If the end of a command was not seen, its changes cannot be told from those of others, so
        all of them are disputed. So are the files that the user saved while a command ran.
        """
        plan = cls()
        for number, record in group:
            for text, change in record.changes.items():
                name = as_name(text)
                if record.unseen or plan.last.get(name, change.old) != change.old:
                    plan.disputed.add(name)
                if name not in plan.old:
                    plan.old[name] = change.old
                    plan.kept_by[name] = number
                plan.last[name] = change.new
            plan.disputed.update(map(as_name, record.saved))
            for text, (was, now) in record.index.items():
                first = plan.index.get(as_name(text), [was])[0]
                plan.index[as_name(text)] = [first, now]
        return plan


@dataclass(slots=True, weakref_slot=True)
class Begun:
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


@dataclass(frozen=True, slots=True)
class Reverted:
    """What an undo did; names are relative to the work tree ``top``.

    Attributes:
        label: the command that was undone or redone.
        group: the command's group.
        restored, removed: the files that were put back, and those that were removed again.
        conflicts: the files that were left, since somebody else has changed them.
        made: files that decide what runs later and that would be made anew, with the reasons.
        failed: the files that could not be put back, with the reasons.
        aside: where the repositories are now that were put aside.
        asks: nothing was done, since the user must first decide about the conflicts or ``made``.
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
    made: Mapping[bytes, str] = field(default_factory=dict)
    failed: Mapping[bytes, str] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    asks: bool = False
    earlier: int | None = None
    edits: Sequence[Edit] = ()
    moved: tuple[Head, Head] | None = None


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

    def begin(self, group: str, label: str, session: str = "", text: str = "") -> Begun:
        """Record the work tree before a command, ``text``, that is run in ``session``.

        Raises:
            NoUndo, AishError, OSError: it cannot be recorded.
        """
        git = self._git()
        with self._records(git) as records:
            with ThreadPoolExecutor(1) as executor:
                head = executor.submit(_head, git)
                self._settle(records)
                listing = list_work_tree(git)
                record = Record(group, label, session, str(git.top), git.kind, head.result())
            number = records.next_number()
            try:
                before = _before(git, records, listing, number, text)
                records.write_snapshot(records.path(number, "before"), before)
                records.write(number, record)
                begun = Begun(number, record, before)
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
        begun: Begun,
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
        edits = [Edit(_name_in(top, path), old, new) for path, old, new in edited]
        edits = [edit for edit in edits if is_plain(edit.name)]
        record = replace(begun.record, saved=sorted(names))
        with self._records() as records:
            ended = self._end(records, begun.number, record, begun.before, edits)
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

        Raises:
            NotFound: there is nothing to revert.
            NoUndo, AishError, OSError: it cannot be done. Another undo restores what was
                overwritten by then.
        """
        with self._records() as records:
            self._settle(records)
            group = records.next_group(kind, session)
            if not group:
                self._drop_old_form(records, self._git())
                raise NotFound(_NOTHING[kind])
            _, last = group[-1]
            top = Path(last.top)
            if last.session != session and earlier not in ("*", last.group):
                seconds = last.begun // 1_000_000_000
                return Reverted(top, last.label, last.group, earlier=seconds)
            if not top.is_dir():
                raise Nowhere("the folder is gone")
            reverting = _Reverting(self._make_git(top), records, group, self._folder)
            return reverting.revert(overwrite, made, kind, session, decided=decided)

    def _git(self) -> Git:
        git = self._make_git(work_tree(self._folder))
        git.inspect()
        return git

    @contextmanager
    def _records(self, git: Git | None = None) -> Iterator[Records]:
        place = private_dir(undo_folder(self._folder))
        with locked(place / "work"):
            records = Records(self._folder, place)
            if git is not None:
                self._drop_old_form(records, git)
            try:
                yield records
            finally:
                if records.dropped:
                    self.notices.append(
                        f"{records.dropped} of undo's records were damaged or not of this folder,"
                        " and were dropped."
                    )

    def _drop_old_form(self, records: Records, git: Git) -> None:
        """Drop the records of earlier versions, which were refs of the repository, once."""
        if not records.is_new():
            return
        if drop_old_refs(git):
            self.notices.append("Undo's records of an earlier version were dropped.")
        for name in _OLD_FILES:
            remove(records.place / name)

    def _settle(self, records: Records) -> None:
        """End the records of commands whose end was not seen."""
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
                    self._end(records, number, replace(record, unseen=True), before, [])
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
        edits: Sequence[Edit],
    ) -> Ended:
        """Record the work tree after a command; drop a command that did nothing."""
        git = self._make_git(Path(record.top))
        place = records.path(number, "git")
        listing = _after(git, before, place)
        after = take(WorkFolder(git.top), listing, before.kind, last=before, check=git.check)
        changes = difference(before, after)
        top = os.fsencode(git.top) + b"/"
        gone = [name for name in before.uncovered if not os.path.lexists(top + name)]
        for name, change in list(changes.items()):
            if is_folder(change.old):
                # A repository is not copied. What has replaced it can be put aside, though.
                gone.append(name)
                del changes[name]
                if is_folder(change.new):
                    changes[name] = Change(None, change.new)
        index = _gitlinks(before, after)
        contents: dict[str, bytes] = {}
        texts = kept(before.kind, edits, contents)
        gits = {name for name, change in changes.items() if _is_git(name, change)}
        ended = Ended(sorted(gone), [], _linked(changes, listing), sorted(gits | index.keys()))
        if changes or index or texts:
            wanted = {change.old.content for change in changes.values() if change.old}
            pooled = {one for one in wanted if one in records.pool}
            borrowed = _contents(git, sorted(wanted - pooled), place if place.exists() else None)
            places = records.keep(
                number, [*contents.items()], ((one, None) for one in pooled), borrowed
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
                folders=_folders(changes, before.folders),
                edits=texts,
                contents=places,
            )
            records.write(number, finished)
            records.settled(number)
        else:
            records.drop([number])
        records.write_last(after)
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
    last = records.last_snapshot()
    before = take(folder, listing, git.kind, last=last, keep=keep, check=git.check)
    borrowed = {
        row.content for name, row in before.files.items() if index.get(name, "")[7:] == row.content
    }
    borrowed -= git.missing(borrowed)
    place = records.path(number, "git")
    try:
        git.borrow(place, borrowed)
    except OSError:
        remove(place)
        if _DESTROYS.search(text):
            borrowed = set()
    missing = [
        name
        for name, row in before.files.items()
        if row.content not in borrowed and row.content not in pool
    ]
    for name, row, content in folder.read(missing, git.kind):
        git.check()
        if row is not None:
            before.files[name] = row
            pool.add(row.content, content)
    if not records.unfinished():
        needed = {row.content for row in before.files.values()} - borrowed
        pool.keep_only(needed | {one.content for one in before.gits.values()})
    return before


def _after(git: Git, before: Snapshot, place: Path) -> Listing:
    """Return the listing after a command.

    If the repository is gone, git lists the files with what was borrowed at ``place`` instead;
    without that, only those that were there are known.
    """
    if os.path.lexists(git.top / ".git"):
        with suppress(GitFailed):
            return list_work_tree(git, before.files, before.repositories)
    if place.exists():
        git.instead = place
        listing = list_work_tree(git, before.files, before.repositories)
        return replace(listing, index=before.index)
    scan = Scan(git.top)
    for name in before.gits:
        scan.look_for_git(name)
    return scan.listing(before.files, before.uncovered, before.repositories, before.index)


def _contents(
    git: Git, ids: Sequence[str], place: Path | None
) -> Iterator[tuple[str, bytes | None]]:
    """Yield contents with their ids; None for those that are gone."""
    given = 0
    try:
        for one, content in zip(ids, git.contents(ids, place) if ids else (), strict=True):
            yield one, content
            given += 1
    except TooSlow:
        raise
    except NoUndo:
        # The repository is gone.
        yield from ((one, None) for one in ids[given:])


def _gitlinks(before: Snapshot, after: Snapshot) -> dict[bytes, list[str]]:
    """Return what the index held before and after, by name, where either is a gitlink."""
    names = {
        name
        for snapshot in (before, after)
        for name, about in snapshot.index.items()
        if about.startswith("160000") and not left_out(name, before.repositories)
    }
    pairs = {name: [before.index.get(name, ""), after.index.get(name, "")] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1] and is_plain(name)}


def _linked(changes: Mapping[bytes, Change], listing: Listing) -> list[bytes]:
    """Return the files that were changed under all of their names, and have some elsewhere."""
    names = {
        name: found
        for name, change in changes.items()
        if change.old
        and change.new
        and change.old.inode == change.new.inode
        and (found := listing.files.get(name))
        and found.st_nlink > 1
    }
    counts = Counter(found.st_ino for found in listing.files.values()) if names else Counter()
    return sorted(name for name, found in names.items() if found.st_nlink > counts[found.st_ino])


def _is_git(name: bytes, change: Change) -> bool:
    """Return whether a change is one of a repository rather than of a file."""
    return not is_plain(name) or is_folder(change.old) or is_folder(change.new)


def _folders(changes: Iterable[bytes], folders: Mapping[bytes, int]) -> dict[str, int]:
    """Return the permissions of the folders that ``changes`` are in."""
    above = {name[:at] for name in changes for at, char in enumerate(name) if char == ord("/")}
    return {as_text(name): folders[name] for name in above if name in folders}


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


class _Reverting:
    """An undo or redo of a group in progress."""

    def __init__(self, git: Git, records: Records, group: Group, own: Path) -> None:
        self._git = git
        self._records = records
        self._group = group
        self._plan = Plan.of(group)
        self._last = group[-1][1]
        self._own = os.fsencode(os.path.relpath(os.path.realpath(own), git.top))

    def revert(
        self,
        overwrite: frozenset[bytes] | None,
        may_make: frozenset[bytes] | None,
        kind: Literal["undo", "redo"],
        session: str,
        *,
        decided: bool,
    ) -> Reverted:
        """Do it; see ``Worker.revert``."""
        git, records, last, plan = self._git, self._records, self._last, self._plan
        listing, now = self._look()
        index = self._index()
        steps = {
            name: Change(old, now[name])
            for name, old in plan.old.items()
            if old != now[name] and not is_editors_own(name)
        }
        disputed = plan.disputed | {name for name in steps if self._is_disputed(name, now[name])}
        disputed |= {name for name, about in index.items() if about != plan.index[name][1]}
        links = {name: pair[0] for name, pair in plan.index.items() if pair[0] != index[name]}
        conflicts = frozenset((steps.keys() | links.keys()) & disputed)
        made = {name: row.reason for name, step in steps.items() if (row := _decides(name, step))}
        left = frozenset() if overwrite is None else conflicts - overwrite
        told = Reverted(git.top, last.label, last.group, conflicts=left)
        if (left and not decided) or (made and may_make is None):
            return replace(told, made=made, asks=True)
        made = {name: why for name, why in made.items() if name not in (may_make or ())}
        steps = {name: step for name, step in steps.items() if name not in left | made.keys()}
        links = {name: about for name, about in links.items() if name not in left}
        every = [edit for number, record in self._group for edit in records.edits(number, record)]
        head = _head(git)
        failed: dict[bytes, str] = {}
        aside: list[str] = []
        if steps or links or every:
            contents: dict[str, bytes] = {}
            record = Record(
                f"{kind}-{secrets.token_hex(4)}",
                last.label,
                session,
                last.top,
                last.hash,
                head,
                kind=kind,
                of=last.group,
                ended=time.time_ns(),
                changes={as_text(name): Change(one.new, one.old) for name, one in steps.items()},
                index={as_text(name): [index[name], about] for name, about in links.items()},
                folders=_folders(steps, listing.folders),
                edits=kept(last.hash, backwards(every), contents),
            )
            number = records.next_number()
            record = replace(
                record, contents=records.keep(number, contents.items(), self._current(steps))
            )
            # What is overwritten is recorded first.
            records.write(number, record)
            failed, aside = self._put_back(number, steps, listing)
            failed |= self._put_back_links(links)
            changes = {
                text: one for text, one in record.changes.items() if as_name(text) not in failed
            }
            if failed:
                records.write(number, replace(record, changes=changes))
            records.drop_old()
        elif not left and not made:
            records.drop([number for number, _ in self._group])
        done = sorted(steps.keys() - failed.keys())
        first = self._group[0][1].head
        return replace(
            told,
            restored=tuple(name for name in done if steps[name].old is not None),
            removed=tuple(
                name for name in done if steps[name].old is None and not is_folder(steps[name].new)
            ),
            made=made,
            failed=failed,
            aside=tuple(aside),
            edits=backwards(every),
            moved=None if head in (first, Head()) else (first, head),
        )

    def _look(self) -> tuple[Listing, dict[bytes, FileState | None]]:
        """Return the listing of what may be reverted, and the states of all of that."""
        scan = Scan(self._git.top)
        names = set()
        for name, old in self._plan.old.items():
            if _is_git(name, Change(old, self._plan.last[name])):
                scan.look_for_git(name)
            else:
                names.add(name)
        listing = scan.listing(names)
        now = take(WorkFolder(self._git.top), listing, self._last.hash, check=self._git.check)
        states: dict[bytes, FileState | None] = {}
        for name in self._plan.old:
            row = now.files.get(name)
            states[name] = row.state if row else now.gits.get(name)
            if states[name] is None and name in now.uncovered:
                states[name] = NOT_COVERED
        return listing, states

    def _index(self) -> dict[bytes, str]:
        """Return what the index holds now under the names of the plan."""
        if not self._plan.index:
            return {}
        try:
            found = index_of(self._git)
        except GitFailed:
            found = {}
        return {name: found.get(name, "") for name in self._plan.index}

    def _is_disputed(self, name: bytes, now: FileState | None) -> bool:
        """Return whether somebody else has changed it since."""
        if now != self._plan.last[name] or now == NOT_COVERED:
            return True
        if not is_folder(now):
            return False
        # A repository that was put aside keeps all that is in it; it is asked about all the same.
        git = self._git.top / os.fsdecode(name)
        git = git if git.name == ".git" else git / ".git"
        for part in ("HEAD", "index", "logs/HEAD"):
            with suppress(OSError):
                if (git / part).lstat().st_mtime_ns > self._last.ended:
                    return True
        return False

    def _current(self, steps: Mapping[bytes, Change]) -> Iterator[tuple[str, bytes]]:
        """Yield the contents, with their ids, that will be overwritten or removed."""
        wanted = {
            name: step.new.content
            for name, step in steps.items()
            if step.new is not None and not is_folder(step.new) and step.new != NOT_COVERED
        }
        for name, row, content in WorkFolder(self._git.top).read(wanted, self._last.hash):
            self._git.check()
            if row is not None and row.content == wanted[name]:
                del wanted[name]
                yield row.content, content
        if wanted:
            raise NoUndo(f"{escaped(os.fsdecode(min(wanted)))} is being changed just now")

    def _put_back(
        self, number: int, steps: Mapping[bytes, Change], listing: Listing
    ) -> tuple[dict[bytes, str], list[str]]:
        """Put everything back; return what failed, with the reasons, and what was put aside."""
        permissions: dict[bytes, int] = {}
        for _, record in self._group:
            for text, mode in record.folders.items():
                permissions.setdefault(as_name(text), mode)
        seen = {**listing.files, **listing.gits}
        folder = WorkFolder(self._git.top, seen, permissions, self._own)
        failed: dict[bytes, str] = {}
        aside: list[str] = []
        # First remove what may be in the way of a folder or file that is put back.
        for name, step in sorted(steps.items()):
            with _collecting_errors(name, failed):
                if is_folder(step.new):
                    place = private_dir(self._records.path(number, "aside")) / _key(name)
                    aside.append(folder.put_aside(name, place))
                elif step.new is not None and (step.old is None or is_folder(step.old)):
                    folder.remove(name)
        folder.tidy(name for name, step in steps.items() if step.old is None)
        for name, step in sorted(steps.items()):
            if step.old is not None and name not in failed:
                with _collecting_errors(name, failed):
                    self._put_back_one(folder, name, step.old, step.new)
        return failed, aside

    def _put_back_one(
        self, folder: WorkFolder, name: bytes, old: FileState, now: FileState | None
    ) -> None:
        if is_folder(old):
            places = (self._records.path(number, "aside") / _key(name) for number, _ in self._group)
            place = next((place for place in places if os.path.lexists(place)), None)
            if place is None:
                raise OSError("A folder of git's cannot be put back")
            folder.take_back(name, place)
        elif now is not None and now.content == old.content:
            folder.set_permission(name, stat.S_IMODE(old.mode))
        else:
            number = self._plan.kept_by[name]
            record = next(record for one, record in self._group if one == number)
            folder.write(name, old, self._records.content(number, record, old.content))

    def _put_back_links(self, links: Mapping[bytes, str]) -> dict[bytes, str]:
        """Put gitlinks back into the index, or remove them; return the failures."""
        if not links:
            return {}
        none = "0 " + "0" * HASHES[self._last.hash]
        feed = b"".join(
            (about or none).encode() + b"\t" + name + b"\0" for name, about in links.items()
        )
        try:
            self._git.ask("update-index", "-z", "--index-info", feed=feed)
        except GitFailed as error:
            return dict.fromkeys(links, str(error))
        return {}


def is_folder(state: FileState | None) -> bool:
    """Return whether a state is that of a folder, which is a repository's."""
    return state is not None and stat.S_ISDIR(state.mode)


def _decides(name: bytes, step: Change) -> Row | None:
    """Return the row of the table that says what a new file decides; None for all others."""
    if step.new is not None or step.old is None or _is_git(name, step):
        return None
    return protected_by(os.fsdecode(name))


def _key(name: bytes) -> str:
    return object_id("sha1", name)[:16]


@contextmanager
def _collecting_errors(name: bytes, failed: dict[bytes, str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        failed[name] = error.strerror or str(error)
    except NoUndo as error:
        failed[name] = str(error)
