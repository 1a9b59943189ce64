"""One call to a model: its request is fitted, sent, and whatever goes wrong is mended, in one loop.

``remedies.POLICY`` says what is done about an error before any of the reply has arrived. Retry
libraries do not help once a reply has begun to stream, and they do not see an error in a response
that began with status 200.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import aclosing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.events import Notice
from aish_lsp.agent.remedies import POLICY, pause_before
from aish_lsp.context.usage import is_local
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable
from aish_lsp.foundation.events import Usage
from aish_lsp.models.providers import reasoning_source, reply_limit
from aish_lsp.models.refusals import told_too_long
from aish_lsp.models.repetition import RepetitionGuard
from aish_lsp.models.request import (
    Finish,
    Reasoning,
    ReasoningMetadata,
    StoredReasoning,
    Text,
    ToolCall,
    WithoutPart,
    tool_named,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aish_lsp.agent.model_choice import FallbackChain
    from aish_lsp.agent.remedies import Way
    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.counter import Counter
    from aish_lsp.context.usage import Category
    from aish_lsp.foundation.events import FinishReason, Level
    from aish_lsp.foundation.job import Emit
    from aish_lsp.models.request import ModelEvent, ModelRequest

#: Seconds after the first attempt within which the last one must begin.
PATIENCE: Final = 20.0

#: The time limit for the first event of a reply, as a multiple of the preset's ``timeout``.
FIRST_TOKEN: Final = 3


@dataclass(slots=True)
class Received:
    """What has arrived of a reply: its pieces, its usage and its finish reason.

    ``is_cut`` is set if it was not read to its end, so that the usage may be only a part.
    """

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    metadata: ReasoningMetadata | None = None
    usage: Usage | None = None
    finish: FinishReason = "stop"
    finish_said: str = ""
    is_cut: bool = False

    def cut_off(self, usage: Usage) -> None:
        """Take the usage so far of a reply that is not read to its end."""
        self.usage, self.is_cut = usage, True

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
                self.finish, self.finish_said = event.reason, event.said

    @property
    def has_begun(self) -> bool:
        """Whether any part of a reply has arrived. If so, nothing is tried again."""
        return bool(self.text or self.reasoning or self.tool_calls)

    def said(self) -> tuple[str, ...]:
        """Return everything that the model wrote, in parts."""
        calls = (part for call in self.tool_calls for part in (call.name, call.arguments))
        return ("".join(self.text), "".join(self.reasoning), *calls)


class Fitting(ABC):
    """Makes the request of a call, so that it fits into the model's window and the cost cap.

    Args:
        session: the session that is charged.
        category: what the usage is counted as.
        emit: reports notices.

    Attributes:
        counter: counts for the model that the request goes to; set by ``fit``.
        tokens: the size of the request that was made; set by ``fit`` and ``fit_less``.
    """

    counter: Counter
    tokens: int

    def __init__(self, session: Session, category: Category, emit: Emit) -> None:
        self.session = session
        self.category: Category = category
        self.emit = emit

    async def notice(self, level: Level, message: str) -> None:
        """Tell the user something."""
        await self.emit(Notice(level, message))

    async def fact(self, level: Level, message: str) -> None:
        """Tell the user something that is true of a setup, once a day."""
        if await self.session.is_news(message):
            await self.notice(level, message)

    @abstractmethod
    async def fit(self, preset: Preset) -> ModelRequest:
        """Return the request to ``preset``.

        Raises:
            OverBudget: it does not fit, whatever is left out. Nothing is lost.
            CostCap: it might exceed the session's cap. Nothing is lost either.
        """

    @abstractmethod
    async def fit_less(self, error: AishError) -> ModelRequest:
        """Return a shorter request, since ``error`` says that the last one is too long.

        Raises:
            AishError: ``error`` itself, if nothing is left to leave out.
            CostCap: as for ``fit``.
        """

    @abstractmethod
    def size(self, received: Received) -> int:
        """Return the tokens of the request, as far as its reply shows them."""


class ModelCall:
    """One request and the reply to it. Call ``fit`` before ``reply``.

    Args:
        fitting: makes the request, and says for whom.
        preset: the model.
        chain: the models that are asked if this one does not answer; None for no other.

    Attributes:
        preset: the model that is asked now.
        received: what has arrived of the reply.
        usage: what the call used; set by ``account``.
    """

    def __init__(
        self, fitting: Fitting, preset: Preset, chain: FallbackChain | None = None
    ) -> None:
        self.received = Received()
        self.usage: Usage | None = None
        self._fitting = fitting
        self._session = fitting.session
        self._chain = chain
        self._estimated = True
        self._request: ModelRequest
        self._deadline: asyncio.Timeout
        self._begin(preset)

    def _begin(self, preset: Preset) -> None:
        """Begin with a model: nothing has been tried with it."""
        self.preset = preset
        self._sent = False
        self._tried = [0] * len(POLICY)
        self._told: list[str] = []
        self._was_empty = False
        self._restart_clock()

    def _restart_clock(self) -> None:
        """Begin the time that a request and its retries may take."""
        self._begun = asyncio.get_running_loop().time()

    @property
    def answered(self) -> bool:
        """Whether anything came back. If nothing did, the usage of the call is not known."""
        return self._sent and (self.received.has_begun or self.received.usage is not None)

    @property
    def reasoning(self) -> StoredReasoning | None:
        """The reasoning, and the metadata that its provider needs back; None without either."""
        text = "".join(self.received.reasoning)
        metadata = self.received.metadata.metadata if self.received.metadata else {}
        if not text and not metadata:
            return None
        return StoredReasoning(text, reasoning_source(self.preset), metadata)

    async def fit(self) -> None:
        """Compose the request.

        Raises:
            OverBudget, CostCap: as ``Fitting.fit``.
        """
        self._request = await self._fitting.fit(self.preset)

    async def reply(self) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and yield the reply; mend what ``POLICY`` has a remedy for.

        A reply that takes longer than the preset's ``total_timeout`` is cut off and ends as
        ``timeout``, one that keeps repeating itself ends as ``repetition``; either after its
        connection is closed.

        Raises:
            AishError: there was no reply, or it broke off. What was yielded remains valid.
        """
        clock = asyncio.get_running_loop().time
        self._restart_clock()
        while True:
            now, end = clock(), self._begun + self.preset.total_timeout
            # The HTTP client limits the time between two packets. For it, a comment that keeps the
            # connection alive is a packet; here, it does not count as a reply.
            limit = min(end, now + FIRST_TOKEN * self.preset.timeout)
            guards = self._guards()
            request = replace(self._request, cut_off=self.received.cut_off, begun=self._go_on)
            stream = self._session.open_model(self.preset).stream(request)
            ending: Finish | None = None
            started = False
            self._sent = True
            try:
                async with aclosing(stream):
                    while ending is None:
                        async with asyncio.timeout_at(limit) as self._deadline:
                            event = await anext(stream, None)
                        if event is None:
                            break
                        limit, started = end, True
                        event, ending = self._checked(event, guards)
                        self.received.take(event)
                        yield event
                if ending is None and not await self._is_to_be_repeated():
                    return
            except TimeoutError:
                if not started:
                    limit = self._deadline.when() or end
                    await self._mend(_no_reply(self.preset, limit - now, in_all=limit == end))
                else:
                    ending = Finish("timeout")
                    await self._fitting.notice("warning", _cut_off(self.preset))
            except AishError as error:
                if started:
                    raise
                await self._mend(error)
            if ending is not None:
                self.received.take(ending)
                yield ending
                return

    def _go_on(self) -> None:
        """Give a reply of which nothing can be shown yet the time of one that has begun."""
        if not self._deadline.expired():
            self._deadline.reschedule(self._begun + self.preset.total_timeout)

    def _checked(
        self, event: ModelEvent, guards: dict[type[ModelEvent], RepetitionGuard]
    ) -> tuple[ModelEvent, Finish | None]:
        """Return ``event``, cut where the reply begins to repeat itself, and its end in that case.

        A call gets the name of the tool that it means.
        """
        if isinstance(event, ToolCall):
            names = (tool.name for tool in self._request.tools)
            return replace(event, name=tool_named(event.name, names)), None
        if guards and isinstance(event, Text | Reasoning):
            at = guards[type(event)].take(event.delta)
            if at is not None:
                return replace(event, delta=event.delta[:at]), Finish("repetition")
        return event, None

    async def _is_to_be_repeated(self) -> bool:
        """Return whether the reply that has ended is empty for the first time."""
        received = self.received
        if received.has_begun or received.finish not in {"stop", "tool"} or self._was_empty:
            return False
        self._was_empty = True
        await self._charge_attempt()
        message = f"The answer from {self.preset.name} is empty. Trying again."
        await self._fitting.notice("info", message)
        return True

    async def _charge_attempt(self) -> None:
        """Charge an attempt of which nothing is left but its usage: it costs something, too."""
        if self.received.usage is not None:
            self.account()
            await self.record_usage()
            self.received.usage, self.received.is_cut = None, False

    def _guards(self) -> dict[type[ModelEvent], RepetitionGuard]:
        """Return guards for text and for reasoning, if the model's replies are guarded."""
        is_guarded = self._session.models.is_guarded(self.preset)
        return {kind: RepetitionGuard() for kind in (Text, Reasoning)} if is_guarded else {}

    async def _mend(self, error: AishError) -> None:
        """Prepare the next attempt after ``error``, by the first remedy that helps.

        Raises:
            AishError: none helps; the error says why, and ``error`` itself if it is the only one.
        """
        await self._charge_attempt()
        limits = {self._request.max_output_tokens, reply_limit(self.preset)}
        told_too_long(error, self._fitting.tokens, limits)
        for number, remedy in enumerate(POLICY):
            if self._tried[number] < remedy.times and remedy.helps(error):
                self._tried[number] += 1
                try:
                    if await self._try(remedy.way, error, self._tried[number]):
                        return
                except AishError as another:
                    error = another
        if self._told:
            tried = "; ".join(self._told)
            raise type(error)(f"{error.message} What was tried: {tried}.", **error.data)
        raise error

    async def _try(self, way: Way, error: AishError, time: int) -> bool:
        """Try one way to go on, for the first ``time`` or a later one; return whether it helps.

        If it does, the request can be sent once more.

        Raises:
            AishError: it does not help, for this reason.
        """
        match way:
            case "other tools":
                return await self._offer_other_tools(error)
            case "without tools":
                return await self._leave_out_tools()
            case "another form":
                return await self._tell_form(error)
            case "less":
                self._request = await self._fitting.fit_less(error)
                too_long = f"The question is too long for {self.preset.name}."
                await self._fitting.notice("warning", f"{too_long} It is sent again with less.")
            case "again":
                return await self._wait(error, time)
            case "another model":
                return await self._fall_back(error)
        self._restart_clock()
        return True

    async def _tell_form(self, error: AishError) -> bool:
        """Tell the user once in which form the request is sent once more."""
        change = error.told if isinstance(error, WithoutPart) else ""
        if change:
            self._told.append(change)
            message = f"{self.preset.name} is asked again in another form: {change}."
            await self._fitting.fact("info", message)
        return True

    async def _offer_other_tools(self, error: AishError) -> bool:
        """Make the request again without the tools that its server names in its refusal."""
        offered = self._request.tools
        words = " ".join(str(error.data.get(key) or "") for key in ("param", "provider_message"))
        if not offered or not (change := self._session.tools.adapt(self.preset, words, offered)):
            return False
        await self._fitting.fact("warning", change)
        await self.fit()
        self._restart_clock()
        return True

    async def _leave_out_tools(self) -> bool:
        """Make the request again without tools, which the model's server does not accept."""
        if not self._request.tools:
            return False
        self._session.workspace.services.catalog.refused_tools(self.preset)
        message = f"{self.preset.name} does not support tools here, so it answers without them."
        await self._fitting.fact("info", message)
        await self.fit()
        self._restart_clock()
        return True

    async def _wait(self, error: AishError, time: int) -> bool:
        """Wait before the next attempt; return whether there is time for one."""
        pause = pause_before(error, time - 1)
        now = asyncio.get_running_loop().time()
        patience = min(PATIENCE, self.preset.total_timeout)
        if pause is None or now + pause > self._begun + patience:
            return False
        await self._fitting.notice("info", f"{error.cause} Trying {self.preset.name} again.")
        await asyncio.sleep(pause)
        return True

    async def _fall_back(self, error: AishError) -> bool:
        """Make the request for the next model in line.

        Raises:
            AishError: no model is left. The message says why each of them did not answer.
        """
        if self._chain is None:
            return False
        while self._chain.advance(error):
            failed, preset = self.preset.name, self._chain.current
            name = "the offline model" if preset.provider == "offline" else preset.name
            message = f"{failed} does not answer; {name} answers instead. {error.cause}"
            await self._fitting.notice("warning", message)
            self._begin(preset)
            try:
                await self.fit()
            except AishError as unfit:
                error = unfit
            else:
                return True
        raise self._chain.error from error

    def account(self) -> Usage:
        """Charge the call to the session and return its usage, with its cost.

        What the server did not report is estimated. A cost that it reported is used unchanged.
        """
        session, counter = self._session, self._fitting.counter
        output = sum(counter.settled(counter.text(text)) for text in self.received.said())
        estimate, reported = Usage(self._fitting.size(self.received), output), self.received.usage
        if reported is not None and self.received.is_cut:
            # Until the end, some servers report only the first token of the output.
            reported = replace(reported, output_tokens=max(reported.output_tokens, output))
        usage, self._estimated = session.accounting.charged(
            session.workspace.config, reported, estimate
        )
        self._estimated = self._estimated or self.received.is_cut
        self.usage = session.accounting.call_ended(self.preset, self._fitting.category, usage)
        return self.usage

    async def record_usage(self) -> None:
        """Log the usage that ``account`` returned."""
        assert self.usage is not None, "account() was not called"
        local = is_local(self.preset) and self.usage.cost is None
        await self._session.recorder.usage(
            self.preset, self._fitting.category, self.usage, local=local, estimated=self._estimated
        )


def _no_reply(preset: Preset, seconds: float, *, in_all: bool) -> BackendUnavailable:
    """Return the error for a reply that did not begin, in the time for it or for ``in_all``."""
    setting = "total_timeout" if in_all else "timeout"
    return BackendUnavailable(
        f"{preset.name} did not begin to reply within {round(seconds, 1):g} s. If it needs longer, "
        f"raise `{setting}`.",
        reason="timeout",
    )


def _cut_off(preset: Preset) -> str:
    return (
        f"The reply from {preset.name} was cut after {preset.total_timeout:g} s, its"
        " `total_timeout`. Ask it to continue."
    )
