"""``tools.*``: what a model may call, what that costs, and what of it is switched on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.operations.operation import Answer, Line, Place, SessionTarget, operation

if TYPE_CHECKING:
    from aish_lsp.agent.session import Session

_ON_OFF = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool; ``tokens`` are those of its schema, an estimate for the model that answers now."""

    name: str
    description: str
    tokens: int
    on: bool


@dataclass(frozen=True, slots=True)
class ToolServerInfo:
    """Who brings tools: `aish` is we ourselves."""

    name: str
    on: bool
    tools: list[ToolInfo]


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools there are, and the names of those that the next request offers in full.

    That may be none, for a model or a window that takes none; or `tool_search` alone, which names
    the others.
    """

    servers: list[ToolServerInfo]
    offered: list[str]


def _listed(session: Session) -> ToolList:
    tools, preset = session.tools, session.preset
    limit = session.accounting.known_limits(preset, session.workspace.config)
    servers = [
        ToolServerInfo(
            server,
            tools.is_on(server),
            [
                ToolInfo(one.name, one.description, one.tokens, one.on)
                for one in tools.listed(server, preset)
            ],
        )
        for server in tools.servers()
    ]
    return ToolList(servers, [schema.name for schema in session.tools_for(preset, limit)])


@operation(
    "tools.list",
    SessionTarget,
    Line("tools", help="what the model may call, what it costs, and switches for it"),
    shows=True,
)
async def listed(place: Place, _params: SessionTarget) -> Answer[ToolList]:
    """What the model may call, and what the schemas cost."""
    found = _listed(place.session)
    return Answer(found, _page(place.session, found))


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchParams(SessionTarget):
    """A server, or one of its `tool`s, and whether it may be called from now on."""

    server: str
    tool: str | None = None
    on: bool


def _read_switch(_place: Place, argument: str) -> SwitchParams:
    words = argument.split()
    if not words or words[0] not in _ON_OFF or len(words) > 2:
        raise InvalidArgument("Use `:tools on [TOOL]` or `:tools off [TOOL]`.")
    # A server's tool is called SERVER__NAME, ours by its name alone.
    named = words[1] if len(words) > 1 else ""
    server, parted, _ = named.partition("__")
    return SwitchParams(
        server=server if parted else OWN_TOOLS, tool=named or None, on=_ON_OFF[words[0]]
    )


@operation(
    "tools.switch",
    SwitchParams,
    Line("tools", "on|off [TOOL]", "", _read_switch, choices=tuple(_ON_OFF)),
)
async def switch(place: Place, params: SwitchParams) -> Answer[ToolList]:
    """Have a server's tools, or one of them, be called or not, in this session from now on.

    `[tools.servers.NAME]` in the configuration says so for good: `enabled`, and `off`.

    Raises:
        NotFound: there is no such server or tool.
    """
    place.session.tools.switch(params.server, params.tool or "", on=params.on)
    place.workspace.changed()
    found = _listed(place.session)
    what = params.tool or f"The tools of {params.server}"
    told = f"{what}: {'on' if params.on else 'off'}, in this session."
    return Answer(found, f"{told}\n\n{_page(place.session, found)}", is_told=True)


def _page(session: Session, found: ToolList) -> str:
    """Return the list for a person."""
    parts = []
    for server in found.servers:
        tokens = sum(tool.tokens for tool in server.tools if tool.on and server.on)
        heading = f"**{server.name}**: about {tokens:,} tokens" if server.on else server.name
        rows = [
            f"- `{tool.name}`{'' if tool.on and server.on else ' (off)'}, {tool.tokens} tokens:"
            f" {tool.description}"
            for tool in server.tools
        ]
        parts.append("\n".join([heading if server.on else f"**{heading}**: off", "", *rows]))
    if not parts:
        return "There are no tools: no folder is open."
    name = session.active_model
    if not found.offered:
        parts.append(
            f"{name} is offered none: it takes none, its window is too small for them, or all are"
            " switched off."
        )
    elif found.offered[0] == "tool_search":
        parts.append(
            f"{name} is told their names alone, and fetches the rest by `tool_search`: together"
            " they would take more than `tools.share` of its window."
        )
    parts.append("`:tools off TOOL` and `:tools on TOOL` switch one in this session.")
    return "\n\n".join(parts)
