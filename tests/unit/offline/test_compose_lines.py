"""Commands composed for the lines of a text against an oracle in Python, by generated sentences."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aish_lsp.offline.compose import compose
from aish_lsp.offline.workspace import WorkspaceFacts

Lines = list[str]
Clause = tuple[str, Callable[[Lines], Lines]]

FILTERS: tuple[Clause, ...] = (
    ("", lambda lines: lines),
    ("that contain 'an'", lambda lines: [line for line in lines if "an" in line]),
    ("not containing 'e.'", lambda lines: [line for line in lines if "e." not in line]),
    ("which start with 'b'", lambda lines: [line for line in lines if line.startswith("b")]),
    ("ending with '1'", lambda lines: [line for line in lines if line.endswith("1")]),
    ("longer than 6 characters", lambda lines: [line for line in lines if len(line) > 6]),
    ("without the empty lines", lambda lines: [line for line in lines if line]),
    (
        "containing 'an' but not exe",
        lambda lines: [x for x in lines if "an" in x and "exe" not in x],
    ),
    ("with 'an' or 'bee'", lambda lines: [x for x in lines if "an" in x or "bee" in x]),
    ("containing both 'b' and '1'", lambda lines: [x for x in lines if "b" in x and "1" in x]),
    (
        "that contain neither 'b' nor '-v'",
        lambda lines: [x for x in lines if "b" not in x and "-v" not in x],
    ),
    ("except the first line", lambda lines: lines[1:]),
)
CHANGES: tuple[Clause, ...] = (
    ("", lambda lines: lines),
    ("sorted", sorted),
    ("without duplicates", lambda lines: sorted(set(lines))),
    ("sorted in reverse order", lambda lines: sorted(lines, reverse=True)),
    ("sorted, only the first 2 lines", lambda lines: sorted(lines)[:2]),
    ("without duplicates, keeping the order", lambda lines: list(dict.fromkeys(lines))),
)
words = st.sampled_from(("", "banana 1", "e.g. 12", "bee 3 1", "an", "-v", "exe", "two  words"))
files = st.lists(words, max_size=8)


def printed(sentence: str, lines: Lines) -> Lines:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "my notes.txt").write_text("".join(f"{line}\n" for line in lines))
        composed = compose(sentence, WorkspaceFacts(Path(folder)))
        assert composed is not None, sentence
        done = subprocess.run(
            ["bash", "-c", composed.command],
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
        assert not done.stderr, composed.command
        return done.stdout.splitlines()


@settings(max_examples=60, deadline=None)
@given(files, st.sampled_from(FILTERS), st.sampled_from(CHANGES), st.booleans())
def test_a_pipeline_does_what_every_clause_says(
    lines: Lines, which: Clause, change: Clause, counted: bool
) -> None:
    assume(counted or which[0] or change[0])
    verb = "count" if counted else "print"
    sentence = f"{verb} the lines of 'my notes.txt' {which[0]} {change[0]}"
    if counted and not which[0] and not change[0]:
        sentence = "count the lines in 'my notes.txt'"
    meant = change[1](which[1](lines))
    assert printed(sentence, lines) == ([str(len(meant))] if counted else meant)


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("print the second column of 'my notes.txt' separated by commas", ["2", "1"]),
        ("print line 2 of 'my notes.txt'", ["b c,1,5"]),
        ("sum of the third column of 'my notes.txt' separated by ','", ["15"]),
        ("sort 'my notes.txt' by column 3 separated by ',' numerically", ["b c,1,5", "a b,2,10"]),
        ("convert 'my notes.txt' to uppercase", ["A B,2,10", "B C,1,5"]),
        ("print the last line of 'my notes.txt'", ["b c,1,5"]),
        ("print columns 3 and 1 of 'my notes.txt' separated by ','", ["10,a b", "5,b c"]),
        ("show columns 1 and 3 of 'my notes.txt' separated by ','", ["a b,10", "b c,5"]),
        (
            "print lines of 'my notes.txt' where column 3 is more than 7 separated by ','",
            ["a b,2,10"],
        ),
        ("show the line numbers of the lines containing '5' in 'my notes.txt'", ["2:b c,1,5"]),
        ("show 1 line after each match of 'a b' in 'my notes.txt'", ["a b,2,10", "b c,1,5"]),
        ("show the first 3 characters of each line of 'my notes.txt'", ["a b", "b c"]),
        ("print every other line of 'my notes.txt'", ["a b,2,10"]),
        ("show 'my notes.txt' from bottom to top", ["b c,1,5", "a b,2,10"]),
        ("sort 'my notes.txt' in reverse order but keep the header", ["a b,2,10", "b c,1,5"]),
        (
            "the 1 line with the lowest value in column 3 of 'my notes.txt', comma-separated",
            ["b c,1,5"],
        ),
        ("how often does 'b' occur in 'my notes.txt'", ["2"]),
        ("show the first two columns of 'my notes.txt' separated by ','", ["a b,2", "b c,1"]),
        (
            "print the size in 'my notes.txt' separated by ',', the size is the third column",
            ["10", "5"],
        ),
        ("print 'my notes.txt' with 'b' replaced by 'x/&'", ["a x/&,2,10", "x/& c,1,5"]),
    ],
)
def test_columns_and_lines_are_those_that_are_named(sentence: str, shown: Lines) -> None:
    assert printed(sentence, ["a b,2,10", "b c,1,5"]) == shown


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        ("count the lines of @a.csv", "wc -l < a.csv"),
        ("count the lines in the file a.csv.", "wc -l < a.csv"),
        ("print lines 5 through 9 of a.csv.", "sed -n '5,9p' a.csv"),
        ("show column 2 of a.csv", "awk -F , '{print $2}' a.csv"),
        ("show column 2 of a.csv separated by ';'", "awk -F ';' '{print $2}' a.csv"),
    ],
)
def test_a_mentioned_file_and_the_commas_of_a_table_are_known(
    tmp_path: Path, sentence: str, command: str
) -> None:
    (tmp_path / "a.csv").touch()
    composed = compose(sentence, WorkspaceFacts(tmp_path))
    assert composed is not None
    assert composed.command == command


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        ("delete all lines containing 'x/y' in a.txt", "one\n\n"),
        ("remove the blank lines from a.txt", "one\nx/y\n"),
        ("replace 'o' with '&' in a.txt", "&ne\n\nx/y\n"),
        ("replace all underscores with tabs in a.txt", "one\n\nx/y\n"),
        ("replace the word slash with comma in a.txt", "one\n\nx/y\n"),
        ("replace the word one with dot in a.txt", "dot\n\nx/y\n"),
        ("replace 'o' with 'i' only on line 2 of a.txt", "one\n\nx/y\n"),
        ("remove the first 2 characters of every line in a.txt", "e\n\ny\n"),
        ("add ' &/' to the end of each line of a.txt", "one &/\n &/\nx/y &/\n"),
        ("put '> ' in front of each line of a.txt", "> one\n> \n> x/y\n"),
    ],
)
def test_an_edit_changes_just_the_lines_that_are_meant(
    tmp_path: Path, sentence: str, left: str
) -> None:
    (tmp_path / "a.txt").write_text("one\n\nx/y\n")
    composed = compose(sentence, WorkspaceFacts(tmp_path))
    assert composed is not None
    subprocess.run(["bash", "-c", composed.command], cwd=tmp_path, check=True)
    assert (tmp_path / "a.txt").read_text() == left


@pytest.mark.parametrize(
    "sentence",
    [
        "sort a.txt without the parts that are old",
        "count the lines of a.txt unless it is empty",
        "print the lines of a.txt that rhyme",
        "print the lines of a.txt that contain '^a|b'",
        "sort a.txt and save it to a.txt",
        "delete the lines of a.txt but keep the comments",
        "remove a.txt",
        "replace 'o' with 'i' in a.txt and show the lines that contain 'x'",
        "print the most frequent word in a.txt",
    ],
)
def test_a_sentence_with_a_word_left_over_leaves_no_answer(tmp_path: Path, sentence: str) -> None:
    assert compose(sentence, WorkspaceFacts(tmp_path)) is None
