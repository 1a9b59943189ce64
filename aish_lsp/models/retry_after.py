"""How long a server asks to wait before the next request, in each provider's way to say it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds beyond which a server's wish is cut.
LONGEST: Final = 86400.0

_UNITS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d|)")
_IN_WORDS: Final = re.compile(r"try again in (\d[\d.]*(?:ms|s|m|h|d)[\dhms.]*)", re.IGNORECASE)


def retry_after(headers: Mapping[str, str], words: str, delay: str = "") -> float | None:
    """Return the seconds that a server asks to wait, or None where it does not say.

    OpenAI says it in milliseconds, in seconds, as the time until a spent limit is whole again, or
    in the ``words`` of its refusal; Anthropic in seconds, or as that time's date; Google as the
    ``delay`` among its error's details.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    told = (
        _duration(f"{milliseconds}ms"),
        _seconds_or_date(headers.get("retry-after", "").strip()),
        _until_reset(headers),
        _duration(delay),
        in_words(words),
    )
    seconds = next((value for value in told if value is not None), None)
    return None if seconds is None else min(max(seconds, 0.0), LONGEST)


def in_words(words: str) -> float | None:
    """Return the seconds of ``Please try again in 1.2s.``, or None."""
    match = _IN_WORDS.search(words)
    return _duration(match[1].rstrip(".")) if match else None


def _seconds_or_date(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    return seconds if seconds == seconds else None  # noqa: PLR0124 - not NaN


def _until_reset(headers: Mapping[str, str]) -> float | None:
    """Return when the limits that are spent are whole again.

    One that is not spent says nothing: its reset is when all of it is back.
    """
    resets = [
        _duration(headers.get(f"x-ratelimit-reset-{kind}", "").strip())
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}", "").strip() == "0"
    ]
    resets += [
        _seconds_until(headers.get(f"anthropic-ratelimit-{kind}-reset", "").strip())
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
        if headers.get(f"anthropic-ratelimit-{kind}-remaining", "").strip() == "0"
    ]
    return max((reset for reset in resets if reset is not None), default=None)


def _seconds_until(text: str) -> float | None:
    """Return the seconds until ``2030-01-01T00:00:00Z``, or None."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None


def _duration(text: str) -> float | None:
    """Return the seconds of ``6m0s``, ``20ms`` or ``1.5``, or None."""
    if not re.fullmatch(f"(?:{_AMOUNT.pattern})+", text):
        return None
    return sum(float(amount) * _UNITS[unit] for amount, unit in _AMOUNT.findall(text))
