"""What may complete the name of a file that somebody types behind an ``@``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from aish_lsp.context.attached.mentions import mention_of
from aish_lsp.foundation.text import is_seen
from aish_lsp.project.known import FOLDED

#: Names that are proposed at once.
MOST: Final = 100

_TYPED: Final = re.compile(
    r"""(?:^|(?<=[\s(\[{]))@(?:"(?P<quoted>(?:[^"\\]|\\.)*)|(?P<bare>(?:\\.|[^\s\\"`])*))\Z"""
)
_ESCAPE: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Typed:
    """The beginning of a name, as it is meant, and where in its line its ``@`` stands."""

    name: str
    start: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A file, or a folder (then the name ends in ``/``), and what names it in a question."""

    name: str
    insert: str

    @property
    def is_folder(self) -> bool:
        """Whether more of a name has to follow."""
        return self.name.endswith("/")


def typed_name(line_prefix: str) -> Typed | None:
    """Return what of a name stands before the cursor; None where no name is being typed."""
    match = _TYPED.search(line_prefix)
    if match is None:
        return None
    written = match["bare"] if match["quoted"] is None else match["quoted"]
    return Typed(_ESCAPE.sub(r"\1", written), match.start())


def proposals(typed: str, names: Iterable[str]) -> list[Proposal]:
    """Return what may be meant, the likeliest first: MOST at most.

    First what goes on as it was typed, folder by folder, then names that begin so, then those that
    hold it, whatever the case.
    """
    found = nsmallest(MOST, _ranked(typed, names))
    return [Proposal(name, _inserted(name)) for _, _, name in found]


def _ranked(typed: str, names: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (rank, depth, name) of all that may be meant."""
    wanted = typed.casefold()
    folder = typed[: typed.rfind("/") + 1]
    folders: set[str] = set()
    for name in names:
        if name.endswith((FOLDED, "/")) or not is_seen(name):
            continue
        depth = name.count("/")
        if name.startswith(typed):
            below, slash, _ = name[len(folder) :].partition("/")
            if slash and (inner := f"{folder}{below}/") not in folders:
                folders.add(inner)
                yield 0, inner.count("/") - 1, inner
            yield (2 if slash else 0), depth, name
            continue
        plain = name.casefold()
        if wanted not in plain:
            continue
        own = plain.rpartition("/")[2]
        yield (1 if plain.startswith(wanted) else 3 if own.startswith(wanted) else 4), depth, name


def _inserted(name: str) -> str:
    """Return what names it; a quote around a folder stays open for what follows."""
    mention = mention_of(name)
    return mention.removesuffix('"') if name.endswith("/") else mention
