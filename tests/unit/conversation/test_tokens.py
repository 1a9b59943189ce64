from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aish_lsp.conversation.tokens import _PIECES, count

ANY = st.text(st.characters(exclude_categories=()), max_size=200)


def test_nothing_is_nothing() -> None:
    assert count("") == 0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # Counted by a Qwen tokenizer; the estimate may be off by a quarter, or by two.
        ("hello world", 2),
        ("I'll list the files.\nCMD: ls -la\n", 12),
        ("def main(argv: list[str]) -> int:\n    return len(argv)\n", 15),
        ('{"name": "aish", "tags": ["a", "b"], "ok": true}', 21),
        ("getUserName(HTTPServer)", 5),
        ("    \n\n\n    x", 3),
        ("=" * 80, 1),
        ("total 24\ndrwxr-xr-x 2 root root 4096 Nov 21 22:01 docs\n", 32),
    ],
)
def test_the_estimate_is_near_a_real_tokenizer(text: str, tokens: int) -> None:
    assert abs(count(text) - tokens) <= max(2, 0.25 * tokens)


@given(ANY)
@example("\x00\x85\u2028\ud800\U0010ffff")
@example("\u0300\u200b٣")
def test_every_character_is_in_a_piece(text: str) -> None:
    assert "".join(match[0] for match in _PIECES.finditer(text)) == text


@given(ANY)
def test_a_count_is_a_whole_number_of_a_text_that_is_there(text: str) -> None:
    tokens = count(text)
    assert isinstance(tokens, int)
    assert bool(tokens) == bool(text)
    assert tokens <= 2 * len(text) + 1


@given(ANY, ANY)
def test_more_text_is_hardly_ever_less_and_parts_nearly_add_up(one: str, other: str) -> None:
    whole = count(one + other)
    assert whole >= max(count(one), count(other)) - 12
    assert abs(whole - count(one) - count(other)) <= 25


@given(ANY)
def test_twice_the_text_is_about_twice_the_tokens(text: str) -> None:
    lines = f"{text}\n"
    assert abs(count(lines * 40) - 40 * count(lines)) <= 40 * 3


@pytest.mark.parametrize("unit", [*" \n\ta=1(é的\x00", " (", "Aa", "\r\n", " \t", "😀", "x1", "a "])
def test_a_long_run_of_anything_is_counted_at_once(unit: str) -> None:
    begun = time.perf_counter()
    tokens = count(unit * 200_000)
    assert time.perf_counter() - begun < 10
    assert tokens > 1000
