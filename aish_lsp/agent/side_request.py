"""A request beside the conversation: counted, limited, paid for and recorded like a turn's."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.agent.events import Reasoning, Text, Usage
from aish_lsp.context.measure import Draft, Measure, fetch, measure
from aish_lsp.context.prompt import Blocks
from aish_lsp.context.turns import Turn
from aish_lsp.context.usage import is_local
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.events import Finish
from aish_lsp.models.overflow import overflow_of
from aish_lsp.models.repetition import guarded
from aish_lsp.models.request import ModelRequest
from aish_lsp.models.retrying import patient_stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aish_lsp.agent.events import FinishReason
    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Preset
    from aish_lsp.context.counter import Counter
    from aish_lsp.context.transcript import Fits
    from aish_lsp.context.usage import Category
    from aish_lsp.models.request import Message

#: Hears of a reply.
Told: TypeAlias = "Callable[[Text | Usage], Awaitable[None]]"

#: Times that messages are made anew because the model's tokenizer counts more than was estimated.
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class SideReply:
    """A reply: its text, how it ended, and what it took, with its cost; None if nothing came."""

    text: str
    finish: FinishReason
    usage: Usage | None


async def ask_aside(
    session: Session,
    preset: Preset,
    category: Category,
    compose: Callable[[Fits], tuple[Message, ...] | None],
    told: Told | None = None,
) -> SideReply | None:
    """Ask ``preset`` one question; return its reply, or None where not even a short one fits.

    Args:
        session: whose costs it counts to.
        preset: who is asked.
        category: what it is counted as.
        compose: makes the messages, a system and a user one, within the budget that it is given.
        told: awaited with each piece of the text as it arrives, and with what a call took, also
            where its reply broke off.

    Raises:
        AishError: the model did not answer in whole, or may not be paid for.
    """
    accounting = session.accounting
    counter = accounting.counter(preset, session.workspace.config)
    for last in (False, False, True):
        composed = await _compose(session, counter, compose)
        if composed is None:
            return None
        messages, tokens = composed
        accounting.check_cap(preset, session.workspace.config, tokens)
        reply = _Reply(told)
        overflow = None
        try:
            await _receive(session, ModelRequest(preset, messages), reply)
        except (BackendRejected, BackendUnavailable) as error:
            overflow = overflow_of(error)
            if last or overflow is None or reply.said:
                raise
        finally:
            # What came of a reply that broke off was paid for too.
            if reply.said or reply.usage:
                await _account(session, counter, category, reply, tokens)
        if overflow is None:
            return SideReply("".join(reply.text), reply.finish, reply.usage)
        # It is estimated too low by as much as the server says, or else by a half.
        actual = overflow.prompt_tokens or tokens * 3 // 2
        ratio = counter.ratio * max(1.1, actual / max(1, tokens))
        counter = accounting.counter(preset, session.workspace.config, ratio)
    raise AssertionError("the last try returns or raises")


async def _compose(
    session: Session, counter: Counter, compose: Callable[[Fits], tuple[Message, ...] | None]
) -> tuple[tuple[Message, ...], int] | None:
    """Return messages that fit, by the model's own tokenizer where it is asked, and their tokens.

    None where even a short request is too long.
    """
    accounting, preset = session.accounting, counter.preset
    limit = await accounting.limits(preset, session.workspace.config)
    for _ in range(_TRIES):

        def fits(messages: Sequence[Message], counter: Counter = counter) -> bool:
            measured = _size(messages, counter)
            return limit.hold(measured.total, measured.margin)

        # In a thread: a session of some megabytes takes seconds.
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


def _draft(messages: Sequence[Message]) -> Draft:
    system, user = messages
    return Draft(Blocks(system.content), (Turn("user", user.content),))


def _size(messages: Sequence[Message], counter: Counter) -> Measure:
    return measure(_draft(messages), counter)


async def _account(
    session: Session, counter: Counter, category: Category, reply: _Reply, tokens: int
) -> None:
    """Add a call to the session, by what the server reported, else by estimates."""
    preset, accounting = counter.preset, session.accounting
    said = counter.settled(counter.text("".join(reply.said)))
    usage, estimated = accounting.charged(
        preset, session.workspace.config, reply.usage, Usage(tokens, said)
    )
    usage = accounting.call_ended(preset, category, usage)
    reply.usage = usage
    if reply.told is not None:
        await reply.told(usage)
    await session.recorder.usage(
        preset,
        category,
        usage,
        local=is_local(preset) and usage.cost is None,
        estimated=estimated,
    )


async def _receive(session: Session, request: ModelRequest, reply: _Reply) -> None:
    """Have ``reply`` filled, as far as it arrives.

    Raises:
        AishError: no whole reply, within the preset's timeout: somebody waits for what follows.
    """
    model = session.open_model(request.preset)
    seconds = request.preset.timeout
    stream = patient_stream(model, request)
    if session.models.is_guarded(request.preset):
        stream = guarded(stream)
    try:
        async with asyncio.timeout(seconds), aclosing(stream) as events:
            async for event in events:
                match event:
                    case Text():
                        reply.text.append(event.delta)
                        reply.said.append(event.delta)
                        if reply.told is not None:
                            await reply.told(event)
                    case Reasoning():
                        reply.said.append(event.delta)
                    case Usage():
                        reply.usage = event
                    case Finish():
                        reply.finish = event.reason
    except TimeoutError:
        msg = f"The reply of {request.preset.name} took longer than {seconds:g} s."
        raise BackendUnavailable(msg) from None


@dataclass(slots=True)
class _Reply:
    """What a model said: its text, that with its reasoning, what it reported, how it ended."""

    told: Told | None
    text: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    finish: FinishReason = "stop"
    usage: Usage | None = None
