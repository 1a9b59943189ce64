"""Commands derived from the shell's grammar: each place with each form and a payload.

The places and the forms are data (``places.toml``, ``payloads.toml``); what is derived is the same
with every run. Each command has a kind, which names its place and its form.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
_SLOTS: Final = ("<W>", "<I>", "<C>")


@dataclass(frozen=True, slots=True)
class Case:
    """A command that hides something, and the kind of its hiding.

    Attributes:
        kind: what it is that hides, and in which form.
        command: the command.
        setting: what the folder holds besides (``settings_traps``).
    """

    kind: str
    command: str
    setting: str = ""


def from_grammar() -> Iterator[Case]:
    """Yield all commands that the grammar gives, without one twice."""
    return _once(
        chain(
            _words_in_places(),
            _words_in_expansions(),
            _expansions_in_expansions(),
            _indexes_in_places(),
            _commands_in_places(),
            _commands_in_words(),
            _computed_options(),
        )
    )


def one_of_each_place() -> Iterator[Case]:
    """Yield each place once, with the plainest form of all and a payload that leaves ``mark``."""
    for table, slot, form in (
        ("words", "<W>", "$(touch mark)"),
        ("expansions", "<W>", "$(touch mark)"),
        ("calculated", "<I>", "a[$(touch mark)]"),
        ("commands", "<C>", "touch mark"),
    ):
        for kind, templates in _places()[table].items():
            for template in templates:
                text = f"echo {template}" if table == "expansions" else template
                word = "$(touch mark)" if "<W>" in text else form
                yield Case(kind, fill(text, word if slot == "<I>" else form))


# --- the products --------------------------------------------------------------------------------


def _words_in_places() -> Iterator[Case]:
    for kind, template in _flat("words"):
        for form, fragment in _forms("words"):
            yield _case(f"{kind}: {form}", template, fragment)


def _words_in_expansions() -> Iterator[Case]:
    """Yield every expansion in every place, with one of the two plainest forms."""
    for at, (kind, template) in enumerate(_flat("words")):
        for number, (expansion, inner) in enumerate(_flat("expansions")):
            form = ("$(<C>)", "`<C>`")[(at + number) % 2]
            yield _case(f"{kind}: {expansion}", template, inner.replace("<W>", form))


def _expansions_in_expansions() -> Iterator[Case]:
    for number, (kind, outer) in enumerate(_flat("expansions")):
        for form, fragment in _forms("words"):
            yield _case(f"{kind}: {form}", ("echo <W>", "ls -la <W>")[number % 2], outer, fragment)
        for expansion, inner in _flat("expansions"):
            yield _case(f"{kind}: {expansion}", 'echo "<W>"', outer, inner, "`<C>`")


def _indexes_in_places() -> Iterator[Case]:
    for kind, template in _flat("calculated"):
        for form, fragment in _forms("indexes" if "<I>" in template else "words"):
            yield _case(f"{kind}: {form}", template, fragment)
    for kind in ("arithmetic", "test", "assignment", "array", "declaration", "here-string"):
        for template in _places()["words"][kind]:
            for form, fragment in list(_forms("indexes"))[:4]:
                yield _case(f"{kind}: {form}", template, fragment)


def _commands_in_places() -> Iterator[Case]:
    for kind, template in _flat("commands"):
        for payload in _payloads():
            yield Case(kind, fill(template, payload))
        for at, (form, text) in enumerate(_forms("commands")):
            yield Case(f"{kind}: {form}", fill(template, _disguise(text, at)))


def _commands_in_words() -> Iterator[Case]:
    """Yield disguised commands in a substitution: a third of the forms in each place."""
    for number, (kind, template) in enumerate(_flat("words")):
        for at, (form, text) in enumerate(_forms("commands")):
            if (at + number) % 3 == 0:
                command = _disguise(text, at + number)
                yield Case(f"{kind}: $(c), {form}", fill(template, f"$({command})"))


def _computed_options() -> Iterator[Case]:
    """Yield commands that would be safe, but for a word that is computed."""
    for template, value in _given()["needed"].items():
        middle = max(1, len(value) // 2)
        for way, (before, word) in _given()["computed"].items():
            command = before + template.replace("<O>", word)
            for slot, text in (("<V1>", value[:middle]), ("<V2>", value[middle:]), ("<V>", value)):
                command = command.replace(slot, text)
            yield Case(f"computed word: {way}", command)


# --- filling in ----------------------------------------------------------------------------------


def fill(template: str, text: str) -> str:
    """Return ``template`` with ``text`` in its slots; quoted where a slot alone is quoted."""
    slot = next(slot for slot in _SLOTS if slot in template)
    if "'" in text:
        template = template.replace(f"'{slot}'", shlex.quote(text))
    return template.replace(slot, text)


def _case(kind: str, template: str, *fragments: str) -> Case:
    """Return a place with fragments in each other, and a payload in the innermost."""
    for fragment in fragments:
        template = fill(template, fragment)
    payloads = _payloads()
    return Case(kind, fill(template, payloads[_number(template) % len(payloads)]))


def _disguise(form: str, at: int) -> str:
    """Return a plain payload in a form that hides its name."""
    simple = [text for text in _payloads() if not set(text) & set("<>&")]
    name, _, rest = simple[at % len(simple)].partition(" ")
    middle = max(1, len(name) // 2)
    parts = {
        "<N1>?[<LAST>]": f"{name[:-2]}?[{name[-1]}]" if len(name) > 2 else f"?[{name[-1]}]",
        "<N>": name,
        "<R>": rest,
        "<N1>": name[:middle],
        "<N2>": name[middle:],
        "<HEX>": "".join(f"\\x{ord(letter):02x}" for letter in name),
        "<UPPER>": name.upper(),
        "<BACK>": name[::-1],
    }
    if form.startswith("{"):
        parts["<R>"] = rest.replace(" ", ",")
    for slot, text in parts.items():
        form = form.replace(slot, text)
    return form


def _number(text: str) -> int:
    """Return a number that is the same for the same text, in every run."""
    return sum(text.encode()) + len(text)


@cache
def _places() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((HERE / "places.toml").read_text(encoding="utf-8"))


@cache
def _given() -> dict[str, Any]:
    return tomllib.loads((HERE / "payloads.toml").read_text(encoding="utf-8"))


def _payloads() -> list[str]:
    payloads: list[str] = _given()["payloads"]
    return payloads


def _forms(table: str) -> Iterable[tuple[str, str]]:
    forms: dict[str, str] = _given()[table]
    return forms.items()


@cache
def _flat(table: str) -> tuple[tuple[str, str], ...]:
    return tuple((kind, text) for kind, texts in _places()[table].items() for text in texts)


def _once(cases: Iterable[Case]) -> Iterator[Case]:
    seen: set[str] = set()
    for case in cases:
        if case.command not in seen:
            seen.add(case.command)
            yield case
