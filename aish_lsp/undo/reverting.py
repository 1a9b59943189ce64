"""Reverting what commands did, and putting in doubt what somebody else has changed since."""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Final, Literal

from aish_lsp.foundation import opening
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.files import private_dir
from aish_lsp.foundation.ports import EditOpen, EditOutcome
from aish_lsp.foundation.text import escaped, with_line_feeds
from aish_lsp.shell.protected import Row, protected_by
from aish_lsp.undo.folder import NOT_COVERED, FileState, WorkFolder, object_id
from aish_lsp.undo.git import HASHES, Git, GitFailed, NoUndo
from aish_lsp.undo.listing import Listing, Scan, index_of, is_editors_own, is_plain
from aish_lsp.undo.records import Group, Head, Record, Records, ReplacedText, backwards
from aish_lsp.undo.snapshots import FileChange, as_name, as_text, take


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
        links: the gitlinks that were put back into git's index, or removed from it.
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
    links: tuple[bytes, ...] = ()
    asks: bool = False
    earlier: int | None = None
    edits: Sequence[ReplacedText] = ()
    moved: tuple[Head, Head] | None = None


class Reverting:
    """How to revert what the commands of a group did, as far as they changed it.

    If the end of a command was not seen, its changes cannot be told from those of others, so all of
    them are disputed. So are the files that the user saved while a command ran.
    """

    def __init__(self, git: Git, records: Records, group: Group, own: Path) -> None:
        """Plan it; ``own`` is the workspace, which stays even if it is empty."""
        self._git = git
        self._records = records
        self._group = group
        self._last = group[-1][1]
        self._own = os.fsencode(os.path.relpath(os.path.realpath(own), git.top))
        #: What the files were before the group, each with the record that has its content.
        self._old: dict[bytes, FileState | None] = {}
        self._kept_by: dict[bytes, tuple[int, Record]] = {}
        #: What its commands left.
        self._left: dict[bytes, FileState | None] = {}
        self._index: dict[bytes, list[str]] = {}
        #: What somebody else has changed as well.
        self._disputed: set[bytes] = set()
        for number, record in group:
            for text, change in record.changes.items():
                name = as_name(text)
                if record.unseen or self._left.get(name, change.old) != change.old:
                    self._disputed.add(name)
                self._old.setdefault(name, change.old)
                self._kept_by.setdefault(name, (number, record))
                self._left[name] = change.new
            self._disputed.update(map(as_name, record.saved))
            for text, (was, now) in record.index.items():
                first = self._index.get(as_name(text), [was])[0]
                self._index[as_name(text)] = [first, now]

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
        listing, now = self._look()
        index = self._index_now()
        steps = {
            name: FileChange(old, now[name])
            for name, old in self._old.items()
            if old != now[name] and not is_editors_own(name)
        }
        links = {name: pair[0] for name, pair in self._index.items() if pair[0] != index[name]}
        disputed = self._disputed | {name for name in steps if self._is_disputed(name, now[name])}
        disputed |= {name for name in links if index[name] != self._index[name][1]}
        conflicts = frozenset((steps.keys() | links.keys()) & disputed)
        made = {name: row.reason for name, step in steps.items() if (row := _decides(name, step))}
        left = frozenset() if overwrite is None else conflicts - overwrite
        last = self._last
        result = Reverted(self._git.top, last.label, last.group, conflicts=left, made=made)
        if (left and not decided) or (made and may_make is None):
            return replace(result, asks=True)
        made = {name: why for name, why in made.items() if name not in (may_make or ())}
        steps = {name: step for name, step in steps.items() if name not in left | made.keys()}
        links = {name: about for name, about in links.items() if name not in left}
        result = replace(result, made=made, edits=backwards(self._group))
        head, first = head_of(self._git), self._group[0][1].head
        if head not in (first, Head()):
            result = replace(result, moved=(first, head))
        if steps or links or result.edits:
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
                changes={
                    as_text(name): FileChange(one.new, one.old) for name, one in steps.items()
                },
                index={as_text(name): [index[name], about] for name, about in links.items()},
                folders=folders_of(steps, listing.folders),
                edits=list(result.edits),
            )
            return self._do(record, steps, links, listing, result)
        if not left and not made:
            self._records.drop([number for number, _ in self._group])
        return result

    def _do(
        self,
        record: Record,
        steps: Mapping[bytes, FileChange],
        links: Mapping[bytes, str],
        listing: Listing,
        told: Reverted,
    ) -> Reverted:
        """Record an undo, and do it; return ``told`` with what was done."""
        records = self._records
        number = records.next_number()
        # What is overwritten is recorded first.
        record = replace(record, contents=records.keep(number, self._current(steps)))
        records.write(number, record)
        failed, aside = self._put_back(number, steps, listing)
        failed |= self._put_back_links(links)
        if failed:
            changes = {as_text(name) for name in failed}
            done = {text: one for text, one in record.changes.items() if text not in changes}
            records.write(number, replace(record, changes=done))
        records.drop_old()
        back = {name: step for name, step in sorted(steps.items()) if name not in failed}
        return replace(
            told,
            restored=tuple(name for name, step in back.items() if step.old is not None),
            removed=tuple(
                name for name, step in back.items() if step.old is None and not is_folder(step.new)
            ),
            failed=failed,
            aside=tuple(aside),
            links=tuple(sorted(links.keys() - failed.keys())),
        )

    def _look(self) -> tuple[Listing, dict[bytes, FileState | None]]:
        """Return the listing of what may be reverted, and the states of all of that."""
        scan = Scan(self._git.top)
        names = set()
        for name, old in self._old.items():
            if is_git(name, FileChange(old, self._left[name])):
                scan.look_for_git(name)
            else:
                names.add(name)
        listing = scan.listing(names)
        now = take(WorkFolder(self._git.top), listing, self._last.hash, check=self._git.check)
        states: dict[bytes, FileState | None] = {}
        for name in self._old:
            row = now.files.get(name)
            states[name] = row.state if row else now.gits.get(name)
            if states[name] is None and name in now.uncovered:
                states[name] = NOT_COVERED
        return listing, states

    def _index_now(self) -> dict[bytes, str]:
        """Return what the index holds now under the names of the plan."""
        if not self._index:
            return {}
        try:
            index = index_of(self._git)
        except GitFailed:
            index = {}
        return {name: index.get(name, "") for name in self._index}

    def _is_disputed(self, name: bytes, now: FileState | None) -> bool:
        """Return whether somebody else has changed it since."""
        if now != self._left[name] or now == NOT_COVERED:
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

    def _current(self, steps: Mapping[bytes, FileChange]) -> Iterator[tuple[str, bytes]]:
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
        self, number: int, steps: Mapping[bytes, FileChange], listing: Listing
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
                    aside_path = private_dir(self._records.path(number, "aside")) / _key(name)
                    aside.append(folder.put_aside(name, aside_path))
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
            source = next((place for place in places if os.path.lexists(place)), None)
            if source is None:
                raise OSError("A folder of git's cannot be put back")
            folder.take_back(name, source)
        elif now is not None and _is_alike(old, now):
            folder.set_permission(name, stat.S_IMODE(old.mode))
        else:
            folder.write(name, old, self._records.content(*self._kept_by[name], old.content))

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


def _is_alike(old: FileState, now: FileState) -> bool:
    """Return whether only the permissions differ."""
    return stat.S_IFMT(old.mode) == stat.S_IFMT(now.mode) and old.content == now.content


def is_git(name: bytes, change: FileChange) -> bool:
    """Return whether a change is one of a repository rather than of a file."""
    return not is_plain(name) or is_folder(change.old) or is_folder(change.new)


def folders_of(changes: Iterable[bytes], folders: Mapping[bytes, int]) -> dict[str, int]:
    """Return the permissions of the folders that ``changes`` are in."""
    above = {name[:at] for name in changes for at, char in enumerate(name) if char == ord("/")}
    return {as_text(name): folders[name] for name in above if name in folders}


def head_of(git: Git) -> Head:
    """Return where HEAD is."""

    def answer(*arguments: str) -> str:
        try:
            return git.ask(*arguments).decode("utf-8", "replace").strip()
        except GitFailed:
            return ""

    branch = answer("symbolic-ref", "-q", "--short", "HEAD")
    return Head(branch, answer("rev-parse", "-q", "--verify", "HEAD"))


def _decides(name: bytes, step: FileChange) -> Row | None:
    """Return the row of the table that says what a new file decides; None for all others."""
    if step.new is not None or step.old is None or is_git(name, step):
        return None
    return protected_by(os.fsdecode(name))


def _key(name: bytes) -> str:
    """Return under which name something is put aside."""
    return f"{object_id('sha1', name)[:12]}-{os.fsdecode(name.rpartition(b'/')[2])}"


@contextmanager
def _collecting_errors(name: bytes, failed: dict[bytes, str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        failed[name] = error.strerror or str(error)
    except NoUndo as error:
        failed[name] = str(error)


_BOM: Final = "\ufeff"

#: The largest file that is changed on disk, in bytes.
_LARGEST: Final = 16 << 20


async def make(
    edits: Iterable[ReplacedText], top: Path, edit_open: EditOpen
) -> dict[bytes, EditOutcome]:
    """Make edits in the work tree ``top``; return for each file how that ended.

    A file that is no longer open is changed on disk if it has the text that the editor had.
    """
    made: dict[bytes, EditOutcome] = {}
    for edit in edits:
        path = top / os.fsdecode(as_name(edit.name))
        edited = EditOutcome("refused")
        if await asyncio.to_thread(os.path.realpath, path.parent) == str(path.parent):
            edited = await edit_open(path, edit.old, edit.new)
            if edited.state == "on disk" and not await asyncio.to_thread(_rewrite, top, edit):
                edited = EditOutcome("refused")
        name = as_name(edit.name)
        if name not in made or made[name].state != "refused":
            made[name] = edited
    return made


def _rewrite(top: Path, edit: ReplacedText) -> bool:
    """Write to a file that holds the old text; False if it does not, or cannot be written."""
    name = os.fsdecode(as_name(edit.name))
    try:
        with opening.opened(top, name) as file:
            text = file.read(_LARGEST).decode("utf-8")
            bare = text.removeprefix(_BOM)
            if file.name != name or with_line_feeds(bare) != edit.old:
                return False
            new = edit.new.replace("\n", "\r\n") if "\r\n" in text else edit.new
            data = (_BOM + new if text != bare else new).encode()
            opening.replace_file(top, name, data, file.status)
    except (OSError, ValueError):
        return False
    return True
