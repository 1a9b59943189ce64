"""The client's texts of files: what is not saved there is read, and edited there."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from acp import RequestError

from aish_lsp.acp.asking import ASKING
from aish_lsp.context.attached import LARGEST
from aish_lsp.foundation.ports import EditOutcome
from aish_lsp.foundation.text import with_line_feeds

logger = logging.getLogger(__name__)


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
