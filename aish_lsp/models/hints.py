"""The setting to look at where a server refuses a request: by its status, and by its own words."""

from __future__ import annotations

import re
from typing import Final

_BY_STATUS: Final = {
    401: "Check the key: the model's `api_key_env` or `api_key_command`.",
    402: "Top up the account there, or choose another model.",
    403: "Check the key, and whether it may use this model.",
    404: "Check the model's `endpoint` and `model`.",
    413: "Lower the model's `token_budget`.",
}

# What a refusal names, and the setting that it comes from. What stands above is more telling.
_BY_WORDS: Final = {
    "max_output_tokens": r"max_(?:\w{1,12}_)?tokens|maxOutputTokens",
    "reasoning_effort": r"reasoning|thinking|\beffort\b",
    "temperature": r"temperature",
    "top_p": r"\btop_?p\b",
    "stop": r"stop_?sequences|[`'\"]stop[`'\"]|\bstop:",
    "seed": r"\bseed\b",
    "context_window": r"context (?:length|window|size)|too long|token count",
    "extra_body": r"unrecogni[sz]ed|unknown (?:field|name|parameter)|extra inputs|unexpected",
    "model": r"\bmodel\b",
}

_BAD_KEY: Final = re.compile(
    r"(?:incorrect|invalid|no|missing) api.?key|api.?key not", re.IGNORECASE
)

# What a stream's error calls itself that has no status.
_KINDS: Final = {"authentication": 401, "billing": 402, "permission": 403, "not_found": 404}


def names_bad_key(words: str) -> bool:
    """Tell whether a server says in ``words`` that it does not take the key."""
    return _BAD_KEY.search(words) is not None


def hint(status: int | None, words: str, kind: str = "") -> str:
    """Return a sentence with the setting to look at.

    ``words`` are the server's own. Where there is no ``status``, ``kind`` is what the error calls
    itself.
    """
    if status is None:
        status = next((known for name, known in _KINDS.items() if name in kind), 400)
    if names_bad_key(words):
        status = 401
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    for setting, named in _BY_WORDS.items():
        if re.search(named, words, re.IGNORECASE):
            return f"Check the model's `{setting}`."
    return "Check the model's settings."
