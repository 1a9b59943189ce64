from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.shell.output import HEAD_LIMIT, TAIL_LIMIT, KeptOutput, clean_output

LIMIT = HEAD_LIMIT + TAIL_LIMIT


def kept(*pieces: str) -> tuple[str, bool]:
    output = KeptOutput()
    for piece in pieces:
        output.add(piece)
    return output.text()


@pytest.mark.parametrize("text", ["", "a\n", "x" * LIMIT, "é" * (LIMIT // 2)])
def test_what_fits_is_kept_exactly(text: str) -> None:
    assert kept(text) == (text, False)
    assert kept(*text) == (text, False)


def test_one_byte_more_is_cut() -> None:
    text, truncated = kept("x" * (LIMIT + 1))
    assert truncated
    assert text == "x" * HEAD_LIMIT + "\n[aish: 1 bytes left out here]\n" + "x" * TAIL_LIMIT


def test_the_cut_falls_between_lines_and_tells_how_much_is_missing() -> None:
    lines = [f"line {number}\n" for number in range(100_000)]
    text, truncated = kept(*lines)
    assert truncated
    before, marker, after = text.partition("[aish: ")
    number, _, after = after.partition(" bytes left out here]\n")
    assert marker
    whole = "".join(lines)
    assert whole.startswith(before)
    assert whole.endswith(after)
    assert before.endswith("\n")
    assert after.startswith("line ")
    assert len(before) + int(number) + len(after) == len(whole)
    assert LIMIT - 5000 < len(text) < LIMIT + 100


def test_a_character_is_never_cut_in_two() -> None:
    text, truncated = kept("x" + "漢" * LIMIT)
    assert truncated
    assert "\ufffd" not in text
    assert set(text.replace("[aish: ", "").replace(" bytes left out here]", "")) <= set(
        "x漢\n0123456789"
    )


@given(st.lists(st.text(max_size=5) | st.sampled_from(["a\n" * 9000, "é" * 20_000]), max_size=12))
def test_how_it_came_makes_no_difference(pieces: list[str]) -> None:
    assert kept(*pieces) == kept("".join(pieces))


def test_memory_is_bounded() -> None:
    output = KeptOutput()
    for _ in range(1000):
        output.add("x" * 10_000)
    assert len(output._head) + len(output._tail) <= HEAD_LIMIT + 2 * TAIL_LIMIT + 10_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 漢\n\ttab\n", "plain é 漢\n\ttab\n"),
        ("\x1b[1;31mred\x1b[0m \x1b[38;5;196mx\x1b[m", "red x"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\!", "link!"),
        ("\x1bPq#0;2\x1b\\after", "after"),
        ("\x1b(Bx\x1b=y\x1b7z", "xyz"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("10%\r100%\r", "100%"),
        ("\r\x1b[Kstep 1\r\x1b[Kstep 2\n", "step 2\n"),
        ("working |\b/\b-\bdone\n", "working done\n"),
        ("N\bNA\bAM\bM", "NAM"),
        ("\b\b\bx\n\by", "x\ny"),
        ("bell\x07 nul\x00 del\x7f ff\x0c", "bell nul del ff"),
        # An unfinished sequence must not swallow what follows it.
        ("\x1b]0;never ended\nrm -rf\n", "0;never ended\nrm -rf\n"),
        ("\x1b]0;a\x1b]0;b\x07c", "0;ac"),
        ("\x1bPnever ended\nnext", "never ended\nnext"),
        ("\x9d0;a\x9d0;b\x9cc", "0;ac"),
        ("\x1b[12", "12"),
        ("end\x1b", "end"),
    ],
)
def test_clean_output(text: str, expected: str) -> None:
    assert clean_output(text) == expected


@given(st.text(alphabet=st.sampled_from("ab\x1b[]0;m\x07\\P\r\n\b\x9b\x9c 1K\t\x00"), max_size=40))
def test_clean_output_leaves_no_control_characters(text: str) -> None:
    cleaned = clean_output(text)
    assert not [c for c in cleaned if not c.isprintable() and c not in "\n\t"]
    assert cleaned.count("\n") == text.count("\n")
    assert clean_output(cleaned) == cleaned


@pytest.mark.parametrize(
    "unit",
    [
        *("\x1b]", "\x1b[1;", "\x1bP", "\b", "a\b", "\r", "a\r", "\x1b", " \x1b("),
        *("\x9d", "\x90", "\x98", "\x9d\x90", "\x9b", "\x9f"),
    ],
)
def test_clean_output_is_linear(unit: str) -> None:
    start = time.process_time()
    clean_output(unit * 100_000)
    assert time.process_time() - start < 10
