"""``trust.*``: what the workspace's own configuration asks for, and whether the user allows it.

Only the user can grant anything.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.ports import Question, plain
from aish_lsp.foundation.text import count_of, cut, escaped
from aish_lsp.operations.markdown import quoted
from aish_lsp.operations.operation import Answer, Caller, Line, Target, operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent import Workspace
    from aish_lsp.config.loading import Configuration, TrustRequest

_NOTHING: Final = "This workspace asks for nothing that needs your grant."

#: The messages after a yes, after a no, and if nobody could be asked.
_ANSWERS: Final = {
    True: "Granted, from your next question on. `:trust revoke` takes it back.",
    False: "Nothing was granted: it was not confirmed.",
    None: (
        "Nothing was granted. Your editor could not ask you. `:trust` in the chat shows all of it,"
        " and how to grant it."
    ),
}


@dataclass(frozen=True, slots=True)
class Trust:
    """The settings of the workspace that need a grant, and which of them are granted.

    They come from its own configuration (`overlay`) and from the editor's settings (`settings`).
    """

    trusted: bool
    requests: tuple[TrustRequest, ...]


def _trust(workspace: Workspace) -> Trust:
    configuration = workspace.configuration
    return Trust(configuration.trusted, configuration.loaded.requests)


@operation(
    "trust.show",
    Target,
    Line("trust", help="what this workspace's own settings ask for, and whether you allow it"),
    shows=True,
    needs_settings=True,
)
async def show(caller: Caller, _params: Target) -> Answer[Trust]:
    """The settings of the workspace that need a grant, and which of them are granted.

    They come from its own configuration (`overlay`) and from the editor's settings (`settings`).

    Raises:
        StoreUnavailable: the grants cannot be read.
    """
    workspace = caller.workspace
    page = await _page(workspace.configuration)
    return Answer(_trust(workspace), page)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrustParams(Target):
    """Grant unasked what ``:trust`` showed as ``seen``. Users type it; clients cannot send it."""

    seen: str


def _read_grant(caller: Caller, argument: str) -> Target:
    # Anybody could compute the value and write it into the chat. If it was not typed, ask.
    return _TrustParams(seen=argument) if argument and caller.is_typed else Target()


@operation(
    "trust.grant",
    Target,
    Line("trust grant", "[SEEN]", "", _read_grant),
    asks=True,
    needs_settings=True,
)
async def grant(caller: Caller, params: Target) -> Answer[Trust]:
    """Grant what the workspace asks for, if the user agrees.

    The server asks, showing every key with its value, and only a yes counts. A grant covers exactly
    what was shown.

    Raises:
        Denied: what the workspace asks for has changed since it was shown.
        StoreUnavailable, Busy: the grants cannot be read or written.
    """
    workspace = caller.workspace
    waiting = await _asked_for(workspace.configuration)
    answer: bool | None = True
    seen = params.seen if isinstance(params, _TrustParams) else ""
    if waiting and not seen:
        answer = plain(await workspace.services.ask_user(_question(waiting)))
    elif waiting and seen != _fingerprint_of(waiting):
        # A user who cannot be asked passes the fingerprint of what they have seen.
        raise Denied("What the workspace asks for has changed. `:trust` shows it.")
    if waiting and answer:
        # If the workspace asks for something else now, that is not granted.
        await asyncio.to_thread(workspace.configuration.grant, waiting)
    workspace.changed()
    text = _ANSWERS[answer] if waiting else _NOTHING
    return Answer(_trust(workspace), text, is_told=not (waiting and answer))


@operation(
    "trust.revoke",
    Target,
    Line("trust revoke"),
    asks=True,
    needs_settings=True,
)
async def revoke(caller: Caller, _params: Target) -> Answer[Trust]:
    """Take back everything that was granted to the workspace.

    Raises:
        StoreUnavailable, Busy: the grants cannot be written.
    """
    workspace = caller.workspace
    count = await asyncio.to_thread(workspace.configuration.revoke)
    workspace.changed()
    text = f"Revoked {count_of(count, 'grant')}. What this workspace asks for has no effect."
    return Answer(_trust(workspace), text)


#: Characters of the fingerprint that grants without a question: too many for anybody to find two
#: requests with the same one and swap them after the first was shown.
_FINGERPRINT: Final = 32


#: How many characters of a line, and how many lines, a question shows: nobody reads more, and more
#: would push what matters out of sight.
_SHOWN: Final = 120
_MOST_LINES: Final = 12


def _question(waiting: Sequence[TrustRequest]) -> Question:
    """Return the question whether to grant ``waiting``; if cut, it includes the fingerprint."""
    asks = "This workspace asks for settings that can change what runs and what is sent:"
    lines = [line for request in waiting for line in _lines_of(request)]
    first = lines
    if len(lines) > _MOST_LINES:
        first = [line for request in waiting for line in _lines_of(_spread(request))]
    shown = [cut(line, _SHOWN) for line in first[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f"... and {count_of(len(lines) - _MOST_LINES, 'more line')}")
    whole = ""
    if shown != lines:
        whole = "\n".join([asks, *lines, ""])
        shown += ["", f"`:trust` in the chat shows all of it ({_fingerprint_of(waiting)})."]
    message = "\n".join([asks, *shown, "", "Grant exactly these?"])
    return Question(message, "Grant", whole=whole)


def _spread(request: TrustRequest) -> TrustRequest:
    """Return ``request`` with the tables' keys interleaved, so that no table hides the others."""
    seen: Counter[str] = Counter()
    ranked = []
    for one in request.asked:
        table = one.key.partition(".")[0]
        ranked.append((seen[table], one))
        seen[table] += 1
    ranked.sort(key=lambda one: one[0])
    return replace(request, asked=tuple(one for _, one in ranked))


async def _asked_for(configuration: Configuration) -> list[TrustRequest]:
    """Return the requests that are not granted yet, according to the current files."""
    await asyncio.to_thread(configuration.reload)
    return [request for request in configuration.loaded.requests if not request.granted]


def _fingerprint_of(requests: Sequence[TrustRequest]) -> str:
    """Return a short text that identifies exactly what is asked for."""
    together = "\n".join(sorted(f"{one.what} {one.name} {one.hash}" for one in requests))
    return hashlib.sha256(together.encode()).hexdigest()[:_FINGERPRINT]


def _lines_of(request: TrustRequest) -> list[str]:
    """Return a request in full: its source, then a line for each key with its value."""
    source = "the editor's settings" if request.what == "settings" else request.name
    asked = request.asked
    values = (f"  {one.key} = {json.dumps(one.value, ensure_ascii=False)}" for one in asked)
    return [f"from {source}:", *map(escaped, values)]


async def _page(configuration: Configuration) -> str:
    waiting = await _asked_for(configuration)
    granted = [request for request in configuration.loaded.requests if request.granted]
    if not waiting and not granted:
        return _NOTHING
    parts = []
    for heading, requests in (("Granted", granted), ("Has no effect until you grant it", waiting)):
        if requests:
            text = "\n".join(line for request in requests for line in _lines_of(request))
            parts.append(f"{heading}:\n\n{quoted(text, info='')}")
    if waiting:
        fingerprint = _fingerprint_of(waiting)
        parts.append(
            "`:trust grant` asks you once more; where your editor cannot ask, "
            f"`:trust grant {fingerprint}` grants exactly this."
        )
    return "\n\n".join(parts)
