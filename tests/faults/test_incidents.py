"""What went wrong elsewhere does not here; docs/incidents.md tells what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from incidents import INCIDENTS, Incident
from machine import without_tracing
from safety_matrix import rows
from safety_page import incident_row, matrix_row, part, protected_table


@pytest.mark.parametrize("one", INCIDENTS, ids=lambda one: one.what)
async def test_an_incident(one: Incident, tmp_path: Path) -> None:
    if one.watched and (missing := without_tracing()):
        pytest.skip(f"{missing}: nobody sees what the server starts")
    outcome = await one.act(tmp_path)
    assert incident_row(one, outcome) in part("incidents").splitlines(keepends=True)


def test_the_page_tells_of_no_other_incident() -> None:
    assert len(part("incidents").splitlines()) == 2 + len(INCIDENTS)


async def test_who_is_asked(tmp_path: Path) -> None:
    made = [matrix_row(row) async for row in rows(tmp_path)]
    assert part("table").splitlines(keepends=True)[2:] == made


def test_the_page_shows_the_files_that_decide_what_runs() -> None:
    assert part("protected") == protected_table()
