"""Code actions at the cursor: on a selection, and on the diagnostics there.

*Replace selection* replaces what was asked about with a block of the reply. Nothing is replaced
before the user has agreed: to a diff (``aish/approve``), or else to our question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types

from aish_lsp.chat.markdown import escape_reply
from aish_lsp.context.mentions import mention_of
from aish_lsp.context.selection import (
    Point,
    between,
    clamped,
    difference,
    replacement,
)
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import Denied, NotFound
from aish_lsp.foundation.opening import name_in
from aish_lsp.foundation.ports import Approval, Diff, Question
from aish_lsp.foundation.text import (
    clipped,
    count_of,
    escaped,
    hidden_characters,
    is_seen,
    one_line,
)
from aish_lsp.foundation.uris import path_of
from aish_lsp.lsp.base_server import can
from aish_lsp.lsp.protocol import REFACTOR_KIND, RUN_KIND, Replaced
from aish_lsp.lsp.questions import answer_before_asking
from aish_lsp.shell.blocks import Block, fenced_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.foundation.ports import AskUser
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.buffers import EditorBuffers
    from aish_lsp.lsp.calls import Call
    from aish_lsp.lsp.chats import ChatDocuments
    from aish_lsp.lsp.open_documents import OpenDocument, OpenDocuments
    from aish_lsp.lsp.protocol import ReplaceParams
    from aish_lsp.lsp.selections import SelectionQuestion, Selections
    from aish_lsp.lsp.workspaces import Workspaces

#: The most diagnostics in one place that get actions, and characters of one in a title.
_MOST_PROBLEMS: Final = 5
_TITLE: Final = 60

#: The most diagnostics that are sent with one question.
_MOST_SENT: Final = 20

#: Asks for a reply that can replace the selection.
_IN_A_BLOCK: Final = "Reply with the new text of exactly these lines in one fenced code block."


def selection_actions(
    documents: OpenDocuments,
    workspaces: Workspaces,
    chats: ChatDocuments,
    params: types.CodeActionParams,
) -> Iterator[types.CodeAction]:
    """Yield what can be asked about a place in an open document."""
    uri = params.text_document.uri
    text = documents.text(uri)
    # Our own diagnostics only say what can be run.
    problems = [problem for problem in params.context.diagnostics if problem.source != "aish"]
    # Many clients ask at each move of the cursor: a document is not split into lines for nothing.
    if text is None or (not problems and params.range.start == params.range.end):
        return
    looking = _Looking(documents, workspaces.folder_of(uri), uri, text.split("\n"))
    for problem in problems[:_MOST_PROBLEMS]:
        which = "" if len(problems) == 1 else f": {_titled(problem.message)}"
        yield from looking.problem_actions(problem, which)
    # In the chat, a range in one line may be just the word at the cursor, which some clients send.
    several = params.range.start.line != params.range.end.line
    if looking.holds_text(params.range) and (several or chats.at(uri) is None):
        yield from looking.selection_actions(params.range, problems)


class _Looking:
    """The document that the user is looking at."""

    def __init__(
        self, documents: OpenDocuments, folder: Path | None, uri: str, lines: Sequence[str]
    ) -> None:
        self._documents = documents
        self._uri = uri
        self._lines = lines
        path = path_of(uri)
        #: Its path in the workspace; empty if it is outside.
        self._path = name_in(folder, path) if path and folder else ""
        self._name = escaped(self._path or (path.name if path else "this document"))

    def holds_text(self, range_: types.Range) -> bool:
        """Return whether more than blanks or one character, Helix's cursor, is selected."""
        points = (self._documents.point(self._lines, at) for at in (range_.start, range_.end))
        start, end = sorted(clamped(self._lines, point) for point in points)
        return len(between(self._lines, start, end).strip()) > 1

    def selection_actions(
        self, range_: types.Range, problems: Sequence[types.Diagnostic]
    ) -> Iterator[types.CodeAction]:
        """Yield what can be asked about a selection."""
        first, last = sorted((range_.start, range_.end))
        last_line = last.line - (last.character == 0 and last.line > first.line)
        where = self._where(first.line, last_line)
        asked = {"uri": self._uri, "range": range_, "diagnostics": _wire_problems(problems)}
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
        """Yield what can be asked about a diagnostic; ``which`` distinguishes it from others."""
        first, last = problem.range.start.line, min(problem.range.end.line, len(self._lines) - 1)
        if not 0 <= first <= last:
            return
        # Whole lines: a diagnostic marks a word, and the fix is rarely in that word alone.
        whole = types.Range(
            types.Position(first, 0),
            types.Position(last, self._documents.width(self._lines[last])),
        )
        where = self._where(first, last)
        asked = {"uri": self._uri, "range": whole, "diagnostics": _wire_problems([problem])}
        fix = f"Suggest a fix for the problem that is reported in {where}. {_IN_A_BLOCK}"
        for title, prompt in (
            ("Explain this problem", f"Explain the problem that is reported in {where}."),
            ("Suggest a fix", fix),
        ):
            yield _ask(f"{title}{which}", prompt, asked, problem)

    def _where(self, first: int, last: int) -> str:
        lines = f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}"
        return f"{lines} of {self._name}"


def _ask(
    title: str, prompt: str, asked: dict[str, Any], problem: types.Diagnostic | None = None
) -> types.CodeAction:
    command = types.Command(title, "aish.ask", arguments=[{"prompt": prompt, **asked}])
    if problem is None:
        return types.CodeAction(title, kind=REFACTOR_KIND, command=command)
    # The kind that editors look for at a diagnostic.
    return types.CodeAction(title, kind=RUN_KIND, diagnostics=[problem], command=command)


def _wire_problems(problems: Sequence[types.Diagnostic]) -> list[dict[str, Any]]:
    """Return diagnostics as ``aish.ask`` takes them."""
    sent = ("range", "message", "severity", "source", "code")
    return [{name: getattr(problem, name) for name in sent} for problem in problems[:_MOST_SENT]]


def _titled(message: str) -> str:
    return clipped(escaped(one_line(message)), _TITLE)


#: The most changed lines that a question shows, and the most characters of each.
_SHOWN_LINES: Final = 25
_SHOWN: Final = 160

#: The most characters of a block in a title.
_REPLACE_TITLE: Final = 40


@dataclass(frozen=True, slots=True)
class Replacing:
    """Replaces text that was asked about with a block of the reply."""

    server: BaseServer
    documents: OpenDocuments
    buffers: EditorBuffers
    selections: Selections
    chats: ChatDocuments
    ask_user: AskUser

    async def replace(self, _call: Call, params: ReplaceParams) -> object:
        """Put a block of a reply in place, once the user has agreed.

        Raises:
            Busy: the client may show no question before this is answered; the user is asked later.
            Denied: there was no answer.
            NotFound: there is no such block, or the text has changed.
        """
        return await answer_before_asking(self.server, self._replace(params), lambda _: "")

    async def _replace(self, params: ReplaceParams) -> Replaced:
        asked, block = self.selections.of_turn(params.turn_id, params.block)
        # Check now, to avoid a pointless question, and again below.
        question = _question(asked, block, *self.selections.found(asked))
        answer = await self.ask_user(question)
        if answer is None:
            raise Denied("Not replaced: nobody answered. The block in the chat can be copied.")
        if not answer:
            return Replaced(applied=False)
        document, start, end = self.selections.found(asked)
        after = _replaced(block, document, start, end)
        reason = await self.buffers.make(document.uri, self._edit_of(asked, block), after)
        if reason:
            message = f"The editor did not make the edit: {reason}. Try again."
            self.server.tell(message, error=True)
        return Replaced(not reason)

    def actions(self, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
        """Yield the actions that replace what was asked about.

        They are offered in the document, at that text, and in the chat, on the block.
        """
        offered = self._offered(params.text_document.uri, params.range)
        for asked, number in offered:
            which = "" if len(offered) == 1 else f": {_titled_replacement(asked.blocks[number])}"
            title = f"Replace selection{which}"
            argument = {"turnId": asked.turn_id, "block": number, "uri": asked.uri}
            # The command asks, or says why the text cannot be replaced.
            command = types.Command(title, "aish.selection.replace", arguments=[argument])
            action = types.CodeAction(title, kind=REFACTOR_KIND, command=command)
            if can(self.server, "text_document.code_action.disabled_support"):
                try:
                    self.selections.found(asked)
                except NotFound as error:
                    action.command = None
                    action.disabled = types.CodeActionDisabled(error.message)
            yield action

    def _edit_of(self, asked: SelectionQuestion, block: Block) -> types.WorkspaceEdit:
        """Return the edit that puts a block in place of the selection.

        Raises:
            NotFound: the document is not open, or has changed there.
        """
        document, start, end = self.selections.found(asked)
        lines = document.text.split("\n")
        text = replacement(block.text, lines, start, end).replace("\n", document.line_end)
        place = types.Range(*(self.documents.position(lines, point) for point in (start, end)))
        return self.documents.edit(document.uri, [types.TextEdit(place, text)])

    def _offered(self, uri: str, range_: types.Range) -> list[tuple[SelectionQuestion, int]]:
        """Return questions, each with the number of a block that is offered at a place."""
        first, last = sorted((range_.start.line, range_.end.line))
        if self.chats.at(uri) is None:
            here = (
                asked
                for asked in self.selections
                if asked.uri == uri
                and asked.blocks
                and asked.span.start.line <= last
                and first <= asked.span.end.line
            )
            latest = next(here, None)
            return [(latest, number) for number in range(len(latest.blocks))] if latest else []
        text = self.documents.text(uri) or ""
        blocks = fenced_blocks(text)
        shown = [block.text for block in blocks if block.first <= last <= block.last]
        return [
            (asked, number)
            for asked in self.selections
            for number, block in enumerate(asked.blocks)
            if escape_reply(block.text) in shown
        ][:1]


def _question(
    asked: SelectionQuestion, block: Block, document: OpenDocument, start: Point, end: Point
) -> Question:
    """Return the question that shows what would change in the document."""
    lines = document.text.split("\n")
    text = replacement(block.text, lines, start, end)
    changes = difference(lines, text, start, end)
    if not changes:
        changes = ["Nothing would change: the same text is there."]
    shown = "\n".join(
        escaped(line[:_SHOWN]).replace("\\t", "    ") for line in changes[:_SHOWN_LINES]
    )
    more = len(changes) - _SHOWN_LINES
    rest = f"\n... {count_of(more, 'more line')}" if more > 0 else ""
    message = f"Replace {asked.place} with this?{_warning(block)}\n\n{shown}{rest}"
    question = Question(message, yes="Replace")
    path = path_of(asked.uri)
    if path is None:
        return question
    # A document that is a file is also shown as a diff.
    after = _replaced(block, document, start, end)
    reasons = tuple(filter(None, (_warning(block).strip(),)))
    diff = Diff(path, document.text, after)
    approval = Approval("edit", asked.name, path.parent, "caution", reasons, diff)
    return replace(question, approval=approval)


def _replaced(block: Block, document: OpenDocument, start: Point, end: Point) -> str:
    """Return a document's text with a block in place of a part of it."""
    lines = document.text.split("\n")
    text = replacement(block.text, lines, start, end)
    prefix, suffix = lines[start.line][: start.character], lines[end.line][end.character :]
    return "\n".join([*lines[: start.line], f"{prefix}{text}{suffix}", *lines[end.line + 1 :]])


def _warning(block: Block) -> str:
    """Return a warning of invisible characters in a block; empty if there are none."""
    hidden = ", ".join(hidden_characters(block.text)[:5])
    return f" It contains invisible characters: {hidden}." if hidden else ""


def _titled_replacement(block: Block) -> str:
    first = next(line.strip() for line in block.text.split("\n") if line.strip())
    return clipped(escaped(first), _REPLACE_TITLE)
