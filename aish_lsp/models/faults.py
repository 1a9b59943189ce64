"""What a server says when it refuses, in its many shapes, made into one error."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from aish_lsp.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.address import origin, without_secrets
from aish_lsp.redaction import mask

Redactor: TypeAlias = Callable[[str], str]

#: Characters of a provider's own words that a message quotes.
QUOTE_LIMIT = 600

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
_TRANSIENT_STATUS = frozenset({408, 425, 429})
_MESSAGE_KEYS = ("message", "error", "detail", "errors", "msg", "error_description", "title")
_DETAIL_KEYS = ("type", "code", "n_prompt_tokens", "n_ctx")
_REFUSAL_WORDS = ("invalid", "authentication", "permission", "not_found", "context_", "tool_use")
_HINTS = {
    401: " Check the key: the model's `api_key_env` or `api_key_command`.",
    403: " Check the key, and whether it may use this model.",
    404: " Check the model's `endpoint` and `model`.",
}


def redactor(headers: Mapping[str, str]) -> Redactor:
    """Return a function that blots out the secrets of ``headers`` in what a server says."""
    secrets = [
        value.removeprefix("Bearer ").strip()
        for name, value in headers.items()
        if _SECRET_HEADER.search(name)
    ]
    secrets = [secret for secret in secrets if len(secret) > 3]

    return lambda text: mask(text, secrets, "***")


def refusal(
    url: str, status: int, headers: Mapping[str, str], body: bytes, redact: Redactor
) -> BackendRejected | BackendUnavailable:
    """Return the error for a response whose status is not 2xx.

    ``data`` holds ``status``, ``provider_message`` and, where they came, ``type``, ``code``,
    ``n_prompt_tokens``, ``n_ctx`` and ``retry_after`` (seconds).
    """
    where = without_secrets(url)
    if 300 <= status < 400:
        target = origin(headers.get("location", ""))
        to = f" to {target}" if target != "://" else ""
        return BackendRejected(
            f"{where} redirects{to} ({status}), and a key is not sent on to another address. "
            "Put the final address into `endpoint`.",
            status=status,
        )
    decoded = _decode(body)
    words = redact(_shorten(_words(decoded) or "")) or "no reason given"
    said = words if words.endswith((".", "!", "?", "…")) else f"{words}."
    data = {"status": status, "provider_message": words, **_details(decoded, redact)}
    if status < 500 and status not in _TRANSIENT_STATUS:
        return BackendRejected(
            f"{where} refused the request ({status}): {said}{_HINTS.get(status, '')}", **data
        )
    message = f"{where} cannot answer now ({status}): {said}"
    retry_after = _retry_after(headers)
    if retry_after is not None:
        data["retry_after"] = retry_after
        message += f" It asks to wait {retry_after:g} s."
    return BackendUnavailable(message, **data)


def error_in_stream(url: str, error: Any, redact: Redactor) -> BackendRejected | BackendUnavailable:
    """Return the error for an ``error`` object within a 200 response."""
    words = redact(_shorten(_words(error) or "")) or "no reason given"
    data: dict[str, Any] = {"provider_message": words, **_details(error, redact)}
    status = _status(error)
    if status is not None:
        data["status"] = status
        rejected = 400 <= status < 500 and status not in _TRANSIENT_STATUS
    else:
        kind = f"{data.get('type', '')} {data.get('code', '')}".lower()
        rejected = any(word in kind for word in _REFUSAL_WORDS)
    message = f"{origin(url)} broke the reply off: {words}"
    return (BackendRejected if rejected else BackendUnavailable)(message, **data)


def quoted(body: bytes) -> str:
    """Return the start of a body that is not what was expected, on one line."""
    return _shorten(_words(_decode(body)) or "", limit=120)


def _decode(body: bytes) -> Any:
    """Return the body's JSON, else its text without HTML tags."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
    if re.match(r"\s*<(!doctype|html|head|body)", text, re.IGNORECASE):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = html.unescape(title[1] if title else re.sub(r"<[^>]*>", " ", text))
        return f"an HTML page ({_shorten(text, limit=120)})"
    return text


def _words(value: Any, depth: int = 6) -> str | None:
    """Return the message in a decoded error of any usual shape, or None."""
    if isinstance(value, str):
        before, inner = _nested(value) if depth else ("", None)
        words = _words(inner, depth - 1) if inner else None
        return f"{before}{words}" if words else value.strip() or None
    if depth == 0:
        return None
    if isinstance(value, list):
        found = (_words(item, depth - 1) for item in value[:3])
        return "; ".join(words for words in found if words) or None
    if not isinstance(value, dict):
        return None
    found = (_words(value.get(key), depth - 1) for key in _MESSAGE_KEYS)
    words = next((words for words in found if words), None)
    location = value.get("loc")
    if words and isinstance(location, list):
        words = f"{'.'.join(map(str, location))}: {words}"
    metadata = value.get("metadata")
    upstream = _words(metadata.get("raw"), depth - 1) if isinstance(metadata, dict) else None
    return f"{words}: {upstream}" if words and upstream else words


def _nested(text: str) -> tuple[str, dict[str, Any] | None]:
    """Return the error object that a proxy put into its words as JSON, and what it says before."""
    before, brace, _ = text.partition("{")
    if not brace:
        return "", None
    try:
        inner, _ = json.JSONDecoder().raw_decode(text, len(before))
    except (ValueError, RecursionError):
        return "", None
    # Other objects than errors are quoted in messages too: a schema, an argument.
    is_error = "error" in inner or ("message" in inner and inner.keys() & {"code", "type"})
    return before.lstrip(), inner if is_error else None


def _details(decoded: Any, redact: Redactor) -> dict[str, Any]:
    """Return the fields of an error object that a program can act on.

    Of an error within an error, the innermost says the most.
    """
    if isinstance(decoded, list):
        decoded = decoded[0] if decoded else None
    if isinstance(decoded, str):
        return _details(_nested(decoded)[1], redact)
    if not isinstance(decoded, dict):
        return {}
    error = decoded["error"] if isinstance(decoded.get("error"), dict) else decoded
    details: dict[str, Any] = {}
    for key in _DETAIL_KEYS:
        value = error.get(key)
        if isinstance(value, str):
            details[key] = redact(value[:200])
        elif isinstance(value, int):
            details[key] = value
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    for said in (error.get("error"), error.get("message"), raw):
        if isinstance(said, str):
            details |= _details(said, redact)
    return details


def _status(error: Any) -> int | None:
    """Return the HTTP status that an error object carries, or None."""
    if not isinstance(error, dict):
        return None
    for key in ("status_code", "code", "status"):
        value = str(error.get(key))
        if re.fullmatch(r"[45]\d\d", value):
            return int(value)
    return None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, or None."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), 86400.0) if seconds == seconds else None  # noqa: PLR0124 - not NaN


def _shorten(text: str, limit: int = QUOTE_LIMIT) -> str:
    """Return ``text`` on one line, cut to ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"
