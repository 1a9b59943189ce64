"""Model servers as they are: a quirk is taken as it is meant, a refusal is met in another form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from client import RpcError
from context_parts import asked, chats, configure, counted, notices, run, says, tell
from conversing import SHOWS_NOTHING, Place, ask
from fault_server import FaultServer, Peer, Request, Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]


def refusing(
    is_wrong: Callable[[Json], bool], words: str, status: str = "400 Bad Request", **fields: Any
) -> Script:
    """Answer, but refuse with ``words`` what ``is_wrong``."""

    async def script(request: Request, peer: Peer) -> None:
        if is_wrong(request.json):
            await peer.reply({"error": {"message": words, **fields}}, status)
        else:
            await says()(request, peer)

    return script


def has(field: str) -> Callable[[Json], bool]:
    return lambda body: field in body


#: What a server refuses, its words, and the notice. Each was reported of a real server.
FIELDS: dict[str, tuple[Callable[[Json], bool], str, str]] = {
    "temperature": (
        has("temperature"),
        (
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the"
            " default (1) value is supported."
        ),
        "does not accept `temperature`, which is left out",
    ),
    "top_p": (has("top_p"), "top_p: Extra inputs are not permitted", "does not accept `top_p`"),
    "seed": (has("seed"), "Unrecognized request argument supplied: seed", "not accept `seed`"),
    "effort": (
        lambda body: body.get("reasoning_effort") != "none",
        (
            "Function tools with reasoning_effort are not supported for m in /v1/chat/completions."
            " To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        ),
        "wants `reasoning_effort` to be 'none'",
    ),
    "system": (
        lambda body: body["messages"][0]["role"] == "system",
        "Jinja Exception: System role not supported",
        "takes no system message",
    ),
}

SETTINGS = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "reasoning_effort": "low"}


@pytest.mark.parametrize("case", FIELDS)
async def test_a_refused_part_is_left_out_once_and_for_all(served: Any, case: str) -> None:
    client, place = served.client, served.place
    configure(place, {"endpoint": served.model.url, **SETTINGS})
    is_wrong, words, told = FIELDS[case]
    served.script = refusing(is_wrong, words)
    result = await ask(client, "Well?", "t")
    assert (result["text"], result["error"]) == ("All is well.", None)
    [notice] = notices(client, "t")
    assert told in notice
    result = await ask(client, "And now?", "next")
    assert (result["text"], notices(client, "next")) == ("All is well.", [])
    first, *others = chats(served.model)
    assert len(others) == 2
    # All else is as it was.
    for other in others:
        changed = {name for name in first.json if other.json.get(name) != first.json[name]}
        assert changed <= {"messages", *({case} & set(SETTINGS)), "reasoning_effort"}
        assert other.json["max_tokens"] == 256
        assert not is_wrong(other.json)


async def test_a_server_that_refuses_every_form_leaves_the_session_usable(served: Any) -> None:
    client, place = served.client, served.place
    configure(place, {"endpoint": served.model.url, **SETTINGS})
    names = iter([*SETTINGS, "top_k"])

    async def script(request: Request, peer: Peer) -> None:
        words = f"Unsupported parameter: '{next(names, 'model')}'"
        await peer.reply({"error": {"message": words}}, "400 Bad Request")

    served.script = script
    with pytest.raises(RpcError) as caught:
        await ask(client, "Well?", "t")
    assert "What was tried: its server does not accept `temperature`" in caught.value.message
    assert len(chats(served.model)) == len(SETTINGS) + 1
    served.script = says()
    result = await ask(client, "And now?", "next")
    assert (result["text"], result["error"]) == ("All is well.", None)


async def test_a_refusal_in_other_words_is_known_by_its_numbers(served: Any) -> None:
    client, place = served.client, served.place
    configure(place, {"endpoint": served.model.url})
    served.script = says()
    await tell(client, 4, 1800)

    async def script(request: Request, peer: Peer) -> None:
        tokens = counted(request)
        words = f"length of prompt_tokens ({tokens}) must be less than max_seq_len (1500)"
        if tokens > 1500:
            await peer.reply({"error": {"message": words}}, "400 Bad Request")
        else:
            await says()(request, peer)

    served.script = script
    served.model.requests.clear()
    result = await ask(client, "And what is open?", "t")
    assert (result["text"], result["error"]) == ("All is well.", None)
    assert result["evictedTurns"] > 0
    await run(client)
    result = await ask(client, "And now?", "next")
    assert (result["text"], notices(client, "next")) == ("All is well.", [])
    assert len(asked(served.model)) == 3


async def test_what_is_wrong_in_the_environment_is_told_at_the_first_question(
    place: Place,
) -> None:
    async with FaultServer(says()) as proxy:
        configure(place, {"endpoint": "http://model.invalid/v1"})
        variables = {"SSL_CERT_FILE": "/nowhere.pem", "NO_PROXY": "<local>", "no_proxy": "<local>"}
        variables |= dict.fromkeys(("HTTP_PROXY", "http_proxy"), proxy.url)
        async with place.client("stdio", **variables) as client:
            await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
            for token in "ab":
                result = await ask(client, "Well?", token)
                assert (result["text"], result["error"]) == ("All is well.", None)
            told = [notice.split()[0] for notice in notices(client, "a")]
            assert told == ["SSL_CERT_FILE", "NO_PROXY"]
            assert notices(client, "b") == []


async def test_a_template_with_an_error_of_its_own_status(served: Any) -> None:
    """llama.cpp answers with 500 where a template raises an exception."""
    client, place = served.client, served.place
    configure(place, {"endpoint": served.model.url})
    words = (
        "After the optional system message, conversation roles must alternate user and assistant"
        " roles except for tool calls and results. at row 189, column 164"
    )
    served.script = refusing(
        lambda body: body["messages"][0]["role"] == "system", words, "500 Internal Server Error"
    )
    result = await ask(client, "Well?", "t")
    assert (result["text"], result["error"]) == ("All is well.", None)
    [_, messages] = asked(served.model)
    assert [message["role"] for message in messages] == ["user"]
    assert messages[0]["content"].endswith("\n\nWell?")
