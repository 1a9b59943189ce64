"""How sure an answer is: a probability, from what speaks for each intent and against it.

It is a multinomial logistic regression over the intents that come into question and "none of them":
what speaks for one is summed with the weights of confidence.toml, which tests/offline/learn.py
learned. So a second intent that is as likely makes the first less sure.
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("confidence.toml")


@cache
def weights() -> dict[str, float]:
    """Return what each kind of evidence counts."""
    known: dict[str, float] = tomllib.loads(_FILE.read_text("utf-8"))["weights"]
    return known


def score(evidence: Mapping[str, float]) -> float:
    """Return what all the evidence for an intent comes to; 0 is as good as none of them."""
    known = weights()
    return known["always"] + sum(known.get(name, 0.0) * one for name, one in evidence.items())


def probabilities(
    evidence: Sequence[Mapping[str, float]], effects: Sequence[Hashable]
) -> list[float]:
    """Return how likely each intent is meant, rather than another one or none.

    Of intents with the same effect, each is as likely as all of them together, less what its own
    part is: the likeliest comes first.
    """
    powers = [math.exp(min(30.0, score(one))) for one in evidence]
    whole = 1.0 + sum(powers)
    together: defaultdict[Hashable, float] = defaultdict(float)
    best: defaultdict[Hashable, float] = defaultdict(float)
    for effect, power in zip(effects, powers, strict=True):
        together[effect] += power
        best[effect] = max(best[effect], power)
    return [
        together[effect] / whole * (power / best[effect])
        for effect, power in zip(effects, powers, strict=True)
    ]
