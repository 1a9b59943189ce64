"""What can be run in documents: the code actions, code lenses and hints that offer it.

These are the ``CMD: `` lines of any document and, in the chat, also the fenced blocks of a reply.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from lsprotocol import types

from aish_lsp.chat.colon import run_block
from aish_lsp.chat.markdown import OUTPUT_OPENING
from aish_lsp.chat.transcript import running
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import clipped, escaped
from aish_lsp.lsp.base_server import can
from aish_lsp.lsp.protocol import REFACTOR_KIND, RUN_KIND
from aish_lsp.shell.blocks import PREFIX, FoundCommand, fenced_blocks, shell_block
from aish_lsp.shell.risk import classify
from aish_lsp.shell.suggestions import suggestions_in

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.foundation.events import Risk
    from aish_lsp.lsp.base_server import BaseServer
    from aish_lsp.lsp.chats import ChatDocuments
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.lsp.workspaces import Workspaces
    from aish_lsp.shell.suggestions import Suggestion

_Item = TypeVar("_Item")

#: Returns further actions at a place.
Offer: TypeAlias = "Callable[[types.CodeActionParams], Iterable[types.CodeAction]]"

#: A code lens as JSON has it: to convert a thousand of LSP's own takes five times as long as all
#: else that answering with them takes.
_Lens: TypeAlias = dict[str, Any]

#: Seconds after a change before hints are updated.
_PAUSE = 0.2

#: The most lines of a document that are offered: it may have millions, and hints judge each.
_MOST_LINES = 500

#: How many commands are found or judged at once; then others get their turn.
_AT_ONCE = 5

#: Seconds within which a client must answer that it will ask for lenses again.
_ANSWER = 5.0

#: The most characters of a command in a title; all of it is shown before it runs.
_TITLE = 80

#: What the chat puts before a line of a reply that would pass for one of ours.
_ESCAPE: Final = re.compile(r"^([ \t]*)\\(?=[:#-])", re.MULTILINE)


class _Rank(IntEnum):
    """The place of an action in the list, the lowest first."""

    HERE = 0
    OTHER = 1
    DANGEROUS = 2
    LAST = 3


@dataclass(frozen=True, slots=True)
class Runnable:
    """A ``CMD: `` line with those that complete it, or a fence: its first and last line.

    ``waiting`` is its suggestion, if that has not been run or dismissed; a fence always has one.
    ``is_whole``: it does not lack its end. ``workspace`` judges what is no suggestion.
    """

    first: int
    last: int
    text: str
    waiting: Suggestion | None = None
    is_whole: bool = True
    workspace: Workspace | None = None

    @classmethod
    def of(cls, waiting: Suggestion, first: int = 0, last: int = 0) -> Runnable:
        """Return a suggestion that was not run yet, at its lines in a document if it has any."""
        return cls(first, last, waiting.info.text, waiting)

    @property
    def risk(self) -> Risk:
        """Its risk. To judge it takes a tenth of a millisecond, and more for a long one."""
        if self.waiting:
            return self.waiting.info.risk
        if self.workspace:
            return self.workspace.judge(self.text).risk
        return classify(self.text, "bash", confined=False).risk

    @property
    def is_fence(self) -> bool:
        """Whether it is a fence: all of it is one command."""
        return self.waiting is not None and self.waiting.info.source == "fence"

    @property
    def runs(self) -> bool:
        """Whether it can be run without being edited."""
        return self.waiting.runs if self.waiting else self.is_whole

    @property
    def obstacle(self) -> str:
        """Why it cannot be run, however it is edited; empty if it can."""
        return self.waiting.obstacle if self.waiting else ""

    def run(self, uri: str) -> types.Command:
        """Return the command that runs it."""
        what = {"commandId": self.waiting.info.id} if self.waiting else {"text": self.text}
        return types.Command("Run", "aish.run", arguments=[{**what, "uri": uri}])

    def edit(self, uri: str) -> types.Command:
        """Return the command that puts it under the last heading, to be edited and sent."""
        shell = self.waiting.shell if self.waiting else ""
        is_block = shell or "\n" in self.text
        prompt = run_block(self.text, shell) if is_block else f":run {self.text}"
        return types.Command("Edit", "aish.chat.open", arguments=[{"prompt": prompt, "uri": uri}])


class _Commands:
    """The commands on the ``CMD: `` lines of a text, found as far down as was asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._found: list[FoundCommand] = []
        self._rest = suggestions_in(text.split("\n")) if PREFIX in text else iter(())

    def between(self, first: int, last: int) -> Iterator[FoundCommand]:
        """Yield those from line ``first`` to ``last``."""
        for at in count(bisect_left(self._found, first, key=lambda one: one.end_line)):
            if at == len(self._found):
                self._found += islice(self._rest, 1)
            if at == len(self._found) or self._found[at].line > last:
                return
            if self._found[at].end_line >= first:
                yield self._found[at]


@dataclass(slots=True)
class Suggestions:
    """What is offered in the documents of one client."""

    _server: BaseServer
    _documents: OpenDocuments
    _workspaces: Workspaces
    _chats: ChatDocuments
    _others: Sequence[Offer]
    _hinted: set[str] = field(default_factory=set, init=False)
    #: By URI, the lenses that the client has or was asked to request.
    _known: dict[str, list[_Lens]] = field(default_factory=dict, init=False)
    #: By URI, what the documents' lines suggest, for as long as a document is as it was.
    _commands: dict[str, _Commands] = field(default_factory=dict, init=False)
    _is_changed: bool = field(default=False, init=False)
    _updating: asyncio.Task[None] | None = field(default=None, init=False)

    def runnable(self, uri: str, first: int = 0, last: int | None = None) -> list[Runnable]:
        """Return what can be run in an open document, in order.

        Only lines ``first`` to ``last`` count, and at most ``_MOST_LINES`` of their commands are
        returned.
        """
        document = self._documents.text(uri)
        if document is None:
            return []
        workspace = self._workspaces.of_document(uri)
        is_chat = self._chats.at(uri) is not None
        waiting = _waiting(workspace) if is_chat else {}
        end = len(document) if last is None else last
        found = islice(self._commands_in(uri, document).between(first, end), _MOST_LINES)
        lines = [_runnable(command, waiting, workspace) for command in found]
        is_growing = is_chat and workspace is not None and workspace.shown.jobs
        if (
            lines
            and is_growing
            and lines[-1].waiting is None
            and _ends_at(document, lines[-1].last)
        ):
            # The rest of the line has yet to arrive.
            lines.pop()
        if any(suggestion.info.source == "fence" for suggestion in waiting.values()):
            fences = _fences(document, waiting)
            lines += (fence for fence in fences if first <= fence.last and fence.first <= end)
            lines.sort(key=lambda runnable: runnable.first)
        return lines

    def _commands_in(self, uri: str, document: str) -> _Commands:
        commands = self._commands.get(uri)
        if commands is None or commands.text is not document:
            commands = self._commands[uri] = _Commands(document)
        return commands

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return the actions at a place: those that run its lines first, destructive ones last."""
        uri = params.text_document.uri
        only = params.context.only
        is_chat = self._chats.at(uri) is not None
        actions: list[tuple[_Rank, types.CodeAction]] = []
        heading = self._heading(uri)
        if heading is not None and params.range.end.line >= heading:
            send = types.CodeAction("Send", kind=REFACTOR_KIND, command=_send(uri))
            actions.append((_Rank.OTHER, send))
        workspace = self._workspaces.of_document(uri)
        if is_chat and workspace is not None and workspace.shown.jobs:
            stop = _stop(uri, session=workspace.shown.id)
            actions.append((_Rank.OTHER, types.CodeAction("Stop", REFACTOR_KIND, command=stop)))
        here: set[str] = set()
        for runnable in self.runnable(uri, params.range.start.line, params.range.end.line):
            if runnable.waiting is not None:
                here.add(runnable.waiting.info.id)
            actions += _actions_of(runnable, uri, is_here=True, is_chat=is_chat)
        actions += ((_Rank.OTHER, one) for offer in self._others for one in offer(params))
        for suggestion in workspace.shown.last_turn_suggestions if workspace else []:
            if suggestion.info.id not in here:
                actions += _actions_of(Runnable.of(suggestion), uri)
        actions.sort(key=lambda item: item[0])
        return [action for _, action in actions if _wanted(action.kind, only)]

    def lenses(self, uri: str) -> list[_Lens]:
        """Return the lenses of a document.

        Run and Edit for what can be run, Stop for what is running, Send for the last heading.
        """
        self._known[uri] = self._lenses(uri, self.runnable(uri))
        return self._known[uri]

    def _lenses(self, uri: str, runnables: Sequence[Runnable]) -> list[_Lens]:
        lenses = []
        for runnable in runnables:
            if runnable.runs:
                lenses.append(_lens(runnable.first, runnable.run(uri)))
            if not runnable.obstacle:
                lenses.append(_lens(runnable.first, runnable.edit(uri)))
        lenses += (_lens(line, _stop(uri, turnId=job)) for line, job in self._running(uri))
        heading = self._heading(uri)
        if heading is not None:
            lenses.append(_lens(heading, _send(uri)))
        return lenses

    def _running(self, uri: str) -> list[tuple[int, str]]:
        """Return the chat's lines that report a running command, with the command's id."""
        document, workspace = self._documents.text(uri), self._workspaces.of_document(uri)
        if document is None or workspace is None or self._chats.at(uri) is None:
            return []
        jobs = workspace.shown.jobs
        return [(line, job) for line, job in running(document) if job in jobs]

    def _heading(self, uri: str) -> int | None:
        """Return the line of the heading to write under, if ``uri`` is a chat that has one."""
        chat = self._chats.at(uri)
        return chat.heading() if chat else None

    def changed(self) -> None:
        """Update hints and lenses soon: a document or a suggestion has changed."""
        self._is_changed = True
        if self._updating is None or self._updating.done():
            self._updating = self._server.spawn(self._update(), "update lenses and hints")

    async def _update(self) -> None:
        while self._is_changed:
            await asyncio.sleep(_PAUSE)
            self._is_changed = False
            for uri in self._documents.uris():
                if (document := self._documents.text(uri)) is not None:
                    found = self._commands_in(uri, document).between(0, len(document))
                    async for _ in _paced(islice(found, _MOST_LINES)):
                        pass  # They are found now, for all that follows.
            uris, before = self._documents.uris(), self._known
            self._known = {uri: self._lenses(uri, self.runnable(uri)) for uri in uris}
            # A refresh is costly: the client requests the lenses of each document of each server.
            if any(lenses != before.get(uri, []) for uri, lenses in self._known.items()):
                self._server.spawn(self._refresh_lenses(), "refresh the code lenses")
            for uri in uris:
                await self._update_hints(uri)

    async def _update_hints(self, uri: str) -> None:
        document = self._documents.text(uri) or ""
        lines = document.split("\n")
        hints = [
            self._hint(runnable, lines[runnable.first])
            async for runnable in _paced(self.runnable(uri))
        ]
        # If it was changed meanwhile, another update follows; if it was closed, it has no hints.
        if self._documents.text(uri) == document and (hints or uri in self._hinted):
            self._publish(uri, hints)

    async def _refresh_lenses(self) -> None:
        """Ask the client to request the lenses again, if it can be asked to."""
        if can(self._server, "workspace.code_lens.refresh_support"):
            asking = self._server.workspace_code_lens_refresh_async(None)
            await self._server.answer_of(asking, _ANSWER)

    def closed(self, uri: str) -> None:
        """Remove the hints of a document that was closed."""
        self._known.pop(uri, None)
        self._commands.pop(uri, None)
        if uri in self._hinted:
            self._publish(uri, [])

    def _publish(self, uri: str, hints: Sequence[types.Diagnostic]) -> None:
        self._hinted.discard(uri)
        if hints:
            self._hinted.add(uri)
        params = types.PublishDiagnosticsParams(uri, list(hints))
        self._server.text_document_publish_diagnostics(params)

    def _hint(self, found: Runnable, line: str) -> types.Diagnostic:
        """Return the hint on a ``line``, for editors that show no lenses."""
        risk = found.risk
        severity = types.DiagnosticSeverity
        return types.Diagnostic(
            range=types.Range(
                types.Position(found.first, 0),
                types.Position(found.first, self._documents.width(line)),
            ),
            message=_hint_on(found, risk),
            severity=severity.Warning if risk == "destructive" else severity.Hint,
            source="aish",
        )


def setup(
    server: BaseServer,
    documents: OpenDocuments,
    workspaces: Workspaces,
    chats: ChatDocuments,
    others: Sequence[Offer],
) -> None:
    """Offer what can be run in every document, and what ``others`` yield there."""
    suggestions = Suggestions(server, documents, workspaces, chats, others)

    kinds = types.CodeActionOptions([RUN_KIND, REFACTOR_KIND, "source.aish"])

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)
    def _actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        return suggestions.actions(params)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    def _lenses(params: types.CodeLensParams) -> list[_Lens]:
        return suggestions.lenses(params.text_document.uri)

    documents.on_change.append(lambda _uri, _changes: suggestions.changed())
    documents.on_close.append(suggestions.closed)
    workspaces.on_open(lambda workspace: workspace.subscribe(suggestions.changed))


async def _paced(items: Iterable[_Item]) -> AsyncIterator[_Item]:
    """Yield items, and let others have their turn after a few of them."""
    for number, item in enumerate(items):
        if not number % _AT_ONCE:
            await asyncio.sleep(0)
        yield item


def _ends_at(document: str, line: int) -> bool:
    """Return whether only blanks follow below a line of a document."""
    return not "".join(document.split("\n")[line + 1 :]).strip()


def _waiting(workspace: Workspace | None) -> dict[str, Suggestion]:
    """Return the suggestions by their text; of two with the same text, the later one."""
    if workspace is None:
        return {}
    return {_key(suggestion.info.text): suggestion for suggestion in workspace.shown.commands}


def _key(text: str) -> str:
    """Return a text for comparison: in the chat its lines may begin with a backslash."""
    return _ESCAPE.sub(r"\1", text)


def _runnable(
    command: FoundCommand, waiting: Mapping[str, Suggestion], workspace: Workspace | None
) -> Runnable:
    """Return what a command in a document runs: a suggestion that waits, if it is the same."""
    suggestion = waiting.get(_key(command.text)) if waiting else None
    if suggestion is not None:
        return Runnable.of(suggestion, command.line, command.end_line)
    is_whole = not command.placeholders
    return Runnable(command.line, command.end_line, command.text, None, is_whole, workspace)


def _fences(document: str, waiting: Mapping[str, Suggestion]) -> Iterator[Runnable]:
    """Yield the fences of the chat that are suggestions; of two with the same text, the later one.

    An output is not one, nor is a fence below ``:run``: the user is about to send that.
    """
    lines = document.split("\n")
    runnables: dict[str, Runnable] = {}
    for block in fenced_blocks(document):
        is_sent = block.first > 0 and lines[block.first - 1].rstrip() == ":run"
        is_ours = is_sent or block.fence + block.info == OUTPUT_OPENING
        command = None if is_ours else shell_block(block.info, block.text)
        suggestion = waiting.get(_key(command.text)) if command else None
        if suggestion is not None and suggestion.info.source == "fence":
            runnables[suggestion.info.id] = Runnable.of(suggestion, block.first, block.last)
    yield from runnables.values()


def _actions_of(
    found: Runnable, uri: str, *, is_here: bool = False, is_chat: bool = False
) -> Iterator[tuple[_Rank, types.CodeAction]]:
    """Yield the actions for what can be run, each with its rank.

    ``is_here``: it is at the cursor; ``is_chat``: it is in the chat, where *Edit* comes first and
    *Run* last for what can do harm. For that, and for a fence, *Run* is never the first of its
    kind: some editors apply the first without asking, or when return is pressed.
    """
    dangerous = found.risk == "destructive"
    edits_first = dangerous or found.is_fence
    rank = _Rank.HERE if is_here else _Rank.OTHER
    if dangerous:
        rank = _Rank.DANGEROUS
    ranks: dict[str | None, _Rank] = {}
    if dangerous and is_here and is_chat:
        ranks = {"Run": _Rank.LAST, "Edit": _Rank.HERE}
    title = _titled(found.text)
    warning = " (destructive)" if dangerous else ""
    name = "Run without confinement" if found.waiting and found.waiting.unconfined else "Run"
    run = types.CodeAction(
        title=f"{name}: {title}{warning}",
        kind=RUN_KIND,
        command=found.run(uri),
    )
    edit = types.CodeAction(
        title=f"Edit and run: {title}{warning}",
        kind=RUN_KIND if edits_first else REFACTOR_KIND,
        command=found.edit(uri),
    )
    offered = [run] if found.runs else []
    if not found.obstacle:
        offered = [edit, *offered] if edits_first else [*offered, edit]
    if found.waiting is not None:
        argument = {"commandId": found.waiting.info.id, "uri": uri}
        for verb, command in (("Copy", "aish.commands.copy"), ("Dismiss", "aish.commands.dismiss")):
            call = types.Command(verb, command, arguments=[argument])
            offered.append(types.CodeAction(f"{verb}: {title}", kind=REFACTOR_KIND, command=call))
    for action in offered:
        yield ranks.get(action.command.title if action.command else None, rank), action


def _hint_on(found: Runnable, risk: Risk) -> str:
    """Return the text of the hint on something that can be run."""
    if found.obstacle:
        return f"Can be copied, not run: {found.obstacle}."
    if not found.runs:
        return "Can be edited and run: see the code actions here."
    return f"Can be run ({risk}): see the code actions here."


def _send(uri: str) -> types.Command:
    return types.Command("Send", "aish.chat.send", arguments=[{"uri": uri}])


def _stop(uri: str, **what: str) -> types.Command:
    return types.Command("Stop", "aish.cancel", arguments=[{**what, "uri": uri}])


def _titled(text: str) -> str:
    return clipped(escaped(text), _TITLE)


def _wanted(kind: object, only: Sequence[object] | None) -> bool:
    """Return whether a kind was requested; ``quickfix`` includes ``quickfix.aish.run``."""
    if not only:
        return True
    own = str(getattr(kind, "value", kind))
    asked = (str(getattr(wanted, "value", wanted)) for wanted in only)
    return any(own == wanted or own.startswith(f"{wanted}.") or not wanted for wanted in asked)


def _lens(line: int, command: types.Command) -> _Lens:
    place = {"line": line, "character": 0}
    call = {"title": command.title, "command": command.command, "arguments": command.arguments}
    return {"range": {"start": place, "end": place}, "command": call}
