"""The operations as commands of LSP: which session is meant, and the two ways to get a reply.

Copied text goes to the clipboard of this machine, by the program that the desktop has for it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aish_lsp.agent.events import Step
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.job import Job
from aish_lsp.foundation.text import escaped, shown_path
from aish_lsp.lsp.client import EditorFace
from aish_lsp.lsp.messages import path_of
from aish_lsp.lsp.protocol import Begun, BegunCommand, Copied
from aish_lsp.lsp.questions import answer_before_asking, can_choose
from aish_lsp.lsp.selections import selected
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.ask import AskParams, RetryParams
from aish_lsp.operations.models import Added, ModelAdd, models_of
from aish_lsp.operations.operation import Answer, Place, SessionTarget
from aish_lsp.operations.run import RunParams

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.agent.services import Services
    from aish_lsp.agent.session import Session
    from aish_lsp.lsp.chats import ChatDocuments
    from aish_lsp.lsp.client import Call, Client
    from aish_lsp.lsp.configuration import Configurations
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.lsp.selections import Selected, Selections
    from aish_lsp.lsp.workspaces import Workspaces
    from aish_lsp.operations.operation import Operation, Target, Token
    from aish_lsp.operations.run import CommandParams

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class OperationCommands:
    """Carries out the operations for the client, and copies to the clipboard."""

    client: Client
    services: Services
    configurations: Configurations
    documents: OpenDocuments
    workspaces: Workspaces
    chats: ChatDocuments
    selections: Selections

    def bind(self) -> None:
        """Answer the command of each operation, and ``aish.commands.copy``."""
        for operation in OPERATIONS.values():
            self.client.bind(f"aish.{operation.name}", partial(self.execute, operation))
        self.client.bind("aish.commands.copy", self._copy)

    async def execute(self, operation: Operation, call: Call, params: Any) -> object:
        """Carry an operation out for the client; return its result."""
        guess = self.workspaces.guess(params)
        workspace = self.workspaces.resolve(params)
        # This comes first, since the editor's text may change at any time.
        about = await self._selected(workspace, params)
        if isinstance(params, RunParams) and params.command_id is None:
            self.tell_where_it_runs(workspace, params.uri, guess)
        session = await self.session_for(operation, workspace, params)
        prompt = _question(session, params)
        token: Token | None = getattr(params, "partial_result_token", None)
        if operation.comes_in_pieces and token is None:
            refuse_unshown(workspace, session)
            await self.chats.of(workspace).prepare(show=not isinstance(params, RunParams))
            session = await workspace.sessions.named(None)
        face = EditorFace(call, self.client.tell, lambda: self.chats.of(workspace).text())
        place = Place(workspace, session, face)
        if isinstance(params, AskParams):
            place = _asked_at(place, params, about, guess)
        if isinstance(params, ModelAdd) and params.choice is None and not can_choose(self.client):
            return await self._add_model_in_chat(place)
        work = operation.run(place, params)
        if not operation.comes_in_pieces:
            work = answer_before_asking(self.client, work, lambda answer: str(answer.text))
        done = await work
        if isinstance(done, Answer):
            return self._answered(done)
        if about is not None:
            self.selections.follow(done, about)
        else:
            self.selections.follow_again(done)
        if token is not None:
            return await self.stream(call, token, done, operation.title)
        self.chats.of(workspace).follow(operation, done, prompt)
        return BegunCommand(done.id) if operation.comes == "output" else Begun(done.id)

    async def session_for(
        self, operation: Operation, workspace: Workspace, params: Target
    ) -> Session:
        """Return the session that an operation is for, once the settings that it needs are known.

        Raises:
            NotFound: it names a session that is not open.
        """
        if operation.needs_settings:
            await self.configurations.settled(workspace.root)
        return await _session(workspace, params, waits=not operation.at_once)

    async def _selected(self, workspace: Workspace, params: Target) -> Selected | None:
        """Return what a question is about, if ``params`` are a question's and name a range."""
        if not isinstance(params, AskParams):
            return None
        return await selected(self.documents, workspace, params)

    def _answered(self, answer: Answer[Any]) -> object:
        if answer.is_told:
            self.client.tell(answer.text)
        return answer.result

    async def _add_model_in_chat(self, place: Place) -> object:
        """Show in the chat what there is to choose from, and how to go on there."""
        refuse_unshown(place.workspace, place.session)
        await self.chats.of(place.workspace).send(":model add")
        found = await models_of(place.session)
        return Added(None, found.active, found.models)

    def tell_where_it_runs(self, workspace: Workspace, uri: str | None, guess: str) -> None:
        """Tell the user in which folder a command runs, if that is a ``guess``."""
        if guess and not self.chats.is_shown_at(uri):
            self.client.tell(f"Runs in {shown_path(workspace.folder)}, {guess}.")

    async def stream(self, call: Call, token: Token, job: Job[R], title: str) -> R:
        """Send a job's events under the client's token, then return its result.

        A client that reads slowly gets the pieces that have piled up as one; the job waits for it
        only once many have. All ways to cancel the request stop the job, which then ends by itself.
        """
        progress = call.begin_progress(title, on_cancel=job.cancel)
        try:
            async for event in job.events():
                self.client.send_progress(token, to_wire(event))
                if isinstance(event, Step):
                    progress.reach(f"step {event.number}")
                await self.client.drained()
            return await job.result()
        finally:
            progress.end()

    async def _copy(self, _call: Call, params: CommandParams) -> Copied:
        session = await self.workspaces.session(params)
        text = session.commands.get(params.command_id).text
        copied = await to_clipboard(text, self.services.environ)
        if not copied:
            shown = "\n".join(map(escaped, text.split("\n")))
            self.client.tell(f"No clipboard was found. This is the text:\n\n{shown}")
        return Copied(text, copied)


async def _session(workspace: Workspace, params: Target, *, waits: bool) -> Session:
    """Return the session that is meant; with ``waits``, await one that is about to be shown."""
    if isinstance(params, SessionTarget) and (waits or params.session is not None):
        return await workspace.sessions.named(params.session)
    return workspace.shown


def _asked_at(place: Place, params: AskParams, about: Selected | None, guess: str) -> Place:
    """Return the place of a question: what is selected, and in which file it is asked."""
    at = path_of(params.uri) if params.uri is not None else None
    notice = f"Asked in {shown_path(place.workspace.folder)}, {guess}." if guess else ""
    return replace(place, attached=about.attached if about else (), at=at, notice=notice)


def _question(session: Session, params: Target) -> str:
    """Return the prompt that is asked."""
    if isinstance(params, AskParams):
        return params.prompt
    if isinstance(params, RetryParams):
        return session.asked_again(params.turn_id, params.model).prompt
    return ""


def refuse_unshown(workspace: Workspace, session: Session) -> None:
    """Refuse a session that the chat document does not show, since its events would go there.

    Raises:
        InvalidArgument: it does not.
    """
    if session is not workspace.shown:
        msg = f"The chat does not show the session {session.id}: its events need a token."
        raise InvalidArgument(msg, path="partialResultToken")


logger = logging.getLogger(__name__)

#: Seconds that a program may take; some stay behind, to hold what was copied.
_TIMEOUT: Final = 5.0


async def to_clipboard(text: str, environ: Mapping[str, str]) -> bool:
    """Put ``text`` into the clipboard; return whether a program was found that did so."""
    for program, *options in _programs(environ):
        found = shutil.which(program, path=environ.get("PATH"))
        if found and await _copied([found, *options], text, environ):
            return True
    return False


def _programs(environ: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the programs that may work here, with their options."""
    yield ("pbcopy",)
    if "WAYLAND_DISPLAY" in environ:
        yield ("wl-copy",)
    if "DISPLAY" in environ:
        yield ("xclip", "-selection", "clipboard")
        yield ("xsel", "--clipboard", "--input")
    yield ("clip.exe",)
    if "TMUX" in environ:
        yield ("tmux", "load-buffer", "-w", "-")


async def _copied(arguments: list[str], text: str, environ: Mapping[str, str]) -> bool:
    """Pass ``text`` to a program on its stdin; return whether the program succeeded."""
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=dict(environ)
        )
        await asyncio.wait_for(process.communicate(text.encode(errors="replace")), _TIMEOUT)
    except (OSError, TimeoutError) as error:
        logger.info("%s did not copy: %s", arguments[0], type(error).__name__)
        return False
    return process.returncode == 0
