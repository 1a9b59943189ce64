"""What a turn asks of the tools that a model may call: which there are, and to call one."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from aish_lsp.foundation.errors import AishError, NotFound
from aish_lsp.foundation.job import internal_error
from aish_lsp.foundation.wording import shown

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.job import Emit
    from aish_lsp.models.request import ToolCall, ToolSchema

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call, as the model is told it."""

    text: str
    status: Literal["done", "failed", "denied"] = "done"


@dataclass(frozen=True, slots=True)
class Around:
    """What a call is made in.

    Attributes:
        emit: passes on what happens meanwhile.
        warn: tells the user something.
        group: what the changes that it makes are undone together with.
        limit: characters that its result may have.
    """

    emit: Emit
    warn: Callable[[str], Awaitable[None]]
    group: str
    limit: int


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. ``reads`` says that it changes nothing, so that several may be called at once."""

    schema: ToolSchema
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as a person is shown it; ``tokens`` are those of its schema, an estimate."""

    name: str
    description: str
    tokens: int
    on: bool


class Provider(Protocol):
    """Somebody who brings tools: we ourselves, or a tool server.

    Attributes:
        name: the server's name, ``aish`` for ours.
    """

    name: str

    def tools(self) -> tuple[Tool, ...]:
        """Return what it has now, each by the name that the model calls it by."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], around: Around, /) -> ToolResult:
        """Call one of them; it asks the user where that is due. It may be cancelled.

        Raises:
            AishError: it failed; the message tells the model why.
        """
        ...


class Tools(Protocol):
    """The tools of a session."""

    def definitions(self, preset: Preset, window: int, /) -> tuple[ToolSchema, ...]:
        """Return what is offered now to a model with a window of so many tokens."""
        ...

    def names(self) -> Collection[str]:
        """Return the names of all that may be called, whether they are offered or not."""
        ...

    def servers(self) -> Sequence[str]:
        """Return who brings tools, by name."""
        ...

    def is_on(self, server: str, /) -> bool:
        """Return whether the tools of a server may be called."""
        ...

    def listed(self, server: str, preset: Preset, /) -> list[Listed]:
        """Return the tools of a server, switched on or not."""
        ...

    def switch(self, server: str, tool: str, /, *, on: bool) -> None:
        """Have a server's tool, or all of them where it is empty, be called or not.

        Raises:
            NotFound: there is no such server or tool.
        """
        ...

    def reads(self, name: str, /) -> bool:
        """Return whether a tool only reads: such calls of one reply are made at the same time."""
        ...

    def begin(self) -> None:
        """Take note that another turn begins."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], around: Around, /) -> ToolResult:
        """Call one of them, as ``Provider.call``."""
        ...


class NoTools:
    """The tools of a session that has none: no call gets as far as here."""

    def definitions(self, _preset: Preset, _window: int, /) -> tuple[ToolSchema, ...]:
        """Return none."""
        return ()

    def names(self) -> Collection[str]:
        """Return none."""
        return ()

    def servers(self) -> Sequence[str]:
        """Return none."""
        return ()

    def is_on(self, _server: str, /) -> bool:
        """Return that it is not."""
        return False

    def listed(self, _server: str, _preset: Preset, /) -> list[Listed]:
        """Return none."""
        return []

    def switch(self, server: str, _tool: str, /, *, on: bool) -> None:
        """Refuse."""
        raise NotFound(f"There is no tool server {server[:60]!r}: no folder is open.")

    def reads(self, _name: str, /) -> bool:
        """Return whether it reads, which is as good as any answer."""
        return False

    def begin(self) -> None:
        """Do nothing."""

    async def call(
        self, name: str, _arguments: Mapping[str, Any], _around: Around, /
    ) -> ToolResult:
        """Refuse the call."""
        raise NotFound(f"There is no tool {name}.")


async def call_tool(tools: Tools, call: ToolCall, around: Around) -> ToolResult:
    """Return what comes of a model's call, whatever it wrote: the model is to read its mistakes."""
    known = tools.names()
    if call.name not in known:
        there_are = f"There are: {', '.join(known)}." if known else "There are none."
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
