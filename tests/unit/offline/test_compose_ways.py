"""Which ways to say a clause are compiled: none that a sentence could use is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.offline.compose.files import _NOT
from aish_lsp.offline.compose.grammar import Phrase, clauses

WAYS = [
    way
    for section, before in (("predicates", _NOT), ("files", ""), ("lines", ""))
    for ways in clauses(section, before).values()
    for way in ways
]


@given(st.data())
def test_a_text_that_a_way_matches_can_be_said_in_that_way(drawn: st.DataObject) -> None:
    way = drawn.draw(st.sampled_from(WAYS))
    ascii_only = st.characters(max_codepoint=127)
    text = drawn.draw(st.from_regex(way.pattern, fullmatch=True, alphabet=ascii_only))
    assert way.is_possible(text.lower()), way.text


@pytest.mark.parametrize(
    ("phrase", "text", "possible"),
    [
        ("sort by size", "sort by name ", False),
        ("sort by size", "sort them by size ", True),
        ("sort [by size]", "sort ", True),
        ("(name|path) [of]", "size ", False),
        ("(name|path) [of]", "path ", True),
        ("(name|[any] path|NAME) of", "of ", True),
        ("contain~ TEXT", "holding ", False),
        ("contain~ TEXT", "containing string ", True),
        ("older than SPAN", "older than <number:0> ", False),
        ("older than SPAN", "older than <span:0> ", True),
        ("MORE", "smaller than ", False),
        ("MORE", "bigger than ", True),
        ("this one|here", "there ", True),
        ("this one|here", "that ", False),
    ],
)
def test_a_way_is_possible_where_the_text_has_the_words_that_it_needs(
    phrase: str, text: str, possible: bool
) -> None:
    assert Phrase(phrase).is_possible(text) is possible


def test_a_sentence_has_the_words_of_few_ways() -> None:
    possible = [way for way in WAYS if way.is_possible("list files by size ")]
    assert len(possible) < len(WAYS) / 10
