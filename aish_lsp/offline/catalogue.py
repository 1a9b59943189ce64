"""What the table knows, for ``:help offline``: its families, and the intents that a text names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from aish_lsp.offline.choosing import render
from aish_lsp.offline.ranking import Ranking, ranking
from aish_lsp.offline.table import Intent
from aish_lsp.offline.words import words

#: How many intents are shown at once, and how many phrasings are searched for a text.
_PAGE: Final = 20
_SEARCHED: Final = 400


def catalogue(text: str = "") -> str:
    """Return the families of the table, or what it knows about ``text``, in Markdown.

    ``text`` is the name of a family or some words; a number at its end is a page.
    """
    known = ranking()
    asked, _, last = text.rpartition(" ")
    page = int(last) if asked and last.isdigit() and len(last) < 4 else 1
    asked = asked if page > 1 or last == "1" else text
    if not asked.strip():
        return "\n".join(_families(known))
    found = _of_family(known, asked) or _about(known, asked)
    if not found:
        return f"The offline model knows nothing about *{asked.strip()}*."
    first = (max(page, 1) - 1) * _PAGE
    lines = [_line(intent) for intent in found[first : first + _PAGE]]
    if len(found) > first + _PAGE:
        more = len(found) - first - _PAGE
        lines.append(f"\n{more} more: `:help offline {asked.strip()} {page + 1}`")
    return "\n".join(lines) or f"There are only {len(found)}."


def _families(known: Ranking) -> Iterator[str]:
    table = known.table
    yield f"The offline model knows {len(table.intents)} everyday tasks in the shell:\n"
    families = [intent.family for intent in table.intents]
    for family, title in table.titles.items():
        yield f"- `:help offline {family}` {title} ({families.count(family)})"
    yield "\n`:help offline TEXT` searches them: `:help offline disk space`."


def _of_family(known: Ranking, name: str) -> Sequence[Intent]:
    return [one for one in known.table.intents if one.family == name.strip().lower()]


def _about(known: Ranking, text: str) -> Sequence[Intent]:
    """Return the intents with a phrasing that has all the words of ``text``, or else most of it."""
    terms = {term for word in words().plain(text).lower().split() if (term := words().term(word))}
    numbers = known.nearest(terms, _SEARCHED)
    said = {number: len(terms & set(known.table.phrasings.terms(number))) for number in numbers}
    most = max(said.values(), default=0)
    chosen = (
        known.table.phrasings[number].intent for number in numbers if said[number] == most > 0
    )
    return [known.table.intents[number] for number in dict.fromkeys(chosen)]


def _line(intent: Intent) -> str:
    command = f": `{render(intent.ways[-1].run[0], intent.defaults)}`" if intent.ways else ""
    return f"- {intent.does.rstrip('.')}{command}"
