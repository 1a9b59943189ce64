"""Asking the client: its user, by permission requests of the protocol, and for its texts of files.

What is not saved in the client is read there, and edited there.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from acp import RequestError, helpers, schema

from aish_lsp.acp.updates import shown_title
from aish_lsp.context.attached import LARGEST
from aish_lsp.foundation.ports import CALL, EditOutcome, Question
from aish_lsp.foundation.text import clipped, well_formed, with_line_feeds
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from aish_lsp.acp.updates import Updates
    from aish_lsp.foundation.ports import Approval, Choice, UserAnswer

logger = logging.getLogger(__name__)

#: Characters of a question that the client is sent.
_LONGEST: Final = 60_000

#: The protocol's word for each kind of approval, and what the text of one is called.
_KINDS: Final[Mapping[str, tuple[schema.ToolKind, str]]] = {
    "command": ("execute", "command"),
    "edit": ("edit", "file"),
    "tool": ("other", "tool"),
}


class Asks(Protocol):
    """A session whose user can be asked."""

    updates: Updates

    async def request(
        self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """Return the id of the option that the user chose; None without an answer."""
        ...


#: The session whose user is asked by what runs in this context.
ASKING: ContextVar[Asks | None] = ContextVar("asking", default=None)


async def ask_user(question: Question) -> UserAnswer:
    """Implement ``ports.AskUser``."""
    answers = question.answers
    chosen = await _asked(question, tuple(answers), question.approval)
    return None if chosen is None else [*answers.values()][chosen]


async def choose(choice: Choice) -> int | None:
    """Implement ``ports.Choose``."""
    return await _asked(choice, choice.options, None)


async def _asked(
    asked: Question | Choice, names: Sequence[str], approval: Approval | None
) -> int | None:
    """Return the index of the option that the user chose; the last one does nothing.

    The question is about the tool call of this context, or is shown as a call of its own.
    """
    session = ASKING.get()
    if session is None:
        return None
    call_id = CALL.get() or new_id()
    title = shown_title(approval.text if approval else asked.message.partition("\n")[0])
    kind = _KINDS[approval.kind][0] if approval else "other"
    await session.updates.begin_call(call_id, title, kind)
    call = schema.ToolCallUpdate(
        tool_call_id=session.updates.shown_id(call_id),
        title=title,
        kind=kind,
        status="pending",
        content=_content(asked, approval),
        locations=_locations(approval),
        raw_input=_parts(approval) if approval else None,
    )
    options = [
        schema.PermissionOption(
            option_id=str(at),
            name=name,
            kind=_kind(asked, name) if at < len(names) - 1 else "reject_once",
        )
        for at, name in enumerate(names)
    ]
    chosen: int | None = None
    try:
        answer = await session.request(call, options)
        offered = [option.option_id for option in options]
        chosen = offered.index(answer) if answer in offered else None
    finally:
        if not CALL.get():
            agreed = chosen is not None and chosen < len(names) - 1
            await session.updates.end_call(call_id, "completed" if agreed else "failed")
    return chosen


def _kind(asked: Question | Choice, name: str) -> schema.PermissionOptionKind:
    """Return what choosing a button does, for the client; all that is remembered is ``always``."""
    remember = asked.remember.values() if isinstance(asked, Question) else ()
    return "allow_always" if name in remember else "allow_once"


def _content(asked: Question | Choice, approval: Approval | None) -> list[Any]:
    """Return a question as the content of its tool call, below the change that it is about.

    CodeCompanion looks for a change in the first place alone.
    """
    text = "\n\n".join(filter(None, (asked.message, asked.whole)))
    content: list[Any] = [
        helpers.tool_content(helpers.text_block(well_formed(clipped(text, _LONGEST))))
    ]
    if approval is not None and (diff := approval.diff):
        before = well_formed(diff.before) or None
        change = helpers.tool_diff_content(os.fspath(diff.path), well_formed(diff.after), before)
        content.insert(0, change)
    return content


def _locations(approval: Approval | None) -> list[schema.ToolCallLocation] | None:
    diff = approval.diff if approval else None
    return [schema.ToolCallLocation(path=os.fspath(diff.path))] if diff else None


def _parts(approval: Approval) -> dict[str, object]:
    """Return what is to be approved in parts, for a client that displays them itself."""
    return {
        _KINDS[approval.kind][1]: well_formed(approval.text),
        "cwd": os.fspath(approval.cwd),
        "risk": approval.risk,
        "reasons": list(approval.reasons),
    }


async def client_text(path: Path) -> str | None:
    """Implement ``ports.OpenText``: None if the client's text is the one on the disk."""
    there = await _read(path)
    if there is None or there == await asyncio.to_thread(_on_disk, path):
        return None
    return with_line_feeds(there)


async def edit_in_client(path: Path, before: str, after: str) -> EditOutcome:
    """Implement ``ports.EditOpen``, for a file with a text that is not saved."""
    session, there = ASKING.get(), await _read(path)
    if session is None or there is None or not session.updates.files.write_text_file:
        return EditOutcome("refused", "the client does not accept edits")
    if with_line_feeds(there) != before:
        return EditOutcome("refused", "its text there has changed in the meantime")
    text = after.replace("\n", "\r\n") if "\r\n" in there else after
    updates = session.updates
    try:
        await updates.client.write_text_file(updates.session_id, str(path), text)
    except (RequestError, ConnectionError) as error:
        return EditOutcome("refused", f"the client says: {error}")
    saved = await asyncio.to_thread(_on_disk, path) == text
    return EditOutcome("saved" if saved else "unsaved")


async def _read(path: Path) -> str | None:
    """Return the text of a file as the client has it; None if it cannot say."""
    session = ASKING.get()
    if session is None or not session.updates.files.read_text_file:
        return None
    if not await asyncio.to_thread(path.is_file):
        return None
    updates = session.updates
    try:
        answer = await updates.client.read_text_file(updates.session_id, str(path))
    except (RequestError, ConnectionError, ValueError) as error:
        logger.info("the client did not read a file: %s", type(error).__name__)
        return None
    text: str = answer.content
    return text


def _on_disk(path: Path) -> str | None:
    """Return the text of a file on the disk; None if it is too large, or is no text."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        return data.decode() if len(data) <= LARGEST else None
    except (OSError, ValueError):
        return None
