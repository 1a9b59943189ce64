from __future__ import annotations

import random
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.shell.blocks import FoundCommand
from aish_lsp.shell.suggestions import SuggestionScanner


def scan(*deltas: str) -> list[FoundCommand]:
    scanner = SuggestionScanner()
    found = [command for delta in deltas for command in scanner.feed(delta)]
    return found + scanner.finish()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CMD: ls -la\n", [("ls -la", 0)]),
        ("CMD: ls", [("ls", 0)]),
        ("Try:\n```sh\nCMD: pytest\n```\nCMD: ls\n", [("pytest", 2), ("ls", 4)]),
        ("\n\nCMD: a\nCMD: b", [("a", 2), ("b", 3)]),
        ("CMD: ls\r\nCMD: pwd\r\n", [("ls", 0), ("pwd", 1)]),
        ("CMD: ls\r", [("ls", 0)]),
        ("CMD:  two spaces  \n", [(" two spaces  ", 0)]),
        ("CMD: CMD: x\n", [("CMD: x", 0)]),
        # A lone carriage return hides nothing: it stays, and so does what stands before it.
        ("CMD: rm x\rls\n", [("rm x\rls", 0)]),
        ("CMD: rm x\r\r\n", [("rm x\r", 0)]),
        # Only \n ends a line.
        ("CMD: a\u2028b\x0bc\x0cd\x85e\u2029f\n", [("a\u2028b\x0bc\x0cd\x85e\u2029f", 0)]),
        ("x\u2028CMD: a\n\x0bCMD: b\n\rCMD: c\n", []),
        # Something stands behind it, although nobody sees it: the risk is told elsewhere.
        ("CMD: \u200b\n", [("\u200b", 0)]),
        ("CMD: \n", []),
        ("CMD: \t \r\n", []),
        ("CMD:\n", []),
        ("CMD:ls\n", []),
        ("CMD:\tls\n", []),
        ("CMD:\u00a0ls\n", []),
        ("cmd: ls\n", []),
        (" CMD: ls\n", []),
        ("> CMD: ls\n- CMD: ls\n`CMD: ls`\n", []),
        ("\ufeffCMD: ls\n", []),
        ("CMD\n: ls\n", []),
        ("XCMD: ls\nCMDD: ls\n", []),
        ("", []),
    ],
)
def test_what_is_a_suggestion(text: str, expected: list[tuple[str, int]]) -> None:
    commands = [FoundCommand(*command) for command in expected]
    assert scan(text) == commands
    assert scan(*text) == commands


def test_a_command_is_found_as_soon_as_its_line_is_complete() -> None:
    scanner = SuggestionScanner()
    assert scanner.feed("CM") == []
    assert scanner.feed("D: l") == []
    assert scanner.feed("s\r") == []
    assert scanner.feed("\nnext") == [FoundCommand("ls", 0)]
    assert scanner.finish() == []


pieces = st.sampled_from(
    ["CMD: ", "CMD:", "CMD", "C", " ", "ls", "\n", "\r\n", "\r", "```", "\u2028", "\x0b", "é", "M"]
)


@given(st.lists(pieces | st.text(max_size=3)).map("".join), st.randoms(use_true_random=False))
def test_how_the_text_was_split_makes_no_difference(text: str, rng: random.Random) -> None:
    cuts = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, len(text) + 1)))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert scan(*deltas) == scan(text)


@given(st.lists(pieces | st.text(max_size=3)).map("".join))
def test_agrees_with_a_plain_reading_of_the_rule(text: str) -> None:
    lines = text.split("\n")
    behind = [
        FoundCommand(line[5:].removesuffix("\r"), number)
        for number, line in enumerate(lines)
        if line.startswith("CMD: ")
    ]
    found = [command for command in scan(text) if command.source == "cmd"]
    assert found == [command for command in behind if command.text.strip()]


def test_a_line_that_is_no_suggestion_is_not_kept() -> None:
    scanner = SuggestionScanner()
    for _ in range(1000):
        scanner.feed("CMD ls" + "x" * 1000)
    kept = scanner.__dict__
    assert sum(sys.getsizeof(part) for part in kept["_pieces"]) < 1000


@pytest.mark.slow
def test_time_is_linear() -> None:
    def seconds(deltas: int) -> float:
        scanner = SuggestionScanner()
        start = time.process_time()
        for _ in range(deltas):
            scanner.feed("CMD: ab")
        assert len(scanner.finish()) == 1
        return time.process_time() - start

    # 400,000 pieces of one line: quadratic time would be minutes.
    assert seconds(400_000) < 20
