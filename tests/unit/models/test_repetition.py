"""A reply that runs in circles is stopped, and no other."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aish_lsp.models.repetition import (
    GRAM,
    MOST,
    MOST_ALIKE,
    WITHIN,
    WITHIN_ALIKE,
    RepetitionGuard,
)

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("TESTS_SHARED") or ROOT / "../shared")

PHRASE = "To run the tests, you can run the tests in the tests folder, and then "
SHORT = "The test is a test. "


def stopped(*deltas: str) -> int | None:
    """Return after how many characters a text is stopped."""
    guard = RepetitionGuard()
    before = 0
    for delta in deltas:
        end = guard.take(delta)
        if end is not None:
            return before + end
        before += len(delta)
    return None


def within(found: int | None, least: int, most: int) -> bool:
    return found is not None and least <= found <= most


@pytest.mark.parametrize("phrase", [PHRASE, SHORT, "ha ", "\n", "=", "x" * GRAM, "wörd 😀 "])
@pytest.mark.parametrize("before", ["", "So:\n\n", "- a\n- b\n\nand then\n", "```\nx\n```\n"])
def test_prose_is_stopped_at_the_tenth_time(phrase: str, before: str) -> None:
    assert len(phrase) <= WITHIN / MOST
    found = stopped(before + phrase * 1000)
    least = len(before) + (MOST - 1) * max(GRAM, len(phrase)) + GRAM
    assert within(found, least - len(before), least + WITHIN)


@pytest.mark.parametrize("phrase", [PHRASE, "x" * GRAM])
def test_nine_times_are_no_circle(phrase: str) -> None:
    assert stopped(f"{phrase}" * 9) is None
    assert stopped(f"{phrase}" * 10) is not None


def test_what_is_far_apart_is_no_circle() -> None:
    rng = random.Random(1)
    text = "".join(
        PHRASE + "".join(rng.choices("abcdefgh ijklmnop", k=WITHIN // 10)) for _ in range(200)
    )
    assert stopped(text) is None


@pytest.mark.parametrize("length", [*range(-WITHIN, 1, 97), -1, 1])
@pytest.mark.parametrize("times", [1, 2])
def test_how_long_the_text_was_before_makes_no_difference(length: int, times: int) -> None:
    """What is remembered is exchanged each so many characters; none of it may be lost by that."""
    before = "".join(random.Random(1).choices("abcdefgh", k=times * WITHIN_ALIKE + length))
    assert stopped(before + PHRASE * 20) == len(before) + (stopped(PHRASE * 20) or 0)


ALIKE = {
    "a fence": ("```py\n", "value = compute(the_same_thing, of_all_things, 1234567)\n"),
    "a fence in a list": (
        "- so\n  ~~~\n",
        "  value = compute(the_same_thing, of_all_things, 1234567)\n",
    ),
    "a list": ("", "- the same thing again and again and again, and then more\n"),
    "a loose list": ("", "1. the same thing again and again and again, and then more\n\n"),
    "a list of two lines": ("", "* the same thing again and again\n  and again, and then more\n"),
    "a table": ("", "| the same thing again and again | and again, and then |\n"),
}


@pytest.mark.parametrize(("opening", "line"), ALIKE.values(), ids=ALIKE)
def test_where_much_is_alike_it_takes_forty_times(opening: str, line: str) -> None:
    assert GRAM < len(line) < 100
    assert stopped(opening + line * (MOST_ALIKE - 1)) is None
    assert within(
        stopped(opening + line * 100),
        len(opening) + (MOST_ALIKE - 1) * len(line),
        len(opening) + (MOST_ALIKE + 2) * len(line),
    )


def test_a_fence_that_is_closed_is_no_fence() -> None:
    assert stopped("```\nx\n```\n" + PHRASE * 20) is not None
    assert stopped("````\n```\n" + PHRASE * 20) is None
    assert stopped("- a list\n\nEnds here. " + PHRASE * 20) is not None


def test_a_wide_table_is_no_circle() -> None:
    row = f"| {'x'.ljust(200)} | {'y'.ljust(200)} |\n|{'-' * 202}|{'-' * 202}|\n"
    assert stopped(row * 100) is None


@pytest.mark.parametrize("item", ["- x\n", "- item {}\n", "  - the same thing\n", "1. so\n\n"])
@pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
def test_a_deep_list_is_no_circle_and_one_at_one_depth_is(item: str, indent: str) -> None:
    assert stopped("".join(indent * level + item.format(level) for level in range(100))) is None
    assert stopped(f"{indent * 12}{item}" * 300) is not None


@given(
    st.lists(st.sampled_from([PHRASE, SHORT, "\n", "```\n", "- x\n", "| x |\n", "abc", "1. "])),
    st.integers(0, 30),
    st.randoms(use_true_random=False),
)
def test_how_the_text_was_split_makes_no_difference(
    parts: list[str], times: int, rng: random.Random
) -> None:
    text = "".join(parts) * times
    cuts = sorted(rng.randint(0, len(text)) for _ in range(min(len(text), 20)))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert stopped(*deltas) == stopped(text)


def plainly(text: str) -> int | None:
    """Return where prose is stopped, by the rule as it is said."""
    return next(
        (
            end
            for end in range(GRAM, len(text) + 1)
            if text.count(text[end - GRAM : end], max(0, end - WITHIN), end) >= MOST
        ),
        None,
    )


@example([("aaaaaaaa ", 30), ("aaaaaaaaaaaaa", 36), ("aaaaaaaa ", 30)])
@given(
    st.lists(
        st.tuples(st.text("abc ", min_size=1, max_size=120), st.integers(1, 40)),
        min_size=1,
        max_size=4,
    )
)
def test_agrees_with_a_plain_reading_of_the_rule(parts: list[tuple[str, int]]) -> None:
    text = "".join(phrase * times for phrase, times in parts)[:3000]
    # A line of prose; no run of it is ever out of reach of the longer rule.
    assert stopped(f"x{text}") == plainly(f"x{text}")


@pytest.mark.slow
def test_no_page_of_ours_is_stopped() -> None:
    for page in ROOT.glob("docs/**/*.md"):
        assert stopped(page.read_text()) is None, page.name


def pieces(value: object, key: str = "") -> Iterator[str]:
    """Yield what a model said in an event, whatever protocol it is of."""
    if isinstance(value, str):
        yield value if key in {"content", "text", "delta", "reasoning", "thinking"} else ""
        yield value if key in {"reasoning_content", "partial_json", "arguments"} else ""
    elif isinstance(value, dict):
        if not str(value.get("type")).endswith((".done", ".completed")):
            for name, part in value.items():
                yield from pieces(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from pieces(part, key)


def said_in(path: Path) -> list[str]:
    """Return what a model said in a recorded reply, piece by piece."""
    said: list[str] = []
    for line in path.read_text(encoding="utf-8").replace("\r", "\n").split("\n"):
        payload = line.removeprefix("data:").strip()
        if payload.startswith(("{", "[")) and payload != "[DONE]":
            with contextlib.suppress(ValueError):
                # One that was recorded in part says nothing.
                said += pieces(json.loads(payload))
    return said


@pytest.mark.shared
@pytest.mark.slow
def test_no_recorded_reply_is_stopped() -> None:
    paths = [*SHARED.glob("recorded/**/*.sse"), *SHARED.glob("recorded/**/*.chunks.txt")]
    if not paths:
        pytest.skip(f"no recordings under {SHARED}")
    for path in paths:
        assert stopped(*said_in(path)) is None, path.name


@pytest.mark.slow
def test_time_and_memory_are_linear() -> None:
    rng = random.Random(1)
    text = "".join(rng.choices("abcdefgh \n", k=300_000))
    guard = RepetitionGuard()
    start = time.process_time()
    for character in text:
        assert guard.take(character) is None
    # Quadratic time would be hours.
    assert time.process_time() - start < 60
    assert len(guard._tail) <= WITHIN_ALIKE
