"""Hints on what can be run in documents, made while others have their turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest
from lsprotocol import types

from aish_lsp.lsp import suggestions as module
from aish_lsp.lsp.suggestions import Suggestions
from aish_lsp.shell.risk import classify

MANY = "".join(f"CMD: git log --oneline -n {number}\n" for number in range(200))


class Editor:
    """One open document of a client that shows hints; it stands in for all that is needed."""

    client_capabilities = types.ClientCapabilities()

    def __init__(self, text: str) -> None:
        self.document: str | None = text
        self.hints: list[int] = []
        self.task: asyncio.Task[Any] | None = None
        editor = cast("Any", self)
        self.suggestions = Suggestions(editor, editor, editor, editor, ())

    async def update(self) -> None:
        self.suggestions.changed()
        assert self.task is not None
        await self.task

    # The server

    protocol = property(lambda self: self)

    def spawn(self, work: Any, name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        if "hints" in name:
            self.task = task
        return task

    def text_document_publish_diagnostics(self, params: types.PublishDiagnosticsParams) -> None:
        self.hints.append(len(params.diagnostics))

    # The documents, of no workspace, and no chat

    def uris(self) -> list[str]:
        return [] if self.document is None else ["file:///notes.md"]

    def text(self, _: str) -> str | None:
        return self.document

    def width(self, line: str) -> int:
        return len(line)

    def of_document(self, _: str) -> None:
        return None

    at = of_document


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return what sets a function that is called whenever a command is judged."""
    monkeypatch.setattr(module, "_PAUSE", 0)

    def tell(called: Callable[[], object]) -> None:
        def judged(*args: Any, **options: Any) -> Any:
            called()
            return classify(*args, **options)

        monkeypatch.setattr(module, "classify", judged)

    return tell


async def test_others_have_their_turn_while_many_commands_are_judged(judging: Any) -> None:
    turn, judged = 0, Counter[int]()

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    judging(lambda: judged.update([turn]))
    editor, work = Editor(MANY), asyncio.create_task(others())
    await editor.update()
    work.cancel()
    assert editor.hints == [200]
    # Each is judged once, and a few of them between two turns of others.
    assert judged.total() == 200
    assert max(judged.values()) <= 10


@pytest.mark.parametrize(("after", "hints"), [("CMD: ls\n", [1]), (None, [])])
async def test_a_document_that_is_changed_or_closed_meanwhile_gets_no_hints_of_its_old_text(
    judging: Any, after: str | None, hints: list[int]
) -> None:
    editor = Editor(MANY)

    def change() -> None:
        if editor.document == MANY:
            editor.document = after
            editor.suggestions.changed()

    judging(change)
    await editor.update()
    assert editor.hints == hints
