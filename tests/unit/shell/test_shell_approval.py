"""Who is asked before a command runs, and what they are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.foundation.events import Risk
from aish_lsp.shell.risk import UNHELD, Verdict
from aish_lsp.shell.suggestions import LINE_OF_SIGHT, Origin, needs_approval, question_for

FOLDER = Path("/work/here")
LONG = "touch " + "x" * LINE_OF_SIGHT


@pytest.mark.parametrize(
    ("risk", "origin", "asks"),
    [
        ("safe", "reply", False),
        ("caution", "reply", False),
        ("destructive", "reply", True),
        ("safe", "user", False),
        ("caution", "user", False),
        ("destructive", "user", True),
        ("safe", "document", True),
        ("caution", "document", True),
        ("destructive", "document", True),
    ],
)
def test_who_is_asked(risk: Risk, origin: Origin, asks: bool) -> None:
    assert needs_approval("x", Verdict(risk), origin, always=False) is asks
    assert needs_approval("x", Verdict(risk), origin, always=True)


def test_what_no_menu_shows_whole_is_shown_before_it_changes_anything() -> None:
    caution = Verdict("caution")
    assert needs_approval(LONG, caution, "reply", always=False)
    assert not needs_approval(LONG[:LINE_OF_SIGHT], caution, "reply", always=False)
    # What a menu shows of a line feed takes two characters.
    assert needs_approval("\n" * LINE_OF_SIGHT, caution, "reply", always=False)
    for only_reads in (Verdict("safe"), Verdict("caution", (UNHELD,))):
        assert not needs_approval(LONG, only_reads, "reply", always=False)
    assert needs_approval(LONG, Verdict("caution", (UNHELD, "writes")), "reply", always=False)
    assert not needs_approval(LONG, caution, "user", always=False)
    message = question_for(LONG, FOLDER, caution, "reply").message
    assert LONG in message
    assert "see all of it here" in message


def test_the_question() -> None:
    verdict = Verdict("destructive", ("deletes files", "in \u202e"))
    question = question_for("rm -rf x", FOLDER, verdict, "document")
    assert question.message == (
        "Run this command (destructive)?\n\n    rm -rf x\n\nin /work/here\n"
        "- deletes files.\n- in \\u202e.\n"
        "- it ran before, or is text in a document: no suggestion waits there."
    )
    assert (question.yes, question.no) == ("Run", "Cancel")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls \u202efdp.x", "    ls \\u202efdp.x"),
        ("ls\U000e0041\U000e0042", "    ls\\U000e0041\\U000e0042"),
        ("ls\u200b\x1b[2K\r", "    ls\\u200b\\x1b[2K\\r"),
        ("rm" + " " * 3000 + "-rf x", "    rm" + " " * 3000 + "-rf x"),
        # What reads like the question's own lines does not begin as they do.
        ("ls\n\nin /tmp\n- only reads", "    ls\n    \n    in /tmp\n    - only reads"),
        ("ls\u2028in /tmp", "    ls\\u2028in /tmp"),
    ],
)
def test_what_is_shown_is_all_there_is(text: str, shown: str) -> None:
    message = question_for(text, FOLDER, Verdict("destructive"), "reply").message
    head, _, tail = message.partition(shown)
    assert head == "Run this command (destructive)?\n\n"
    assert tail.startswith("\n\nin /work/here")
