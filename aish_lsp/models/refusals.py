"""What a server's refusal of a request says: it is too long, or names what should be different.

Only names count, never loose words: errors also echo the prompt.

Few servers say in fields that a request is too long; most say it in a sentence. The table
``too_long.txt`` contains these sentences verbatim, with placeholders for their numbers; a sentence
that is not in it is compared with our own count (``told_too_long``).
"""

from __future__ import annotations

import itertools
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.loose_json import Json, as_dict, as_tokens

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from aish_lsp.foundation.errors import AishError

_LLAMA_CPP: Final = "exceed_context_size_error"

#: The ``type`` or ``code`` that servers give a request that is too long.
_CODES: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Groq, Cerebras and many more
        "context_window_exceeded",
        _LLAMA_CPP,
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
    if any(_RATE_LIMIT.search(text) for text in (words, *names)):
        return _over_a_minute(words)
    if status in _OTHER_REASONS:
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


#: How Groq and OpenAI refuse a request that alone exceeds the limit for a minute: no pause helps.
_REQUESTED: Final = re.compile(
    rf"\btokens per .{{0,40}}?\bLimit:? ({_NUMBER}), .{{0,40}}?Requested:? ({_NUMBER})",
    re.IGNORECASE,
)


def _over_a_minute(words: str) -> Overflow | None:
    """Return what a refusal says whose request alone exceeds the limit for a minute, or None."""
    if (match := _REQUESTED.search(words)) is None:
        return None
    limit, requested = (int(re.sub("[,_]", "", number)) for number in match.groups())
    # What is requested includes the limit of the reply, so it says nothing about our count.
    return Overflow(None, limit) if requested > limit else None


# A refusal that no sentence of the table matches is about the length if it has words for the prompt
# and for too much, and two numbers, the larger of which is about what we counted.
_THE_PROMPT: Final = re.compile(r"prompt|input|context|sequence|seq|message|token", re.IGNORECASE)
_TOO_MUCH: Final = re.compile(
    r"exceed|too (?:long|large|many|big)|less than|at most|max|longer|larger|greater|more than"
    r"|limit|overflow|>|\bfit|\bover\b|beyond|\bholds\b|allowed",
    re.IGNORECASE,
)
_ANY_NUMBER: Final = re.compile(
    r"(?<![\w.-])(?:(\d{1,3}(?:,\d{3})+|\d{3,9})(?![\w.]*\w)|(\d{1,4})k\b)", re.IGNORECASE
)

#: The factor by which our count may be off.
_ABOUT: Final = 2


def told_too_long(error: AishError, tokens: int, limits: Container[int | None] = ()) -> None:
    """Note in ``error`` if it says that a request, which we counted as ``tokens``, is too long.

    ``limits`` are what was sent as the limit of the reply: what is said of these is not about the
    prompt, and nothing that is left out would help.
    """
    words = str(error.data.get("provider_message", ""))
    is_known = overflow_of(error) is not None or error.data.get("status") in _OTHER_REASONS
    if is_known or not may_be_about_request(error):
        return
    if not (_THE_PROMPT.search(words) and _TOO_MUCH.search(words)):
        return
    numbers = sorted(
        {
            int(number.replace(",", "")) if number else 1000 * int(thousands)
            for number, thousands in _ANY_NUMBER.findall(words)
        }
    )
    for window, prompt in itertools.pairwise(numbers):
        if prompt not in limits and tokens / _ABOUT <= prompt <= tokens * _ABOUT:
            error.data |= {"code": _LLAMA_CPP, "n_prompt_tokens": prompt, "n_ctx": window}


def may_be_about_request(error: AishError) -> bool:
    """Return whether a server has refused a request for what is in it, as far as it says.

    OpenAI answers with 404 if it does not find what a part of a request refers to.
    """
    data = error.data
    words = str(data.get("provider_message", ""))
    is_answer = isinstance(error, BackendRejected | BackendUnavailable) and bool(words)
    return is_answer and data.get("status") in STATUSES and not _RATE_LIMIT.search(words)


def _numbers_in(words: str) -> dict[str, int] | None:
    """Return the numbers in the first of the table's sentences that ``words`` contain, or None."""
    for pattern in _patterns():
        match = pattern.search(words)
        if match and not is_quoted(words[: match.start("sentence")]):
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
        patterns = [_PLACEHOLDERS[name] for name in placeholders.findall(sentence)]
        body = "".join(a + b for a, b in zip(literals, [*patterns, ""], strict=True))
        return re.compile(f"{_BEGIN}(?P<sentence>{body})", re.IGNORECASE)

    table = _SENTENCES.read_text("utf-8")
    return tuple(pattern(" ".join(lines.split())) for lines in _SENTENCE.findall(table))


def is_quoted(before: str) -> bool:
    """Return whether what follows ``before`` is quoted: it is then the user's text.

    The value of an error's field counts as the server's own words.
    """
    rest = re.split(_FIELD, before)[-1]
    opened = len(re.findall(r"(?<![^\s(\[{:=,<])'", rest)) > len(
        re.findall(r"(?<=\S)'(?!\w)", rest)
    )
    curly = rest.rfind("\u201c") > rest.rfind("\u201d")
    return opened or curly or any(rest.count(mark) % 2 for mark in '"`')


def unquoted(pattern: re.Pattern[str], words: str) -> Iterator[re.Match[str]]:
    """Yield the matches that are not within a longer quotation, which is the user's text."""
    return (match for match in pattern.finditer(words) if not is_quoted(words[: match.start()]))


# Fields. A refusal that names a field which was sent is mended by leaving it out, or by the value
# that the server asks for.


@dataclass(frozen=True, slots=True)
class Renamed:
    """The name of a field that another one is sent under."""

    name: str


#: What is changed in a request's body: each field by its path, with its value, or its new name, or
#: None to leave it out.
Changes: TypeAlias = "dict[str, Any]"

# Whatever a server says of these: without them there is no request, or no bound on its cost.
_NEEDED: Final = frozenset(
    {
        *("model", "messages", "input", "contents", "system", "systeminstruction", "instructions"),
        *("stream", "tools", "options", "generationconfig", "maxtokens", "maxcompletiontokens"),
        *("maxoutputtokens", "numpredict", "numctx", "store"),
    }
)

#: Statuses of a refusal for what is in a request; llama.cpp answers with 500 where a template
#: raises an exception, and an error in the stream may have none.
STATUSES: Final = frozenset({400, 404, 422, 500, 501, None})

_NAME: Final = r"[A-Za-z_][\w.]{1,60}"
_NAMED: Final = re.compile(
    rf"""["'`\u2018\u201c]({_NAME})["'`\u2019\u201d]"""  # Unsupported parameter: 'top_p'
    rf"|(?:argument|parameter|field|property|option|key)s?(?: \w+)?: ({_NAME})"
    rf"|(?:^|; )(?:body\.)?({_NAME}): "  # temperature: Extra inputs are not permitted
    r"|\b([a-z]+(?:_[a-z]+)+)\b",
    re.ASCII,
)
_ASKED_FOR: Final = re.compile(
    rf"""\bset ["'`]?({_NAME})["'`]? to ["'`](\w{{1,20}})["'`]""", re.IGNORECASE
)

#: A field that has a default which some models refuse together with tools.
_EFFORT: Final = "reasoning_effort"


def changed_fields(error: AishError, body: Json, own: Mapping[str, Any]) -> Changes:
    """Return what to change in ``body`` after a refusal, by the fields that it names.

    What the user configured as ``own`` fields is always sent. Nothing that a request needs is left
    out: model, messages, the limit on the reply.
    """
    if error.data.get("status") not in STATUSES:
        return {}
    words = str(error.data.get("provider_message", ""))
    sent = dict(_paths(body, own))
    for asked in unquoted(_ASKED_FOR, words):
        name, value = asked.groups()
        if _plain(name) in sent or (name == _EFFORT and name not in own):
            return {sent.get(_plain(name), name): value}
    names = [str(error.data.get("param") or "")]
    names += [name for match in unquoted(_NAMED, words) for name in match.groups() if name]
    parts = [_plain(part) for name in names for part in name.split(".")]
    changes: Changes = {sent[part]: None for part in parts if part in sent}
    if not changes and _plain(_EFFORT) in parts and _EFFORT not in own:
        # Some models have a default that they refuse together with tools.
        changes = {_EFFORT: "none"}
    return changes


def _paths(body: Json, own: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each optional field that is sent, by its plain name, with its path."""
    for name, value in body.items():
        paths = own.get(name)
        if isinstance(value, dict) and _plain(name) != "thinking":
            inside = paths if isinstance(paths, dict) else {}
            for inner in value:
                if _plain(inner) not in _NEEDED and inner not in inside:
                    yield _plain(inner), f"{name}.{inner}"
        if _plain(name) not in _NEEDED and name not in own:
            yield _plain(name), name


def not_own(changes: Changes, own: Mapping[str, Any]) -> Changes:
    """Return ``changes`` without those of fields that the user configured."""
    return {
        path: value
        for path, value in changes.items()
        if (names := path.split("."))[0] not in own
        or (len(names) > 1 and names[1] not in as_dict(own[names[0]]))
    }


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def with_changes(body: Json, changes: Changes) -> Json:
    """Return ``body`` with its fields changed."""
    body = dict(body)
    for path, value in changes.items():
        holder, *inner = path.split(".", 1)
        if inner:
            if isinstance(body.get(holder), dict):
                body[holder] = with_changes(body[holder], {inner[0]: value})
        elif value is None:
            body.pop(holder, None)
        elif isinstance(value, Renamed):
            if holder in body:
                body[value.name] = body.pop(holder)
        else:
            body[holder] = value
    return body


# Tools: what a server says against those that it was offered, one of them or how many.

#: A server that looks at all tools names one by its place or by its name.
_PLACE: Final = re.compile(
    r"\bfunction_?declarations\W{1,2}(\d{1,4})|\b(?:tools|functions)\W(\d{1,4})\b", re.IGNORECASE
)

#: What is said of a definition, and what of an earlier call, for which no tool is to blame.
_DEFINITION: Final = re.compile(
    r"schema|parameters|declaration|\bfunction\b|\btools?\b|properties|grammar|\bname",
    re.IGNORECASE,
)
_CALL: Final = re.compile(
    r"(?:tool|function)[_ ]calls?\b|signature|messages\W\d|contents\W\d|\binput\W\d",
    re.IGNORECASE,
)

_LIMIT: Final = re.compile(
    r"(?:\bmax(?:imum)?\b|\bat most\b|\bmore than\b|\blimit(?:ed)?\b|\bup to\b|\bexceed\w*)"
    r"[^\d.;]{0,60}?(\d{1,4})\b",
    re.IGNORECASE,
)
_OF_TOOLS: Final = re.compile(r"\btools\b|\bfunctions\b|function_?declarations", re.IGNORECASE)


def limit_in(said: str, sent: int) -> int | None:
    """Return how many tools a server says that it takes, if it was sent more; else None."""
    if not _OF_TOOLS.search(said):
        return None
    fewer = [number for found in _LIMIT.findall(said) if 0 < (number := int(found)) < sent]
    return max(fewer, default=None)


def named_in(said: str, names: Sequence[str]) -> str:
    """Return which of the tools that were sent a refusal is about; empty if it names none.

    ``names`` are in the order in which they were sent.
    """
    if _CALL.search(said) or not _DEFINITION.search(said):
        return ""
    for place in _PLACE.finditer(said):
        number = int(place[1] or place[2])
        # With both, tools[0] is the list, and the other one is the place in it.
        if number < len(names) and (place[1] or not re.search("declaration", said, re.IGNORECASE)):
            return names[number]
    for name in sorted(names, key=len, reverse=True):
        quoted = rf"""["'`\u2018\u201c]{re.escape(name)}["'`\u2019\u201d]"""
        called = rf"\b(?:function|tool)(?:\s+name)?[\s:=]+{re.escape(name)}(?![\w-])"
        if re.search(f"{quoted}|{called}", said):
            return name
    return ""
