"""Any order of requests that the protocol allows: each is answered, once, and none is internal."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from acp_client import Wire, streams
from conversing import Place
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

INTERNAL = -32603
TEXTS = ("how do I list files?", "/help", "/memory list", "/run echo one; sleep 0.1", "/nonsense")


def requests_of(session: str, folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return each request that a client may send about a session, by a name."""
    known = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
    one = {"sessionId": session}
    option = {"configId": "model", "value": "offline"}
    prompts = {
        text: ("session/prompt", one | {"prompt": [{"type": "text", "text": text}]})
        for text in TEXTS
    }
    return {
        "new": ("session/new", {"cwd": str(folder), "mcpServers": []}),
        "list": ("session/list", {"cwd": str(folder)}),
        "list all": ("session/list", {}),
        "load": ("session/load", known),
        "resume": ("session/resume", known),
        "close": ("session/close", one),
        "delete": ("session/delete", one),
        "ask": ("session/set_mode", one | {"modeId": "ask"}),
        "act": ("session/set_config_option", one | {"configId": "mode", "value": "act"}),
        "model": ("session/set_config_option", one | option),
        "initialize": ("initialize", {"protocolVersion": 1}),
        **prompts,
    }


CANCELS = {"cancel": "session/cancel", "cancel request": "$/cancel_request"}
NAMES = [*requests_of("", Path()), *CANCELS]
STEPS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 3), st.booleans()), min_size=1, max_size=14
)


class Talk:
    """Requests on one connection, and what answers each.

    Attributes:
        found: the answers to each request, by its id.
    """

    def __init__(self, wire: Wire, folder: Path) -> None:
        self.found: dict[int, list[Any]] = {}
        self._wire = wire
        self._folder = folder
        self._sessions: list[str] = []
        self._came = asyncio.Event()

    async def read(self) -> None:
        """Keep all answers; refuse what is asked about."""
        while True:
            message = await self._wire.receive()
            if message.get("method") == "session/request_permission":
                outcome = {"outcome": {"outcome": "cancelled"}}
                await self._wire.send({"jsonrpc": "2.0", "id": message["id"], "result": outcome})
            elif "method" not in message:
                self.found[message["id"]].append(message)
                if opened := (message.get("result") or {}).get("sessionId"):
                    self._sessions.append(opened)
                self._came.set()

    async def until_answered(self, number: int) -> None:
        """Wait for the answer to a request."""
        async with asyncio.timeout(120):
            while not self.found[number]:
                self._came.clear()
                await self._came.wait()

    async def send(self, name: str, which: int, *, waits: bool) -> None:
        """Send a request about one of the sessions that were opened."""
        session = self._sessions[which % len(self._sessions)] if self._sessions else ""
        if name in CANCELS:
            params = {"requestId": len(self.found), "sessionId": session}
            await self._wire.send({"jsonrpc": "2.0", "method": CANCELS[name], "params": params})
            return
        method, params = requests_of(session, self._folder)[name]
        number = len(self.found) + 1
        self.found[number] = []
        assert await self._wire.begin(method, **params) == number
        if waits:
            await self.until_answered(number)


async def answers(steps: list[tuple[str, int, bool]], folder: Path) -> dict[int, list[Any]]:
    """Send requests, some before the last is answered; return the answers to each, by its id."""
    async with streams() as (reader, writer):
        talk = Talk(Wire(reader, writer), folder)
        reading = asyncio.create_task(talk.read())
        for name, which, waits in [("initialize", 0, True), ("new", 0, True), *steps]:
            await talk.send(name, which, waits=waits)
        for number in talk.found:
            await talk.until_answered(number)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return talk.found


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_requests_in_any_order_are_each_answered_once(
    place: Place, steps: list[tuple[str, int, bool]]
) -> None:
    found = asyncio.run(answers(steps, place.folder))
    counts = Counter(len(each) for each in found.values())
    assert set(counts) == {1}, found
    codes = {each[0].get("error", {}).get("code") for each in found.values()}
    assert INTERNAL not in codes, found
