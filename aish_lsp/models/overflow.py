"""Whether a server says that a request is too long for the model, and what it counted.

Few servers say it in fields; most say it in a sentence. The sentences stand in a table,
``too_long.txt``, as they are said, with marks where their numbers are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable

if TYPE_CHECKING:
    from aish_lsp.foundation.errors import AishError

#: No window and no prompt has more tokens than this; a greater number is nonsense.
_MOST_TOKENS: Final = 10**9

#: What a server's ``type`` or ``code`` says of a request that is too long.
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

#: Statuses that refuse for another reason, whatever the words: key, money, address, method, pace.
_OTHER_REASONS: Final = frozenset({401, 402, 403, 404, 405, 429})

_TOO_LARGE: Final = 413

#: A limit on tokens in a stretch of time is not a limit on tokens in a request.
_PACE: Final = re.compile(
    r"rate.?limit|per (?:min|hour|day)|\b[TR]P[MD]\b|too many requests|throttl|quota"
    r"|please wait",
    re.IGNORECASE,
)

_SENTENCES: Final = Path(__file__).with_name("too_long.txt")

_SENTENCE: Final = re.compile(r"^  \S.*(?:\n    .*)*", re.MULTILINE)

# Longer numbers are nonsense, and the sentence is then taken without its numbers.
_NUMBER: Final = r"\d[\d,_]{0,15}"

_MARKS: Final = {
    "<prompt>": rf"(?P<prompt>{_NUMBER})",
    "<window>": rf"(?P<window>{_NUMBER})",
    "<reply>": rf"(?P<reply>{_NUMBER})",
    "<total>": rf"(?P<total>{_NUMBER})",
    "<n>": _NUMBER,
    "...": r".{0,120}?",
    " ": r"\s+",
    "'": r"['\u2019]",
}

# A server's own sentence begins the text, or follows a mark that ends what stands before it, or is
# the value of a field of an error that a proxy quotes.
_FIELD: Final = r"""["'](?:message|error|detail)\\*["']\s*:\s*\\*["']"""
_BEGIN: Final = rf"(?:^|[:;.,>)\]}}-]\s+|{_FIELD})"


@dataclass(frozen=True, slots=True)
class Overflow:
    """What a server counted, in tokens; None where it did not say, or said only "at least".

    ``prompt_tokens`` is the request's input, without the reply that some servers count in.
    ``window`` is what it said fits: with the reply or without, as the server has it.
    """

    prompt_tokens: int | None = None
    window: int | None = None


def overflow_of(error: AishError) -> Overflow | None:
    """Return what a failed model call says about the context's length, or None.

    None is for every other reason, and for a reply that is asked to be as long as the window:
    that no shorter input can cure.
    """
    data = error.data
    if (
        not isinstance(error, BackendRejected | BackendUnavailable)
        or "provider_message" not in data
    ):
        return None
    status, words = data.get("status"), str(data["provider_message"])
    names = {str(data.get(field)).lower() for field in ("type", "code")}
    if status in _OTHER_REASONS or any(_PACE.search(text) for text in (words, *names)):
        return None
    said = _numbers_in(words)
    if said is None and status != _TOO_LARGE and not names & _CODES:
        return None
    said = said or {}
    window = _tokens(data.get("n_ctx")) or _tokens(said.get("window"))
    reply, total = said.get("reply"), said.get("total")
    if reply is not None and window is not None and reply >= window:
        return None
    prompt = _tokens(data.get("n_prompt_tokens")) or _tokens(said.get("prompt"))
    if prompt is None and reply is not None and total is not None:
        prompt = _tokens(total - reply)
    return Overflow(prompt, window)


def _numbers_in(words: str) -> dict[str, int] | None:
    """Return the numbers of the first sentence of the table in ``words``, or None."""
    for pattern in _patterns():
        match = pattern.search(words)
        if match and not _is_quoted(words[: match.start("sentence")]):
            numbers = match.groupdict()
            del numbers["sentence"]
            return {name: int(re.sub("[,_]", "", number)) for name, number in numbers.items()}
    return None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return the table's sentences as patterns; a tenth of a second, at the first refusal."""
    marks = re.compile("|".join(map(re.escape, _MARKS)))

    def pattern(sentence: str) -> re.Pattern[str]:
        literals = map(re.escape, marks.split(sentence))
        found = [_MARKS[mark] for mark in marks.findall(sentence)]
        body = "".join(a + b for a, b in zip(literals, [*found, ""], strict=True))
        return re.compile(f"{_BEGIN}(?P<sentence>{body})", re.IGNORECASE)

    said = _SENTENCES.read_text("utf-8")
    return tuple(pattern(" ".join(lines.split())) for lines in _SENTENCE.findall(said))


def _is_quoted(before: str) -> bool:
    """Return whether what follows ``before`` is quoted: then it is the user's, not the server's.

    The value of an error's field is the server's own.
    """
    rest = re.split(_FIELD, before)[-1]
    opened = len(re.findall(r"(?<!\w)'", rest)) > len(re.findall(r"'(?!\w)", rest))
    curly = rest.rfind("\u201c") > rest.rfind("\u201d")
    return opened or curly or any(rest.count(mark) % 2 for mark in '"`')


def _tokens(value: Any) -> int | None:
    """Return a number of tokens, or None where it is none."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value <= _MOST_TOKENS else None
