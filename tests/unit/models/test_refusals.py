"""What servers say of a request that is too long, or that has something they do not take."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.agent.remedies import refuses_tools
from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable, CostCap
from aish_lsp.models import refusals
from aish_lsp.models.faults import error_in_stream, redactor, refusal
from aish_lsp.models.refusals import Overflow, overflow_of

URL = "https://api.example/v1/chat/completions"


def refused(body: Any, status: int = 400) -> AishError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refusal(URL, status, {}, raw, redactor({}))


def says(message: str, status: int = 400, **fields: Any) -> Overflow | None:
    """Return what is read from a refusal in OpenAI's form."""
    return overflow_of(refused({"error": {"message": message, **fields}}, status))


# The counts to be read, and what is said: as the servers say it (or, of the older ones, as reports
# quote it), with other numbers.
_TEXT = r"""
9000 4096: request (9000 tokens) exceeds the available context size (4096 tokens), try increasing
    it
9000 4096: input (9000 tokens) is larger than the max context size (4096 tokens). skipping
- -: the request exceeds the available context size, try increasing it
- -: the request exceeds the available context size. try increasing the context size or enable
    context shift
- -: Context size has been exceeded.
10000 8192: This model's maximum context length is 8192 tokens. However, you requested 64 output
    tokens and your prompt contains 10000 input tokens, for a total of 10064 tokens. Please reduce
    the length of the input prompt or the number of requested output tokens.
- 8192: This model's maximum context length is 8192 tokens. However, you requested 64 output
    tokens and your prompt contains at least 8129 input tokens, for a total of at least 8193
    tokens. Please reduce the length of the input prompt.
- 8192: This model's maximum context length is 8192 tokens. However, you requested 64 output
    tokens and your prompt contains 100000 characters (more than 81280 characters, which is the
    upper bound for 8128 input tokens).
- 8192: You passed 8129 input tokens and requested 64 output tokens. However, the model's context
    length is only 8192 tokens, resulting in a maximum input length of 8128 tokens.
8150 8192: 'max_tokens' or 'max_completion_tokens' is too large: 64. This model's maximum context
    length is 8192 tokens and your request has 8150 input tokens (64 > 8192 - 8150).
- 32768: 'max_tokens' is too large: 4096. This model's maximum context length is 32768 tokens.
9000 8192: This model's maximum context length is 8192 tokens. However, your request has 9000
    input tokens. Please reduce the length of the input messages.
9000 8192: This model's maximum context length is 8192 tokens. However, you requested 9000 tokens
    in the messages, Please reduce the length of the messages.
5951 4096: The decoder prompt (length 5951) is longer than the maximum model length of 4096. Make
    sure that `max_model_len` is no smaller than the number of text tokens.
25938 4096: The prompt (total length 25938) is too long to fit into the model (context length
    4096).
9000 8192: This model's maximum context length is 8192 tokens. However, your messages resulted in
    9000 tokens. Please reduce the length of the messages.
- -: max_tokens must be at least 1, got -186.
201901 128000: This model's maximum context length is 128000 tokens. However, your messages
    resulted in 201901 tokens (including 92 in the response_format schemas.).
8000 8192: This model's maximum context length is 8192 tokens. However, you requested 9000 tokens
    (8000 in the messages, 1000 in the completion). Please reduce the length of the messages or
    completion.
8000 8192: This model's maximum context length is 8192 tokens. However, you requested 9000 tokens
    (7950 in the messages, 50 in the functions, and 1000 in the completion).
9000 8192: This model's maximum context length is 8192 tokens. However, you requested 9000 tokens
    (9000 in the messages, 0 in the completion).
4100 4097: This model's maximum context length is 4097 tokens, however you requested 5100 tokens
    (4100 in your prompt; 1000 for the completion). Please reduce your prompt; or completion
    length.
- -: Your input exceeds the context window of this model. Please adjust your input and try again.
38976 32768: This endpoint's maximum context length is 32768 tokens. However, you requested about
    40000 tokens (38976 of text input, 1024 in the output). Please reduce the length of either
    one, or use the "middle-out" transform to compress your prompt automatically.
38976 32768: This endpoint's maximum context length is 32768 tokens. However, you requested about
    40000 tokens (38000 of text input, 976 of tool input, 1024 in the output).
- 32768: This endpoint's maximum context length is 32768 tokens. Please reduce the length.
140000 131040: Input length 140000 exceeds the maximum allowed input length of 131040 tokens.
210000 200000: prompt is too long: 210000 tokens > 200000 maximum
190000 200000: input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000,
    decrease input length or `max_tokens` and try again
- -: prompt is too long
33109 32767: The prompt is too long: 33109, model maximum context length: 32767
- -: Input is too long for requested model.
1200000 1048576: The input token count (1200000) exceeds the maximum number of tokens allowed
    (1048576).
- 1048576: The input token count exceeds the maximum number of tokens allowed 1048576.
1200000 1048576: Unable to submit request because the input token count is 1200000 but model only
    supports up to 1048576. Reduce the input token count and try again.
65673 32768: Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768
    maximum context length
65673 32768: Prompt contains 65673 tokens, too large for model with 32768 maximum context length
537812 131072: This model's maximum prompt length is 131072 but the request contains 537812
    tokens.
8193 8192: Please reduce the length of the messages or completion. Current length is 8193 while
    limit is 8192
- -: Please reduce the length of the messages or completion.
9000 8192: Requested token count exceeds the model's maximum context length of 8192 tokens. You
    requested a total of 9064 tokens: 9000 tokens from the input messages and 64 tokens for the
    completion. Please reduce the number of tokens.
9000 8191: Input length (9000 tokens) exceeds the maximum allowed length (8191 tokens). Use a
    shorter input or enable --allow-auto-truncate.
8391 8192: The input (8391 tokens) is longer than the model's context length (8192 tokens).
99500 100000: Input validation error: `inputs` tokens + `max_new_tokens` must be <= 100000. Given:
    99500 `inputs` tokens and 1024 `max_new_tokens`
9000 4096: Input validation error: `inputs` must have less than 4096 tokens. Given: 9000
- 131072: litellm.BadRequestError: OpenAIException - Requested token count exceeds the model's
    maximum context length of 131072 tokens.
265330 262144: Input length (265330) exceeds model's maximum context length (262144).
- -: litellm.ContextWindowExceededError: litellm._pre_call_checks: Context Window exceeded for
    given call. No models have context window large enough for this call.
5000 4081: too many tokens: total number of tokens in the prompt cannot exceed 4081 - received
    5000. Try using a shorter prompt.
- 4081: too many tokens: total number of tokens in the prompt cannot exceed 4081
- -: too many tokens: size limit exceeded by 1234 tokens. Try using shorter or fewer inputs
- 45217: Trying to keep the first 50785 tokens when context the overflows. However, the model is
    loaded with context length of only 45217 tokens, which is not enough.
- 4096: The number of tokens to keep from the initial prompt is greater than the context length
    (n_keep: 12543>= n_ctx: 4096). Try to load the model with a larger context length
- -: The number of tokens to keep from the initial prompt is greater than the context length.
- 4096: Reached context length of 4096 tokens with the model, but this model does not currently
    support mid-generation context overflow.
- -: the prompt is longer than the context length currently available to the model; shorten the
    prompt, adjust the context length in settings
- -: prompt too long; exceeded max context length by 4096 tokens
- -: the input length exceeds the context length
- -: input length exceeds maximum context length
- 262144: Invalid request: Your request exceeded model token limit: 262144
- 262144: Your request exceeded model token limit: 262144 (requested: 300000)
- -: invalid params, context window exceeds limit (2013)
- 98304: <400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]
- -: Prompt exceeds max length
300000 131072: Prompt has 300,000 tokens, but the configured context size is 131,072 tokens
130000 128000: prompt token count of 130000 exceeds the limit of 128000
- 8000: Request body too large for gpt-4o model. Max size: 8000 tokens.
- 8192: This model's maximum context length is 8192
- -: Context length exceeded.
- -: context window exceeded
"""


def _count(word: str) -> int | None:
    return None if word == "-" else int(word)


def _said() -> list[tuple[str, int | None, int | None]]:
    rows = []
    for row in re.findall(r"^\S.*(?:\n    .*)*", _TEXT, re.MULTILINE):
        counts, message = " ".join(row.split()).split(": ", 1)
        prompt, window = counts.split()
        rows.append((message, _count(prompt), _count(window)))
    return rows


SAID = _said()


@pytest.mark.parametrize(("message", "prompt", "window"), SAID)
def test_what_the_servers_say(message: str, prompt: int | None, window: int | None) -> None:
    assert says(message) == Overflow(prompt, window)
    # A proxy says in front whose error it is, or sends the error on within the stream.
    assert says(f"litellm.BadRequestError: XException - {message}") == Overflow(prompt, window)
    within = error_in_stream(URL, {"message": message, "type": "invalid_request_error"}, str)
    assert overflow_of(within) == Overflow(prompt, window)


def test_every_sentence_of_the_table_is_the_first_for_something_said() -> None:
    def first(message: str) -> int:
        found = (i for i, p in enumerate(refusals._patterns()) if p.search(message))
        return next(found, -1)

    assert {first(message) for message, _, _ in SAID} == set(range(len(refusals._patterns())))


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210,000 tokens > 200,000 maximum",
        "prompt is too long: 210_000 tokens > 200_000 maximum",
        "Prompt  is too long:\n210000 tokens > 200000 maximum.",
    ],
)
def test_numbers_with_separators_and_text_with_breaks(message: str) -> None:
    assert says(message) == Overflow(210000, 200000)


def test_a_curly_apostrophe() -> None:
    assert says("This model\u2019s maximum context length is 8192 tokens.") == Overflow(None, 8192)


LLAMA = {
    "code": 400,
    "message": "the request exceeds the available context size, try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 900,
    "n_ctx": 512,
}


@pytest.mark.parametrize(
    "body",
    [
        {"error": LLAMA},
        {"error": json.dumps({"error": LLAMA})},
        {"error": {"message": json.dumps({"error": LLAMA}), "code": "400", "type": None}},
        {"error": {"message": "OpenAIException - " + json.dumps(LLAMA), "code": 400}},
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": json.dumps({"error": LLAMA})},
            }
        },
        json.dumps({"error": {"message": json.dumps({"error": LLAMA})}}),
        [{"error": LLAMA}],
    ],
)
def test_llama_cpp_tells_its_numbers_through_proxies_too(body: Any) -> None:
    assert overflow_of(refused(body)) == Overflow(900, 512)
    assert overflow_of(error_in_stream(URL, body, redactor({}))) == Overflow(900, 512)


@pytest.mark.parametrize(
    "words",
    [
        (
            "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 "
            "tokens. However, your messages resulted in 9000 tokens.\", 'type': 'x'}}"
        ),
        # Cut off, as a long one is.
        (
            'Upstream: {"error":{"message":"This model\'s maximum context length is 8192 tokens. '
            "However, your messages resulted in 9000 tokens. Please"
        ),
        (
            '"{\\"message\\":\\"This model\'s maximum context length is 8192 tokens. However, your '
            "messages resulted in 9000 tokens."
        ),
    ],
)
def test_an_error_that_is_quoted_in_another_form(words: str) -> None:
    assert says(words) == Overflow(9000, 8192)


@pytest.mark.parametrize(
    "code",
    [
        "context_length_exceeded",
        "exceed_context_size_error",
        "request_too_large",
        "tokens_limit_reached",
        "model_max_prompt_tokens_exceeded",
    ],
)
@pytest.mark.parametrize("field", ["type", "code"])
def test_a_code_says_it_whatever_the_words(code: str, field: str) -> None:
    for message, found in (
        ("Zu lang.", Overflow(None, None)),
        ("prompt is too long: 9 tokens > 8 maximum", Overflow(9, 8)),
    ):
        body = {"error": {"message": message, field: code}}
        assert overflow_of(refused(body)) == found


def test_anthropics_413() -> None:
    body = {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds"}}
    assert overflow_of(refused(body, 413)) == Overflow(None, None)
    assert overflow_of(refused(b"<html><title>413 Request Entity Too Large</title>", 413))


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (
            (
                "Request too large for gpt-4o in organization o on tokens per min (TPM): Limit "
                "30000, Requested 35000. The input or output tokens must be reduced in order to "
                "run successfully."
            ),
            429,
        ),
        (
            (
                "Request too large for model `x` on tokens per minute (TPM): Limit 30000, "
                "Requested 35000, please reduce your message size and try again."
            ),
            413,
        ),
        ("tokens per minute (TPM): Limit 30,000, Requested 35,000", 413),
    ],
)
def test_a_request_over_the_limit_of_a_minute_is_too_long(message: str, status: int) -> None:
    fields = {"type": "tokens", "code": "rate_limit_exceeded"}
    assert says(message, status, **fields) == Overflow(None, 30000)


@pytest.mark.parametrize(
    ("message", "status", "fields"),
    [
        (
            (
                "Rate limit reached for gpt-4o in organization o on tokens per min (TPM): Limit "
                "30000, Used 28000, Requested 3500. Please try again in 3s."
            ),
            429,
            {"type": "tokens", "code": "rate_limit_exceeded"},
        ),
        ("Limit on requests per day (RPD): Limit 0, Used 0, Requested 1.", 429, {}),
        ("Number of request tokens has exceeded your rate limit", 400, {"code": "rate_limit"}),
        ("Too many tokens, please wait before trying again.", 400, {}),
        ("prompt is too long", 429, {}),
        (
            (
                "max_tokens is too large: 99999. This model supports at most 16384 completion "
                "tokens, whereas you provided 99999."
            ),
            400,
            {"code": "invalid_value", "param": "max_tokens"},
        ),
        (
            (
                "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens "
                "for claude-sonnet-4-20250514"
            ),
            400,
            {"type": "invalid_request_error"},
        ),
        (
            (
                "Unable to submit request because it has a maxOutputTokens value of 100000 but the "
                "supported range is from 1 (inclusive) to 8193 (exclusive)."
            ),
            400,
            {},
        ),
        ("max_tokens=200000 cannot be greater than max_model_len=8192.", 400, {}),
        ("too many tokens: max tokens must be less than or equal to 4096", 400, {}),
        ("Incorrect API key provided", 401, {"code": "invalid_api_key"}),
        ("This key may not use a maximum context length of 1 M tokens", 403, {}),
        ("Invalid 'metadata.key': string too long. Expected at most 64 characters.", 400, {}),
        ("model 'x' not found", 404, {}),
        ("The server had an error", 500, {"type": "server_error"}),
        ("no reason given", 400, {}),
    ],
)
def test_what_only_sounds_like_it(message: str, status: int, fields: dict[str, Any]) -> None:
    assert says(message, status, **fields) is None


@pytest.mark.parametrize(
    "message",
    [
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum "
            "context length is 8192 tokens and your request has 50 input tokens (9000 > 8192 - "
            "50)."
        ),
        "'max_tokens' is too large: 8192. This model's maximum context length is 8192 tokens.",
        (
            "This model's maximum context length is 8192 tokens. However, you requested 8192 "
            "output tokens and your prompt contains 10 input tokens, for a total of 8202 tokens."
        ),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 32769. Given: 30 `inputs` tokens and "
            "999999999 `max_new_tokens`"
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9100 "
            "tokens (100 in the messages, 9000 in the completion)."
        ),
    ],
)
def test_a_reply_as_long_as_the_window_is_no_matter_of_the_input(message: str) -> None:
    assert says(message) is None


@pytest.mark.parametrize(
    "message",
    [
        'Content blocked: "prompt is too long: 5 tokens > 4 maximum" is not allowed here',
        'Content blocked: "Tell me. Why is it said: prompt is too long: 5 tokens > 4 maximum"',
        "Content blocked: 'hello, prompt is too long: 5 tokens > 4 maximum'",
        "Content blocked: `ask: prompt is too long`",
        "Content blocked: \u201cask: prompt is too long\u201d",
        "You asked why a prompt is too long: 5 tokens > 4 maximum",
        "Unknown field context_length_exceeded in messages[0]",
        "Unknown tool 'context length exceeded'",
    ],
)
def test_the_users_own_text_is_not_the_servers_word(message: str) -> None:
    assert says(message) is None


@pytest.mark.parametrize("value", [-1, 0, True, False, 10**30, 1.5, "900", None, [1], {}])
def test_senseless_counts_are_left_out(value: Any) -> None:
    body = {"error": {**LLAMA, "n_prompt_tokens": value, "n_ctx": value}}
    assert overflow_of(refused(body)) == Overflow(None, None)


@pytest.mark.parametrize(
    ("message", "prompt", "window"),
    [
        ("prompt is too long: -5 tokens > 200000 maximum", None, None),
        ("prompt is too long: 0 tokens > 200000 maximum", None, 200000),
        (f"prompt is too long: {'9' * 300} tokens > 200000 maximum", None, None),
        ("prompt is too long: 99999999999 tokens > 200000 maximum", None, 200000),
        (
            (
                "This model's maximum context length is 8192 tokens. However, you requested 10 "
                "tokens (10 in the messages, 1000 in the completion)."
            ),
            None,
            8192,
        ),
    ],
)
def test_senseless_numbers_in_words_are_left_out(
    message: str, prompt: int | None, window: int | None
) -> None:
    assert says(message) == Overflow(prompt, window)


def test_other_errors_say_nothing_of_it() -> None:
    assert overflow_of(CostCap("prompt is too long", code="context_length_exceeded")) is None
    assert overflow_of(BackendUnavailable("Nothing answers.")) is None
    assert overflow_of(BackendRejected("no", provider_message=None, type=7, code=[])) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=40),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["error", "message", "type", "code", "n_ctx", "n_prompt_tokens", "metadata"]
                ),
                inner | inner.map(json.dumps),
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from([400, 413, 422, 500]),
)
def test_whatever_is_sent_never_raises_and_counts_are_sane(body: Any, status: int) -> None:
    found = overflow_of(refused(body, status))
    counts = [] if found is None else [found.prompt_tokens, found.window]
    assert all(count is None or (type(count) is int and 0 < count <= 10**9) for count in counts)


# --- a general rule for the sentences that the table does not have -------------------------------


@pytest.mark.parametrize(
    ("words", "tokens", "read"),
    [
        (
            "length of prompt_tokens (3434) must be less than max_seq_len (3000)",
            3100,
            Overflow(3434, 3000),
        ),
        ("Your input of 12,345 tokens is over our limit: 8,192", 11000, Overflow(12345, 8192)),
        ("Cannot truncate prompt with n_keep (3434) >= n_ctx (3000)", 3100, Overflow(3434, 3000)),
        ("The prompt (3434 tokens) doesn't fit: it holds 3000.", 3100, Overflow(3434, 3000)),
        ("prompt_tokens=3434 > n_ctx=3000", 3100, Overflow(3434, 3000)),
        ("Your token count 33k is over the limit of 24k.", 31000, Overflow(33000, 24000)),
        # Neither number is about what we counted.
        ("length of prompt_tokens (3434) must be less than max_seq_len (3000)", 400, None),
        ("temperature must be less than 3000, not 3434", 3100, None),
        ("rate limit: 3434 tokens, at most 3000 per min", 3100, None),
        ("the prompt must be less than 3000", 3100, None),
    ],
)
def test_two_numbers_one_of_which_is_about_ours(
    words: str, tokens: int, read: Overflow | None
) -> None:
    error = refused({"error": {"message": words}})
    assert overflow_of(error) is None
    refusals.told_too_long(error, tokens)
    assert overflow_of(error) == read


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for m",
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens",
        "max_completion_tokens (8192) exceeds the maximum of 4096 tokens",
    ],
)
def test_the_limit_of_the_reply_is_not_the_prompt(words: str) -> None:
    error = refused({"error": {"message": words}})
    refusals.told_too_long(error, 9000, {8192})
    assert overflow_of(error) is None
    # As the window, the same number counts.
    error = refused({"error": {"message": "prompt_tokens (9000) exceed max_seq_len (8192)"}})
    refusals.told_too_long(error, 9000, {8192})
    assert overflow_of(error) == Overflow(9000, 8192)


# --- fields ---------------------------------------------------------------------------------------

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "What is seed?"}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 9,
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 1,
    "reasoning_effort": "low",
    "tools": [{}],
}
GEMINI: dict[str, Any] = {
    "contents": [],
    "generationConfig": {"maxOutputTokens": 9, "seed": 1, "topP": 0.5},
}


def changes(body: dict[str, Any], error: Any, status: int = 400, **own: Any) -> dict[str, Any]:
    return refusals.changed_fields(refused({"error": error}, status), body, own)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "Unsupported parameter: 'temperature'"}, {"temperature": None}),
        ({"message": "Unrecognized request argument supplied: seed"}, {"seed": None}),
        ({"message": "No.", "param": "top_p"}, {"top_p": None}),
        ({"message": "No.", "param": "body.stream_options.include_usage"}, {"stream_options"}),
        ({"message": "temperature: Extra inputs are not permitted"}, {"temperature": None}),
        ({"message": "`top_p` and `temperature` cannot both be given"}, {"top_p", "temperature"}),
        (
            {
                "message": "Function tools with reasoning_effort are not supported for m in"
                " /v1/chat/completions. Use /v1/responses or set reasoning_effort to 'none'."
            },
            {"reasoning_effort": "none"},
        ),
        # What is quoted within a quotation is the prompt's, and loose words may be.
        ({"message": "messages[8].x is wrong: 'Now I set \"seed\" and `top_p`'"}, {}),
        (
            {"message": "[{'loc': ('body', 'stream_options'), 'msg': 'Extra inputs'}]"},
            {"stream_options": None},
        ),
        (
            {"message": "Bad prompt: \"Never set seed to 'all', set reasoning_effort to 'high'\""},
            {},
        ),
        ({"message": "I cannot tell what the seed or the temperature is."}, {}),
        # Nothing that a request needs.
        ({"message": "Invalid 'model', 'messages', 'max_tokens', 'stream' and 'tools'."}, {}),
        ({"message": "No.", "param": "messages.0.content"}, {}),
    ],
)
def test_a_field_that_is_named_is_changed(error: dict[str, Any], expected: Any) -> None:
    found = changes(BODY, error)
    assert found == expected or {path.partition(".")[0] for path in found} == expected


def test_a_field_within_another_is_found_by_its_name_in_any_spelling() -> None:
    words = "Invalid JSON payload received. Unknown name \"seed\" at 'generation_config'."
    assert changes(GEMINI, {"message": words}) == {"generationConfig.seed": None}
    left = refusals.with_changes(GEMINI, {"generationConfig.seed": None})
    assert left["generationConfig"] == {"maxOutputTokens": 9, "topP": 0.5}
    assert GEMINI["generationConfig"]["seed"] == 1


def test_a_default_that_is_refused_with_tools_is_set() -> None:
    body = {name: value for name, value in BODY.items() if name != "reasoning_effort"}
    words = "Function tools with reasoning_effort are not supported for m."
    assert changes(body, {"message": words}) == {"reasoning_effort": "none"}
    assert not refuses_tools(refused({"error": {"message": words}}))


@pytest.mark.parametrize("mark", ["'", '"', "`", "\u201c"])
def test_a_question_about_tools_that_a_refusal_quotes_does_not_refuse_them(mark: str) -> None:
    end = mark.replace("\u201c", "\u201d")
    quoted = f"{mark}Why are tools not supported by gemma?{end}"
    assert not refuses_tools(refused({"error": {"message": f"Invalid input: {quoted} is odd."}}))
    assert refuses_tools(refused({"error": {"message": f"{quoted} Tools are not supported."}}))


def test_what_the_user_configured_is_not_changed_and_other_refusals_are_not_read() -> None:
    error = {"message": "Unsupported parameter: 'seed'"}
    assert changes(BODY, error, seed=1) == {}
    assert changes(GEMINI, error, generationConfig={"seed": 1}) == {}
    assert changes(BODY, error, status=401) == {}
    asked_for = {"message": "Set reasoning_effort to 'none'."}
    assert changes(BODY, asked_for, reasoning_effort="low") == {}
    assert refusals.not_own({"seed": None, "top_p": None}, {"seed": 1}) == {"top_p": None}
