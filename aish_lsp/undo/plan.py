"""What an undo has to do, name by name, and what has changed since and is not to be overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aish_lsp.undo.git import Git
from aish_lsp.undo.listing import is_editors_own, left_out
from aish_lsp.undo.records import Record
from aish_lsp.undo.snapshots import Change, Snapshot, as_name, difference


@dataclass(frozen=True, slots=True)
class Plan:
    """How to get from a work tree to an earlier one.

    Attributes:
        steps: by name, what was there (``old``: it is put back) and what is there (``new``).
        conflicts: those names of ``steps`` that somebody else has changed as well.
    """

    steps: dict[bytes, Change]
    conflicts: frozenset[bytes]


def plan(git: Git, group: Sequence[Record], now: Snapshot) -> Plan:
    """Return how to take back what the commands of ``group`` did, the oldest first.

    What they did not touch stays, whatever became of it since. Where the end of a command was not
    seen, nobody knows what it did and what somebody else: all of that is in conflict. So is what
    the user saved while one ran.

    Raises:
        NoUndo: a snapshot is gone.
    """
    touched: set[bytes] = set()
    disputed: set[bytes] = set()
    for record, following in zip(group, [*(other.before for other in group[1:]), now], strict=True):
        changes = difference(git, record.before, record.after or following)
        # What was there and not covered may look as if the command had made it.
        uncovered = record.before.left_out
        names = {
            name
            for name, change in changes.items()
            if change.old is not None or not left_out(name, uncovered)
        }
        touched |= names
        disputed |= names if record.after is None else set(map(as_name, record.saved))
        if record.after is not None:
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
    return Plan(steps, frozenset(steps.keys() & disputed))
