"""What may stand at the cursor of a chat: a ``:`` command with its arguments, a file's name."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aish_lsp.chat.colon import Completion, complete
from aish_lsp.chat.commands import COLON_COMMANDS
from aish_lsp.context.attached.mentions import Proposal, proposals, typed_name
from aish_lsp.foundation.errors import AishError
from aish_lsp.memory.items import KINDS, SCOPES
from aish_lsp.operations.checklist import last_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.memory.items import MemoryItem
    from aish_lsp.sessions.listing import SessionInfo

#: The commands, as they are typed without the colon, that a session's id or name may follow.
_TAKE_A_SESSION: Final = (
    *(f"session {verb}" for verb in ("resume", "delete", "history")),
    *("resume", "history"),
)


@dataclass(frozen=True, slots=True)
class FilesAt:
    """Files that may be named from the character ``start`` of the line on."""

    start: int
    files: list[Proposal]


async def files_at(workspace: Workspace, line_prefix: str) -> FilesAt | None:
    """Return the files that may be named at the cursor; None where none is being named."""
    typed = None if line_prefix.startswith(":") else typed_name(line_prefix)
    if typed is None:
        return None
    names = [*await workspace.files.lately()]
    return FilesAt(typed.start, await asyncio.to_thread(proposals, typed.name, names))


async def commands_at(workspace: Workspace | None, line_prefix: str, chat: str) -> list[Completion]:
    """Return the ``:`` commands and arguments that may stand at the cursor of a ``chat``."""
    values: dict[str, list[str]] = {}
    if workspace is not None:
        values["model"] = [*workspace.config.models, "offline"]
        if _takes_a_session(line_prefix):
            with contextlib.suppress(AishError):
                values |= session_values(await workspace.sessions.all())
        if line_prefix.startswith(":memory "):
            values |= memory_values(workspace.memory.items(), chat)
    return complete(COLON_COMMANDS, line_prefix, values)


def memory_values(items: Sequence[MemoryItem], chat: str) -> dict[str, list[str]]:
    """Return the words that may follow ``:memory VERB`` in a chat."""
    count = Counter(item.id for item in items)
    ids = [str(item.id) if count[item.id] == 1 else f"{item.scope}:{item.id}" for item in items]
    return {
        "memory add": list(KINDS),
        "memory forget": ids,
        "memory edit": ids,
        "memory clear": list(SCOPES),
        "memory accept": [str(one.number) for one in last_entries(chat) if one.number],
    }


def _takes_a_session(line_prefix: str) -> bool:
    """Return whether a session's id or name may stand at the cursor, ``line_prefix`` before it."""
    typed, _, _ = line_prefix.removeprefix(":").rpartition(" ")
    return " ".join(typed.split()) in _TAKE_A_SESSION


def session_values(infos: Sequence[SessionInfo]) -> dict[str, list[str]]:
    """Return what completes the commands that take a session: names first, then ids."""
    # What is completed is a single word.
    names = [info.name for info in infos if info.name and " " not in info.name]
    values = [*names, *(info.id for info in infos)]
    return dict.fromkeys(_TAKE_A_SESSION, values)
