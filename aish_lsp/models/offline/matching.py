"""What a question asks for: the intent whose phrasing explains it best, and the values in it.

ranking.py proposes phrasings; each is laid over the question here. Words of both are set off
against each other, values fill slots, and what is left over on either side counts against it. The
result is a confidence between 0 and 1 that can be compared between questions; BM25's cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from aish_lsp.models.offline.deeds import fitness, only_asks
from aish_lsp.models.offline.ranking import ranking
from aish_lsp.models.offline.spelling import near
from aish_lsp.models.offline.table import FREE, Intent, Phrasing, Slot, kind_of, said, table
from aish_lsp.models.offline.tokens import Token, is_name
from aish_lsp.models.offline.words import words

#: Below it the model says that it does not know; docs/offline.md has the figures.
THRESHOLD: Final = 0.7

#: Phrasings that are looked at closely.
_CANDIDATES: Final = 60

#: What a value counts that fills a slot, by whether it has a shape; what one counts that is left
#: over, and a slot without a value.
_TYPED: Final = 2.5
_NAMED: Final = 1.5
_LEFT_OVER: Final = 4.0
_UNFILLED: Final = 0.9
#: What it counts against a phrasing of several values that only some of them are there.
_HALF: Final = 2.0
#: How much it counts against a value without a shape that it is a word of the table.
_KNOWN_WORD: Final = 0.9
#: How much it counts against a text that is not quoted, for each word after its first.
_RAMBLING: Final = 0.4
#: How much it counts how a question is worded, word by word; it decides between the equally sure.
_WORDING: Final = 0.12
#: How much a word of the phrasing counts that the question has not.
_MISSING: Final = 0.65

#: Matches below it are not worth a look at what they do.
_LIKELY: Final = 0.4

#: Words that are no value, and those behind which a name of a file stands.
_NEVER: Final = frozenset(
    [
        *("all", "any", "every", "some", "none", "each", "called", "named", "the", "same", "it"),
        *("them", "stuff", "things", "everything", "anything", "something", "etc", "os", "now"),
        *("again", "too", "also", "only", "just", "else", "instead", "here", "there", "please"),
    ]
)
_SURELY_PATHS: Final = frozenset(["called", "named", "mkdir", "touch"])
_ANNOUNCES_PATHS: Final = _SURELY_PATHS | frozenset(
    [
        "folder",
        "directory",
        "dir",
        "file",
        "as",
        "to",
        "into",
        "symlink",
        "link",
        "cd",
        "folders",
        "directories",
        "files",
    ]
)
#: What may be more than a name.
_SENTENCES: Final = ("text", "pattern", "name", "command")
#: What may stand beside a value and says what it is.
_KIND_WORDS: Final = ("file", "folder", "script", "program", "archive")

_ENDS_A_TEXT: Final = frozenset(
    ["in", "inside", "within", "from", "across", "under", "on", "for", "with", "by", "to", "into"]
)
#: What else than its own kind a slot takes.
_ALSO: Final = {
    "path": ("file", "folder"),
    "archive": ("archive",),
    "glob": ("glob", "extension"),
    "host": ("host", "login"),
    "login": ("login", "host"),
    "revision": ("revision", "version"),
    "version": ("version", "number"),
    "url": ("url", "repository"),
    "repository": ("repository", "url"),
    "port": ("port",),
    "first": ("first", "number"),
    "last": ("last", "number"),
}


@dataclass(frozen=True, slots=True)
class Match:
    """An intent that may be meant, the values for its slots, and how sure that is.

    Attributes:
        strength: what speaks for it, with which it is compared among the equally sure.
        ignored: whether it leaves out a value that was asked with: a file, a quoted text.
    """

    intent: Intent
    values: dict[str, str]
    confidence: float
    strength: float = 0.0
    ignored: bool = False


def understood(tokens: Sequence[Token], question: str) -> list[Match]:
    """Return what the question may mean, each intent once, the surest first."""
    known = table()
    same = ranking().worded(said(token.text) for token in tokens)
    if same is not None:
        return [Match(known.intents[same], {}, 1.0)]
    _correct(tokens)
    terms = [token.term for token in tokens if token.term]
    terms += (f"{{{kind}}}" for token in tokens for kind in token.kinds)
    best: dict[int, Match] = {}
    for number in ranking().nearest(terms, _CANDIDATES):
        phrasing = known.phrasings[number]
        match = _Overlay(phrasing, known.intents[phrasing.intent], tokens).match()
        other = best.get(phrasing.intent)
        if other is None or _order(match) > _order(other):
            best[phrasing.intent] = match
    return _fit(sorted(best.values(), key=_order, reverse=True), tokens, question)


def _fit(matches: list[Match], tokens: Sequence[Token], question: str) -> list[Match]:
    """Return ``matches`` anew ordered, those far down that do something other than is asked."""
    words_said = (word for token in tokens for word in (token.near or token.term, token.lower))
    terms = set(words_said) - {""}
    asks = only_asks(question)
    judged = [
        replace(
            match,
            confidence=match.confidence
            * fitness(match.intent, terms, asks=asks, ignored=match.ignored),
        )
        if match.confidence >= _LIKELY
        else match
        for match in matches
    ]
    return sorted(judged, key=_order, reverse=True)


def _order(match: Match) -> tuple[float, float]:
    return match.confidence, match.strength


def _correct(tokens: Sequence[Token]) -> None:
    """Take words that are nearly one of the table's for it: "comit"."""
    known = ranking().weights
    unknown = (t for t in tokens if t.term and t.term not in known and not t.kinds)
    for token, _ in zip(unknown, range(5), strict=False):
        if 3 < len(token.term) < 20 and token.term.isalpha():
            like = (term for term in known if term[0] == token.term[0])
            token.near = near(token.term, like)


class _Overlay:
    """One phrasing laid over a question."""

    def __init__(self, phrasing: Phrasing, intent: Intent, tokens: Sequence[Token]) -> None:
        self._phrasing = phrasing
        self._intent = intent
        self._tokens = tokens
        self._used: set[int] = set()
        self._slots: dict[int, str] = {}
        self._values: dict[str, str] = {}
        self._gained = 0.0
        self._lost = 0.0

    def match(self) -> Match:
        self._set_off_words()
        slots = sorted(self._phrasing.slots, key=lambda slot: slot.kind in FREE)
        waiting = [slot for slot in slots if not self._anchored(slot)]
        for slot in waiting:
            self._fill(slot)
        self._fill_defaults()
        ignored = False
        for at, token in enumerate(self._tokens):
            if at not in self._used:
                self._lost += _weight(token)
                ignored = ignored or (not token.term and _weight(token) > 0)
        if 0 < len(self._values) < len(slots):
            self._lost += _HALF
        whole = self._gained + self._lost
        confidence = self._gained / whole if whole else 0.0
        confidence += _WORDING * (self._likeness() - confidence)
        return Match(self._intent, self._values, confidence, self._gained, ignored)

    def _likeness(self) -> float:
        """Return how much of the wording is the same: words and pairs of them, by Dice."""
        asked: list[str] = []
        for at, token in enumerate(self._tokens):
            slot = self._slots.get(at)
            if slot is None:
                asked.append(said(token.text))
            elif not asked or asked[-1] != f"{{{slot}}}":
                asked.append(f"{{{slot}}}")
        one, other = _grams(asked), _grams(self._phrasing.wording)
        return 2 * (one & other).total() / max(1, one.total() + other.total())

    def _set_off_words(self) -> None:
        weight = ranking().weight
        for term in self._phrasing.terms:
            at = self._at(term)
            if at is None:
                self._lost += _MISSING * weight(term)
            else:
                self._used.add(at)
                self._gained += weight(term) * (1.0 if self._tokens[at].term == term else 0.8)

    def _at(self, term: str) -> int | None:
        """Return where the question has ``term``, rather where it is no value as well."""
        places = [
            at
            for at, token in enumerate(self._tokens)
            if at not in self._used and term in (token.term, token.near)
        ]
        return min(places, key=lambda at: (bool(self._tokens[at].kinds), at), default=None)

    def _anchored(self, slot: Slot) -> bool:
        """Fill a slot with a shape if a value stands behind the very word that announces it."""
        if slot.kind in FREE or not slot.before:
            return False
        taken = (*_ALSO.get(slot.kind, ()), slot.kind)
        for at, token in enumerate(self._tokens):
            if at in self._used or not _same_word(slot.before, token.before):
                continue
            if self._may_be_path(slot, at):
                self._take(slot.name, token.text, at)
                self._gained += _TYPED
                return True
            if token.kinds.keys() & set(taken):
                self._fill(slot)
                return True
        return False

    def _may_be_path(self, slot: Slot, at: int) -> bool:
        """Return whether a word that looks like any other is meant as a name of a file."""
        token = self._tokens[at]
        if slot.kind not in ("file", "folder", "path") or token.kinds or token.lower in _NEVER:
            return False
        if (
            at == len(self._tokens) - 1
            and token.behind in ("to", "into", "as")
            and slot.before == (token.behind)
        ):
            return True
        announced = {token.before, token.behind} & _ANNOUNCES_PATHS
        unknown = token.quoted or (bool(token.term) and token.term not in ranking().weights)
        return bool(announced) and (unknown or bool({token.before, token.behind} & _SURELY_PATHS))

    def _fill(self, slot: Slot) -> None:
        filled = self._free(slot) if slot.kind in FREE else self._typed(slot)
        if filled:
            self._gained += _NAMED if slot.kind in FREE else _TYPED
            self._lost += self._doubt(slot.name)
        else:
            self._lost += _UNFILLED

    def _doubt(self, slot: str) -> float:
        """Return what counts against a value that is a word of the table: it may mean that."""
        at = next(at for at, name in self._slots.items() if name == slot)
        token = self._tokens[at]
        of_file = bool(token.kinds.keys() & {"file", "folder"})
        known = (token.term in ranking().weights or of_file) and not token.quoted
        known = known and kind_of(slot) in FREE
        return _KNOWN_WORD if known else 0.0

    def _fill_defaults(self) -> None:
        """Take values that the phrasing does not speak of, but the commands have a use for."""
        for name in self._intent.defaults:
            if (
                name not in self._values
                and kind_of(name) not in FREE
                and self._typed(Slot(name, "", ""))
            ):
                self._gained += _NAMED

    def _typed(self, slot: Slot) -> bool:
        """Fill a slot with a value of its kind, the one that stands behind the same word first."""
        found = [
            (at, kind)
            for at, token in enumerate(self._tokens)
            for kind in _ALSO.get(slot.kind, (slot.kind,))
            if kind in token.kinds and (at not in self._used or self._other_half(at, slot.kind))
        ]
        if not found:
            return self._free_path(slot)
        at, kind = min(found, key=lambda one: (-_neighbors(slot, self._tokens[one[0]]), one[0]))
        value = self._tokens[at].kinds[kind]
        if slot.kind == "glob" and kind == "extension":
            value = f"*.{value}"
        self._take(slot.name, value, at)
        return True

    def _free_path(self, slot: Slot) -> bool:
        """Fill a slot with the name of a file that is not there yet, or that has no extension."""
        found = [
            at
            for at in range(len(self._tokens))
            if at not in self._used and self._may_be_path(slot, at)
        ]
        if not found:
            return False
        at = max(found, key=lambda at: (_neighbors(slot, self._tokens[at]), -at))
        self._take(slot.name, self._tokens[at].text, at)
        return True

    def _other_half(self, at: int, kind: str) -> bool:
        """Return whether a range, "10-20", was used for its one end and is there for the other."""
        return kind == "last" and "last" in self._tokens[at].kinds and "first" in self._values

    def _free(self, slot: Slot) -> bool:
        """Fill a slot whose values look like any word."""
        scored = [
            (self._fits(slot, at), -at, at)
            for at, token in enumerate(self._tokens)
            if at not in self._used
        ]
        score, _, at = max(scored, default=(0.0, 0, 0))
        if score < 1 and not self._is_all_that_is_left(slot, at):
            return False
        last = at
        if slot.kind in ("text", "pattern") and not self._tokens[at].quoted:
            last = self._end_of_text(at)
        value = " ".join(token.text for token in self._tokens[at : last + 1])
        for place in range(at, last + 1):
            self._take(slot.name, value, place)
        self._lost += _RAMBLING * (last - at)
        return True

    def _is_all_that_is_left(self, slot: Slot, at: int) -> bool:
        """Return whether the question ends with a word that nothing else explains: a name."""
        token = self._tokens[at] if self._tokens else None
        sentence = slot.kind in _SENTENCES
        if slot.kind == "command" and len(self._phrasing.slots) == 1:
            sentence = False
        if token is None or sentence or at in self._used:
            return False
        left = [
            place
            for place, other in enumerate(self._tokens)
            if place not in self._used and (other.term or other.kinds or other.quoted)
        ]
        return left == [len(self._tokens) - 1] == [at] and is_name(token.text)

    def _fits(self, slot: Slot, at: int) -> float:
        """Return how well a word serves as a value; below 1 it does not."""
        token = self._tokens[at]
        if not token.quoted and (token.term == slot.kind or token.lower in _NEVER):
            return 0.0
        plain = slot.kind in _SENTENCES
        if not token.quoted and (not token.term and not token.kinds):
            return 0.0
        bare = token.text.lstrip("$") if slot.kind == "variable" else token.text
        if not plain and not is_name(bare):
            return 0.0
        score = 2.0 if token.quoted else 0.0
        score += 2.0 * _neighbors(slot, token)
        if not token.quoted and token.term not in ranking().weights and not token.kinds:
            score += 0.5 if plain else 1.0
        return score

    def _end_of_text(self, at: int) -> int:
        """Return where a text ends that begins at ``at`` and is not quoted."""
        last = at
        for place in range(at + 1, len(self._tokens)):
            token = self._tokens[place]
            if place in self._used or token.quoted or token.lower in _ENDS_A_TEXT:
                break
            if token.kinds and token.before in _ENDS_A_TEXT:
                break
            if token.term or token.kinds:
                last = place
        return last

    def _take(self, slot: str, value: str, at: int) -> None:
        self._values[slot] = value
        self._slots[at] = slot
        self._used.add(at)
        for beside in (at - 1, at + 1):
            if 0 <= beside < len(self._tokens) and self._tokens[beside].term in (
                *_KIND_WORDS,
                kind_of(slot),
            ):
                self._used.add(beside)


def _grams(words: Sequence[str]) -> Counter[str]:
    return Counter([*words, *map(" ".join, pairwise(words))])


def _neighbors(slot: Slot, token: Token) -> float:
    """Return whether ``token`` stands beside the same words as the slot does in its phrasing."""
    same = 0.0
    if slot.before and _same_word(slot.before, token.before):
        same += 1
    if slot.after and _same_word(slot.after, token.after):
        same += 0.5
    return same


def _same_word(one: str, other: str) -> bool:
    if one == other:
        return True
    term = words().term(one)
    return bool(term) and term == words().term(other)


def _weight(token: Token) -> float:
    """Return how much it counts against a phrasing that it says nothing of ``token``."""
    if token.quoted or (token.kinds and not token.term and token.lower not in words().stop):
        return _LEFT_OVER
    if not token.term:
        return 0.0
    return ranking().weight(token.near or token.term)


def nearest_names(matches: Sequence[Match], count: int) -> Iterator[str]:
    """Yield how the ``count`` surest of ``matches`` may be asked for."""
    for match in matches[:count]:
        yield match.intent.example
