"""The class of a question, and the model that it names."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.agent.model_choice import addressed, classify, rules
from aish_lsp.config.schema import QuestionClass

CHAT = classify("")
TRACE = (
    'What is this?\nTraceback (most recent call last):\n  File "a.py", line 3, in f\nKeyError: 1'
)
JAVA = "Was ist das?\n\tat org.example.Main.run(Main.java:12)\n"

QUESTIONS = {
    "shell": [
        "how do I run the tests here?", "list the largest files", "git rebase on main",
        "  ls -la", "find . -name '*.pyc'", "make -j4 fails", "install ripgrep",
        "what listens on port 8080?", "$ cargo build\nwas heißt das?",
        "docker compose up bleibt stehen",
        "```console\nfoo\n```", "/var/log/syslog ist voll", "what does `ls -l` show?",
        "delete all empty files", "~/.bashrc",
    ],
    "code": [
        "fix the bug in the parser", "Write a function that lists files", TRACE, JAVA,
        "```python\nx = 1\n```", "~~~\nx\n~~~", "src/main.rs geht nicht", "¿Qué hace foo(x)?",
        "main.c:12:3: error: expected ';'", "--- a/x\n+++ b/x\n@@ -1 +1 @@", "error[E0382]: moved",
        "What is a decorator?", "find a bug in this method", "const x = () => 1",
    ],
    "chat": [
        "hello", "Are you there?", "tell me a joke", "Wie spät ist es?", "你好", "", "thanks!",
        "what is a monad?", "e.g. this or i.e. that", "3.5 m", "make it shorter",
    ],
    "reasoning": [
        "Think step by step about how the queue can overflow", "why is the sky blue?",
        "Warum ist das so?", "¿Por qué?", "为什么天是蓝的", "Is Rust better than Go?",
        "compare the two", "what are the trade-offs of ```x```?", "prove that it ends",
        "should I use a queue?",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("class_", "question"), [(name, one) for name, many in QUESTIONS.items() for one in many]
)
def test_a_question_is_taken_for(class_: str, question: str) -> None:
    found = classify(question)
    assert found.class_ == class_, found.why


@pytest.mark.parametrize("case", [str.upper, str.title])
def test_letters_may_be_large(case: type[str]) -> None:
    assert classify(case("how do i run the tests?")).class_ == "shell"


def test_each_row_of_the_table_is_met_by_a_question_above() -> None:
    met = {classify(question) for many in QUESTIONS.values() for question in many}
    assert {found for found, _ in rules()} <= met


def test_every_class_has_a_row_but_chat() -> None:
    assert {found.class_ for found, _ in rules()} == {*get_args(QuestionClass)} - {"chat"}


def test_the_page_has_the_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "models.md"
    rows = re.findall(
        r"^\| (shell|code|chat|reasoning) \| (.+) \|$", page.read_text(), re.MULTILINE
    )
    assert rows == [*((found.class_, found.why) for found, _ in rules()), (CHAT.class_, CHAT.why)]


@given(st.text(max_size=3000))
def test_any_text_has_a_class_and_always_the_same(text: str) -> None:
    found = classify(text)
    assert found.class_ in get_args(QuestionClass)
    assert found == classify(text)


@given(st.text(max_size=800), st.text(max_size=800), st.text(max_size=5000))
def test_what_is_pasted_in_the_middle_has_no_say(begin: str, end: str, middle: str) -> None:
    begin, end = f"{begin:<500}"[:500], f"{end:>500}"[-500:]
    assert classify(begin + middle + "x" + end) == classify(f"{begin}{'x' * 9}{end}")


PIECES = ("a", " ", "\n", "a/", "x.", "list ", "fix ", "which ", "\n at a", "`", "a(", "1:", "~")


@pytest.mark.parametrize("piece", [*PIECES, "\N{GREEK SMALL LETTER ALPHA}", "\N{THUMBS UP SIGN}"])
def test_a_megabyte_of_anything_takes_no_time(piece: str) -> None:
    question = piece * ((1 << 20) // len(piece))
    classify(question)
    seconds = min(_seconds(question) for _ in range(5))
    # Two milliseconds here; a pattern that backtracks takes seconds.
    assert seconds < 0.1


def _seconds(question: str) -> float:
    begun = time.process_time()
    classify(question)
    return time.process_time() - begun


NAMES = ("local", "gpt-4.1", "my model", "offline")


@pytest.mark.parametrize(
    ("question", "named", "rest"),
    [
        ("@local why?", "local", "why?"),
        ("@gpt-4.1 \n why?", "gpt-4.1", "why?"),
        ("@my model why?", "my model", "why?"),
        ("@offline\twhy?", "offline", "why?"),
        ("@local", None, "@local"),
        ("@local  ", None, "@local  "),
        ("@locals why?", None, "@locals why?"),
        ("@local/file why?", None, "@local/file why?"),
        ("@./local why?", None, "@./local why?"),
        ("@Local why?", None, "@Local why?"),
        (" @local why?", None, " @local why?"),
        ("ask @local why", None, "ask @local why"),
        ("@ why?", None, "@ why?"),
        ("@", None, "@"),
        ("", None, ""),
    ],
)
def test_a_question_names_a_model(question: str, named: str | None, rest: str) -> None:
    assert addressed(question, NAMES) == (named, rest)


@given(st.text(max_size=50), st.lists(st.text(max_size=5), max_size=4))
def test_nothing_but_the_name_is_taken_off(question: str, names: list[str]) -> None:
    named, rest = addressed(question, names)
    assert question.endswith(rest)
    assert (named is None) == (rest == question)
    if named is not None:
        assert named in names
        assert re.fullmatch(rf"@{re.escape(named)}\s+", question.removesuffix(rest))
