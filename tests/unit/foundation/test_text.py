from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation.text import (
    BIDI,
    ODD_LINE_ENDS,
    accepted,
    dotted,
    escaped,
    hidden_characters,
    is_seen,
    line_start,
    nearest,
    one_line,
    shown,
    well_formed,
    with_line_feeds,
    without_hidden,
)


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
def test_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_hidden_characters_are_named_once() -> None:
    assert hidden_characters("ls\u202e \u202e\x1b") == ("U+202E RIGHT-TO-LEFT OVERRIDE", "U+001B")


@pytest.mark.parametrize("text", ["ls -la", "echo é 漢字 🎉", "if x\n\tthen y", ""])
def test_nothing_is_hidden(text: str) -> None:
    assert hidden_characters(text) == ()


@given(st.text())
def test_what_is_escaped_is_visible_on_one_line(text: str) -> None:
    result = escaped(text)
    assert result.isprintable()
    assert not any(unicodedata.category(c) in ("Cf", "Cc", "Zl", "Zp") for c in result)
    assert hidden_characters(result) == ()
    if result != text:
        assert hidden_characters(text) or "\n" in text or "\t" in text


def test_no_space_but_the_plain_one_and_nothing_unassigned_is_seen() -> None:
    assert is_seen("a b é 漢字 🎉 \u0301")
    for hidden in (*BIDI, *ODD_LINE_ENDS, *"\n\t\x00\u00a0\u3000\u2800\U0001d159\U000e0020\ue000"):
        assert not is_seen(f"a{hidden}b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\n\tb\n", "a\n\tb\n"),
        ("a\rb\x1b[0m\x00\x7f\x9b", "ab[0m"),
        ("a\u00a0b\u3000c\u202fd", "a b c d"),
        ("zero\u200bwidth\u200d\ufeff\u00ad", "zerowidth"),
        ("\u202eb\u2066\u2069\u200f\u061c", "b"),
        ("t\U000e0041ag \ufe0f\U000e0100 \u3164\u2800\U0001d159", "tag  "),
        ("a\u2028b\x85c\vd", "abcd"),
        ("a\ud800\ue000b", "ab"),
        ("é 漢字 🎉", "é 漢字 🎉"),
    ],
)
def test_what_is_hidden_goes(text: str, expected: str) -> None:
    assert without_hidden(text) == expected


@given(st.text())
def test_nothing_hidden_is_left_and_nothing_seen_goes(text: str) -> None:
    clean = without_hidden(text)
    assert is_seen(clean.replace("\n", "").replace("\t", ""))
    assert without_hidden(clean) == clean
    assert [c for c in clean if c != " "] == [
        c for c in text.replace("\r\n", "\n") if c != " " and (c in "\n\t" or is_seen(c))
    ]


def test_one_line_has_a_blank_for_each_line_end() -> None:
    assert one_line("a\nb\r\nc\rd\u2028e\x85\x1cf\tg") == "a b c d e  f\tg"


@given(st.text())
def test_one_line_is_one_to_every_reader(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


def test_line_feeds_for_the_line_ends_of_lsp() -> None:
    assert with_line_feeds("a\r\nb\rc\n\u2028\r\r\n") == "a\nb\nc\n\u2028\n\n"


def test_surrogates_are_joined_or_replaced() -> None:
    assert well_formed("a\ud83d\ude00b") == "a😀b"
    assert well_formed("a\ud83db\udce9") == "a\ufffdb\ufffd"
    assert well_formed("é[project]\r\n\u200b") == "é[project]\r\n\u200b"


@given(st.text(st.characters()))
def test_a_well_formed_text_can_be_sent(text: str) -> None:
    well_formed(text).encode()


def test_values_are_shown_short_and_without_tricks() -> None:
    assert shown("a\n\u202eb") == '"a\\n\\u202eb"'
    assert shown("a\ufe0f\U000e0041") == '"a\\ufe0f\\udb40\\udc41"'
    assert shown("x" * 1000) == '"' + "x" * 40 + '"... (1000 characters)'
    assert len(dotted(("models", "y" * 1000, 3))) < 100


def test_nearest_names() -> None:
    assert nearest("max_turn", ["max_turns", "depth"]) == 'did you mean "max_turns"?'
    assert nearest("zzz", ["a", "b"]) == "known: a, b"
    assert nearest("zzz", []) == "there are none"


def test_accepted_in_words() -> None:
    assert accepted(int, 1, None) == "a whole number of at least 1"
    assert accepted(list[str]) == "a list of strings"
    assert accepted(str | None) == "a string"


@given(st.lists(st.sampled_from(["", "a", "é漢🎉", "x" * 3000])), st.integers(0, 40))
def test_line_start_in_short_and_long_texts_counts_line_feeds_only(
    lines: list[str], number: int
) -> None:
    text = "\n".join(lines)
    expected = sum(len(line) + 1 for line in text.split("\n")[:number])
    assert line_start(text, number) == min(expected, len(text))
