"""Files that a question names with ``@``."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aish_lsp.context.mentions import Named, mention_of, mentions


def first_readings(question: str) -> list[Named]:
    return [mention.readings[0] for mention in mentions(question)]


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("what does @src/app.py do?", Named("src/app.py")),
        ("@src/app.py", Named("src/app.py")),
        ("(@a.txt", Named("a.txt")),
        ("see\n@a.txt", Named("a.txt")),
        ('what is in @"a b.txt" here', Named("a b.txt")),
        (r"what is in @a\ b.txt here", Named("a b.txt")),
        (r'what is in @"a \"b\".txt"', Named('a "b".txt')),
        ('lines of @"a b.txt":3-5 please', Named("a b.txt", 3, 5)),
        ('just @"a:3" please', Named("a:3")),
        ("@wörk/😀.md", Named("wörk/😀.md")),
        ("@Makefile is what?", Named("Makefile")),
    ],
)
def test_a_name_is_read(question: str, named: Named) -> None:
    assert first_readings(question) == [named]


@pytest.mark.parametrize(
    ("question", "readings"),
    [
        ("is it @a.py?", [Named("a.py?"), Named("a.py")]),
        ("(as in @a.py).", [Named("a.py)."), Named("a.py)"), Named("a.py")]),
        ("@a.py:3", [Named("a.py:3"), Named("a.py", 3, 3)]),
        ("@a.py:9-3", [Named("a.py:9-3"), Named("a.py", 3, 9)]),
        ("@a.py#L3-L9", [Named("a.py#L3-L9"), Named("a.py", 3, 9)]),
        ("@a.py:3, then", [Named("a.py:3,"), Named("a.py:3"), Named("a.py", 3, 3)]),
        ("@a.py:0", [Named("a.py:0")]),
        ("@a.py:", [Named("a.py:"), Named("a.py")]),
    ],
)
def test_the_marks_of_a_sentence_may_be_part_of_a_name(
    question: str, readings: list[Named]
) -> None:
    [mention] = mentions(question)
    assert list(mention.readings) == readings


@pytest.mark.parametrize(
    "question",
    [
        "write to me@example.org",
        "a@b",
        "an @ alone",
        "`@a.py` is code",
        "```\n@a.py\n```",
        "~~~\n@a.py\n```\n@b.py",
        '@"never closed',
        "",
    ],
)
def test_what_names_nothing(question: str) -> None:
    assert mentions(question) == []


def test_a_name_behind_a_block_of_code_counts() -> None:
    assert first_readings("```\n@a.py\n```\nand @b.py") == [Named("b.py")]


def test_what_is_no_path_may_be_a_decorator() -> None:
    assert [mention.is_path for mention in mentions("@dataclass @a.py @src/x @e.g.")] == [
        False,
        True,
        True,
        True,
    ]


def test_of_a_text_full_of_names_only_some_are_read() -> None:
    assert len(mentions(" ".join(f"@{number}" for number in range(5000)))) == 1000


def test_a_name_counts_once() -> None:
    assert len(mentions("@a.py and @a.py")) == 1


@example("a`b`c.py", 3)
@given(st.text(min_size=1, max_size=40).filter(lambda name: "\n" not in name), st.integers(0, 99))
def test_what_is_proposed_is_read_again(name: str, line: int) -> None:
    written = mention_of(name, line, line)
    [mention] = mentions(f"so {written} it is")
    assert Named(name, line, line) in mention.readings


@given(st.text(alphabet='@"\\`~:-#L1. )\n/a', max_size=200))
def test_no_text_is_too_odd(question: str) -> None:
    for mention in mentions(question):
        assert 1 <= len(mention.readings) <= 20
        assert all(named.name for named in mention.readings)
