"""``aish.chat.*``: the chat documents of a client, their commands, completion and checklists.

Code actions on a checklist let the user keep or drop each of its lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from aish_lsp.chat.colon import completions_at
from aish_lsp.context.attached import CHAT
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import Busy
from aish_lsp.foundation.redaction import find_secret
from aish_lsp.foundation.text import clipped, escaped
from aish_lsp.lsp.chat_document import ChatDocument
from aish_lsp.lsp.protocol import REFACTOR_KIND, Begun, ChatPlace
from aish_lsp.operations.markdown import ChecklistEntry, entries_around, is_box
from aish_lsp.operations.operation import Target

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.sessions import Resumed
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.calls import Call
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.lsp.protocol import ChatParams
    from aish_lsp.lsp.selections import Selections
    from aish_lsp.lsp.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class ChatDocuments:
    """The chat documents of a client's workspaces."""

    _server: BaseServer
    _documents: OpenDocuments
    _workspaces: Workspaces
    _selections: Selections
    _chats: dict[Workspace, ChatDocument] = field(default_factory=dict, init=False)

    def of(self, workspace: Workspace) -> ChatDocument:
        """Return the chat document of ``workspace``."""
        if workspace not in self._chats:
            self._chats[workspace] = ChatDocument(
                self._server, self._documents, self._selections, workspace
            )
        return self._chats[workspace]

    def at(self, uri: str) -> ChatDocument | None:
        """Return the chat document at ``uri``, if there is one, even if we have not used it yet."""
        if not CHAT.search(uri):
            return None
        for chat in self._chats.values():
            if chat.is_at(uri):
                return chat
        chat = self.of(self._workspaces.resolve(Target(uri=uri)))
        return chat if chat.is_at(uri) else None

    def follow_closing(self, _uri: str) -> None:
        """Note that a document, which may be one of these, was closed."""
        for chat in self._chats.values():
            chat.follow_closing()

    def is_shown_at(self, uri: str | None) -> bool:
        """Return whether ``uri`` is an open chat document, so that the user sees its folder."""
        return uri is not None and self.at(uri) is not None

    def closed(self, workspace: Workspace) -> None:
        """Close the chat document of a workspace that was closed."""
        chat = self._chats.pop(workspace, None)
        if chat is not None:
            self._server.spawn(chat.aclose(), "close a chat")

    async def aclose(self) -> None:
        """Close all chat documents: the server is shutting down."""
        await asyncio.gather(*(chat.aclose() for chat in self._chats.values()))


def setup(
    server: BaseServer,
    documents: OpenDocuments,
    workspaces: Workspaces,
    chats: ChatDocuments,
) -> None:
    """Bind the commands, follow the documents, complete the ``:`` commands."""

    async def open_chat(_call: Call, params: ChatParams) -> object:
        workspace, guess = workspaces.resolve_or_guess(params)
        if guess and not chats.is_shown_at(params.uri):
            server.tell(f"This is the chat of {workspace.folder}, {guess}.")
        return ChatPlace(await chats.of(workspace).open(params.prompt))

    async def send(_call: Call, params: ChatParams) -> object:
        workspace = workspaces.resolve(params)
        chat = chats.of(workspace)
        own, meant = _name_of(chat.uri), _name_of(params.uri or "")
        if params.prompt is None and CHAT.search(params.uri or "") and own != meant:
            await chat.open()
            raise Busy(f"This is another editor's chat; yours is .aish/{own}.")
        return Begun(await chat.send(params.prompt))

    def changed(uri: str, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        chat = chats.at(uri)
        if chat is not None:
            chat.follow_changes(changes)

    def saved(uri: str) -> None:
        chat = chats.at(uri)
        if chat is not None:
            chat.saved()

    triggers = types.CompletionOptions(trigger_characters=[":", " ", "@", "/"])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, triggers)
    async def _complete(
        params: types.CompletionParams,
    ) -> list[types.CompletionItem] | types.CompletionList:
        return await _completions(documents, workspaces, chats, params)

    server.bind("aish.chat.open", open_chat)
    server.bind("aish.chat.send", send)
    documents.on_change.append(changed)
    documents.on_save.append(saved)
    documents.on_close.append(chats.follow_closing)
    workspaces.on_open(lambda workspace: _begin(server, workspace))
    workspaces.on_close(chats.closed)
    server.on_shutdown(chats.aclose)


def _name_of(uri: str) -> str:
    return uri.rpartition("/")[2].lower()


_KINDS: Final = {
    "command": types.CompletionItemKind.Keyword,
    "file": types.CompletionItemKind.File,
    "folder": types.CompletionItemKind.Folder,
}


async def _completions(
    documents: OpenDocuments,
    workspaces: Workspaces,
    chats: ChatDocuments,
    params: types.CompletionParams,
) -> list[types.CompletionItem] | types.CompletionList:
    """Return the completions at the cursor of a chat document: ``:`` commands, names of files."""
    uri, at = params.text_document.uri, params.position
    if chats.at(uri) is None:
        return []
    prefix = documents.prefix(uri, at)
    completions = await completions_at(
        workspaces.of_document(uri), prefix, documents.text(uri) or ""
    )
    items = []
    for number, one in enumerate(completions.items):
        start = types.Position(at.line, documents.width(prefix[: one.start]))
        item = types.CompletionItem(
            label=one.label,
            kind=_KINDS[one.kind],
            filter_text=one.insert,
            text_edit=types.TextEdit(types.Range(start, at), one.insert),
        )
        if completions.is_incomplete:
            # They are filtered and sorted by what was typed already.
            item.filter_text, item.sort_text = prefix[one.start :], f"{number:03}"
        else:
            item.detail = one.detail
        items.append(item)
    # The client asks for files again as the user types: only some of many were returned.
    return (
        types.CompletionList(is_incomplete=True, items=items)
        if completions.is_incomplete
        else items
    )


def _begin(server: BaseServer, workspace: Workspace) -> None:
    """Continue the last session of a workspace that was opened, if that is configured."""

    async def tell(beginning: Awaitable[Resumed | None]) -> None:
        resumed = await beginning
        for notice in resumed.notices if resumed else ():
            server.tell(notice)

    server.spawn(tell(workspace.sessions.begin()), "continue the last session")


#: The most characters of an item in a title.
_TITLE: Final = 80

#: The column of the tick in ``- [ ]``.
_TICK: Final = 3


def checklist_actions(
    documents: OpenDocuments, chats: ChatDocuments, params: types.CodeActionParams
) -> Iterator[types.CodeAction]:
    """Yield the actions on the lines of a checklist at a place in a chat document."""
    uri = params.text_document.uri
    text = documents.text(uri) if chats.at(uri) is not None else None
    if text is None or "- [" not in text:
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
    """Return the action that ticks these lines and remembers what they say."""
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
    """Return the edit that removes a candidate, with the notes on it."""
    end = types.Position(entry.end, 0)
    if entry.end == len(lines):
        # No line follows: not every editor accepts a place after the last line.
        end = types.Position(entry.end - 1, documents.width(lines[-1]))
    return types.TextEdit(types.Range(types.Position(entry.line, 0), end), "")


def _titled(entry: ChecklistEntry) -> str:
    short = clipped(escaped(entry.content), _TITLE)
    careful = "; ".join(entry.careful)
    return f"{short} ({careful})" if careful else short
