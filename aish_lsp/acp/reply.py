"""The events of a job, as updates for the client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from acp import helpers, schema

from aish_lsp.acp.updates import in_slashes
from aish_lsp.agent.events import (
    Command,
    CommandInfo,
    End,
    Notice,
    Output,
    Reasoning,
    Step,
    Text,
    Tool,
    Usage,
)
from aish_lsp.chat.markdown import quote
from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.foundation.text import clipped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aish_lsp.acp.updates import Updates
    from aish_lsp.foundation.events import Event

_KINDS: Final[dict[str, schema.ToolKind]] = {
    "read_file": "read",
    "diagnostics": "read",
    "list_files": "search",
    "search": "search",
    "symbols": "search",
    "definition": "search",
    "edit_file": "edit",
    "write_file": "edit",
    "run_command": "execute",
}

_STATUSES: Final[dict[str, schema.PlanEntryStatus]] = {
    "planned": "pending",
    "running": "in_progress",
}


class ShownReply:
    """Shows the events of one job.

    Args:
        updates: where they are shown.
        used: shows what the session has used.

    Attributes:
        commands: the commands that the reply suggests, by their ids.
    """

    def __init__(self, updates: Updates, used: Callable[[], Awaitable[None]]) -> None:
        self._updates = updates
        self._used = used
        self.commands: dict[str, CommandInfo] = {}
        self._notices: list[str] = []
        self._in_text = False
        self._steps: dict[int, schema.PlanEntry] = {}
        # The commands that a step towards a goal has run.
        self._ran: set[str] = set()
        # The call that runs a command; others end before it begins.
        self._calling = ""

    async def take(self, event: Event) -> None:  # noqa: C901 - a row for each event
        """Show an event: text at once, notices only where they do not break a line of text."""
        updates = self._updates
        match event:
            case Text(delta=delta):
                self._in_text = True
                await updates.say(delta)
            case Reasoning(delta=delta):
                await updates.think(delta)
            case Command(command=info):
                # One from a fence may be told again, with the same id.
                self.commands[info.id] = info
            case Tool():
                await self._take_call(event)
            case Output():
                await self._take_output(event)
            case Step():
                await self._take_step(event)
            case Notice(message=message):
                self._notices.append(message)
                if not self._in_text:
                    await self.show_notices()
            case Usage():
                await self._used()
            case End(error={"message": message}) if self._in_text:
                self._notices.append(f"The reply broke off: {message}")
                await self.show_notices()
            case End():
                await self.show_notices()

    async def show_notices(self) -> None:
        """Show the notices that were held back, each as a quote in a paragraph of its own."""
        notices, self._notices = self._notices, []
        for notice in notices:
            begin = "\n\n" if self._in_text else ""
            self._in_text = False
            await self._updates.say(f"{begin}{quote(in_slashes(notice))}\n")

    async def _take_call(self, event: Tool) -> None:
        kind = kind_of(event.name) if event.server == OWN_TOOLS else "other"
        await self.show_notices()
        match event.status:
            case "pending":
                arguments = _given(event.arguments)
                await self._updates.begin_call(event.call_id, event.title, kind, arguments)
            case "running":
                self._calling = event.call_id
                await self._updates.call_runs(event.call_id)
            case status:
                self._calling = ""
                ended: schema.ToolCallStatus = "completed" if status == "done" else "failed"
                text = f"```diff\n{event.diff}\n```" if event.diff else event.result or ""
                await self._updates.end_call(event.call_id, ended, text, title=event.title)
        self._in_text = False

    async def _take_output(self, event: Output) -> None:
        """Show that a command runs, and what it prints."""
        if (info := self.commands.get(event.command_id)) is not None:
            await self._updates.begin_call(info.id, info.text, "execute", {"command": info.text})
            self._ran.add(info.id)
        call_id = self._calling or event.command_id
        await self._updates.call_runs(call_id)
        # The result of a tool call has what it printed.
        if self._updates.streams or not self._calling:
            await self._updates.call_prints(call_id, event.delta)

    async def _take_step(self, event: Step) -> None:
        plan = clipped(event.plan or event.goal, 200)
        status = _STATUSES.get(event.status, "completed")
        self._steps[event.number] = helpers.plan_entry(plan, status=status)
        await self._updates.plan([*self._steps.values()])
        if status == "completed":
            ended: schema.ToolCallStatus = "completed" if event.status == "done" else "failed"
            for command_id in sorted(self._ran):
                await self._updates.end_call(command_id, ended)
            self._ran.clear()


def kind_of(name: str) -> schema.ToolKind:
    """Return the kind of a tool, which a server's name has none of."""
    return _KINDS.get(name, "other")


def _given(arguments: str) -> object:
    """Return the arguments of a call as JSON, or as the model wrote them."""
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
