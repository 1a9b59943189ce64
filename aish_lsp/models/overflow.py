"""Whether a server says that a request is too long for the model, and what it counted.

Few servers say it in fields; most say it in a sentence. The sentences stand in a table, as they
are said, with marks where their numbers are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
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

# Who says it, and below it what. The marks in a sentence:
#   <prompt>  the tokens of the input     <window>  the tokens that fit
#   <reply>   the tokens kept for it      <total>   input and reply together
#   <n>       a number that says nothing exact, such as a lower bound
#   ...       anything short
# The first sentence that fits is taken: those with more numbers stand above those with fewer.
_SENTENCES: Final = """
llama.cpp
  request (<prompt> tokens) exceeds the available context size (<window> tokens)
  input (<prompt> tokens) is larger than the max context size (<window> tokens)
  the request exceeds the available context size
  Context size has been exceeded

vLLM 0.11
  'max_tokens'... is too large: <reply>. This model's maximum context length is <window> tokens
    and your request has <prompt> input tokens
  'max_tokens'... is too large: <reply>. This model's maximum context length is <window> tokens
  This model's maximum context length is <window> tokens. However, your request has <prompt> input
    tokens
vLLM 0.16
  You passed <n> input ... and requested <reply> output tokens. However, the model's context length
    is only <window> tokens
vLLM 0.18, and where it stopped counting or counted characters
  This model's maximum context length is <window> tokens. However, you requested <reply> output
    tokens and your prompt contains <prompt> input tokens
  This model's maximum context length is <window> tokens. However, you requested <reply> output
    tokens
vLLM's engine
  The ... prompt (length <prompt>) is longer than the maximum model length of <window>
  The prompt (total length <prompt>) is too long to fit into the model (context length <window>)

OpenAI, Azure
  This model's maximum context length is <window> tokens. However, your messages resulted in
    <prompt> tokens
OpenAI, DeepSeek, vLLM up to 0.9
  This model's maximum context length is <window> tokens. However, you requested <total> tokens
    (... <reply> in the completion
  This model's maximum context length is <window> tokens. However, you requested <prompt> tokens
    in the messages
OpenAI's completions
  This model's maximum context length is <window> tokens, however you requested <total> tokens
    (... <reply> for the completion
OpenAI's responses
  Your input exceeds the context window of this model

OpenRouter
  This endpoint's maximum context length is <window> tokens. However, you requested about <total>
    tokens (... <reply> in the output
  This endpoint's maximum context length is <window> tokens
  Input length <prompt> exceeds the maximum allowed input length of <window> tokens

Fireworks
  The prompt is too long: <prompt>, model maximum context length: <window>
Anthropic
  prompt is too long: <prompt> tokens > <window> maximum
  input length and `max_tokens` exceed context limit: <prompt> + <reply> > <window>
  prompt is too long
Bedrock
  Input is too long for requested model

Gemini
  The input token count (<prompt>) exceeds the maximum number of tokens allowed (<window>)
  The input token count exceeds the maximum number of tokens allowed <window>
Gemini on Vertex
  Unable to submit request because the input token count is <prompt> but model only supports up to
    <window>

Mistral
  Prompt contains <prompt> tokens..., too large for model with <window> maximum context length
xAI
  This model's maximum prompt length is <window> but the request contains <prompt> tokens
Cerebras
  Please reduce the length of the messages or completion. Current length is <prompt> while limit is
    <window>
Groq
  Please reduce the length of the messages or completion

SGLang
  Requested token count exceeds the model's maximum context length of <window> tokens. You requested
    a total of <total> tokens: <prompt> tokens from the input messages and <reply> tokens for the
    completion
  Input length (<prompt> tokens) exceeds the maximum allowed length (<window> tokens)
SGLang, Together
  The input (<prompt> tokens) is longer than the model's context length (<window> tokens)
TGI, Together
  `inputs` tokens + `max_new_tokens` must be <= <window>. Given: <prompt> `inputs` tokens and
    <reply> `max_new_tokens`
  `inputs` must have less than <window> tokens. Given: <prompt>
LiteLLM
  Requested token count exceeds the model's maximum context length of <window> tokens
  Input length (<prompt>) exceeds model's maximum context length (<window>)
  Context Window exceeded for given call

Cohere
  too many tokens: total number of tokens in the prompt cannot exceed <window> - received <prompt>
  too many tokens: total number of tokens in the prompt cannot exceed <window>
  too many tokens: size limit exceeded by <n> tokens

LM Studio
  Trying to keep the first <n> tokens when context the overflows. However, the model is loaded with
    context length of only <window> tokens
  The number of tokens to keep from the initial prompt is greater than the context length
    (... n_ctx: <window>)
  The number of tokens to keep from the initial prompt is greater than the context length
  Reached context length of <window> tokens
Ollama
  the prompt is longer than the context length currently available to the model
  prompt too long; exceeded max context length by <n> tokens
  the input length exceeds the context length
  input length exceeds maximum context length

Moonshot
  Your request exceeded model token limit: <window>
MiniMax
  context window exceeds limit
Qwen
  Range of input length should be [1, <window>]
Z.ai
  Prompt exceeds max length
DS4
  Prompt has <prompt> tokens, but the configured context size is <window> tokens
GitHub Copilot
  prompt token count of <prompt> exceeds the limit of <window>
GitHub Models
  Request body too large for ... model. Max size: <window> tokens

others
  This model's maximum context length is <window>
  context length exceeded
  context window exceeded
"""

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

    return tuple(pattern(" ".join(lines.split())) for lines in _SENTENCE.findall(_SENTENCES))


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
