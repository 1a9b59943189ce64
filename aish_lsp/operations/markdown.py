"""Markdown that quotes other texts, in fences that they cannot close, and shortened if too long.

Also whole pages: lists of sessions, the history of one, and the checklist of candidates for the
memory. The user may edit or delete lines of the checklist before accepting anything: what the
document then holds counts.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.text import count_of, escaped
from aish_lsp.memory.candidates import Accepted, dangers
from aish_lsp.sessions.rebuild import HistoryMessage, history
from aish_lsp.shell.output import SHOWN_CHARACTERS, SHOWN_LINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aish_lsp.memory.candidates import Candidate
    from aish_lsp.memory.items import Kind
    from aish_lsp.sessions.listing import SearchHit, SessionInfo
    from aish_lsp.sessions.records import LoadedSession

#: The fence around an output that is still arriving: longer than the fences that people write.
FENCE: Final = "````"

_HEAD_LINES: Final = 40
_TAIL_LINES: Final = SHOWN_LINES - _HEAD_LINES

#: A line that opens or closes a fenced block: its indent, its fence, and the rest.
_FENCE_LINE: Final = re.compile(r"^( {0,3})(`{3,}|~{3,})([^\n]*)", re.MULTILINE)


class HeadAndTail:
    """Streams the head of a text, then its tail, with a line that says how much was left out.

    A text of at most ``SHOWN_LINES`` and ``SHOWN_CHARACTERS`` is streamed whole.
    """

    def __init__(self) -> None:
        self._lines = _HEAD_LINES
        self._room = SHOWN_CHARACTERS // 2
        self._line_is_open = False
        self._tail = ""
        self._lines_out = 0
        self._characters_out = 0

    def feed(self, text: str) -> str:
        """Return the part of ``text`` that belongs to the head."""
        end = 0
        while self._lines and self._room and end < len(text):
            stop = text.find("\n", end) + 1 or len(text)
            taken = min(stop - end, self._room)
            self._lines -= text[end + taken - 1] == "\n"
            self._room -= taken
            end += taken
        if end:
            self._line_is_open = text[end - 1] != "\n"
        self._tail += text[end:]
        if len(self._tail) > 2 * SHOWN_CHARACTERS:
            self._shorten()
        return text[:end]

    def finish(self) -> str:
        """Return the tail; if something is left out, after a line that says how much."""
        self._shorten()
        if not self.left_out:
            return self._tail
        line_end = "\n" if self._line_is_open else ""
        return f"{line_end}[aish: {self.left_out} left out]\n{self._tail}"

    @property
    def left_out(self) -> str:
        """How much is left out so far: lines or, if they are very long, characters."""
        if self._lines_out:
            return count_of(self._lines_out, "line")
        return count_of(self._characters_out, "character") if self._characters_out else ""

    def _shorten(self) -> None:
        """Drop what can no longer belong to the tail, which may use what the head did not."""
        most_lines = _TAIL_LINES + self._lines
        most_characters = SHOWN_CHARACTERS // 2 + self._room
        lines = self._tail.split("\n")
        # The last one has no line feed.
        surplus = sum(len(line) + 1 for line in lines[: -most_lines - 1])
        surplus = max(surplus, len(self._tail) - most_characters)
        self._lines_out += self._tail.count("\n", 0, surplus)
        self._characters_out += surplus
        self._tail = self._tail[surplus:]


def head_and_tail(text: str) -> str:
    """Return ``text`` as ``HeadAndTail`` streams it."""
    shortened = HeadAndTail()
    return shortened.feed(text) + shortened.finish()


def quoted(text: str, info: str = "text") -> str:
    """Return ``text`` in a fence that it cannot close: longer than any run of backticks in it."""
    runs = re.findall("`+", text)
    fence = max((*(f"{run}`" for run in runs), FENCE), key=len)
    return f"{fence}{info}\n{text}\n{fence}"


def open_fence(text: str) -> str:
    """Return the line that closes the fenced block in which ``text`` ends; empty if in none.

    It is indented like the block's first line, so that it also closes a block in a list item.
    """
    indent = fence = ""
    for match in _FENCE_LINE.finditer(text):
        rest = match[3]
        if not fence:
            if match[2][0] == "~" or "`" not in rest:
                indent, fence = match[1], match[2]
        elif match[2].startswith(fence) and not rest.strip(" \t"):
            fence = ""
    return f"{indent}{fence}" if fence else ""


#: How many sessions are listed where no text is searched for.
_LISTED: Final = 10

_HOW_TO_RESUME: Final = (
    "`:resume 2` continues the second of them; its id or name will do, too. `:resume` alone"
    " continues the last one."
)

#: Exchanges on a page of ``:history``.
PAGE: Final = 5

_WHO: Final = {"user": "You", "assistant": "aish", "tool": "Tool result"}


def history_page(loaded: LoadedSession, page: int, command: str) -> str:
    """Return a page of exchanges, with how to see others; page 1 has the newest."""
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
    """Return the messages by exchange: a question, and everything that answers it."""
    exchanges: list[list[HistoryMessage]] = []
    for message in messages:
        if message.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(message)
    return exchanges


def listed_page(infos: Sequence[SessionInfo], open_id: str) -> str:
    """Return the last sessions of a workspace, a line each; ``open_id`` is open."""
    if not infos:
        return "Nothing has been asked in this workspace yet."
    rows = [_row(number, info, open_id) for number, info in enumerate(infos[:_LISTED], 1)]
    if more := len(infos) - len(rows):
        rows.append(f"\n{more} earlier: `:sessions TEXT` lists those about TEXT.")
    return "\n".join([*rows, "", _HOW_TO_RESUME])


def found_page(hits: Sequence[SearchHit], open_id: str, query: str) -> str:
    """Return the sessions that contain ``query``, each with the place where it was found."""
    if not hits:
        return f"No session of this workspace mentions *{escaped(query)}*."
    # The snippet is quoted on a line of its own, so that it cannot pass for a line of the chat.
    rows = (
        f"{_row(number, one.session, open_id)}\n   > {escaped(one.snippet)}"
        for number, one in enumerate(hits, 1)
    )
    return "\n".join([*rows, "", _HOW_TO_RESUME])


def _row(number: int, info: SessionInfo, open_id: str) -> str:
    name = f" *{escaped(info.name)}*" if info.name else ""
    title = escaped(info.title or "no title")
    shown = f"**{title}**{name}, open" if info.id == open_id else f"{title}{name}"
    return f"{number}. {shown} ({', '.join([*_facts(info), info.id])})"


def _facts(info: SessionInfo) -> Iterator[str]:
    if when := _local_time(info.updated):
        yield when
    yield count_of(info.questions, "question")
    if info.model:
        yield escaped(info.model)
    if info.cost is not None:
        yield f"${info.cost:.4f}"


def _local_time(ts: str | None) -> str:
    """Return a time of our files in the local time zone; empty if it is not known."""
    try:
        return f"{dt.datetime.fromisoformat(ts or '').astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return ""


def session_page(loaded: LoadedSession) -> str:
    """Return a session as a page of Markdown: all messages, with a mark if no longer sent."""
    messages = history(loaded)
    return "\n\n".join([_head(loaded), *map(_message, messages)]) if messages else _nothing(loaded)


def _head(loaded: LoadedSession) -> str:
    name = loaded.meta.get("name")
    title = escaped(str(loaded.meta.get("title") or "No title"))
    return f"# {title}\n\nSession {loaded.id}{f', saved as {escaped(str(name))}' if name else ''}."


def _nothing(loaded: LoadedSession) -> str:
    return f"Nothing has been said in session {loaded.id} yet."


def _message(message: HistoryMessage, *, short: bool = False) -> str:
    """Return a message; with ``short``, only head and tail of long parts."""

    def block(text: str) -> str:
        return quoted((head_and_tail(text) if short else text).rstrip())

    notes = [note for note in (message.model, _local_time(message.ts), _state(message)) if note]
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
    """Return what is special about a message; empty if nothing is."""
    if message.finish not in (None, "stop", "tool"):
        return f"ended: {message.finish}"
    return "" if message.in_force else "no longer sent"


#: How a line of a checklist begins: tick, number and kind. No other text has such lines.
BOX: Final = r"- \[([ xX])\] (?:(\d{1,3})\. )?\((fact|pref|context)\) "
_LINE: Final = re.compile(BOX + r"(.*\S)\s*")
_NOTE: Final = "  - "
_CAREFUL: Final = "  - careful: "

_HINT: Final = (
    "Worth remembering? Nothing is kept until you say so: with the code actions of a line, which"
    " you may edit first, or with `:memory accept 1 3`. `:memory accept 2 TEXT` keeps one in other"
    " words."
)


@dataclass(frozen=True, slots=True)
class ChecklistEntry:
    """A candidate as it is written in a document.

    Attributes:
        line: its line; its notes follow.
        end: the line after its notes.
        number: its number; None if the user deleted it.
        kind: its kind.
        content: its text.
        ticked: whether it was accepted or known already.
        careful: what the user should check: what is noted, and what is found now.
    """

    line: int
    end: int
    number: int | None
    kind: Kind
    content: str
    ticked: bool
    careful: tuple[str, ...]


def checklist(candidates: Sequence[Candidate]) -> str:
    """Return the candidates, of which there is at least one, as Markdown lines numbered from 1."""
    lines = [_HINT, ""]
    for number, candidate in enumerate(candidates, 1):
        duplicate = candidate.duplicate_of
        tick = " " if duplicate is None else "x"
        lines.append(f"- [{tick}] {number}. ({candidate.kind}) {candidate.content}")
        if duplicate is not None:
            lines.append(f"{_NOTE}known already, as item {duplicate}")
        lines += (f"{_CAREFUL}{flag}" for flag in candidate.flags)
    return "\n".join(lines)


def is_box(line: str) -> bool:
    """Return whether a line of a document is a candidate's."""
    return _LINE.fullmatch(line) is not None


def entries_around(lines: Sequence[str], number: int) -> list[ChecklistEntry]:
    """Return the checklist that contains the candidate on line ``number``."""
    first, end = number, number + 1
    while first and _is_listed(lines[first - 1]):
        first -= 1
    while end < len(lines) and _is_listed(lines[end]):
        end += 1
    starts = [at for at in range(first, end) if is_box(lines[at])]
    return [_entry(lines, at, to) for at, to in zip(starts, [*starts[1:], end], strict=True)]


def last_entries(text: str) -> list[ChecklistEntry]:
    """Return the last checklist of a document; empty if there is none."""
    lines = text.split("\n")
    last = next((at for at in reversed(range(len(lines))) if is_box(lines[at])), None)
    return [] if last is None else entries_around(lines, last)


def _is_listed(line: str) -> bool:
    return line.startswith(_NOTE) or is_box(line)


def _entry(lines: Sequence[str], at: int, end: int) -> ChecklistEntry:
    match = _LINE.fullmatch(lines[at])
    assert match is not None
    tick, number, kind, content = match.groups()
    noted = (line.removeprefix(_CAREFUL) for line in lines[at:end] if line.startswith(_CAREFUL))
    return ChecklistEntry(
        line=at,
        end=end,
        number=int(number) if number else None,
        kind=cast("Kind", kind),
        content=content,
        ticked=tick != " ",
        careful=tuple(dict.fromkeys((*noted, *dangers(content)))),
    )


# ``:memory accept``: what is kept of the last checklist in the chat.

#: Digits of a candidate's number.
_DIGITS: Final = 3


def accepted_in_chat(rest: str, chat: str) -> list[Accepted]:
    """Return the candidates with the given numbers, or one of them with a new text.

    ``chat`` is the chat's text: candidates are kept as its last checklist shows them now.

    Raises:
        InvalidArgument: ``rest`` cannot be understood.
        NotFound: there is no such candidate.
    """
    words = rest.split()
    entries = last_entries(chat)
    if rest == "all":
        sound = (one for one in entries if not one.ticked and not one.careful)
        return [Accepted(one.kind, one.content) for one in sound]
    if words and all(map(_is_number, words)):
        numbered = (_numbered(entries, word) for word in words)
        return [Accepted(one.kind, one.content) for one in numbered]
    if words and _is_number(words[0]):
        return [Accepted(_numbered(entries, words[0]).kind, rest.split(None, 1)[1])]
    raise InvalidArgument(
        "Say which: `:memory accept 1 3`, `:memory accept 2 TEXT` or `:memory accept all`, by"
        " the numbers of the last list. `all` takes what has neither a tick nor a `careful`."
    )


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def _numbered(entries: Sequence[ChecklistEntry], word: str) -> ChecklistEntry:
    """Return the candidate with a number; raise NotFound if there is none."""
    if not entries:
        raise NotFound("There are no candidates. `:memory summarize` finds some.")
    digits = word.lstrip("0") or "0"
    for one in entries:
        if str(one.number) == digits:
            return one
    numbers = ", ".join(str(one.number) for one in entries if one.number is not None)
    raise NotFound(f"There is no candidate {digits[:_DIGITS]}. The last list has {numbers}.")
