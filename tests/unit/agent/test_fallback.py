"""Who follows whom, and what is told in the end."""

from __future__ import annotations

from aish_lsp.agent.model_choice import FallbackChain
from aish_lsp.config.schema import Config, Preset, Routing
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable, CostCap, OverBudget
from aish_lsp.models.catalog import OFFLINE

A, B, C = (Preset(name=name) for name in "abc")
DOWN = BackendUnavailable("is down.")


def succession(*fallback: str, first: Preset = A) -> FallbackChain:
    models = {preset.name: preset for preset in (A, B, C)}
    return FallbackChain(first, Config(models=models, routing=Routing(fallback=list(fallback))))


def all_after(chain: FallbackChain) -> list[str]:
    found = []
    while chain.advance(DOWN):
        found.append(chain.current.name)
    return found


def test_without_a_list_nobody_follows() -> None:
    chain = succession()
    assert all_after(chain) == []
    assert chain.error is DOWN


def test_offline_comes_last_and_each_comes_once() -> None:
    assert all_after(succession("b")) == ["b", "offline"]
    assert all_after(succession("b", "a", "c", "b", "offline")) == ["b", "c", "offline"]
    assert all_after(succession("b", first=B)) == ["offline"]
    assert all_after(succession("b", first=OFFLINE)) == ["b"]
    # Where it stands in the list it has its place.
    assert all_after(succession("offline", "b")) == ["offline", "b"]


def test_a_refusal_of_the_first_is_for_the_user() -> None:
    code = "context_length_exceeded"
    too_long = BackendUnavailable("no", status=500, provider_message="no", code=code)
    for refusal in (BackendRejected("the key"), CostCap("the cap"), OverBudget("long"), too_long):
        chain = succession("b")
        assert not chain.advance(refusal)
        assert chain.error is refusal


def test_a_refusal_of_one_that_steps_in_passes_it_over() -> None:
    chain = succession("b", "c")
    assert chain.advance(DOWN)
    assert chain.advance(CostCap("the cap"))
    assert chain.current is C


def test_in_the_end_each_reason_is_told() -> None:
    chain = succession("b")
    assert chain.advance(DOWN)
    assert chain.advance(BackendRejected("has no key."))
    assert not chain.advance(OverBudget("is full."))
    error = chain.error
    assert isinstance(error, BackendUnavailable)
    assert error.message == "No model answers. a: is down. b: has no key. offline: is full."
    assert [failure["model"] for failure in error.data["failures"]] == ["a", "b", "offline"]
    assert error.data["failures"][2]["kind"] == "overBudget"
