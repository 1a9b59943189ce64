"""What `:help offline` shows of the table."""

from __future__ import annotations

import re

from aish_lsp.offline.catalogue import catalogue
from aish_lsp.offline.table import table


def test_without_a_text_the_families_are_shown_with_how_many_intents_each_has() -> None:
    shown = catalogue()
    assert all(title in shown for title in table().titles.values())
    counts = [int(count) for count in re.findall(r"\((\d+)\)$", shown, re.MULTILINE)]
    assert sum(counts) == len(table().intents)


def test_a_text_finds_what_is_asked_for_in_its_words() -> None:
    assert "`df -h .`" in catalogue("disk space")


def test_what_is_found_has_placeholders_and_no_slots() -> None:
    shown = catalogue("port")
    assert "<port>" in shown
    assert "{port}" not in shown


def test_a_family_is_shown_page_by_page_until_its_end() -> None:
    intents = sum(intent.family == "git-history" for intent in table().intents)
    shown, page = catalogue("git-history"), 1
    lines = shown.count("\n- ") + 1
    while f"`:help offline git-history {page + 1}`" in shown:
        page += 1
        shown = catalogue(f"git-history {page}")
        lines += shown.count("\n- ") + 1
    assert page > 1
    assert lines == intents


def test_a_page_behind_the_last_one_says_how_many_there_are() -> None:
    assert "only" in catalogue("git 900")


def test_a_text_that_the_table_does_not_have_is_said_to_be_unknown() -> None:
    assert "knows nothing about *xyzzy*" in catalogue("xyzzy")
