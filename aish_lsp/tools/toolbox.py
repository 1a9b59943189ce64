"""The tools of one session, built in or from servers: which are offered, their cost, and calls."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.context.counter import schema_tokens
from aish_lsp.foundation.errors import AishError, InvalidArgument, NotFound
from aish_lsp.foundation.job import internal_error
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import count_of, cut, escaped, shown
from aish_lsp.models.refusals import limit_in, named_in
from aish_lsp.models.request import ToolSchema
from aish_lsp.tools import ToolResult, offered_name
from aish_lsp.tools.builtin import asks_editor

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.config.schema import Tools as Settings
    from aish_lsp.foundation.ports import AskUser
    from aish_lsp.models.request import ToolCall
    from aish_lsp.tools import Around, OfferedTool, Provider
    from aish_lsp.tools.builtin import BuiltInTools
    from aish_lsp.tools.servers import SessionServers

logger = logging.getLogger(__name__)

#: Fields of a request that rule out our tools: the server accepts no tools with them, or they are
#: the user's own tools.
_INSTEAD_OF_TOOLS: Final = frozenset(
    {
        "grammar",
        "json_schema",
        "response_format",
        "guided_json",
        "guided_grammar",
        "tools",
        "format",
    }
)

#: After this many equal calls in a row the user is asked, and again after as many more.
_SAME: Final = 5

#: The most tools that one search fetches.
_FOUND: Final = 5

#: Characters of a call that a question shows.
_SHOWN: Final = 400

TOOL_SEARCH: Final = "tool_search"

#: The most tools that a model is offered at once: what most servers take. OpenAI takes no more.
MOST_TOOLS: Final = 128


class Toolbox:
    """The tools of all ``providers`` that are switched on, by ``settings`` or by the user.

    If their schemas take more than ``tools.share`` of a model's window, or are more than its server
    takes, some are deferred: the model is offered a tool that has a line on each of them and
    fetches those that the model wants. These come after it, so that the beginning of the prompt
    does not change.
    """

    def __init__(
        self,
        own: Sequence[BuiltInTools],
        settings: Callable[[], Settings],
        ask_user: AskUser,
        servers: SessionServers | None = None,
    ) -> None:
        self._own = tuple(own)
        self._settings = settings
        self._ask_user = ask_user
        self._servers = servers
        #: Whether tools that may change something are neither offered nor called.
        self.only_reads = False
        self._switched: dict[tuple[str, str], bool] = {}
        self._fetched: list[str] = []
        # What models' servers do not take: more than so many tools, and single ones.
        self._most: dict[tuple[str, str], int] = {}
        self._refused: dict[tuple[str, str], set[str]] = {}
        self._last: tuple[str, str] | None = None
        self._times = 0

    # Which there are

    @property
    def providers(self) -> Sequence[Provider]:
        """The current sources of tools: the built-in ones, and the configured servers."""
        servers = self._servers.providers() if self._servers else []
        return (*(own.provider() for own in self._own), *servers)

    def server(self, name: str) -> Provider:
        """Return a server by its name.

        Raises:
            NotFound: there is none.
        """
        for provider in self.providers:
            if provider.name == name:
                return provider
        there_are = f" There are: {', '.join(self.servers())}." if self.servers() else ""
        raise NotFound(f"There is no tool server {escaped(name)[:60]}.{there_are}")

    def _enabled(self) -> dict[str, OfferedTool]:
        """Return the tools that may be called, by their names."""
        return {
            name: tool
            for provider in self.providers
            for tool in provider.tools
            if self._may_call(provider.name, tool, name := tool.schema.name)
        }

    def _may_call(self, server: str, tool: OfferedTool, name: str) -> bool:
        return self.is_on(server, name) and (tool.reads or not self.only_reads)

    def is_on(self, server: str, tool: str = "", /) -> bool:
        """Return whether a server, or one of its tools, may be called."""
        own = self._settings().servers.get(server)
        on = self._switched.get((server, ""), own is None or own.enabled)
        if on and tool:
            off = own.off if own else []
            is_off = tool in off or tool in {offered_name(server, name) for name in off}
            on = self._switched.get((server, tool), not is_off)
        return on

    def switch(self, server: str, tool: str, /, *, on: bool) -> None:
        """Switch a server's tool, or all of them if it is empty, on or off for this session.

        Raises:
            NotFound: there is no such server or tool.
        """
        names = [one.schema.name for one in self.server(server).tools]
        if tool and tool not in names:
            has = f"It has: {', '.join(names)}" if names else "It has none, or is not connected"
            raise NotFound(f"{server} has no tool {escaped(tool)[:60]}. {has}.")
        self._switched[server, tool] = on

    def servers(self) -> Sequence[str]:
        """Return the names of the sources of tools."""
        return [provider.name for provider in self.providers]

    def costs(self, preset: Preset, window: int, /) -> dict[str, int]:
        """Return the servers whose tools are offered, with roughly how many tokens these take."""
        offered = {schema.name: schema for schema in self.definitions(preset, window)}
        costs = {
            provider.name: sum(
                schema_tokens(offered[tool.schema.name], preset)
                for tool in provider.tools
                if tool.schema.name in offered
            )
            for provider in self.providers
        }
        return {name: tokens for name, tokens in costs.items() if tokens}

    def names(self) -> Collection[str]:
        """Return the names of all tools that may be called, whether they are offered or not."""
        names = [*self._enabled()]
        return [*names, TOOL_SEARCH] if names else names

    def reads(self, name: str, /) -> bool:
        """Return whether a tool only reads."""
        tool = self._enabled().get(name)
        return tool is not None and tool.reads

    def definitions(self, preset: Preset, window: int, /) -> tuple[ToolSchema, ...]:
        """Return the tools that are now offered to a model with a window of this many tokens.

        If they are too much, those of servers are deferred first, the largest first, then those
        that ask the editor, and the other built-in ones last. There are none if not even the
        shortest list of them fits.
        """
        if preset.provider == "offline" or not _INSTEAD_OF_TOOLS.isdisjoint(preset.extra_body):
            return ()
        tokens, by_server = self._settings().share * window, self._takeable(preset)
        most = self._most.get(_server_of(preset), MOST_TOOLS)

        def size(schemas: Iterable[ToolSchema]) -> int:
            return sum(schema_tokens(schema, preset) for schema in schemas)

        schemas = [one for listed in by_server.values() for one in listed]
        own = by_server.pop(OWN_TOOLS, [])
        groups = sorted(by_server.values(), key=size, reverse=True)
        groups += [[one for one in own if asks_editor(one.name)], own]
        for count in range(len(groups) + 1):
            later = {one.name: one for group in groups[:count] for one in group}
            current = [one for one in schemas if one.name not in later]
            for search in self._searches(later) if later else (None,):
                offered = [*current, search] if search else current
                if len(offered) <= most and size(offered) <= tokens:
                    fetched = [later[name] for name in self._fetched if name in later]
                    room = most - len(offered)
                    return (*offered, *fetched[max(0, len(fetched) - room) :])
        return ()

    def _searches(self, later: Mapping[str, ToolSchema]) -> Iterator[ToolSchema]:
        """Yield the tool that fetches those that are deferred, from the longest to the shortest."""
        counts = {
            provider.name: sum(tool.schema.name in later for tool in provider.tools)
            for provider in self.providers
        }
        return _search_schemas([*later.values()], counts)

    def _takeable(self, preset: Preset) -> dict[str, list[ToolSchema]]:
        """Return the tools that may be called and that the model's server takes, by provider."""
        refused = self._refused.get(_server_of(preset), set())
        return {
            provider.name: [
                tool.schema
                for tool in provider.tools
                if self._may_call(provider.name, tool, name := tool.schema.name)
                and name not in refused
            ]
            for provider in self.providers
        }

    def adapt(self, preset: Preset, said: str, offered: Sequence[ToolSchema], /) -> str:
        """Offer other tools from now on, if a model's server refused those it was offered.

        ``said`` is its reason. Returns what to tell the user; empty if it is not about the tools.
        """
        names, server = [schema.name for schema in offered], _server_of(preset)
        if (most := limit_in(said, len(names))) is not None:
            self._most[server] = most
            return (
                f"{preset.name}'s server takes at most {count_of(most, 'tool')}: it is told"
                f" the names of the others, and fetches them by `{TOOL_SEARCH}`."
            )
        if not (name := named_in(said, names)) or name == TOOL_SEARCH:
            return ""
        self._refused.setdefault(server, set()).add(name)
        owner = next(
            (one.name for one in self.providers if name in {t.schema.name for t in one.tools}), ""
        )
        return (
            f"{preset.name}'s server does not accept the tool {name} of {owner}, which is left"
            f" out: {cut(escaped(said), _SHOWN)} To switch it off for good:"
            f' `off = ["{name}"]` under `[tools.servers.{owner}]` in config.toml.'
        )

    # Calling one

    async def begin(self) -> list[str]:
        """Prepare for another turn: start the servers, and return what is wrong with them.

        A call no longer counts as a repetition of earlier ones.
        """
        self._last, self._times = None, 0
        return await self._servers.start(self.is_on) if self._servers else []

    @property
    def session_servers(self) -> SessionServers:
        """The servers that are configured.

        Raises:
            NotFound: there are none.
        """
        if self._servers is None:
            raise NotFound("There are no tool servers: no folder is open.")
        return self._servers

    async def call(self, name: str, arguments: Mapping[str, Any], around: Around, /) -> ToolResult:
        """Call a tool; before each fifth identical call in a row, ask the user.

        Raises:
            AishError: it failed; the message tells the model why.
        """
        made = name, json.dumps(arguments, sort_keys=True)
        self._times = self._times + 1 if made == self._last else 1
        self._last = made
        if self._times % _SAME == 0 and not await self._may_go_on(*made, self._times):
            return ToolResult(
                "The user stopped this: the same call, again and again, brings nothing new. Answer"
                " with what you know, or do something else.",
                "denied",
            )
        if name == TOOL_SEARCH:
            return self._search(arguments)
        tool = self._enabled().get(name)
        if tool is None:
            raise NotFound(f"There is no tool {name[:60]}.")
        return await tool.call(arguments, around)

    async def _may_go_on(self, name: str, arguments: str, times: int) -> bool:
        shown = cut(escaped(arguments), _SHOWN)
        question = Question(
            f"The model makes the same call for the {times}th time in a row:\n\n    {name} {shown}"
            "\n\nMake it once more?",
            yes="Make it",
            no="Stop it",
        )
        return await self._ask_user(question) is True

    def _search(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Fetch the tools that match a query; they are offered from the next round on."""
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgument("`query` has to be a text: words of what is to be done.")
        words = set(_words(query))
        ranked = []
        for tool in self._enabled().values():
            schema = tool.schema
            hits = words & set(_words(f"{schema.name} {schema.description}"))
            named = schema.name.lower() in query.lower()
            if hits or named:
                ranked.append((-len(hits) - 10 * named, schema.name, schema))
        schemas = [schema for _, _, schema in sorted(ranked, key=lambda one: one[:2])[:_FOUND]]
        if not schemas:
            return ToolResult("No tool fits. Use other words.")
        self._fetched += [one.name for one in schemas if one.name not in self._fetched]
        rows = [
            f"{one.name}: {one.description}\narguments: {json.dumps(one.parameters)}"
            for one in schemas
        ]
        return ToolResult("\n\n".join(["You can call these now:", *rows]))


async def call_tool(tools: Toolbox, call: ToolCall, around: Around) -> ToolResult:
    """Return the result of a model's call; its mistakes become results that it can read."""
    names = tools.names()
    if call.name not in names:
        there_are = f"There are: {', '.join(names)}." if names else "There are none."
        return ToolResult(f"There is no tool {shown(call.name)}. {there_are}", "failed")
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return ToolResult("The arguments are not a JSON object. Call it again.", "failed")
    try:
        return await tools.call(call.name, arguments, around)
    except AishError as error:
        return ToolResult(error.message, "failed")
    except Exception as error:
        logger.exception("a tool failed")
        return ToolResult(internal_error(error).message, "failed")


def _server_of(preset: Preset) -> tuple[str, str]:
    return preset.endpoint, preset.model


def _search_schemas(
    schemas: Sequence[ToolSchema], by_server: Mapping[str, int]
) -> Iterator[ToolSchema]:
    """Yield the tool that fetches others, described by a line on each, by names, and by servers."""
    yield _search_schema([f"{schema.name}: {_one_line(schema.description)}" for schema in schemas])
    yield _search_schema([", ".join(schema.name for schema in schemas)])
    yield _search_schema(
        [f"{name}: {count_of(count, 'tool')}" for name, count in by_server.items() if count]
    )


def _search_schema(rows: Sequence[str]) -> ToolSchema:
    return ToolSchema(
        TOOL_SEARCH,
        "\n".join(["Fetch the arguments of tools, then call them. There are:", *rows]),
        {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "names, or what for"}},
            "required": ["query"],
        },
    )


def _one_line(description: str) -> str:
    """Return the first sentence of a description."""
    first = description.strip().split("\n", 1)[0]
    return cut(re.split(r"(?<=[.;])\s", first, maxsplit=1)[0], 100)


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 2]
