"""Code actions on the checklists of a chat document: each line is kept, or dropped, by the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from aish_lsp.foundation.redaction import find_secret
from aish_lsp.foundation.text import clipped, escaped
from aish_lsp.lsp.kinds import REFACTOR_KIND
from aish_lsp.operations.checklist import ChecklistEntry, entries_around, is_box

if TYPE_CHECKING:
    from aish_lsp.lsp.chats import ChatDocuments
    from aish_lsp.lsp.open_documents import OpenDocuments

#: Characters of an item in a title.
_TITLE: Final = 80

#: Where the tick stands: ``- [ ]``.
_TICK: Final = 3


def checklist_actions(
    documents: OpenDocuments, chats: ChatDocuments, params: types.CodeActionParams
) -> Iterator[types.CodeAction]:
    """Yield what can be done with the lines of a checklist at a place of a chat document."""
    uri = params.text_document.uri
    text = documents.text(uri)
    if text is None or "- [" not in text or chats.at(uri) is None:
        return
    lines = text.split("\n")
    first, last = params.range.start.line, min(params.range.end.line, len(lines) - 1)
    at = next((number for number in range(first, last + 1) if is_box(lines[number])), None)
    if at is None:
        return
    entries = [entry for entry in entries_around(lines, at) if not entry.ticked]
    for entry in entries:
        if first <= entry.line <= last:
            if find_secret(entry.content) is None:
                yield _remember(documents, uri, [entry], f"Remember: {_titled(entry)}")
            yield types.CodeAction(
                f"Drop: {_titled(entry)}",
                kind=REFACTOR_KIND,
                edit=documents.edit(uri, [_without(documents, lines, entry)]),
            )
    sound = [entry for entry in entries if not entry.careful]
    if len(sound) > 1:
        yield _remember(documents, uri, sound, f"Remember all {len(sound)} of this list")


def _remember(
    documents: OpenDocuments, uri: str, entries: Sequence[ChecklistEntry], title: str
) -> types.CodeAction:
    """Return the action that ticks these lines and has what they say remembered."""
    accepted = [{"kind": entry.kind, "content": entry.content} for entry in entries]
    ticks = [
        types.TextEdit(
            types.Range(types.Position(entry.line, _TICK), types.Position(entry.line, _TICK + 1)),
            "x",
        )
        for entry in entries
    ]
    return types.CodeAction(
        title,
        kind=REFACTOR_KIND,
        edit=documents.edit(uri, ticks),
        command=types.Command(
            "Remember", "aish.memory.accept", arguments=[{"candidates": accepted, "uri": uri}]
        ),
    )


def _without(
    documents: OpenDocuments, lines: Sequence[str], entry: ChecklistEntry
) -> types.TextEdit:
    """Return the edit that takes a candidate away, with the notes on it."""
    end = types.Position(entry.end, 0)
    if entry.end == len(lines):
        # No line follows: not every editor knows a place behind the last one.
        end = types.Position(entry.end - 1, documents.width(lines[-1]))
    return types.TextEdit(types.Range(types.Position(entry.line, 0), end), "")


def _titled(entry: ChecklistEntry) -> str:
    short = clipped(escaped(entry.content), _TITLE)
    careful = "; ".join(entry.careful)
    return f"{short} ({careful})" if careful else short
