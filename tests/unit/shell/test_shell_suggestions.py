from __future__ import annotations

import random
import subprocess
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A backslash takes the next line.
        ("CMD: tar czf b.tgz \\\n  src\nnext\n", [("tar czf b.tgz \\\n  src", 0)]),
        ("CMD: a \\\r\n  b \\\r\n  c\r\n", [("a \\\n  b \\\n  c", 0)]),
        ("CMD: a \\\\\nnext\n", [("a \\\\", 0)]),
        ("CMD: ls # a \\\nnext\n", [("ls # a \\", 0)]),
        # A here-document goes on to its end, whatever it holds.
        (
            "CMD: cat >a <<'EOF'\n\nCMD: b\n# c\n```sh\nd\n```\n EOF\nEOF\nprose\nCMD: ls\n",
            [("cat >a <<'EOF'\n\nCMD: b\n# c\n```sh\nd\n```\n EOF\nEOF", 0), ("ls", 10)],
        ),
        ("CMD: cat <<-E | sort\n\tx\n\tE\nCMD: ls", [("cat <<-E | sort\n\tx\n\tE", 0), ("ls", 3)]),
        ("CMD: cat <<A <<B\na\nA\nb\nB\nnext", [("cat <<A <<B\na\nA\nb\nB", 0)]),
        (
            "CMD: git commit -m \"$(cat <<'E'\none\n\ntwo\nE\n)\"\nnext",
            [("git commit -m \"$(cat <<'E'\none\n\ntwo\nE\n)\"", 0)],
        ),
        ("CMD: echo '<<E'\nnext\n", [("echo '<<E'", 0)]),
        ("CMD: echo $((1<<3)) <<<x\nnext\n", [("echo $((1<<3)) <<<x", 0)]),
        # A quote, a group and a loop go on if they are complete soon.
        ("CMD: echo 'a\n b'\nnext\n", [("echo 'a\n b'", 0)]),
        ("CMD: for f in *; do\n  wc $f\ndone\nnext\n", [("for f in *; do\n  wc $f\ndone", 0)]),
        ("CMD: (cd a &&\n  ls)\nCMD: b\n", [("(cd a &&\n  ls)", 0), ("b", 2)]),
        ("```sh\nCMD: ls |\n  wc\n```\n", [("ls |\n  wc", 1)]),
        # What is wrong is left to the shell, and a placeholder is to be filled in.
        ("CMD: echo )\nnext\n", [("echo )", 0)]),
        ("CMD: git switch <branch>\nnext\n", [("git switch <branch>", 0)]),
    ],
)
def test_the_lines_that_complete_a_command_belong_to_it(
    text: str, expected: list[tuple[str, int]]
) -> None:
    commands = [
        FoundCommand(
            text,
            line,
            text.count("\n") + 1,
            placeholders=("<branch>",) if "<branch>" in text else (),
        )
        for text, line in expected
    ]
    assert scan(text) == commands
    assert scan(*text) == commands


@pytest.mark.parametrize(
    ("text", "expected", "missing"),
    [
        ("CMD: echo it's done\nThat's all.\n", "echo it's done", "the closing '"),
        ("CMD: echo 'a\nprose\n\nb'\n", "echo 'a", "the closing '"),
        ('CMD: echo "a\n## Heading"\n', 'echo "a', 'the closing "'),
        ("CMD: echo $'a\\'b\n\n", "echo $'a\\'b", "the closing '"),
        ("CMD: echo $((1 +\n\n", "echo $((1 +", "the end of the command"),
        ("CMD: ls \\\n", "ls \\", "the line after the \\"),
        ("CMD: ls \\\n\n-la\n", "ls \\", "the line after the \\"),
        ("CMD: ls &&\nCMD: pwd\n", "ls &&", "the end of the command"),
        ("CMD: ls &&\ndone\nfi\n", "ls &&\ndone\nfi", "the end of the command"),
        ("CMD: while true; do\ndone\n", "while true; do\ndone", "the end of the command"),
        ("CMD: if true; then\nfi\n", "if true; then\nfi", "the end of the command"),
        ("CMD: while true; do\n  ls\n\ndone\n", "while true; do\n  ls", "the end of the command"),
        ("CMD: cat <<E\na\n", "cat <<E\na", "the line E that ends the here-document"),
        ("```\nCMD: cat <<E\na\n```\nE\n", "cat <<E\na", "the line E that ends the here-document"),
    ],
)
def test_a_command_that_is_not_completed_is_to_be_edited(
    text: str, expected: str, missing: str
) -> None:
    first = scan(text)[0]
    assert (first.text, first.placeholders) == (expected, (missing,))
    assert scan(*text) == scan(text)


word = st.sampled_from(["ls", "echo a", "x=1", "true"])
quoted = st.sampled_from(
    ["'a\nb'", "$'a\\'b\nc'", "$((1 +\n2))", "'a # b\n'", '"a\n$(ls)\nb"', "'it is'", '"\n"']
)
lines = st.lists(word, min_size=1, max_size=3).map("\n".join)
heredoc_body = st.lists(
    st.sampled_from(["", "CMD: ls", "# x", "it's", "```", "```sh", " E", "$x"]), max_size=4
).map(lambda body: "".join(f"{line}\n" for line in body))
whole_command = st.one_of(
    word,
    quoted.map("echo {}".format),
    lines.map("for i in 1 2; do\n{}\ndone".format),
    lines.map("if true; then\n{}\nfi".format),
    lines.map("{{\n{}\n}}".format),
    lines.map("(\n{}\n)".format),
    st.tuples(word, word).map("{0[0]} \\\n  {0[1]}".format),
    st.tuples(word, word).map("{0[0]} &&\n  {0[1]}".format),
    heredoc_body.map("cat <<'E' | sort\n{}E".format),
    heredoc_body.map("git commit -m \"$(cat <<'E'\n{}E\n)\"".format),
    heredoc_body.map("if true; then cat <<-'E'\n{}\tE\nfi".format),
)
prose = st.sampled_from(["That's it.", "Then it's run:", "done", "## Next", "", "`x`", "E"])


@pytest.mark.slow
@given(
    st.lists(st.tuples(whole_command, st.none() | st.integers(1, 4), prose), max_size=3),
    st.sampled_from(["CMD: {}\n{}\n\n", "```\nCMD: {}\n```\n{}\n", "```sh\n{}\n```\n\n{}\n\n"]),
)
def test_no_command_of_a_reply_runs_in_part(
    parts: list[tuple[str, int | None, str]], form: str
) -> None:
    reply = ""
    for command, cut, after in parts:
        kept = "\n".join(command.split("\n")[:cut])
        reply += form.format(kept, after)
    for found in scan(reply):
        if not found.placeholders:
            done = subprocess.run(
                ["bash", "-n", "-c", found.text], capture_output=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, b""), found.text


@pytest.mark.parametrize("after", ["", "prose\n", "\nprose\n", "```sh\npwd\n```\n", "CMD: pwd\n"])
@given(command=whole_command)
def test_a_whole_command_is_suggested_whole(command: str, after: str) -> None:
    first = scan(f"CMD: {command}\n{after}")[0]
    assert (first.text, first.placeholders) == (command, ())


pieces = st.sampled_from(
    ["CMD: ", "CMD:", "CMD", "C", " ", "ls", "\n", "\r\n", "\r", "```", "\u2028", "\x0b", "é", "M"]
)


@given(st.lists(pieces | st.text(max_size=3)).map("".join), st.randoms(use_true_random=False))
def test_how_the_text_was_split_makes_no_difference(text: str, rng: random.Random) -> None:
    cuts = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, len(text) + 1)))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert scan(*deltas) == scan(text)


@given(st.lists(st.sampled_from(["CMD: ", "CMD", "C", " ", "ls", "\n", "\r\n", "é", "\u2028"])))
def test_agrees_with_a_plain_reading_of_the_rule(pieces: list[str]) -> None:
    text = "".join(pieces)
    lines = text.split("\n")
    behind = [
        FoundCommand(line[5:].removesuffix("\r"), number)
        for number, line in enumerate(lines)
        if line.startswith("CMD: ")
    ]
    found = [command for command in scan(text) if command.source == "cmd"]
    assert found == [command for command in behind if command.text.strip()]


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
