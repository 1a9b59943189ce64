"""Code actions on what the user looks at: a selection, and what the editor complains of there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types

from aish_lsp.context.attached.mentions import mention_of
from aish_lsp.context.attached.selection import Point, between
from aish_lsp.foundation.text import clipped, escaped, is_seen, one_line, well_formed
from aish_lsp.lsp.protocol import REFACTOR_KIND, RUN_KIND
from aish_lsp.lsp.shapes import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.lsp.chats import ChatDocuments
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.lsp.workspaces import Workspaces

#: Diagnostics at one place that actions are offered for, and characters of one in a title.
_MOST_PROBLEMS: Final = 5
_TITLE: Final = 60

#: Diagnostics that go with one question.
_MOST_TOLD: Final = 20

#: What makes the reply one that can take the place of what was selected.
_IN_A_BLOCK: Final = "Reply with the new text of exactly these lines in one fenced code block."


def selection_actions(
    documents: OpenDocuments,
    workspaces: Workspaces,
    chats: ChatDocuments,
    params: types.CodeActionParams,
) -> Iterator[types.CodeAction]:
    """Yield what can be asked about a place of an open document."""
    uri = params.text_document.uri
    text = documents.text(uri)
    if text is None:
        return
    looking = _Looking(documents, workspaces.folder_of(uri), uri, text.split("\n"))
    # Ours only say what can be run.
    problems = [problem for problem in params.context.diagnostics if problem.source != "aish"]
    for problem in problems[:_MOST_PROBLEMS]:
        which = "" if len(problems) == 1 else f": {_titled(problem.message)}"
        yield from looking.problem_actions(problem, which)
    # In the chat a word is what the cursor is on: some clients send that, and mean nothing by it.
    several = params.range.start.line != params.range.end.line
    if looking.holds_text(params.range) and (several or chats.at(uri) is None):
        yield from looking.selection_actions(params.range, problems)


class _Looking:
    """One document that is looked at."""

    def __init__(
        self, documents: OpenDocuments, folder: Path | None, uri: str, lines: Sequence[str]
    ) -> None:
        self._documents = documents
        self._uri = uri
        self._lines = lines
        path = path_of(uri)
        #: Its path in the workspace; empty where it is not in one.
        self._path = path.relative_to(folder).as_posix() if path and folder else ""
        self._name = escaped(self._path or (path.name if path else "this document"))

    def holds_text(self, range_: types.Range) -> bool:
        """Return whether more is selected than blanks, or than the block that is Helix's cursor."""
        start, end = sorted((self._point(range_.start), self._point(range_.end)))
        return len(between(self._lines, start, end).strip()) > 1

    def selection_actions(
        self, range_: types.Range, problems: Sequence[types.Diagnostic]
    ) -> Iterator[types.CodeAction]:
        """Yield what can be asked about a selection."""
        first, last = sorted((range_.start, range_.end), key=lambda at: (at.line, at.character))
        last_line = last.line - (last.character == 0 and last.line > first.line)
        where = self._where(first.line, last_line)
        asked = {"uri": self._uri, "range": _plain(range_), "diagnostics": _told(problems)}
        yield _ask("Explain", f"Explain {where}.", asked)
        yield _ask("Fix", f"Fix what is wrong in {where}. {_IN_A_BLOCK}", asked)
        if self._path and is_seen(self._path):
            mention = mention_of(self._path, first.line + 1, last_line + 1)
            argument = {"prompt": mention, "uri": self._uri}
            yield types.CodeAction(
                "Ask about this",
                kind=REFACTOR_KIND,
                command=types.Command("Ask about this", "aish.chat.open", arguments=[argument]),
            )

    def problem_actions(self, problem: types.Diagnostic, which: str) -> Iterator[types.CodeAction]:
        """Yield what can be asked about a diagnostic; ``which`` tells it from others."""
        first, last = problem.range.start.line, min(problem.range.end.line, len(self._lines) - 1)
        if not 0 <= first <= last:
            return
        # The whole lines: what is complained of is a word, and the cure is seldom in it.
        whole = types.Range(
            types.Position(first, 0),
            types.Position(last, self._documents.width(self._lines[last])),
        )
        where = self._where(first, last)
        asked = {"uri": self._uri, "range": _plain(whole), "diagnostics": _told([problem])}
        fix = f"Suggest a fix for the problem that is reported in {where}. {_IN_A_BLOCK}"
        for title, prompt in (
            ("Explain this problem", f"Explain the problem that is reported in {where}."),
            ("Suggest a fix", fix),
        ):
            yield _ask(f"{title}{which}", prompt, asked, problem)

    def _where(self, first: int, last: int) -> str:
        lines = f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}"
        return f"{lines} of {self._name}"

    def _point(self, at: types.Position) -> Point:
        """Return a position in characters; one that is nowhere means the nearest that is."""
        if at.line >= len(self._lines):
            return Point(len(self._lines) - 1, len(self._lines[-1]))
        line = self._lines[max(0, at.line)]
        return Point(max(0, at.line), self._documents.characters(line, at.character))


def _ask(
    title: str, prompt: str, asked: dict[str, Any], problem: types.Diagnostic | None = None
) -> types.CodeAction:
    command = types.Command(title, "aish.ask", arguments=[{"prompt": prompt, **asked}])
    if problem is None:
        return types.CodeAction(title, kind=REFACTOR_KIND, command=command)
    # Of the kind that editors look for where there is a diagnostic.
    return types.CodeAction(title, kind=RUN_KIND, diagnostics=[problem], command=command)


def _told(problems: Sequence[types.Diagnostic]) -> list[dict[str, Any]]:
    """Return diagnostics as ``aish.ask`` takes them."""
    return [
        {
            "range": _plain(problem.range),
            "message": well_formed(problem.message),
            "severity": None if problem.severity is None else int(problem.severity),
            "source": None if problem.source is None else well_formed(problem.source),
            "code": well_formed(code) if isinstance(code := problem.code, str) else code,
        }
        for problem in problems[:_MOST_TOLD]
    ]


def _plain(range_: types.Range) -> dict[str, dict[str, int]]:
    """Return a range as JSON has it."""
    return {
        name: {"line": max(0, at.line), "character": max(0, at.character)}
        for name, at in (("start", range_.start), ("end", range_.end))
    }


def _titled(message: str) -> str:
    return clipped(escaped(one_line(message)), _TITLE)
