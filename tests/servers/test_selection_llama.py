"""A selection that goes to a real llama.cpp server, and the block of its reply in its place."""

from __future__ import annotations

from typing import Any

import pytest
from conversing import Place, ask, events, yes
from llama_server import LlamaServer, says
from selection_parts import Document

pytestmark = pytest.mark.llama

REPLY = "So:\n```python\nreturn '😀'\n```\n"
CODE = "def f(x):\n    y = x\n    return y\n"


def span(*numbers: int) -> Any:
    first, one, last, other = numbers
    return {
        "start": {"line": first, "character": one},
        "end": {"line": last, "character": other},
    }


async def test_what_is_selected_is_explained_and_replaced(place: Place, llama: LlamaServer) -> None:
    place.configure(llama.url, grammar=says(REPLY))
    with place.config.open("a") as config:
        # A count that comes too late on a loaded machine falls back to an estimate.
        config.write("[tokenize]\nuse_endpoint = true\ntimeout_ms = 30000\n")
    # A byte is a token to this model: it is longer than the whole window.
    long = "".join(f"# line {number} of many 😀\n" for number in range(1000))
    uri = (place.folder / "app.py").as_uri()
    async with place.client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(place.folder)
        document = await Document(client, uri).open(CODE + long)

        async def make(params: Any) -> Any:
            [change] = params["edit"]["documentChanges"][0]["edits"]
            await document.change(change["newText"], change["range"])
            return {"applied": True}

        client.answers["workspace/applyEdit"] = make

        short = await ask(client, "shorter?", "a", uri=uri, range=span(1, 0, 3, 0))
        assert short["text"] == REPLY
        assert [part["kind"] for part in short["attached"]] == ["selection", "definition"]
        replaced = {"turnId": short["turnId"]}
        assert await client.command_result("aish.selection.replace", replaced) == {"applied": True}
        [request] = client.asked("workspace/applyEdit")
        [change] = request["edit"]["documentChanges"]
        assert change["edits"] == [{"range": span(1, 0, 3, 0), "newText": "    return '😀'\n"}]

        whole = await ask(client, "and this?", "b", uri=uri, range=span(2, 0, 1002, 0))
        assert (whole["text"], whole["error"], whole["evictedTurns"]) == (REPLY, None, 0)
        assert [(part["kind"], part["cut"]) for part in whole["attached"]] == [("selection", True)]
        [start] = events(client, "b", "start")
        # What was counted is what the server read, to the token.
        assert start["contextTokens"] == whole["usage"]["inputTokens"] <= start["tokenBudget"]
        again = await ask(client, "and this?", "c", uri=uri, range=span(2, 0, 1002, 0))
        assert (again["text"], again["error"]) == (REPLY, None)
        assert again["usage"]["inputTokens"] <= start["tokenBudget"]
