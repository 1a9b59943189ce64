"""The checklist of candidates in a chat: written, found again, and what of it is accepted.

The user may change a line, or take it away, before accepting anything: what stands there counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.memory.candidates import Accepted, dangers

if TYPE_CHECKING:
    from aish_lsp.memory.candidates import Candidate
    from aish_lsp.memory.items import Kind

#: How a line of a checklist begins: its tick, its number, its kind. No other text has such a line.
BOX: Final = r"- \[([ xX])\] (?:(\d{1,3})\. )?\((fact|pref|context)\) "
_LINE: Final = re.compile(BOX + r"(.*\S)\s*")
_NOTE: Final = "  - "
_CAREFUL: Final = "  - careful: "

_HINT: Final = (
    "Worth remembering? Nothing here is, until you keep it: by the code actions of a line, which"
    " you may edit first, or by `:memory accept 1 3`. `:memory accept 2 TEXT` keeps one in other"
    " words."
)


@dataclass(frozen=True, slots=True)
class ChecklistEntry:
    """A candidate as it stands in a document.

    Attributes:
        line: its line; the notes on it follow.
        end: the line behind its notes.
        number: its number; None where the user took that away.
        kind: its kind.
        content: its text.
        ticked: it was accepted, or known, already.
        careful: what the user should look at twice, as it is noted and as it is found now.
    """

    line: int
    end: int
    number: int | None
    kind: Kind
    content: str
    ticked: bool
    careful: tuple[str, ...]


def checklist(candidates: Sequence[Candidate]) -> str:
    """Return the candidates, one at least, as Markdown: one a line, numbered from 1."""
    lines = [_HINT, ""]
    for number, candidate in enumerate(candidates, 1):
        known = candidate.duplicate_of
        tick = " " if known is None else "x"
        lines.append(f"- [{tick}] {number}. ({candidate.kind}) {candidate.content}")
        if known is not None:
            lines.append(f"{_NOTE}known already, as item {known}")
        lines += (f"{_CAREFUL}{flag}" for flag in candidate.flags)
    return "\n".join(lines)


def is_box(line: str) -> bool:
    """Return whether a line of a document is a candidate's."""
    return _LINE.fullmatch(line) is not None


def entries_around(lines: Sequence[str], number: int) -> list[ChecklistEntry]:
    """Return the checklist of a document that a candidate's line is part of."""
    first, end = number, number + 1
    while first and _is_listed(lines[first - 1]):
        first -= 1
    while end < len(lines) and _is_listed(lines[end]):
        end += 1
    starts = [at for at in range(first, end) if is_box(lines[at])]
    return [_entry(lines, at, to) for at, to in zip(starts, [*starts[1:], end], strict=True)]


def last_entries(text: str) -> list[ChecklistEntry]:
    """Return the last checklist of a document; empty where it has none."""
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
    """Return candidates by their numbers, or one of them in other words.

    ``chat`` is the chat's text: what its last checklist says by now is what is kept.

    Raises:
        InvalidArgument: it cannot be understood.
        NotFound: there is no such candidate.
    """
    words = rest.split()
    found = last_entries(chat)
    if rest == "all":
        sound = (one for one in found if not one.ticked and not one.careful)
        return [Accepted(one.kind, one.content) for one in sound]
    if words and all(map(_is_number, words)):
        numbered = (_numbered(found, word) for word in words)
        return [Accepted(one.kind, one.content) for one in numbered]
    if words and _is_number(words[0]):
        return [Accepted(_numbered(found, words[0]).kind, rest.split(None, 1)[1])]
    raise InvalidArgument(
        "Say which: `:memory accept 1 3`, `:memory accept 2 TEXT` or `:memory accept all`, by"
        " the numbers of the last list. `all` takes what has neither a tick nor a `careful`."
    )


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def _numbered(found: Sequence[ChecklistEntry], word: str) -> ChecklistEntry:
    """Return the candidate of a number; raise NotFound where there is none."""
    if not found:
        raise NotFound("There are no candidates. `:memory summarize` finds some.")
    digits = word.lstrip("0") or "0"
    for one in found:
        if str(one.number) == digits:
            return one
    known = ", ".join(str(one.number) for one in found if one.number is not None)
    raise NotFound(f"There is no candidate {digits[:_DIGITS]}. The last list has {known}.")
