"""What the client of one session is shown: messages, tool calls, the plan, the usage, the options.

What a command prints is shown in two parts: its head while it runs, its tail at the end.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from acp import helpers, schema

from aish_lsp.foundation.text import clipped, escaped, one_line, well_formed
from aish_lsp.operations.markdown import quoted
from aish_lsp.shell.output import KeptOutput, clean_output

if TYPE_CHECKING:
    from acp import Client

#: Characters of a tool call's title, and bytes of the text of one call that the client is sent.
_TITLE: Final = 200
_MOST: Final = 64 << 10

#: A command in our own texts, which clients take with a slash.
_COLON: Final = re.compile(r"`:(?=[a-z])")


class Updates:
    """Sends updates for one session.

    Args:
        client: the connection; an update for a client that is gone is dropped.
        can: what the client can do.

    Attributes:
        session_id: the session's id in the protocol.
        files, has_terminals: what the client lends.
        streams: whether the client takes what a command prints in pieces.
    """

    def __init__(self, client: Client, can: schema.ClientCapabilities) -> None:
        self.client = client
        self.files = can.fs or schema.FileSystemCapabilities()
        self.has_terminals = bool(can.terminal)
        self.session_id = ""
        self.streams = bool((can.field_meta or {}).get("terminal_output"))
        self._outputs: dict[str, LiveOutput] = {}
        # The calls whose command runs in a terminal of the client.
        self._in_terminal: set[str] = set()
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
            begun = helpers.start_tool_call(
                self.shown_id(call_id),
                shown_title(title),
                kind=kind,
                status="pending",
                raw_input=given,
            )
            if self.streams and kind == "execute":
                begun.field_meta = self._terminal(call_id, "info")
            await self.send(begun)

    async def call_runs(self, call_id: str) -> None:
        """Show that a call that is shown is being carried out, once."""
        if self._open_calls.get(call_id) is False:
            self._open_calls[call_id] = True
            await self._update(call_id, status="in_progress")

    async def call_prints(self, call_id: str, text: str) -> None:
        """Show what a command prints, a first time even if it is nothing yet."""
        if call_id in self._in_terminal:
            return
        if call_id not in self._outputs:
            send = functools.partial(self._print, call_id) if self.streams else None
            self._outputs[call_id] = LiveOutput(send)
            if self.streams:
                await self._show_terminal(call_id, self.shown_id(call_id))
        self._outputs[call_id].add(text)

    async def call_is_in_terminal(self, call_id: str, terminal: str) -> None:
        """Show the terminal of the client in which a command runs."""
        self._in_terminal.add(call_id)
        self._outputs.pop(call_id, None)
        await self._show_terminal(call_id, terminal)
        await self.call_runs(call_id)

    async def _show_terminal(self, call_id: str, terminal: str) -> None:
        await self._update(call_id, content=[helpers.tool_terminal_ref(terminal)])

    async def _print(self, call_id: str, text: str) -> None:
        """Send a piece of an output, in the form of Zed and of what follows it."""
        await self._update(call_id, field_meta=self._terminal(call_id, "output", data=text))

    def _terminal(self, call_id: str, what: str, **more: object) -> dict[str, object]:
        return {f"terminal_{what}": {"terminal_id": self.shown_id(call_id), **more}}

    async def end_call(
        self,
        call_id: str,
        status: schema.ToolCallStatus,
        text: str = "",
        *,
        title: str = "",
        result: Mapping[str, object] | None = None,
    ) -> None:
        """Show how a tool call ended, with what its command printed and what else came of it."""
        self._open_calls.pop(call_id, None)
        output, meta = self._outputs.pop(call_id, None), None
        rest = well_formed(await output.end()) if output else ""
        if output and self.streams:
            if rest:
                await self._print(call_id, rest)
            ended = result or {"exitCode": None, "signal": None}
            meta = self._terminal(
                call_id, "exit", exit_code=ended["exitCode"], signal=ended["signal"]
            )
            text = ""
        elif printed := clean_output(rest).rstrip():
            text = f"{quoted(printed, '')}\n{text}"
        if call_id in self._in_terminal:
            self._in_terminal.discard(call_id)
            text = ""
        text = fitting(well_formed(text), _MOST)
        await self._update(
            call_id,
            status=status,
            title=shown_title(title) if title else None,
            content=[helpers.tool_content(helpers.text_block(text))] if text else None,
            raw_output=result,
            field_meta=meta,
        )

    async def _update(self, call_id: str, **change: Any) -> None:
        update = schema.ToolCallProgress(
            session_update="tool_call_update", tool_call_id=self.shown_id(call_id), **change
        )
        await self.send(update)

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


#: Bytes of messages for the head of an output, with what surrounds each update, and for its tail.
_HEAD: Final = 40 << 10
_AROUND: Final = 300
_TAIL: Final = 20 << 10
#: Bytes of the tail itself, which may have more in a message.
_KEPT: Final = 16 << 10

#: Seconds between two updates, at least; and as a part of how long the command has run.
_PAUSE: Final = 0.1
_PART: Final = 0.05


class LiveOutput:
    """The output of one command.

    Args:
        send: is called with each piece of the head; None for a client that takes no pieces.
    """

    def __init__(self, send: Callable[[str], Awaitable[None]] | None) -> None:
        self._send = send
        self._left = _HEAD
        self._head = ""
        self._rest = KeptOutput(0, _KEPT)
        self._clock = asyncio.get_running_loop().time
        self._begun = self._clock()
        self._ended = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def add(self, text: str) -> None:
        """Take a piece of the output."""
        if self._left > 0 and text:
            head = fitting(text, self._left)
            text = text[len(head) :]
            self._head += head
            self._left = 0 if text else self._left - wire_size(head)
            if self._send is not None and (self._sending is None or self._sending.done()):
                self._sending = asyncio.create_task(self._stream(self._send))
        self._rest.add(text)

    async def _stream(self, send: Callable[[str], Awaitable[None]]) -> None:
        while self._head:
            piece, self._head = self._head, ""
            self._left -= _AROUND
            await send(piece)
            with suppress(TimeoutError):
                pause = max(_PAUSE, (self._clock() - self._begun) * _PART)
                await asyncio.wait_for(self._ended.wait(), pause)

    async def end(self) -> str:
        """Return what was not sent."""
        self._ended.set()
        if self._sending is not None:
            await self._sending
        return self._head + fitting(self._rest.text()[0], _TAIL, of_end=True)


def wire_size(text: str) -> int:
    """Return the bytes of a text in a message."""
    return len(json.dumps(well_formed(text), ensure_ascii=False).encode())


def fitting(text: str, most: int, *, of_end: bool = False) -> str:
    """Return the beginning, or the end, of a text that has ``most`` bytes in a message."""
    while (size := wire_size(text)) > most:
        length = max(len(text) * most // size, 1)
        text = text[-length:] if of_end else text[:length]
        if length == 1:
            break
    return text


# What can be chosen in a session: its mode and its model.

Mode = Literal["ask", "act"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

_ABOUT: Final[dict[Mode, str]] = {
    "ask": "Tools that only read; a suggested command runs when you say /run",
    "act": "You are asked about each suggested command and about each change",
}


def options_of(mode: Mode, model: str, names: Iterable[str]) -> list[Any]:
    """Return the options of a session, with their values; ``names`` are those of the models."""
    modes = [
        {"value": one, "name": one.title(), "description": about} for one, about in _ABOUT.items()
    ]
    models = [{"value": name, "name": name} for name in dict.fromkeys([*names, model])]
    return [_select("mode", mode, modes), _select("model", model, models)]


def _select(name: Literal["mode", "model"], value: str, options: list[dict[str, str]]) -> Any:
    option = {"type": "select", "id": name, "name": name.title(), "category": name}
    return schema.SessionConfigOptionSelect.model_validate(
        {**option, "currentValue": value, "options": options}
    )


def modes_of(current: Mode) -> schema.SessionModeState:
    """Return the modes as clients read them that know no options."""
    modes = [
        {"id": mode, "name": mode.title(), "description": about} for mode, about in _ABOUT.items()
    ]
    return schema.SessionModeState.model_validate(
        {"currentModeId": current, "availableModes": modes}
    )
