"""Finding what each feature is worth, and how wrong the result is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from corpus import Sample
from numpy.typing import NDArray

from aish_lsp.context.tokens import PLAIN_FEATURES, SCRIPT_FEATURES, features

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NAMES = PLAIN_FEATURES + SCRIPT_FEATURES

#: What a feature is worth where the texts do not tell, in tokens.
_EXPECTED = {
    "word": 1.0,
    "ten": 1.0,
    "capital": 0.1,
    "cluster": 0.4,
    "number": 1.0,
    "digit": 0.6,
    "mark": 0.25,
    "tail": 0.1,
    "head": 0.7,
    "odd": 0.5,
    "line": 0.7,
    "tab": 0.3,
    "gap": 0.02,
    "accent": 1.5,
    "vietnamese": 0.8,
    "cyrillic": 0.15,
    "cyr. word": 1.3,
    "cyr. capital": 0.5,
    "alphabet": 0.5,
    "alph. word": 0.8,
    "indic": 0.8,
    "han": 0.7,
    "han run": 0.8,
    "kana": 0.65,
    "hangul": 0.85,
    "symbol": 0.8,
    "wide": 0.8,
    "emoji": 2.0,
    "rest": 1.0,
}

#: How much that expectation weighs, in texts all wrong by as much as it is.
_TRUST = 0.3

_DIGITS = 2


@dataclass(frozen=True, slots=True)
class Error:
    """How wrong estimates are, in percent of the real count: on average, and of 20 the worst."""

    mean: float
    p95: float

    def __str__(self) -> str:
        return f"{self.mean:.0f}/{self.p95:.0f}"


def feature_matrix(samples: Sequence[Sample]) -> Matrix:
    """Return the features of each sample, a row each."""
    rows = np.zeros((len(samples), len(NAMES)))
    for row, sample in zip(rows, samples, strict=True):
        counted = features(sample.text)
        row[: len(counted)] = counted
    return rows


def fit(parts: Sequence[tuple[Matrix, Vector, Vector]]) -> Vector:
    """Return the worth of each feature, none below zero, that is least wrong.

    Relative errors are squared: a text of ten tokens weighs as much as one of ten thousand.

    Args:
        parts: the features of some texts, their real counts, and how much each of them weighs.
    """
    expected = np.array([_EXPECTED[name] for name in NAMES])
    trust = np.diag(_TRUST / np.maximum(expected, 0.1))
    left, right = trust @ trust, trust @ trust @ expected
    for rows, counts, weights in parts:
        relative = rows / counts[:, None]
        left += (relative.T * weights) @ relative
        right += relative.T @ weights
    found: Vector = np.round(_nonnegative(left, right), _DIGITS)
    return found


def _nonnegative(left: Matrix, right: Vector, rounds: int = 3000) -> Vector:
    """Return the x >= 0 for which ``x @ left @ x / 2 - right @ x`` is least, one x at a time."""
    solution = np.zeros(len(right))
    for _ in range(rounds):
        for index, slope in enumerate(np.diag(left)):
            gradient = left[index] @ solution - right[index]
            solution[index] = max(0.0, solution[index] - gradient / slope)
    return solution


def estimates(rows: Matrix, worth: Vector) -> Vector:
    """Return what ``count`` estimates for each row."""
    rounded: Vector = np.maximum(1, np.ceil(np.round(rows @ worth, 6)))
    return rounded


def error(estimated: Vector, counts: Vector) -> Error:
    """Return how wrong ``estimated`` is."""
    percent = np.abs(estimated / counts - 1) * 100
    return Error(float(percent.mean()), float(np.percentile(percent, 95)))


def p99(estimated: Vector, counts: Vector) -> float:
    """Return how much of the estimate the real count is above it, in 99 of 100 texts at most.

    Rounded up to a whole percent.
    """
    above = float(np.percentile(counts / estimated - 1, 99))
    return math.ceil(max(above, 0) * 100) / 100
