"""What kind of question one is, by the rules in ``routing.toml``; and whom a question is for.

The rules look at words in English, and at shapes in any language: fences, stack traces, paths,
commands.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aish_lsp.config.schema import QuestionClass

#: Characters that are looked at, of the beginning and of the end of a question. What is pasted
#: between them may be of any length.
_ENDS: Final = 500


@dataclass(frozen=True, slots=True)
class Classified:
    """The class that a question was taken for, and why: the end of "It ..."."""

    class_: QuestionClass
    why: str


def _rules() -> Iterator[tuple[Classified, re.Pattern[str]]]:
    """Yield the rules of the table, each with what makes it fit."""
    table = tomllib.loads(Path(__file__).with_name("routing.toml").read_text("utf-8"))
    for rule in table["rules"]:
        patterns = list(rule.get("shapes", ()))
        if "words" in rule:
            patterns.append(rf"\b(?:{'|'.join(rule['words'])})\b")
        pattern = "|".join(patterns)
        for name in ("commands", "words_too", "suffixes"):
            pattern = pattern.replace(name.upper(), "|".join(table[name]))
        yield Classified(rule["class"], rule["why"]), re.compile(pattern, re.MULTILINE)


#: The table, for questions in small letters.
RULES: Final = tuple(_rules())

_OTHERWISE: Final = Classified("chat", "has nothing of the other classes")


def classify(question: str) -> Classified:
    """Return what kind of question this is, by the first rule that fits."""
    if len(question) > 2 * _ENDS:
        question = f"{question[:_ENDS]}\n{question[-_ENDS:]}"
    lower = question.lower()
    return next((found for found, pattern in RULES if pattern.search(lower)), _OTHERWISE)


def addressed(question: str, names: Iterable[str]) -> tuple[str | None, str]:
    """Return the model that ``@NAME ...`` names at the beginning, and the question without it.

    ``@`` with anything but one of ``names`` and a blank behind it is part of the question; so is
    one with no question behind it.
    """
    if not question.startswith("@"):
        return None, question
    for name in names:
        rest = question[1:].removeprefix(name) if name and question[1:].startswith(name) else ""
        if rest[:1].isspace() and rest.strip():
            return name, rest.lstrip()
    return None, question
