from __future__ import annotations

import pytest

from aish_lsp.wording import accepted, dotted, nearest, secret_name, secret_value, shown


@pytest.mark.parametrize("name", ["api_key", "apiKey", "X-Api-Key", "auth_token", "PASSWORD"])
def test_names_of_secrets(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize("name", ["token_budget", "max_tokens", "monkey", "keep_turns", "author"])
def test_names_that_only_sound_like_secrets(name: str) -> None:
    assert not secret_name(name)


def test_looks_of_secrets() -> None:
    assert secret_value("sk-ant-" + "x1" * 12)
    assert secret_value("Authorization: Basic dXNlcjpwYXNz")
    assert not secret_value("OPENAI_API_KEY")
    assert not secret_value("pplx-70b-online-chat")
    assert not secret_value("ask-the-desk-clerk-about-the-long-task-list")
    assert not secret_value("qwen2.5-coder-7b-instruct-q4_k_m")


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
