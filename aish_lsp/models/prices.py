"""Model prices: the table in the package, and the prices in OpenRouter's list of models.

The table (``prices.txt``) has the prices of well-known models at their own providers. It was
compiled on the date ``AS_OF`` from the providers' price pages and from several public tables that
agreed (read from August to November 2026). To update it: read the providers' pages, change the
rows, add new models, remove retired ones, and set ``AS_OF``.

A model whose price varies has the highest one, so that a cost cap holds:

- Introductory offers are ignored: the row has the later price (Gemini 3.6 to 3.8 Flash cost half
  until the end of 2026; GPT-5.6 Sol 4 and 20 dollars until 2026-11-21 at least; Mistral Large 4
  half in its first weeks).
- DeepSeek's rows are for its peak hours; at other hours it costs half.
- An alias (``mistral-large-latest``, ``gemini-flash-latest``) has the price of the most expensive
  model that it may have stood for in 2026.
- Cache writes are those that last five minutes; Anthropic charges more for an hour.

The table does not include models with fees other than for tokens (searches, images, stored
caches), OpenRouter (its replies report the cost), or Azure and other resellers (they set their own
prices).
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

#: The date on which the table was compiled.
AS_OF: Final = "2026-11-22"

_TABLE: Final = Path(__file__).with_name("prices.txt")

# The same model with a date. A dated model with a different price has its own row.
_DATE: Final = re.compile(r"-(?:latest|20\d\d-\d\d-\d\d|20\d{6})$")

# Fields of a request that change its price: a faster tier, a region.
_OTHER_TARIFFS: Final = frozenset({"service_tier", "speed", "inference_geo"})

# The tokens of a prompt above which a price applies, and the price.
_Tier: TypeAlias = tuple[int, Price]


def price_of(preset: Preset, prompt_tokens: int | None = None) -> Price | None:
    """Return the price in the table, in dollars per million tokens, or None if it has none.

    Rows are found by host and model. The price of another model, a gateway, a self-hosted server or
    a tariff that ``extra_body`` asks for is unknown and never guessed.

    Some models cost more if the prompt is long. ``prompt_tokens`` is the whole input, including
    cached input; without it the highest price is returned.
    """
    if not _OTHER_TARIFFS.isdisjoint(preset.extra_body):
        return None
    models = _table().get(host(preset.endpoint.strip()), {})
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
    """Return the table by host and model; a model's first tier applies to any prompt."""
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


# Prices in a server's own list of models: OpenRouter's.
#
# Its ``/models`` has dollars per token, as decimal strings. Other lists look the same but mean
# dollars per million tokens, so only a known host's list is used.

_HOST: Final = "openrouter.ai"

_MILLION: Final = 1_000_000

#: Decimal places of a price: enough to drop floating-point errors.
_DIGITS: Final = 9


def lists_prices(endpoint: str) -> bool:
    """Return whether the server at ``endpoint`` is known to list prices with its models."""
    return host(endpoint) == _HOST


def listed_price(entry: Mapping[str, Any]) -> Price | None:
    """Return the price in a model's ``entry``, in dollars per million tokens, or None.

    Of several prices, by the prompt's length or the time of day, it is the highest, so that a cost
    cap holds. None also for a router (-1), whose price is that of the model it chooses, and for a
    model with a fee per request.
    """
    pricing = entry.get("pricing")
    if not isinstance(pricing, dict) or _rate(pricing.get("request", "0")) != 0:
        return None
    overrides = pricing.get("overrides")
    tariffs = [pricing, *(overrides if isinstance(overrides, list) else ())]

    def highest(*names: str) -> float | None:
        listed_rates = [
            _rate(tariff[name])
            for tariff in tariffs
            if isinstance(tariff, dict)
            for name in names
            if name in tariff
        ]
        rates = [rate for rate in listed_rates if rate is not None]
        return max(rates) if rates and len(rates) == len(listed_rates) else None

    input_, output = highest("prompt"), highest("completion", "internal_reasoning")
    if input_ is None or output is None:
        return None
    return Price(
        input=input_,
        output=output,
        cache_read=highest("input_cache_read"),
        cache_write=highest("input_cache_write"),
    )


def _rate(value: Any) -> float | None:
    """Return dollars per million tokens, or None if ``value`` is not a price."""
    try:
        dollars = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    is_price = math.isfinite(dollars) and dollars >= 0 and not isinstance(value, bool)
    return round(dollars * _MILLION, _DIGITS) if is_price else None
