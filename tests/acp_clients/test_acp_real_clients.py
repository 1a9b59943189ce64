"""Real clients, a real llama.cpp and the offline model: whole conversations with the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import acp
import acpx
import llama_server
import pytest
from acp_client import Connected, Recorder
from conversing import Place, forward_to
from fault_server import FaultServer

from aish_lsp.acp.transport import LONGEST_LINE

REPLY = "Made.\nCMD: touch x"
QUESTION = "create an empty file named x"
RAN = "$ touch x (exit 0)"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def llama() -> Iterator[llama_server.LlamaServer]:
    """A server without a grammar of its own: each request brings one."""
    if (reason := llama_server.missing_part()) is not None:
        pytest.skip(reason)
    with llama_server.LlamaServer(context=8192) as server:
        yield server


@pytest.fixture
async def model(request: pytest.FixtureRequest, place: Place) -> AsyncIterator[str]:
    """Configure the model of the place: llama.cpp, also as an endless one, or the offline one."""
    if request.param == "offline":
        yield "offline"
        return
    server = request.getfixturevalue("llama")
    async with FaultServer(forward_to(server.port)) as proxy:
        place.configure(proxy.url, grammar=llama_server.says(REPLY))
        said = place.config.read_text()
        endless = said.partition("[models.tested]")[2].partition("extra_body")[0]
        grammar = f"extra_body = {{grammar = '{llama_server.ENDLESS}'}}\n"
        place.config.write_text(f"{said}[models.endless]{endless}{grammar}")
        yield "llama.cpp"


both = pytest.mark.parametrize(
    "model", [pytest.param("llama.cpp", marks=pytest.mark.llama), "offline"], indirect=True
)


@both
async def test_the_sdks_client_holds_a_conversation_with_the_process(
    place: Place, model: str
) -> None:
    seen: Any = Recorder()
    async with started(place, seen) as client:
        await client.open("act")
        seen.answer = seen.first
        assert await client.prompt(QUESTION) == "end_turn"
        assert "CMD: touch x" in seen.text()
        [call] = seen.calls().values()
        assert (call["title"], call["status"]) == ("touch x", "completed")
        assert (place.folder / "x").exists()
        await client.prompt("/prompt And now?")
        assert RAN in seen.text()

        if model == "llama.cpp":
            await client.prompt("/model endless")
        before = len(seen.updates)
        line = "Go on." if model == "llama.cpp" else "/run sleep 600"
        asking = asyncio.create_task(client.prompt(line))
        await seen.until(lambda: _goes_on(seen.updates[before:]))
        await client.acp.cancel(session_id=client.session)
        assert await asking == "cancelled"
        session = client.session

    seen = Recorder()
    async with started(place, seen) as client:
        await client.acp.load_session(cwd=client.folder, session_id=session)
        assert seen.text("user_message_chunk").startswith(QUESTION)
        assert "CMD: touch x" in seen.text()
        client.session = session
        assert await client.prompt("/prompt And now?") == "end_turn"
        assert RAN in seen.text()


def _goes_on(updates: list[Any]) -> bool:
    """Return whether a reply has begun, or a command runs."""
    texts = [one for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
    return len(texts) > 1 or any(one.get("status") == "in_progress" for one in updates)


@asynccontextmanager
async def started(place: Place, seen: Any) -> AsyncIterator[Connected]:
    """Start the process as a client does, with the SDK's own client."""
    async with acp.spawn_agent_process(
        seen,
        *acpx.AGENT,
        env=acpx.environment(place),
        cwd=place.folder,
        transport_kwargs={"limit": LONGEST_LINE},
        use_unstable_protocol=True,
    ) as (connection, _):
        await connection.initialize(protocol_version=1)
        yield Connected(connection, seen, str(place.folder))


@both
async def test_acpx_holds_a_conversation_that_goes_on_after_a_restart(
    place: Place, model: str
) -> None:
    client = acpx.Acpx(acpx.command(), place)
    await client.call("sessions", "new")
    try:
        await client.call("set-mode", "act")
        talk = await client.call("--approve-all", QUESTION)
        assert acpx.stop(talk) == "end_turn"
        assert "CMD: touch x" in acpx.text(talk)
        assert [one["method"] for one in talk if one.get("method", "").endswith("permission")]
        assert (place.folder / "x").exists()
        await client.restart()
        talk = await client.call("/prompt And now?")
        assert "session/resume" in {one.get("method") for one in talk}
        assert RAN in acpx.text(talk)

        running = await client.begin("/run touch begun; sleep 600")
        while not (place.folder / "begun").exists():
            await asyncio.sleep(0.05)
        await client.call("cancel")
        assert acpx.stop(await client.messages(running)) == "cancelled"
    finally:
        await client.call("sessions", "close")


@both
async def test_acpx_that_denies_all_runs_nothing_and_the_model_is_told(
    place: Place, model: str
) -> None:
    client = acpx.Acpx(acpx.command(), place)
    await client.call("sessions", "new")
    try:
        await client.call("set-mode", "act")
        talk = await client.call("--deny-all", QUESTION)
        assert acpx.stop(talk) == "end_turn"
        assert "CMD: touch x" in acpx.text(talk)
        assert {one["status"] for one in acpx.updates(talk, "tool_call_update")} == {"failed"}
        talk = await client.call("--deny-all", "/prompt And now?")
        assert "not run: the user refused it" in acpx.text(talk)
    finally:
        await client.call("sessions", "close")
    assert not (place.folder / "x").exists()
