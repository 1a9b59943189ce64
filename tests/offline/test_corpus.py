"""Each answer's command is run in a scratch world, and what came of it is checked.

What fails is known by name: `outcomes.json`, which `measure.py` writes. A
slice of the corpus is asked each time; all of it with TESTS_FULL set.
"""

from __future__ import annotations

import os

import pytest
from corpus import Entry, entries
from grading import grade
from machine import needs, without_own_proc, without_programs
from outcomes import recorded

#: Each how many of the entries are asked in a normal run.
_EACH = 1 if os.environ.get("TESTS_FULL") else 10

pytestmark = needs(without_programs("unshare", "bash", "ip") or without_own_proc())


@pytest.mark.parametrize("entry", entries()[::_EACH], ids=lambda entry: entry.id)
async def test_what_was_asked_is_done(entry: Entry) -> None:
    failing = recorded().get(entry.id, {})
    for one in await grade(entry):
        known = failing.get(one.question, "right")
        assert one.outcome == known, f"{one.question}\n{one.commands}\n{one.why}"
