"""Easy questions: the words of a phrasing are enough, without its values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from aish_lsp.offline.deeds import only_asks, risk_of
from aish_lsp.offline.matching import THRESHOLD, understood
from aish_lsp.offline.model import is_unknown, reply
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.table import Intent, Phrasing, Slot, table
from aish_lsp.offline.tokens import cut
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.words import words
from aish_lsp.offline.workspace import WorkspaceFacts

#: Each how many of the table's phrasings are asked.
_EACH = 61


def _short() -> Iterator[tuple[str, Intent, set[str]]]:
    """Yield what is asked for with two or more words: "a branch" for a slot, or nothing for it."""
    known = table()
    for phrasing in islice(known.phrasings, 0, None, _EACH):
        intent = known.intents[phrasing.intent]
        terms = set(phrasing.terms)
        if not phrasing.slots or intent.topic or "'s" in phrasing.wording:
            continue
        if len(terms) >= 2:
            yield " ".join(word for word in phrasing.wording if word[0] != "{"), intent, terms
            if len(phrasing.slots) == 1 and _is_called(phrasing.slots[0], phrasing):
                kind = phrasing.slots[0].kind
                words_of = (f"a {kind}" if word[0] == "{" else word for word in phrasing.wording)
                yield " ".join(words_of), intent, terms | {words().term(kind)}


def _is_called(slot: Slot, phrasing: Phrasing) -> bool:
    """Return whether the word for the kind of ``slot`` is a word by itself, and not there yet."""
    term = words().term(slot.kind)
    return bool(term) and term not in phrasing.terms and slot.kind not in ("first", "last")


@pytest.mark.slow
def test_the_words_of_a_phrasing_are_enough(tmp_path: Path) -> None:
    lost = []
    for question, intent, terms in _short():
        bare = words().bare(question)
        tokens = cut(bare, WorkspaceFacts(tmp_path))
        if any(token.kinds for token in tokens) or {t.term for t in tokens} - {""} != terms:
            continue  # Without the value its words mean something else: "number of".
        if only_asks(bare) and risk_of(intent) != "safe":
            continue  # "is too old, update it": what changes something is not what is asked.
        found = understood(tokens, bare)
        if not found or found[0].confidence < THRESHOLD:
            lost.append(question)
    assert not lost, (len(lost), lost[:60])


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("list files", "ls -la"),
        ("create a folder", "mkdir -p <folder>"),
        ("make a directory", "mkdir -p <folder>"),
        ("remove a file", "rm <file>"),
        ("delete a folder", "rm -r <folder>"),
        ("create a branch", "git switch -c <branch>"),
        ("delete a branch", "git branch -d <branch>"),
        ("merge a branch", "git merge <branch>"),
        ("list processes", "ps aux"),
        ("kill a process", "pkill -x -- <process>"),
        ("rename a file", "mv -i <path> <path>"),
        ("edit a file", "${EDITOR:-vi} <file>"),
        ("compare two files", "diff -u <file> <file>"),
        ("install a package", "install <package>"),
        ("stop a container", "docker stop <container>"),
        ("start a service", "systemctl start <service>"),
        ("ping", "ping -c 4 <host>"),
        ("download a file", "<url>"),
        ("sort a file", "sort <file>"),
    ],
)
def test_an_easy_question_is_answered(tmp_path: Path, question: str, command: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").write_text("")
    answer = reply(TypedQuestion(question), tmp_path)
    assert not is_unknown(answer), answer
    assert command in answer


def test_a_word_that_is_a_name_here_as_well_is_a_word(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    assert not is_unknown(reply(TypedQuestion("run tests"), tmp_path))


def test_what_turns_the_sense_is_heeded() -> None:
    known = table()
    asked = {"delete", "branch"}
    phrasings = [known.phrasings[number] for number in ranking().saying_just(asked)]
    assert phrasings
    tokens = cut("delete merged branches", WorkspaceFacts(Path("/nowhere")))
    assert "merged" in understood(tokens, "delete merged branches")[0].intent.name


@pytest.mark.parametrize("question", ["delete files", "remove files", "delete the branches"])
def test_all_is_not_lost_where_nobody_said_all(tmp_path: Path, question: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.txt").write_text("")
    answer = reply(TypedQuestion(question), tmp_path)
    assert "CMD: rm *" not in answer
    assert "-delete" not in answer
    assert "<" in answer or "CMD: " not in answer
