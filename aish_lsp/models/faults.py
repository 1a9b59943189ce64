"""Turns servers' errors, in their many shapes, into AishErrors with a hint.

Also reads how long a server asks to wait before the next request, in each provider's notation.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urljoin

from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.foundation.masking import Mask
from aish_lsp.models.address import is_secret_header, origin, without_secrets
from aish_lsp.models.loose_json import as_dict, as_list

Redactor: TypeAlias = Callable[[str], str]

#: Characters to quote of a provider's own message.
QUOTE_LIMIT = 600

#: Google's reason for refusing an invalid key; the status is 400.
BAD_GOOGLE_KEY = "API_KEY_INVALID"

#: The type of an error if a provider's filter blocked the question or the reply.
BLOCKED = "blocked"

_TOO_MANY = 429
_TRANSIENT_STATUS = frozenset({408, 425, 429})
_MESSAGE_KEYS = ("message", "error", "detail", "errors", "msg", "error_description", "title")
_DETAIL_KEYS = ("type", "code", "param", "n_prompt_tokens", "n_ctx")


@cache
def _hints() -> dict[str, Any]:
    """Return the table of hints: what the user should check if a server refuses a request."""
    return tomllib.loads(Path(__file__).with_name("hints.toml").read_text("utf-8"))


def redactor(headers: Mapping[str, str]) -> Redactor:
    """Return a function that masks the secrets of ``headers`` in a server's message."""
    mask = Mask(
        secret
        for name, value in headers.items()
        if is_secret_header(name)
        for secret in _credentials(value)
        if len(secret) > 3
    )
    return lambda text: mask.parts(text, "***")


def _credentials(value: str) -> Iterator[str]:
    """Yield the secret parts of a header's value, without the name of the scheme."""
    scheme, space, credentials = value.strip().partition(" ")
    yield credentials.strip() if space else scheme
    if scheme.lower() == "basic":
        with suppress(ValueError):
            yield base64.b64decode(credentials).decode("utf-8", "replace").partition(":")[2]


def refusal(
    url: str, status: int, headers: Mapping[str, str], body: bytes, redact: Redactor
) -> BackendRejected | BackendUnavailable:
    """Return the error for a response whose status is not 2xx.

    Its ``data`` contains ``status``, ``provider_message`` and, if the server sent them, ``type``,
    ``code``, ``n_prompt_tokens``, ``n_ctx`` and ``retry_after`` (seconds).
    """
    where = without_secrets(url)
    if 300 <= status < 400:
        target = _redirect_target(url, headers.get("location", ""))
        to = f" to {target}" if target else ""
        return BackendRejected(
            f"{where} redirects{to} ({status}), and a key is not sent on to another address. "
            "Put the final address into `endpoint`.",
            status=status,
        )
    decoded = _decode(body)
    words = _quote(decoded, redact)
    sentence = _sentence(words)
    data = {"status": status, "provider_message": words, **_details(decoded, redact)}
    if _google_detail(decoded, "reason") == BAD_GOOGLE_KEY:
        data["type"] = BAD_GOOGLE_KEY
    if status < 500 and status not in _TRANSIENT_STATUS:
        look = hint(401 if is_bad_key(data) and status == 400 else status, words)
        return BackendRejected(f"{where} refused the request ({status}): {sentence} {look}", **data)
    message = f"{where} cannot answer now ({status}): {sentence}"
    seconds = _wait(headers, decoded, words, limited=status == _TOO_MANY)
    if seconds is not None:
        data["retry_after"] = seconds
        message += f" Try again in {seconds:g} s."
    return BackendUnavailable(message, **data)


def _redirect_target(url: str, location: str) -> str:
    """Return the origin that ``url`` redirects to; empty if it is the same one or malformed."""
    try:
        target = origin(urljoin(url, location))
    except ValueError:
        return ""
    return "" if target == origin(url) else target


def is_bad_key(data: Mapping[str, Any]) -> bool:
    """Return whether an error's ``data`` says that the server did not accept the key."""
    return (
        data.get("status") in {401, 403}
        or data.get("type") == BAD_GOOGLE_KEY
        or names_bad_key(str(data.get("provider_message")))
    )


def error_in_stream(url: str, error: Any, redact: Redactor) -> BackendRejected | BackendUnavailable:
    """Return the error for an ``error`` object in the stream of a 200 response."""
    words = _quote(error, redact)
    data: dict[str, Any] = {"provider_message": words, **_details(error, redact)}
    status = _status(error)
    kind = f"{data.get('type', '')} {data.get('code', '')}".lower()
    if status is not None:
        data["status"] = status
        rejected = 400 <= status < 500 and status not in _TRANSIENT_STATUS
    else:
        rejected = any(word in kind for word in _hints()["refusals"])
    message = f"{origin(url)} broke off the reply: {_sentence(words)}"
    if rejected:
        # No setting helps against a filter.
        look = "" if data.get("type") == BLOCKED else f" {hint(status, words, kind)}"
        return BackendRejected(f"{message}{look}", **data)
    message += " Ask again."
    seconds = _wait({}, {"error": error}, words, limited=status == _TOO_MANY)
    if seconds is not None:
        data["retry_after"] = seconds
    return BackendUnavailable(message, **data)


def _quote(error: Any, redact: Redactor) -> str:
    """Return a provider's own message on one line, with secrets masked."""
    return _shorten(redact(_words(error) or "")) or "no reason given"


def quoted(body: bytes) -> str:
    """Return the start of an unexpected body on one line."""
    return _shorten(_words(_decode(body)) or "", limit=120)


def _decode(body: bytes) -> Any:
    """Return the decoded JSON of a body, or else its text without HTML tags."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
    if re.match(r"\s*<(!doctype|html|head|body)", text, re.IGNORECASE):
        # No pattern crosses the next tag: on a page of unclosed tags that would take seconds.
        title = re.search(r"<title[^<>]*>([^<]*)</title>", text, re.IGNORECASE)
        text = html.unescape(title[1] if title else re.sub(r"<[^<>]*>", " ", text))
        return f"an HTML page ({_shorten(text, limit=120)})"
    return text


def _words(value: Any, depth: int = 6) -> str | None:
    """Return the message of a decoded error of any usual shape, or None."""
    if isinstance(value, str):
        before, inner = _nested(value) if depth else ("", None)
        words = _words(inner, depth - 1) if inner else None
        return f"{before}{words}" if words else value.strip() or None
    if depth == 0:
        return None
    if isinstance(value, list):
        parts = (_words(item, depth - 1) for item in value[:3])
        return "; ".join(words for words in parts if words) or None
    if not isinstance(value, dict):
        return None
    parts = (_words(value.get(key), depth - 1) for key in _MESSAGE_KEYS)
    words = next((words for words in parts if words), None)
    if words is None:
        # Some proxies put the provider's error into a field of another name.
        parts = (_words(one, depth - 1) for one in value.values() if isinstance(one, dict))
        words = next((words for words in parts if words), None)
    location = value.get("loc")
    if words and isinstance(location, list):
        words = f"{'.'.join(map(str, location))}: {words}"
    upstream = _words(as_dict(value.get("metadata")).get("raw"), depth - 1)
    return f"{words}: {upstream}" if words and upstream else words


def _nested(text: str) -> tuple[str, dict[str, Any] | None]:
    """Return what precedes the JSON error object that a proxy quotes, and the object or None."""
    before, brace, _ = text.partition("{")
    if not brace:
        return "", None
    try:
        inner, _ = json.JSONDecoder().raw_decode(text, len(before))
    except (ValueError, RecursionError):
        return "", None
    # Messages also quote objects that are not errors: a schema, an argument.
    is_error = "error" in inner or ("message" in inner and inner.keys() & {"code", "type"})
    return before.lstrip(), inner if is_error else None


def _details(body: Any, redact: Redactor) -> dict[str, Any]:
    """Return the fields of an error that a program can act on.

    The innermost of nested errors takes precedence: it says the most.
    """
    body = _first(body)
    if isinstance(body, str):
        return _details(_nested(body)[1], redact)
    body = as_dict(body)
    error = as_dict(body.get("error")) or body
    details: dict[str, Any] = {}
    for key in _DETAIL_KEYS:
        value = error.get(key)
        if isinstance(value, str):
            details[key] = redact(value)[:200]
        elif isinstance(value, int):
            details[key] = value
    raw = as_dict(error.get("metadata")).get("raw")
    for text in (error.get("error"), error.get("message"), raw):
        if isinstance(text, str):
            details |= _details(text, redact)
    return details


def _status(error: Any) -> int | None:
    """Return the HTTP status in an error object, or None."""
    if not isinstance(error, dict):
        return None
    for key in ("status_code", "code", "status"):
        value = str(error.get(key))
        if re.fullmatch(r"[45]\d\d", value):
            return int(value)
    return None


def _google_detail(body: Any, name: str) -> str | None:
    """Return the string field ``name`` of the first of Google's error details that has it."""
    error = as_dict(as_dict(_first(body)).get("error"))
    values = (as_dict(detail).get(name) for detail in as_list(error.get("details")))
    return next((value for value in values if isinstance(value, str)), None)


def _first(body: Any) -> Any:
    """Return the first of a list of errors, or ``body`` itself if it is not a list."""
    return next(iter(body), None) if isinstance(body, list) else body


def _wait(headers: Mapping[str, str], body: Any, words: str, *, limited: bool) -> float | None:
    """Return the seconds that a server asks to wait, in headers, body or message, or None.

    OpenRouter repeats headers in an error's metadata.
    """
    metadata = as_dict(as_dict(as_dict(body).get("error")).get("metadata"))
    both = {**headers, **as_dict(metadata.get("headers"))}
    all_headers = {name.lower(): str(value) for name, value in both.items()}
    delay = _google_detail(body, "retryDelay") or ""
    return retry_after(all_headers, words, delay, limited=limited)


def _sentence(words: str) -> str:
    """Return ``words``, ending with a full stop unless they already end like a sentence."""
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."


def _shorten(text: str, limit: int = QUOTE_LIMIT) -> str:
    """Return ``text`` on one line, cut to ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


_BAD_KEY: Final = re.compile(
    r"(?:incorrect|invalid|no|missing) api.?key|api.?key not", re.IGNORECASE
)


def names_bad_key(words: str) -> bool:
    """Return whether ``words`` say that the server does not accept the key."""
    return _BAD_KEY.search(words) is not None


def hint(status: int | None, words: str, kind: str = "") -> str:
    """Return a sentence that says which setting to check.

    ``words`` are the server's message. ``kind`` is the error's type and code, used if there is no
    ``status``.
    """
    if status is None:
        status = next((text for name, text in _hints()["kinds"].items() if name in kind), 400)
    if names_bad_key(words):
        status = 401
    if by_status := _hints()["status"].get(str(status)):
        return str(by_status)
    for setting, pattern in _hints()["settings"].items():
        if re.search(pattern, words, re.IGNORECASE):
            return f"Check the model's `{setting}`."
    return "Check the model's settings."


#: The most seconds that ``retry_after`` returns.
LONGEST: Final = 86400.0

#: A larger number is a Unix timestamp, in seconds or in milliseconds.
_TIMESTAMP, _TIMESTAMP_MS = 1e9, 1e12

_UNITS: Final = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER: Final = r"\d{1,15}(?:\.\d{1,9})?"
_AMOUNT: Final = rf"({_NUMBER}) ?(ms|milli|s|m|h|d)(?:econds?|seconds?|inutes?|ours?)?(?![a-z])"
# Each amount needs a unit: otherwise digits could be split in exponentially many ways.
_AMOUNTS: Final = rf"(?:{_AMOUNT}){{1,5}}"
_IN_WORDS: Final = re.compile(
    rf"\b(?:try again|retry) (?:in|after) ({_AMOUNTS})(?!\d)", re.IGNORECASE
)


def retry_after(
    headers: Mapping[str, str], words: str, delay: str = "", *, limited: bool = False
) -> float | None:
    """Return the seconds that a server asks to wait, at most ``LONGEST``; None if it does not say.

    OpenAI states milliseconds, seconds, the time until a used-up limit is reset, or a time in the
    ``words`` of its message; Anthropic seconds, or the date of the reset; OpenRouter the reset as a
    timestamp in milliseconds; Google the ``delay`` in its error's details.

    The names of ``headers`` are in lower case. ``limited`` means that some limit is used up, even
    if no header says which.
    """
    in_words = _IN_WORDS.search(words)
    candidates = (
        _seconds(f"{headers.get('retry-after-ms', '').strip()}ms"),
        _seconds(headers.get("retry-after", "")),
        _until_reset(headers, limited=limited),
        _seconds(delay),
        _seconds(in_words[1].lower()) if in_words else None,
    )
    seconds = next((value for value in candidates if value is not None), None)
    return None if seconds is None else min(max(seconds, 0.0), LONGEST)


def _until_reset(headers: Mapping[str, str], *, limited: bool) -> float | None:
    """Return the seconds until all used-up limits are reset.

    The reset of a limit that is not used up is ignored. If some limit must be used up and none is
    reported as such, it is one of those whose remainder is not reported.
    """
    used_up, unknown = [], []
    for reset, left in _limits(headers):
        seconds = _seconds(reset)
        # A date may be in the past; a negative number is nonsense.
        if seconds is None or reset.strip().startswith("-"):
            continue
        if seconds >= _TIMESTAMP and re.fullmatch(_NUMBER, reset.strip()):
            seconds = seconds / (1000 if seconds >= _TIMESTAMP_MS else 1) - time.time()
        if left is None:
            unknown.append(seconds)
        elif re.fullmatch(r"0(\.0*)?", left.strip()):
            used_up.append(seconds)
    return max(used_up or (unknown if limited else ()), default=None)


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield each limit's reset, and its remainder if that is reported.

    The headers are called ``x-ratelimit-reset-tokens``, ``anthropic-ratelimit-tokens-reset``,
    ``ratelimit-reset`` and the like.
    """
    for name, value in headers.items():
        if "ratelimit" in name and "reset" in name:
            yield value, headers.get(name.replace("reset", "remaining"))


def _seconds(text: str) -> float | None:
    """Return the seconds in ``1.5``, ``6m0s`` or ``20 milliseconds``, or until a date; else None.

    A date has the form of HTTP's or of ``2030-01-01T00:00:00Z``.
    """
    text = text.strip()
    with suppress(ValueError):
        seconds = float(text)
        return None if math.isnan(seconds) else seconds
    if re.fullmatch(_AMOUNTS, text):
        amounts = re.findall(_AMOUNT, text)
        return sum(float(number) * _UNITS[unit] for number, unit in amounts)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, OverflowError):
            date = read(text)
            aware = date if date.tzinfo else date.replace(tzinfo=UTC)
            return (aware - datetime.now(UTC)).total_seconds()
    return None
