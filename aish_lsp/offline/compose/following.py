"""Sentences that go on from the one before: "and in src?", "only the last week's", "delete them".

Such a sentence is read by the same grammar. What it says takes the place of what was said before
of the same kind, or is added to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.compose.files import composed_files, read_files
from aish_lsp.offline.compose.grammar import Composed, Misfit, Toolset, fillers_of, resaid
from aish_lsp.offline.compose.lines import (
    FILTER,
    LIMIT,
    TOP,
    LinesRequest,
    composed_lines,
    read_lines,
)
from aish_lsp.offline.compose.named import compose_named
from aish_lsp.offline.compose.predicates import Things
from aish_lsp.offline.compose.rendering import LIMITED
from aish_lsp.offline.words import pattern

#: The most sentences that are read for one of them.
_MOST: Final = 6

#: How a sentence begins that goes on, and one that wants the same of other things.
_GOES_ON: Final = re.compile(
    r"^\W*(?:and|but|now|then|only|just|also|ok|same|instead)\b", re.IGNORECASE
)
_AGAIN: Final = re.compile(
    r"^\W*(?:(?:and|now|but|then|ok) )?"
    r"(?:(?:what|how) about|(?:the )?same (?:thing )?(?:for|with|in))\b"
    r"|\binstead\W*$",
    re.IGNORECASE,
)

_THOSE: Final = re.compile(r"\b(?:those|these)\b|\b(?:are|is) (?:that|it|they)\b", re.IGNORECASE)
#: A name at the end, which may be that of another folder: "what about tests?".
_OTHER_FOLDER: Final = re.compile(
    r"\b(?:for|about|with) (?=(?:the )?([\w./~-]+?)(?: (?:folder|directory))?\W*$)", re.IGNORECASE
)
R = TypeVar("R", Things, LinesRequest)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for, if something can go on from it, and the command for it."""

    request: Things | LinesRequest | None
    composed: Composed


def conversed(sentences: Sequence[str], target: Toolset) -> Wanted | None:
    """Return what the last of ``sentences`` asks for, which may go on from the others."""
    *earlier, text = sentences[-_MOST:]
    alone = _alone(text, target)
    if alone and _means_others(text, alone.request, has_others=bool(earlier)):
        alone = None
    elif alone and not (_GOES_ON.match(text) or _AGAIN.search(text)):
        return alone
    before = conversed(earlier, target) if earlier else None
    request = before.request if before else None
    return (request and _following(text, request, target)) or alone


def _means_others(text: str, request: Things | LinesRequest | None, *, has_others: bool) -> bool:
    """Return whether all that a sentence says of its files is "those": not all that there are."""
    if not isinstance(request, Things) or request.these or request.roots:
        return False
    if request.tests:
        # "now delete everything except a.txt"
        left_out = all(test.startswith("-not ") for test in request.tests)
        return bool(has_others and request.act and left_out)
    others = pattern("pronoun") if has_others else _THOSE
    return others.search(text) is not None


def _alone(text: str, target: Toolset) -> Wanted | None:
    try:
        return Wanted(None, compose_named(text, target))
    except Misfit:
        pass
    try:
        lines = read_lines(text, target)
        return Wanted(lines, composed_lines(lines))
    except Misfit:
        pass
    try:
        things = read_files(text, target)
        return Wanted(things, composed_files(things))
    except Misfit:
        return None


def _following(text: str, before: Things | LinesRequest, target: Toolset) -> Wanted | None:
    """Return ``before`` with what ``text`` says of it; None if not all of that is understood."""
    also = fillers_of("following")
    again = _AGAIN.search(text) is not None
    text = resaid(text, "shortly")
    named = _OTHER_FOLDER.search(text)
    if named and target.world.is_folder(named[1]):
        text = f"{text[: named.start()]}in {text[named.end() :]}"
    try:
        if isinstance(before, LinesRequest):
            lines = _lines(before, read_lines(text, target, also), again=again)
            return Wanted(lines, replace(composed_lines(lines), goes_on=True))
        things = _things(before, read_files(text, target, also), again=again)
        return Wanted(things, replace(composed_files(things), goes_on=True))
    except Misfit:
        return None


def _over(before: R, said: R, *names: str) -> dict[str, Any]:
    """Return what is said of ``names``, or else what was."""
    return {name: getattr(said, name) or getattr(before, name) for name in names}


def _things(before: Things, said: Things, *, again: bool) -> Things:
    """Return ``before`` with what is ``said`` of the files; ``again``: of others instead."""
    about = {_about(test) for test in said.tests}
    tests = [
        test
        for test in before.tests
        if not (said.these and test == before.these)
        and (_about(test) not in about or (_about(test) in _PATTERNS and not again))
    ]
    names = (
        "roots",
        "kind",
        "depth",
        "least",
        "below",
        "content",
        "case",
        "these",
        "follow",
        "device",
    )
    kept = _over(before, said, *names)
    is_some = before.end or before.want in LIMITED
    shows_more = said.sort or (said.want and said.want not in LIMITED)
    is_narrowed = bool(said.act and said.tests)  # The largest of what is left may be another one.
    if (before.end and said.act) or (is_some and (shows_more or is_narrowed)):
        raise Misfit("only some of them are meant")
    if said.want or said.sort:
        kept |= {"act": "", "to": "", "sort": said.sort, "want": said.want or before.want}
        kept |= {"number": said.number} if said.want else {}
    elif said.act:
        kept |= {"act": said.act, "to": said.to, "sort": ""}
        kept["want"] = before.want if before.want in LIMITED else ""
    is_changed = len(tests) < len(before.tests) or bool(said.roots and before.roots)
    told = [*([] if is_changed else before.said), *said.said]
    kept |= {"said": told, "save": said.save, "end": said.end or before.end, "lists": said.lists}
    return replace(before, **kept, tests=[*tests, *said.tests])


#: The options of find that take patterns: several may have to fit.
_PATTERNS: Final = ("-name", "-path", "\\(")


def _about(test: str) -> str:
    """Return what a test of find is about: its option, and whether more or less is meant."""
    option, _, rest = test.partition(" ")
    if option == "-not":
        return f"{option} {test}"  # What is left out stays so.
    return re.sub(r"(?<=^-\w)min$", "time", option) + (rest[0] if rest[:1] in ("+", "-") else "")


def _lines(before: LinesRequest, said: LinesRequest, *, again: bool) -> LinesRequest:
    """Return ``before`` with what is ``said`` of the lines; ``again``: of others instead."""
    if not all("." in name or before.target.world.exists(name) for name in said.files):
        raise Misfit("this is a text, and no file")
    # What is said later of the first or the last lines means what was shown.
    stages = [(TOP if place == LIMIT else place, command) for place, command in said.stages]
    places = {place for place, _ in stages} - (set() if again else {FILTER})
    if TOP in places:
        places.add(LIMIT)
    kept = [stage for stage in before.stages if stage[0] not in places]
    names = ("files", "key", "delimiter", "case", "words", "count", "delete", "edit", "shown")
    changes = _over(before, said, *names)
    if said.sorting is not None and before.sorting is None:
        # Those that were shown are sorted.
        kept = [(LIMIT if place == TOP else place, command) for place, command in kept]
    if said.stages or said.sorting is not None:
        changes |= {"count": said.count, "delete": said.delete, "edit": said.edit}
    if said.sorting is not None:
        changes["sorting"] = "".join(sorted({*(before.sorting or ""), *said.sorting}))
    if said.address:
        changes["address"] = "" if before.address else said.address
    told = [*([] if len(kept) < len(before.stages) else before.said), *said.said]
    return replace(before, **changes, stages=[*kept, *stages], said=told, save=said.save)
