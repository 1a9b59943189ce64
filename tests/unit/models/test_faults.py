"""What servers say when they refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from aish_lsp.foundation.errors import BackendRejected, BackendUnavailable
from aish_lsp.models.faults import (
    QUOTE_LIMIT,
    error_in_stream,
    is_bad_key,
    quoted,
    redactor,
    refusal,
)

URL = "https://api.example/v1/chat/completions?key=hidden"


def refused(body: Any, status: int = 400, headers: dict[str, str] | None = None) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refusal(URL, status, headers or {}, raw, redactor({}))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "no such model", "type": "t", "code": None}}, "no such model"),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ([{"error": {"code": 400, "message": "API key not valid"}}], "API key not valid"),
        ({"detail": "Not authenticated"}, "Not authenticated"),
        (
            {"detail": [{"loc": ["body", "top_p"], "msg": "Extra inputs", "type": "x"}]},
            "body.top_p: Extra inputs",
        ),
        (
            {"object": "error", "message": {"detail": [{"loc": ["body", "a"], "msg": "bad"}]}},
            "body.a: bad",
        ),
        ({"object": "error", "message": "Unauthorized", "code": 401}, "Unauthorized"),
        ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two"),
        (
            {"error": {"message": "Provider error", "metadata": {"raw": "slow down"}}},
            "Provider error: slow down",
        ),
        (
            {"error": {"message": "Provider error", "metadata": {"raw": '{"error": "slow down"}'}}},
            "Provider error: slow down",
        ),
        (
            {"error": {"message": 'Upstream said 400: {"error": {"message": "too long"}} (x)'}},
            "Upstream said 400: too long",
        ),
        ({"error": '{"message": "too long", "code": 400}'}, "too long"),
        (
            {"error": {"message": 'Invalid schema {"title": "A", "message": {}} in tool'}},
            'Invalid schema {"title": "A", "message": {}} in tool',
        ),
        ({"error": "{" * 1000}, "{" * QUOTE_LIMIT + "…"),
        ({"error": True, "message": "plain"}, "plain"),
        (b"upstream connect error", "upstream connect error"),
        (b"<html><body><h1>502 Bad Gateway</h1></body></html>", "an HTML page (502 Bad Gateway)"),
        (b"<html><title>" * 9000, "an HTML page ()"),
        (b"<html>" + b"<" * 60_000, f"an HTML page ({'<' * 120}…)"),
        (b"", "no reason given"),
        ({}, "no reason given"),
        ([], "no reason given"),
        (None, "no reason given"),
        (
            {"error": {"error": {"error": {"error": {"error": {"error": {"error": "deep"}}}}}}},
            "no reason given",
        ),
        (b"[" * 100_000, ("[" * QUOTE_LIMIT) + "…"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (
            {"error": {"type": "request_fail", "upstream": {"error": {"message": "Invalid x"}}}},
            "Invalid x",
        ),
    ],
)
def test_the_words_in_every_usual_shape(body: Any, words: str) -> None:
    error = refused(body)
    assert isinstance(error, BackendRejected)
    assert error.data["provider_message"] == words
    assert words in error.message
    assert "https://api.example/v1/chat/completions refused the request (400)" in error.message
    assert "hidden" not in error.message


def test_long_words_are_cut_short_and_on_one_line() -> None:
    error = refused({"error": {"message": "a\nb " * QUOTE_LIMIT}})
    words = error.data["provider_message"]
    assert len(words) == QUOTE_LIMIT + 1
    assert "\n" not in words


def test_a_prompt_that_is_too_long_tells_its_tokens() -> None:
    body = {
        "error": {
            "code": 400,
            "message": "too long",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 900,
            "n_ctx": 512,
        }
    }
    assert refused(body).data == {
        "status": 400,
        "provider_message": "too long",
        "type": "exceed_context_size_error",
        "code": 400,
        "n_prompt_tokens": 900,
        "n_ctx": 512,
    }


def test_the_innermost_error_tells_its_fields() -> None:
    inner = {"type": "exceed_context_size_error", "n_prompt_tokens": 900, "n_ctx": 512}
    said = json.dumps({"error": {"message": "too long", **inner}})
    outer = {"error": {"message": f"From upstream: {said}", "type": "upstream_error", "code": 400}}
    error = refused(outer)
    assert error.data == {
        "status": 400,
        "provider_message": "From upstream: too long",
        "code": 400,
        **inner,
    }


@pytest.mark.parametrize(
    ("status", "words", "hint"),
    [
        (401, "no", "Check the key: the model's `api_key_env`"),
        (402, "no", "Top up the account"),
        (403, "no", "Check the key, and whether it may"),
        (404, "no", "`endpoint` and `model`."),
        (413, "no", "`token_budget`"),
        (422, "no", "Check the model's settings."),
        (400, "Incorrect API key provided: ab***yz", "`api_key_env`"),
        (400, "temperature: must be at most 1", "`temperature`."),
        (400, "Unsupported parameter: 'max_tokens' with this model", "`max_output_tokens`."),
        (400, "Invalid value at 'generation_config.maxOutputTokens'", "`max_output_tokens`."),
        (400, "`thinking.budget_tokens`: must be greater than 1024", "`reasoning_effort`."),
        (400, "Unsupported value: 'reasoning.effort'", "`reasoning_effort`."),
        (400, "'stop' is not supported", "`stop`."),
        (400, "Unrecognized request argument supplied: grammer", "`extra_body`."),
        (400, "invalid model ID", "`model`."),
    ],
)
def test_a_refusal_says_what_to_look_at(status: int, words: str, hint: str) -> None:
    said = refused({"error": words}, status)
    assert hint in said.message
    assert is_bad_key(said.data) == ("key" in hint)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        ({"type": "authentication_error", "message": "m"}, "`api_key_env`"),
        ({"type": "permission_error", "message": "m"}, "whether it may use"),
        ({"type": "billing_error", "message": "m"}, "Top up"),
        ({"type": "not_found_error", "message": "m"}, "`endpoint` and `model`"),
        ({"type": "invalid_request_error", "message": "bad top_p"}, "`top_p`"),
        ({"code": 401, "message": "m"}, "`api_key_env`"),
    ],
)
def test_a_refusal_within_a_stream_says_it_too(error: Any, hint: str) -> None:
    made = error_in_stream(URL, error, redactor({}))
    assert isinstance(made, BackendRejected)
    assert hint in made.message


def test_what_was_blocked_is_not_for_a_setting_to_change() -> None:
    made = error_in_stream(URL, {"type": "blocked", "message": "the model was"}, redactor({}))
    assert made.message.endswith("the model was.")


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://other.example/v1", " to https://other.example (301)"),
        ("//other.example/v1", " to https://other.example (301)"),
        ("/v2", " redirects (301)"),
        ("", " redirects (301)"),
        ("http://a]b/", " redirects (301)"),
    ],
)
def test_where_a_redirect_goes(location: str, target: str) -> None:
    said = refusal(URL, 301, {"location": location}, b"", redactor({}))
    assert isinstance(said, BackendRejected)
    assert target in said.message


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_what_may_pass_is_unavailable(status: int) -> None:
    assert isinstance(refused({"error": "later"}, status), BackendUnavailable)


@pytest.mark.parametrize("value", ["", "soon", "nan", "-"])
def test_a_senseless_retry_after_is_dropped(value: str) -> None:
    assert "retry_after" not in refused({}, 429, {"retry-after": value}).data


def test_retry_after_as_seconds_or_as_a_date() -> None:
    assert refused({}, 429, {"retry-after": "1.5"}).data["retry_after"] == 1.5
    assert refused({}, 429, {"retry-after": "-5"}).data["retry_after"] == 0
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < refused({}, 503, {"retry-after": later}).data["retry_after"] <= 100


def google_error(code: int, **detail: object) -> dict[str, object]:
    details = [{"@type": "type.googleapis.com/google.rpc.Help", "links": []}, detail, None]
    return {"error": {"code": code, "message": "m", "status": "S", "details": details}}


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [("12s", 12), ("0.25s", 0.25), ("1m", 60), ("s", None), ("-3s", None), (12, None)],
)
def test_the_time_to_wait_in_a_google_error(delay: object, seconds: float | None) -> None:
    data = refused(google_error(429, retryDelay=delay), 429).data
    assert data.get("retry_after") == seconds
    assert refused([google_error(503, retryDelay="7s")], 503).data["retry_after"] == 7
    within = error_in_stream(URL, google_error(429, retryDelay=delay)["error"], redactor({}))
    assert within.data.get("retry_after") == seconds


def test_the_headers_that_openrouter_repeats() -> None:
    moment = str(int((datetime.now(UTC).timestamp() + 100) * 1000))
    headers = {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": moment}
    error = {"code": 429, "message": "m", "metadata": {"headers": headers, "provider_name": None}}
    for data in (
        refused({"error": error}, 429).data,
        error_in_stream(URL, error, redactor({})).data,
    ):
        assert 90 < data["retry_after"] <= 100


def test_a_key_that_google_does_not_take_is_told_as_one() -> None:
    error = refused(google_error(400, reason="API_KEY_INVALID"), 400)
    assert is_bad_key(error.data)
    assert "`api_key_env`" in error.message
    other = refused(google_error(400, reason="BILLING"), 400)
    assert not is_bad_key(other.data)
    assert "key" not in other.message


@pytest.mark.parametrize("details", [None, 1, "x", {}, [1, {"retryDelay": {}}]])
def test_odd_details_of_a_google_error_are_passed_over(details: object) -> None:
    body = {"error": {"message": "m", "details": details}}
    assert "retry_after" not in refused(body, 429).data


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 502, "message": "m"}, BackendUnavailable),
        ({"code": 429, "message": "m"}, BackendUnavailable),
        ({"code": 400, "message": "m"}, BackendRejected),
        ({"code": "402", "message": "m"}, BackendRejected),
        ({"code": "tool_use_failed", "status_code": 400, "message": "m"}, BackendRejected),
        ({"type": "invalid_request_error", "code": None, "message": "m"}, BackendRejected),
        ({"type": "server_error", "message": "m"}, BackendUnavailable),
        ({"code": "rate_limit_exceeded", "message": "m"}, BackendUnavailable),
        ("m", BackendUnavailable),
    ],
)
def test_errors_within_a_stream(error: Any, kind: type[Exception]) -> None:
    made = error_in_stream(URL, error, redactor({}))
    assert type(made) is kind
    assert made.message.startswith("https://api.example broke off the reply: m. ")
    assert made.message.endswith(" Ask again.") == (kind is BackendUnavailable)
    assert made.data["provider_message"] == "m"


def test_secrets_of_the_request_are_blotted_out() -> None:
    headers = {
        "Authorization": "Bearer sk-abcdef",
        "X-Api-Key": "other-key",
        "X-Title": "editor",
        "Cookie": "no",
    }
    redact = redactor(headers)
    assert redact("sk-abcdef other-key editor no") == "*** *** editor no"
    error = error_in_stream(URL, {"message": "bad sk-abcdef", "type": "sk-abcdef"}, redact)
    assert "sk-abcdef" not in error.message + str(error.data)


def test_quoting_a_page() -> None:
    assert quoted(b"<html><title>a  b</title>") == "an HTML page (a b)"
    assert len(quoted(b"x" * 1000)) == 121
