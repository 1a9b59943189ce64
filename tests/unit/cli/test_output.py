"""What the command line writes: nothing but what is seen, whoever wrote it and however it comes."""

from __future__ import annotations

import ast
import io
import json
import shutil
import unicodedata
from dataclasses import replace
from itertools import pairwise, takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tmux import Tmux

from aish_lsp import cli
from aish_lsp.cli.terminal import OutputStream, meant, shown_question
from aish_lsp.foundation.ports import Question, Remember, UserAnswer
from aish_lsp.foundation.text import BIDI, is_seen

#: Text with far more of what could do harm than there is in prose.
HOSTILE = st.text(
    st.one_of(
        st.sampled_from("\x1b\x9b\x9d\x07\x00\x7f\b\r\n\t\v\f\x85[]0;mJH" + BIDI),
        st.characters(),
    )
)


def written(*pieces: str) -> str:
    """Return what comes of ``pieces`` that stream to a terminal."""
    file = io.StringIO()
    output = OutputStream(lambda: file)
    for piece in pieces:
        output.write(piece)
    output.end_line()
    return file.getvalue()


@given(st.lists(HOSTILE))
def test_nothing_but_what_is_seen_is_written(pieces: list[str]) -> None:
    text = written(*pieces)
    assert is_seen(text.replace("\n", "").replace("\t", ""))
    for character in text:
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


@given(HOSTILE, st.lists(st.integers(0, 60), max_size=6))
def test_it_is_the_same_in_any_pieces(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert written(*pieces) == written(text)


@given(st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="\ufe0e\ufe0f")))
def test_what_is_seen_stays_as_it_is(text: str) -> None:
    if is_seen(text):
        assert written(text) == (f"{text}\n" if text else "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
        ("\x9b31m", r"\x9b31m"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("a\x7fb\b\x00", r"a\x7fb\x08\x00"),
        ("one\ttwo\nthree", "one\ttwo\nthree"),
        ("one\r\ntwo\r\r\nthree", "one\ntwo\nthree"),
        (" 10%\r 20%\r100%\r\n", " 10%\n 20%\n100%"),
        ("Run? [y/N] \rAll is well ", "Run? [y/N] \nAll is well "),
        ("abc\u202edef\u200b\u2028", r"abc\u202edef\u200b\u2028"),
        ("\u26a0\ufe0f 12\u202f000\u00a0km", "\u26a0 12 000 km"),
        ("\udc9b", r"\udc9b"),
    ],
)
def test_what_is_not_seen_is_escaped(text: str, shown: str) -> None:
    assert written(text).removesuffix("\n") == shown


def test_a_question_begins_on_a_line_of_its_own_without_colors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    file = Terminal()
    output = OutputStream(lambda: file)
    output.write("black on black")
    output.prompt("Run it? ")
    output.line("no")
    assert file.getvalue() == "black on black\n\x1b[0mRun it? no\n"


@pytest.mark.parametrize("text", ["[red]x[/] [link=http://e.vil]y[/link] :smile: \x1b[8m", "[/]"])
def test_no_markup_is_read(text: str) -> None:
    file = io.StringIO()
    OutputStream(lambda: file).styled(text, "dim")
    assert file.getvalue() == text.replace("\x1b", r"\x1b") + "\n"


@given(st.dictionaries(HOSTILE, HOSTILE))
def test_json_is_escaped_and_means_the_same(value: dict[str, str]) -> None:
    data = io.BytesIO()
    file = io.TextIOWrapper(data, "ascii")
    OutputStream(lambda: file).as_json(value, indent=2)
    text = data.getvalue().decode()
    assert json.loads(text) == value
    assert is_seen(text.replace("\n", ""))


def test_only_one_module_writes() -> None:
    """All others go through it, so that this holds for what they write as well."""
    assert cli.__file__ is not None
    for path in Path(cli.__file__).parent.glob("*.py"):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name("print") | ast.Attribute(attr="print" | "log")):
                    pytest.fail(f"{path.name}:{node.lineno} prints")
                case ast.Attribute(value=ast.Attribute(attr="stdout" | "stderr"), attr=str(what)):
                    harmless = what in ("isatty", "fileno", "flush", "read")
                    assert harmless, f"{path.name}:{node.lineno} writes by itself"
                case ast.Import() | ast.ImportFrom():
                    names = {alias.name for alias in node.names} | {getattr(node, "module", "")}
                    # Where text is rendered, the console of rich writes nothing.
                    consoles = set() if path.name == "rendering.py" else {"rich", "rich.console"}
                    assert not names & {"stdout", "stderr", *consoles}, path.name
                case ast.Attribute(value=ast.Name("sys"), attr="__stdout__" | "__stderr__"):
                    pytest.fail(f"{path.name}:{node.lineno} goes around it")


REMEMBERED: dict[Remember, str] = {"session": "Run in it", "folder": "Run there"}


def test_words_of_a_question_are_wrapped_and_a_diff_is_shown_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    diff = "-old\n+" + "new  " * 20 + "-not a line of its own"
    shown, _ = shown_question(Question("word " * 20, "Change it", whole=diff))
    assert shown.startswith(f"{diff}\n\nword word")
    assert max(map(len, shown.removeprefix(diff).split("\n"))) <= 40


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 60])
async def test_rows_of_a_list_in_a_narrow_terminal_break_between_words_and_go_on_indented(
    columns: int, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text("nonsense = 1\n")
    async with Tmux(tmp_path).running("doctor", columns, 60) as terminal:
        await terminal.until("exit 1")
        # A line that the terminal has broken is not joined again.
        screen = await terminal.run("capture-pane", "-p", "-S", "-")
    first, *below = screen.split("    \u2192 ")[1].split("\n")
    rows = [first, *takewhile(lambda row: row.startswith(" "), below)]
    assert len(rows) > 1
    assert all(row.startswith("      ") for row in rows[1:])
    advice = "`aish-lsp config check` says more; docs/configuration.md lists the keys."
    assert " ".join(map(str.strip, rows)) == advice


@pytest.mark.parametrize(
    ("typed", "plain", "remembering"),
    [
        *((word, True, True) for word in ("y", "YES", " y ")),
        *((word, False, "session") for word in ("s", "Session")),
        *((word, False, "folder") for word in ("f", "folder")),
        *((word, False, False) for word in ("", "n", "yy", "fo", "1")),
        (None, None, None),
    ],
)
def test_a_typed_answer_is_a_yes_a_yes_to_remember_or_a_no(
    typed: str | None, plain: UserAnswer, remembering: UserAnswer
) -> None:
    question = Question("Run it?", "Run")
    assert meant(question, typed) == plain
    assert shown_question(question) == ("Run it?", "Run? [y/N] ")
    offering = replace(question, remember=REMEMBERED)
    assert meant(offering, typed) == remembering
    text, prompt = shown_question(offering)
    assert text == "Run it?\n\n  y  Run\n  s  Run in it\n  f  Run there"
    assert prompt == "[y/s/f/N] "
