from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Cost, Preset, Price
from aish_lsp.context.usage import (
    SlotReport,
    UsageRecord,
    UsageTotals,
    call_cost,
    check_cap,
    context_line,
    cost_page,
    cost_report,
    is_local,
)
from aish_lsp.foundation.errors import CostCap
from aish_lsp.foundation.events import Usage

LOCAL = Preset(name="local", endpoint="http://127.0.0.1:8080")
CLOUD = Preset(name="cloud", endpoint="https://api.example.com/v1")
PRICED = replace(CLOUD, price=Price(input=2.0, output=10.0, cache_read=0.5, cache_write=2.5))
CALL = Usage(1000, 200, reasoning_tokens=50, cache_read_tokens=600, cache_write_tokens=100)

usages = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**6),
    cache_read_tokens=st.integers(0, 10**6),
    cache_write_tokens=st.integers(0, 10**6),
)
prices = st.builds(
    Price,
    input=st.floats(0, 100),
    output=st.floats(0, 100),
    cache_read=st.none() | st.floats(0, 100),
    cache_write=st.none() | st.floats(0, 100),
)


def test_cached_and_fresh_input_have_their_own_prices() -> None:
    expected = (300 * 2.0 + 600 * 0.5 + 100 * 2.5 + 200 * 10.0) / 1e6
    assert call_cost(CALL, PRICED) == pytest.approx(expected)


def test_cached_input_costs_as_input_where_no_other_price_is_known() -> None:
    plain = replace(CLOUD, price=Price(input=2.0, output=10.0))
    assert call_cost(CALL, plain) == pytest.approx((1000 * 2.0 + 200 * 10.0) / 1e6)
    free = replace(CLOUD, price=Price(input=2.0, output=10.0, cache_read=0.0))
    assert call_cost(CALL, free) == pytest.approx((400 * 2.0 + 200 * 10.0) / 1e6)


def test_the_servers_own_figure_wins() -> None:
    assert call_cost(replace(CALL, cost=0.5), PRICED) == 0.5
    assert call_cost(replace(CALL, cost=0.0), PRICED) == 0.0
    assert call_cost(CALL, CLOUD) is None


@given(usages, prices)
def test_a_cost_is_never_negative_whatever_the_server_reports(usage: Usage, price: Price) -> None:
    cost = call_cost(usage, replace(CLOUD, price=price))
    assert cost is not None
    assert cost >= 0


def test_slots_add_up_by_model_and_category() -> None:
    totals = UsageTotals()
    assert totals.add(PRICED, "main", CALL).cost == pytest.approx(0.00315)
    totals.add(PRICED, "main", CALL)
    totals.add(PRICED, "summary", CALL)
    slot = totals.models["cloud"]["main"]
    assert replace(slot, cost=0.0) == SlotReport(2000, 400, 100, 1200, 200, 2)
    assert slot.cost == pytest.approx(0.0063)
    assert totals.total().calls == 3
    assert totals.total().cost == pytest.approx(0.00945)


def test_no_cost_is_not_zero_dollars() -> None:
    totals = UsageTotals()
    assert totals.add(LOCAL, "main", CALL).cost is None
    assert totals.add(CLOUD, "main", CALL).cost is None
    local, cloud = totals.models["local"]["main"], totals.models["cloud"]["main"]
    assert (local.local, local.unpriced) == (True, False)
    assert (cloud.local, cloud.unpriced) == (False, True)
    # The mark stays, also when later calls have a cost.
    totals.add(LOCAL, "main", replace(CALL, cost=0.0))
    totals.add(PRICED, "main", CALL)
    local, cloud = totals.models["local"]["main"], totals.models["cloud"]["main"]
    assert local.local
    assert local.cost is None
    assert cloud.unpriced
    assert cloud.cost == pytest.approx(0.00315)
    assert (totals.total().local, totals.total().unpriced) == (True, True)


def test_a_priced_call_has_no_mark() -> None:
    totals = UsageTotals()
    totals.add(PRICED, "main", CALL)
    totals.add(replace(LOCAL, price=Price(input=1.0)), "main", CALL)
    assert (totals.total().local, totals.total().unpriced) == (False, False)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["main", "route"]), usages)))
def test_the_total_is_the_sum_of_the_slots(calls: list[tuple[str, object, Usage]]) -> None:
    totals = UsageTotals()
    for model, category, usage in calls:
        totals.add(replace(PRICED, name=model), category, usage)  # type: ignore[arg-type]
    slots = [slot for categories in totals.models.values() for slot in categories.values()]
    for field in fields(SlotReport):
        if field.name not in {"local", "unpriced"}:
            expected = sum(getattr(slot, field.name) for slot in slots)
            assert getattr(totals.total(), field.name) == pytest.approx(expected)
    assert totals.total().calls == len(calls)
    assert totals.total().input == sum(usage.input_tokens for *_, usage in calls)


def test_each_threshold_is_told_once_apart_from_the_other() -> None:
    totals = UsageTotals()
    thresholds = Cost(warn_at_dollars=0.005, warn_at_tokens=3000)
    totals.add(PRICED, "main", CALL)
    assert totals.warnings(thresholds) == []
    totals.add(PRICED, "main", CALL)
    (dollars,) = totals.warnings(thresholds)
    assert dollars == "This session has cost $0.0063, more than $0.005."
    assert totals.warnings(thresholds) == []
    totals.add(PRICED, "main", CALL)
    assert totals.warnings(thresholds) == ["This session has used 3,600 tokens, more than 3,000."]
    totals.add(PRICED, "main", CALL)
    assert totals.warnings(thresholds) == []


def test_a_threshold_is_passed_not_reached_and_zero_is_one() -> None:
    totals = UsageTotals()
    assert totals.warnings(Cost(warn_at_tokens=0, warn_at_dollars=0)) == []
    totals.add(PRICED, "main", CALL)
    assert totals.warnings(Cost(warn_at_tokens=1200)) == []
    assert totals.warnings(Cost()) == []
    assert len(totals.warnings(Cost(warn_at_tokens=0, warn_at_dollars=0))) == 2


def test_reset_zeroes_and_warns_again() -> None:
    totals = UsageTotals()
    for _ in range(2):
        totals.add(PRICED, "main", CALL)
        assert len(totals.warnings(Cost(warn_at_tokens=1))) == 1
        totals.reset()
        assert totals.total() == SlotReport()
        assert totals.models == {}


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://127.8.9.1/v1", True),
        ("http://localhost:11434/v1", True),
        ("HTTP://LOCALHOST", True),
        ("http://[::1]:8000", True),
        ("http://0.0.0.0:8000", True),
        ("https://api.example.com", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://127.0.0.1@evil.example/v1", False),
        ("http://192.168.1.7:8080", False),
        ("", False),
    ],
)
def test_what_is_local(endpoint: str, local: bool) -> None:
    assert is_local(Preset(endpoint=endpoint)) is local


def test_the_offline_model_is_local() -> None:
    assert is_local(Preset(provider="offline"))


def test_the_context_line_is_exact() -> None:
    assert context_line(412, 4096) == (
        "[estimated session ctx: 412 tokens; token_budget=4096 (10% used)]"
    )
    assert context_line(0, 1) == "[estimated session ctx: 0 tokens; token_budget=1 (0% used)]"


def test_what_was_written_down_sums_by_model_and_category() -> None:
    def call(**fields: Any) -> UsageRecord:
        values: dict[str, Any] = {"model": "cloud", "category": "main", "input": 100, "output": 10}
        return UsageRecord(
            ts="2026-05-13T19:01:01Z", session="s", provider="openai", **(values | fields)
        )

    totals = UsageTotals.of(
        [
            call(cost=0.5, reasoning=4, cache_read=1),
            call(cost=0.25, cache_write=2),
            call(category="summary"),
            call(model="local", local=True),
        ]
    )
    assert totals.models == {
        "cloud": {
            "main": SlotReport(200, 20, 4, 1, 2, 2, 0.75, local=False, unpriced=False),
            "summary": SlotReport(100, 10, 0, 0, 0, 1, None, local=False, unpriced=True),
        },
        "local": {"main": SlotReport(100, 10, 0, 0, 0, 1, None, local=True, unpriced=False)},
    }


# --- the cap --------------------------------------------------------------------------------------


def test_a_request_that_might_cross_the_cap_is_refused_before_it_is_sent() -> None:
    used = UsageTotals()
    preset = replace(PRICED, price=Price(input=2.0, output=10.0), max_output_tokens=1000)
    most = (5000 * 2.0 + 1000 * 10.0) / 1e6
    check_cap(used, Cost(cap_at_dollars=most), preset, 5000)
    with pytest.raises(CostCap, match="cap_at_dollars") as refused:
        check_cap(used, Cost(cap_at_dollars=most), preset, 5001)
    assert refused.value.data["capAtDollars"] == most
    used.add(PRICED, "summary", CALL)
    with pytest.raises(CostCap):
        check_cap(used, Cost(cap_at_dollars=most), preset, 5000)
    used.reset()
    check_cap(used, Cost(cap_at_dollars=most), preset, 5000)


def test_writing_to_the_cache_is_counted_on_where_it_is_dearer() -> None:
    preset = replace(PRICED, max_output_tokens=1)
    plain = (5000 * 2.0 + 10.0) / 1e6
    with pytest.raises(CostCap):
        check_cap(UsageTotals(), Cost(cap_at_dollars=plain), preset, 5000)


def test_under_a_cap_a_model_without_a_price_is_refused_and_a_local_one_is_not() -> None:
    cap = Cost(cap_at_dollars=100.0)
    with pytest.raises(
        CostCap, match=r"models\.cloud\.price, for example {input = 0\.15, output = 0\.60} \("
    ):
        check_cap(UsageTotals(), cap, CLOUD, 1)
    check_cap(UsageTotals(), cap, LOCAL, 10**9)
    check_cap(UsageTotals(), Cost(), CLOUD, 10**9)
    # A price that the user gave their own server counts.
    dear = replace(LOCAL, price=Price(input=1000.0))
    with pytest.raises(CostCap):
        check_cap(UsageTotals(), cap, dear, 10**6)


def test_the_table_prices_what_the_user_did_not() -> None:
    preset = Preset(name="mini", endpoint="https://api.openai.com/v1", model="gpt-4o-mini")
    assert call_cost(Usage(10**6, 0), preset) == pytest.approx(0.15)
    own = replace(preset, price=Price(input=7.0))
    assert call_cost(Usage(10**6, 0), own) == pytest.approx(7.0)


def test_the_page_shows_what_share_was_read_from_a_cache() -> None:
    totals = UsageTotals()
    totals.add(PRICED, "main", CALL)
    totals.add(CLOUD, "summary", Usage(200, 10))
    page = cost_page(cost_report(totals, Cost(), 0, None), detail=True)
    assert "Session: 2 calls, 1,200 in (50 % from a cache), 210 out, " in page
    assert "cloud  main  1 call, 1,000 in (60 % from a cache), 200 out, $0.003150" in page
    assert "cloud  summary  1 call, 200 in, 10 out, price not known" in page
