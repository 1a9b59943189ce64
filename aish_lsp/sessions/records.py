"""The lines of a session log, as plain data. ``SessionLog.append`` adds ``n`` and ``ts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

Record: TypeAlias = dict[str, Any]

#: The ``meta`` of a summarizer's own messages, and of a question without a reply.
SUMMARIZE: Final = "summarize"
UNANSWERED: Final = "unanswered"


def user(
    content: str,
    exec_: Sequence[Mapping[str, Any]] = (),
    attached: Sequence[Mapping[str, Any]] = (),
    *,
    again: int | None = None,
    meta: str | None = None,
) -> Record:
    """Return a user message.

    Args:
        content: the user's own text.
        exec_: the output that it carries: ``{"command", "exit", "output"}`` each.
        attached: the text that it is about: ``{"kind", "path", "text", "language", "first",
            "last", "cut"}`` each.
        again: the number of the question that this one asks again: once it has a reply, the
            earlier one and its answers are sent no more.
        meta: SUMMARIZE, or nothing.
    """
    return _with(
        {"role": "user", "content": content},
        exec=[dict(output) for output in exec_] or None,
        attached=[dict(part) for part in attached] or None,
        again=again,
        meta=meta,
    )


def assistant(
    content: str,
    model: str,
    *,
    finish: str,
    reasoning: Mapping[str, Any] | None = None,
    tool_calls: Sequence[Mapping[str, Any]] = (),
    usage: Mapping[str, Any] | None = None,
    commands: Sequence[Mapping[str, Any]] = (),
    meta: str | None = None,
) -> Record:
    """Return an assistant message.

    Args:
        content: the reply's text.
        model: the preset that answered.
        finish: why the reply ended (protocol.md, ``finishReason``).
        reasoning: ``{"text", "provider", "metadata"}``.
        tool_calls: ``{"id", "name", "arguments"}`` each.
        usage: tokens and dollars of the call.
        commands: the suggestions, ``{"id", "text"}`` each.
        meta: SUMMARIZE, or nothing.
    """
    return _with(
        {"role": "assistant", "content": content, "model": model},
        reasoning=dict(reasoning) if reasoning else None,
        tool_calls=[dict(call) for call in tool_calls] or None,
        usage=dict(usage) if usage else None,
        finish=finish,
        commands=[dict(command) for command in commands] or None,
        meta=meta,
    )


def tool(tool_call_id: str, content: str) -> Record:
    """Return the result of a tool call."""
    return {"role": "tool", "tool_call_id": tool_call_id, "content": content}


def evicted(first: int, last: int, summary: str | None) -> Record:
    """Return that messages ``first`` to ``last`` went; None: the prior summary stays in force."""
    return _with({"event": "evicted", "from": first, "to": last}, summary=summary)


def reset() -> Record:
    """Return that messages, summary and pending output went."""
    return {"event": "reset"}


def ran(command_id: str, output: Mapping[str, Any]) -> Record:
    """Return that a command ended: ``{"command", "exit", "output"}``, for the next question.

    That question has it too, so that each message stands for itself.
    """
    return {"event": "exec", "id": command_id, **output}


def dismissed(command_id: str) -> Record:
    """Return that the user dropped a suggestion."""
    return {"event": "dismissed", "id": command_id}


def costs_reset(calls: int) -> Record:
    """Return that costs are counted from nothing again, after so many calls of the session."""
    return {"event": "costsReset", "calls": calls}


def model(name: str) -> Record:
    """Return that the active model changed."""
    return {"event": "model", "model": name}


def norris(status: Literal["start", "step", "end"], **fields: Any) -> Record:
    """Return what the autonomous loop did; ``fields`` are its own."""
    return {"event": "norris", "status": status, **fields}


def unanswered(question: int) -> Record:
    """Return that the ``question`` got no reply, where its own line could not be marked."""
    return {"event": UNANSWERED, "turn": question}


def described(**fields: str | None) -> Record:
    """Return a new ``title`` or ``name`` of the session; the header's counts no more."""
    return {"event": "meta", **fields}


def _with(record: Record, **fields: Any) -> Record:
    """Return ``record`` with the fields that are not None."""
    return record | {name: value for name, value in fields.items() if value is not None}
