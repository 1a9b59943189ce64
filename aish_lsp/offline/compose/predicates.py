"""What is true of files: the tests of ``find`` that the predicates of clauses.toml become."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.choosing import quoted
from aish_lsp.offline.compose.grammar import Misfit, Toolset, Value
from aish_lsp.offline.words import data


@dataclass(slots=True)
class Things:
    """Which files are meant, what is wanted of them, and what is done with them.

    Attributes:
        target: where the command will run.
        roots: the folders to look in.
        kind: ``f``, ``d``, ``l`` or ``any``, as find calls them.
        depth, least: the greatest and the least number of levels below a root.
        below: whether folders below are said to count: ``all`` or ``none``.
        tests: the tests of find.
        content: an option of grep and the text that is looked for.
        case: ``i`` if the case of letters does not matter.
        want: what is to be shown of the things.
        number: how many.
        sort: how what is shown is sorted or grouped.
        act, to: what is done with them, and the place or value for that.
        these: the names or extensions before "files".
        spared: the names of files that are left out.
        save: the file that the output goes to.
        lists: ``names`` if only names are to be printed, or what -printf prints.
        end: what is left of the output: ``head -n 5``.
        follow, device: options of find: to follow links, to stay on one device.
        said: clauses for the explanation, as the user said them.
    """

    target: Toolset
    roots: list[str] = field(default_factory=list)
    kind: str = ""
    depth: str = ""
    least: str = ""
    below: str = ""
    tests: list[str] = field(default_factory=list)
    content: str = ""
    case: str = ""
    want: str = ""
    number: str = ""
    sort: str = ""
    act: str = ""
    to: str = ""
    save: str = ""
    lists: str = ""
    end: str = ""
    follow: str = ""
    device: str = ""
    these: str = ""
    spared: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


Make = Callable[..., Sequence[str]]


def _any(option: str, patterns: Sequence[str]) -> list[str]:
    """Return a test that one of several patterns passes."""
    tests = [f"{option} {quoted(one)}" for one in patterns]
    return tests if len(tests) == 1 else [rf"\( {' -o '.join(tests)} \)"]


def _names(shape: str) -> Make:
    """Return what makes a test of the name from a shape: ``{}*`` for what it begins with."""
    return lambda _, found: _any("-name", [shape.format(_part(one)) for one in found])


#: A class of characters that a name has, begins or ends with, by how it is said.
_CLASS: Final = re.compile(
    r"(?:(?:an? |any )?(?:(digit|number)|(capital|upper)|(lower)|(space|blank)).*)", re.IGNORECASE
)
_CLASSES: Final = ("[0-9]", "[[:upper:]]", "[[:lower:]]", " ")


def _part(name: Value) -> str:
    """Return a part of a name, without wildcards at its ends: ending in ``*,v``."""
    said = _CLASS.fullmatch(name.text) if name.kind == "word" else None
    if said:
        return next(one for one, found in zip(_CLASSES, said.groups(), strict=True) if found)
    part = name.text.strip("*")
    if re.search(r"[][*?\\]", part):
        raise Misfit("a pattern within a name")
    return part


def named(_: Things, found: Sequence[Value]) -> list[str]:
    """Return the test of a name, of which ``.txt`` is the end."""
    if any("/" in one.text for one in found):
        raise Misfit("a path is no name")
    return _any("-name", [f"*{one.text}" if one.text[:1] == "." else one.text for one in found])


def called(_: Things, found: Sequence[Value]) -> list[str]:
    """Return the test of a whole name."""
    if any("/" in one.text for one in found):
        raise Misfit("a path is no name")
    return _any("-name", [one.text for one in found])


def extensions(_: Things, found: Sequence[Value]) -> list[str]:
    """Return the test of the extension."""
    return _any("-name", [f"*.{one.extension}" for one in found])


def _size(sign: str) -> Make:
    """Return what makes a test of the size: ``+`` more, ``-`` less, or just that."""

    def test(_: Things, size: Sequence[Value], again: Sequence[Value] = ()) -> list[str]:
        count = size[0].bytes
        if again and again[0].bytes != count:  # 10 megabytes (10485760 bytes)
            raise Misfit("two sizes")
        for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
            # With "-" and a unit, find would round the size up before it compares.
            if count % unit == 0 and sign == "+":
                return [f"-size +{count // unit}{letter}"]
        return [f"-size {sign}{count}c"]

    return test


def _at_least(things: Things, size: Sequence[Value]) -> list[str]:
    return [f"-not -size -{size[0].bytes}c"]


def _at_most(things: Things, size: Sequence[Value]) -> list[str]:
    return [f"-not -size +{size[0].bytes}c"]


def _with_unit(one: Value, other: Value) -> Value:
    """Return a number with the unit of another value: ``2`` of "2 to 6 minutes"."""
    return Value(f"{one.text} {other.unit}") if one.kind == "number" else one


def _between_sizes(things: Things, less: Sequence[Value], more: Sequence[Value]) -> list[str]:
    least = _with_unit(less[0], more[0])
    if least.bytes >= more[0].bytes:
        raise Misfit("nothing is between")
    return [*_size("+")(things, [least]), *_size("-")(things, more)]


#: The time that a verb means; without one it is the change of the content.
_TIMES: Final = dict.fromkeys(("", *"mcuetwd"), "m") | {"a": "a", "r": "a", "s": "c"}


def _time(sign: str) -> Make:
    """Return what makes a test of the time: ``-`` within a span, ``+`` before it."""

    def test(_: Things, verb: Sequence[Value], span: Sequence[Value]) -> list[str]:
        which = _TIMES[verb[0].text[:1].lower()]
        seconds = span[0].seconds
        hours = span[0].unit.startswith("hour")
        if seconds % 86400 == 0 and not (hours and sign):
            return [f"-{which}time {sign}{seconds // 86400}"]
        if seconds < 60:
            raise Misfit("find counts minutes")
        return [f"-{which}min {sign}{seconds // 60}"]

    return test


def _at_least_ago(things: Things, verb: Sequence[Value], span: Sequence[Value]) -> list[str]:
    return [f"-not {test}" for test in _time("-")(things, verb, span)]


def _spanned(things: Things, verb: Sequence[Value], *ends: Sequence[Value]) -> list[str]:
    """Return the tests of a time between two ages, in whatever order they are said."""
    *_, first, last = ends
    spans = sorted((_with_unit(first[0], last[0]), last[0]), key=lambda one: one.seconds)
    if ends[:-2] and ends[0] and _TIMES[ends[0][0].text[:1]] != _TIMES[verb[0].text[:1]]:
        raise Misfit("two kinds of time")
    if spans[0].seconds == spans[1].seconds:
        raise Misfit("nothing is between")
    return [*_time("+")(things, verb, spans[:1]), *_time("-")(things, verb, spans[1:])]


def _today(things: Things, verb: Sequence[Value]) -> list[str]:
    if not things.target.gnu:
        raise Misfit("-daystart is GNU's")
    return [f"-daystart -{_TIMES[verb[0].text[0].lower()]}time 0"]


_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


def _dated(_: Things, verb: Sequence[Value], *ends: Sequence[Value]) -> list[str]:
    """Return the tests of a change between two days, of which the last counts, or before one."""
    days = [one[0].text for one in ends]
    if (
        not all(map(_DATE.fullmatch, days))
        or days != sorted(days)
        or _TIMES[verb[0].text[:1]] != "m"
    ):
        raise Misfit("not two days")
    until = quoted(f"{days[-1]} 23:59:59") if len(days) > 1 else days[0]
    return [*(f"-newermt {one}" for one in days[:-1]), f"-not -newermt {until}"]


def _holds_but(_: Things, one: Sequence[Value], other: Sequence[Value]) -> list[str]:
    """Return the tests of a text that is in a file, and of one that is not."""
    found = rf"-exec grep -qF -e {one[0].quoted} {{}} \;"
    return [found, rf"-not -exec grep -qF -e {other[0].quoted} {{}} \;"]


def _newer(_: Things, *found: Sequence[Value]) -> list[str]:
    if _DATE.fullmatch(found[-1][0].text):
        if len(found) == 1 or _TIMES[found[0][0].text[:1]] != "m":
            raise Misfit("a day is no file")
        return [f"-newermt {found[-1][0].text}"]
    accessed = len(found) > 1 and _TIMES[found[0][0].text[:1]] == "a"
    return [f"-{'a' * accessed}newer {found[-1][0].path}"]


def _lets(_: Things, what: Sequence[Value], who: Sequence[Value]) -> list[str]:
    """Return the test of a permission that somebody has."""
    one = {"owner": "u", "user": "u", "group": "g"}.get(who[0].text.lower(), "o")
    if who[0].text.lower() in ("all", "everyone", "everybody"):
        one = "a"
    return [f"-perm -{one}+{what[0].text[0].lower().replace('e', 'x')}"]


def _regex(things: Things, found: Sequence[Value]) -> list[str]:
    text = found[0].text
    if not things.target.gnu or not re.match(r"\.[*/]|\./", text):
        raise Misfit("an expression for a part of the path")
    return [f"-regex {found[0].quoted}"]


def _owner(things: Things, name: Sequence[Value] = ()) -> Sequence[str]:
    if not name or name[0].text.lower() in ("me", "myself"):
        return ['-user "$(id -un)"']
    return _word("-user")(things, name)


def _word(option: str) -> Make:
    """Return what makes a test with one name."""

    def test(_: Things, name: Sequence[Value]) -> list[str]:
        return [f"{option} {name[0].quoted}"]

    return test


def _executable(things: Things) -> list[str]:
    return ["-executable" if things.target.gnu else "-perm +111"]


def _for_me(test: str) -> Make:
    """Return what tests whether the user may do something with a file, which only GNU find can."""

    def make(things: Things) -> list[str]:
        if not things.target.gnu:
            raise Misfit("this find cannot tell")
        return [test]

    return make


#: What the predicates of clauses.toml add to the tests of find that effects.toml does not say.
_OWN: Final[dict[str, Make]] = {
    "name": called,
    "begins": _names("{}*"),
    "ends": _names("*{}"),
    "contains": _names("*{}*"),
    "contains_but": lambda _, one, other: [
        *_names("*{}*")(_, one),
        *(f"-not {test}" for test in _names("*{}*")(_, other[:1])),
    ],
    "extension": extensions,
    "larger": _size("+"),
    "smaller": _size("-"),
    "at_least": _at_least,
    "at_most": _at_most,
    "size": _size(""),
    "sized": _between_sizes,
    "within": _time("-"),
    "before": _time("+"),
    "ago": _time(""),
    "today": _today,
    "at_least_ago": _at_least_ago,
    "spanned": _spanned,
    "newer": _newer,
    "dated": _dated,
    "dated_before": _dated,
    "holds_but": _holds_but,
    "lets": _lets,
    "regex": _regex,
    "like_path": lambda _, found: _any("-path", [one.text for one in found]),
    "owner": _owner,
    "group": _word("-group"),
    "mode": _word("-perm"),
    "executable": _executable,
    "may_write": _for_me("-writable"),
    "may_read": _for_me("-readable"),
    "inode": lambda _, number: [f"-inum {number[0].number}"],
    "path": lambda _, found: _any("-path", [f"*{one.glob}*" for one in found]),
}


def predicates() -> dict[str, Make]:
    """Return what each predicate of clauses.toml adds to the tests of find."""
    return {name: partial(_flat, test) for name, test in data("effects")["tests"].items()} | _OWN


def _flat(test: str, _: Things) -> list[str]:
    return [test]
