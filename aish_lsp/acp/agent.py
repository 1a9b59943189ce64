"""The requests of the Agent Client Protocol: its sessions are ours, in the workspace ``cwd``."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import acp
from acp import RequestError, helpers, schema

from aish_lsp import __version__
from aish_lsp.acp import asking
from aish_lsp.acp.content import named_servers
from aish_lsp.acp.reply import kind_of
from aish_lsp.acp.session import AcpSession
from aish_lsp.acp.terminals import run_in_terminal
from aish_lsp.acp.transport import LineTransport
from aish_lsp.acp.updates import MODES, in_slashes, modes_of
from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.config.loading import Configuration
from aish_lsp.foundation.errors import AishError, InvalidArgument, NotFound
from aish_lsp.foundation.text import shown, shown_path, well_formed
from aish_lsp.operations.models import ModelUse
from aish_lsp.operations.sessions import SessionHistory, SessionList, SessionNew, SessionResume

if TYPE_CHECKING:
    from acp import Client

    from aish_lsp.operations.sessions import Continued, History, SessionId, Sessions

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])

#: The protocol's code for something that does not exist.
_NOT_FOUND: Final = -32002

#: What this agent can do, and how a client with a terminal sets it up.
_ABLE: Final = {
    "loadSession": True,
    "promptCapabilities": {"embeddedContext": True},
    "mcpCapabilities": {"http": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}
_SETUP: Final = {
    "type": "terminal",
    "id": "setup",
    "name": "Set up a model",
    "description": "Finds a model on this machine or takes the name of a key, and tries it.",
    "args": ["setup"],
}


def _refusing(method: F) -> F:
    """Let a request fail with the protocol's form of our error."""

    @functools.wraps(method)
    async def carry_out(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except AishError as error:
            code = _NOT_FOUND if isinstance(error, NotFound) else error.code
            data = {"kind": error.kind, **error.data}
            raise RequestError(code, in_slashes(error.message), data) from error

    return carry_out  # type: ignore[return-value]


class AishAgent:
    """Answers the requests of one client.

    Attributes:
        sessions: the sessions that the client has opened, by their ids.
    """

    def __init__(self) -> None:
        self._can = schema.ClientCapabilities()
        self._services = Services(
            asking.ask_user,
            open_text=asking.client_text,
            choose=asking.choose,
            edit_open=asking.edit_in_client,
            tools_of=tools_of,
            run_in_terminal=run_in_terminal,
        )
        self._workspaces: dict[Path, Workspace] = {}
        self._servers: dict[Path, dict[str, Any]] = {}
        self.sessions: dict[str, AcpSession] = {}
        self._later: set[asyncio.Task[None]] = set()
        self._client: Client | None = None

    def on_connect(self, client: Client) -> None:
        """Keep the connection to the client."""
        self._client = client

    @_refusing
    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        **_: Any,
    ) -> Any:
        """Say what this agent can do, and which version of the protocol it speaks: 1."""
        can = client_capabilities or schema.ClientCapabilities()
        self._can = can
        answer = {
            "protocolVersion": acp.PROTOCOL_VERSION,
            "agentInfo": {"name": "aish-lsp", "title": "aish", "version": __version__},
            "agentCapabilities": _ABLE,
            "authMethods": [_SETUP] if can.auth and can.auth.terminal else [],
        }
        return schema.InitializeResponse.model_validate(answer)

    @_refusing
    async def authenticate(self, method_id: str, **_: Any) -> Any:
        """Accept that the client ran ``aish-lsp setup``: which model there is shows later."""
        if method_id != "setup":
            raise InvalidArgument(f"There is no such method: {shown(method_id)}.", path="methodId")
        return schema.AuthenticateResponse()

    # Sessions

    @_refusing
    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> Any:
        """Begin a session in a folder."""
        session = self._view(self._workspace(cwd))
        begun: SessionId = (await session.do("session.new", SessionNew(show=False))).result
        await self._open(session, begun.id, mcp_servers)
        return schema.NewSessionResponse(session_id=begun.id, **self._introduced(session))

    @_refusing
    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> Any:
        """Continue an earlier session, and show what was said in it.

        Raises:
            Busy: a prompt is being answered in it, whose calls are shown.
        """
        session = await self._resumed(cwd, session_id, mcp_servers)
        session.refuse_while_answering()
        params = SessionHistory(id=session.session.id)
        history: History = (await session.do("session.history", params)).result
        for message in history.turns:
            text = well_formed(message.content)
            if message.role == "user":
                await session.updates.send(helpers.update_user_message_text(text))
            elif message.role == "tool":
                is_done = message.status is None
                ended: schema.ToolCallStatus = "completed" if is_done else "failed"
                await session.updates.end_call(message.tool_call_id or "", ended, text)
            else:
                if text:
                    await session.updates.say(text)
                for call in message.tool_calls:
                    title, name = str(call.get("title") or call["name"]), str(call["name"])
                    await session.updates.begin_call(call["id"], title, kind_of(name))
        await session.updates.end_calls()
        await session.show_told()
        return schema.LoadSessionResponse(**self._introduced(session))

    @_refusing
    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> Any:
        """Continue an earlier session."""
        session = await self._resumed(cwd, session_id, mcp_servers)
        return schema.ResumeSessionResponse(**self._introduced(session))

    @_refusing
    async def list_sessions(self, cwd: str | None = None, **_: Any) -> Any:
        """Return the sessions of a folder; without one, of those that are open here."""
        folders = [self._workspace(cwd)] if cwd is not None else [*self._workspaces.values()]
        infos = []
        for workspace in folders:
            answer = await self._view(workspace).do("session.list", SessionList())
            sessions: Sessions = answer.result
            infos += [
                schema.SessionInfo(
                    session_id=one.id,
                    cwd=os.fspath(workspace.folder),
                    title=one.name or one.title,
                    updated_at=one.updated,
                )
                for one in sessions.sessions
            ]
        return schema.ListSessionsResponse(sessions=infos)

    @_refusing
    async def close_session(self, session_id: str, **_: Any) -> Any:
        """Stop what runs in a session, and close it; it can be resumed."""
        session = self._session(session_id)
        session.cancel()
        del self.sessions[session_id]
        if _is_open(session):
            await session.workspace.sessions.close(session.session)
        return schema.CloseSessionResponse()

    async def _delete(self, session_id: str) -> None:
        """Delete a session for good: the user has said so in the client.

        Raises:
            NotFound: there is no such session in the folders that are open.
            Busy: something runs in it, or another process has it open.
        """
        open_here = self.sessions.get(session_id)
        folders = [open_here.workspace] if open_here else [*self._workspaces.values()]
        for workspace in folders:
            with suppress(NotFound):
                await workspace.sessions.delete(session_id, agreed=True)
                self.sessions.pop(session_id, None)
                return
        raise NotFound(f"There is no session {shown(session_id)} in the folders that are open.")

    def _workspace(self, cwd: str) -> Workspace:
        """Return the workspace of a folder.

        Raises:
            InvalidArgument: there is no such folder.
        """
        try:
            is_folder = os.path.isabs(cwd) and os.path.isdir(cwd)  # noqa: PTH112, PTH117 - any text
        except ValueError:
            is_folder = False
        if not is_folder:
            raise InvalidArgument(
                f"cwd has to be the absolute path of a folder, which {shown_path(cwd)} is not.",
                path="cwd",
            )
        root = Path(os.path.normpath(cwd))
        if root not in self._workspaces:
            configuration = Configuration(root, self._services.trust)
            self._workspaces[root] = Workspace(root, self._services, configuration)
        return self._workspaces[root]

    def _view(self, workspace: Workspace) -> AcpSession:
        assert self._client is not None
        return AcpSession(self._client, workspace, self._can)

    async def _resumed(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None
    ) -> AcpSession:
        workspace = self._workspace(cwd)
        session = self.sessions.get(session_id)
        if session is not None and session.workspace is workspace and _is_open(session):
            self._take_servers(session, mcp_servers)
            return session
        session = self._view(workspace)
        params = SessionResume(id=session_id, show=False)
        resumed: Continued = (await session.do("session.resume", params)).result
        await self._open(session, resumed.id, mcp_servers, session_id)
        return session

    async def _open(
        self, session: AcpSession, own_id: str, servers: Sequence[Any] | None, known_as: str = ""
    ) -> None:
        """Keep what shows a session from now on, with the tool servers that the client names."""
        known_as = known_as or own_id
        session.begin(await session.workspace.sessions.named(own_id), known_as)
        self.sessions[known_as] = session
        self._take_servers(session, servers)

    def _take_servers(self, session: AcpSession, named: Sequence[Any] | None) -> None:
        """Keep the tool servers that a client names; each is asked about at the first prompt."""
        servers, left_out = named_servers(named or ())
        for notice in left_out:
            session.tell(notice)
        if servers:
            consents = self._servers.setdefault(session.workspace.folder, {})
            consents |= servers
            session.servers = [*servers]
            settings = {"tools": {"servers": consents}}
            session.workspace.configuration.update("session/new", settings)

    def _introduced(self, session: AcpSession) -> dict[str, Any]:
        """Return what can be chosen in a session; the client gets the rest after this answer."""
        task = asyncio.create_task(session.introduce())
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return {"modes": modes_of(session.mode), "config_options": session.options()}

    def _session(self, session_id: str) -> AcpSession:
        """Return a session of the client.

        Raises:
            NotFound: it has not opened such a session.
        """
        if session_id not in self.sessions:
            raise NotFound(f"The session {shown(session_id)} is not open here: load it first.")
        return self.sessions[session_id]

    # Options

    @_refusing
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> Any:
        """Choose the model or the mode of a session."""
        session = self._session(session_id)
        if config_id == "mode":
            _set_mode(session, str(value))
            await session.updates.send(helpers.update_current_mode(session.mode))
        elif config_id == "model":
            params = ModelUse(name=str(value), session=session.session.id)
            asking.ASKING.set(session)
            await session.do("model.use", params)
        else:
            raise InvalidArgument(
                f"There is no option {shown(config_id)}, only mode and model.", path="configId"
            )
        return schema.SetSessionConfigOptionResponse(config_options=session.options())

    @_refusing
    async def set_session_mode(self, mode_id: str, session_id: str, **_: Any) -> Any:
        """Choose the mode of a session."""
        session = self._session(session_id)
        _set_mode(session, mode_id)
        await session.show_options()
        return schema.SetSessionModeResponse()

    # Prompts

    @_refusing
    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> Any:
        """Answer a prompt; the answer itself is sent as updates."""
        stop = await self._session(session_id).prompt(prompt)
        return schema.PromptResponse(stop_reason=stop)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the prompt that is being answered in a session, if any."""
        if (session := self.sessions.get(session_id)) is not None:
            session.cancel()

    def cancel_request(self, request: object) -> None:
        """Stop the prompt that a request asked for; every other request is answered anyway."""
        for session in self.sessions.values():
            if session.is_answering(request):
                session.cancel()

    @_refusing
    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Carry out a request that the SDK has no method for."""
        if method == "session/delete":
            await self._delete(schema.DeleteSessionRequest.model_validate(params).session_id)
            return {}
        raise RequestError.method_not_found(method)

    async def aclose(self) -> None:
        """Stop what runs, wait until it is saved, and close all workspaces."""
        for session in self.sessions.values():
            session.cancel()
        await asyncio.gather(*(one.aclose() for one in self._workspaces.values()))
        await self._services.aclose()


def _set_mode(session: AcpSession, named: str) -> None:
    mode = next((one for one in MODES if one == named), None)
    if mode is None:
        raise InvalidArgument(f"There is no mode {shown(named)}, only ask and act.")
    session.set_mode(mode)


def _is_open(session: AcpSession) -> bool:
    """Return whether a session is still open: `/session delete` closes it."""
    return session.session in session.workspace.sessions.open


async def serve(source: int, sink: int) -> None:
    """Answer the client on these file descriptors until it closes them."""
    agent: Any = AishAgent()  # without the requests that are not advertised
    transport = LineTransport(source, sink, agent.cancel_request)
    try:
        # The SDK still counts `session/close` and `session/resume` as unstable.
        await acp.run_agent(agent, transport, use_unstable_protocol=True)
    finally:
        await agent.aclose()
