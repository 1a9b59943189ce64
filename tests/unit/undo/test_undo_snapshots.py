"""Snapshots as they are written."""

from __future__ import annotations

import json

import pytest

from aish_lsp.undo.folder import SeenFile
from aish_lsp.undo.snapshots import Snapshot

#: An inode of 64 bits, and times before 1970; and a time in the year 2300.
SEEN = {
    b"a": SeenFile(0o100644, 2**64 - 1, 0, -1, -(2**40), "a" * 40),
    "ü/\n".encode(): SeenFile(0o120777, 7, 2**40, 1, 2, "b" * 40),
}


def snapshot(files: dict[bytes, SeenFile]) -> Snapshot:
    return Snapshot("sha1", files, {b"d": 0o755}, frozenset([b"c"]), (b"e/",), {}, {})


LATE = {b"a": SeenFile(0o100644, 1, 0, 10_413_792_000 * 10**9, 1, "a" * 40)}


@pytest.mark.parametrize("files", [{}, SEEN, LATE])
def test_snapshot_that_was_written_is_read_as_it_was(files: dict[bytes, SeenFile]) -> None:
    written = snapshot(files)
    assert Snapshot.load(written.dump()) == written


def test_snapshot_of_an_earlier_version_with_lists_of_numbers_is_read() -> None:
    document = json.loads(snapshot(SEEN).dump())
    document["columns"] = [list(column) for column in zip(*SEEN.values(), strict=True)][:5]
    assert Snapshot.load(json.dumps(document)) == snapshot(SEEN)


@pytest.mark.parametrize("column", [["x", "y"], [1.5, 2], [True, 2], "!!", "AAAA", 3, None])
def test_snapshot_with_what_is_no_column_of_numbers_is_refused(column: object) -> None:
    document = json.loads(snapshot(SEEN).dump())
    document["columns"][1] = column
    with pytest.raises((ValueError, TypeError)):
        Snapshot.load(json.dumps(document))
