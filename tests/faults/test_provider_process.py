"""Faults of model servers through the real server process: what its user sees is what is told.

A few of each kind, over one protocol each; with ``AISH_FULL=1`` every one over all protocols.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

import llama_server
import pytest
import pytest_asyncio
from client import RpcError
from context_parts import configure
from conversing import ask, chat_holds, events, streamed
from fault_proxy import Protocol, handed_on
from fault_server import FaultServer
from provider_asking import PROTOCOLS, Asker, asking_all
from provider_breaks import KEY, REPLY
from provider_page import PAGE, shown
from provider_table import Row, faults

pytestmark = [pytest.mark.llama, pytest.mark.asyncio(loop_scope="module")]

FEW: list[tuple[Protocol, str]] = [
    ("anthropic", "Nothing listens at the address"),
    ("openai-responses", "Silence before the answer"),
    ("gemini", "The connection is reset mid-reply"),
    ("anthropic", "Silence mid-reply"),
    ("openai-responses", "Chunks are cut in the middle of characters"),
    ("anthropic", "No blank lines between events"),
    ("openai-responses", "Bytes that are not UTF-8"),
    ("gemini", "Compressed and cut off"),
    ("anthropic", "Redirected to another host (307)"),
    ("gemini", "401, and the server quotes the key"),
    ("openai-responses", "500, in plain text"),
    ("gemini", "200 with an HTML page"),
    ("anthropic", "200 with an error in JSON"),
    ("openai-responses", "`Content-Length` is too small"),
    ("openai-responses", "The provider reports an error mid-reply"),
    ("anthropic", "An event that is not JSON"),
    ("gemini", "The stream ends with the text, and nothing says that it is complete"),
]

# A name server would be asked.
_ELSEWHERE = frozenset({"The host name is unknown"})

ALL: list[tuple[Protocol, str]] = [
    (protocol, row.happens)
    for rows in faults("").values()
    for row, protocol in product(rows, PROTOCOLS)
    if row.happens not in _ELSEWHERE
]

CODES = {"backendUnavailable": 1001, "backendRejected": 1002, "invalidArgument": -32602}


@dataclass(frozen=True)
class Front:
    """The server process, and the faults before the model servers that it asks."""

    served: Any
    askers: dict[Protocol, Asker]
    elsewhere: FaultServer
    rows: dict[str, Row]

    def configure(self, protocol: Protocol, row: Row) -> None:
        """Have the process ask over ``protocol``, and meet a fault."""
        asker = self.askers[protocol]
        asker.proxy.fault = row.fault
        key = self.served.place.root / "key"
        key.write_text(KEY, encoding="utf-8")
        model = {
            "provider": protocol,
            "endpoint": row.endpoint(asker.server.url, asker.plain),
            "api_key_command": ["cat", str(key)],
            "timeout": row.patience,
        }
        configure(self.served.place, model)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers() -> AsyncIterator[tuple[list[Asker], FaultServer]]:
    """An adapter's servers for each protocol, and another host that must never be asked."""
    reason = llama_server.missing_part()
    if reason is not None:
        pytest.skip(reason)
    with llama_server.LlamaServer(grammar=llama_server.says(REPLY), context=8192) as llama:
        async with asking_all(llama.url) as servers:
            yield servers


@pytest.fixture
def front(served: Any, servers: tuple[list[Asker], FaultServer]) -> Front:
    askers, elsewhere = servers
    rows = {row.happens: row for kind in faults(elsewhere.url).values() for row in kind}
    return Front(served, {asker.protocol: asker for asker in askers}, elsewhere, rows)


@pytest.mark.parametrize(
    ("protocol", "happens"), ALL if os.environ.get("TESTS_FULL") == "1" else FEW
)
async def test_what_the_user_sees(front: Front, protocol: Protocol, happens: str) -> None:
    row, served = front.rows[happens], front.served
    client = served.client
    front.configure(protocol, row)
    told = finish_notice(happens)
    if row.expected.kept == "nothing":
        with pytest.raises(RpcError) as caught:
            await ask(client, "Are you there?", "t")
        error = {"kind": caught.value.data["kind"], "message": caught.value.message}
        assert caught.value.code == CODES[error["kind"]]
        assert streamed(client, "t") == ""
    else:
        result = await ask(client, "Are you there?", "t")
        error = result["error"]
        assert result["text"] == streamed(client, "t")
        if row.expected.kept == "whole":
            assert result["text"] == row.expected.text
        else:
            assert REPLY.startswith(result["text"])
    [end] = events(client, "t", "end")
    assert end["finishReason"] == ("error" if error else "stop")
    if error:
        assert end["error"] == error
        assert error["kind"] == row.expected.error.kind if row.expected.error else None
        assert shown(error["message"], front.elsewhere.url) == told
    await the_chat_goes_on(front, protocol, row)
    assert front.elsewhere.requests == []
    nothing_holds_the_key(front)


def finish_notice(happens: str) -> str:
    """Return the message that the page has of a fault."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"| {happens} | "):
            return line.split(" | ")[1]
    raise AssertionError(happens)


async def the_chat_goes_on(front: Front, protocol: Protocol, row: Row) -> None:
    """Ask again without the fault: the model is told of what came, if anything did."""
    asker = front.askers[protocol]
    asker.server.requests.clear()
    front.configure(protocol, Row("nothing", handed_on, row.expected))
    result = await ask(front.served.client, "And now?", "next")
    assert (result["text"], result["error"]) == (REPLY, None)
    sent = asker.server.requests[-1]
    assert ("Are you there?" in sent.body.decode()) == (row.expected.kept != "nothing")
    assert KEY in " ".join(sent.headers.values())


def nothing_holds_the_key(front: Front) -> None:
    """Look for the key in all that the process has written."""
    place = front.served.place
    assert KEY not in front.served.client.stderr
    for folder in (place.data, place.chat.parent):
        for path in folder.rglob("*"):
            # A file that is just being put in the place of another one has gone by now.
            with suppress(FileNotFoundError, IsADirectoryError):
                assert KEY.encode() not in path.read_bytes(), path


async def test_the_chat_document_tells_it_in_a_quote(front: Front) -> None:
    row, place = front.rows["The connection is half-closed mid-reply"], front.served.place
    front.configure("anthropic", row)
    await front.served.client.command_result("aish.ask", {"prompt": "Are you there?"})
    told = "> The reply broke off: The connection to "
    text = await chat_holds(front.served.client, place, told)
    quote = text[text.index(told) :].partition("\n")[0]
    assert shown(quote, "elsewhere").endswith(finish_notice(row.happens))
