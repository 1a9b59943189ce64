"""usage.jsonl: the record of each call, and the sums of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.context.usage import UsageRecord
from aish_lsp.foundation.jsonl import now
from aish_lsp.sessions.recorder import append_usage, read_costs, read_usage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ws" / "usage.jsonl"


def call(session: str = "s", **fields: Any) -> UsageRecord:
    values: dict[str, Any] = {
        "ts": "2026-05-13T19:01:01Z",
        "model": "cloud",
        "provider": "openai",
        "category": "main",
        "input": 100,
        "output": 10,
    }
    return UsageRecord(session=session, **(values | fields))


def test_the_line_is_that_of_the_contract(path: Path) -> None:
    append_usage(path, call(reasoning=1, cache_read=2, cache_write=3, cost=0.5, estimated=True))
    assert json.loads(path.read_text()) == {
        "ts": "2026-05-13T19:01:01Z",
        "session": "s",
        "model": "cloud",
        "provider": "openai",
        "category": "main",
        "input": 100,
        "output": 10,
        "reasoning": 1,
        "cacheRead": 2,
        "cacheWrite": 3,
        "cost": 0.5,
        "local": False,
        "estimated": True,
    }
    assert path.read_text().endswith("}\n")


def test_what_was_written_is_read_by_session_or_all(path: Path) -> None:
    assert read_usage(path) == []
    records = [call("a", cost=0.5), call("b", ts=now()), call("a", local=True)]
    for record in records:
        append_usage(path, record)
    assert read_usage(path) == records
    assert read_usage(path, "a") == [records[0], records[2]]


def test_damaged_and_foreign_lines_are_left_out(path: Path) -> None:
    append_usage(path, call())
    good = json.loads(path.read_text())
    bad = [
        "{torn",
        "[]",
        *(json.dumps(good | change) for change in ({"input": -1}, {"cost": "1"}, {"model": None})),
        json.dumps({key: value for key, value in good.items() if key != "output"}),
        json.dumps(good | {"future": 1}),
        '{"ts": "2026',
    ]
    path.write_text("\n".join(bad))
    append_usage(path, call("t"))
    assert [record.session for record in read_usage(path)] == ["s", "t"]


@pytest.mark.parametrize(
    "damage", ["", "{broken\n", '{"n": 1, "ts": "2026', '{"input": 1, "output": 1}\n', "\n\n"]
)
def test_costs_by_session_are_none_where_nothing_had_a_price(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "usage.jsonl"
    assert read_costs(path) == {}
    calls = [call("a", cost=0.5), call("a"), call("b", local=True), call("a", cost=2.5e-07)]
    for one in calls:
        append_usage(path, one)
    with path.open("a") as file:
        file.write(damage)
    assert read_costs(path) == {"a": 0.50000025, "b": None}


def test_a_text_cannot_pass_for_a_cost(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    append_usage(path, replace(call("a", cost=1.0), model='m", "cost": 9, "local": "'))
    append_usage(path, call("\u00e9\\", cost=2.0))
    assert read_costs(path) == {"a": 1.0, "\u00e9\\": 2.0}


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "1e999", "1e300", "-1", "true", "9" * 400])
def test_a_cost_without_sense_is_left_out(path: Path, cost: str) -> None:
    append_usage(path, call("s", cost=0.5))
    path.write_text(path.read_text() + path.read_text().replace("0.5", cost))
    append_usage(path, call("s", cost=0.25))
    assert len(read_usage(path)) == 2
    assert read_costs(path) == {"s": 0.75}


@pytest.mark.parametrize("flag", ["local", "estimated"])
def test_a_flag_that_is_none_is_left_out(path: Path, flag: str) -> None:
    append_usage(path, call("s"))
    damaged = json.loads(path.read_text()) | {flag: "yes"}
    path.write_text(path.read_text() + json.dumps(damaged) + "\n")
    assert len(read_usage(path)) == 1
