"""Composes a command from the clauses of a question: which things, what of them, what to do.

Every word of the question has to be accounted for by a clause; if one is not, nothing is composed.
"""

from aish_lsp.offline.compose.files import compose_files
from aish_lsp.offline.compose.grammar import Composed, Misfit, Toolset
from aish_lsp.offline.compose.lines import compose_lines
from aish_lsp.offline.compose.named import compose_named
from aish_lsp.offline.words import words
from aish_lsp.offline.workspace import WorkspaceFacts

__all__ = ["Composed", "compose"]


def compose(sentence: str, world: WorkspaceFacts) -> Composed | None:
    """Return the command that does what all of ``sentence`` says, or None if that is not clear."""
    text, target = words().bare(sentence), Toolset(world)
    for composer in (compose_named, compose_lines, compose_files):
        try:
            return composer(text, target)
        except Misfit:
            continue
    return None
