"""What a question asks for: the intent whose phrasing explains it best, and the values in it.

ranking.py proposes phrasings; overlay.py lays each over the question. How sure that makes is a
number between 0 and 1 that can be compared between questions; BM25's cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aish_lsp.offline.deeds import fitness, is_request, only_asks
from aish_lsp.offline.overlay import Match, Overlay
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.spelling import near
from aish_lsp.offline.table import said, table
from aish_lsp.offline.tokens import Token

#: Below it the model says that it does not know; docs/offline.md has the figures.
THRESHOLD: Final = 0.7

#: Phrasings that are looked at closely.
_CANDIDATES: Final = 90

#: Matches below it are not worth a look at what they do.
_LIKELY: Final = 0.4


def understood(tokens: Sequence[Token], question: str) -> list[Match]:
    """Return what the question may mean, each intent once, the surest first."""
    known = table()
    same = ranking().worded(said(token.text) for token in tokens)
    if same is not None:
        return [Match(known.intents[same], {}, 1.0)]
    if not is_request(question):
        return []
    _correct(tokens)
    terms = [token.term for token in tokens if token.term]
    terms += (f"{{{kind}}}" for token in tokens for kind in _kinds(token))
    best: dict[int, Match] = {}
    for number in ranking().nearest(terms, _CANDIDATES):
        phrasing = known.phrasings[number]
        match = Overlay(phrasing, known.intents[phrasing.intent], tokens).match()
        other = best.get(phrasing.intent)
        if other is None or _order(match) > _order(other):
            best[phrasing.intent] = match
    # "just" says nothing, or is the runner of a recipe that this project does not have.
    telling = [token for token in tokens if token.lower != "just"]
    if len(telling) == 1 and telling[0].term and not telling[0].kinds:
        # One word that the table does not have as it stands says too little but for a task.
        best = {at: match for at, match in best.items() if match.intent.topic}
    return _fit(sorted(best.values(), key=_order, reverse=True), tokens, question)


def _kinds(token: Token) -> set[str]:
    """Return the kinds of slot that may take ``token``."""
    kinds = set(token.kinds)
    if "extension" in kinds:
        kinds.add("glob")
    if token.branch:
        kinds.add("branch")
    return kinds


def _fit(matches: list[Match], tokens: Sequence[Token], question: str) -> list[Match]:
    """Return ``matches`` anew ordered, those far down that do something other than is asked."""
    words_said = (word for token in tokens for word in (token.near or token.term, token.lower))
    terms = set(words_said) - {""}
    first = next((token.near or token.term for token in tokens if token.term), "")
    asks = only_asks(question)
    judged = [
        replace(
            match,
            confidence=match.confidence
            * fitness(match.intent, terms, first, asks=asks, ignored=match.ignored),
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
