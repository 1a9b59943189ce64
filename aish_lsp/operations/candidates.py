"""``:memory accept``: what is kept of the last checklist in the chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.memory.candidates import Accepted
from aish_lsp.operations.checklist import last_entries

if TYPE_CHECKING:
    from aish_lsp.operations.checklist import ChecklistEntry

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
