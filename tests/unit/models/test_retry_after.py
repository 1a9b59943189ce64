"""How long servers ask to wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.models.faults import LONGEST, error_in_stream, redactor, refusal, retry_after

SPENT = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-remaining-tokens": "0"}
LEFT = {"x-ratelimit-remaining-requests": "59", "x-ratelimit-remaining-tokens": "149984"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2),
        ({"retry-after": "1e9"}, LONGEST),
        ({"x-ratelimit-reset-requests": "1s", **SPENT}, 1),
        ({"x-ratelimit-reset-tokens": "6m0s", **SPENT}, 360),
        ({"x-ratelimit-reset-tokens": "20ms", **SPENT}, 0.02),
        ({"x-ratelimit-reset-tokens": "26", **SPENT}, 26),
        (
            {"x-ratelimit-reset-requests": "1h2m3.5s", "x-ratelimit-reset-tokens": "9s", **SPENT},
            3723.5,
        ),
        ({"x-ratelimit-reset-requests": "8s", "x-ratelimit-reset-tokens": "6m0s", **LEFT}, None),
        ({"x-ratelimit-reset-tokens": "never", **SPENT}, None),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-reset-requests": "1s", **LEFT}, None),
        ({"x-ratelimit-reset": "4", "x-ratelimit-remaining": "0"}, 4),
        ({"ratelimit-reset": "4"}, 4),
        ({"retry-after": "2s"}, 2),
        ({"retry-after": "inf"}, LONGEST),
        ({"retry-after": "nan", "x-ratelimit-reset": "4"}, 4),
        ({"x-ratelimit-reset-tokens": "-1", **SPENT}, None),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "6m0s", **SPENT}, 2),
        ({}, None),
    ],
)
def test_headers(headers: dict[str, str], seconds: float | None) -> None:
    wanted = None if seconds is None else pytest.approx(seconds)
    assert retry_after(headers, "", limited=True) == wanted


def test_a_server_that_is_down_names_no_limit_that_is_spent() -> None:
    assert retry_after({"x-ratelimit-reset-tokens": "6m0s"}, "") is None


def test_a_moment_since_1970() -> None:
    now = datetime.now(UTC).timestamp()
    for moment in (str(int(now + 100)), str(int(now + 100) * 1000)):
        for name in ("x-ratelimit-reset", "anthropic-ratelimit-unified-reset"):
            told = retry_after({name: moment}, "", limited=True)
            assert told is not None
            assert 90 < told <= 100


@pytest.mark.parametrize("value", ["1" * 5000, "1" * 5000 + "x", "1m" * 5000 + "x", "1." * 5000])
def test_a_value_without_end_takes_no_time(value: str) -> None:
    """It took longer than there is, where digits could be split in any way."""
    for name in ("retry-after", "retry-after-ms", "x-ratelimit-reset-tokens"):
        told = retry_after({name: value, **SPENT}, f"Please try again in {value}.")
        assert told is None or 0 <= told <= LONGEST


def test_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    told = retry_after({"retry-after": later}, "")
    assert told is not None
    assert 90 < told <= 100
    assert retry_after({"retry-after": later.replace("GMT", "-0000")}, "") == pytest.approx(
        told, abs=1
    )


def anthropics(kind: str, remaining: str, reset: str) -> dict[str, str]:
    name = f"anthropic-ratelimit-{kind}"
    return {f"{name}-remaining": remaining, f"{name}-reset": reset}


def test_the_dates_of_anthropics_spent_limits() -> None:
    def told(*limits: tuple[str, str, float]) -> float | None:
        headers: dict[str, str] = {}
        for kind, remaining, seconds in limits:
            moment = datetime.now(UTC) + timedelta(seconds=seconds)
            headers |= anthropics(kind, remaining, moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        return retry_after(headers, "")

    assert told(("requests", "9", 60), ("tokens", "2000", 60)) is None
    assert told(("requests", "0", 100), ("input-tokens", "0", 200), ("tokens", "1", 300)) == (
        pytest.approx(200, abs=10)
    )
    assert told(("output-tokens", "0", -50)) == 0


def test_a_date_decades_ahead_is_not_taken_for_seconds_since_1970() -> None:
    assert retry_after(anthropics("requests", "0", "2062-01-01T00:00:00Z"), "") == LONGEST


@pytest.mark.parametrize("reset", ["", "soon", "12", "9999-12-31T23:59:59-23:00", "0001-01-01"])
def test_a_date_that_is_none(reset: str) -> None:
    told = retry_after(anthropics("requests", "0", reset), "")
    assert told is None or 0 <= told <= LONGEST


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (
            "Rate limit reached: Limit 10000, Used 8782. Please try again in 41.724s. Visit us.",
            41.7,
        ),
        ("Please try again in 20ms.", 0.02),
        ("Please try again in 6m0s. Contact us.", 360),
        ("Please try again in a while.", None),
        ("Please try again in 5 attempts.", None),
        ("Please retry after 2 seconds.", 2),
        ("Please retry in 7.39s.", 7.39),
        ("Try again in 500 milliseconds", 0.5),
        ("Please try again in 5minutes.", 300),
        ("Please try again in 1m30sec.", None),
    ],
)
def test_words(words: str, seconds: float | None) -> None:
    wanted = None if seconds is None else pytest.approx(seconds, rel=0.01)
    assert retry_after({}, words) == wanted
    error = {"type": "error", "code": "rate_limit_exceeded", "message": words}
    in_stream = error_in_stream("https://a.example", error, redactor({}))
    assert in_stream.data.get("retry_after") == wanted


def test_a_refusal_carries_it() -> None:
    headers = {"x-ratelimit-reset-tokens": "7s", **SPENT}
    error = refusal("https://a.example/v1", 429, headers, b"{}", redactor({}))
    assert error.data["retry_after"] == 7
    assert "again in 7 s" in error.message


@given(st.text(max_size=40), st.text(max_size=60))
def test_any_text_is_taken_for_what_it_is_worth(value: str, words: str) -> None:
    names = ("retry-after", "retry-after-ms", "x-ratelimit-reset-requests")
    for name in names:
        told = retry_after({name: value, **SPENT}, words)
        assert told is None or 0 <= told <= LONGEST
