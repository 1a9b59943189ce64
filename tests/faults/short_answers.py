"""A short answer over each protocol, as its bytes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fault_server import Peer, chunk_of

ANSWER: Final = "All is well."


async def send_events(peer: Peer, *payloads: Any) -> None:
    """Send a whole stream of events."""
    await peer.head()
    for payload in payloads:
        await peer.event(payload)
    await peer.chunk(b"")


async def _chat(peer: Peer) -> None:
    await send_events(peer, chunk_of(ANSWER), chunk_of("", finish_reason="stop"), "[DONE]")


async def _responses(peer: Peer) -> None:
    delta = {"type": "response.output_text.delta", "delta": ANSWER}
    await send_events(
        peer, delta, {"type": "response.completed", "response": {"status": "completed"}}
    )


async def _messages(peer: Peer) -> None:
    block = {"type": "content_block_delta", "index": 0}
    delta = {**block, "delta": {"type": "text_delta", "text": ANSWER}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    await send_events(peer, delta, stop, {"type": "message_stop"})


async def _gemini(peer: Peer) -> None:
    candidate = {"content": {"parts": [{"text": ANSWER}]}, "finishReason": "STOP"}
    await send_events(peer, {"candidates": [candidate]})


async def _ollama(peer: Peer) -> None:
    await peer.head("200 OK", "application/x-ndjson")
    for line in ({"message": {"content": ANSWER}}, {"done": True, "done_reason": "stop"}):
        await peer.chunk(json.dumps(line).encode() + b"\n")
    await peer.chunk(b"")


#: Sends the answer, by protocol.
ANSWERS: Final[dict[str, Callable[[Peer], Awaitable[None]]]] = {
    "openai": _chat,
    "openai-responses": _responses,
    "anthropic": _messages,
    "gemini": _gemini,
    "ollama": _ollama,
}
