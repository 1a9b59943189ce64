"""How long servers ask to wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.models.faults import LONGEST, error_in_stream, redactor, refusal, retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2),
        ({"retry-after": "1e9"}, LONGEST),
        ({"retry-after": "2s"}, 2),
        ({"retry-after": "inf"}, LONGEST),
        ({"retry-after": "6m0s"}, 360),
        ({"retry-after": "1h2m3.5s"}, 3723.5),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_headers(headers: dict[str, str], seconds: float | None) -> None:
    wanted = None if seconds is None else pytest.approx(seconds)
    assert retry_after(headers, "") == wanted


@pytest.mark.parametrize("value", ["1" * 5000, "1" * 5000 + "x", "1m" * 5000 + "x", "1." * 5000])
def test_a_value_without_end_takes_no_time(value: str) -> None:
    """It took longer than there is, where digits could be split in any way."""
    for name in ("retry-after", "retry-after-ms"):
        told = retry_after({name: value}, f"Please try again in {value}.")
        assert told is None or 0 <= told <= LONGEST


def test_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    told = retry_after({"retry-after": later}, "")
    assert told is not None
    assert 90 < told <= 100
    assert retry_after({"retry-after": later.replace("GMT", "-0000")}, "") == pytest.approx(
        told, abs=1
    )


@pytest.mark.parametrize("later", ["", "soon", "12", "9999-12-31T23:59:59-23:00", "0001-01-01"])
def test_a_date_that_is_none(later: str) -> None:
    told = retry_after({"retry-after": later}, "")
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
    headers = {"retry-after": "7s"}
    error = refusal("https://a.example/v1", 429, headers, b"{}", redactor({}))
    assert error.data["retry_after"] == 7
    assert "again in 7 s" in error.message


@given(st.text(max_size=40), st.text(max_size=60))
def test_any_text_is_taken_for_what_it_is_worth(value: str, words: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        told = retry_after({name: value}, words)
        assert told is None or 0 <= told <= LONGEST
