"""One call to a model: sending, receiving and accounting.

``complete_once`` and ``complete`` ask questions outside the conversation, such as those of other
editor extensions.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.context.measure import Draft, Measure, fetch, measure
from aish_lsp.context.messages import Message
from aish_lsp.context.prompt import Blocks
from aish_lsp.context.usage import is_local
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable, OverBudget
from aish_lsp.foundation.events import Usage
from aish_lsp.foundation.job import Outcome
from aish_lsp.models.overflow import overflow_of
from aish_lsp.models.request import (
    Finish,
    ModelRequest,
    Reasoning,
    ReasoningMetadata,
    RequestMessage,
    Text,
    ToolCall,
)
from aish_lsp.models.retrying import guarded, nobody, stream_with_retries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.counter import Counter
    from aish_lsp.context.summary import Fits
    from aish_lsp.context.usage import Category
    from aish_lsp.foundation.events import FinishReason
    from aish_lsp.foundation.job import Emit
    from aish_lsp.models.request import ModelEvent
    from aish_lsp.models.retrying import Tell

#: Called with each piece of a reply's text, and with the usage of the call.
Told: TypeAlias = "Callable[[Text | Usage], Awaitable[None]]"

#: Makes messages that fit, the system message first; None if even the shortest ones do not.
Compose: TypeAlias = "Callable[[Fits], tuple[RequestMessage, ...] | None]"

#: How often messages are composed, while the model's tokenizer counts more than was estimated.
_TRIES: Final = 3


@dataclass(slots=True)
class Received:
    """What has arrived of a reply: its pieces, its usage and its finish reason."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    metadata: ReasoningMetadata | None = None
    usage: Usage | None = None
    finish: FinishReason = "stop"

    def take(self, event: ModelEvent) -> None:
        """Add the next event of the stream."""
        match event:
            case Text():
                self.text.append(event.delta)
            case Reasoning():
                self.reasoning.append(event.delta)
            case ToolCall():
                self.tool_calls.append(event)
            case ReasoningMetadata():
                self.metadata = event
            case Usage():
                self.usage = event
            case Finish():
                self.finish = event.reason

    @property
    def has_begun(self) -> bool:
        """Whether any part of a reply has arrived. If so, no other model is asked instead."""
        return bool(self.text or self.reasoning or self.tool_calls)

    def said(self) -> tuple[str, ...]:
        """Return everything that the model wrote, in parts."""
        calls = (part for call in self.tool_calls for part in (call.name, call.arguments))
        return ("".join(self.text), "".join(self.reasoning), *calls)


class ModelCall:
    """One request to ``preset`` and the reply to it, charged to ``session``.

    Attributes:
        received: what has arrived of the reply.
        usage: what the call used; set by ``account``.
    """

    def __init__(
        self, session: Session, preset: Preset, category: Category, counter: Counter | None = None
    ) -> None:
        self.preset = preset
        self.received = Received()
        self.usage: Usage | None = None
        self._session = session
        self._config = session.workspace.config
        self._category = category
        self._counter = counter or session.accounting.counter(preset, self._config)
        self._sent = False
        self._estimated = True

    @property
    def answered(self) -> bool:
        """Whether anything came back. If nothing did, the usage of the call is not known."""
        return self._sent and (self.received.has_begun or self.received.usage is not None)

    async def send(
        self, request: ModelRequest, tell: Tell = nobody
    ) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield the reply, which is stopped if it keeps repeating itself.

        Raises:
            AishError: there was no reply, or it broke off.
        """
        self._sent = True
        stream = stream_with_retries(self._session.open_model(self.preset), request, tell)
        if self._session.models.is_guarded(self.preset):
            stream = guarded(stream)
        async with aclosing(stream) as events:
            async for event in events:
                self.received.take(event)
                yield event

    def account(self, tokens: int) -> Usage:
        """Charge the call to the session and return its usage, with its cost.

        What the server did not report is estimated, with ``tokens`` as the size of the request. A
        cost that the server reported is used unchanged.
        """
        accounting, counter = self._session.accounting, self._counter
        output = sum(counter.settled(counter.text(text)) for text in self.received.said())
        estimate = Usage(tokens, output)
        reported = self.received.usage
        usage, self._estimated = accounting.charged(self.preset, self._config, reported, estimate)
        self.usage = accounting.call_ended(self.preset, self._category, usage)
        return self.usage

    async def record_usage(self) -> None:
        """Log the usage that ``account`` returned."""
        assert self.usage is not None, "account() was not called"
        local = is_local(self.preset) and self.usage.cost is None
        await self._session.recorder.usage(
            self.preset, self._category, self.usage, local=local, estimated=self._estimated
        )


@dataclass(frozen=True, slots=True)
class SideReply:
    """A reply: its text, its finish reason, and its usage with the cost, None if nothing came."""

    text: str
    finish: FinishReason
    usage: Usage | None


async def complete_once(
    session: Session,
    preset: Preset,
    category: Category,
    compose: Compose,
    told: Told | None = None,
) -> SideReply | None:
    """Ask ``preset`` one question; return its reply, or None if not even a short request fits.

    Args:
        session: the session that is charged.
        preset: the model.
        category: the category that the usage is counted in.
        compose: makes the messages, the system message first, so that they fit.
        told: awaited with each piece of the text as it arrives, and with the usage of each call,
            even if its reply broke off.

    Raises:
        AishError: the model did not answer completely, or the cost cap forbids the call.
    """
    accounting, config = session.accounting, session.workspace.config
    counter = accounting.counter(preset, config)
    for last in (False, False, True):
        composed = await _compose(session, counter, compose)
        if composed is None:
            return None
        messages, tokens = composed
        accounting.check_cap(preset, config, tokens)
        call = ModelCall(session, preset, category, counter)
        overflow = None
        try:
            await _receive(call, ModelRequest(preset, messages), told)
        except (BackendRejected, BackendUnavailable) as error:
            overflow = overflow_of(error)
            if last or overflow is None or call.received.has_begun:
                raise
        finally:
            # A reply that broke off costs something, too.
            if call.answered:
                usage = call.account(tokens)
                if told is not None:
                    await told(usage)
                await call.record_usage()
        if overflow is None:
            received = call.received
            return SideReply("".join(received.text), received.finish, call.usage)
        # The estimate was too low: raise it to what the server says, or else by half.
        actual = overflow.prompt_tokens or tokens * 3 // 2
        ratio = counter.ratio * max(1.1, actual / max(1, tokens))
        counter = accounting.counter(preset, config, ratio)
    raise AssertionError("the last try returns or raises")


def unchanged(messages: tuple[RequestMessage, ...]) -> Compose:
    """Return a ``Compose`` that makes exactly these messages, if they fit."""
    return lambda fits: messages if fits(messages) else None


async def _compose(
    session: Session, counter: Counter, compose: Compose
) -> tuple[tuple[RequestMessage, ...], int] | None:
    """Return messages that fit, and their tokens; None if even a short request is too long.

    If the model's own tokenizer may be asked, it counts them.
    """
    accounting, preset = session.accounting, counter.preset
    limit = await accounting.limits(preset, session.workspace.config)
    for _ in range(_TRIES):

        def fits(messages: Sequence[RequestMessage], counter: Counter = counter) -> bool:
            measured = _size(messages, counter)
            return limit.hold(measured.total, measured.margin)

        # In a thread: for a session of several megabytes this takes seconds.
        messages = await asyncio.to_thread(compose, fits)
        if messages is None:
            return None
        estimated = _size(messages, counter).total
        await fetch(_draft(messages), counter)
        if fits(messages):
            return messages, _size(messages, counter).total
        ratio = counter.ratio * _size(messages, counter).total / max(1, estimated)
        counter = accounting.counter(preset, session.workspace.config, ratio)
    return None


def _draft(messages: Sequence[RequestMessage]) -> Draft:
    system, *others = messages
    said = tuple(Message(one.role, one.content) for one in others if one.role != "system")
    return Draft(Blocks(system.content), said)


def _size(messages: Sequence[RequestMessage], counter: Counter) -> Measure:
    return measure(_draft(messages), counter)


async def _receive(call: ModelCall, request: ModelRequest, told: Told | None) -> None:
    """Receive the reply to ``call``, as far as it arrives.

    Raises:
        AishError: there was no reply, it broke off, or it took longer than the preset's timeout.
            This applies to the whole reply, since somebody is waiting for it.
    """
    seconds = call.preset.timeout
    try:
        async with asyncio.timeout(seconds), aclosing(call.send(request)) as events:
            async for event in events:
                if isinstance(event, Text) and told is not None:
                    await told(event)
    except TimeoutError:
        msg = f"The reply of {call.preset.name} took longer than {seconds:g} s."
        raise BackendUnavailable(msg) from None


@dataclass(slots=True)
class Heard:
    """Keeps what ``complete_once`` passes on, so that it is available if the reply breaks off.

    Attributes:
        emit: receives all of it, too.
        said: the pieces of the text.
        usage: the usage of the call, with its cost.
    """

    emit: Emit
    said: list[str] = field(default_factory=list)
    usage: Usage | None = None

    async def __call__(self, event: Text | Usage) -> None:
        """Keep a piece of the text, or the usage."""
        if isinstance(event, Usage):
            self.usage = event
        else:
            self.said.append(event.delta)
        await self.emit(event)


#: Other extensions cannot send a system message: their instructions are in the first message.
_SYSTEM: Final = "Answer as the messages ask."


async def complete(
    session: Session, preset: Preset, messages: Sequence[RequestMessage], emit: Emit
) -> Outcome[SideReply]:
    """Ask ``preset`` once and charge ``session``; neither the messages nor the reply are kept.

    Raises:
        OverBudget: the messages are too long for the model; none of them is left out.
        AishError: the model did not answer completely, or the cost cap forbids the call.
    """
    compose = unchanged((RequestMessage("system", _SYSTEM), *messages))
    heard = Heard(emit)
    finish: FinishReason = "cancelled"
    try:
        reply = await complete_once(session, preset, "main", compose, heard)
        if reply is None:
            raise OverBudget(f"These messages do not fit into the window of {preset.name}.")
        finish = reply.finish
    except asyncio.CancelledError:
        pass  # The result is what has arrived so far.
    return Outcome(SideReply("".join(heard.said), finish, heard.usage), finish)
