"""What is done about an error of a call before any of its reply has arrived, and how often."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable
from aish_lsp.models.refusals import is_quoted, may_be_about_request, overflow_of
from aish_lsp.models.request import WithoutPart

if TYPE_CHECKING:
    from collections.abc import Callable

#: How many times a request is retried; only once if the connection is refused.
RETRIES: Final = 2

#: The same for what a server does not say itself.
_RETRIES: Final = {"broken": RETRIES, "refused": 1, "gave up": 1}

#: The longest first pause, in seconds; each later pause is twice as long.
_FIRST_PAUSE: Final = 1.0

#: Statuses for which a retry is useless: not implemented, HTTP version.
_PERMANENT: Final = frozenset({501, 505})

#: The type or code for an exhausted account at OpenAI and similar servers; the status is 429.
_NO_CREDIT: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

#: How servers say that they, or their model, do not support tools: Ollama, OpenRouter, llama.cpp
#: without templates or with a grammar (it makes one of the tools' schemas), vLLM without a parser,
#: Google for Gemma.
_REFUSES_TOOLS: Final = re.compile(
    r"(?:not|n't|no \w+ found that) support\b[^.\n]{0,40}\b(?:tool|function call)"
    r"|\b(?:tools?|function call\w*)\b(?! with \w+_)[^.\n]{0,60}"
    r"(?:\bnot (?:be )?(?:supported|enabled|available|allowed)|\bunsupported|\brequires? --)"
    r"|\bunsupported\b[^.\n]{0,40}\b(?:tool|function call)"
    r"|\btool choice requires --|\bgrammar constraints with tools\b"
    r"|\bfailed to (?:parse|compile|initialize)\b[^.\n]{0,30}\bgrammar\b",
    re.IGNORECASE,
)

Way: TypeAlias = Literal[
    "other tools", "without tools", "another form", "less", "again", "another model"
]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A way to go on after an error, for the errors that it helps against.

    ``times`` is how often it is tried with one model. A remedy that turns out not to help leaves
    the error to the next one.
    """

    way: Way
    helps: Callable[[AishError], bool]
    times: int


def refuses_tools(error: AishError) -> bool:
    """Return whether a server says that it, or its model, does not support tools at all."""
    words = str(error.data.get("provider_message", ""))
    matches = _REFUSES_TOOLS.finditer(words)
    # If both ends are within a quotation, these are the words of the question.
    return any(
        not (is_quoted(words[: match.start()]) and is_quoted(words[: match.end()]))
        for match in matches
    )


#: In this order.
POLICY: Final = (
    Remedy("other tools", may_be_about_request, 24),
    Remedy("another form", lambda error: isinstance(error, WithoutPart), 40),
    Remedy("without tools", refuses_tools, 1),
    Remedy("less", lambda error: overflow_of(error) is not None, 1),
    Remedy("again", lambda error: pause_before(error, 0) is not None, RETRIES),
    Remedy("another model", lambda _error: True, 100),
)


def pause_before(error: AishError, attempt: int) -> float | None:
    """Return the seconds to wait before a retry, partly random; None if there is to be no retry.

    There is none if ``attempt`` (from 0) was the last, or if a retry would be useless.
    """
    data = error.data
    permanent = (
        data.get("status") in _PERMANENT or {data.get("type"), data.get("code")} & _NO_CREDIT
    )
    if not isinstance(error, BackendUnavailable) or permanent or overflow_of(error) is not None:
        return None
    retries = RETRIES if "provider_message" in data else _RETRIES.get(data.get("reason", ""), 0)
    if attempt >= retries:
        return None
    # Random, so that clients that were refused at the same time do not retry at the same time.
    pause = _FIRST_PAUSE * 2.0**attempt * random.uniform(0.5, 1)  # noqa: S311 - no secret
    wanted: float | None = data.get("retry_after")
    return pause if wanted is None else max(pause, wanted + random.uniform(0, 0.25))  # noqa: S311
