"""What a turn asks of the tools that a model may call: which there are, and to call one."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from aish_lsp.foundation.errors import AishError, NotFound
from aish_lsp.foundation.job import internal_error
from aish_lsp.foundation.wording import shown

if TYPE_CHECKING:
    from aish_lsp.models.events import ToolCall
    from aish_lsp.models.request import ToolSchema

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call, as the model is told it."""

    text: str
    status: Literal["done", "failed", "denied"] = "done"


class Tools(Protocol):
    """The tools of a session."""

    def definitions(self) -> tuple[ToolSchema, ...]:
        """Return the tools that are offered to the model now."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], /) -> ToolResult:
        """Call one of them; it asks the user where that is due. It may be cancelled.

        Raises:
            AishError: it failed; the message tells the model why.
        """
        ...


class NoTools:
    """The tools of a session that has none: no call gets as far as here."""

    def definitions(self) -> tuple[ToolSchema, ...]:
        """Return none."""
        return ()

    async def call(self, name: str, _arguments: Mapping[str, Any], /) -> ToolResult:
        """Refuse the call."""
        raise NotFound(f"There is no tool {name}.")


async def call_tool(tools: Tools, call: ToolCall) -> ToolResult:
    """Return what comes of a model's call, whatever it wrote: the model is to read its mistakes."""
    known = [tool.name for tool in tools.definitions()]
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
        return await tools.call(call.name, arguments)
    except AishError as error:
        return ToolResult(error.message, "failed")
    except Exception as error:
        logger.exception("a tool failed")
        return ToolResult(internal_error(error).message, "failed")
