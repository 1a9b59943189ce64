"""Facts about models are told once a day, by whichever process comes first."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from aish_lsp.agent import services
from aish_lsp.agent.services import ToldFacts

FACT = "The server of smol was sent about 1,234 tokens, but read only 80."


def test_a_fact_that_another_process_told_today_is_no_news(tmp_path: Path) -> None:
    path = tmp_path / "told.json"
    facts = ToldFacts(path)
    assert facts.is_news(FACT)
    assert not facts.is_news(FACT)
    assert not ToldFacts(path).is_news(FACT)
    assert ToldFacts(path).is_news("Another fact.")


def test_numbers_make_no_difference_but_names_and_places_do(tmp_path: Path) -> None:
    facts = ToldFacts(tmp_path / "told.json")
    assert facts.is_news(FACT)
    assert not facts.is_news(FACT.replace("1,234", "99").replace("80", "7,000"))
    assert facts.is_news(FACT.replace("smol", "smol2"))
    assert facts.is_news("http://127.0.0.1:8080 is slow.")
    assert facts.is_news("http://127.0.0.1:8081 is slow.")


def test_a_fact_is_news_again_the_next_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = ToldFacts(tmp_path / "told.json")
    assert facts.is_news(FACT)
    tomorrow = services._today() + timedelta(1)
    monkeypatch.setattr(services, "_today", lambda: tomorrow)
    assert facts.is_news(FACT)
    assert ToldFacts(tmp_path / "told.json").recent() == [(tomorrow.isoformat(), FACT)]


def test_what_was_told_is_listed_for_some_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = ToldFacts(tmp_path / "told.json")
    assert facts.recent() == []
    facts.is_news(FACT)
    facts.is_news("What anybody can find out now.", lasts=False)
    assert facts.recent() == [(services._today().isoformat(), FACT)]
    later = services._today() + timedelta(40)
    monkeypatch.setattr(services, "_today", lambda: later)
    assert facts.recent() == []


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"version": 1, "told": {"x": 1, "y": {"at": 2}}}', b"\xff\xfe"]
)
def test_a_damaged_file_loses_no_fact(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "told.json"
    path.write_bytes(damaged)
    assert ToldFacts(path).recent() == []
    assert ToldFacts(path).is_news(FACT)
    assert not ToldFacts(path).is_news(FACT)


def test_a_file_from_a_newer_version_is_not_touched_and_the_fact_is_told(tmp_path: Path) -> None:
    path = tmp_path / "told.json"
    path.write_text(json.dumps({"version": 99, "told": {}}))
    facts = ToldFacts(path)
    assert facts.is_news(FACT)
    assert not facts.is_news(FACT)
    assert json.loads(path.read_text())["version"] == 99
