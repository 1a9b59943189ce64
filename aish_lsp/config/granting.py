"""Granting what a workspace asks for, by the user's word alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aish_lsp.config.loading import Configuration, Request
from aish_lsp.foundation.ports import AskUser, Question
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.foundation.wording import count_of

#: Characters of what is pasted to grant without a question: enough that nobody finds two requests
#: of the same one, of which to show the first and put the second in its place.
_FINGERPRINT: Final = 32


#: Characters of a line and lines that a question shows: more is no longer read, or pushes what
#: matters out of sight.
_SHOWN: Final = 120
_MOST_LINES: Final = 12


async def grant_by_consent(configuration: Configuration, ask_user: AskUser) -> bool | None:
    """Grant what the workspace asks for, if the user says yes to all of it.

    What it asks for by then, where that is something else than was shown, is not granted.

    Return whether the user said yes; None where nobody could be asked. Where nothing waits for a
    grant, nobody is asked and the answer is yes.

    Raises:
        StoreUnavailable, Busy: see ``TrustStore.grant``.
    """
    waiting = await asked_for(configuration)
    if not waiting:
        return True
    answer = await ask_user(_question(waiting))
    if answer:
        await asyncio.to_thread(configuration.grant, waiting)
    return answer


def _question(waiting: Sequence[Request]) -> Question:
    """Return the question whether to grant what waits; long values are cut, with their hash."""
    asks = "This workspace asks for settings that can change what runs and what is sent:"
    lines = [line for request in waiting for line in lines_of(request)]
    first = lines
    if len(lines) > _MOST_LINES:
        first = [line for request in waiting for line in lines_of(_spread(request))]
    shown = [cut(line, _SHOWN) for line in first[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f"... and {count_of(len(lines) - _MOST_LINES, 'more line')}")
    whole = ""
    if shown != lines:
        whole = "\n".join([asks, *lines, ""])
        shown += ["", f"`:trust` in the chat shows all of it ({fingerprint_of(waiting)})."]
    message = "\n".join([asks, *shown, "", "Grant exactly these?"])
    return Question(message, "Grant", whole=whole)


def _spread(request: Request) -> Request:
    """Return ``request`` with the first keys of each table before the others: none hides them."""
    seen: Counter[str] = Counter()
    ranked = []
    for key, value in request.asked:
        table = key.partition(".")[0]
        ranked.append((seen[table], key, value))
        seen[table] += 1
    ranked.sort(key=lambda one: one[0])
    return replace(request, asked=tuple((key, value) for _, key, value in ranked))


async def grant_seen(configuration: Configuration, fingerprint: str) -> bool:
    """Grant what the workspace asks for if it is what ``fingerprint`` stands for; return whether.

    For a user who has seen it and cannot be asked.

    Raises:
        StoreUnavailable, Busy: see ``TrustStore.grant``.
    """
    waiting = await asked_for(configuration)
    if not waiting or fingerprint != fingerprint_of(waiting):
        return False
    await asyncio.to_thread(configuration.grant, waiting)
    return True


async def asked_for(configuration: Configuration) -> list[Request]:
    """Return what waits for a grant, by what the files hold now."""
    await asyncio.to_thread(configuration.reload)
    return [request for request in configuration.loaded.requests if not request.granted]


def fingerprint_of(requests: Sequence[Request]) -> str:
    """Return a short text that stands for exactly what is asked for."""
    together = "\n".join(sorted(f"{one.what} {one.name} {one.hash}" for one in requests))
    return hashlib.sha256(together.encode()).hexdigest()[:_FINGERPRINT]


def lines_of(request: Request) -> list[str]:
    """Return a request in full: its source, then a line for each key with its value."""
    source = "the editor's settings" if request.what == "settings" else request.name
    values = (f"  {key} = {json.dumps(value, ensure_ascii=False)}" for key, value in request.asked)
    return [f"from {source}:", *map(escaped, values)]
