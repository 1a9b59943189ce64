"""Two llama.cpp servers behind a load balancer, as one endpoint for several users."""

from __future__ import annotations

import itertools
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from conversing import Place, ask, forward_to
from fault_server import FaultServer, Peer, Request
from llama_server import LlamaServer, says

pytestmark = [pytest.mark.llama, pytest.mark.usefixtures("parts")]

#: Tokens of a cached prefix's end that llama.cpp may read again, and what a template opens with.
SEAM = 64
USERS = ("ada", "grace")


class Balancer:
    """The script of a ``FaultServer`` that hands each request on to one of some servers.

    Attributes:
        chats: the ports that answered the questions of each user.

    Args:
        ports: the servers.
        choose: returns a number for a request; those with the same go to the same server.
    """

    def __init__(self, ports: list[int], choose: Callable[[Request], int]) -> None:
        self._ports = ports
        self._choose = choose
        self.chats: defaultdict[str, list[int]] = defaultdict(list)

    async def __call__(self, request: Request, peer: Peer) -> None:
        port = self._ports[self._choose(request) % len(self._ports)]
        if request.path.endswith("/chat/completions"):
            self.chats[request.headers["x-user"]].append(port)
        await forward_to(port)(request, peer)


async def cached(tmp_path: Path, balancer: Balancer) -> list[tuple[int, int]]:
    """Have users ask twice, in turns; return what the second prompts had in common, and cached."""
    async with AsyncExitStack() as stack:
        endpoint = (await stack.enter_async_context(FaultServer(balancer))).url
        clients = []
        for user in USERS:
            (tmp_path / user).mkdir()
            place = Place.make(tmp_path / user)
            grammar = says(f"All is well, {user}.")
            place.configure(endpoint, grammar=grammar)
            with place.config.open("a", encoding="utf-8") as file:
                file.write(f'extra_headers = {{X-User = "{user}"}}\n')
            client = await stack.enter_async_context(place.client())
            await client.initialize(place.folder)
            clients.append(client)
        # Nothing but the base prompt is common to their conversations.
        firsts = [await ask(client, f"I am {user}. " * 600, "one")
                  for client, user in zip(clients, USERS, strict=True)]  # fmt: skip
        seconds = [await ask(client, "And now?", "two") for client in clients]
    return [
        (one["usage"]["inputTokens"], two["usage"]["cacheReadTokens"])
        for one, two in zip(firsts, seconds, strict=True)
    ]


async def test_prompt_caches_hold_where_the_balancer_hashes_a_header_and_not_where_it_takes_turns(
    tmp_path: Path,
) -> None:
    turns = itertools.count()

    def in_turn(request: Request) -> int:
        # The first questions of both, then the second ones.
        return next(turns) // 2 if request.path.endswith("/chat/completions") else 0

    def by_user(request: Request) -> int:
        return zlib.crc32(request.headers["x-user"].encode())

    found = {}
    for name, choose in {"hash": by_user, "turns": in_turn}.items():
        (tmp_path / name).mkdir()
        with LlamaServer() as one, LlamaServer() as other:
            balancer = Balancer([one.port, other.port], choose)
            found[name] = await cached(tmp_path / name, balancer)
            if name == "hash":
                assert [len(set(ports)) for ports in balancer.chats.values()] == [1, 1]
                assert len({ports[0] for ports in balancer.chats.values()}) == 2
    sys.stdout.write(f"tokens of the first prompt, cached of the second: {found}\n")
    assert all(read >= before - SEAM for before, read in found["hash"])
    assert all(read < before / 2 for before, read in found["turns"])
