"""What is remembered: items, their kinds, and when two items say the same.

The lines of a memory.jsonl make up the items, except those that tombstones hide. A compaction drops
the lines that no longer matter.
"""

from __future__ import annotations

import codecs
import contextlib
import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from aish_lsp.foundation.errors import InvalidArgument, StoreUnavailable
from aish_lsp.foundation.jsonl import BadLine, Flaws, TornLine, iter_jsonl, json_line
from aish_lsp.foundation.redaction import find_secret

Kind: TypeAlias = Literal["fact", "pref", "context"]
Scope: TypeAlias = Literal["workspace", "user"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

_END_PUNCTUATION: Final = ".,;:!?…。、！？ "  # noqa: RUF001 - those of Chinese and Japanese too


class MemoryItem(NamedTuple):
    """One item (aish-phase4-memory, section 4). A tuple, since 100,000 of them are made quickly.

    ``id`` is unique within its scope. ``ts`` is UTC, in the form of ``jsonl.TIMESTAMP``. ``source``
    says who added it, and from which session.
    """

    id: int
    ts: str
    kind: Kind
    content: str
    tags: tuple[str, ...] = ()
    source: Mapping[str, Any] | None = None
    scope: Scope = "workspace"


#: The key that sorts items from the oldest to the newest.
NEWEST_LAST: Final = attrgetter("ts", "id")


def normalized(content: str) -> str:
    """Return ``content`` without case, spacing and end punctuation, to compare what it says."""
    text = " ".join(content.split()).casefold()
    return text.rstrip(_END_PUNCTUATION) or text


def item_fields(
    kind: Kind, content: str, tags: Sequence[str], source: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return an item's line without its id and time; empty fields are left out."""
    fields: dict[str, Any] = {"kind": kind, "content": content}
    if tags:
        fields["tags"] = list(tags)
    if source is not None:
        fields["source"] = dict(source)
    return fields


def tombstone(item_id: int) -> dict[str, Any]:
    """Return the line, without its id and time, that hides an item."""
    return {"kind": "forget", "target": item_id}


def check_labels(kind: str, tags: Sequence[str]) -> None:
    """Raise InvalidArgument for an unknown kind, or a tag that is empty or not a string."""
    if kind not in KINDS:
        msg = f"A memory's kind is one of {', '.join(KINDS)}, not {kind!r}."
        raise InvalidArgument(msg, path="kind")
    if not all(isinstance(tag, str) and tag.strip() for tag in tags):
        raise InvalidArgument("A tag cannot be empty.", path="tags")


def check_content(content: str, *, force: bool) -> None:
    """Raise InvalidArgument if ``content`` is empty, not proper text, or looks like a secret."""
    if not isinstance(content, str) or not content.strip():
        raise InvalidArgument("There is nothing to remember: the text is empty.", path="content")
    try:
        content.encode()
    except UnicodeEncodeError:
        msg = "The text contains half of a surrogate pair, which is not a character."
        raise InvalidArgument(msg, path="content") from None
    secret = None if force else find_secret(content)
    if secret is not None:
        msg = (
            f"This looks like it holds {secret}. What is remembered is kept in a plain file"
            " and sent to the model. Leave the secret out, or use force."
        )
        raise InvalidArgument(msg, path="content")


#: The format that is written here, and the newest that is understood.
VERSION: Final = 1

#: The largest id: not all JSON parsers are exact beyond it.
MAX_ID: Final = 2**53 - 1

_KNOWN: Final = frozenset({"id", "ts", "kind", "content", "tags", "source"})
#: How many of them are in each item.
_ALWAYS: Final = 4


class Contents:
    """What one file holds, as far as it has been read.

    Attributes:
        highest: the highest id ever given; 0 if none was.
    """

    def __init__(self, path: Path, scope: Scope) -> None:
        self._path = path
        self._scope = scope
        # Of each line only the item and unknown fields are kept: 100,000 dicts would cost more than
        # parsing them.
        self._items: dict[int, MemoryItem] = {}
        self._unknown: dict[int, dict[str, Any]] = {}
        # The targets of all tombstones, known or not: a target may come after its tombstone.
        self._forgotten: set[int] = set()
        # The first item of each text, as ``normalized``; made when it is first needed. A forgotten
        # item stays in it until its text is asked for.
        self._by_text: dict[str, int] | None = None
        self._sorted: tuple[MemoryItem, ...] | None = None
        self.highest = 0
        self._flaws = Flaws(path, "The line is skipped; it stays in the file.")

    @property
    def notices(self) -> list[str]:
        """What is wrong with the file, in a sentence each."""
        return self._flaws.messages()

    def take(
        self, lines: Iterable[tuple[int, dict[str, Any] | BadLine | TornLine]]
    ) -> TornLine | None:
        """Add lines that were read; return the last one if it was never finished.

        Raises:
            StoreUnavailable: the file is from a newer version.
        """
        self._sorted = None
        for number, line in lines:
            try:
                if type(line) is dict:
                    self._take(line)
                elif isinstance(line, BadLine):
                    raise ValueError(line.reason)  # noqa: TRY301 - one place reports all
                elif isinstance(line, TornLine):
                    return line
            except ValueError as error:
                self._flaws.add(number, str(error))
        return None

    def _take(self, record: dict[str, Any]) -> None:
        """Add one line. Raises ValueError with what is wrong with it."""
        item_id = record.get("id")
        if item_id is None and is_header(record):
            self._take_header(record["meta"])
            return
        item_id = _checked_id(item_id, "id")
        # This includes the id of a line that turns out to be bad: no id is given twice.
        if item_id > self.highest:  # noqa: PLR1730 - ``max`` takes three times as long
            self.highest = item_id
        if record.get("kind") == "forget":
            self._forgotten.add(_checked_id(record.get("target"), "target"))
            return
        item = _checked_item(item_id, record, self._scope)
        if item_id in self._items:
            msg = f"the id {item_id} is on an earlier line too"
            raise ValueError(msg)
        self._items[item_id] = item
        if len(record) != _ALWAYS + ("tags" in record) + ("source" in record):
            self._unknown[item_id] = {k: v for k, v in record.items() if k not in _KNOWN}
        if self._by_text is not None and item_id not in self._forgotten:
            self._by_text.setdefault(normalized(item.content), item_id)

    def _take_header(self, meta: object) -> None:
        version = meta.get("version") if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or type(version) is not int:
            raise ValueError("the header has no version")
        if version > VERSION:
            msg = (
                f"{self._path} is from a newer version of aish (format {version}; this one knows"
                f" {VERSION}). It was not touched. Update aish-lsp to use it."
            )
            raise StoreUnavailable(msg, path=str(self._path))
        highest = meta.get("highest_id", 0)
        if type(highest) is int and highest <= MAX_ID:
            self.highest = max(self.highest, highest)

    def __contains__(self, item_id: int) -> bool:
        """Return whether there is an item of that id that is not forgotten."""
        return item_id in self._items and item_id not in self._forgotten

    def __getitem__(self, item_id: int) -> MemoryItem:
        """Return an item, forgotten or not."""
        return self._items[item_id]

    def unknown_fields(self, item_id: int) -> Mapping[str, Any]:
        """Return the fields of an item's line that this version does not know."""
        return self._unknown.get(item_id, {})

    def records(self) -> list[dict[str, Any]]:
        """Return the lines of the items that are not forgotten, in the file's order."""
        records = []
        for item_id in self.ids():
            item = self._items[item_id]
            fields = item_fields(item.kind, item.content, item.tags, item.source)
            records.append({"id": item_id, "ts": item.ts, **fields, **self.unknown_fields(item_id)})
        return records

    def hides(self, record: dict[str, Any]) -> bool:
        """Return whether a line no longer says anything: a tombstone, or a forgotten item."""
        try:
            if record.get("kind") == "forget":
                return _checked_id(record.get("target"), "target") > 0
            return _checked_id(record.get("id"), "id") in self._forgotten
        except ValueError:
            return False

    def same(self, content: str) -> int | None:
        """Return the id of the item that says the same as ``content``, or None."""
        text = normalized(content)
        if self._by_text is None or self._by_text.get(text) in self._forgotten:
            self._by_text = {}
            for item_id in self.ids():
                self._by_text.setdefault(normalized(self._items[item_id].content), item_id)
        return self._by_text.get(text)

    def ids(self) -> list[int]:
        """Return the ids of the items that are not forgotten, in the file's order."""
        return [item_id for item_id in self._items if item_id not in self._forgotten]

    def items(self) -> tuple[MemoryItem, ...]:
        """Return the items that are not forgotten, the newest first."""
        if self._sorted is None:
            items = [self._items[item_id] for item_id in self.ids()]
            self._sorted = tuple(sorted(items, key=NEWEST_LAST, reverse=True))
        return self._sorted


def is_header(record: dict[str, Any]) -> bool:
    """Return whether a line is a header: ``{"meta": {...}}``, without an id."""
    return "meta" in record and "id" not in record


def _checked_id(value: Any, name: str) -> int:
    if type(value) is int and 1 <= value <= MAX_ID:
        return value
    msg = f"its {name} is not a whole number of 1 or more"
    raise ValueError(msg)


def _checked_item(item_id: int, record: dict[str, Any], scope: Scope) -> MemoryItem:
    kind, ts, content = record.get("kind"), record.get("ts"), record.get("content")
    tags, source = record.get("tags"), record.get("source")
    if kind not in KINDS:
        msg = f"its kind is not one of {', '.join(KINDS)}, forget"
        raise ValueError(msg)
    if type(ts) is not str:
        raise ValueError("its ts is not a text")
    if type(content) is not str:
        raise ValueError("its content is not a text")
    if tags:
        # A loop costs less than a set of the types, or ``all``.
        for tag in tags if type(tags) is list else (None,):
            if type(tag) is not str:
                raise ValueError("its tags are not a list of texts")
    if source is not None and type(source) is not dict:
        raise ValueError("its source is not an object")
    return MemoryItem(item_id, ts, kind, content, tuple(tags) if tags else (), source, scope)


# Compaction: the lines that are kept, and the leftovers of an earlier one that crashed.


def without_forgotten(data: bytes, contents: Contents, highest: int) -> tuple[list[bytes], int]:
    """Return the lines that are kept, header first, and how many are dropped.

    Kept lines stay as they are, bad ones and unknown fields included. The header keeps ``highest``,
    so that the id of a dropped item is never given again.

    Args:
        data: the whole file.
        contents: the items that its lines make up.
        highest: the highest id ever given.
    """
    meta: dict[str, Any] = {"version": VERSION}
    headers: set[int] = set()
    hidden: set[int] = set()
    for number, line in iter_jsonl(data):
        if not isinstance(line, dict):
            continue
        if is_header(line):
            headers.add(number)
            meta |= line["meta"] if isinstance(line["meta"], dict) else {}
        elif contents.hides(line):
            hidden.add(number)
    header = json_line({"meta": {**meta, "highest_id": highest}})
    lines = enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1)
    gone = headers | hidden
    remaining = [line for number, line in lines if line and number not in gone]
    return [header.encode(), *remaining], len(hidden)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that a crash kept from replacing ``path``. The lock is held."""
    path = Path(os.path.realpath(path))
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            leftover.unlink()
