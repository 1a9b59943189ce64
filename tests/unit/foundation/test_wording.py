from __future__ import annotations

from aish_lsp.foundation.wording import accepted, dotted, nearest, shown


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
