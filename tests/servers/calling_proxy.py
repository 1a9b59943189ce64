"""A way to have a real llama.cpp call tools, although its model knows nothing.

llama.cpp takes no grammar beside tools that may be called. So a request goes to it with the tools
in its prompt and a grammar that forces the call as the template writes it; what comes back is put
into the fields that llama.cpp itself would have used. All else (template, tokens, usage) is real.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

from conversing import forward_to
from fault_server import Peer, Request
from llama_server import LlamaServer, says

#: A reply: what it says, and what it calls, each a name with its arguments.
Reply = tuple[str, Sequence[tuple[str, dict[str, Any]]]]


class Caller:
    """Has ``llama`` give ``replies``, one a request, the last one again and again.

    Attributes:
        sent: the bodies of the requests.
        read: the tokens of each, by llama.cpp's own count.
    """

    def __init__(self, llama: LlamaServer, replies: Sequence[Reply]) -> None:
        self._llama = llama
        self.replies = list(replies)
        self.sent: list[Any] = []
        self.read: list[int] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        """Answer a request."""
        if not request.path.endswith("/chat/completions"):
            await forward_to(self._llama.port)(request, peer)
            return
        self.sent.append(request.json)
        said, calls = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        written = "".join(
            "\n<tool_call>\n"
            + json.dumps({"name": name, "arguments": arguments})
            + "\n</tool_call>"
            for name, arguments in calls
        )
        reply = await asyncio.to_thread(self.forced, says(said + written))
        self.read.append(reply["usage"]["prompt_tokens"])
        content = reply["choices"][0]["message"]["content"]
        text, *found = content.split("\n<tool_call>\n")
        await peer.head()
        if text:
            await peer.event({"choices": [{"index": 0, "delta": {"content": text}}]})
        for index, row in enumerate(found):
            name, arguments = self.parted(row.removesuffix("\n</tool_call>"))
            function = {"name": name, "arguments": arguments}
            delta = {"index": index, "id": f"c{len(self.sent)}_{index}", "type": "function"}
            whole = {"tool_calls": [{**delta, "function": function}]}
            await peer.event({"choices": [{"index": 0, "delta": whole}]})
        reason = "tool_calls" if found else reply["choices"][0]["finish_reason"]
        await peer.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        await peer.event({"choices": [], "usage": reply["usage"]})
        await peer.event("[DONE]")

    def parted(self, call: str) -> tuple[str, str]:
        """Return the name and the arguments of a call as it was written."""
        found = json.loads(call)
        return found["name"], json.dumps(found["arguments"])

    def forced(self, grammar: str) -> Any:
        """Return what llama.cpp answers the last request with, as a grammar has it."""
        body = {name: value for name, value in self.sent[-1].items() if name != "stream_options"}
        body |= {"stream": False, "grammar": grammar, "tool_choice": "none"}
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self._llama.url}/v1/chat/completions", data=data, headers=headers
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as reply:
            return json.load(reply)
