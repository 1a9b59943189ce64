"""Candidates for the memory: what a model found worth remembering (aish-phase4-memory, section 6).

A candidate is a proposal and nothing more: it is remembered when the user accepts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

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

#: Candidates that are proposed at once.
MOST: Final = 10

#: How an item says that it was a candidate, and was accepted.
ACCEPTED: Final = "accepted"

#: Characters that a candidate shares with an output, at least, to count as read there.
_READ: Final = 12

#: Characters of a candidate from which on its end may be out of sight.
_LONG: Final = 300

# A bullet, a number or a box, perhaps; the kind, perhaps in bold or in parentheses; a colon.
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
        duplicate_of: the id of an item that says the same already.
        flags: what the user should look at twice, a phrase each.
    """

    kind: Kind
    content: str
    duplicate_of: int | None = None
    flags: tuple[str, ...] = ()


def candidates(
    reply: str, known: Iterable[MemoryItem] = (), *, said: str = "", read: str = ""
) -> tuple[Candidate, ...]:
    """Return the candidates in a model's reply, each once, at most MOST of them.

    Lines that are none are passed over.

    Args:
        reply: the text, without the model's reasoning.
        known: what is remembered already.
        said: all that the user has said.
        read: the output of commands and tools: what stands there is flagged, unless it was said.
    """
    found: dict[str, tuple[Kind, str]] = {}
    for line in well_formed(reply).splitlines():
        match = _LINE.fullmatch(line)
        content = _cleaned(match[2]) if match else ""
        if match and any(map(str.isalnum, content)):
            found.setdefault(normalized(content), (cast("Kind", match[1].lower()), content))
    ids = {normalized(item.content): item.id for item in known} if found else {}
    said, read = normalized(said), normalized(read)
    return tuple(
        Candidate(kind, content, ids.get(text), _flags(content, text, said, read))
        for text, (kind, content) in list(found.items())[:MOST]
    )


def dangers(content: str) -> tuple[str, ...]:
    """Return what is suspicious of a text that is to be remembered, a phrase each."""
    flags = []
    secret = find_secret(content)
    if secret is not None:
        flags.append(f"looks like it holds {secret}")
    elif REDACTED in content:
        flags.append("held a secret, which was blacked out")
    if len(content) > _LONG:
        flags.append("is long: read it to its end")
    does = disguised_instruction(content)
    if does is not None:
        flags.append(f"reads like an instruction: it {does}")
    return tuple(flags)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A candidate as the user accepts it, changed at will."""

    kind: Kind
    content: str
    tags: tuple[str, ...] = ()
    scope: Scope = "workspace"


def accept(memory: MemoryScopes, accepted: Sequence[Accepted], session: str) -> list[int]:
    """Remember what the user accepted; return the ids in the same order.

    Of what is known already it is the id that is there. Nothing is stored where one is refused.

    Args:
        memory: where it goes.
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
        flags += ("stands in the output of a command or tool, and you did not say it",)
    return flags


def _cleaned(content: str) -> str:
    """Return a candidate's text on one line, without wrapping of the model's."""
    text = " ".join(one_line(without_hidden(content)).split())
    for mark in ("**", '"', "`"):
        inner = text[len(mark) : -len(mark)]
        if text.startswith(mark) and text.endswith(mark) and mark not in inner:
            text = inner.strip()
    return text


# Instructions in disguise: texts that, remembered, would speak to a model in the user's name.
#
# What is remembered is told to the model at every question from then on, so it is where a text
# that came in by a file or a tool would like to be. This finds the usual wordings, to have the
# user look twice; a wording of its own gets past it, which is why nothing is remembered without
# the user.

_ASKED: Final = r"(?:ask(?:ing)?|confirm(?:ing|ation)?|approv(?:al|ing|e)|permission|consent)"

#: What a wording does, and the wording; its spaces are for the reader.
_TABLE: Final = (
    (
        "takes other instructions back",
        (
            r"\b(ignore|disregard|forget|override|bypass)\b.{0,40}"
            r"\b(instruction|prompt|rule|guideline|polic|restriction|safety)"
        ),
    ),
    (
        "wants things done without asking",
        rf"\b(without|never|don'?t|do\ not|no\ need\ (to|for)|skip|stop)\b.{{0,24}}\b{_ASKED}\b",
    ),
    (
        "wants things done without asking",
        (
            rf"\bauto(matically)?[- ]?{_ASKED}\b"
            rf"| \b{_ASKED}\b.{{0,24}}\bis\ (not|never|no\ longer)\b"
        ),
    ),
    (
        "would switch a protection off",
        (
            r"\b(disable|turn\ off|switch\ off|skip|suppress)\b.{0,30}"
            r"\b(safety|check|confirmation|warning|sandbox|guard|redaction|filter)"
        ),
    ),
    (
        "speaks to the model about what it is",
        (
            r"\b(you\ are\ now|you're\ now|act\ as|pretend\ (to\ be|that)|system\ prompt|jailbreak"
            r"| your\ (new\ )?(role|persona)|from\ now\ on,?\ you|developer\ mode)\b"
        ),
    ),
    (
        "has the marks of a message's beginning",
        r"<\|[^|]*\|>| \[/?INST\]| <<SYS>>| ^\s{0,8}(system|assistant|developer)\s{0,8}:| \bCMD:",
    ),
    (
        "would have a command run",
        (
            r"\b(always|every\ time|whenever|each\ time|first|must)\b.{0,60}"
            r"\b(run|execute|pipe|eval|source)\b.{0,40}(\$\(|https?://|\||\bcurl\b|\bwget\b)"
        ),
    ),
    (
        "would have a command run",
        r"\b(curl|wget)\b[^|]{0,200}\|\s{0,8}(sudo\s{1,8})?\w{0,20}sh\b| \beval\s{1,8}[\"'`$]",
    ),
    (
        "would have things sent away",
        (
            r"\b(send|upload|post|forward|append|exfiltrate|include|report)\b.{0,60}"
            r"(https?://| \bto\s{1,8}\S{1,80}@\S"
            r"| \b(webhook|token|password|secret|api\ key|credential|\.env|\.ssh)\b)"
        ),
    ),
)
_WORDINGS: Final = tuple(
    (does, re.compile(pattern, re.IGNORECASE | re.VERBOSE)) for does, pattern in _TABLE
)


def disguised_instruction(content: str) -> str | None:
    """Return what ``content`` does, if it reads like an instruction to a model; else None."""
    return next((does for does, wording in _WORDINGS if wording.search(content)), None)
