"""Questions to a model outside the conversation, such as those of other editor extensions."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.agent.call import Fitting, ModelCall
from aish_lsp.context.measure import Draft, Measure, fetch, measure
from aish_lsp.context.messages import Message
from aish_lsp.context.prompt import Blocks
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import BackendUnavailable, OverBudget
from aish_lsp.foundation.events import Usage
from aish_lsp.foundation.job import Outcome
from aish_lsp.models.refusals import overflow_of
from aish_lsp.models.request import ModelRequest, RequestMessage, Text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aish_lsp.agent.call import Received
    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.counter import Counter
    from aish_lsp.context.summary import Fits
    from aish_lsp.context.usage import Category
    from aish_lsp.foundation.errors import AishError
    from aish_lsp.foundation.events import Event, FinishReason
    from aish_lsp.foundation.job import Emit

#: Called with each piece of a reply's text, and with the usage of the call.
Told: TypeAlias = "Callable[[Text | Usage], Awaitable[None]]"

#: Makes messages that fit, the system message first; None if even the shortest ones do not.
Compose: TypeAlias = "Callable[[Fits], tuple[RequestMessage, ...] | None]"

#: How often messages are composed, while the model's tokenizer counts more than was estimated.
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class SideReply:
    """A reply: its text, its finish reason, and its usage with the cost, None if nothing came."""

    text: str
    finish: FinishReason
    usage: Usage | None


class SideCall(ModelCall):
    """One question to a model, and the reply to it, as much of it as arrives.

    Args:
        session: the session that is charged.
        preset: the model.
        category: the category that the usage is counted in.
        compose: makes the messages, the system message first, so that they fit.
    """

    def __init__(
        self, session: Session, preset: Preset, category: Category, compose: Compose
    ) -> None:
        super().__init__(SideFitting(session, category, compose), preset)

    @property
    def text(self) -> str:
        """The text of the reply, as far as it has arrived."""
        return "".join(self.received.text)

    async def complete(self, told: Told | None = None) -> bool:
        """Ask the question; return whether it fits: if not, it is not asked.

        ``told`` is awaited with each piece of the text as it arrives, and with the usage of each
        call, even if its reply broke off.

        Raises:
            AishError: the model did not answer completely, or the cost cap forbids the call.
        """
        seconds = self.preset.timeout
        try:
            await self.fit()
            # This applies to the whole reply, since somebody is waiting for it.
            async with asyncio.timeout(seconds), aclosing(self.reply()) as events:
                async for event in events:
                    if isinstance(event, Text) and told is not None:
                        await told(event)
        except OverBudget:
            return False
        except TimeoutError:
            msg = f"The reply from {self.preset.name} took longer than {seconds:g} s."
            raise BackendUnavailable(msg) from None
        finally:
            # A reply that broke off costs something, too.
            if self.answered:
                usage = self.account()
                if told is not None:
                    await told(usage)
                await self.record_usage()
        return True


async def _nobody(_event: Event) -> None:
    """Report to nobody: the user has asked nothing."""


class SideFitting(Fitting):
    """Makes a request of messages that ``compose`` makes so that they fit."""

    def __init__(self, session: Session, category: Category, compose: Compose) -> None:
        super().__init__(session, category, _nobody)
        self._compose = compose
        self._tokens = 0

    @property
    def tokens(self) -> int:
        """The size of the request."""
        return self._tokens

    async def fit(self, preset: Preset) -> ModelRequest:
        """Return the request, as ``Fitting.fit``."""
        config = self.session.workspace.config
        return await self._fit(self.session.accounting.counter(preset, config))

    async def fit_less(self, error: AishError) -> ModelRequest:
        """Return a shorter request, as ``Fitting.fit_less``."""
        overflow = overflow_of(error)
        # The estimate was too low: raise it to what the server says, or else by half.
        actual = (overflow and overflow.prompt_tokens) or self._tokens * 3 // 2
        ratio = self.counter.ratio * max(1.1, actual / max(1, self._tokens))
        accounting, config = self.session.accounting, self.session.workspace.config
        return await self._fit(accounting.counter(self.counter.preset, config, ratio))

    async def _fit(self, counter: Counter) -> ModelRequest:
        composed = await _compose(self.session, counter, self._compose)
        if composed is None:
            raise OverBudget("Not even a short request fits.")
        self.counter = counter
        messages, self._tokens = composed
        accounting, config = self.session.accounting, self.session.workspace.config
        accounting.check_cap(counter.preset, config, self._tokens)
        return ModelRequest(counter.preset, messages)

    def size(self, _received: Received) -> int:
        """Return the tokens of the request."""
        return self._tokens


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
    history = tuple(Message(one.role, one.content) for one in others if one.role != "system")
    return Draft(Blocks(system.content), history)


def _size(messages: Sequence[RequestMessage], counter: Counter) -> Measure:
    return measure(_draft(messages), counter)


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
    call = SideCall(session, preset, "main", compose)
    finish: FinishReason = "cancelled"
    try:
        if not await call.complete(emit):
            raise OverBudget(f"These messages do not fit into {preset.name}'s window.")
        finish = call.received.finish
    except asyncio.CancelledError:
        pass  # The result is what has arrived so far.
    return Outcome(SideReply(call.text, finish, call.usage), finish)
