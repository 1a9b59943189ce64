"""The lines of a session log, as plain data. ``SessionLog.append`` adds ``n`` and ``ts``.

``load`` reads as much of a log as is sound. Nothing here changes a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import NotFound, StoreUnavailable
from aish_lsp.foundation.files import store_errors
from aish_lsp.foundation.jsonl import BadLine, Flaws, TornLine, read_jsonl

Record: TypeAlias = dict[str, Any]

#: The ``meta`` of a summarizer's own messages.
SUMMARIZE: Final = "summarize"
#: The ``meta`` of a message that the autonomous loop sends after a step, not the user.
STEP: Final = "norris"
#: The ``meta`` of a question without a reply.
UNANSWERED: Final = "unanswered"


def user(
    content: str,
    exec_: Sequence[Mapping[str, Any]] = (),
    attached: Sequence[Mapping[str, Any]] = (),
    *,
    turn_id: str | None = None,
    again: int | None = None,
    meta: str | None = None,
) -> Record:
    """Return a user message.

    Args:
        content: the user's own text.
        exec_: the outputs that it carries, each ``{"command", "exit", "output"}``.
        attached: the texts that it is about, each ``{"kind", "path", "text", "language", "first",
            "last", "cut"}``.
        turn_id: the id of its exchange, by which its changes can be undone.
        again: the number of the question that this one asks again: once this one has a reply, the
            earlier one and its answers are no longer sent.
        meta: SUMMARIZE, STEP, or nothing.
    """
    return _with(
        {"role": "user", "content": content},
        exec=[dict(output) for output in exec_] or None,
        attached=[dict(part) for part in attached] or None,
        turn_id=turn_id,
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
        tool_calls: ``{"id", "name", "arguments", "extra"}`` each.
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


def tool(tool_call_id: str, content: str, status: str = "done") -> Record:
    """Return the result of a tool call; ``status`` is ``failed`` or ``denied`` if it is told."""
    record: Record = {"role": "tool", "tool_call_id": tool_call_id, "content": content}
    return record if status == "done" else {**record, "status": status}


def evicted(first: int, last: int, summary: str | None) -> Record:
    """Return the event that messages ``first`` to ``last`` were evicted.

    Without a ``summary`` the prior one stays in force.
    """
    return _with({"event": "evicted", "from": first, "to": last}, summary=summary)


def reset() -> Record:
    """Return the event that messages, summary and pending output were dropped."""
    return {"event": "reset"}


def ran(command_id: str, output: Mapping[str, Any]) -> Record:
    """Return the event that a command ended, with its ``{"command", "exit", "output"}``.

    The next question holds that output too, so that each message is complete by itself.
    """
    return {"event": "exec", "id": command_id, **output}


def dismissed(command_id: str) -> Record:
    """Return the event that the user dropped a suggestion."""
    return {"event": "dismissed", "id": command_id}


def costs_reset(calls: int) -> Record:
    """Return the event that costs count from zero again, after so many calls of the session."""
    return {"event": "costsReset", "calls": calls}


def model(name: str) -> Record:
    """Return the event that the active model changed."""
    return {"event": "model", "model": name}


def norris(status: Literal["start", "step", "end"], **fields: Any) -> Record:
    """Return an event of the autonomous loop, which has ``fields`` of its own."""
    return {"event": "norris", "status": status, **fields}


def unanswered(question: int) -> Record:
    """Return the event that a ``question`` got no reply, if its line could not be marked."""
    return {"event": UNANSWERED, "turn": question}


def described(**fields: str | None) -> Record:
    """Return the event that the session's ``title`` or ``name`` replaces the header's."""
    return {"event": "meta", **fields}


def _with(record: Record, **fields: Any) -> Record:
    """Return ``record`` with the fields that are not None."""
    return record | {name: value for name, value in fields.items() if value is not None}


#: The format that is written here, and the newest that is understood.
VERSION: Final = 1

SUFFIX: Final = ".jsonl"

#: The largest number of a line: not all JSON parsers are exact beyond it.
MAX_NUMBER: Final = 2**53 - 1

#: Characters of a title.
_TITLE_LIMIT: Final = 80

#: The lists that a message may hold, and the fields of their items.
_PARTS: Final[Mapping[str, Mapping[str, type]]] = {
    "exec": {"command": str, "exit": int, "output": str},
    "tool_calls": {"id": str, "name": str, "arguments": str},
    "commands": {"id": str, "text": str},
}


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """What a log holds.

    Attributes:
        id: the session's id, which is the file's name.
        meta: the header, with the latest title and name.
        records: the good lines after it, in order.
        notices: what is wrong with the file, in a sentence each.
        newer: whether it is from a newer version, and must not be written to.
    """

    id: str
    meta: Mapping[str, Any]
    records: tuple[Record, ...]
    notices: tuple[str, ...] = ()
    newer: bool = False


def gone(path: Path) -> NotFound:
    """Return the error for a log that no longer exists."""
    return NotFound(f"There is no session {path.name.removesuffix(SUFFIX)} any more.")


def load(path: Path, *, newer: bool = False) -> LoadedSession:
    """Read as much of a log as is sound. The file is not changed.

    Args:
        path: the log.
        newer: whether to read a log from a newer version too, as far as it is understood.

    Raises:
        NotFound: it is missing.
        StoreUnavailable: it cannot be read, or is from a newer version.
    """
    with store_errors(path, "read"):
        if not path.exists():
            raise gone(path)
    session_id = path.name.removesuffix(SUFFIX)
    meta: dict[str, Any] = {}
    good: list[Record] = []
    flaws = Flaws(path, "It is skipped.")
    notices: list[str] = []
    for number, record in read_jsonl(path):
        if isinstance(record, BadLine):
            flaws.add(number, record.reason)
            continue
        if isinstance(record, TornLine):
            notices.append(f"The last line of {path} was never finished, as after a crash.")
            continue
        if "meta" in record and "n" not in record and isinstance(record["meta"], dict):
            if not newer:
                check_version(record["meta"], path)
            meta = meta or record["meta"]
            continue
        reason = _flaw(record, good)
        if reason:
            flaws.add(number, reason)
            continue
        good.append(record)
    if not meta:
        notices.append(f"{path} has lost its header.")
    troubles = (*flaws.messages(), *notices)
    return LoadedSession(
        session_id, meta_of(meta, good), tuple(good), troubles, newer=_is_newer(meta)
    )


def meta_of(meta: Mapping[str, Any], lines: Iterable[Record]) -> dict[str, Any]:
    """Return a header with the title and the name that the lines after it give."""
    current: dict[str, Any] = {"title": None, "name": None, **meta, **_labels(meta)}
    for record in lines:
        if record.get("event") == "meta":
            current |= _labels(record)
        elif current["title"] is None and is_question(record):
            current["title"] = title_of(record["content"])
    return current


def _labels(record: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the title and the name that a header or a line gives; None for a damaged one."""
    labels = {key: record[key] for key in ("title", "name") if key in record}
    return {key: text if isinstance(text, str) else None for key, text in labels.items()}


def is_question(record: Mapping[str, Any]) -> bool:
    """Return whether a line is a question that the user asked."""
    return record.get("role") == "user" and record.get("meta") not in (SUMMARIZE, STEP)


def _flaw(record: Record, before: list[Record]) -> str | None:
    """Return what is wrong with a line, or None."""
    n = record.get("n")
    if type(n) is not int or not (before[-1]["n"] if before else 0) < n <= MAX_NUMBER:
        return "its number n does not follow the one before"
    if not isinstance(record.get("event"), str):
        return _flaw_of_turn(record)
    if "role" in record:
        return "it is both a turn and an event"
    if not isinstance(record.get("id", ""), str):
        return "its id is not a text"
    return None


def _flaw_of_turn(record: Record) -> str | None:
    if record.get("role") not in ("user", "assistant", "tool"):
        return "it is neither a turn nor an event"
    if not isinstance(record.get("content"), str):
        return "its content is not a text"
    for name, fields in _PARTS.items():
        if not _is_list_of(record.get(name) or [], fields):
            return f"its {name} is not as it should be"
    return None


def _is_list_of(value: object, fields: Mapping[str, type]) -> bool:
    """Return whether ``value`` is a list of objects that have these fields."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and all(type(item.get(name)) is fields[name] for name in fields)
        for item in value
    )


def check_version(meta: Mapping[str, Any], path: Path) -> None:
    """Raise StoreUnavailable if a header is from a newer version."""
    if _is_newer(meta):
        msg = (
            f"{path} is from a newer version of aish (format {meta['version']}; this one knows"
            f" {VERSION}). It was not touched. Update aish-lsp to use it."
        )
        raise StoreUnavailable(msg, path=str(path))


def _is_newer(meta: Mapping[str, Any]) -> bool:
    version = meta.get("version")
    return isinstance(version, int) and version > VERSION


def title_of(content: str) -> str:
    """Return a question's first line that is not blank, cut at a word if it is long.

    Lines that only name files are skipped if another line says what is asked about them. Of the
    message that begins a goal, it is the goal.
    """
    said = content.removeprefix("[norris] goal: ")
    lines = [line for line in (" ".join(line.split()) for line in said.splitlines()) if line]
    asking = (line for line in lines if not all(word[0] == "@" for word in line.split()))
    title = next(asking, lines[0] if lines else "")
    if len(title) <= _TITLE_LIMIT:
        return title
    # One character for the ellipsis, and one more that tells whether a word ends there.
    start, blank, _ = title[:_TITLE_LIMIT].rpartition(" ")
    # A single long word (a path, a language without blanks) is cut anywhere.
    short = start if blank and len(start) > _TITLE_LIMIT // 2 else title[: _TITLE_LIMIT - 1]
    return f"{short.rstrip()}…"
