"""``CMD: `` lines in documents: code actions, code lenses and hints that offer to run them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lsprotocol import types

from aish_lsp.lsp.checklists import checklist_actions
from aish_lsp.lsp.kinds import REFACTOR_KIND, RUN_KIND, SOURCE_KIND
from aish_lsp.lsp.replacing import replace_actions
from aish_lsp.lsp.selection_actions import selection_actions
from aish_lsp.shell.risk import classify
from aish_lsp.shell.suggestions import PREFIX
from aish_lsp.text import escaped

if TYPE_CHECKING:
    from aish_lsp.events import CommandInfo, Risk
    from aish_lsp.server import AishServer
    from aish_lsp.workspace import Workspace

#: Seconds after a change before hints are made anew.
_PAUSE = 0.2

#: Lines of a document that are offered: a stranger's may have millions, and each is judged.
_MOST_LINES = 500

#: Seconds in which a client answers that it will ask for lenses again.
_ANSWER = 5.0

#: Characters of a command in a title; the whole of it is shown before it runs.
_TITLE = 80


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A ``CMD: `` line of a document. ``info`` is set where it is a suggestion that waits."""

    line: int
    text: str
    risk: Risk
    info: CommandInfo | None
    unconfined: bool = False

    def arguments(self, uri: str) -> list[object]:
        """Return the argument of ``aish.run``: what is run is what stands here."""
        if self.info is not None:
            return [{"commandId": self.info.id, "uri": uri}]
        return [{"text": self.text, "uri": uri}]


class Suggestions:
    """What is offered in the documents of one client."""

    def __init__(self, server: AishServer) -> None:
        self._server = server
        self._hinted: set[str] = set()
        self._given: dict[str, list[types.CodeLens]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def lines(self, uri: str, first: int = 0, last: int | None = None) -> list[CommandLine]:
        """Return the lines of an open document, from ``first`` to ``last``, that can be run.

        They are judged, which takes time: of very many, only so many are returned.
        """
        document = self._server.documents.text(uri)
        if document is None or PREFIX not in document:
            return []
        workspace = self._server.workspaces.of_document(uri)
        waiting = _waiting(workspace) if self._server.chats.at(uri) else {}
        found: list[CommandLine] = []
        end = None if last is None else last + 1
        for number, line in islice(enumerate(document.split("\n")), first, end):
            if len(found) == _MOST_LINES:
                break
            text = line[len(PREFIX) :] if line.startswith(PREFIX) else ""
            if not text.strip():
                continue
            info = waiting.get(text)
            judged = info or (workspace.judge(text) if workspace else classify(text, "bash"))
            unconfined = bool(info and workspace and workspace.commands.is_unconfined(info.id))
            found.append(CommandLine(number, text, judged.risk, info, unconfined))
        return found

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return what can be done at a place, destructive things last."""
        uri = params.text_document.uri
        only = params.context.only
        actions: list[tuple[bool, types.CodeAction]] = []
        heading = self._heading(uri)
        if heading is not None and params.range.end.line >= heading:
            send = types.CodeAction("Send", kind=REFACTOR_KIND, command=_send(uri))
            actions.append((False, send))
        here: set[str] = set()
        for line in self.lines(uri, params.range.start.line, params.range.end.line):
            if line.info is not None:
                here.add(line.info.id)
            actions += _actions_of(line, uri)
        actions += ((False, action) for action in checklist_actions(self._server, params))
        actions += ((False, action) for action in replace_actions(self._server, params))
        actions += ((False, action) for action in selection_actions(self._server, params))
        workspace = self._server.workspaces.of_document(uri)
        for info in workspace.last_turn_commands if workspace else []:
            if info.id not in here:
                unconfined = workspace.commands.is_unconfined(info.id) if workspace else False
                line = CommandLine(info.line, info.text, info.risk, info, unconfined)
                actions += _actions_of(line, uri)
        actions.sort(key=lambda item: item[0])
        return [action for _, action in actions if _wanted(action.kind, only)]

    def lenses(self, uri: str) -> list[types.CodeLens]:
        """Return a Run and an Edit for each line, and a Send for the last heading."""
        self._given[uri] = self._lenses(uri)
        return self._given[uri]

    def _lenses(self, uri: str) -> list[types.CodeLens]:
        lenses = []
        for line in self.lines(uri):
            place = _place(line.line)
            run = types.Command("Run", "aish.run", arguments=line.arguments(uri))
            edit = types.Command("Edit", "aish.chat.open", arguments=[_edit(line.text, uri)])
            lenses += [types.CodeLens(place, command=run), types.CodeLens(place, command=edit)]
        heading = self._heading(uri)
        if heading is not None:
            lenses.append(types.CodeLens(_place(heading), command=_send(uri)))
        return lenses

    def _heading(self, uri: str) -> int | None:
        """Return the line of the heading to write under, where ``uri`` is a chat that has one."""
        chat = self._server.chats.at(uri)
        return chat.heading() if chat else None

    def changed(self) -> None:
        """Make hints and lenses anew soon: a document or a suggestion has changed."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._renew)

    def _renew(self) -> None:
        self._timer = None
        uris = self._server.documents.uris()
        for uri in uris:
            hints = [self._hint(line, uri) for line in self.lines(uri)]
            if hints or uri in self._hinted:
                self._publish(uri, hints)
        # A refresh is dear: the client asks for the lenses of every document, of every server.
        if any(self._lenses(uri) != self._given.get(uri, []) for uri in uris):
            self._server.spawn(self._refresh_lenses(), "refresh the code lenses")

    async def _refresh_lenses(self) -> None:
        """Have the client ask for lenses again, if it can be asked to."""
        workspace = self._server.protocol.client_capabilities.workspace
        lenses = workspace.code_lens if workspace else None
        if lenses is not None and lenses.refresh_support:
            with contextlib.suppress(Exception):
                await self._server.request("workspace/codeLens/refresh", None, _ANSWER)

    def closed(self, uri: str) -> None:
        """Take the hints of a document that was closed away."""
        self._given.pop(uri, None)
        if uri in self._hinted:
            self._publish(uri, [])

    def _publish(self, uri: str, hints: Sequence[types.Diagnostic]) -> None:
        self._hinted.discard(uri)
        if hints:
            self._hinted.add(uri)
        self._server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, list(hints))
        )

    def _hint(self, line: CommandLine, uri: str) -> types.Diagnostic:
        """Return the hint on a line, for editors that show no lenses."""
        dangerous = line.risk == "destructive"
        severity = types.DiagnosticSeverity
        return types.Diagnostic(
            range=types.Range(
                types.Position(line.line, 0),
                types.Position(line.line, self._server.documents.width(PREFIX + line.text)),
            ),
            message=f"Can be run ({line.risk}): see the code actions here.",
            severity=severity.Warning if dangerous else severity.Hint,
            source="aish",
        )


def setup(server: AishServer) -> None:
    """Offer what can be run in every document."""
    suggestions = Suggestions(server)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions([RUN_KIND, REFACTOR_KIND, SOURCE_KIND]),
    )
    def _actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        return suggestions.actions(params)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def _lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        return suggestions.lenses(params.text_document.uri)

    server.documents.on_change(lambda _uri, _changes: suggestions.changed())
    server.documents.on_close(suggestions.closed)
    server.workspaces.on_open(lambda workspace: workspace.subscribe(suggestions.changed))


def _waiting(workspace: Workspace | None) -> dict[str, CommandInfo]:
    """Return the suggestions by their text; of two with the same text the later."""
    return {info.text: info for info in workspace.commands.all()} if workspace else {}


def _actions_of(line: CommandLine, uri: str) -> Iterator[tuple[bool, types.CodeAction]]:
    """Yield the actions for a line, each with whether it goes last."""
    dangerous = line.risk == "destructive"
    title = _titled(line.text)
    run = "Run without confinement" if line.unconfined else "Run"
    warning = " (destructive)" if dangerous else ""
    yield (
        dangerous,
        types.CodeAction(
            title=f"{run}: {title}{warning}",
            kind=RUN_KIND,
            command=types.Command("Run", "aish.run", arguments=line.arguments(uri)),
        ),
    )
    yield (
        dangerous,
        types.CodeAction(
            title=f"Edit and run: {title}{warning}",
            kind=REFACTOR_KIND,
            command=types.Command("Edit", "aish.chat.open", arguments=[_edit(line.text, uri)]),
        ),
    )
    if line.info is not None:
        dismissed = {"commandId": line.info.id, "uri": uri}
        yield (
            dangerous,
            types.CodeAction(
                title=f"Dismiss: {title}",
                kind=REFACTOR_KIND,
                command=types.Command("Dismiss", "aish.commands.dismiss", arguments=[dismissed]),
            ),
        )


def _send(uri: str) -> types.Command:
    return types.Command("Send", "aish.chat.send", arguments=[{"uri": uri}])


def _edit(text: str, uri: str) -> object:
    """Return the argument that puts a command under the last heading, to be changed and sent."""
    return {"prompt": f":run {text}", "uri": uri}


def _titled(text: str) -> str:
    plain = escaped(text)
    return plain if len(plain) <= _TITLE else f"{plain[: _TITLE - 1]}…"


def _wanted(kind: object, only: Sequence[object] | None) -> bool:
    """Return whether a kind was asked for; ``quickfix`` asks for ``quickfix.aish.run`` too."""
    if not only:
        return True
    own = str(getattr(kind, "value", kind))
    asked = (str(getattr(wanted, "value", wanted)) for wanted in only)
    return any(own == wanted or own.startswith(f"{wanted}.") or not wanted for wanted in asked)


def _place(line: int) -> types.Range:
    return types.Range(types.Position(line, 0), types.Position(line, 0))
