"""Composes a command from the clauses of a question: which things, what of them, what to do.

Every word of the question has to be accounted for by a clause; if one is not, nothing is composed.
"""

from collections.abc import Sequence

from aish_lsp.offline.compose.files import says_which_files
from aish_lsp.offline.compose.following import conversed
from aish_lsp.offline.compose.grammar import Composed, Toolset
from aish_lsp.offline.spelling import corrected
from aish_lsp.offline.words import words
from aish_lsp.offline.workspace import WorkspaceFacts

__all__ = ["Composed", "compose", "has_clauses"]


def compose(sentence: str, world: WorkspaceFacts, earlier: Sequence[str] = ()) -> Composed | None:
    """Return the command that does what all of ``sentence`` says, or None if that is not clear.

    It may go on from the sentences ``earlier``, the oldest first: "find all logs", "only in src".
    """
    sentences = [words().bare(one) for one in (*earlier, sentence)]
    asked = conversed(sentences, Toolset(world))
    if asked is None and (spelled := corrected(sentences[-1], world)) != sentences[-1]:
        asked = conversed([*sentences[:-1], spelled], Toolset(world))
    return asked.composed if asked else None


def has_clauses(sentence: str, world: WorkspaceFacts) -> bool:
    """Return whether a sentence has clauses for files: what is not composed would drop one."""
    return says_which_files(words().bare(sentence), Toolset(world))
