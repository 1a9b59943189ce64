"""Which phrasings of the table are nearest to a question, by the words that they share.

The scheme is Okapi BM25: S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25
and Beyond", Foundations and Trends in Information Retrieval 3 (2009). A phrasing is a document; how
rare a word is counts the intents that have it.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from heapq import nlargest
from typing import Final

from aish_lsp.models.offline.table import Table, table

#: The usual constants: how soon a repeated word counts no more, and how much length matters.
_K1: Final = 1.2
_B: Final = 0.4


class Ranking:
    """An index of the table's words."""

    def __init__(self, known: Table) -> None:
        phrasings = known.phrasings
        self._postings: dict[str, array[int]] = {}
        intents: dict[str, set[int]] = {}
        for number, phrasing in enumerate(phrasings):
            slots = (f"{{{slot.kind}}}" for slot in phrasing.slots)
            for term in {*phrasing.terms, *slots}:
                self._postings.setdefault(term, array("H")).append(number)
                intents.setdefault(term, set()).add(phrasing.intent)
        self._lengths = array(
            "B", (min(255, len(phrasing.terms) + len(phrasing.slots)) for phrasing in phrasings)
        )
        self._mean = sum(self._lengths) / max(1, len(self._lengths))
        total = len(known.intents)
        self.weights = {
            term: math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5))
            for term, found in intents.items()
        }
        self._worded = {
            " ".join(phrasing.wording): phrasing.intent
            for phrasing in reversed(phrasings)
            if not phrasing.slots
        }
        #: What a word weighs that the table does not have.
        self.unknown = math.log(1 + total)

    def worded(self, words: Iterable[str]) -> int | None:
        """Return the intent that is asked for in just these words."""
        return self._worded.get(" ".join(words))

    def weight(self, term: str) -> float:
        """Return how much ``term`` tells: the more, the fewer intents have it."""
        return self.weights.get(term, self.unknown)

    def nearest(self, terms: Iterable[str], count: int) -> list[int]:
        """Return the numbers of the ``count`` phrasings with the best scores, the best first."""
        scores: defaultdict[int, float] = defaultdict(float)
        for term in set(terms):
            weight = self.weights.get(term, 0.0)
            for number in self._postings.get(term, ()):
                norm = 1 - _B + _B * self._lengths[number] / self._mean
                scores[number] += weight * (_K1 + 1) / (1 + _K1 * norm)
        return nlargest(count, scores, key=lambda number: (scores[number], -number))


@cache
def ranking() -> Ranking:
    """Return the index of the table."""
    return Ranking(table())
