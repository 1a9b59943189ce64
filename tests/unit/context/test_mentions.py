"""Files that a question names with ``@``."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aish_lsp.context.mentions import Named, mention_of, mentions


def readings(question: str) -> list[Named]:
    """Return what the first name of a question may mean."""
    return [named for _, named in mentions(question)[0].readings()]


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
        ("@'a b.txt':3 please", Named("a b.txt", 3, 3)),
        ("@\u201ca b.txt\u201d", Named("a b.txt")),
        ("@\u201ea b.txt\u201c", Named("a b.txt")),
        ("@\u00aba b.txt\u00bb", Named("a b.txt")),
        ('@"a b":2\u20133', Named("a b", 2, 3)),
        ('@"a b":L2', Named("a b", 2, 2)),
        ('@"a b":2:5-3:1', Named("a b", 2, 3)),
        ('@"a b"#L2C5-L3C1', Named("a b", 2, 3)),
        ('@"a b":2:5-9', Named("a b", 2, 2)),
        ("why@src/app.py", Named("src/app.py")),
        ("\uff20src/app.py", Named("src/app.py")),
        ("@\u2068src/app.py", Named("src/app.py")),
    ],
)
def test_a_name_is_read(question: str, named: Named) -> None:
    assert readings(question)[0] == named


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("is it @a.py?", [Named("a.py?"), Named("a.py"), Named("a."), Named("a")]),
        ("(as in @a.p).", [Named("a.p)."), Named("a.p)"), Named("a.p"), Named("a."), Named("a")]),
        ("@ab:3", [Named("ab:3"), Named("ab:"), Named("ab", 3, 3)]),
        (
            "@ab:9-3",
            [Named("ab:9-3"), Named("ab:9-"), Named("ab:9"), Named("ab:"), Named("ab", 3, 9)],
        ),
        (
            "@ab#L3-L9",
            [Named("ab#L3-L9"), Named("ab#L3-"), Named("ab#L3"), Named("ab#"), Named("ab", 3, 9)],
        ),
        (
            "@ab:1:5",
            [Named("ab:1:5"), Named("ab:1:"), Named("ab:1", 5, 5), Named("ab:"), Named("ab", 1, 1)],
        ),
        ("@ab:0", [Named("ab:0"), Named("ab:"), Named("ab")]),
        ("@dataclass", [Named("dataclass")]),
        ("@a_b_", [Named("a_b_"), Named("a_b")]),
        ("@ab的", [Named("ab的"), Named("ab")]),
        (r"@s\a", [Named("sa"), Named("s/a"), Named("s\\"), Named("s/"), Named("s")]),
        ("@é", [Named("é"), Named("e\u0301")]),
    ],
)
def test_each_beginning_may_be_the_name(question: str, wanted: list[Named]) -> None:
    assert readings(question) == wanted


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


@pytest.mark.parametrize("question", ["why@src/app.py", "it is @'s turn, it's"])
def test_what_may_be_no_name_is_one_only_if_there_is_such_a_file(question: str) -> None:
    assert [mention.is_clear for mention in mentions(question)] == [False]


def test_a_name_behind_a_block_of_code_counts() -> None:
    assert readings("```\n@a.py\n```\nand @b.py")[0] == Named("b.py")


def test_what_is_no_path_may_be_a_decorator() -> None:
    assert [mention.is_path for mention in mentions("@dataclass @a.py @src/x @e.g.")] == [
        False,
        True,
        True,
        True,
    ]


def test_of_a_text_full_of_names_only_some_are_read() -> None:
    assert len(mentions(" ".join(f"@{number}" for number in range(5000)))) == 1000


@example("a`b`c.py", 3)
@given(st.text(min_size=1, max_size=40).filter(lambda name: "\n" not in name), st.integers(0, 99))
def test_what_is_proposed_is_read_again(name: str, line: int) -> None:
    written = mention_of(name, line, line)
    assert Named(name, line, line) in readings(f"so {written} it is")


@given(st.text(alphabet="@\"'\\`~:-#LC1. )\n/a\u201c\u201d\uff20\u2068", max_size=200))
def test_no_text_is_too_odd(question: str) -> None:
    for mention in mentions(question):
        found = [*mention.readings()]
        assert 1 <= len(found) <= 2 * len(mention.written)
        assert all(named.name for _, named in found)
        assert all(mention.spoken)
