"""A proxy before llama.cpp that keeps each request, and has the model say what a script says.

The models of the tests are of random weights: a grammar that is added to each request makes them
say it. All else is handed on as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from fault_server import Peer, Request

from aish_lsp.context.prompt import wording


@dataclass(frozen=True)
class Call:
    """A chat completion as it went over the wire: what was sent, and what llama.cpp made of it.

    ``usage`` is empty where no reply came to its end.
    """

    messages: list[dict[str, Any]]
    status: int = 0
    usage: dict[str, Any] = field(default_factory=dict)

    @property
    def is_summary(self) -> bool:
        """Whether it asks for a summary, not for a reply."""
        beginning, _, _ = wording("summary").partition("{")
        return str(self.messages[0]["content"]).startswith(beginning)

    @property
    def prompt_tokens(self) -> int:
        """The request's tokens, as llama.cpp counted them."""
        return int(self.usage.get("prompt_tokens", 0))

    @property
    def cached_tokens(self) -> int:
        """Those of them that it had read before."""
        return int(self.usage.get("prompt_tokens_details", {}).get("cached_tokens", 0))

    @property
    def output_tokens(self) -> int:
        """The reply's tokens, reasoning among them."""
        return int(self.usage.get("completion_tokens", 0))


class SpeakingProxy:
    """The script of a ``FaultServer`` that hands on to llama.cpp.

    Attributes:
        calls: the chat completions that are over, in order.

    Args:
        url: llama.cpp's address.
        http: speaks to it.
        says: what is replied to a request.
    """

    def __init__(self, url: str, http: httpx.AsyncClient, says: Callable[[Call], str]) -> None:
        self._url = url
        self._http = http
        self._says = says
        self.calls: list[Call] = []

    async def hand_on(self, request: Request, peer: Peer) -> None:
        """Hand a request on to llama.cpp, and the answer back."""
        is_chat = request.path.endswith("/chat/completions")
        body, received = request.body, b""
        if is_chat:
            grammar = await self._grammar(self._says(Call(request.json["messages"])))
            body = json.dumps(request.json | {"grammar": grammar}).encode()
        head = {"Content-Type": "application/json"}
        url = f"{self._url}{request.path}"
        async with self._http.stream(request.method, url, content=body, headers=head) as answer:
            status = f"{answer.status_code} {answer.reason_phrase}"
            await peer.head(status, answer.headers["content-type"])
            async for data in answer.aiter_bytes():
                if data:
                    received += data
                    await peer.chunk(data)
        if is_chat:
            # Before the client knows of the end.
            call = Call(request.json["messages"], answer.status_code, _usage(received))
            self.calls.append(call)
        await peer.chunk(b"")

    async def _grammar(self, text: str) -> str:
        """Return the grammar that forces ``text``, in the tokens that a trained model would use.

        A model that knows nothing takes any tokens that spell a text, and would say it in far more
        of them than the text has when it goes back.
        """
        asked = {"content": text, "parse_special": True, "with_pieces": True}
        answer = await self._http.post(f"{self._url}/tokenize", json=asked)
        return f"root ::= {' '.join(_terminals(answer.json()['tokens']))}"


def _terminals(tokens: Sequence[dict[str, Any]]) -> list[str]:
    """Return the grammar's terminals for tokens: their ids.

    llama.cpp's grammar takes no token that ends within a character: such ones, up to the
    character's end, are given as text.
    """
    terminals: list[str] = []
    partial = b""
    for token in tokens:
        piece = token["piece"]
        if isinstance(piece, str) and not partial:
            terminals.append(f"<[{token['id']}]>")
            continue
        partial += piece.encode() if isinstance(piece, str) else bytes(piece)
        try:
            terminals.append(json.dumps(partial.decode(), ensure_ascii=False))
        except UnicodeDecodeError:
            continue
        partial = b""
    return terminals


def _usage(stream: bytes) -> dict[str, Any]:
    """Return what the server-sent events of a reply say of its tokens."""
    usage: dict[str, Any] = {}
    for line in stream.decode().splitlines():
        if line.startswith("data: {"):
            usage = json.loads(line.removeprefix("data: ")).get("usage") or usage
    return usage
