"""What the client of one session is shown: messages, tool calls, the plan and the usage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from acp import helpers, schema

from aish_lsp.foundation.text import clipped, escaped, one_line, well_formed

if TYPE_CHECKING:
    from acp import Client

#: Characters of a tool call's title, and of the text of one call that the client is sent.
_TITLE: Final = 200
MOST_OUTPUT: Final = 60_000

#: A command in our own texts, which clients take with a slash.
_COLON: Final = re.compile(r"`:(?=[a-z])")


class Updates:
    """Sends updates for one session.

    Args:
        client: the connection; an update for a client that is gone is dropped.
        session_id: the session's id in the protocol.
    """

    def __init__(self, client: Client, session_id: str) -> None:
        self.client = client
        self.session_id = session_id
        # Whether each call that has not ended is being carried out, by its id.
        self._open_calls: dict[str, bool] = {}
        # How often each id was used: many models begin to count anew with each question.
        self._times: dict[str, int] = {}

    async def send(self, update: Any) -> None:
        """Send an update."""
        with suppress(ConnectionError):
            await self.client.session_update(self.session_id, update)

    async def say(self, text: str) -> None:
        """Show a piece of the agent's message."""
        await self.send(helpers.update_agent_message_text(well_formed(text)))

    async def think(self, text: str) -> None:
        """Show a piece of the model's reasoning."""
        await self.send(helpers.update_agent_thought_text(well_formed(text)))

    def shown_id(self, call_id: str) -> str:
        """Return the id by which the client knows a call, which no other call has had."""
        times = self._times.get(call_id, 1)
        return call_id if times == 1 else f"{call_id}-{times}"

    async def begin_call(
        self, call_id: str, title: str, kind: schema.ToolKind, given: object = None
    ) -> None:
        """Show a tool call that has not begun yet, unless it is shown already."""
        if call_id not in self._open_calls:
            self._open_calls[call_id] = False
            self._times[call_id] = self._times.get(call_id, 0) + 1
            await self.send(
                helpers.start_tool_call(
                    self.shown_id(call_id),
                    shown_title(title),
                    kind=kind,
                    status="pending",
                    raw_input=given,
                )
            )

    async def call_runs(self, call_id: str) -> None:
        """Show that a call that is shown is being carried out, once."""
        if self._open_calls.get(call_id) is False:
            self._open_calls[call_id] = True
            await self.send(helpers.update_tool_call(self.shown_id(call_id), status="in_progress"))

    async def end_call(
        self,
        call_id: str,
        status: schema.ToolCallStatus,
        text: str = "",
        *,
        title: str | None = None,
        result: object = None,
    ) -> None:
        """Show how a tool call ended, with the ``text`` that came of it."""
        self._open_calls.pop(call_id, None)
        text = well_formed(clipped(text, MOST_OUTPUT))
        content = [helpers.tool_content(helpers.text_block(text))] if text else None
        title = shown_title(title) if title else None
        await self.send(
            helpers.update_tool_call(
                self.shown_id(call_id),
                status=status,
                title=title,
                content=content,
                raw_output=result,
            )
        )

    async def end_calls(self) -> None:
        """Show that the calls that are still open were stopped."""
        for call_id in sorted(self._open_calls):
            await self.end_call(call_id, "failed")

    async def plan(self, entries: Sequence[schema.PlanEntry]) -> None:
        """Show the steps of a plan, in place of those shown before."""
        await self.send(helpers.update_plan(entries))


def shown_title(text: str) -> str:
    """Return a text as the title of a tool call: one line, with invisible characters escaped."""
    return clipped(escaped(one_line(text.strip())), _TITLE)


def in_slashes(text: str) -> str:
    """Return a text of ours, with the commands in it as clients take them."""
    return _COLON.sub("`/", text)
