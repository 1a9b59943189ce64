"""One phrasing of the table laid over a question.

Words in both are matched, values fill slots, and what is left over on either side counts against
the phrasing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from itertools import combinations, pairwise
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.deeds import risk_of
from aish_lsp.offline.names import (
    SENTENCES,
    WORDED,
    doubtfulness,
    fit,
    is_surely_a_name,
    is_verb,
    may_be_path,
    may_be_several,
    neighbors,
    same_word,
)
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.table import FREE, Intent, Phrasing, Slot, Way, kind_of, said
from aish_lsp.offline.tokens import Token, is_name
from aish_lsp.offline.words import group, words

#: What counts for a phrasing: a slot filled by a value with a shape, or by one without. What counts
#: against it: a value that is left over, or a slot without a value.
_TYPED: Final = 2.5
_NAMED: Final = 1.5
_LEFT_OVER: Final = 4.0
_UNFILLED: Final = 1.2
#: What counts against a phrasing with several slots if only some of them have values.
_HALF: Final = 2.0
#: What counts against one if two slots have the same value.
_TWICE: Final = 2.0
#: What counts against an unquoted text, for each word after its first.
_RAMBLING: Final = 0.4
#: How much the likeness of the wording counts, word by word; it decides between equally sure ones.
_WORDING: Final = 0.12
#: Which part of its weight counts for a word of the phrasing that the question lacks.
_MISSING: Final = 0.65

#: The same for a word that few phrasings of the intent have.
_OPTIONAL: Final = 0.6
#: Which part of its weight counts for a word that is left over, if another phrasing of the same
#: intent has it, or the commands or the description do.
_SPOKEN_LOST: Final = 0.2
_SPOKEN_GAINED: Final = 0.5
_TOLD_LOST: Final = 0.5
#: Which part of its weight counts for a word that is left over and says little.
_LIGHT: Final = 0.35

#: The same for a word in a clause that only describes the situation.
_ASIDE: Final = 0.2

#: What counts against a phrasing that takes the destination of a thing for the thing itself.
_REVERSED: Final = 8.0
#: Kinds that may be mistaken for each other, and words that say where a thing goes or comes from.
_PLACES: Final = frozenset(("file", "folder", "path", "archive", "remotepath", "login", "host"))
_TO: Final = frozenset(("to", "into", "onto"))
#: Words that a name follows only where the phrasing has them, too: "kill nginx as bob".
_BESIDE: Final = frozenset(("on", "as", "with", "without", "but"))
_DIRECTIONS: Final = (
    frozenset(("to", "into", "onto", "in", "inside", "as", "under", "called", "named")),
    frozenset(("from", "of", "out")),
    frozenset(("with", "against", "and", "by")),
)
#: Words beside a value that say what it is.
_KIND_WORDS: Final = ("file", "folder", "script", "program", "archive")

#: Words that make a request another one: an answer that does not know them is another's.
_TURNS: Final = frozenset(
    (
        *("each", "every", "per", "last", "second", "distinct", "unique", "different", "longest"),
        *("shortest", "largest", "smallest", "newest", "oldest", "most", "least", "average"),
        *("sum", "total", "not", "no", "never", "half", "odd", "even", "next", "previous"),
        *("once", "exactly", "reverse", "sorted", "starting", "ending", "beginning", "longer"),
        *("shorter", "older"),
    )
)

#: Words before "of" with which only a part is meant: "one of the logs".
_PARTS: Final = frozenset(("one", "some", "any", "most", "few", "part"))

#: What counts against taking something for a file if it may be of a more specific kind.
_MORE_THAN_A_FILE: Final = {"archive": 0.3, "host": 0.8}
#: What is counted while a phrasing is laid over a question: the weights of words that are in both,
#: in other phrasings of the intent, in its commands or description, nowhere in it, or only in the
#: phrasing; then the values.
_COUNTED: Final = (
    *("matched", "spoken", "told", "unknown", "rarest", "missing"),
    *("ignored", "unfilled", "typed", "named", "doubt", "rambling"),
)


@dataclass(frozen=True, slots=True)
class Match:
    """An intent that may be meant, the values for its slots, and how sure that is.

    Attributes:
        strength: the sum of what counts for it, to order equally sure matches.
        ignored: whether it leaves out a value in the question: a file, a quoted text.
        evidence: what speaks for and against it, by the names in confidence.toml.
        wording: the words of the phrasing that was laid over the question.
        ways: what to use instead of the intent's own, as for a program that the question names.
        suffix: what follows the intent's command: a pipe, a redirection.
        sentence: what to say instead of the intent's own description, if anything.
    """

    intent: Intent
    values: dict[str, str]
    confidence: float
    strength: float = 0.0
    ignored: bool = False
    evidence: dict[str, float] = field(default_factory=dict)
    wording: tuple[str, ...] = ()
    ways: tuple[Way, ...] = ()
    suffix: str = ""
    sentence: str = ""


class Overlay:
    """One phrasing laid over a question."""

    def __init__(self, phrasing: Phrasing, intent: Intent, tokens: Sequence[Token]) -> None:
        self._phrasing = phrasing
        self._intent = intent
        self._tokens = tokens
        self._affirms = group("denying").isdisjoint(phrasing.wording)
        self._used: set[int] = set()
        self._slots: dict[int, str] = {}
        self._values: dict[str, str] = {}
        self._gained = 0.0
        self._lost = 0.0
        self._evidence = dict.fromkeys(_COUNTED, 0.0)

    def match(self) -> Match:
        """Return the intent of the phrasing with the values of the question, and how sure it is."""
        self._set_off_words()
        slots = sorted(self._phrasing.slots, key=lambda slot: slot.kind in FREE)
        waiting = [slot for slot in slots if not self._anchored(slot)]
        for slot in waiting:
            self._fill(slot)
        self._fill_defaults()
        for at, token in enumerate(self._tokens):
            if at not in self._used or self._leaves_port(at):
                self._leave_over(token)
        if len(set(self._values.values())) < len(self._values):
            self._lost += _TWICE
        if self._is_reversed():
            self._lost += _REVERSED
        self._evidence["ignored"] += self._spares_another()
        unfilled = sum(slot.name not in self._values for slot in slots)
        if 0 < unfilled < len(slots):
            self._lost += _HALF
        self._evidence["unfilled"] = float(unfilled)
        return self._judged()

    def _leaves_port(self, at: int) -> bool:
        """Return whether only the host of a word was used, and not its port: "10.0.0.5:22"."""
        kinds = self._tokens[at].kinds
        return {"host", "port"} <= kinds.keys() and kinds["port"] not in self._values.values()

    def _is_reversed(self) -> bool:
        """Return whether two places are in the reverse order of the phrasing.

        That is fine if a preposition says so: "to src copy a.txt".
        """
        placed = {name: at for at, name in sorted(self._slots.items(), reverse=True)}
        slots = [
            slot for slot in self._phrasing.slots if slot.kind in _PLACES and slot.name in placed
        ]
        to = _DIRECTIONS[0]
        if len(slots) > 1 and any(
            self._tokens[placed[slot.name]].before in _TO and slot.before not in to
            for slot in slots
        ):
            return True
        return any(
            placed[one.name] > placed[other.name]
            and not any(
                {slot.before, self._tokens[placed[slot.name]].before} <= direction
                for slot in (one, other)
                for direction in _DIRECTIONS
            )
            for one, other in combinations(slots, 2)
        )

    def _spares_another(self) -> bool:
        """Return whether a value is to be left out that the phrasing means, or the reverse."""
        denying = group("denying") | {"but"}
        return any(
            (slot.before in denying) != (self._tokens[at].before in denying)
            for at, name in self._slots.items()
            for slot in self._phrasing.slots
            if slot.name == name and slot.kind not in ("number", "size", "span")
        )

    def _judged(self) -> Match:
        """Return the match, judged by what was matched and what was left over."""
        evidence = self._evidence
        whole = self._gained + self._lost
        confidence = self._gained / whole if whole else 0.0
        likeness = self._likeness()
        confidence += _WORDING * (likeness - confidence)
        explained = evidence["matched"] + 0.5 * evidence["spoken"]
        over = evidence["told"] + evidence["unknown"] + 0.5 * evidence["spoken"]
        evidence["likeness"] = likeness
        evidence["coverage"] = explained / (explained + over) if explained + over else 0.5
        evidence["overlay"] = confidence
        return Match(
            self._intent,
            self._values,
            confidence,
            self._gained,
            evidence["ignored"] > 0,
            evidence,
            self._phrasing.wording,
        )

    def _leave_over(self, token: Token) -> None:
        """Count a word against the phrasing, or less if others of its intent have the word."""
        weight = _weight(token)
        share = ranking().share(self._phrasing.intent, token.term)
        evidence = self._evidence
        evidence["ignored"] += token.limits and weight > 0 and share is None
        evidence["ignored"] += bool(share) and self._is_denied(token) and self._does_it_all()
        if not token.term:
            turns = token.lower in _TURNS - {*self._phrasing.wording} and token.after != "line"
            turns = turns or (token.lower in _PARTS and token.after == "of")
            evidence["ignored"] += (weight > 0 or turns) and not token.aside
            self._lost += weight
        elif share is None or token.quoted:
            evidence["unknown"] += weight
            evidence["ignored"] += token.lower in _TURNS and not token.aside
            evidence["rarest"] = max(evidence["rarest"], weight)
            self._lost += weight
        elif share:
            evidence["spoken"] += weight
            self._lost += _SPOKEN_LOST * weight
            self._gained += _SPOKEN_GAINED * weight
        else:
            evidence["told"] += weight
            self._lost += _TOLD_LOST * weight

    def _likeness(self) -> float:
        """Return how similar the wordings are: Dice's coefficient of words and pairs of words."""
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
                share = ranking().share(self._phrasing.intent, term) or 0.0
                missing = weight(term) * (_OPTIONAL + (1 - _OPTIONAL) * share)
                self._lost += _MISSING * missing
                self._evidence["missing"] += missing
            else:
                self._used.add(at)
                self._evidence["ignored"] += self._is_denied(self._tokens[at])
                self._evidence["matched"] += weight(term)
                self._gained += weight(term)

    def _is_denied(self, token: Token) -> bool:
        """Return whether a word is not to be done, of which the phrasing says no such thing."""
        return self._affirms and token.behind in group("denying")

    def _does_it_all(self) -> bool:
        """Return whether the intent changes something, and nobody asks for it with a denial."""
        phrasings = ranking().phrasings_of(self._intent.number)
        denied = any(not group("denying").isdisjoint(one.wording) for one in phrasings)
        return not denied and risk_of(self._intent) != "safe"

    def _at(self, term: str) -> int | None:
        """Return where the question has ``term``, preferably where it cannot also be a value."""
        places = [
            at
            for at, token in enumerate(self._tokens)
            if at not in self._used and term in (token.term, token.lower)
        ]
        return min(places, key=lambda at: (bool(self._tokens[at].kinds), at), default=None)

    def _anchored(self, slot: Slot) -> bool:
        """Fill a slot with a shape if a value follows exactly the word that announces it."""
        if slot.kind in FREE or not slot.before:
            return False
        taken = {*words().takes.get(slot.kind, ()), slot.kind}
        for at, token in enumerate(self._tokens):
            if at in self._used or not same_word(slot.before, token.before):
                continue
            if self._may_be_path(slot, at):
                self._take(slot.name, token.text, at)
                self._gained += _TYPED
                self._evidence["typed"] += 1
                return True
            if token.kinds.keys() & taken:
                self._fill(slot)
                return True
        return False

    def _may_be_path(self, slot: Slot, at: int) -> bool:
        return may_be_path(slot, self._tokens[at], last=at == len(self._tokens) - 1)

    def _fill(self, slot: Slot) -> None:
        at = self._free(slot) if slot.kind in FREE else self._typed(slot)
        if at is None:
            self._lost += _UNFILLED
        elif slot.kind in FREE:
            token = self._tokens[at]
            doubt = doubtfulness(slot.kind, token, alone=not self._phrasing.terms)
            self._gained += _TYPED if slot.kind == "branch" and token.branch else _NAMED
            self._lost += doubt
            self._evidence["doubt"] += doubt
            self._evidence["named"] += 1
            beside = slot.kind not in SENTENCES and not token.quoted and token.behind in _BESIDE
            self._evidence["ignored"] += beside and not same_word(slot.before, token.behind)
        else:
            self._gained += _TYPED
            self._evidence["typed"] += 1

    def _fill_defaults(self) -> None:
        """Take values that the phrasing does not mention, but that the commands can use."""
        for name in self._intent.defaults:
            if name in self._values or kind_of(name) in FREE:
                continue
            if self._typed(Slot(name, kind_of(name))) is not None:
                self._gained += _NAMED

    def _typed(self, slot: Slot) -> int | None:
        """Fill a slot with a value of its kind, best one after the same word; return its place."""
        kinds_taken = words().takes.get(slot.kind, (slot.kind,))
        found = [
            (at, kind)
            for at, token in enumerate(self._tokens)
            for kind in kinds_taken
            if kind in token.kinds and (at not in self._used or self._other_half(at, slot.kind))
        ]
        if not found:
            return self._free_path(slot)
        at, kind = min(found, key=lambda one: (-neighbors(slot, self._tokens[one[0]]), one[0]))
        kinds = self._tokens[at].kinds
        more_specific = next((one for one in _MORE_THAN_A_FILE if one in kinds), kind)
        if kind in ("file", "folder") and more_specific != kind:
            self._lost += _MORE_THAN_A_FILE[more_specific]
        value = kinds[kind]
        if slot.kind == "glob" and kind == "extension":
            value = f"*.{value}"
        self._take(slot.name, value, at)
        return at

    def _free_path(self, slot: Slot) -> int | None:
        """Fill a slot with the name of a file that does not exist, or has no extension."""
        found = [
            at
            for at in range(len(self._tokens))
            if at not in self._used and self._may_be_path(slot, at)
        ]
        at = max(found, key=lambda at: (neighbors(slot, self._tokens[at]), -at), default=None)
        if at is not None:
            self._take(slot.name, self._tokens[at].text, at)
        return at

    def _other_half(self, at: int, kind: str) -> bool:
        """Return whether a value of two parts, "10-20", may be used again for its other part."""
        halves = self._tokens[at].kinds.keys()
        others = {"last": ("first",), "port": ("host", "login"), "host": ("port",)}.get(kind, ())
        return kind not in self._values and any(
            {kind, one} <= halves and one in self._values for one in others
        )

    def _free(self, slot: Slot) -> int | None:
        """Fill a slot whose values look like any word; return the place where the value begins."""
        scored = [
            (fit(slot, token), -at, at)
            for at, token in enumerate(self._tokens)
            if at not in self._used and not (at == 0 and is_verb(token))
        ]
        score, _, at = max(scored, default=(0.0, 0, 0))
        if not self._tokens or (
            not self._phrasing.terms and not is_surely_a_name(self._phrasing, self._tokens[at])
        ):
            return None
        if score < 1 and not self._is_all_that_is_left(slot, at):
            return None
        if (
            slot.kind in WORDED
            and self._tokens[at].lower in group("says_a_text")
            and any(one.is_telling for one in self._tokens[at + 1 : at + 2])
            and at + 1 not in self._used
        ):
            self._used.add(at)
            at += 1
        several = may_be_several(slot, self._tokens[at], self._intent)
        last = self._end_of_text(slot, at) if several else at
        value = " ".join(token.text for token in self._tokens[at : last + 1])
        for place in range(at, last + 1):
            self._take(slot.name, value, place)
        if slot.kind != "command":
            self._lost += _RAMBLING * (last - at)
            self._evidence["rambling"] += last - at
        return at

    def _is_all_that_is_left(self, slot: Slot, at: int) -> bool:
        """Return whether the question ends with a word that nothing else explains: a name."""
        token = self._tokens[at]
        of_several = slot.kind != "command" or len(self._phrasing.slots) > 1
        if (slot.kind in SENTENCES and of_several) or at in self._used:
            return False
        left = [
            place
            for place, other in enumerate(self._tokens)
            if place not in self._used and other.is_telling
        ]
        return left == [len(self._tokens) - 1] == [at] and is_name(token.text)

    def _end_of_text(self, slot: Slot, at: int) -> int:
        """Return where an unquoted text ends that begins at ``at``."""
        last, share = at, ranking().share
        others = (one for one in self._phrasing.slots if one.name not in self._values)
        ends = {one.before for one in others if one is not slot} - {""}
        ends |= group("ends_a_text") | {"called", "named"}
        for place in range(at + 1, len(self._tokens)):
            token = self._tokens[place]
            if (
                place in self._used
                or token.quoted
                or token.lower in ends
                or (token.kinds and token.before in group("ends_a_text"))
                or (
                    token.term and token.text.islower() and share(self._phrasing.intent, token.term)
                )
            ):
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


def _weight(token: Token) -> float:
    """Return how much ``token`` counts against a phrasing that does not mention it."""
    aside = _ASIDE if token.aside else 1
    if token.quoted or (token.kinds and not token.term and token.lower not in group("stop")):
        return _LEFT_OVER * aside
    if not token.term:
        return 0.0
    term = token.term
    return ranking().weight(term) * (_LIGHT if term in words().light else 1) * aside
