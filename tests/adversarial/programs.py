"""Commands derived from what programs that read can be told besides: ``programs.toml``.

Each is written in the ways that options can be written, with quotes, and in the places where a
shell runs it or a wrapper does. Scripts of sed are put together from pieces.
"""

from __future__ import annotations

import random
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from derive import HERE, Case

_QUOTED: Final = re.compile(r"""'[^']*'|"[^"]*"|\\.""")
#: What has a meaning in double quotes.
_SPECIAL: Final = re.compile(r'[$`"\\]')

#: What runs `<C>`, a simple command; `<Q>` is the same as one quoted word.
_PLACES: Final = (
    *("command <C>", "exec <C>", "nice <C>", "nice -n 5 <C>", "timeout 5 <C>", "nohup <C>"),
    *("env <C>", "env -u X <C>", "LC_ALL=C <C>", "time <C>", "! <C>", "(<C>)", "{ <C>; }"),
    *("stdbuf -o0 <C>", "setsid <C>", "ls | xargs <C>", "find . -maxdepth 0 -exec <C> \\;"),
    *("bash -c <Q>", "eval <Q>", "sh -ec <Q>", "env -S <Q>", "watch -n1 <Q>", "trap <Q> EXIT"),
)
#: What holds any command.
_AROUND: Final = (
    *("echo $(<C>)", 'echo "$(<C>)"', "x=$(<C>)", "cat <(<C>)", "<C> | cat", "ls; <C>", "ls\n<C>"),
    *("cat keep.txt | <C>", "true && <C>", "false || <C>", "if <C>; then :; fi", "ls & <C> & ls"),
    *("for i in 1; do <C>; done", "f() { <C>; }; f", "case a in a) <C>;; esac", "<C> 2> /dev/null"),
)

#: Pieces of scripts of sed, of which some together leave a mark.
_PIECES: Final = (
    *(
        "s",
        "y",
        "/",
        "/",
        "/",
        ",",
        "|",
        "\\",
        "\\\n",
        "\n",
        "[",
        "]",
        "[^",
        "a",
        "x",
        "1",
        "$",
        "!",
    ),
    *(
        "{",
        "}",
        ";",
        ";",
        "#",
        " ",
        "e touch mark",
        "e",
        "w mark",
        "wmark",
        "p",
        "g",
        "I",
        "a\\",
        "i",
    ),
    *(
        ":a",
        "ba",
        "\\/",
        "[/]",
        "[\\/]",
        "[[:alpha:]",
        "s/a/",
        "s/x/y/",
        "/a/",
        "s,a,",
        "s x",
        "&",
        "D",
    ),
    *(
        "1e touch mark;",
        "w mark\n",
        "\\,",
        "s/.*/touch mark/e",
        "]/",
        "#e",
        "\\\\",
        "\\\\\n",
        "~",
        "+1",
    ),
)


def from_sed(count: int) -> Iterator[Case]:
    """Yield so many scripts of sed put together at random, the same ones every time."""
    chance = random.Random(12)
    for _ in range(count):
        script = "".join(chance.choices(_PIECES, k=chance.randint(1, 8)))
        yield Case("sed", f"sed {shlex.quote(script)} commands.sh")


def from_programs() -> Iterator[Case]:
    """Yield each command as it is, in its other spellings, and in a few places of each sort."""
    for at, case in enumerate(as_they_are()):
        yield case
        words = _words(case.command)
        spelled = [shlex.join(other) for other in _spellings(words)] + _quotings(words)
        # A line with other commands in it stands where any can.
        places = [*_PLACES, *_AROUND] if words else _AROUND
        for number in range(at, at + 4):
            spelled.append(_in_place(places[number * 7 % len(places)], case.command))
        seen = {case.command}
        for command in spelled:
            if command not in seen:
                seen.add(command)
                yield Case(case.kind, command)


@cache
def as_they_are() -> tuple[Case, ...]:
    """Return the commands of the data, whose kind is the kind of program."""
    data = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    return tuple(Case(kind, command) for kind, commands in data.items() for command in commands)


def _words(command: str) -> list[str]:
    """Return the words of a simple command; none of any other."""
    bare = _QUOTED.sub("", command)
    is_simple = not re.search(r"[;<>|&\n]|^\w+=", bare)
    return shlex.split(command) if is_simple else []


def _spellings(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words with an option written in another way."""
    for at, word in enumerate(words[1:], 1):
        before, after = [*words[:at]], [*words[at + 1 :]]
        name, equals, value = word.partition("=")
        if re.fullmatch(r"--[a-z][\w-]{3,}", name):
            if equals:
                yield [*before, name, value, *after]
            elif after:
                yield [*before, f"{name}={after[0]}", *after[1:]]
            for length in {len(name) - 1, (len(name) + 3) // 2}:
                yield [*before, name[:length] + equals + value, *after]
        elif re.fullmatch(r"-[a-zA-Z]", word) and after and after[0][:1] != "-":
            yield [*before, word + after[0], *after[1:]]
        elif re.fullmatch(r"-[a-zA-Z]{2}", word):
            yield [*before, word[:2], f"-{word[2:]}", *after]


def _quotings(words: Sequence[str]) -> list[str]:
    """Return lines with each word in other quotes, or with empty ones in it."""
    if not words:
        return []
    name, *rest = words
    double = [_SPECIAL.sub(r"\\\g<0>", word) for word in rest]
    return [
        " ".join([name, *(f'"{word}"' for word in double)]),
        " ".join([name, *("''" + shlex.quote(word) for word in rest)]),
        f"/usr/bin/{shlex.join(words)}" if name.isalnum() else f"\\{shlex.join(words)}",
    ]


def _in_place(place: str, command: str) -> str:
    return place.replace("<C>", command).replace("<Q>", shlex.quote(command))
