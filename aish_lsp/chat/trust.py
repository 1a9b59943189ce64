"""``:trust``: what the workspace's own configuration asks for, and the user's word on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aish_lsp.chat.markdown import fence_for
from aish_lsp.config.granting import (
    asked_for,
    fingerprint_of,
    grant_by_consent,
    grant_seen,
    lines_of,
)
from aish_lsp.foundation.errors import Denied, InvalidArgument

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.config.loading import Configuration

USAGE: Final = "[grant|revoke]"
VERBS: Final = ("grant", "revoke")

_NOTHING: Final = "This workspace asks for nothing that needs your grant."
_GRANTED: Final = "Granted, from your next question on. `:trust revoke` takes it back."


async def trust_command(workspace: Workspace, argument: str) -> str:
    """Carry out ``:trust ARGUMENT``; return the answer, Markdown.

    Raises:
        InvalidArgument: unknown words.
        Denied: the user said no, or nobody could be asked; or the settings have changed since.
        StoreUnavailable, Busy: the grants cannot be read or written.
    """
    configuration = workspace.configuration
    verb, _, seen = argument.partition(" ")
    match verb:
        case "":
            answer = await _page(configuration)
        case "grant":
            answer = await _grant(workspace, seen.strip())
        case "revoke" if not seen:
            count = await asyncio.to_thread(configuration.revoke)
            grants = f"{count} grant{'' if count == 1 else 's'}"
            answer = f"Took back {grants}. What this workspace asks for has no effect."
        case _:
            raise InvalidArgument("Use `:trust`, `:trust grant` or `:trust revoke`.")
    workspace.changed()
    return answer


async def _grant(workspace: Workspace, seen: str) -> str:
    configuration = workspace.configuration
    if not await asked_for(configuration):
        return _NOTHING
    if seen:
        if not await grant_seen(configuration, seen):
            raise Denied("What the workspace asks for has changed. `:trust` shows it.")
        return _GRANTED
    answer = await grant_by_consent(configuration, workspace.services.ask_user)
    if answer:
        return _GRANTED
    if answer is False:
        raise Denied("Nothing was granted.")
    raise Denied("Your editor could not ask you. `:trust` shows all of it, and how to grant it.")


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
