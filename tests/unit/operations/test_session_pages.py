"""Pages of Markdown about sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from aish_lsp.operations.markdown import listed_page
from aish_lsp.sessions.listing import SessionInfo


@pytest.fixture(name="_east")
def fixture_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clock five and a half hours before UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-5:30")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_east")
@pytest.mark.parametrize(
    ("updated", "shown"),
    [("2026-11-28T20:05:59Z", "(2026-11-29 01:35, 1 question"), ("yesterday", "(1 question")],
)
def test_listed_page_with_a_time_in_utc_shows_it_in_local_time(updated: str, shown: str) -> None:
    info = SessionInfo("s1", None, "Tests", None, updated, 1, 2, None, None)
    assert shown in listed_page([info], "")
