"""``tools.*``: the tools that a model may call, their cost, and switches for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.context.counter import Tokens, schema_tokens
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import Denied, InvalidArgument
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.operations.operation import Answer, Caller, Line, SessionTarget, operation
from aish_lsp.tools import parts_of
from aish_lsp.tools.asking import SCOPES, Scope
from aish_lsp.tools.toolbox import TOOL_SEARCH

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session
    from aish_lsp.tools import OfferedTool

_ON_OFF = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool; ``tokens`` estimates the size of its schema for the model that answers now.

    ``allowed``: it is called without asking the user each time.
    """

    name: str
    description: str
    tokens: int
    on: bool
    allowed: bool


@dataclass(frozen=True, slots=True)
class ToolServerInfo:
    """A provider of tools: `aish` provides the built-in ones.

    ``state`` is `off` before it is needed, `starting`, `ready` or `failed`; ``granted``: it may
    start, as any server that the user has configured may; ``error`` says why it failed, or which of
    its tools cannot be used.
    """

    name: str
    on: bool
    state: str
    granted: bool
    tools: list[ToolInfo]
    error: str | None


@dataclass(frozen=True, slots=True)
class ToolList:
    """All tools, and the names of those that the next request offers in full.

    There may be none, if the model takes none or its window is too small; or just `tool_search`,
    which names the others.
    """

    servers: list[ToolServerInfo]
    offered: list[str]


def _listed(session: Session) -> ToolList:
    tools, preset, config = session.tools, session.preset, session.workspace.config
    limit = session.accounting.known_limits(preset, config)
    # What is offered depends on the plain estimate; what is shown uses all that is known.
    counter = session.accounting.counter(preset, config)

    def info(server: str, tool: OfferedTool) -> ToolInfo:
        schema = tool.schema
        tokens = counter.settled(Tokens(0, schema_tokens(schema, preset)))
        is_on = tools.is_on(server, schema.name)
        return ToolInfo(schema.name, schema.description, tokens, is_on, tool.allows())

    servers = [
        ToolServerInfo(
            provider.name,
            tools.is_on(provider.name),
            provider.state,
            provider.granted,
            [info(provider.name, tool) for tool in provider.tools],
            provider.error or None,
        )
        for provider in tools.providers
    ]
    return ToolList(servers, [schema.name for schema in session.tools_for(preset, limit)])


@operation(
    "tools.list",
    SessionTarget,
    Line("tools", help="what the model may call, what it costs, and switches for it"),
    shows=True,
)
async def listed(caller: Caller, _params: SessionTarget) -> Answer[ToolList]:
    """What the model may call, and the tokens that the schemas take."""
    servers = _listed(caller.session)
    return Answer(servers, _page(caller.session, servers))


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchParams(SessionTarget):
    """A server or one of its tools, and whether it may be called from now on."""

    server: str
    tool: str | None = None
    on: bool


def _read_switch(caller: Caller, argument: str) -> SwitchParams:
    words = argument.split()
    if not words or words[0] not in _ON_OFF or len(words) > 2:
        raise InvalidArgument("Use `:tools on [TOOL]` or `:tools off [TOOL]`.")
    # A server's tool is named SERVER__NAME, our own tools by their name alone.
    named = words[1] if len(words) > 1 else ""
    if named in caller.session.tools.servers():
        return SwitchParams(server=named, on=_ON_OFF[words[0]])
    server, _ = parts_of(named)
    return SwitchParams(server=server or OWN_TOOLS, tool=named or None, on=_ON_OFF[words[0]])


@operation(
    "tools.switch",
    SwitchParams,
    Line("tools", "on|off [TOOL]", "", _read_switch, choices=tuple(_ON_OFF)),
)
async def switch(caller: Caller, params: SwitchParams) -> Answer[ToolList]:
    """Switch a server's tools, or one of them, on or off for the rest of this session.

    To make it permanent, use `enabled` and `off` of `[tools.servers.NAME]` in the configuration.

    Raises:
        NotFound: there is no such server or tool.
    """
    caller.session.tools.switch(params.server, params.tool or "", on=params.on)
    what = params.tool or f"The tools of {params.server}"
    return _changed(caller, f"{what}: {'on' if params.on else 'off'}, in this session.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParams(SessionTarget):
    """A tool server, by its name in the configuration."""

    server: str


def _read_server(_caller: Caller, argument: str) -> ServerParams:
    if not argument or " " in argument:
        raise InvalidArgument("Name one server: `:tools` lists them.", path="server")
    return ServerParams(server=argument)


@operation(
    "tools.connect",
    ServerParams,
    Line("tools connect", "SERVER", "", _read_server),
    asks=True,
    needs_settings=True,
)
async def connect(caller: Caller, params: ServerParams) -> Answer[ToolList]:
    """Start a tool server now.

    A server that the workspace itself asks for starts once you have granted it, with its command,
    environment and address; if any of these changes, you are asked again.

    Raises:
        NotFound: there is no such server.
        Denied: it was not granted.
        BackendUnavailable: it did not start; the message says why.
    """
    await caller.session.tools.session_servers.connect(params.server)
    return _changed(caller, f"{params.server} is connected.")


@operation("tools.disconnect", ServerParams, Line("tools disconnect", "SERVER", "", _read_server))
async def disconnect(caller: Caller, params: ServerParams) -> Answer[ToolList]:
    """Stop a tool server. The next question starts it again, unless it is switched off.

    Raises:
        NotFound: there is no such server.
    """
    await caller.session.tools.session_servers.disconnect(params.server)
    return _changed(caller, f"{params.server} was stopped.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowParams(SessionTarget):
    """A server's ``tool``, or all of its tools, and for how long: see `tools.allow`."""

    server: str
    tool: str | None = None
    scope: Scope = "session"


def _read_allow(_caller: Caller, argument: str) -> AllowParams:
    words = argument.split()
    named = words[1] if len(words) == 2 else "session"
    scope = next((one for one in SCOPES if one == named), None)
    if not words or len(words) > 2 or scope is None:
        raise InvalidArgument("Use `:tools allow SERVER__TOOL [once|session|always]`.")
    server, _, tool = words[0].lstrip("_").partition("__")
    return AllowParams(server=server, tool=tool or None, scope=scope)


@operation(
    "tools.allow",
    AllowParams,
    Line("tools allow", "SERVER[__TOOL] [SCOPE]", "", _read_allow),
    asks=True,
)
async def allow(caller: Caller, params: AllowParams) -> Answer[ToolList]:
    """Let a server's tool, as it is now, be called without asking.

    This applies once, for this session (the default), or always in this workspace. If a single
    character of the server's description of the tool changes, the next call asks again.

    Raises:
        NotFound: there is no such server or tool; the server has to be connected.
        Denied: the user did not agree.
        StoreUnavailable, Busy: the grant cannot be written.
    """
    servers = caller.session.tools.session_servers
    what = _named(params.server, params.tool) or f"all tools of {params.server}"
    if not caller.is_typed:
        times = {"once": "once", "session": "in this session", "always": "always, in this folder"}
        question = Question(f"Let the model call {escaped(what)} {times[params.scope]}?", "Allow")
        if await caller.workspace.services.ask_user(question) is not True:
            raise Denied("Nothing was allowed: it was not confirmed.")
    await servers.allow(params.server, params.tool or "", params.scope)
    return _changed(caller, f"Allowed: {escaped(what)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeParams(SessionTarget):
    """A server's ``tool``, or all of its tools."""

    server: str
    tool: str | None = None


def _read_revoke(_caller: Caller, argument: str) -> RevokeParams:
    server, _, tool = argument.lstrip("_").partition("__")
    if not server or " " in argument:
        raise InvalidArgument("Use `:tools revoke SERVER[__TOOL]`.")
    return RevokeParams(server=server, tool=tool or None)


@operation("tools.revoke", RevokeParams, Line("tools revoke", "SERVER[__TOOL]", "", _read_revoke))
async def revoke(caller: Caller, params: RevokeParams) -> Answer[ToolList]:
    """Ask the user again before a tool of a server is called.

    Raises:
        NotFound: there is no such server or tool.
        StoreUnavailable, Busy: the grants cannot be written.
    """
    await caller.session.tools.session_servers.revoke(params.server, params.tool or "")
    what = _named(params.server, params.tool) or f"the tools of {params.server}"
    return _changed(caller, f"You are asked again before a call of {escaped(what)}.")


def _named(server: str, tool: str | None) -> str:
    """Return a tool's name as the list shows it; clients send that one, or the server's own."""
    if not tool or tool.startswith(f"{server}__"):
        return tool or ""
    return f"{server}__{tool}"


def _changed(caller: Caller, done: str) -> Answer[ToolList]:
    caller.workspace.changed()
    servers = _listed(caller.session)
    return Answer(servers, f"{done}\n\n{_page(caller.session, servers)}")


def _heading(server: ToolServerInfo) -> str:
    """Return the heading of a server, above its tools."""
    if not server.on:
        return f"**{server.name}**: off"
    if not server.granted:
        return (
            f"**{server.name}**: this workspace asks for it, and it does not start before you grant"
            f" it: `:tools connect {server.name}`"
        )
    if server.state in ("off", "starting"):
        how = "it starts with the next question" if server.state == "off" else "it is starting"
        return f"**{server.name}**: {how}"
    tokens = sum(tool.tokens for tool in server.tools if tool.on)
    size = f"about {tokens:,} tokens" if server.tools else "no tools"
    heading = f"**{server.name}**: {size if server.state == 'ready' else 'failed'}"
    return f"{heading}\n\n> {server.error}" if server.error else heading


def _row(server: ToolServerInfo, tool: ToolInfo) -> str:
    marks = ["off"] if not (tool.on and server.on) else []
    if server.name != OWN_TOOLS and tool.allowed:
        marks.append("allowed")
    mark = f" ({', '.join(marks)})" if marks else ""
    about = cut(escaped(tool.description.strip().split("\n", 1)[0]), 200)
    return f"- `{tool.name}`{mark}, {tool.tokens} tokens: {about}"


def _page(session: Session, found: ToolList) -> str:
    """Return the list as a page for the user."""
    parts = [
        "\n".join([_heading(server), "", *(_row(server, tool) for tool in server.tools)]).rstrip()
        for server in found.servers
    ]
    if not parts:
        return "There are no tools: no folder is open."
    name = session.preset.name
    if not found.offered:
        parts.append(
            f"{name} is offered no tools: it takes none, its window is too small for them, or all"
            " are switched off."
        )
    elif TOOL_SEARCH in found.offered:
        parts.append(
            f"{name} is told only the names of some, and fetches them by `tool_search`: all"
            " together would take more than `tools.share` of its window, or be more than its"
            " server takes."
        )
    parts.append("`:tools off TOOL` and `:tools on TOOL` switch one in this session.")
    if any(server.name != OWN_TOOLS for server in found.servers):
        parts.append(
            "`:tools allow TOOL` lets one be called without a question in this session, `:tools"
            " allow TOOL always` in this workspace; `:tools revoke TOOL` takes it back."
        )
    return "\n\n".join(parts)
