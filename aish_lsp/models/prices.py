"""The price table that ships with the package: what well-known models cost at their own providers.

It was compiled on the day ``AS_OF`` from the providers' price pages and from several public tables
that agreed (readings of August to November 2026). To update it: read the providers' pages, change
the rows, add what is new, drop what is retired, and set ``AS_OF``.

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
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aish_lsp.config.schema import Price
from aish_lsp.models.address import host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Preset

#: The date that the table was compiled.
AS_OF: Final = "2026-11-22"

# Dollars a million tokens. A line without a number names the host. A row has the model's name, then
# input, output, cache read, cache write; - is as input. A row that begins with > has the prices of
# the whole request where its input has more tokens than that.
_TABLE: Final = """
api.openai.com
  gpt-6-astra                       10.00   50.00    1.00   12.50
    > 272_000                       20.00   75.00    2.00   25.00
  gpt-6.1-sol                        2.00   10.00    0.10    2.50
    > 272_000                        4.00   15.00    0.20    5.00
  gpt-6.1-terra                      1.00    5.00    0.05    1.25
    > 272_000                        2.00    7.50    0.10    2.50
  gpt-6-sol                          2.00   10.00    0.20    2.50
    > 272_000                        4.00   15.00    0.40    5.00
  gpt-6-luna                         0.10    0.50    0.01    0.125
    > 272_000                        0.20    0.75    0.02    0.25
  gpt-5.6                            5.00   30.00    0.50    6.25
    > 272_000                       10.00   45.00    1.00   12.50
  gpt-5.6-sol                        5.00   30.00    0.50    6.25
    > 272_000                       10.00   45.00    1.00   12.50
  gpt-5.6-terra                      2.00   12.00    0.20    2.50
    > 272_000                        4.00   18.00    0.40    5.00
  gpt-5.6-luna                       0.20    1.20    0.02    0.25
    > 272_000                        0.40    1.80    0.04    0.50
  gpt-5.5                            5.00   30.00    0.50    -
    > 272_000                       10.00   45.00    1.00    -
  gpt-5.5-pro                       30.00  180.00    -       -
    > 272_000                       60.00  270.00    -       -
  gpt-5.4                            2.50   15.00    0.25    -
    > 272_000                        5.00   22.50    0.50    -
  gpt-5.4-mini                       0.75    4.50    0.075   -
  gpt-5.4-nano                       0.20    1.25    0.02    -
  gpt-5.4-pro                       30.00  180.00    -       -
    > 272_000                       60.00  270.00    -       -
  gpt-5.3-codex                      1.75   14.00    0.175   -
  gpt-5.2                            1.75   14.00    0.175   -
  gpt-5.2-codex                      1.75   14.00    0.175   -
  gpt-5.1                            1.25   10.00    0.125   -
  gpt-5.1-codex                      1.25   10.00    0.125   -
  gpt-5.1-codex-max                  1.25   10.00    0.125   -
  gpt-5.1-codex-mini                 0.25    2.00    0.025   -
  gpt-5                              1.25   10.00    0.125   -
  gpt-5-codex                        1.25   10.00    0.125   -
  gpt-5-mini                         0.25    2.00    0.025   -
  gpt-5-nano                         0.05    0.40    0.005   -
  gpt-5-pro                         15.00  120.00    -       -
  gpt-4.1                            2.00    8.00    0.50    -
  gpt-4.1-mini                       0.40    1.60    0.10    -
  gpt-4.1-nano                       0.10    0.40    0.025   -
  gpt-4o                             2.50   10.00    1.25    -
  gpt-4o-2024-05-13                  5.00   15.00    -       -
  gpt-4o-mini                        0.15    0.60    0.075   -
  o3                                 2.00    8.00    0.50    -
  o3-pro                            20.00   80.00    -       -
  o3-mini                            1.10    4.40    0.55    -
  o4-mini                            1.10    4.40    0.275   -

api.anthropic.com
  claude-fable-5-1                  10.00   50.00    0.25   12.50
  claude-fable-5                    10.00   50.00    1.00   12.50
  claude-opus-5-5                    4.00   20.00    0.20    5.00
  claude-opus-5                      5.00   25.00    0.50    6.25
  claude-opus-4-8                    5.00   25.00    0.50    6.25
  claude-opus-4-7                    5.00   25.00    0.50    6.25
  claude-opus-4-6                    5.00   25.00    0.50    6.25
  claude-opus-4-5                    5.00   25.00    0.50    6.25
  claude-sonnet-5-5                  2.00   10.00    0.10    2.50
  claude-sonnet-5                    2.00   10.00    0.20    2.50
  claude-sonnet-4-6                  3.00   15.00    0.30    3.75
  claude-sonnet-4-5                  3.00   15.00    0.30    3.75
    > 200_000                        6.00   22.50    0.60    7.50
  claude-haiku-5-5                   0.10    0.50    0.01    0.125
    > 100_000                        0.50    2.50    0.05    0.625
  claude-haiku-4-5                   1.00    5.00    0.10    1.25

generativelanguage.googleapis.com
  gemini-flash-latest                1.50    9.00    0.15    -
  gemini-flash-lite-latest           0.30    2.50    0.03    -
  gemini-3.8-flash                   1.50    7.50    0.15    -
  gemini-3.7-flash                   1.50    7.50    0.15    -
  gemini-3.6-flash                   1.50    7.50    0.15    -
  gemini-3.5-flash                   1.50    9.00    0.15    -
  gemini-3.5-flash-lite              0.30    2.50    0.03    -
  gemini-3.1-pro-preview             2.00   12.00    0.20    -
    > 200_000                        4.00   18.00    0.40    -
  gemini-3.1-flash-lite              0.25    1.50    0.025   -
  gemini-3-flash-preview             0.50    3.00    0.05    -
  gemini-2.5-pro                     1.25   10.00    0.125   -
    > 200_000                        2.50   15.00    0.25    -
  gemini-2.5-flash                   0.30    2.50    0.03    -
  gemini-2.5-flash-lite              0.10    0.40    0.01    -

api.deepseek.com
  deepseek-flash                     0.30    1.20    0.006   -
  deepseek-v4-flash                  0.30    1.20    0.006   -
  deepseek-v4-pro                    1.32    3.96    0.044   -

api.mistral.ai
  mistral-large                      1.36    4.18    -       -
  mistral-large-4                    1.36    4.18    -       -
  mistral-large-2512                 0.50    1.50    -       -
  mistral-medium                     1.50    7.50    -       -
  mistral-medium-3-5                 1.50    7.50    -       -
  mistral-medium-2604                1.50    7.50    -       -
  mistral-small                      0.15    0.60    -       -
  mistral-small-2603                 0.15    0.60    -       -
  codestral                          0.30    0.90    -       -
  codestral-2508                     0.30    0.90    -       -
  devstral                           0.40    2.00    -       -
  devstral-2512                      0.40    2.00    -       -
  magistral-medium                   2.00    5.00    -       -

api.x.ai
  grok-4.7                           2.00    6.00    0.50    -
    > 200_000                        4.00   12.00    1.00    -
  grok-4.6                           2.00    6.00    0.50    -
    > 200_000                        4.00   12.00    1.00    -
  grok-4.5                           2.00    6.00    0.50    -
    > 200_000                        4.00   12.00    1.00    -
  grok-4.3                           1.25    2.50    0.20    -
    > 200_000                        2.50    5.00    0.40    -
  grok-build-0.1                     1.00    2.00    0.20    -
    > 200_000                        2.00    4.00    0.40    -

api.groq.com
  openai/gpt-oss-120b                0.15    0.60    0.075   -
  openai/gpt-oss-20b                 0.075   0.30    0.0375  -
  llama-3.3-70b-versatile            0.59    0.79    -       -
  llama-3.1-8b-instant               0.05    0.08    -       -
  qwen/qwen3-32b                     0.29    0.59    -       -

api.moonshot.ai
  kimi-k3                            3.00   15.00    0.30    -
  kimi-k2.7-code                     0.95    4.00    0.19    -
  kimi-k2.6                          0.95    4.00    0.16    -
"""

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


@cache
def _table() -> dict[str, dict[str, list[_Tier]]]:
    """Return the table by host and model; a model's tiers begin with the one for any prompt."""
    hosts: dict[str, dict[str, list[_Tier]]] = {}
    models: dict[str, list[_Tier]] = {}
    tiers: list[_Tier] = []
    for line in _TABLE.splitlines():
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
