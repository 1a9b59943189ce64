"""The user's word before a file of keys or passwords goes to a model; and what then went along."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aish_lsp.context.messages import Attached
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.redaction import is_secret_file
from aish_lsp.foundation.text import escaped
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.context.messages import Attached
    from aish_lsp.foundation.ports import AskUser


@dataclass(slots=True)
class Consents:
    """What of such files the user let go in this session: exactly those texts."""

    _agreed: set[str] = field(default_factory=set)
    _waiting: dict[str, tuple[str, str]] = field(default_factory=dict)

    async def sift(
        self, attached: Iterable[Attached], secret: Collection[str], ask_user: AskUser
    ) -> tuple[list[Attached], list[str]]:
        """Return what of ``attached`` may be sent, and why the rest must not.

        Asked is about the paths that are ``secret``, once for each file.
        """
        files: dict[str, list[Attached]] = {}
        for part in attached:
            files.setdefault(part.path, []).append(part)
        kept: list[Attached] = []
        refusals: list[str] = []
        for path, parts in files.items():
            refusal = await self._refusal(parts, ask_user) if path in secret else ""
            if refusal:
                refusals.append(refusal)
            else:
                kept += parts
        return kept, refusals

    async def _refusal(self, parts: Sequence[Attached], ask_user: AskUser) -> str:
        """Return why ``parts``, all of one file, must not be sent; empty where they may be."""
        digest = _digest(parts)
        if digest in self._agreed:
            return ""
        places = "; ".join(map(str, sent_along(parts)))
        answer = await ask_user(_question(places))
        if answer:
            self._agreed.add(digest)
            return ""
        refused = f"{places}: not sent, as files with that name usually hold keys or passwords."
        if answer is None:
            consent_id = new_id()
            self._waiting[consent_id] = digest, places
            refused += f" `:approve {consent_id}` in the chat lets it go; then ask again."
        return refused

    def approve(self, consent_id: str) -> str | None:
        """Let go what nobody could be asked about; return what, or None for no such id."""
        waiting = self._waiting.pop(consent_id, None)
        if waiting is None:
            return None
        digest, places = waiting
        self._agreed.add(digest)
        return places

    def clear(self) -> None:
        """Forget all: another session begins."""
        self._agreed.clear()
        self._waiting.clear()


def secret_selection(attached: Iterable[Attached], at: Path | None, folder: Path) -> set[str]:
    """Return the paths of ``attached`` under which secrets are kept, selected in the file ``at``.

    That counts by its whole path where it lies outside of the workspace's folder: of a file there
    ``attached`` has the name alone.
    """
    names = {part.path for part in attached}
    if at is not None:
        at = at.relative_to(folder) if at.is_relative_to(folder) else at
        if is_secret_file(at.as_posix()):
            return names
    return {name for name in names if is_secret_file(name)}


def _question(places: str) -> Question:
    return Question(
        f"Send {places} to the model? Files with that name usually hold keys or passwords. Only"
        " those that aish knows from its environment would be masked.",
        yes="Send it",
        no="Do not send it",
    )


def _digest(parts: Sequence[Attached]) -> str:
    told = json.dumps([[part.kind, part.path, part.text] for part in parts])
    return hashlib.sha256(told.encode()).hexdigest()


# What went along with a question, for those who show it.

_IN_WORDS = {
    "selection": "{}",
    "definition": "the definition around it ({})",
    "problems": "the problems reported there",
    "file": "{}",
    "terminal": "the terminal's last command ({})",
}


@dataclass(frozen=True, slots=True)
class SentAlong:
    """Text that went along: its kind, its path, its lines (from 1; 0: all), whether it was cut."""

    kind: str
    path: str
    first: int
    last: int
    cut: bool

    def __str__(self) -> str:
        """Return it in words."""
        place = Attached("file", escaped(self.path), "", "", self.first, self.last).place
        said = _IN_WORDS[self.kind].format(place)
        if not self.cut:
            return said
        # Of a long definition the first line goes alone.
        return f"{said}, cut {'short' if self.kind == 'definition' else 'to its head and tail'}"


def sent_along(attached: Iterable[Attached]) -> tuple[SentAlong, ...]:
    """Return what is told of what is attached to a question."""
    return tuple(
        SentAlong(part.kind, part.path, part.first, part.last, part.cut) for part in attached
    )
