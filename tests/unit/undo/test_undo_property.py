"""Whatever a command does to whatever tree: undone, each file is what it was, and git's own too."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from undo_parts import (
    Command,
    commit,
    git,
    git_state,
    look,
    redo,
    remove,
    repository,
    undo,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]

EXAMPLES = settings(
    max_examples=1000 if os.environ.get("TESTS_FULL") else 20,
    suppress_health_check=[HealthCheck.too_slow],
)

PARTS = st.sampled_from(
    [
        b"a",
        b"b",
        b"c d",
        b"-x",
        b"*",
        "\N{LATIN SMALL LETTER E WITH ACUTE}".encode(),
        b"\xff",
        b"n\nl",
    ]
)
NAMES = st.lists(PARTS, min_size=1, max_size=3).map(b"/".join)
CONTENTS = st.sampled_from([b"", b"one\n", b"two\r\nlines\r\n", b"\0\xff", b"$Id$\n", b"x" * 5000])
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o700, 0o640, 0o444])
TARGETS = st.sampled_from([b"a", b"../..", b"/nowhere", b"c d/a"])

WRITES = st.tuples(st.just("write"), NAMES, CONTENTS)
LINKS = st.tuples(st.just("link"), NAMES, TARGETS)
CHMODS = st.tuples(st.just("chmod"), NAMES, MODES)
REMOVALS = st.tuples(st.just("remove"), NAMES, st.none())
RENAMES = st.tuples(st.just("rename"), NAMES, NAMES)
CHANGES = st.lists(st.one_of(WRITES, LINKS, CHMODS, REMOVALS, RENAMES), max_size=12)


def change(root: Path, changes: list[tuple[str, bytes, Any]]) -> None:
    """Make changes as a program would; what stands in the way goes, what cannot be is not."""
    for what, name, argument in changes:
        path = root / os.fsdecode(name)
        with suppress(OSError):
            if not Path(os.path.realpath(path.parent)).is_relative_to(root):
                continue
            if what in ("write", "link"):
                path.parent.mkdir(parents=True, exist_ok=True)
                if os.path.lexists(path):
                    remove(path)
            match what:
                case "write":
                    path.write_bytes(argument)
                case "link":
                    path.symlink_to(os.fsdecode(argument))
                case "chmod" if not path.is_symlink() and path.is_file():
                    path.chmod(argument)
                case "remove":
                    remove(path)
                case "rename":
                    path.rename(root / os.fsdecode(argument))


@contextmanager
def tree(
    committed: list[tuple[str, bytes, Any]], later: list[tuple[str, bytes, Any]]
) -> Iterator[Path]:
    """Make a repository with files of each kind: committed, staged, changed, new, stashed."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AISH_DATA_DIR", str(Path(folder, "data")))
        root = repository(Path(folder).resolve() / "work", stashed="one")
        (root / "stashed").write_text("two")
        git(root, "stash")
        change(root, committed)
        commit(root) if git(root, "status", "-s") else None
        change(root, later[::2])
        git(root, "add", "-A")
        change(root, later[1::2])
        yield root


@EXAMPLES
@given(committed=CHANGES, later=CHANGES, done=CHANGES)
def test_an_undo_brings_back_every_file_and_touches_nothing_of_gits(
    committed: list[tuple[str, bytes, Any]],
    later: list[tuple[str, bytes, Any]],
    done: list[tuple[str, bytes, Any]],
) -> None:
    with tree(committed, later) as root:
        before, state = look(root), git_state(root)
        with Command(root):
            change(root, done)
        after = look(root)
        if after == before:
            return
        undone = undo(root)
        assert not undone.conflicts
        assert not undone.failed
        assert look(root) == before
        redo(root)
        assert look(root) == after
        assert git_state(root) == state


@EXAMPLES
@given(committed=CHANGES, done=CHANGES, since=CHANGES)
def test_what_was_changed_since_is_never_overwritten(
    committed: list[tuple[str, bytes, Any]],
    done: list[tuple[str, bytes, Any]],
    since: list[tuple[str, bytes, Any]],
) -> None:
    with tree(committed, []) as root:
        before = look(root)
        with Command(root):
            change(root, done)
        after = look(root)
        change(root, since)
        now = look(root)
        if after == before:
            return
        asked = undo(root)
        if asked.asks:
            assert look(root) == now
            undo(root, decided=True)
        then = look(root)
        for name in before.keys() | after.keys() | now.keys() | then.keys():
            if now.get(name) == after.get(name):
                assert then.get(name) in (before.get(name), now.get(name))
            else:
                assert then.get(name) == now.get(name)
        if then != now:
            redo(root)
            assert look(root) == now
