"""Which phrasings of the table are most similar to a question, by the words that they share.

The scheme is Okapi BM25: S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25
and Beyond", Foundations and Trends in Information Retrieval 3 (2009). Each phrasing is a document;
how rare a word is depends on the number of intents that have it.
"""

from __future__ import annotations

import logging
import math
import pickle
import re
import sys
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.util import cache_from_source
from itertools import combinations
from pathlib import Path
from typing import Final, TypeVar, cast
from zlib import crc32

from aish_lsp.foundation.files import put_in_place
from aish_lsp.offline.table import FOLDER, KINDS, SLOT, Intent, Phrasing, Table, table
from aish_lsp.offline.words import words

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

#: The usual constants: how soon repetitions of a word stop counting, and how much length matters.
_K1: Final = 1.2
_B: Final = 0.4

#: The most phrasings of one intent that are compared in detail.
_OF_ONE_INTENT: Final = 3

#: The most phrasings that are compared because the question has all of their few words.
_SAID_IN_FULL: Final = 60

#: The most words that may be values although they do not look like any, in a literal phrasing.
_MADE_UP: Final = 3

#: The most intents whose words are cached.
_REMEMBERED: Final = 512

#: An intent usually has a word if at least this share of its phrasings have it.
_MOSTLY: Final = 0.5

_WORD: Final = re.compile(r"[A-Za-z]{2,}")


class Ranking:
    """An index of the table's words.

    Attributes:
        table: the table that is indexed.
        weights: how much each word says about what is meant.
        unknown: the same for a word that the table does not have.
        spellings: how many phrasings have each word as it is written.
    """

    def __init__(self, known: Table) -> None:
        self.table = known
        self._postings: dict[str, array[int]] = {}
        #: The intent of each phrasing, in ascending order.
        self._intents, self._slotted = array("H"), bytearray()
        self._lengths, self._words = array("B"), array("B")
        self._bare: list[int] = []
        self._longest = 0
        self.spellings = Counter(known.phrasings.spellings)
        plain: list[tuple[int, int]] = []
        frames: list[tuple[int, int]] = []
        for number, phrasing in enumerate(known.phrasings):
            self._add(number, phrasing)
            framing = [word for word in phrasing.wording if word[0] != "{"]
            if phrasing.slots:
                self._longest = max(self._longest, len(framing))
            (frames if phrasing.slots else plain).append((_hash(framing), number))
        self._plain, self._frames = _Wordings(plain), _Wordings(frames)
        self._mean = sum(self._lengths) / max(1, len(self._lengths))
        total = len(known.intents)
        self.weights: dict[str, float] = {}
        for term, numbers in self._postings.items():
            found = len({self._intents[number] for number in numbers})
            self.weights[term] = math.log(1 + (total - found + 0.5) / (found + 0.5))
        self.unknown = math.log(1 + total)

    def _add(self, number: int, phrasing: Phrasing) -> None:
        terms = set(phrasing.terms)
        slots = (f"{{{kind}}}" for slot in phrasing.slots for kind in _taken(slot.kind))
        for term in {*terms, *slots}:
            self._postings.setdefault(term, array("H")).append(number)
        self._intents.append(phrasing.intent)
        self._slotted.append(bool(phrasing.slots))
        self._lengths.append(min(255, len(phrasing.terms) + len(phrasing.slots)))
        self._words.append(min(255, len(terms)))
        if not terms:
            self._bare.append(number)

    def worded(self, words: Iterable[str]) -> int | None:
        """Return the intent that has a phrasing with exactly these words, or None."""
        said = tuple(words)
        for number in self._plain.find(said):
            if self.table.phrasings[number].wording == said:
                return self._intents[number]
        return None

    def framed(self, said: Sequence[tuple[str, bool]]) -> Iterator[int]:
        """Yield the phrasings that match a question word for word, except for its values.

        Args:
            said: the words of the question, each with whether it looks like a value.
        """
        plain = [at for at, (_, is_value) in enumerate(said) if not is_value]
        least = max(0, len(plain) - self._longest)  # No phrasing has more words than that.
        for count in range(least, min(_MADE_UP, len(plain)) + 1):
            for values in combinations(plain, count):
                yield from self._frames.find(said[at][0] for at in plain if at not in values)

    def weight(self, term: str) -> float:
        """Return how much ``term`` says about what is meant: more if fewer intents have it."""
        return self.weights.get(term, self.unknown)

    def phrasings_of(self, intent: int) -> list[Phrasing]:
        """Return the phrasings of the intent with a number."""
        return [self.table.phrasings[number] for number in self.numbers_of(intent)]

    def numbers_of(self, intent: int) -> range:
        """Return the numbers of the phrasings of the intent with a number."""
        start = bisect_left(self._intents, intent)
        return range(start, bisect_left(self._intents, intent + 1, start))

    def share(self, intent: int, term: str) -> float | None:
        """Return which share of the phrasings of ``intent`` have ``term``: 1 for all of them.

        0 means that only its commands or its description have it, None that neither has.
        """
        return _shares(self, intent).get(term)

    def intended(self, intent: int, terms: Iterable[str]) -> tuple[float, float]:
        """Return how much ``terms`` sound like ``intent``, whatever its individual phrasings are.

        The first number is the share of their weight that is in words of the intent's phrasings,
        the second the weight of usual words that are missing.
        """
        shares = _shares(self, intent)
        said = set(terms)
        weights = [(term, self.weight(term)) for term in said]
        whole = sum(weight for _, weight in weights)
        like = sum(weight * min(1.0, 3 * shares.get(term, 0.0)) for term, weight in weights)
        lacks = sum(
            share * self.weight(term)
            for term, share in shares.items()
            if share >= _MOSTLY and term not in said
        )
        return (like / whole if whole else 0.0), lacks

    def saying_just(self, terms: Collection[str]) -> list[int]:
        """Return the phrasings that have exactly ``terms``, with slots left out or named by kind.

        "delete a folder" is "delete the folder {folder}", and "delete {folder}" as well.
        """
        wanted = set(terms)
        said: Counter[int] = Counter()
        called: Counter[int] = Counter()
        for term in wanted:
            numbers = set(self._postings.get(term, ()))
            said.update(numbers)
            kinds = _called().get(term, ())
            slots = {n for kind in kinds for n in self._postings.get(f"{{{kind}}}", ())}
            called.update(slots - numbers)
        of_all = set() if "all" in wanted else set(self._postings.get("all", ()))
        return sorted(
            number
            for number in said.keys() | called.keys()
            if said[number] == self._words[number] - (number in of_all)
            and said[number] + called[number] == len(wanted)
        )

    def nearest(self, terms: Iterable[str], count: int) -> list[int]:
        """Return the numbers of the ``count`` phrasings with the best scores, the best first.

        After them come the phrasings without terms, which no word can score.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        found: Counter[int] = Counter()
        for term in set(terms):
            weight = self.weights.get(term, 0.0)
            postings = self._postings.get(term, ())
            if not term.startswith("{"):
                found.update(postings)
            for number in postings:
                norm = 1 - _B + _B * self._lengths[number] / self._mean
                scores[number] += weight * (_K1 + 1) / (1 + _K1 * norm)
        order = sorted(scores, key=lambda number: (-scores[number], number))
        chosen = self._few_of_each(order, count)
        # "change X to Y in Z" has one word that is compared, and a common one.
        full = (number for number in order if found[number] == self._words[number] > 0)
        more = self._few_of_each(full, _SAID_IN_FULL)
        return list(dict.fromkeys((*chosen, *more, *self._bare)))

    def _few_of_each(self, numbers: Iterable[int], count: int) -> list[int]:
        """Return the first ``count`` of ``numbers``, few of each intent with and without slots."""
        chosen: list[int] = []
        taken: Counter[tuple[int, int]] = Counter()
        for number in numbers:
            kind = self._intents[number], self._slotted[number]
            if taken[kind] < _OF_ONE_INTENT:
                taken[kind] += 1
                chosen.append(number)
                if len(chosen) == count:
                    break
        return chosen


@lru_cache(_REMEMBERED)
def _shares(ranking: Ranking, intent: int) -> dict[str, float]:
    """Return the words of an intent's phrasings, commands and description, with their shares."""
    phrasings = ranking.numbers_of(intent)
    terms = ranking.table.phrasings.terms
    asked = Counter(term for number in phrasings for term in set(terms(number)))
    told = dict.fromkeys(_told_with(ranking.table.intents[intent]), 0)
    return {term: count / max(1, len(phrasings)) for term, count in (told | asked).items()}


def _taken(kind: str) -> tuple[str, ...]:
    """Return the kinds of value that a slot of ``kind`` is indexed by."""
    return ("file", "folder") if kind == "path" else (kind,)


class _Wordings:
    """Finds phrasings by the hash of their words, which few others share by chance."""

    def __init__(self, worded: Iterable[tuple[int, int]]) -> None:
        found = sorted(worded)
        self._hashes = array("I", (one for one, _ in found))
        self._numbers = array("H", (number for _, number in found))

    def find(self, words: Iterable[str]) -> Iterator[int]:
        """Yield the numbers of the phrasings with the hash of ``words``, the lowest first."""
        wanted = _hash(words)
        for at in range(bisect_left(self._hashes, wanted), len(self._hashes)):
            if self._hashes[at] != wanted:
                return
            yield self._numbers[at]


def _hash(words: Iterable[str]) -> int:
    return crc32(" ".join(words).encode("utf-8", "surrogatepass"))


def _told_with(intent: Intent) -> Iterator[str]:
    """Yield the words of the description of ``intent``, and of its commands."""
    commands = (command for way in intent.ways for command in way.run)
    for text in (intent.does, *(SLOT.sub(" ", command) for command in commands)):
        for word in _WORD.findall(text):
            if term := words().term(word.lower()):
                yield term


@cache
def _called() -> dict[str, tuple[str, ...]]:
    """Return the kinds of slot that each term is a word for: "file", "directory", "server"."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in sorted(KINDS):
        for word in (kind, *words().kinds.get(kind, "").split()):
            if term := words().term(word):
                found[term] = (*found.get(term, ()), *(_taken(kind) if word == kind else (kind,)))
    return found


@cache
def ranking() -> Ranking:
    """Return the index of the table."""
    return _compiled(lambda: Ranking(table()))


def _compiled(make: Callable[[], _T]) -> _T:
    """Return what ``make`` returns, or what an earlier process stored.

    Making the index takes about a second, so it is stored as a pickle next to this module's
    bytecode, which is trusted just as much. It is made again when the size or time of a file here
    has changed. If Python does not or cannot write bytecode, each process makes the index.
    """
    sources = _sources()
    place = index_file()
    try:
        with place.open("rb") as file:
            if pickle.load(file) == sources:  # noqa: S301 - see above
                return cast("_T", pickle.load(file))  # noqa: S301
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the file, it is replaced
        _log.debug("%s is not loaded: %r", place, error)
    made = make()
    if not sys.dont_write_bytecode:
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            data = pickle.dumps(sources) + pickle.dumps(made)
            put_in_place(place, data, prefix=f".{place.stem}.", mode=0o644)
    return made


def index_file() -> Path:
    """Return the path of the stored index, whether it exists or not."""
    return Path(cache_from_source(__file__)).with_suffix(".pickle")


def _sources() -> list[tuple[str, int, int]]:
    """Return the files that the index is made from, and the code, with their sizes and times."""
    here = Path(__file__).parent
    found = sorted([*here.glob("*.py"), *here.glob("*.toml"), *FOLDER.glob("*.toml")])
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in found]
