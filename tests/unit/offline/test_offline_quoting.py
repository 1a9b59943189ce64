"""No value of a slot ever becomes a second command, a second word or an option."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish_lsp.offline.choosing import quoted, quoted_path, render
from aish_lsp.offline.results import known_errors
from aish_lsp.offline.table import KINDS, SLOT, Way, kind_of, table
from aish_lsp.offline.tokens import is_name

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)

#: Values of slots that may be anything at all, and of those that have to be names.
HOSTILE = (
    *("-rf", "--help", "a b", "a'b", 'a"b', "$(touch x)", "`touch x`", "a; touch x", "a\ntouch x"),
    *(
        "a && touch x",
        "a | sh",
        "*",
        "#x",
        "!!",
        "${HOME}",
        "> x",
        "\\",
        "'",
        "a\\",
        "\x1b[2K",
        "é ü",
    ),
)
#: What may stand before a word that begins with a dash: options that take it, and formats.
PROTECTS = re.compile(r"-.*|key|user\.name")


def ways() -> Iterator[tuple[str, Way]]:
    for intent in table().intents:
        for way in (*intent.ways, *(way for ways in intent.after.values() for way in ways)):
            yield intent.name, way
    for error in known_errors():
        for way in error.ways:
            yield error.name, way


#: The kinds that may be any text; all others have a shape, or have to be names.
ANYTHING = frozenset(
    ["file", "folder", "path", "archive", "text", "pattern", "name", "command", "glob"]
)
SHAPED = {
    "number": "5",
    "size": "10M",
    "span": "7200",
    "port": "3000",
    "first": "2",
    "last": "9",
    "date": "2024-02-03",
    "mode": "755",
    "extension": "py",
    "version": "1.2",
    "url": "https://x",
}


@cache
def commands() -> list[str]:
    """Return the commands of the table that have slots."""
    return sorted({command for _, way in ways() for command in way.run if SLOT.search(command)})


def argv(arguments: str) -> list[bytes]:
    """Return the words that bash makes of ``arguments``."""
    command = ["bash", "-c", f"printf '%s\\0' {arguments}"]
    done = subprocess.run(command, capture_output=True, check=True, cwd="/")
    return done.stdout.split(b"\0")[:-1]


@settings(max_examples=60)
@given(st.lists(NAMES, min_size=1, max_size=8))
@pytest.mark.slow
def test_bash_takes_each_value_for_one_word(values: list[str]) -> None:
    assert argv(" ".join(map(quoted, values))) == [value.encode() for value in values]


@settings(max_examples=60)
@given(st.lists(NAMES.filter(lambda name: not name.startswith("~")), min_size=1, max_size=8))
@pytest.mark.slow
def test_no_path_is_an_option(values: list[str]) -> None:
    found = argv(" ".join(map(quoted_path, values)))
    assert not any(path.startswith(b"-") for path in found)
    assert [path.removeprefix(b"./") for path in found] == [
        value.encode().removeprefix(b"./") for value in values
    ]


def values(command: str, value: str) -> dict[str, str]:
    """Return values for the slots of ``command``: ``value`` where it may be anything."""
    kinds = {name: kind_of(name) for name in slots(command)}
    return {
        name: value if kind in ANYTHING else SHAPED.get(kind, "nam-e1")
        for name, kind in kinds.items()
    }


def slots(command: str) -> set[str]:
    return {name for name, _ in SLOT.findall(command) if kind_of(name) in KINDS}


@pytest.mark.parametrize("start", range(4))
def test_a_hostile_value_changes_no_other_word_of_a_command(start: int) -> None:
    for command in commands()[start::4]:
        if "|raw}" not in command:
            takes_hostile_values(command)


def takes_hostile_values(command: str) -> None:
    plain = render(command, values(command, "Xx1"))
    count = syntax_of(plain)
    for value in HOSTILE:
        rendered = render(command, values(command, value))
        assert rendered.isprintable()
        assert syntax_of(rendered) == count, rendered


def syntax_of(command: str) -> list[str]:
    """Return the commands, pipes and redirections of a command line, its words as one mark each."""
    from aish_lsp.shell.risk.words import parse

    found: list[str] = []
    waiting = [parse(command.encode())]
    while waiting:
        node = waiting.pop()
        if node.type in WORDS:
            found.append("word")
            continue
        found.append(node.type)
        waiting.extend(node.named_children)
    assert "ERROR" not in found, command
    return found


WORDS = {
    *("word", "raw_string", "ansi_c_string", "concatenation", "string", "number"),
    *("variable_name", "simple_expansion", "regex", "extglob_pattern"),
}


@pytest.mark.parametrize("start", range(4))
def test_a_value_with_a_dash_stands_behind_an_option(start: int) -> None:
    for command in commands()[start::4]:
        takes_dashes(command)


def takes_dashes(command: str) -> None:
    rendered = render(command, values(command, "-qz"))
    found = shlex.split(rendered, comments=False)
    for at, (before, word) in enumerate(pairwise(found), 1):
        if word == "-qz":
            earlier = found[: found.index(word)]
            takes_no_more = found[0] == "printf" or found[:2] == ["python3", "-c"]
            # jq takes both words behind it for what they are.
            takes_no_more = takes_no_more or found[max(0, at - 2)] == "--arg"
            option = PROTECTS.fullmatch(before) or takes_no_more or "--" in earlier
            assert option or "printf" in earlier, rendered


@settings(max_examples=60)
@given(NAMES.filter(str.strip))
@pytest.mark.slow
def test_a_command_of_the_user_stays_one_command(text: str) -> None:
    rendered = render("timeout 5 {command|raw} > out.txt", {"command": text})
    assert syntax_of(rendered).count("command") == 1
    assert argv(rendered.removesuffix(" > out.txt"))[:2] == [b"timeout", b"5"]


def test_a_tilde_that_bash_would_expand_in_an_assignment_is_quoted() -> None:
    assert [quoted("X=~"), quoted("a:~/b"), quoted("a~")] == ["'X=~'", "'a:~/b'", "a~"]


@pytest.mark.parametrize("name", ["-rf", "--help", "a b", "$(x)", "a;b", "a\nb", "'", "", "é", "*"])
def test_what_is_no_name_is_no_branch_package_or_user(name: str) -> None:
    assert not is_name(name)


def test_each_intent_is_named_once_and_says_what_it_does() -> None:
    names = [intent.name for intent in table().intents]
    assert len(names) == len(set(names))
    assert len(names) >= 300
    for intent in table().intents:
        assert re.fullmatch(r"[A-Z].+[.;:]", intent.does) or intent.topic, intent.does


def test_no_slot_stands_in_double_quotes_or_is_unknown() -> None:
    for command in commands():
        bare = re.sub(r"'[^']*'", "", command)
        for text in re.findall(r'"[^"]*"', bare):
            assert not slots(text), command


def test_the_last_way_of_an_intent_always_serves() -> None:
    missing = [i.name for i in table().intents if not i.topic and i.ways[-1].when]
    # What is to be spared has to be there.
    assert missing == ["delete all but"]
