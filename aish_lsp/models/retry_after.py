"""How long a server asks to wait before the next request, in each provider's way to say it."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Seconds beyond which a server's wish is cut.
LONGEST: Final = 86400.0

#: A number of seconds, or of milliseconds, that can only be a moment since 1970.
_MOMENT, _MOMENT_MS = 1e9, 1e12

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER: Final = r"\d{1,15}(?:\.\d{1,9})?"
_AMOUNT: Final = re.compile(rf"({_NUMBER})(ms|s|m|h|d)")
# Each amount but a lone one has a unit: digits could else be split in more ways than there is time.
_AMOUNTS: Final = re.compile(rf"(?:{_NUMBER}(?:ms|s|m|h|d)){{1,5}}")
_IN_WORDS: Final = re.compile(
    r"\b(?:try again|retry) (?:in|after) (?:"
    rf"({_AMOUNTS.pattern})(?![a-z\d])|({_NUMBER}) ?(milli|second|minute|hour))",
    re.IGNORECASE,
)
_NAMED_UNITS: Final = {"milli": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}


def retry_after(
    headers: Mapping[str, str], words: str, delay: str = "", *, limited: bool = False
) -> float | None:
    """Return the seconds that a server asks to wait, or None where it does not say.

    OpenAI says it in milliseconds, in seconds, as the time until a spent limit is whole again, or
    in the ``words`` of its refusal; Anthropic in seconds, or as that time's date; OpenRouter as
    that time in milliseconds since 1970; Google as the ``delay`` among its error's details.

    The names of ``headers`` are in small letters. ``limited`` tells that a limit is spent, also
    where no header says which.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    told = (
        _duration(f"{milliseconds}ms"),
        _seconds_or_date(headers.get("retry-after", "").strip()),
        _until_reset(headers, limited=limited),
        _duration(delay),
        in_words(words),
    )
    seconds = next((value for value in told if value is not None), None)
    return None if seconds is None else min(max(seconds, 0.0), LONGEST)


def in_words(words: str) -> float | None:
    """Return the seconds of ``Please try again in 1.2s.``, or None."""
    match = _IN_WORDS.search(words)
    if match is None:
        return None
    if match[1]:
        return _duration(match[1].lower())
    return float(match[2]) * _NAMED_UNITS[match[3].lower()]


def _seconds_or_date(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        duration = _duration(text)
        return _until_http_date(text) if duration is None else duration
    return seconds if seconds == seconds else None  # noqa: PLR0124 - not NaN


def _until_http_date(text: str) -> float | None:
    try:
        return _until(parsedate_to_datetime(text))
    except (ValueError, OverflowError):
        return None


def _until_reset(headers: Mapping[str, str], *, limited: bool) -> float | None:
    """Return when the limits that are spent are whole again.

    One that is not spent says nothing: its reset is when all of it is back. Where none is said to
    be spent and one must be, it is one of those of which nothing is said.
    """
    spent, unknown = [], []
    for reset, left in _limits(headers):
        seconds = _until_moment(reset.strip())
        if seconds is None:
            continue
        if left is None:
            unknown.append(seconds)
        elif re.fullmatch(r"0(\.0*)?", left.strip()):
            spent.append(seconds)
    return max(spent or (unknown if limited else ()), default=None)


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield of each limit when it is whole again, and what is left of it if that is told.

    They are called ``x-ratelimit-reset-tokens``, ``anthropic-ratelimit-tokens-reset``,
    ``ratelimit-reset`` and the like.
    """
    for name, value in headers.items():
        if "ratelimit" in name and "reset" in name:
            yield value, headers.get(name.replace("reset", "remaining"))


def _until_moment(text: str) -> float | None:
    """Return the seconds until ``2030-01-01T00:00:00Z``, or of ``6m0s``, or None."""
    seconds = _duration(text)
    if seconds is not None:
        if seconds >= _MOMENT:
            seconds = seconds / (1000 if seconds >= _MOMENT_MS else 1) - time.time()
        return seconds
    try:
        return _until(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def _until(moment: datetime) -> float:
    """Return the seconds until ``moment``, which is in UTC where it does not say otherwise."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds()


def _duration(text: str) -> float | None:
    """Return the seconds of ``6m0s``, ``20ms`` or ``1.5``, or None."""
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if not _AMOUNTS.fullmatch(text):
        return None
    return sum(float(amount) * _UNITS[unit] for amount, unit in _AMOUNT.findall(text))
