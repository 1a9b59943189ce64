"""Every fault over every protocol: the reply is whole, or one clear error tells what to do.

A real llama.cpp stands behind the proxy that breaks what it says. Each test makes the row that
``docs/faults.md`` has of its fault.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from random import Random

import llama_server
import pytest
import pytest_asyncio
from fault_proxy import handed_on
from fault_server import FaultServer
from provider_asking import Asker, Outcome, asking_all, near_limits
from provider_breaks import KEY, REPLY, ends_behind
from provider_page import PAGE, row_of
from provider_table import Expected, Row, faults

from aish_lsp.foundation.errors import BackendUnavailable

pytestmark = pytest.mark.llama

#: The rows by what happens. Which host they send on to is not known yet.
ROWS = {row.happens: row for rows in faults("").values() for row in rows}


@dataclass(frozen=True)
class Bench:
    """An adapter of each protocol, and another host that must never be asked."""

    askers: list[Asker]
    elsewhere: FaultServer
    rows: dict[str, Row]


@pytest.fixture(scope="module")
def llama_url() -> Iterator[str]:
    """A model server that always says REPLY, to as many as ask."""
    reason = llama_server.missing_part()
    if reason is not None:
        pytest.skip(reason)
    with llama_server.LlamaServer(
        grammar=llama_server.says(REPLY), context=4096, parallel=4
    ) as server:
        yield server.url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(llama_url: str) -> AsyncIterator[Bench]:
    async with asking_all(llama_url) as (askers, elsewhere):
        rows = {row.happens: row for rows in faults(elsewhere.url).values() for row in rows}
        yield Bench(askers, elsewhere, rows)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("happens", ROWS)
async def test_fault(bench: Bench, happens: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    row = bench.rows[happens]
    with near_limits():
        told, outcomes = await row_of(row, bench.askers, bench.elsewhere.url)
    for asker, outcome in zip(bench.askers, outcomes, strict=True):
        check(outcome, row.expected, asker.protocol)
    await asyncio.gather(*(the_next_question_works(asker) for asker in bench.askers))
    for asker in bench.askers:
        for request in asker.server.requests:
            assert KEY in " ".join(request.headers.values()), "what is tested has no key"
        asker.server.requests.clear()
    assert bench.elsewhere.requests == []
    assert KEY not in caplog.text
    assert told in PAGE.read_text(encoding="utf-8").splitlines(), told


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("end", ["half-close", "reset", "end"])
async def test_a_reply_that_is_cut_anywhere(bench: Bench, end: str) -> None:
    """Cut the body behind any byte: it is whole or an error, and its text never wrong."""
    random = Random(f"{end} {os.environ.get('PYTEST_XDIST_TESTRUNUID')}")
    for _ in range(200 if os.environ.get("TESTS_FULL") == "1" else 5):
        share = random.random()
        for asker in bench.askers:
            asker.proxy.fault = ends_behind(share, end)
        asked = (asker.ask(asker.server.url, patience=20) for asker in bench.askers)
        for asker, outcome in zip(bench.askers, await asyncio.gather(*asked), strict=True):
            where = (share, asker.protocol, outcome)
            assert REPLY.startswith(outcome.text), where
            if outcome.error is None:
                assert (outcome.text, outcome.finish) == (REPLY, "stop"), where
            else:
                assert type(outcome.error) is BackendUnavailable, where
    await asyncio.gather(*(the_next_question_works(asker) for asker in bench.askers))


def test_the_page_has_a_row_for_each_fault_and_no_other() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    told = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
    heads = {"What happens", "---"}
    assert [name for name in told if name not in heads] == list(ROWS)


def check(outcome: Outcome, expected: Expected, protocol: str) -> None:
    """Compare what came with what must come."""
    error = outcome.error
    assert type(error) is (expected.error or type(None)), (protocol, outcome)
    match expected.kept:
        case "whole":
            assert (outcome.text, outcome.finish) == (expected.text, "stop"), protocol
        case "part":
            assert outcome.text, (protocol, outcome)
            assert REPLY.startswith(outcome.text), (protocol, outcome)
        case "nothing":
            assert outcome.text == "", protocol
    if error is not None:
        assert re.search(expected.says, error.message), (protocol, error.message)
        assert KEY not in error.message
        assert KEY not in repr(error.data)


async def the_next_question_works(asker: Asker) -> None:
    """Ask without a fault, once the adapter has closed what it did not read."""
    async with asyncio.timeout(10):
        while asker.proxy.running:
            await asyncio.sleep(0.01)
    asker.proxy.fault = handed_on
    outcome = await asker.ask(asker.server.url, patience=20)
    assert (outcome.text, outcome.finish, outcome.error) == (REPLY, "stop", None)
