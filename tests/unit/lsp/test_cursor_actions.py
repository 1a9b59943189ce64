"""What code actions cost where the cursor is in a long document, and selects nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lsprotocol import types

from aish_lsp.lsp.chats import checklist_actions
from aish_lsp.lsp.selection_actions import selection_actions

URI = "file:///x/notes.md"


class Searched(str):
    """A text that notes whether all of it was looked through."""

    __slots__ = ("searched",)

    def split(self, *arguments: Any, **options: Any) -> list[str]:
        self.searched = True
        return super().split(*arguments, **options)

    def __contains__(self, part: object) -> bool:
        self.searched = True
        return super().__contains__(part)  # type: ignore[operator]


def test_cursor_that_selects_nothing_offers_nothing_and_searches_no_text() -> None:
    text = Searched("- [ ] a\nline\n" * 3)
    text.searched = False
    documents: Any = SimpleNamespace(text=lambda _: text)
    workspaces: Any = SimpleNamespace(folder_of=lambda _: None)
    chats: Any = SimpleNamespace(at=lambda _: None)
    at = types.Range(types.Position(1, 2), types.Position(1, 2))
    ours = types.Diagnostic(at, "Run with a code action", source="aish")
    context = types.CodeActionContext([ours])
    params = types.CodeActionParams(types.TextDocumentIdentifier(URI), at, context)
    assert not list(selection_actions(documents, workspaces, chats, params))
    assert not list(checklist_actions(documents, chats, params))
    assert not text.searched
