"""What completes a name behind an ``@``."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aish_lsp.context.mentions import MOST, Named, Typed, mentions, proposals, typed_names

NAMES = ["Makefile", "README.md", "docs/a b.md", "lib/", "src/app.py", "src/main/app_test.py"]


@pytest.mark.parametrize(
    ("prefix", "typed"),
    [
        ("@", Typed("", 0)),
        ("see @src/a", Typed("src/a", 4)),
        ("(@x", Typed("x", 1)),
        ('what is in @"a b', Typed("a b", 11)),
        (r"in @a\ b", Typed("a b", 3)),
        ("é😀 @wö", Typed("wö", 3)),
        ("me@host", None),
        ("@done already", Typed("done already", 0, has_blanks=True)),
        ("@my ", Typed("my ", 0, has_blanks=True)),
        ("@ already", None),
        (f"@{'long' * 50} already", None),
        ("@one\ntwo", None),
        ("@1 2 3 4 5 6 7 8 9 10", None),
        ('@"a b" and', None),
        ('@"a b"', None),
        ("none", None),
        ("", None),
    ],
)
def test_a_name_that_is_being_typed(prefix: str, typed: Typed | None) -> None:
    assert next(typed_names(prefix), None) == typed


def test_a_name_may_begin_within_another() -> None:
    assert [*typed_names("@a.py,@b")] == [Typed("a.py,@b", 0), Typed("b", 6)]
    assert [*typed_names("请解释@sr")] == [Typed("sr", 3)]
    assert [*typed_names("@a @b")] == [Typed("a @b", 0, has_blanks=True), Typed("b", 3)]
    assert [*typed_names("@src\\a")] == [Typed("srca", 0), Typed("src/a", 0)]
    assert [*typed_names("@src\\")] == [Typed("src\\", 0), Typed("src/", 0)]


def test_letters_with_accents_are_found_in_either_form() -> None:
    names = ["Ünits/caf\u00e9.md", "U\u0308nits/cafe\u0301.txt"]
    for typed in ("Ünits/caf\u00e9", "U\u0308nits/cafe\u0301", "caf\u00e9"):
        assert {found.name for found in proposals(typed, names)} == set(names)
    folders = {found.name for found in proposals("U\u0308", names)}
    assert folders >= {"Ünits/", "U\u0308nits/"}


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("", ["Makefile", "README.md", "docs/", "src/"]),
        ("s", ["src/"]),
        ("src/", ["src/app.py", "src/main/"]),
        ("src/m", ["src/main/", "src/main/app_test.py"]),
        ("read", ["README.md"]),
        ("app", ["src/app.py", "src/main/app_test.py"]),
        ("TEST", ["src/main/app_test.py"]),
        ("lib", []),
        ("nothing", []),
    ],
)
def test_the_likeliest_come_first(typed: str, names: list[str]) -> None:
    assert [found.name for found in proposals(typed, NAMES)][: len(names)] == names
    if not names:
        assert proposals(typed, NAMES) == []


def test_what_is_inserted_names_it() -> None:
    inserts = {found.name: found.insert for found in proposals("d", [*NAMES, "my docs/x.md"])}
    assert inserts["docs/"] == "@docs/"
    assert inserts["docs/a b.md"] == '@"docs/a b.md"'
    assert proposals("my", ["my docs/x.md"])[0].insert == '@"my docs/'


def test_there_are_never_too_many_and_hidden_names_are_none() -> None:
    many = [f"src/file_{number}.py" for number in range(5000)]
    assert len(proposals("file", many)) == MOST
    assert proposals("", ["a\u202eb.py", "a\nb.py"]) == []


@given(st.lists(st.text(alphabet="ab/ .'\"\\@:1", min_size=1, max_size=12)), st.text(max_size=3))
@example(['"1"'], "")
@example(["'1'1"], "")
def test_each_names_its_file(names: list[str], typed: str) -> None:
    for found in proposals(typed, names):
        if not found.is_folder:
            assert Named(found.name) in [named for _, named in mentions(found.insert)[0].readings()]
