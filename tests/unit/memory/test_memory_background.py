"""Which items the model sees, and as what text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.memory.items import MemoryItem
from aish_lsp.memory.scopes import HEADING, background_text, select


def item(content: str, item_id: int = 1) -> MemoryItem:
    return MemoryItem(item_id, "2026-05-13T19:01:01Z", "fact", content)


def test_the_block_is_the_heading_and_a_line_an_item() -> None:
    items = [
        MemoryItem(2, "2026-05-14T00:00:00Z", "pref", "Terse replies.", ("style",)),
        MemoryItem(1, "2026-05-13T00:00:00Z", "fact", "Deploy with `make ship`."),
    ]
    assert background_text(items) == (
        "[background] (memory; manage with :memory)\n"
        "- (pref) Terse replies.\n"
        "- (fact) Deploy with `make ship`."
    )


def test_no_items_leave_no_trace() -> None:
    assert background_text([]) == ""


def test_a_newline_becomes_a_space_and_controls_go() -> None:
    text = background_text([item("one\ntwo\r\nthree\u2028four\x00\x1b[31m\u202e\ud800!")])
    assert text == f"{HEADING}\n- (fact) one two three four[31m!"
    hidden = item("a\u00ad\u061c\ufe0f\u3164\U000e0100b")
    assert background_text([hidden]) == f"{HEADING}\n- (fact) ab"


@given(st.text(st.characters()))
def test_an_item_is_one_line_that_utf8_can_encode(content: str) -> None:
    text = background_text([item(content)])
    assert len(text.splitlines()) == 2
    assert text.encode().decode().split("\n")[1].startswith("- (fact) ")


def test_items_are_taken_until_the_characters_are_used_up() -> None:
    items = [item("x" * 10, 3), item("y" * 10, 2), item("z", 1)]
    # "- (fact) " and ten characters and the line's end
    assert select(items, 40).items == tuple(items[:2])
    assert (select(items, 40).dropped, select(items, 40).characters) == (1, 40)
    assert select(items, 39).items == tuple(items[:1])
    assert select(items, 51).items == tuple(items)
    assert select(items, 0).items == ()
    assert (select([], 10).items, select([], 10).dropped) == ((), 0)


def test_what_could_never_fit_does_not_keep_the_others_out() -> None:
    items = [item("x" * 5000, 2), item("small", 1)]
    selected = select(items, 2000)
    assert (selected.items, selected.dropped) == ((items[1],), 1)


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(0, 200))
def test_the_count_is_that_of_the_lines(contents: list[str], limit: int) -> None:
    selected = select([item(content) for content in contents], limit)
    lines = background_text(selected.items).removeprefix(HEADING).removeprefix("\n")
    assert selected.characters == (len(lines) + 1 if selected.items else 0)
    assert selected.characters <= limit
    assert len(selected.items) + selected.dropped == len(contents)
