"""A session's log opened to be gone on with, and what its lines come to then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from aish_lsp.context.messages import Attached, ExecOutput, Message
from aish_lsp.foundation.masking import MASK
from aish_lsp.foundation.redaction import REDACTED
from aish_lsp.models.request import StoredReasoning, ToolCall
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.rebuild import attached_of, rebuild
from aish_lsp.sessions.records import load
from aish_lsp.shell.suggestions import FoundCommand, new_id, suggestions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from aish_lsp.sessions.records import LoadedSession, Record


#: What is known of what may be attached to a question; a newer version may know more.
_KINDS: Final = ("selection", "definition", "problems", "file")


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a session comes to; a new one to nothing.

    Attributes:
        messages: the messages in force, with their numbers in the log.
        summary: the rolling summary.
        pending: output that the next question carries.
        model: the model last switched to; None where it never was.
        commands: what of the last reply's suggestions was neither run nor dropped, each with its
            id and its place among them, from 1.
        evictions: how many times messages were evicted.
        calls_before: how many of the session's first calls no longer count to its costs.
    """

    messages: tuple[Message, ...] = ()
    summary: str = ""
    pending: tuple[ExecOutput, ...] = ()
    model: str | None = None
    commands: tuple[tuple[str, FoundCommand, int], ...] = ()
    evictions: int = 0
    calls_before: int = 0


def resumption(loaded: LoadedSession) -> Resumption:
    """Return what a log comes to."""
    rebuilt = rebuild(loaded)
    replies = [message for message in rebuilt.messages if message["role"] == "assistant"]
    return Resumption(
        messages=tuple(message_of(record) for record in rebuilt.messages),
        summary=rebuilt.summary,
        pending=_outputs(rebuilt.pending),
        model=rebuilt.model,
        commands=tuple(_commands(replies[-1]["content"], rebuilt.commands)) if replies else (),
        evictions=rebuilt.evictions,
        calls_before=rebuilt.calls_before,
    )


def open_to_resume(path: Path, redact: Callable[[str], str]) -> tuple[SessionLog, LoadedSession]:
    """Open a log to go on in it, or in a copy where it is from a newer version. Blocks."""
    loaded = load(path, newer=True)
    if loaded.newer:
        return SessionLog.copy(loaded, path, redact), loaded
    return SessionLog.resume(path, redact)


def notices_of(loaded: LoadedSession, log_id: str) -> list[str]:
    """Return what the user is told of a log that is gone on with."""
    notices = list(loaded.notices)
    if loaded.newer:
        notices.append(
            f"The session {loaded.id} is from a newer version of aish. It was not changed: what"
            f" this version understands of it goes on in a copy, {log_id}."
        )
    return notices


def records_before(records: Sequence[Record], number: int) -> tuple[Record, ...]:
    """Return the lines before a question, or before the one that it has asked again."""
    asked = {record["n"]: record for record in records if record.get("role") == "user"}
    while isinstance(again := asked.get(number, {}).get("again"), int):
        number = again
    return tuple(record for record in records if record["n"] < number)


def message_of(record: Record) -> Message:
    """Return the message that a line of a log holds."""
    return Message(
        record["role"],
        record["content"],
        record["n"],
        exec=_outputs(record.get("exec") or ()),
        attached=tuple(_attached(record)),
        tool_calls=tuple(
            ToolCall(call["id"], call["name"], call["arguments"])
            for call in record.get("tool_calls") or ()
        ),
        tool_call_id=record.get("tool_call_id"),
        reasoning=_reasoning(record.get("reasoning")),
        exchange=new_id() if record["role"] == "user" else "",
    )


def _outputs(outputs: Iterable[Mapping[str, Any]]) -> tuple[ExecOutput, ...]:
    return tuple(
        ExecOutput(output["command"], output["exit"], output["output"]) for output in outputs
    )


def _attached(record: Record) -> Iterator[Attached]:
    for part in attached_of(record):
        kind, language = part["kind"], part.get("language")
        if kind in _KINDS:
            yield Attached(
                kind,
                part["path"],
                part["text"],
                language if isinstance(language, str) else "",
                part["first"],
                part["last"],
                part.get("cut") is True,
            )


def _reasoning(value: object) -> StoredReasoning | None:
    """Return a reply's reasoning; none where it is damaged, since it is never needed."""
    match value:
        case {"text": str(text), "provider": str(provider), "metadata": dict(metadata)}:
            return StoredReasoning(text, provider, cast("dict[str, Any]", metadata))
    return None


def _commands(
    reply: str, waiting: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, FoundCommand, int]]:
    """Yield what still waits of a reply's suggestions, as they stand in it.

    One that held a secret is left out: what the log has of it is not what was suggested.
    """
    suggested: dict[str, list[tuple[FoundCommand, int]]] = {}
    for number, found in enumerate(suggestions_of(reply), 1):
        suggested.setdefault(found.text, []).append((found, number))
    for command in waiting:
        text = command["text"]
        if suggested.get(text) and REDACTED not in text and MASK not in text:
            yield command["id"], *suggested[text].pop(0)
