"""What a log contains: the state that a session is resumed with, and all that was said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from aish_lsp.context.conversation import CANCELLED
from aish_lsp.context.messages import Attached, AttachedKind, ExecOutput, Message
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.masking import MASK
from aish_lsp.foundation.redaction import REDACTED
from aish_lsp.models.loose_json import as_dict
from aish_lsp.models.request import StoredReasoning, ToolCall
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.records import SUMMARIZE, UNANSWERED, LoadedSession, Record, load
from aish_lsp.shell.blocks import FoundCommand
from aish_lsp.shell.suggestions import new_id, suggestions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: The known kinds of what is attached to a question; a newer version may know more.
_KINDS: Final = get_args(AttachedKind)


@dataclass(frozen=True, slots=True)
class Resumption:
    """The state that a session is resumed with; that of a new session is empty.

    Attributes:
        messages: the messages in force, with their numbers in the log. They begin with a question;
            two questions never follow each other; each tool call has a result, which is
            ``cancelled``, with the number 0, if it is missing in the log.
        summary: the rolling summary of what was evicted; empty for none.
        pending: output of commands that the next question is to carry.
        model: the model last switched to; None if there was no switch.
        commands: the last reply's suggestions that were neither run nor dropped, each with its id
            and its place among the reply's suggestions, from 1.
        evictions: how many times messages were evicted.
        calls_before: how many of the session's first calls no longer count towards its costs.
    """

    messages: tuple[Message, ...] = ()
    summary: str = ""
    pending: tuple[ExecOutput, ...] = ()
    model: str | None = None
    commands: tuple[tuple[str, FoundCommand, int], ...] = ()
    evictions: int = 0
    calls_before: int = 0


def resumption(loaded: LoadedSession) -> Resumption:
    """Return the state after a log's last reset, without what was evicted or not answered.

    From a log that a crash cut off, or that lost lines, everything usable is kept.
    """
    messages: list[Record] = []
    outputs: list[Mapping[str, Any]] = []
    withdrawn: set[int] = set()
    summary = ""
    model = None
    evictions = 0
    for record in loaded.records:
        match record.get("event"):
            case None if record.get("meta") != SUMMARIZE:
                messages = _with_message(messages, record)
                outputs = _still_pending(outputs, record)
                if record.get("meta") == UNANSWERED:
                    withdrawn.add(record["n"])
            case "exec":
                outputs += _output(record)
            case "reset":
                messages, outputs, summary = [], [], ""
            case "evicted":
                messages = _without(messages, record.get("from"), record.get("to"))
                summary = _text(record.get("summary")) or summary
                evictions += 1
            case "unanswered" if isinstance(number := record.get("turn"), int):
                withdrawn.add(number)
            case "model":
                model = _text(record.get("model")) or model
    questions = [message for message in messages if message["role"] == "user"]
    conversation = _in_order(message for message in messages if message["n"] not in withdrawn)
    # An earlier question that was withdrawn gave its output to the one after it.
    if questions and questions[-1] not in conversation:
        outputs = [*_taken(questions[-1]), *outputs]
    return Resumption(
        tuple(map(message_of, conversation)),
        summary,
        _outputs(outputs),
        model,
        tuple(_waiting(conversation, loaded.records)),
        evictions,
        _calls_before(loaded.records),
    )


def attached_of(message: Record) -> list[Mapping[str, Any]]:
    """Return the texts that a message is about, without damaged ones."""
    parts = message.get("attached")
    return [part for part in parts if _is_attached(part)] if isinstance(parts, list) else []


def _is_attached(part: object) -> bool:
    match part:
        case {"kind": str(), "path": str(), "text": str(), "first": int(), "last": int()}:
            return True
    return False


def _waiting(
    conversation: Sequence[Record], lines: Iterable[Record]
) -> Iterator[tuple[str, FoundCommand, int]]:
    """Yield the last reply's suggestions, except those that were run or dropped."""
    replies = [message for message in conversation if message["role"] == "assistant"]
    if not replies:
        return
    taken = {_text(one.get("id")) for one in lines if one.get("event") in ("exec", "dismissed")}
    last = replies[-1]
    for suggested in suggested_in(last["content"], last.get("commands") or ()):
        if suggested[0] not in taken:
            yield suggested


def suggested_in(
    reply: str, commands: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, FoundCommand, int]]:
    """Yield the suggestions of a logged reply: id, where it stands, and its place, from 1.

    ``commands`` are those that the log names. One that held a secret is left out: the log does not
    have it as it was suggested.
    """
    found: dict[str, list[tuple[FoundCommand, int]]] = {}
    for number, suggestion in enumerate(suggestions_of(reply), 1):
        found.setdefault(suggestion.text, []).append((suggestion, number))
    for command in commands:
        text = command["text"]
        if REDACTED in text or MASK in text or not found.get(text):
            continue
        # The same command may be suggested twice.
        suggestion, number = found[text].pop(0)
        yield command["id"], suggestion, number


def _calls_before(lines: Iterable[Record]) -> int:
    """Return how many calls had been made when costs were last reset."""
    resets = [line.get("calls") for line in lines if line.get("event") == "costsReset"]
    last = resets[-1] if resets else 0
    return last if type(last) is int and last >= 0 else 0


def _taken(message: Record) -> list[Mapping[str, Any]]:
    """Return the pending output that a message took; one that asks again took none."""
    return [] if "again" in message else message.get("exec") or []


def _still_pending(outputs: list[Mapping[str, Any]], message: Record) -> list[Mapping[str, Any]]:
    return [output for output in outputs if output not in _taken(message)]


def _output(event: Record) -> list[Mapping[str, Any]]:
    """Return an event's output, in a list, as a message carries it; none if it is damaged."""
    output = {name: event.get(name) for name in ("command", "exit", "output")}
    return [output] if [type(value) for value in output.values()] == [str, int, str] else []


def _without(messages: list[Record], first: object, last: object) -> list[Record]:
    """Return the messages whose numbers are not from ``first`` to ``last``."""
    if not isinstance(first, int) or not isinstance(last, int):
        return messages
    return [message for message in messages if not first <= message["n"] <= last]


def _with_message(messages: list[Record], message: Record) -> list[Record]:
    """Return the messages and one more; a reply to a question asked again drops the earlier one."""
    messages.append(message)
    if message["role"] != "assistant":
        return messages
    asked = next((one for one in reversed(messages) if one["role"] == "user"), None)
    again = asked.get("again") if asked else None
    if again is None:
        return messages
    rest = []
    dropping = False
    for one in messages:
        if one["role"] == "user":
            dropping = one["n"] == again
        if not dropping:
            rest.append(one)
    return rest


def _in_order(messages: Iterable[Record]) -> list[Record]:
    """Return the messages that are in an order that a model's server accepts."""
    ordered: list[Record] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
                ordered.append(message)
            continue
        ordered += _cancelled(waiting)
        if message["role"] == "user":
            if ordered and ordered[-1]["role"] == "user":
                ordered.pop()
            ordered.append(message)
            waiting = []
        elif ordered and ordered[-1]["role"] != "assistant":
            ordered.append(message)
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
        else:
            # The question that it answers is lost.
            waiting = []
    ordered += _cancelled(waiting)
    if ordered and ordered[-1]["role"] == "user":
        ordered.pop()
    return ordered


def _cancelled(calls: Iterable[str]) -> list[Record]:
    return [
        {"n": 0, "role": "tool", "tool_call_id": call_id, "content": CANCELLED} for call_id in calls
    ]


# The messages of a session as they are shown: all that was said, whether or not it is still sent.


@dataclass(frozen=True, slots=True)
class EndedStep:
    """How a step of a goal ended: ``status`` and ``exit_code`` are as in the event of it."""

    number: int
    status: str
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """A message of a session.

    Attributes:
        n: its number in the log.
        ts: when it was written down.
        role: ``user``, ``assistant`` or ``tool``.
        content: its text.
        exec: the output that a question carried: ``{"command", "exit", "output"}`` each.
        attached: the texts that it was about: at least ``{"kind", "path", "text", "first",
            "last"}`` each.
        model: who replied.
        finish: why the reply ended.
        commands: what it suggests: ``{"id", "text"}`` each; a client also gets the rest of a
            ``CommandInfo`` of the newest ones.
        tool_calls: ``{"id", "name", "arguments"}`` each; a client also gets its ``title``.
        tool_call_id: the id of the call whose result it is.
        status: how that call ended: ``failed`` or ``denied``; None if it was done.
        in_force: whether it is sent with the next request: it was neither evicted nor reset, and it
            got an answer.
        turn_id: the exchange of a question that can be asked again, in an open session.
        step: the step of a goal that ended with this message.
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
    status: str | None
    in_force: bool
    turn_id: str | None = None
    step: EndedStep | None = None


def history(
    loaded: LoadedSession, exchanges: Mapping[int, str] | None = None
) -> list[HistoryMessage]:
    """Return the messages of a session, the oldest first, without those of a summarizer.

    ``exchanges`` are the ids of exchanges that can be asked again, by their question's number.
    """
    exchanges = exchanges or {}
    in_force = {message.n for message in resumption(loaded).messages}
    steps = _steps(loaded.records)
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
            status=_text(record.get("status")),
            in_force=record["n"] in in_force,
            turn_id=exchanges.get(record["n"]),
            step=steps.get(record["n"]),
        )
        for record in loaded.records
        if "role" in record and record.get("meta") != SUMMARIZE
    ]


def _steps(records: Iterable[Record]) -> dict[int, EndedStep]:
    """Return the steps whose end the log tells, by the number of the message before that."""
    steps = {}
    last = 0
    for record in records:
        if "role" in record:
            last = record["n"]
        elif record.get("event") == "norris" and (status := _text(record.get("ended"))):
            number, code = _number(record.get("number")), _number(record.get("exit"))
            steps[last] = EndedStep(number or 0, status, code)
    return steps


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# Resuming a session.


def open_to_resume(path: Path, redact: Callable[[str], str]) -> tuple[SessionLog, LoadedSession]:
    """Open a log to continue it, or a copy of it if it is from a newer version. Blocks.

    The loaded session's notices are what the user should be told.
    """
    loaded = load(path, newer=True)
    if not loaded.newer:
        return SessionLog.resume(path, redact)
    log = SessionLog.copy(loaded, path, redact)
    notice = (
        f"The session {loaded.id} is from a newer version of aish. It was not changed: what"
        f" this version understands of it continues in a copy, {log.id}."
    )
    return log, replace(loaded, notices=(*loaded.notices, notice))


def records_before(records: Sequence[Record], number: int) -> tuple[Record, ...]:
    """Return the lines before a question, or before the one that it asks again."""
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
            ToolCall(call["id"], call["name"], call["arguments"], as_dict(call.get("extra")))
            for call in record.get("tool_calls") or ()
        ),
        tool_call_id=record.get("tool_call_id"),
        reasoning=_reasoning(record.get("reasoning")),
        exchange=_text(record.get("turn_id")) or new_id() if record["role"] == "user" else "",
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
    """Return a reply's reasoning; None if it is damaged, since it is never essential."""
    match value:
        case {"text": str(text), "provider": str(provider), "metadata": dict(metadata)}:
            return StoredReasoning(text, provider, cast("dict[str, Any]", metadata))
    return None
