"""The messages of a session as they are shown: all that was said, whatever is still sent of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aish_lsp.sessions.reading import LoadedSession
from aish_lsp.sessions.rebuild import attached_of, rebuild
from aish_lsp.sessions.records import SUMMARIZE


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """A message of a session.

    Attributes:
        n: its number in the log.
        ts: when it was written down.
        role: ``user``, ``assistant`` or ``tool``.
        content: its text.
        exec: the output that a question carried: ``{"command", "exit", "output"}`` each.
        attached: the text that it was about: ``{"kind", "path", "text", "first", "last"}`` each,
            at the least.
        model: who replied.
        finish: why the reply ended.
        commands: what it suggests: ``{"id", "text"}`` each.
        tool_calls: ``{"id", "name", "arguments"}`` each.
        tool_call_id: whose result it is.
        in_force: whether it goes with the next request: it was neither evicted nor reset, and it
            got an answer.
    """

    n: int
    ts: str | None
    role: str
    content: str
    exec: tuple[Mapping[str, Any], ...]
    attached: tuple[Mapping[str, Any], ...]
    model: str | None
    finish: str | None
    commands: tuple[Mapping[str, Any], ...]
    tool_calls: tuple[Mapping[str, Any], ...]
    tool_call_id: str | None
    in_force: bool


def history(loaded: LoadedSession) -> list[HistoryMessage]:
    """Return the messages of a session, the oldest first, less those of a summarizer."""
    in_force = {message["n"] for message in rebuild(loaded).messages}
    return [
        HistoryMessage(
            n=record["n"],
            ts=_text(record.get("ts")),
            role=record["role"],
            content=record["content"],
            exec=tuple(record.get("exec") or ()),
            attached=tuple(attached_of(record)),
            model=_text(record.get("model")),
            finish=_text(record.get("finish")),
            commands=tuple(record.get("commands") or ()),
            tool_calls=tuple(record.get("tool_calls") or ()),
            tool_call_id=_text(record.get("tool_call_id")),
            in_force=record["n"] in in_force,
        )
        for record in loaded.records
        if "role" in record and record.get("meta") != SUMMARIZE
    ]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
