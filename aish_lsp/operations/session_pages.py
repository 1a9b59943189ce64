"""Sessions as readable pages: a list of them, and what was said in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.text import escaped
from aish_lsp.foundation.wording import count_of
from aish_lsp.operations.markdown import fence_for, head_and_tail, open_fence
from aish_lsp.sessions.rebuild import HistoryMessage, history

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aish_lsp.sessions.listing import Found, SessionInfo
    from aish_lsp.sessions.reading import LoadedSession

_HOW_TO_RESUME: Final = (
    "`:resume ID` continues one of them, by its id or name; `:resume` alone, the last one."
)

#: Exchanges on a page of ``:history``.
PAGE: Final = 5

_WHO: Final = {"user": "You", "assistant": "aish", "tool": "Tool result"}


def history_page(loaded: LoadedSession, page: int, command: str) -> str:
    """Return the exchanges of a page, the first one being the newest, and how to see others."""
    exchanges = _exchanges(history(loaded))
    last = max(1, -(-len(exchanges) // PAGE))
    if not 1 <= page <= last:
        raise InvalidArgument(f"There is no page {page}: `{command} {last}` is the oldest.")
    end = len(exchanges) - (page - 1) * PAGE
    messages = [message for exchange in exchanges[max(0, end - PAGE) : end] for message in exchange]
    parts = [_head(loaded)] if messages else [_nothing(loaded)]
    parts += (_message(message, short=True) for message in messages)
    if last > 1:
        newest = ", the newest" if page == 1 else ""
        before = f" `{command} {page + 1}` shows what was said before." if page < last else ""
        parts.append(f"Page {page} of {last}{newest}.{before}")
    return "\n\n".join(parts)


def _exchanges(messages: Sequence[HistoryMessage]) -> list[list[HistoryMessage]]:
    """Return the messages by exchange: a question, and all that answers it."""
    exchanges: list[list[HistoryMessage]] = []
    for message in messages:
        if message.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(message)
    return exchanges


def listed_page(infos: Sequence[SessionInfo], open_id: str) -> str:
    """Return the sessions of a workspace, a line each; ``open_id`` is open."""
    if not infos:
        return "Nothing has been asked in this workspace yet."
    return "\n".join([*(_row(info, open_id) for info in infos), "", _HOW_TO_RESUME])


def found_page(found: Sequence[Found], open_id: str, query: str) -> str:
    """Return the sessions in which ``query`` was found, with where it stands."""
    if not found:
        return f"No session of this workspace mentions *{escaped(query)}*."
    # What was said stands on a line of its own below, so that it cannot begin one of the chat's.
    rows = (f"{_row(one.session, open_id)}\n  > {escaped(one.snippet)}" for one in found)
    return "\n".join([*rows, "", _HOW_TO_RESUME])


def _row(info: SessionInfo, open_id: str) -> str:
    return (
        f"- {f'**{info.id}** (open)' if info.id == open_id else info.id}"
        f"{f' *{escaped(info.name)}*' if info.name else ''}: "
        f"{escaped(info.title or 'no title')} ({', '.join(_facts(info))})"
    )


def _facts(info: SessionInfo) -> Iterator[str]:
    if info.updated:
        yield info.updated[:16].replace("T", " ")
    yield count_of(info.questions, "question")
    if info.model:
        yield escaped(info.model)
    if info.cost is not None:
        yield f"${info.cost:.4f}"


def session_page(loaded: LoadedSession) -> str:
    """Return a session as a page of Markdown: all that was said, and what is sent no more."""
    messages = history(loaded)
    return "\n\n".join([_head(loaded), *map(_message, messages)]) if messages else _nothing(loaded)


def _head(loaded: LoadedSession) -> str:
    name = loaded.meta.get("name")
    title = escaped(str(loaded.meta.get("title") or "No title"))
    return f"# {title}\n\nSession {loaded.id}{f', saved as {escaped(str(name))}' if name else ''}."


def _nothing(loaded: LoadedSession) -> str:
    return f"Nothing has been said in session {loaded.id} yet."


def _message(message: HistoryMessage, *, short: bool = False) -> str:
    """Return a message; with ``short``, of what is long in it head and tail."""

    def block(text: str) -> str:
        return _fenced(head_and_tail(text) if short else text)

    when = (message.ts or "")[:16].replace("T", " ")
    notes = [note for note in (message.model, when, _state(message)) if note]
    parts = [f"### {_WHO[message.role]} ({escaped(', '.join(notes))})"]
    parts += [
        block(f"$ {output['command']} (exit {output['exit']})\n{output['output']}")
        for output in message.exec
    ]
    parts += [
        block(f"[{part['kind']}] {part['path']}\n{part['text']}") for part in message.attached
    ]
    if message.role == "tool":
        parts.append(block(message.content))
    elif message.content:
        fence = open_fence(message.content)
        parts.append(message.content.rstrip() + (f"\n{fence}" if fence else ""))
    parts += [block(f"{call['name']} {call['arguments']}") for call in message.tool_calls]
    return "\n\n".join(parts)


def _state(message: HistoryMessage) -> str:
    """Return what is special about a message; empty where nothing is."""
    if message.finish not in (None, "stop", "tool"):
        return f"ended: {message.finish}"
    return "" if message.in_force else "no longer sent"


def _fenced(text: str) -> str:
    fence = fence_for(text)
    return f"{fence}text\n{text.rstrip()}\n{fence}"
