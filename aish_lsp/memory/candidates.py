"""Candidates for the memory: what a model found worth remembering (aish-phase4-memory, section 6).

A candidate is only a proposal: it is remembered once the user accepts it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.redaction import REDACTED, find_secret
from aish_lsp.foundation.text import one_line, well_formed, without_hidden
from aish_lsp.memory.items import (
    SCOPES,
    Kind,
    MemoryItem,
    Scope,
    check_content,
    check_labels,
    item_fields,
    normalized,
)

if TYPE_CHECKING:
    from aish_lsp.memory.scopes import MemoryScopes

#: Candidates that are proposed at a time.
MOST: Final = 10

#: The ``how`` of an item's source if it was a candidate that the user accepted.
ACCEPTED: Final = "accepted"

#: Characters; a shorter candidate may occur in an output by chance.
_READ: Final = 12

#: Characters; the end of a longer candidate may not be visible.
_LONG: Final = 300

# Perhaps a bullet, a number or a box; the kind, perhaps in bold or in parentheses; a colon.
_LINE: Final = re.compile(
    r"\s*(?:[-*+•]\s*)?(?:\d{1,3}[.)]\s*)?(?:\[[ xX]?\]\s*)?"
    r"[*_`(]{0,3}(fact|pref|context)[*_`)]{0,3}\s*:[*_`]{0,3}\s*(.+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposal.

    Attributes:
        kind: what it is.
        content: its text, on one line.
        duplicate_of: the id of an item that already says the same.
        flags: what the user should check, each as a phrase.
    """

    kind: Kind
    content: str
    duplicate_of: int | None = None
    flags: tuple[str, ...] = ()


def candidates(
    reply: str, known: Iterable[MemoryItem] = (), *, said: str = "", read: str = ""
) -> tuple[Candidate, ...]:
    """Return the candidates in a model's reply, each once, at most MOST of them.

    Other lines are skipped.

    Args:
        reply: the text, without the model's reasoning.
        known: what is already remembered.
        said: all that the user has said.
        read: the output of commands and tools: a candidate from there is flagged, unless the user
            said it too.
    """
    facts: dict[str, tuple[Kind, str]] = {}
    for line in well_formed(reply).splitlines():
        match = _LINE.fullmatch(line)
        content = _cleaned(match[2]) if match else ""
        if match and any(map(str.isalnum, content)):
            facts.setdefault(normalized(content), (cast("Kind", match[1].lower()), content))
    ids = {normalized(item.content): item.id for item in known} if facts else {}
    said, read = normalized(said), normalized(read)
    return tuple(
        Candidate(kind, content, ids.get(text), _flags(content, text, said, read))
        for text, (kind, content) in list(facts.items())[:MOST]
    )


def dangers(content: str) -> tuple[str, ...]:
    """Return what is suspicious about a text that is to be remembered, each as a phrase."""
    flags = []
    secret = find_secret(content)
    if secret is not None:
        flags.append(f"looks like it holds {secret}")
    elif REDACTED in content:
        flags.append("held a secret, which was removed")
    if len(content) > _LONG:
        flags.append("is long: read all of it")
    does = disguised_instruction(content)
    if does is not None:
        flags.append(f"reads like an instruction: it {does}")
    return tuple(flags)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A candidate as the user accepts it, perhaps after changing it."""

    kind: Kind
    content: str
    tags: tuple[str, ...] = ()
    scope: Scope = "workspace"


def accept(memory: MemoryScopes, accepted: Sequence[Accepted], session: str) -> list[int]:
    """Remember what the user accepted; return the ids in the same order.

    For what is already known, that is the existing item's id. If one is refused, none is stored.

    Args:
        memory: where to store it.
        accepted: what to remember.
        session: the id of the open session, for the items' ``source``.

    Raises:
        InvalidArgument: as ``MemoryScopes.add``; its path names the candidate.
        Busy, StoreUnavailable: as ``MemoryStore.add``.
    """
    source = {"session": session, "how": ACCEPTED}
    for number, item in enumerate(accepted):
        try:
            check_labels(item.kind, item.tags)
            check_content(item.content, force=False)
            memory.check_keys(item.content, *item.tags)
        except InvalidArgument as error:
            path = f"candidates[{number}].{error.data['path']}"
            raise InvalidArgument(f"{path}: {error.message}", path=path) from None
    ids: dict[int, int] = {}
    for scope in SCOPES:
        chosen = [number for number, item in enumerate(accepted) if item.scope == scope]
        if chosen:
            fields = [
                item_fields(item.kind, item.content.strip(), item.tags, source)
                for item in (accepted[number] for number in chosen)
            ]
            added = memory.store(scope).add_all(fields)
            ids |= zip(chosen, (one.id for one in added), strict=True)
    return [ids[number] for number in range(len(accepted))]


def _flags(content: str, text: str, said: str, read: str) -> tuple[str, ...]:
    flags = dangers(content)
    if len(text) >= _READ and text in read and text not in said:
        flags += ("is from the output of a command or tool, and you did not say it",)
    return flags


def _cleaned(content: str) -> str:
    """Return a candidate's text on one line, without marks that the model put around it."""
    text = " ".join(one_line(without_hidden(content)).split())
    for mark in ("**", '"', "`"):
        inner = text[len(mark) : -len(mark)]
        if text.startswith(mark) and text.endswith(mark) and mark not in inner:
            text = inner.strip()
    return text


@cache
def _wordings() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the table's wordings: what each does, and the pattern that finds it."""
    rows = tomllib.loads(Path(__file__).with_name("wordings.toml").read_text("utf-8"))["wordings"]
    flags = re.IGNORECASE | re.VERBOSE
    return tuple((row["does"], re.compile(row["wording"], flags)) for row in rows)


def disguised_instruction(content: str) -> str | None:
    """Return what ``content`` does, if it reads like an instruction to a model; else None."""
    return next((does for does, wording in _wordings() if wording.search(content)), None)
