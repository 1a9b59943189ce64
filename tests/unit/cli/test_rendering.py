"""Markdown as it is written to a terminal, block by block."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.cli.blocks import CommandBlock
from aish_lsp.cli.rendering import Renderer
from aish_lsp.cli.reply_view import ReplyView
from aish_lsp.foundation.text import is_seen
from aish_lsp.shell.suggestions import CommandInfo, Suggestion

#: The only control sequences that may be written: attributes of text.
SGR = re.compile(r"\x1b\[[0-9;]*m")


def rendered(text: str, width: int = 80, *, colours: bool = False) -> str:
    return Renderer(lambda: width, colours=colours).whole(text)


HOSTILE = (
    "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\ \x1b[2J\x9b2J &#x202e; &#27;[2J"
    " &#155;2J\n\n"
    "[link](http://x/\x1b[2J) ![image](http://x/\x07)\n\n"
    "```py\nx = '\x1b]52;c;eA==\x07' # \u202e\n```\n\n"
    "| \x1b[8m | b |\n|---|---|\n| \x1b[1A | \r |\n"
)


@pytest.mark.parametrize("colours", [True, False])
def test_a_hostile_reply_sends_nothing_but_text_and_its_attributes(colours: bool) -> None:
    shown = rendered(HOSTILE, colours=colours)
    assert is_seen(SGR.sub("", shown).replace("\n", ""))
    assert ("\x1b" in shown) == colours
    assert r"\x1b]8;;http://evil.example\x1b\here" in SGR.sub("", shown)


@given(
    st.text(st.sampled_from("\x1b[]()*_`~#>|-+1. \n\tab<&;\x07\x9b\u202e!:\\")), st.integers(1, 90)
)
def test_any_text_sends_nothing_but_text_and_its_attributes(text: str, width: int) -> None:
    shown = SGR.sub("", rendered(text, width, colours=True))
    assert is_seen(shown.replace("\n", "").replace("\t", ""))


def test_an_item_without_a_text_is_shown_by_its_number() -> None:
    assert "1." in rendered("1.", 40, colours=False)
    assert "2." in rendered("1. a\n2.", 40, colours=False)


@given(st.text(st.sampled_from("*`#>|-1. \nab~"), max_size=60), st.data())
def test_a_text_in_pieces_is_shown_as_the_whole_is(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    renderer = Renderer(lambda: 40, colours=False)
    blocks = [*renderer.feed(text[:cut]), *renderer.feed(text[cut:]), *renderer.finish()]
    assert "".join(map(str, blocks)) == rendered(text, 40)


def test_a_finished_block_is_there_before_the_next_one() -> None:
    renderer = Renderer(lambda: 80, colours=False)
    assert [*renderer.feed("A paragraph\nof two lines.")] == []
    assert [*renderer.feed("\n\n")] == ["A paragraph of two lines.\n"]
    assert [*renderer.feed("# Title\n")] == ["\nTitle\n"]
    assert [*renderer.feed("- one\n- two\n")] == [" • one\n"]
    assert [*renderer.feed("\n```py\nx = 1\n")] == [" • two\n", "\n    x = 1\n"]
    assert [*renderer.feed("y = 2\n")] == ["    y = 2\n"]


def test_words_are_wrapped_and_code_is_not() -> None:
    words = "word " * 30
    assert max(map(len, rendered(words, 40).split("\n"))) <= 40
    assert f"    {'x' * 100}\n" in rendered(f"```\n{'x' * 100}\n```\n", 40)


def test_a_diff_keeps_every_sign_and_is_coloured() -> None:
    diff = "--- a\n+++ b\n@@ -1 +1,2 @@\n-old\n+new\n++x\n"
    shown = rendered(f"```diff\n{diff}```\n", colours=True)
    assert [line[4:] for line in SGR.sub("", shown).splitlines()] == diff.splitlines()
    green, red = "\x1b[92m", "\x1b[91m"
    assert f"    {green}+new" in shown
    assert f"    {red}-old" in shown


def test_lines_of_a_quote_stay_lines() -> None:
    assert rendered("> one\n> two\n\nthree\nfour\n") == "▌ one\n▌ two\n\nthree four\n"


def test_a_command_of_an_earlier_reply_is_a_line_of_its_own() -> None:
    assert rendered("It lists.\nCMD: ls\nCMD: ls -a\n") == "It lists.\nCMD: ls\nCMD: ls -a\n"


def test_without_colours_inline_code_keeps_its_marks() -> None:
    assert rendered("Use `:help`, *now*.") == "Use `:help`, now.\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<details>\nSee <kbd>x</kbd>\n</details>\n", "<details> See <kbd>x</kbd> </details>\n"),
        ("> " * 500 + "x\n", "> " * 500 + "x\n"),
        ("- " * 500 + "x\n", "- " * 500 + "x\n"),
        ("[^1]: note\n\n:::warning\nx\n:::\n", "[^1]: note\n\n:::warning x :::\n"),
        ("1. one\n\n   more\n2. two\n", " 1. one\n\n   more\n 2. two\n"),
        ("1. one\n   ```py\n   x = 1\n   ```\n", " 1. one\n    x = 1\n"),
    ],
)
def test_unusual_markdown_is_shown_and_not_lost(text: str, shown: str) -> None:
    assert rendered(text, 2000) == shown


def test_a_table_of_5000_lines_is_shown_whole_in_pieces() -> None:
    rows = "".join(f"| {number} | row |\n" for number in range(5000))
    renderer = Renderer(lambda: 40, colours=False)
    blocks = [*renderer.feed(f"| a | b |\n|---|---|\n{rows}"), *renderer.finish()]
    assert len(blocks) > 40
    shown = re.findall(r"^ (\d+) +row", "".join(map(str, blocks)), re.MULTILINE)
    assert shown == [str(number) for number in range(5000)]


def suggestion(number: int, text: str, source: Literal["cmd", "fence"] = "cmd") -> Suggestion:
    info = CommandInfo(str(number), text, 0, 0, source, (), "safe", ())
    return Suggestion(info, "t", number)


class View:
    """A view of a reply, and what it has written."""

    def __init__(self, *suggestions: Suggestion) -> None:
        self.written = ""
        self.by_id = {one.info.id: one for one in suggestions}
        renderer = Renderer(lambda: 80, colours=False, commands=True)
        self.view = ReplyView(renderer, self.write, self.by_id.__getitem__)

    def write(self, text: str) -> None:
        self.written += text

    def suggest(self, command_id: str) -> None:
        self.view.command(self.by_id[command_id].info)


async def test_a_suggestion_stands_where_its_lines_are_and_once() -> None:
    view = View(suggestion(1, "ls"), suggestion(2, "git add *.py\ngit commit", "fence"))
    await view.view.text(
        "First:\n\nCMD: ls\n\nThen:\n\n```sh\ngit add *.py\ngit commit\n```\nEnd.\n"
    )
    assert view.written == "First:\n"
    view.suggest("1")
    view.suggest("2")
    await view.view.text("\nCMD: ls\n")
    view.suggest("1")
    view.view.finish()
    assert view.written == (
        "First:\n\n  [1] ls  (safe)\n\nThen:\n\n"
        "  [2] git add *.py  (safe)\n      git commit\n\nEnd.\n"
    )


async def test_lines_that_suggest_nothing_are_shown_as_they_are() -> None:
    view = View()
    await view.view.text("```sh\n# only a comment\n```\n\nCMD: echo *unfinished*")
    view.view.finish()
    assert view.written == "    # only a comment\n\nCMD: echo *unfinished*\n"


async def test_a_command_that_ends_with_the_reply_is_shown_once() -> None:
    view = View(suggestion(1, "cat <<E\nx\nE"))
    await view.view.text("CMD: cat <<E\nx\nE")
    view.suggest("1")
    view.view.finish()
    assert view.written == "  [1] cat <<E  (safe)\n      x\n      E\n"


async def test_an_indented_comment_in_a_loop_belongs_to_its_suggestion() -> None:
    loop = "for f in a b; do\n  # each once\n  echo $f\ndone"
    view = View(suggestion(1, loop))
    await view.view.text(f"CMD: {loop}\n")
    view.suggest("1")
    view.view.finish()
    assert view.written == (
        "  [1] for f in a b; do  (safe)\n        # each once\n        echo $f\n      done\n"
    )


def test_a_renderer_for_whole_texts_tells_no_commands_apart() -> None:
    blocks = [*Renderer(lambda: 80, colours=False).feed("```sh\nls\n```\n")]
    assert not [block for block in blocks if isinstance(block, CommandBlock)]
