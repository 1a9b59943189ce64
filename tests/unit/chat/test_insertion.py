"""Where the next text comes in a document that its user edits meanwhile."""

from __future__ import annotations

import pytest

from aish_lsp.chat.insertion import Insertion, Piece, compose

HEAD = "## You\n\nhow?\n\n## aish\n\n"
REPLY = "A reply of a few words"


def goes_on(text: str, tail: str) -> str:
    """Return ``text`` once " more" has gone on behind ``tail``."""
    insertion = compose(text, tail, [Piece(" more", apart=False, goes="on")])
    return insertion.made_in(text) + text[insertion.offset :]


@pytest.mark.parametrize(
    "edited",
    [
        "typed\n" + HEAD,
        HEAD.replace("how?", "how is that?"),
        HEAD.replace("how?", ""),
        "",
    ],
)
@pytest.mark.parametrize("below", ["", "\n", "\n\nmy next question"])
def test_what_the_user_changes_above_does_not_break_a_reply(edited: str, below: str) -> None:
    tail = Insertion(len(HEAD), REPLY).tail_in(HEAD)
    assert goes_on(edited + REPLY + below, tail) == f"{edited}{REPLY} more{below}"


def test_of_two_places_that_look_alike_the_longer_likeness_counts() -> None:
    tail = f"one two three {REPLY}"
    text = f"one two three {REPLY}\n\nmy quote: {REPLY}"
    assert goes_on(text, tail) == f"one two three {REPLY} more\n\nmy quote: {REPLY}"


@pytest.mark.parametrize("edited", [REPLY[:-1], f"{REPLY[:-3]}...", "", "words"])
def test_where_the_end_itself_was_changed_it_goes_on_at_the_end_apart(edited: str) -> None:
    text = HEAD + edited
    tail = Insertion(len(HEAD), REPLY).tail_in(HEAD)
    assert goes_on(text, tail).startswith(text)
    assert goes_on(text, tail).endswith("\n\n more")
