"""What kind a question is, by the rules in ``routing.toml``; and which model it is addressed to.

The rules look for English words, and for shapes that any language has: fences, stack traces,
paths, commands.
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

#: Characters of a question's beginning, and of its end, that are looked at. What is pasted between
#: them may be of any length.
_ENDS: Final = 500


@dataclass(frozen=True, slots=True)
class Classified:
    """The class that a question was put into, and why, as the end of a sentence: "It ..."."""

    class_: QuestionClass
    why: str


def _rules() -> Iterator[tuple[Classified, re.Pattern[str]]]:
    """Yield the rules of the table, each with the pattern that makes it apply."""
    table = tomllib.loads(Path(__file__).with_name("routing.toml").read_text("utf-8"))
    for rule in table["rules"]:
        patterns = list(rule.get("shapes", ()))
        if "words" in rule:
            patterns.append(rf"\b(?:{'|'.join(rule['words'])})\b")
        pattern = "|".join(patterns)
        for name in ("commands", "words_too", "suffixes"):
            pattern = pattern.replace(name.upper(), "|".join(table[name]))
        yield Classified(rule["class"], rule["why"]), re.compile(pattern, re.MULTILINE)


#: The table, for questions in lower case.
RULES: Final = tuple(_rules())

_OTHERWISE: Final = Classified("chat", "has nothing of the other classes")


def classify(question: str) -> Classified:
    """Return the class of a question, by the first rule that applies."""
    if len(question) > 2 * _ENDS:
        question = f"{question[:_ENDS]}\n{question[-_ENDS:]}"
    lower = question.lower()
    return next((found for found, pattern in RULES if pattern.search(lower)), _OTHERWISE)


def addressed(question: str, names: Iterable[str]) -> tuple[str | None, str]:
    """Return the model that ``@NAME ...`` names at the beginning, and the question without it.

    ``@`` is part of the question unless one of ``names``, a blank and a question follow it.
    """
    if not question.startswith("@"):
        return None, question
    for name in names:
        rest = question[1:].removeprefix(name) if name and question[1:].startswith(name) else ""
        if rest[:1].isspace() and rest.strip():
            return name, rest.lstrip()
    return None, question
