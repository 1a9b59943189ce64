"""Recognizes a server's refusal of a request as too long, and the tokens that it counted.

Few servers say so in fields; most say it in a sentence. The table ``too_long.txt`` contains these
sentences verbatim, with placeholders for their numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.loose_json import as_tokens

if TYPE_CHECKING:
    from aish_lsp.foundation.errors import AishError

#: The ``type`` or ``code`` that servers give a request that is too long.
_CODES: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Groq, Cerebras and many more
        "context_window_exceeded",
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",  # Z.ai
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot
        "request_too_large",  # Anthropic: bytes, not tokens
        "tokens_limit_reached",  # GitHub Models
    }
)

#: Statuses that mean another reason, whatever the message says: key, money, URL, method, rate.
_OTHER_REASONS: Final = frozenset({401, 402, 403, 404, 405, 429})

_TOO_LARGE: Final = 413

#: A limit on tokens per minute is not a limit on the tokens of a request.
_RATE_LIMIT: Final = re.compile(
    r"rate.?limit|per (?:min|hour|day)|\b[TR]P[MD]\b|too many requests|throttl|quota"
    r"|please wait",
    re.IGNORECASE,
)

_SENTENCES: Final = Path(__file__).with_name("too_long.txt")

_SENTENCE: Final = re.compile(r"^  \S.*(?:\n    .*)*", re.MULTILINE)

# A longer number is nonsense; the table's sentences without numbers may still match.
_NUMBER: Final = r"\d[\d,_]{0,15}"

_PLACEHOLDERS: Final = {
    "<prompt>": rf"(?P<prompt>{_NUMBER})",
    "<window>": rf"(?P<window>{_NUMBER})",
    "<reply>": rf"(?P<reply>{_NUMBER})",
    "<total>": rf"(?P<total>{_NUMBER})",
    "<n>": _NUMBER,
    "...": r".{0,120}?",
    " ": r"\s+",
    "'": r"['\u2019]",
}

# A server's own sentence is at the start of the text, or follows punctuation that ends what comes
# before it, or is the value of a field in an error that a proxy quotes.
_FIELD: Final = r"""["'](?:message|error|detail)\\*["']\s*:\s*\\*["']"""
_BEGIN: Final = rf"(?:^|[:;.,>)\]}}-]\s+|{_FIELD})"


@dataclass(frozen=True, slots=True)
class Overflow:
    """What a server counted, in tokens; None if it did not say, or said only "at least".

    ``prompt_tokens`` is the request's input, without the reply that some servers include.
    ``window`` is the limit that the server reported, with or without room for the reply.
    """

    prompt_tokens: int | None = None
    window: int | None = None


def overflow_of(error: AishError) -> Overflow | None:
    """Return what the error of a model call says about the context's length, or None.

    None if the call failed for another reason, or if the reply's limit alone fills the window: no
    shorter input helps then.
    """
    data = error.data
    if (
        not isinstance(error, BackendRejected | BackendUnavailable)
        or "provider_message" not in data
    ):
        return None
    status, words = data.get("status"), str(data["provider_message"])
    names = {str(data.get(field)).lower() for field in ("type", "code")}
    if status in _OTHER_REASONS or any(_RATE_LIMIT.search(text) for text in (words, *names)):
        return None
    numbers = _numbers_in(words)
    if numbers is None and status != _TOO_LARGE and not names & _CODES:
        return None
    numbers = numbers or {}
    window = as_tokens(data.get("n_ctx")) or as_tokens(numbers.get("window"))
    reply, total = numbers.get("reply"), numbers.get("total")
    if reply is not None and window is not None and reply >= window:
        return None
    prompt = as_tokens(data.get("n_prompt_tokens")) or as_tokens(numbers.get("prompt"))
    if prompt is None and reply is not None and total is not None:
        prompt = as_tokens(total - reply)
    return Overflow(prompt, window)


def _numbers_in(words: str) -> dict[str, int] | None:
    """Return the numbers in the first of the table's sentences that ``words`` contain, or None."""
    for pattern in _patterns():
        match = pattern.search(words)
        if match and not _is_quoted(words[: match.start("sentence")]):
            numbers = match.groupdict()
            del numbers["sentence"]
            return {name: int(re.sub("[,_]", "", number)) for name, number in numbers.items()}
    return None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return the table's sentences as patterns. Compiling takes 0.1 s, at the first refusal."""
    placeholders = re.compile("|".join(map(re.escape, _PLACEHOLDERS)))

    def pattern(sentence: str) -> re.Pattern[str]:
        literals = map(re.escape, placeholders.split(sentence))
        found = [_PLACEHOLDERS[name] for name in placeholders.findall(sentence)]
        body = "".join(a + b for a, b in zip(literals, [*found, ""], strict=True))
        return re.compile(f"{_BEGIN}(?P<sentence>{body})", re.IGNORECASE)

    table = _SENTENCES.read_text("utf-8")
    return tuple(pattern(" ".join(lines.split())) for lines in _SENTENCE.findall(table))


def _is_quoted(before: str) -> bool:
    """Return whether what follows ``before`` is quoted: it is then the user's text.

    The value of an error's field counts as the server's own words.
    """
    rest = re.split(_FIELD, before)[-1]
    opened = len(re.findall(r"(?<!\w)'", rest)) > len(re.findall(r"'(?!\w)", rest))
    curly = rest.rfind("\u201c") > rest.rfind("\u201d")
    return opened or curly or any(rest.count(mark) % 2 for mark in '"`')
