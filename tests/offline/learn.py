"""Learns what each kind of evidence counts for an answer: writes aish_lsp/offline/confidence.toml.

``python tests/offline/learn.py | tee tests/offline/learned.md``. It learns from questions whose own
phrasing the table lacks:

- phrasings of the table, asked of a table without them; an answer has to be of the same effect;
- phrasings of intents, asked of a table without those intents: none of the others is meant;
- the corpus, but for ``unseen_*``: an answer is right if its commands are among those that did
  what was asked in the entry's world. What the table has word for word is left out.

It prints how the thresholds fare on a third that it did not learn from, by each of these kinds.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from corpus import Entry, entries
from grading import filled, grade
from world import World

from aish_lsp.offline import matching, names, overlay, ranking, table
from aish_lsp.offline.choosing import suggested
from aish_lsp.offline.overlay import Match
from aish_lsp.offline.tokens import cut
from aish_lsp.offline.words import words
from aish_lsp.offline.workspace import Machine, WorkspaceFacts

_FILE: Final = Path(matching.__file__).with_name("confidence.toml")

#: Each how many of the table's phrasings are asked, in how many parts of it, and of the corpus.
_EACH: Final = 5
_PARTS: Final = 4

#: How much a question of each kind counts.
_COUNTS: Final = {"phrasing": 0.35, "no intent": 0.35, "corpus": 0.6, "blind": 2.0}
#: Weights are kept this close to nothing, are changed in steps this large, so many times.
_DECAY: Final = 2e-4
_STEP: Final = 0.25
_ROUNDS: Final = 30

#: So like a question is what the table has word for word.
_VERBATIM: Final = 0.99

#: Values for the slots of phrasings that are asked.
_VALUES: Final = {
    "file": "notes.txt app.log src/main.py data.csv config.yml",
    "folder": "src build docs old/stuff",
    "path": "notes.txt src",
    "archive": "backup.tar.gz photos.zip src.tar.bz2",
    "glob": "*.log *.py *.txt",
    "extension": ".md .py .txt .jpg",
    "number": "3 10 20 100",
    "size": "10M 500k 2G",
    "span": "7days 2hours 30minutes",
    "port": "3000 8080 5432",
    "first": "10 3",
    "last": "20 42",
    "date": "2024-03-01 2023-12-24",
    "mode": "755 600 644",
    "host": "example.com 10.0.0.5",
    "login": "ann@example.com bob@10.0.0.5",
    "url": "https://example.com/file.iso https://example.com/a.html",
    "repository": "https://github.com/ann/tool.git git@example.com:me/app.git",
    "revision": "HEAD~2 abc1234",
    "version": "1.2.3 v2.0.1",
    "sum": "17*23",
    "assignment": "FOO=bar",
    "remotepath": "ann@example.com:/srv/data",
    "command": "./build.sh htop",
    "user": "bob deploy",
    "service": "nginx postgresql",
}
_OTHERS: Final = "topic web requests tabulate staging 'hello' fix-12"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: of what kind it is, and what may be meant, with the evidence for each.

    ``meant`` tells whether one of them has to be; ``right`` which are.
    """

    kind: str
    meant: bool
    evidence: tuple[Mapping[str, float], ...]
    right: tuple[bool, ...]


def main() -> None:
    """Learn, print and write."""
    asked = [*_phrasings(), *_of_corpus()]
    random.Random(1).shuffle(asked)
    third = len(asked) // 3
    _report(asked[:third], _learned(asked[third:]))
    weights = _learned(asked)
    lines = (f'"{name}" = {weight:.3f}' for name, weight in sorted(weights.items()))
    head = "# What each kind of evidence counts; learned by tests/offline/learn.py.\n\n[weights]\n"
    _FILE.write_text(head + "\n".join(lines) + "\n")


def _phrasings() -> Iterator[Asked]:
    """Yield phrasings of the table that were asked of a table without them."""
    known = table.table()
    chosen = random.Random(2).sample(range(len(known.phrasings)), len(known.phrasings) // _EACH)
    for part in range(_PARTS):
        numbers = chosen[part::_PARTS]
        with _without(set(numbers)):
            for number in numbers:
                effect = _effect(known.intents[known.phrasings[number].intent])
                yield _asked("phrasing", number, partial(_is_of, effect))
        few = numbers[: len(numbers) // 4]
        effects = {_effect(known.intents[known.phrasings[number].intent]) for number in few}
        gone = {i for i, one in enumerate(known.intents) if _effect(one) in effects}
        with _without({n for n, one in enumerate(known.phrasings) if one.intent in gone}):
            for number in few:
                yield replace(_asked("no intent", number, lambda _: False), meant=False)


def _effect(intent: table.Intent) -> object:
    return intent.ways or intent.topic


def _is_of(effect: object, match: Match) -> bool:
    return _effect(match.intent) == effect


class _Some(table.Phrasings):
    """Some of the phrasings of a table."""

    def __init__(self, of: table.Phrasings, numbers: Sequence[int]) -> None:
        self._of, self._kept = of, numbers

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, index: int) -> table.Phrasing:  # type: ignore[override]  # as the other
        return self._of[self._kept[index]]

    def terms(self, index: int) -> tuple[str, ...]:
        return self._of.terms(self._kept[index])


class _without:  # noqa: N801 - reads as what it is
    """The table without the phrasings of some numbers, for as long as the context lasts."""

    def __init__(self, numbers: set[int]) -> None:
        known = table.table()
        kept = [number for number in range(len(known.phrasings)) if number not in numbers]
        self._table = replace(known, phrasings=_Some(known.phrasings, kept))
        self._ranking = ranking.Ranking(self._table)

    def __enter__(self) -> None:
        self._set(lambda: self._ranking, lambda: self._table)

    def __exit__(self, *_: object) -> None:
        self._set(ranking.ranking, table.table)

    @staticmethod
    def _set(index: Callable[[], ranking.Ranking], known: Callable[[], table.Table]) -> None:
        vars(matching).update(ranking=index, table=known)
        vars(overlay).update(ranking=index)
        vars(names).update(ranking=index)


def _asked(kind: str, number: int, is_right: Callable[[Match], bool]) -> Asked:
    phrasing = table.table().phrasings[number]
    chance = random.Random(number)
    values: dict[str, str] = {}
    for slot in phrasing.slots:
        pool = _VALUES.get(slot.kind, _OTHERS).split()
        free = [value for value in pool if value not in values.values()] or pool
        values[f"{{{slot.name}}}"] = chance.choice(free)
    text = " ".join(values.get(word, word) for word in phrasing.wording)
    return _judged(kind, text, WorkspaceFacts(Path("/nowhere")), is_right)


def _judged(
    kind: str, text: str, places: WorkspaceFacts, is_right: Callable[[Match], bool]
) -> Asked:
    bare = words().bare(text)
    tokens = cut(bare, places)
    found = list(matching.evidence(matching.candidates(tokens), tokens, bare))
    right = tuple(map(is_right, found))
    return Asked(kind, True, tuple(match.evidence for match in found), right)


def _of_corpus() -> Iterator[Asked]:
    """Yield what is asked in the corpus by itself, where the answer is known."""
    chosen = [e for e in entries() if not e.family.startswith("unseen_")]
    chosen = [e for e in chosen if not (e.earlier or e.ran or e.says or e.family == "several")]
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(_of_entry, chosen, chunksize=4):
            yield from found


def _of_entry(entry: Entry) -> list[Asked]:
    good = {one.commands for one in asyncio.run(grade(entry)) if one.outcome == "right"} - {()}
    kind = "blind" if entry.blind else "corpus"
    if not good and not entry.unknown:
        return []
    with World(entry.world) as world:
        machine = Machine(entry.system, world.path, world.folder / "home")
        here = WorkspaceFacts(world.root, machine)

        def is_right(match: Match) -> bool:
            way = suggested(match.intent, match.values, here)
            return way is not None and filled(entry, way.commands) in good

        found = [
            replace(
                _judged(kind, ask, WorkspaceFacts(world.root), is_right), meant=not entry.unknown
            )
            for ask in entry.ask
        ]
    found = [one for one in found if not any(e["likeness"] > _VERBATIM for e in one.evidence)]
    return found if entry.unknown or any(any(one.right) for one in found) else []


def _learned(asked: Sequence[Asked]) -> dict[str, float]:
    """Return the weights that make what is right likeliest (AdaGrad)."""
    weights: defaultdict[str, float] = defaultdict(float, {"always": -5.0, "overlay": 5.0})
    squares: defaultdict[str, float] = defaultdict(lambda: 1e-6)
    order = list(asked)
    for turn in range(_ROUNDS):
        random.Random(turn).shuffle(order)
        for one in order:
            slope = _slope(one, weights)
            for name, value in slope.items():
                change = value * _COUNTS[one.kind] - _DECAY * weights[name] * (name != "always")
                squares[name] += change * change
                weights[name] += _STEP * change / math.sqrt(squares[name])
    return dict(weights)


def _powers(asked: Asked, weights: Mapping[str, float]) -> list[float]:
    sums = (
        weights["always"] + sum(weights.get(name, 0.0) * one for name, one in found.items())
        for found in asked.evidence
    )
    return [math.exp(max(-30.0, min(30.0, one))) for one in sums]


def _slope(asked: Asked, weights: Mapping[str, float]) -> dict[str, float]:
    """Return by how much the weights would make what is right likelier."""
    powers = _powers(asked, weights)
    whole = 1 + sum(powers)
    good = sum(power for power, right in zip(powers, asked.right, strict=True) if right)
    slope: defaultdict[str, float] = defaultdict(float)
    for found, power, right in zip(asked.evidence, powers, asked.right, strict=True):
        pull = (power / good if right else 0.0) - power / whole
        slope["always"] += pull
        for name, one in found.items():
            if one:
                slope[name] += pull * one
    return slope


def _report(asked: Iterable[Asked], weights: Mapping[str, float]) -> None:
    counts: defaultdict[tuple[str, float], Counter[str]] = defaultdict(Counter)
    for one in asked:
        powers = _powers(one, weights)
        best = max(range(len(powers)), key=powers.__getitem__, default=None)
        sure = powers[best] / (1 + sum(powers)) if best is not None else 0.0
        right = best is not None and one.right[best]
        for threshold in (0.4, 0.5, 0.6, 0.7, 0.8):
            silent = "silent" if one.meant else "right"
            outcome = silent if sure < threshold else "right" if right else "wrong"
            counts[one.kind, threshold][outcome] += 1
    sys.stdout.write("| asked | threshold | right | silent | wrong |\n|---|---:|---:|---:|---:|\n")
    for (kind, threshold), found in sorted(counts.items()):
        shares = (f"{found[name] / found.total():.1%}" for name in ("right", "silent", "wrong"))
        sys.stdout.write(f"| {kind} | {threshold} | {' | '.join(shares)} |\n")


if __name__ == "__main__":
    main()
