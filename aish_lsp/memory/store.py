"""The store: one memory.jsonl, append-only, shared by any number of processes.

Every append takes the file's exclusive lock, reads what others have appended since, numbers its
line, and returns once the line is on disk. All methods block.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import Busy, NotFound, StoreUnavailable
from aish_lsp.foundation.files import (
    FileStamp,
    append_line,
    aside_of,
    open_append,
    open_to_read,
    stamp_of,
    store_errors,
    write_atomic,
)
from aish_lsp.foundation.jsonl import iter_jsonl, json_line, now
from aish_lsp.foundation.locks import locked
from aish_lsp.memory.items import (
    MAX_ID,
    VERSION,
    Contents,
    Kind,
    MemoryItem,
    Scope,
    check_content,
    check_labels,
    item_fields,
    normalized,
    remove_leftovers,
    tombstone,
    without_forgotten,
)


@dataclass(frozen=True, slots=True)
class AddedItem:
    """The item's id; ``duplicate`` is set if an item that says the same already existed."""

    id: int
    duplicate: bool


#: From this size on, in bytes, the garbage collector is kept from what is read.
_MUCH: Final = 1 << 20


class MemoryStore:
    """The items of one scope.

    Nothing is read before it is needed; ``items`` shows the file as of the last ``refresh`` or our
    own last change. Methods may be called from any thread.
    """

    def __init__(self, path: Path, scope: Scope = "workspace") -> None:
        self.path = path
        self.scope: Scope = scope
        self._mutex = threading.RLock()
        self._contents = Contents(path, scope)
        self._stamp: FileStamp | None = None
        # How much of the file was read: its bytes, their checksum, and its lines.
        self._end = self._checksum = self._lines = 0
        # The offset of a last line that was never finished.
        self._torn_at: int | None = None
        # Never lowered, not even by a file that was cut short by hand: no id is given twice.
        self._highest = 0
        self._events: dict[str, None] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know: lines put aside since the start, and bad lines in the file."""
        return (*self._events, *self._contents.notices)

    def items(self) -> tuple[MemoryItem, ...]:
        """Return the items that are not forgotten, the newest first (by ``ts``, then id).

        Raises:
            StoreUnavailable: at the first call, as ``refresh``.
        """
        if self._stamp is None:
            self.refresh()
        with self._mutex:
            return self._contents.items()

    def __contains__(self, item_id: int) -> bool:
        """Return whether there was an item of that id at the last ``refresh``."""
        with self._mutex:
            return item_id in self._contents

    def records(self) -> list[dict[str, Any]]:
        """Return the lines of the items that are not forgotten now, in the file's order.

        Raises:
            StoreUnavailable: as ``refresh``.
        """
        self.refresh()
        with self._mutex:
            return self._contents.records()

    def refresh(self) -> bool:
        """Read what others have done to the file; return whether it has changed.

        If it has not, this costs a stat. A torn last line is put aside.

        Raises:
            StoreUnavailable: the file cannot be read, or is from a newer version.
        """
        with self._reading() as fd:
            if fd is None:
                changed = self._stamp is not None
                self._start_over()
                return changed
            changed = self._catch_up(fd)
        if changed and self._torn_at is not None:
            self._try_to_repair()
        return changed

    def add(
        self,
        kind: Kind,
        content: str,
        *,
        tags: Sequence[str] = (),
        source: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> AddedItem:
        """Remember ``content``; return once it is on disk.

        If an item already says the same (apart from case, white space and end punctuation), nothing
        is added and that item's id is returned.

        Args:
            kind: what it is.
            content: the text, kept as it is.
            tags: words to find it by.
            source: who added it and from which session: ``{"session", "how"}``.
            force: add it even if it looks like a secret.

        Raises:
            InvalidArgument: a bad kind or tag, empty content, or what looks like a secret.
            Busy: another process held the lock for too long.
            StoreUnavailable: it could not be written; nothing was added.
        """
        check_labels(kind, tags)
        check_content(content, force=force)
        (added,) = self.add_all([item_fields(kind, content, tags, source)])
        return added

    def add_all(self, records: Sequence[Mapping[str, Any]]) -> list[AddedItem]:
        """Remember several items at once: all or none, with one write.

        Args:
            records: lines without an id, from ``item_fields``, checked; they may have a ``ts``.

        Raises:
            Busy, StoreUnavailable: as ``add``.
        """
        texts = [normalized(record["content"]) for record in records]
        with self._writing() as fd:
            fresh: dict[str, Mapping[str, Any]] = {}
            ids: dict[str, int] = {}
            for text, record in zip(texts, records, strict=True):
                same = self._contents.same(record["content"])
                if same is None:
                    fresh.setdefault(text, record)
                else:
                    ids[text] = same
            if fresh:
                ids.update(zip(fresh, self._append(fd, *fresh.values()), strict=True))
            else:
                # The process that wrote them may have died before it synced them.
                with store_errors(self.path, "write to"):
                    os.fsync(fd)
        return [
            AddedItem(ids[text], duplicate=fresh.get(text) is not record)
            for text, record in zip(texts, records, strict=True)
        ]

    def forget(self, item_id: int) -> bool:
        """Hide an item for good with a tombstone; return False if no such item is active.

        Raises:
            Busy, StoreUnavailable: as ``add``.
        """
        with self._writing() as fd:
            if item_id not in self._contents:
                return False
            self._append(fd, tombstone(item_id))
            return True

    def edit(self, item_id: int, content: str) -> int:
        """Replace an item's content; return its new id.

        The new item and the tombstone of the old one are written together. If another item already
        says the same, the old one is forgotten and the other's id is returned.

        Raises:
            InvalidArgument: as ``add``.
            NotFound: no such item is active.
            Busy, StoreUnavailable: as ``add``.
        """
        check_content(content, force=False)
        with self._writing() as fd:
            if item_id not in self._contents:
                msg = f"The memory of this {self.scope} has no item {item_id}."
                raise NotFound(msg)
            item = self._contents[item_id]
            if item.content == content:
                return item_id
            same = self._contents.same(content)
            if same is not None and same != item_id:
                self._append(fd, tombstone(item_id))
                return same
            fields = item_fields(item.kind, content, item.tags, item.source)
            unknown = self._contents.unknown_fields(item_id)
            new_id, _ = self._append(fd, {**fields, **unknown}, tombstone(item_id))
            return new_id

    def clear(self, seen: Iterable[MemoryItem] | None = None) -> int:
        """Forget every item, or those of ``seen`` that have not changed; return how many.

        Raises:
            Busy, StoreUnavailable: as ``add``.
        """
        with self._writing() as fd:
            ids = self._contents.ids()
            if seen is not None:
                by_id = {item.id: item for item in seen}
                ids = [i for i in ids if self._contents[i] == by_id.get(i)]
            if ids:
                self._append(fd, *map(tombstone, ids))
            return len(ids)

    def compact(self) -> int:
        """Rewrite the file without forgotten items; return how many lines were dropped.

        The other lines stay as they are, including bad ones and unknown fields. The header keeps
        the highest id ever given.

        Raises:
            Busy, StoreUnavailable: as ``add``; the file is then as it was.
        """
        with self._writing() as fd:
            remove_leftovers(self.path)
            lines, dropped = without_forgotten(_read(fd, 0), self._contents, self._highest)
            if dropped:
                write_atomic(self.path, b"\n".join([*lines, b""]))
        self.refresh()
        return dropped

    @contextlib.contextmanager
    def _writing(self) -> Iterator[int]:
        """Hold the lock and yield the open file, read to its end and without a torn line."""
        # Read first without the lock, so that it is held only briefly: a large file takes a while.
        with self._reading() as readable:
            if readable is not None:
                self._catch_up(readable)
        # In this order, so that a reader does not wait while another process has the lock.
        with locked(self.path), self._mutex:
            fd = open_append(self.path)
            try:
                with store_errors(self.path, "read"):
                    self._catch_up(fd)
                if self._torn_at is not None:
                    self._put_aside(fd, self._torn_at)
                yield fd
            finally:
                os.close(fd)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[int | None]:
        """Open the file to read it, without the lock; yield None if there is no file."""
        with self._mutex, store_errors(self.path, "read"):
            try:
                fd = open_to_read(self.path)
            except FileNotFoundError:
                yield None
                return
            try:
                yield fd
            finally:
                os.close(fd)

    def _append(self, fd: int, *lines: Mapping[str, Any]) -> list[int]:
        """Number the lines and write them in one go; return their ids. The lock is held."""
        ts = now()
        first = self._highest + 1
        if first + len(lines) - 1 > MAX_ID:
            msg = f"{self.path} has no ids left. Export it, and import it into a new file."
            raise StoreUnavailable(msg, path=str(self.path))
        ids = list(range(first, first + len(lines)))
        records = [
            {"id": item_id, "ts": ts, **fields} for item_id, fields in zip(ids, lines, strict=True)
        ]
        header = {"meta": {"version": VERSION, "created": ts}}
        written = records if os.fstat(fd).st_size else [header, *records]
        append_line(fd, self.path, "\n".join(map(json_line, written)), sync=True)
        with store_errors(self.path, "read"):
            # Read back what was just written, so that there is one way into the contents.
            self._take(fd)
        return ids

    def _catch_up(self, fd: int) -> bool:
        """Read what has changed since the last read; return whether anything has.

        If the file has only grown, only its new lines are parsed: parsing 100,000 items again for
        each line of another process would take longer than the lock may be held.
        """
        if stamp_of(os.fstat(fd)) == self._stamp:
            return False
        before = os.pread(fd, self._end, 0)
        if zlib.crc32(before) != self._checksum or not before.endswith(b"\n"):
            self._start_over()
        self._take(fd)
        return True

    def _start_over(self) -> None:
        self._contents = Contents(self.path, self.scope)
        self._stamp, self._torn_at = None, None
        self._end = self._checksum = self._lines = 0

    def _take(self, fd: int) -> None:
        """Read what has not been read yet."""
        # The time before the read and the size that was read, so that later additions are noticed.
        device, inode, _, modified = stamp_of(os.fstat(fd))
        data = _read(fd, self._end)
        with _uncollected(len(data)):
            torn = self._contents.take(iter_jsonl(data, self._lines + 1))
        self._torn_at = None if torn is None else self._end + torn.offset
        self._highest = max(self._highest, self._contents.highest)
        self._end += len(data)
        self._checksum = zlib.crc32(data, self._checksum)
        self._lines += data.count(b"\n")
        self._stamp = (device, inode, self._end, modified)

    def _try_to_repair(self) -> None:
        """Put a torn last line aside, if it is still torn once the lock is held."""
        try:
            with self._writing():
                pass
        except Busy:
            pass  # Another process is writing, perhaps that very line.
        except StoreUnavailable as error:
            self._notice(f"The last line of {self.path} was never finished. {error.message}")

    def _put_aside(self, fd: int, torn_at: int) -> None:
        """Move a torn last line into a file of its own. The lock is held."""
        aside = aside_of(self.path, "torn")
        with store_errors(self.path, "mend"):
            write_atomic(aside, _read(fd, torn_at))
            os.ftruncate(fd, torn_at)
            os.fsync(fd)
            self._start_over()
            self._take(fd)
        self._notice(
            f"The last line of {self.path} was never finished, as after a crash."
            f" It was put aside as {aside.name}."
        )

    def _notice(self, text: str) -> None:
        self._events[text] = None


@contextlib.contextmanager
def _uncollected(size: int) -> Iterator[None]:
    """Keep the garbage collector from what is made of ``size`` bytes, where that is much.

    A fifth of the time to read 100,000 items would go into looking for garbage in them.
    """
    if size < _MUCH or not gc.isenabled():
        yield
        return
    gc.collect()  # What is garbage now would be kept for ever below.
    gc.disable()
    try:
        yield
    finally:
        # Else all of it would be looked at once now, and again with all that is old.
        gc.freeze()
        gc.enable()


def _read(fd: int, start: int) -> bytes:
    """Return a file's bytes from ``start`` to its end."""
    pieces = []
    while piece := os.pread(fd, 1 << 20, start):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
