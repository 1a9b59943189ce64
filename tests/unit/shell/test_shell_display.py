from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.shell.display import hidden_characters, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls -la 'x y' \"é ü 漢字 🎉\"", "ls -la 'x y' \"é ü 漢字 🎉\""),
        ("printf '\\n'", "printf '\\n'"),
        ("a\rb", "a\\rb"),
        ("a\x1b[2Kb", "a\\x1b[2Kb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("a\u200bb\u200d\ufeff", "a\\u200bb\\u200d\\ufeff"),
        ("a\U000e0041", "a\\U000e0041"),
        ("a\ufe0f\U000e0100", "a\\ufe0f\\U000e0100"),
        ("a\u00a0b\u3000c\u2028d", "a\\xa0b\\u3000c\\u2028d"),
        ("a\u3164b\u2800c\u034f", "a\\u3164b\\u2800c\\u034f"),
        ("a\x00\x7f\x9b", "a\\x00\\x7f\\x9b"),
        ("a\ud800", "a\\ud800"),
        ("a\nb\tc", "a\\nb\\tc"),
    ],
)
def test_shown(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_hidden_characters_are_named_once() -> None:
    assert hidden_characters("ls\u202e \u202e\x1b") == ("U+202E RIGHT-TO-LEFT OVERRIDE", "U+001B")


@pytest.mark.parametrize("text", ["ls -la", "echo é 漢字 🎉", "if x\n\tthen y", ""])
def test_nothing_is_hidden(text: str) -> None:
    assert hidden_characters(text) == ()


@given(st.text())
def test_what_is_shown_is_visible_on_one_line(text: str) -> None:
    result = shown(text)
    assert result.isprintable()
    assert not any(unicodedata.category(c) in ("Cf", "Cc", "Zl", "Zp") for c in result)
    assert hidden_characters(result) == ()
    if result != text:
        assert hidden_characters(text) or "\n" in text or "\t" in text
