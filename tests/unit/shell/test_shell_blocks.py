"""Fences that name a shell: what of them is a command, and what is not."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.shell.blocks import SHELL_TAGS, FoundCommand
from aish_lsp.shell.environment import shell_for
from aish_lsp.shell.suggestions import (
    ReasoningFilter,
    SuggestionScanner,
    suggestions_of,
    without_reasoning,
)


def fence(body: str, tag: str = "sh", mark: str = "```") -> str:
    return f"{mark}{tag}\n{body}\n{mark}\n"


def only(text: str) -> FoundCommand:
    [found] = suggestions_of(text)
    return found


@pytest.mark.parametrize(("tag", "shell"), SHELL_TAGS.items())
def test_each_tag_is_for_its_shell(tag: str, shell: str) -> None:
    text = "$ make" if tag in ("console", "shell-session") else "make"
    for info in (tag, tag.upper(), f"{tag} title='x'"):
        assert only(fence(text, info)) == FoundCommand("make", 0, 3, "fence", shell)


@pytest.mark.parametrize("tag", ["", "python", "text", "shellcheck", "console-output", "diff"])
def test_other_tags_suggest_nothing(tag: str) -> None:
    assert suggestions_of(fence("ls", tag)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # All lines are one command, with what is between them.
        ("So:\n" + fence("cd src\n\nmake"), [("cd src\n\nmake", 1, 5)]),
        (fence("\n  ls\n\n"), [("  ls", 0, 5)]),
        ("```sh\r\nls\r\npwd\r\n```\r\n", [("ls\npwd", 0, 3)]),
        (fence("ls", "sh", "~~~"), [("ls", 0, 2)]),
        (fence("cat <<'E'\n```\nE", "sh", "````"), [("cat <<'E'\n```\nE", 0, 4)]),
        ("1. first\n   ```sh\n   ls\n     -la\n   ```\n", [("ls\n  -la", 1, 4)]),
        ("- ```sh\n  ls\n  ```\n", [("ls", 0, 2)]),
        ("> so\n> ```sh\n> ls\n>   -l\n> ```\n", [("ls\n  -l", 1, 4)]),
        ("> - ```sh\n>   ls\n>   ```\n", [("ls", 0, 2)]),
        # A carriage return in the middle stays, where it is seen.
        (fence("rm x\rls"), [("rm x\rls", 0, 2)]),
        # Not complete, not closed where it began, or within another one.
        ("```sh\nls\n", []),
        ("```sh\nls\n``\n~~~\n", []),
        ("> ```sh\n> ls\n\n```\n", []),
        ("````markdown\n```sh\nls\n```\n````\n", []),
        ("```markdown\n```sh\nls\n```\n", []),
        ("```sh\nls\n\nand then\n\n```python\nx\n```\n", []),
        # Nothing to run.
        ("```sh\n```\n", []),
        (fence("# nothing\n\n  # at all"), []),
    ],
)
def test_which_fences_are_commands(text: str, expected: list[tuple[str, int, int]]) -> None:
    found = suggestions_of(text)
    assert [(one.text, one.line, one.end_line) for one in found] == expected
    assert all(one.source == "fence" for one in found)


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        # A fence within a here-document has ended the block too early.
        ("cat >a.md <<'EOF'\n# Title", "the line EOF that ends the here-document"),
        ("<<EOF cat >a.md\n# Title", "the line that ends the here-document"),
        ("ls; <<'EOF' cat >a.md", "the line that ends the here-document"),
        ("cat >a.md <<''", "the line that ends the here-document"),
        ("cat " + "<<A " * 30 + "\nA" * 20, "the line that ends the here-document"),
        ("tar czf b.tgz \\", "the line after the \\"),
        ("echo 'one", "the closing '"),
        ("cd src\nfor f in *; do\n  echo $f", "the end of the command"),
        ("make &&", "the end of the command"),
    ],
)
@pytest.mark.parametrize("tag", ["sh", "bash", "shell"])
def test_a_block_that_is_cut_off_is_to_be_edited(tag: str, body: str, missing: str) -> None:
    assert only(fence(body, tag)).placeholders == (missing,)


@pytest.mark.parametrize(
    "body",
    [
        "# it's\nls # (\n",
        "cat <<'A' <<B\nit's (\nA\n\"\nB\n",
        "case $x in a) ls;; esac",
        # The parser knows no such glob, but it is whole.
        "for f in a(.N); do echo $((1<<2)) '<<A' \"<<B\" # <<C\ndone",
        "for f in a(.N); do ls $f; done\n" + "echo a\n" * 80,
    ],
)
def test_a_block_that_is_whole_can_run(body: str) -> None:
    assert only(fence(body, "bash")).placeholders == ()


def test_what_is_for_another_kind_of_shell_is_not_looked_at() -> None:
    assert only(fence("if true\n  ls\nend", "fish")).placeholders == ()


@pytest.mark.parametrize(
    ("body", "typed"),
    [
        ("$ ls\na.txt\n% pwd\n> date\n", "ls\npwd\ndate"),
        ("> ls\n> pwd", "ls\npwd"),
        ("$ cat <<EOF\n> one\n> EOF\none", "cat <<EOF\none\nEOF"),
        ("$ cat <<EOF\n$ one\n\nEOF\n$ ls", "cat <<EOF\n$ one\n\nEOF\nls"),
        ("$ cat <<-'END OF'\n\t> one\n\tEND OF\nx", "cat <<-'END OF'\n\t> one\n\tEND OF"),
        ("$ cat <<A <<B\n1\nA\n2\nB\nout", "cat <<A <<B\n1\nA\n2\nB"),
        ("$ docker run \\\n    -it \\\n    foo\nbar", "docker run \\\n    -it \\\n    foo"),
        ("$ echo a\\\\\nb", "echo a\\\\"),
        ("$ for i in 1 2; do\n>   echo $i\n> done\n1\n2", "for i in 1 2; do\n  echo $i\ndone"),
        ("$ echo $((1 << n))\n4", "echo $((1 << n))"),
        ('$ echo "see <<EOF" # <<EOF\nsee <<EOF\n$ ls', 'echo "see <<EOF" # <<EOF\nls'),
        ("$ cat <<<x\nx\n$ ls", "cat <<<x\nls"),
        ("(venv) $ make\nok\n(base)% pwd\n", "make\npwd"),
        ("me@box:~/a b$ ls\na.txt\nme@box:~/a b$ pwd", "ls\npwd"),
        (
            "root@3f2a:/# apt update\nHit:1 x\n[me@box src]$ make\nme@Box src % pwd",
            "apt update\nmake\npwd",
        ),
        ("(venv) me@box:~$ make \\\n  all\nme@box: no such host\n# not typed", "make \\\n  all"),
        # What npm and diff print is no prompt.
        ("$ npm test\n\n> app@1.0.0 test\n> jest\n", "npm test"),
        ("$ diff a b\n0a1\n> rm -rf x\n", "diff a b"),
    ],
)
@pytest.mark.parametrize("tag", ["console", "shell-session"])
def test_of_a_console_what_was_typed(tag: str, body: str, typed: str) -> None:
    assert only(fence(body, tag)).text == typed


@pytest.mark.parametrize("tag", ["powershell", "pwsh", "console", "sh"])
def test_what_was_typed_into_powershell_is_for_powershell_alone(tag: str) -> None:
    body = (
        "PS C:\\Users\\me> Get-ChildItem |\n>> Select-Object Name\n\nName\n----\na.txt\n"
        "(venv) PS> Get-Date\nMonday\n>> of an output\nPS /home/me> pwd\n"
    )
    found = only(fence(f"# first\n{body}", tag))
    typed = "Get-ChildItem |\nSelect-Object Name\nGet-Date\npwd"
    assert (found.text, found.shell) == (typed, "pwsh")


@pytest.mark.parametrize("body", ["PSQL> ls", "PS1='$ '", "(venv) make", "PS"])
def test_what_only_looks_like_a_prompt_is_left_in_place(body: str) -> None:
    assert only(fence(body)).text == body


def test_a_console_without_a_command_suggests_nothing() -> None:
    assert suggestions_of(fence("just output", "console")) == []
    # Where the here-document ends nobody can tell.
    assert suggestions_of(fence("$ cat <<EOF\none\n$ ls", "console")) == []


def test_prompts_are_taken_off_in_other_shells_too() -> None:
    assert only(fence("$ ls\n$ pwd", "bash")).text == "ls\npwd"
    assert only(fence("# all\n$ ls\na.txt", "bash")).text == "ls"
    # Here it writes a file.
    assert only(fence("> out\nls", "bash")).text == "> out\nls"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```sh\nCMD: ls\nCMD: pwd\n```\n", [("cmd", "ls", 1), ("cmd", "pwd", 2)]),
        ("```sh\n# first\nCMD: ls\n```\n", [("cmd", "ls", 2)]),
        ("CMD: make test\n" + fence("make test"), [("cmd", "make test", 0)]),
        (fence("make test") + "CMD: make test\n", [("cmd", "make test", 3)]),
        ("CMD: a\nCMD: b\n" + fence("a\nb"), [("cmd", "a", 0), ("cmd", "b", 1)]),
        (fence("ls") + fence("ls"), [("fence", "ls", 0), ("fence", "ls", 3)]),
        ("CMD: a\n" + fence("a\nb"), [("cmd", "a", 0), ("fence", "a\nb", 1)]),
        # A line of a list is not in column 0: its fence says what is meant.
        ("- x\n  ```sh\n  CMD: ls\n  ```\n", [("fence", "ls", 1)]),
        ("```sh\nCMD: ls\necho x\n```\n", [("cmd", "ls", 1)]),
    ],
)
def test_nothing_is_offered_twice(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert [(one.source, one.text, one.line) for one in suggestions_of(text)] == expected


@pytest.mark.parametrize(
    ("text", "placeholders"),
    [
        ("git clone <url>", ("<url>",)),
        ("ssh <user>@<host> -p <port number>", ("<user>", "<host>", "<port number>")),
        ("export KEY=YOUR_API_KEY", ("YOUR_API_KEY",)),
        ("cd /path/to/your-project", ("/path/to/your-project",)),
        ("cd path/to", ("path/to",)),
        ("docker run your-image:latest", ("your-image",)),
        ("git commit -m '...'\nmake ...", ("...",)),
        ("make \u2026", ("\u2026",)),
        ("token=CHANGE_ME", ("CHANGE_ME",)),
        # What only looks like one.
        ("sort <in >out", ()),
        ("go test ./...", ()),
        ("git log main...topic", ()),
        ("echo 'Loading...'", ()),
        ("cat <<EOF >x\n<h1>Hi</h1><br>\nEOF", ()),
        ("cat <<EOF >x.c\n#include <stdio.h>\nEOF", ()),
        ("grep -P '(?P<name>x)' f", ()),
        ("diff <(ls a) <(ls b)", ()),
        ("echo yours; ls", ()),
        ("grep 'List<String>' src", ()),
    ],
)
def test_placeholders(text: str, placeholders: tuple[str, ...]) -> None:
    assert only(fence(text)).placeholders == placeholders
    if "\n" not in text:
        on_a_line = tuple(one for one in placeholders if one.startswith("<"))
        assert only(f"CMD: {text}").placeholders == on_a_line


def test_many_placeholders_take_linear_time() -> None:
    start = time.process_time()
    assert only(fence(f"echo {'<a>' * 60_000}")).placeholders == ("<a>",)
    assert only(fence(f"echo {'<a>' * 60_000}</a>")).placeholders == ()
    assert time.process_time() - start < 5


def test_fences_can_be_left_alone() -> None:
    scanner = SuggestionScanner(fences=False)
    assert scanner.feed(fence("ls") + "CMD: pwd\n") == [FoundCommand("pwd", 3)]


def test_a_fence_is_found_as_soon_as_it_is_complete() -> None:
    scanner = SuggestionScanner()
    assert scanner.feed("```sh\nls\n``") == []
    assert scanner.feed("`") == []
    assert scanner.feed("\nand") == [FoundCommand("ls", 0, 3, "fence", "sh")]
    assert scanner.finish() == []


parts = st.sampled_from(
    ["```", "~~~", "````", "sh", "console", "py", "\n", "\r\n", "$ ", "> ", "- ", "  ", "ls", "\\",
     "CMD: ", "<<A", "A", "<x>", "..."]
)  # fmt: skip


@given(st.lists(parts, max_size=40).map("".join), st.randoms(use_true_random=False))
def test_how_the_text_was_split_makes_no_difference(text: str, rng: random.Random) -> None:
    cuts = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, len(text) + 1)))
    scanner, whole = SuggestionScanner(), SuggestionScanner()
    found = []
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += scanner.feed(text[first:last])
    assert found + scanner.finish() == whole.feed(text) + whole.finish()


@given(st.lists(parts, max_size=40).map("".join))
def test_each_line_of_a_fence_stands_in_the_reply(text: str) -> None:
    lines = text.split("\n")
    for found in suggestions_of(text):
        inner = iter(lines[found.line : found.end_line + 1])
        assert all(any(line in of for of in inner) for line in found.text.split("\n"))


@pytest.mark.parametrize(
    ("named", "own", "shell", "obstacle"),
    [
        ("", "fish", "fish", ""),
        ("sh", "bash", "sh", ""),
        ("zsh", "/opt/zsh/bin/zsh", "/opt/zsh/bin/zsh", ""),
        ("nosuchsh", "bash", "nosuchsh", "nosuchsh, which is not installed here"),
        ("pwsh", "bash", "pwsh", "PowerShell, and your shell"),
        ("pwsh", "/usr/bin/pwsh", "/usr/bin/pwsh", ""),
    ],
)
def test_which_shell_runs_it(named: str, own: str, shell: str, obstacle: str) -> None:
    found, why_not = shell_for(named, own, "/bin:/usr/bin")
    assert found == shell
    assert obstacle in why_not
    assert bool(obstacle) == bool(why_not)


SPELLINGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "<REASONING_SCRATCHPAD>": "</REASONING_SCRATCHPAD>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<unused94>thought": "<unused95>",
    "[THINK]": "[/THINK]",
    "\u25c1think\u25b7": "\u25c1/think\u25b7",
    "<|channel|>analysis<|message|>": "<|end|><|start|>assistant<|channel|>final<|message|>",
}


@pytest.mark.parametrize("opening", SPELLINGS)
@given(st.randoms(use_true_random=False))
def test_reasoning_in_the_text_suggests_nothing(opening: str, rng: random.Random) -> None:
    closing = SPELLINGS[opening]
    thought = "CMD: rm -rf build\n```sh\nrm x\n```\n"
    answer = "So:\nCMD: ls\n"
    text = f"{opening}\n{thought}{closing}\n{answer}"
    [found] = suggestions_of(text)
    assert (found.text, found.line) == ("ls", text[: text.index("CMD: ls")].count("\n"))
    assert without_reasoning(text).strip() == answer.strip()
    # Without the tag that the chat template has, too.
    [found] = suggestions_of(f"{thought}{closing}\n{answer}")
    assert found.text == "ls"
    # However it is split.
    outside, pieces = ReasoningFilter(), list[str]()
    cuts = sorted(rng.randint(0, len(text)) for _ in range(8))
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        pieces.append(outside.feed(text[begin:end]))
    assert "".join([*pieces, outside.finish()]).strip() == answer.strip()


def test_an_answer_about_tags_is_an_answer() -> None:
    text = "CMD: ls\nIt ends with `</think>`, which begins with <think>.\nCMD: pwd\n"
    assert [found.text for found in suggestions_of(text)] == ["ls", "pwd"]
