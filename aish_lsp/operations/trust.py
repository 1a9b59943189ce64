"""``trust.*``: what the workspace's own configuration asks for, and the user's word on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.config.granting import (
    asked_for,
    fingerprint_of,
    grant_by_consent,
    grant_seen,
    lines_of,
)
from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.wording import count_of
from aish_lsp.operations.markdown import fence_for
from aish_lsp.operations.operation import Answer, Line, Place, Target, operation

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.config.loading import Configuration

_NOTHING: Final = "This workspace asks for nothing that needs your grant."
_GRANTED: Final = "Granted, from your next question on. `:trust revoke` takes it back."


@dataclass(frozen=True, slots=True)
class Asked:
    """A key that the workspace sets, and its value."""

    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class TrustRequest:
    """What one source of settings asks for; ``hash`` names exactly that."""

    what: str
    name: str
    asked: list[Asked]
    hash: str
    granted: bool


@dataclass(frozen=True, slots=True)
class Trust:
    """What the workspace asks for beyond what is harmless, and what of it is granted.

    It asks by its own configuration (`overlay`) and by the editor's settings (`settings`).

    Raises:
        StoreUnavailable: the grants cannot be read.
    """

    trusted: bool
    requests: list[TrustRequest]


def _trust(workspace: Workspace) -> Trust:
    configuration = workspace.configuration
    requests = [
        TrustRequest(
            request.what,
            request.name,
            [Asked(key, value) for key, value in request.asked],
            request.hash,
            request.granted,
        )
        for request in configuration.loaded.requests
    ]
    return Trust(configuration.trusted, requests)


@operation(
    "trust.show",
    Target,
    Line("trust", help="what this workspace's own settings ask for, and whether you allow it"),
    shows=True,
    needs_settings=True,
)
async def show(place: Place, _params: Target) -> Answer[Trust]:
    """What the workspace asks for beyond what is harmless, and what of it is granted.

    It asks by its own configuration (`overlay`) and by the editor's settings (`settings`).

    Raises:
        StoreUnavailable: the grants cannot be read.
    """
    workspace = place.workspace
    page = await _page(workspace.configuration)
    return Answer(_trust(workspace), page)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen(Target):
    """What ``:trust`` names by ``seen`` is granted, unasked. Not for a client: a user types it."""

    seen: str


def _read_grant(place: Place, argument: str) -> Target:
    # Anybody can work out what is to be pasted to grant: then the user is asked all the same.
    return _Seen(seen=argument) if argument and place.is_typed else Target()


@operation(
    "trust.grant",
    Target,
    Line("trust grant", "[SEEN]", "", _read_grant),
    asks=True,
    needs_settings=True,
)
async def grant(place: Place, params: Target) -> Answer[Trust]:
    """Grant it, if the user agrees.

    The server asks, showing every key with its value, and only a yes counts. A grant is for exactly
    what was shown.

    Raises:
        Denied: what the workspace asks for has changed since it was shown.
        StoreUnavailable, Busy: the grants cannot be read or written.
    """
    workspace, text, is_told = place.workspace, _GRANTED, False
    configuration = workspace.configuration
    if not await asked_for(configuration):
        text = _NOTHING
    elif isinstance(params, _Seen):
        if not await grant_seen(configuration, params.seen):
            raise Denied("What the workspace asks for has changed. `:trust` shows it.")
    else:
        answer = await grant_by_consent(configuration, workspace.services.ask_user)
        is_told = not answer
        if answer is False:
            text = "Nothing was granted: it was not confirmed."
        elif answer is None:
            text = (
                "Nothing was granted. Your editor could not ask you. `:trust` in the chat shows all"
                " of it, and how to grant it."
            )
    workspace.changed()
    return Answer(_trust(workspace), text, is_told=is_told)


@operation(
    "trust.revoke",
    Target,
    Line("trust revoke"),
    asks=True,
    needs_settings=True,
)
async def revoke(place: Place, _params: Target) -> Answer[Trust]:
    """Take back all that was granted to the workspace.

    Raises:
        StoreUnavailable, Busy: the grants cannot be written.
    """
    workspace = place.workspace
    count = await asyncio.to_thread(workspace.configuration.revoke)
    workspace.changed()
    text = f"Took back {count_of(count, 'grant')}. What this workspace asks for has no effect."
    return Answer(_trust(workspace), text)


async def _page(configuration: Configuration) -> str:
    waiting = await asked_for(configuration)
    granted = [request for request in configuration.loaded.requests if request.granted]
    if not waiting and not granted:
        return _NOTHING
    parts = []
    for heading, requests in (("Granted", granted), ("Has no effect until you grant it", waiting)):
        if requests:
            text = "\n".join(line for request in requests for line in lines_of(request))
            fence = fence_for(text)
            parts.append(f"{heading}:\n\n{fence}\n{text}\n{fence}")
    if waiting:
        fingerprint = fingerprint_of(waiting)
        parts.append(
            "`:trust grant` asks you once more; where your editor cannot ask, "
            f"`:trust grant {fingerprint}` grants exactly this."
        )
    return "\n\n".join(parts)
