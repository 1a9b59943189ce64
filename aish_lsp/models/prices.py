"""The price table that ships with the package: what well-known models cost at their own providers.

It was compiled on the day ``AS_OF`` from the providers' price pages and from several public tables
that agreed (readings of August to November 2026). To update it: read the providers' pages, change
the rows of ``prices.txt``, add what is new, drop what is retired, and set ``AS_OF``.

Where one row cannot hold the whole truth, it is on the dear side, so that a cap holds:

- An introductory offer is left out: the row has the price after it (Gemini 3.6 to 3.8 Flash cost
  half until the end of 2026; GPT-5.6 Sol 4 and 20 dollars until 2026-11-21 at least; Mistral Large
  4 half in its first weeks).
- DeepSeek's rows are for its peak hours; at other hours it costs half.
- A moving name (``mistral-large-latest``, ``gemini-flash-latest``) has the price of the dearest
  model that it may have stood for in 2026.
- Cache writes are those that last five minutes; Anthropic asks more for an hour.

Not in it: what has fees beside tokens (searches, images, stored caches), OpenRouter (its replies
tell the cost), Azure and other resellers (their prices are their own).
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aish_lsp.config.schema import Price
from aish_lsp.models.address import host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Preset

#: The date that the table was compiled.
AS_OF: Final = "2026-11-22"

_TABLE: Final = Path(__file__).with_name("prices.txt")

# Where a provider's own protocol goes when the preset names no endpoint.
_HOSTS: Final = {
    "openai-responses": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
}

# The same model at another date. Where a date has another price, it has a row of its own.
_DATE: Final = re.compile(r"-(?:latest|20\d\d-\d\d-\d\d|20\d{6})$")

# What a request can ask for that is priced in another way: a faster lane, a place.
_OTHER_TARIFFS: Final = frozenset({"service_tier", "speed", "inference_geo"})

# The tokens above which a price holds, and the price.
_Tier: TypeAlias = tuple[int, Price]


def price_of(preset: Preset, prompt_tokens: int | None = None) -> Price | None:
    """Return the price in the table, in dollars a million tokens, or None where there is none.

    The table is of hosts and models: a name that it does not have, a gateway, a server of one's
    own, or a tariff that ``extra_body`` asks for are unknown, never guessed.

    Some models cost more where the prompt is long. ``prompt_tokens`` is the whole input, with what
    comes from the cache; without it the price is the dearest.
    """
    if not _OTHER_TARIFFS.isdisjoint(preset.extra_body):
        return None
    named = preset.endpoint.strip()
    server = host(named) if named else _HOSTS.get(preset.provider, "")
    models = _table().get(server, {})
    model = preset.model.strip().lower().removeprefix("models/")
    tiers = models.get(model) or models.get(_DATE.sub("", model))
    if not tiers:
        return None
    fitting = [price for above, price in tiers if prompt_tokens is None or prompt_tokens > above]
    return fitting[-1] if fitting else tiers[0][1]


def _lines() -> list[str]:
    """Return the lines of the table, without its comments."""
    lines = _TABLE.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@cache
def _table() -> dict[str, dict[str, list[_Tier]]]:
    """Return the table by host and model; a model's tiers begin with the one for any prompt."""
    hosts: dict[str, dict[str, list[_Tier]]] = {}
    models: dict[str, list[_Tier]] = {}
    tiers: list[_Tier] = []
    for line in _lines():
        match line.split():
            case [server]:
                models = hosts[server] = {}
            case [">", above, *numbers]:
                tiers.append((int(above), _price(*numbers)))
            case [model, *numbers]:
                tiers = models[model] = [(0, _price(*numbers))]
    return hosts


def _price(input_: str, output: str, cache_read: str, cache_write: str) -> Price:
    return Price(
        input=float(input_),
        output=float(output),
        cache_read=None if cache_read == "-" else float(cache_read),
        cache_write=None if cache_write == "-" else float(cache_write),
    )


# Prices as a server's own list of models tells them: OpenRouter's.
#
# Its ``/models`` has dollars a token, as decimal strings. Other lists look alike and mean dollars
# a million tokens, so no list is believed for its looks.

_HOST: Final = "openrouter.ai"

_MILLION: Final = 1_000_000

#: Digits behind the point that a price keeps: a double's dust goes.
_DIGITS: Final = 9


def lists_prices(endpoint: str) -> bool:
    """Return whether the list of models behind ``endpoint`` is known to hold prices."""
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
    """Return dollars a million tokens, None for what is not a price."""
    try:
        dollars = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    known = math.isfinite(dollars) and dollars >= 0 and not isinstance(value, bool)
    return round(dollars * _MILLION, _DIGITS) if known else None
