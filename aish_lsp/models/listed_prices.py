"""Prices as a server's own list of models tells them: OpenRouter's.

Its ``/models`` has dollars a token, as decimal strings. Other lists look alike and mean dollars a
million tokens, so no list is believed for its looks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.config.schema import Price
from aish_lsp.models.address import host

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOST: Final = "openrouter.ai"

_MILLION: Final = 1_000_000

#: Digits behind the point that a price keeps: a double's dust goes.
_DIGITS: Final = 9


def lists_prices(endpoint: str) -> bool:
    """Tell whether the list of models behind ``endpoint`` is known to hold prices."""
    return host(endpoint) == _HOST


def listed_price(entry: Mapping[str, Any]) -> Price | None:
    """Return the price of a model in dollars a million tokens, None where the list has none.

    Where it has several, by the prompt's length or the time of the day, it is the dearest, so that
    a cap holds. None too for a router, whose price is that of the model it chooses (-1), and for
    what has a fee for each request.
    """
    pricing = entry.get("pricing")
    if not isinstance(pricing, dict) or _rate(pricing.get("request", "0")) != 0:
        return None
    overrides = pricing.get("overrides")
    tariffs = [pricing, *(overrides if isinstance(overrides, list) else ())]

    def dearest(*names: str) -> float | None:
        given = [
            _rate(tariff[name])
            for tariff in tariffs
            if isinstance(tariff, dict)
            for name in names
            if name in tariff
        ]
        rates = [rate for rate in given if rate is not None]
        return max(rates) if rates and len(rates) == len(given) else None

    input_, output = dearest("prompt"), dearest("completion", "internal_reasoning")
    if input_ is None or output is None:
        return None
    return Price(
        input=input_,
        output=output,
        cache_read=dearest("input_cache_read"),
        cache_write=dearest("input_cache_write"),
    )


def _rate(value: Any) -> float | None:
    """Return dollars a million tokens, None for what is no price."""
    try:
        dollars = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    known = math.isfinite(dollars) and dollars >= 0 and not isinstance(value, bool)
    return round(dollars * _MILLION, _DIGITS) if known else None
