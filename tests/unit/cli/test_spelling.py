"""Messages name the commands of the chat; a shell is told what to type in a shell."""

from __future__ import annotations

import re

import pytest

from aish_lsp.cli import parser
from aish_lsp.cli.spelling import _IN_SHELL, for_shell, in_chat


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("`:model add` connects one.", "`aish-lsp setup` connects one."),
        ("Use `:model fast`.", "Use `--model fast`."),
        ("`:remember TEXT` adds it.", "`aish-lsp memory add TEXT` adds it."),
        ("Use `:memory forget ID`.", "Use `aish-lsp memory forget ID`."),
        ("`:memory accept 1` keeps it.", "`:memory accept 1` in `aish-lsp chat` keeps it."),
        ("`:sessions` lists them.", "`aish-lsp sessions` lists them."),
        ("`:norris GOAL` begins.", '`aish-lsp norris "GOAL"` begins.'),
        ("`:norris resume` continues.", "`:norris resume` in `aish-lsp chat` continues."),
        ("`:trust` in the chat shows it.", "`:trust` in `aish-lsp chat` shows it."),
        ("`:undo` reverts that.", "`:undo` in `aish-lsp chat` reverts that."),
        ("`ls :undo` and `a:b` stay.", "`ls :undo` and `a:b` stay."),
    ],
)
def test_a_command_of_the_chat_is_spelled_for_a_shell(message: str, told: str) -> None:
    assert for_shell(message) == told


def test_in_the_chat_of_a_terminal_it_stays() -> None:
    token = in_chat.set(True)
    try:
        assert for_shell("`:undo` reverts that.") == "`:undo` reverts that."
    finally:
        in_chat.reset(token)


def test_what_a_shell_is_told_to_type_exists() -> None:
    usage = parser().format_help()
    for _, spelling in _IN_SHELL:
        if named := re.match(r"aish-lsp (\w+)", spelling):
            assert re.search(rf"^ +{named[1]} ", usage, re.MULTILINE), named[1]
